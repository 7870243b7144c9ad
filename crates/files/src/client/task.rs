//! The client's thread: the connection to the server, and what goes over it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_engine::{Body, Outgoing, Socket};
use pinnace_eventloop::{Next, Task};

use crate::dialogue::Event;
use crate::dialogue::events::EventSender;
use crate::dialogue::mounts::Mounts;
use crate::dialogue::operation::Operation;
use crate::dialogue::provider::{Outlet, Provider, Turn};
use crate::dialogue::requester::{Limits, Requester};
use crate::error::Error;
use crate::server::taken;
use crate::tree::Folder;
use crate::wire::{Headers, Message, Mode, Request};

/// Frames that are handled, and chunks that are sent, in one turn of the loop.
const TURN: usize = 64;

/// How often a frame is tried again for which the connection has no room.
const RETRY: Duration = Duration::from_millis(2);

/// How often in a row the server may not understand a request.
const COMPLAINTS_MAX: u32 = 3;

/// What the client's thread is told.
pub enum Command {
    Start { operation: u64, what: Box<dyn Operation>, offer: Option<Offer> },
    Cancel { operation: u64 },
}

/// A folder that the server may read during an upload.
pub struct Offer {
    pub alias: String,
    pub folder: Arc<dyn Folder>,
    pub events: EventSender,
}

/// Settings of a client.
#[derive(Clone)]
pub struct Settings {
    /// How long the server may take to answer a greeting.
    pub patience: Duration,
    pub limits: Limits,
}

/// The connection to a server.
pub struct ClientTask {
    wire: Wire,
    endpoint: String,
    settings: Settings,
    /// The last greeting: its request's number, and when it was sent.
    greeting: Option<(u32, Instant)>,
    failed: bool,
    /// What the server has not understood, since it last did.
    complaint: Option<String>,
    /// How often it has not understood a request, since it last answered one.
    complaints: u32,
    requester: Requester,
    provider: Provider,
    mounts: Mounts,
    /// Uploads that are under way.
    offers: Vec<(u64, Offer)>,
}

/// The socket.
struct Wire(Socket);

impl Outlet for Wire {
    fn send(&self, frame: Body) -> Result<(), Body> {
        match self.0.send(Outgoing::Body(frame.clone()), false, false) {
            Err(pinnace_engine::Error::WouldBlock) => Err(frame),
            _ => Ok(()),
        }
    }
}

impl ClientTask {
    pub fn new(socket: Socket, endpoint: &str, settings: Settings) -> ClientTask {
        let (greeting, failed, complaint, complaints, mounts, offers) = Default::default();
        ClientTask {
            wire: Wire(socket),
            endpoint: endpoint.to_owned(),
            requester: Requester::new(settings.limits),
            settings,
            greeting,
            failed,
            complaint,
            complaints,
            // The server follows nothing of what a client offers.
            provider: Provider::new(Arc::new(|| {})),
            mounts,
            offers,
        }
    }

