//! The dialogue with the server, on a thread of its own: what is asked for, hashed and written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_eventloop::{Next, Task};

use super::connection::{Received, Shared};
use crate::clock;
use crate::dialogue::Event;
use crate::dialogue::events::EventSender;
use crate::dialogue::mounts::Mounts;
use crate::dialogue::operation::Operation;
use crate::dialogue::plain::PlainRequester;
use crate::dialogue::provider::{Provider, Turn};
use crate::dialogue::requester::{Limits, Requester};
use crate::error::Error;
use crate::tree::Folder;
use crate::wire::{Headers, Message, Mode, Request};

/// Frames that are handled, and chunks that are sent, in one turn of the loop.
const TURN: usize = 64;

/// How often in a row the server may not understand a request.
const COMPLAINTS_MAX: u32 = 3;

/// Why a client with a domain does not use a server.
const NO_DOMAIN: &str = "it has no domain";
const NOT_ADMITTED: &str = "the handshake fails; it expects another key, password or mechanism";

/// What the client's thread is told.
pub enum Command {
    Start {
        operation: u64,
        what: Box<dyn Operation>,
        offer: Option<Offer>,
    },
    Cancel {
        operation: u64,
    },
    /// The program has read what an operation gave it.
    Collect {
        operation: u64,
    },
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
    /// The domain that the server has to have; empty: none.
    pub domain: String,
}

/// Why no transfer is possible. The next one tries again.
#[derive(Clone)]
enum Failure {
    NoServer(String),
    Refused(String),
    Protocol(String),
}

impl Failure {
    fn error(&self) -> Error {
        match self.clone() {
            Failure::NoServer(endpoint) => Error::NoServer(endpoint),
            Failure::Refused(reason) => Error::Refused(reason),
            Failure::Protocol(what) => Error::Protocol(what),
        }
    }
}

/// The dialogue with a server.
pub struct ClientTask {
    connection: Arc<Shared>,
    endpoint: String,
    settings: Settings,
    /// The last greeting: its request's number, and when it was sent.
    greeting: Option<(u32, Instant)>,
    /// Why no transfer is possible.
    failure: Option<Failure>,
    /// The server has answered OHAI since.
    is_answered: bool,
    /// Requests that were answered by ICANHAZ-OK.
    answered: u64,
    /// Present if the server does not know the extensions.
    plain: Option<PlainRequester>,
    /// What the server has not understood, since it last did.
    complaint: Option<String>,
    /// How often it has not understood a request, since it last answered one, on this connection.
    complaints: u32,
    requester: Requester,
    provider: Provider,
    mounts: Mounts,
    /// Uploads that are under way.
    offers: Vec<(u64, Offer)>,
}

impl ClientTask {
    pub fn new(connection: Arc<Shared>, endpoint: &str, settings: Settings) -> ClientTask {
        let (greeting, failure, is_answered, answered, plain) = Default::default();
        let (complaint, complaints, mounts, offers) = Default::default();
        // A server does not follow paths of a client, so no change wakes this provider.
        let mut provider = Provider::new(Arc::new(|| {}));
        settings.limits.rate.into_iter().for_each(|rate| provider.limit(rate));
        ClientTask {
            connection,
            endpoint: endpoint.to_owned(),
            requester: Requester::new(settings.limits),
            settings,
            greeting,
            failure,
            is_answered,
            answered,
            plain,
            complaint,
            complaints,
            provider,
            mounts,
            offers,
        }
    }

    fn on_frame(&mut self, frame: &[u8]) {
        match Message::read(frame) {
            // This client's own greeting comes back from the socket when it has connected again. The server complains
            // of frames that were made for the connection before; such complaints do not count.
            Ok(Message::Ohai { .. }) => {
                (self.complaint, self.complaints) = (None, 0);
                self.begin_again();
            }
            Ok(Message::OhaiOk) => self.on_answer(),
            // An answer to a request, perhaps one of an earlier connection.
            Ok(Message::IcanhazOk) if self.answered < self.requester.sent() => self.answered += 1,
            // A server with the extensions answers a greeting by another command.
            Ok(Message::IcanhazOk) if self.is_answered && !self.is_open() => self.be_plain(),
            Ok(Message::Cheezburger(burger)) if self.plain.is_some() => {
                let outcome = self.plain.as_mut().map_or(Ok(()), |plain| plain.on_chunk(&burger));
                outcome.unwrap_or_else(|what| self.end_all(Failure::Protocol(what)));
            }
            Ok(Message::Cheezburger(burger)) if !self.requester.is_open() => {
                let headers = Headers::read(burger.headers).unwrap_or_default();
                let greeting = self.greeting.map(|(number, _)| number);
                match headers.domain == self.settings.domain.as_bytes() {
                    _ if headers.request.is_none() || headers.request != greeting => {}
                    true => {
                        (self.complaint, self.failure) = (None, None);
                        self.requester.open(clock::now());
                    }
                    false => self.end_all(Failure::Refused(NO_DOMAIN.to_owned())),
                }
            }
            Ok(Message::Cheezburger(burger)) => match self.requester.on_chunk(burger, clock::now()) {
                Ok(true) => self.complaints = 0,
                Ok(false) => {}
                Err(what) => self.end_all(Failure::Protocol(what)),
            },
            // The server has not answered the last greeting yet: it is about the session before.
            Ok(Message::Nom { .. } | Message::Icanhaz { .. }) if !self.requester.is_open() => {}
            Ok(Message::Nom { credit, .. }) => self.provider.on_nom(credit),
            Ok(Message::Icanhaz { path, options, .. }) => match Request::read(path, options) {
                Some(Ok(request)) => self.provider.on_request(&request, &self.mounts),
                Some(Err(what)) => self.end_all(Failure::Protocol(what.to_owned())),
                None => {}
            },
            Ok(Message::HugzOk) => self.requester.on_pong(),
            Ok(Message::Hugz) => self.provider.say(&Message::HugzOk),
            Ok(Message::Srsly { reason }) => {
                self.end_all(Failure::Refused(String::from_utf8_lossy(reason).into_owned()));
            }
            Ok(Message::Rtfm { reason }) => self.on_complaint(String::from_utf8_lossy(reason).into_owned()),
            Ok(_) | Err(_) => {}
        }
    }

    /// The server may be asked.
    fn is_open(&self) -> bool {
        self.requester.is_open() || self.plain.as_ref().is_some_and(PlainRequester::is_open)
    }

    fn on_answer(&mut self) {
        self.is_answered = true;
        if let Some(plain) = &mut self.plain {
            (self.complaint, self.failure) = (None, None);
            plain.open();
        }
    }

    /// The server does not know the extensions: it took the greeting's request for a subscription, which a new session
    /// ends.
    fn be_plain(&mut self) {
        if self.plain.is_some() {
            return;
        }
        if !self.settings.domain.is_empty() {
            return self.end_all(Failure::Refused(NO_DOMAIN.to_owned()));
        }
        let mut plain = PlainRequester::default();
        for (operation, what) in self.requester.take_operations() {
            plain.start(operation, what);
        }
        self.plain = Some(plain);
        self.greet();
    }

    /// A server that was restarted gets what was on its way to the one before, and complains.
    fn on_complaint(&mut self, reason: String) {
        self.complaint = Some(reason.clone());
        if self.plain.is_some() {
            return self.end_all(Failure::Protocol(reason));
        }
        if !self.requester.is_open() {
            return;
        }
        self.complaints += 1;
        match self.complaints > COMPLAINTS_MAX {
            false => self.begin_again(),
            true => self.end_all(Failure::Protocol(reason)),
        }
    }

    fn greet(&mut self) {
        let number = self.requester.next_number();
        (self.greeting, self.is_answered) = (Some((number, clock::now())), false);
        if let Some(plain) = &mut self.plain {
            return plain.begin_again();
        }
        self.provider.say(&Message::GREETING);
        let domain = self.settings.domain.clone().into_bytes();
        self.provider.push(Request { domain, ..Request::new(number, Mode::Greet, b"/") }.to_frame());
    }

    /// A new connection, or a server that was restarted: it knows nothing of this client.
    fn begin_again(&mut self) {
        self.provider.clear();
        self.connection.outbox.clear();
        self.requester.begin_again();
        self.greet();
    }

    fn end_all(&mut self, failure: Failure) {
        self.requester.abort(&|| failure.error());
        self.plain.iter_mut().for_each(|plain| plain.abort(&|| failure.error()));
        self.failure = Some(failure);
    }