    fn on_frame(&mut self, frame: &[u8]) {
        match Message::read(frame) {
            // This client's own greeting comes back from the socket when it has connected again.
            Ok(Message::Ohai { .. }) => self.begin_again(),
            Ok(Message::Cheezburger(burger)) if !self.requester.is_open() => {
                let answered = Headers::read(burger.headers).ok().and_then(|headers| headers.request);
                if answered.is_some() && answered == self.greeting.map(|(number, _)| number) {
                    self.complaint = None;
                    self.requester.open(Instant::now());
                }
            }
            Ok(Message::Cheezburger(burger)) => match self.requester.on_chunk(burger, Instant::now()) {
                Ok(true) => self.complaints = 0,
                Ok(false) => {}
                Err(what) => self.end_all(&|| Error::Protocol(what.clone())),
            },
            Ok(Message::Nom { credit, .. }) => self.provider.on_nom(credit),
            Ok(Message::Icanhaz { path, options, .. }) => {
                if let Some(Ok(request)) = Request::read(path, options) {
                    self.provider.on_request(&request, &self.mounts);
                }
            }
            Ok(Message::HugzOk) => self.requester.on_pong(),
            Ok(Message::Hugz) => self.provider.say(&Message::HugzOk),
            Ok(Message::Srsly { reason }) => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                self.end_all(&|| Error::Refused(reason.clone()));
            }
            Ok(Message::Rtfm { reason }) => self.on_complaint(String::from_utf8_lossy(reason).into_owned()),
            Ok(_) | Err(_) => {}
        }
    }

    /// A server that was restarted gets what was on its way to the one before, and complains.
    fn on_complaint(&mut self, reason: String) {
        self.complaint = Some(reason.clone());
        if !self.requester.is_open() {
            return;
        }
        self.complaints += 1;
        match self.complaints > COMPLAINTS_MAX {
            false => self.begin_again(),
            true => self.end_all(&|| Error::Protocol(reason.clone())),
        }
    }

    fn greet(&mut self) {
        let number = self.requester.next_number();
        self.greeting = Some((number, Instant::now()));
        self.provider.say(&Message::GREETING);
        self.provider.push(Request::new(number, Mode::Greet, b"/").to_frame());
    }

    /// A new connection, or a server that was restarted: it knows nothing of this client.
    fn begin_again(&mut self) {
        self.provider.reset();
        self.requester.begin_again();
        self.greet();
    }

    fn end_all(&mut self, error: &dyn Fn() -> Error) {
        self.failed = true;
        self.requester.abort(error);
    }

    /// Ends the offers of uploads that are over, and tells the others how much was sent.
    fn tend_offers(&mut self) {
        let (requester, mounts, bytes) = (&self.requester, &mut self.mounts, self.provider.take_sent());
        self.offers.retain(|(operation, offer)| {
            if bytes > 0 {
                let _ = offer.events.send(vec![Event::Progress { bytes }]);
            }
            let is_open = requester.has(*operation);
            if !is_open {
                mounts.remove(offer.alias.as_bytes());
            }
            is_open
        });
    }

    /// Sends what there is, as far as the server has granted credit.
    fn send(&mut self) -> Next {
        self.requester.take_frames().into_iter().for_each(|frame| self.provider.push(frame));
        for _ in 0..TURN {
            match self.provider.turn(&self.wire) {
                Turn::More => {}
                Turn::Idle => return Next::Wait(None),
                Turn::Blocked => return Next::Wait(Some(Instant::now() + RETRY)),
            }
        }
        Next::Now
    }
}

impl Task for ClientTask {
    type Token = ();
    type Command = Command;

    fn on_ready(&mut self, (): ()) {
        for _ in 0..TURN {
            let mut frame: Option<Body> = None;
            match self.wire.0.recv(false, &mut |part| frame = Some(taken(part))) {
                Ok(false) => {}
                // No command has several frames.
                Ok(true) => continue,
                Err(_) => return,
            }
            if let Some(frame) = frame {
                self.on_frame(&frame);
                // Credit goes out while further chunks are handled.
                self.requester.take_frames().into_iter().for_each(|frame| self.provider.push(frame));
                self.provider.flush(&self.wire);
            }
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Start { operation, what, offer } => {
                if let Some(offer) = offer {
                    // The alias is this client's own: it is valid, and no other has it.
                    let _ = self.mounts.add(offer.alias.as_bytes(), offer.folder.clone(), false);
                    self.offers.push((operation, offer));
                }
                self.requester.start(operation, what);
            }
            Command::Cancel { operation } => self.requester.cancel(operation),
        }
    }

    fn work(&mut self) -> Next {
        if self.greeting.is_none() {
            self.greet();
        }
        let next = self.send();
        self.tend_offers();
        let greeted_at =
            self.greeting.map(|(_, at)| at).filter(|_| !self.requester.is_open() && !self.failed);
        let until = greeted_at.map(|at| at + self.settings.patience);
        if until.is_some_and(|until| Instant::now() >= until) {
            let (endpoint, complaint) = (self.endpoint.clone(), self.complaint.take());
            self.end_all(&|| match &complaint {
                Some(complaint) => Error::Protocol(complaint.clone()),
                None => Error::NoServer(endpoint.clone()),
            });
            return Next::Now;
        }
        match next {
            Next::Wait(at) => Next::Wait(at.into_iter().chain(until).min()),
            Next::Now => Next::Now,
        }
    }
}

impl Drop for ClientTask {
    fn drop(&mut self) {
        self.provider.say(&Message::Kthxbai);
        self.provider.flush(&self.wire);
        let _ = self.wire.0.close();
    }
}