    /// The server does not answer any more: paths that are followed wait for it.
    fn lose_all(&mut self, failure: Failure) {
        self.requester.server_lost(&|| failure.error());
        self.plain.iter_mut().for_each(|plain| plain.server_lost(&|| failure.error()));
        self.failure = Some(failure);
    }

    /// Ends the offers of uploads that are over, and tells the others how much was sent.
    fn tend_offers(&mut self) {
        let (requester, mounts, bytes) = (&self.requester, &mut self.mounts, self.provider.take_sent());
        self.offers.retain(|(operation, offer)| {
            if bytes > 0 {
                offer.events.tell(Event::Progress { bytes });
            }
            let is_open = requester.has(*operation);
            if !is_open {
                mounts.remove(offer.alias.as_bytes());
            }
            is_open
        });
    }

    fn push_frames(&mut self) {
        let plain = self.plain.iter_mut().flat_map(PlainRequester::take_frames);
        self.requester.take_frames().into_iter().chain(plain).for_each(|frame| self.provider.push(frame));
    }

    /// Handles frames that were received. Returns true if there may be more.
    fn receive(&mut self) -> bool {
        for _ in 0..TURN {
            match self.connection.receive() {
                Some(Received::Frame(frame)) => self.on_frame(&frame),
                Some(Received::TooMuch) => {
                    self.end_all(Failure::Protocol("more octets than the client allows at once".to_owned()));
                }
                None => return false,
            }
            // Credit goes out while further chunks are handled.
            self.push_frames();
            self.provider.flush(&self.connection.outbox);
            self.connection.send();
        }
        true
    }

    /// Sends what there is, as far as the server has granted credit.
    fn send(&mut self) -> Next {
        self.requester.on_due(clock::now());
        let released_at = self.requester.release(clock::now());
        self.push_frames();
        for _ in 0..TURN {
            let turn = self.provider.turn(&self.connection.outbox);
            self.connection.send();
            match turn {
                Turn::More => {}
                Turn::Idle => {
                    let others = self.provider.next_due().into_iter().chain(self.requester.due());
                    return Next::Wait(released_at.into_iter().chain(others).min());
                }
                // The connection wakes this task when there is room.
                Turn::Blocked => return Next::Wait(None),
            }
        }
        Next::Now
    }
}

impl Task for ClientTask {
    type Token = ();
    type Command = Command;

    fn on_ready(&mut self, (): ()) {}

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Start { operation, what, offer } => {
                // The server may answer by now.
                if self.failure.take().is_some() {
                    self.begin_again();
                }
                if let Some(offer) = offer {
                    // The alias is this client's own: it is valid, and no other has it.
                    let _ = self.mounts.add(offer.alias.as_bytes(), offer.folder.clone(), false);
                    self.offers.push((operation, offer));
                }
                match &mut self.plain {
                    Some(plain) => plain.start(operation, what),
                    None => self.requester.start(operation, what),
                }
            }
            Command::Cancel { operation } => {
                self.requester.cancel(operation);
                self.plain.iter_mut().for_each(|plain| plain.cancel(operation));
            }
            Command::Collect { operation } => self.requester.collect(operation),
        }
    }

    fn work(&mut self) -> Next {
        if self.greeting.is_none() {
            self.greet();
        }
        let has_received = self.receive();
        let is_busy = self.plain.as_mut().is_some_and(PlainRequester::work);
        let next = match self.send() {
            Next::Wait(_) if is_busy || has_received => Next::Now,
            next => next,
        };
        self.tend_offers();
        let greeted_at =
            self.greeting.map(|(_, at)| at).filter(|_| !self.is_open() && self.failure.is_none());
        let until = greeted_at.map(|at| at + self.settings.patience);
        if until.is_some_and(|until| clock::now() >= until) {
            // Those that were lost are not answered any more.
            self.answered = self.requester.sent();
            match self.complaint.take() {
                Some(complaint) => self.end_all(Failure::Protocol(complaint)),
                None if self.connection.has_failed_handshakes() => {
                    self.lose_all(Failure::Refused(NOT_ADMITTED.to_owned()));
                }
                None => self.lose_all(Failure::NoServer(self.endpoint.clone())),
            }
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
        self.provider.flush(&self.connection.outbox);
        self.connection.send();
    }
}
