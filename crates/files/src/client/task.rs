//! The client's thread: the dialogue with the server, and the operations that are under way.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use pinnace_engine::{Body, Outgoing, Socket};
use pinnace_eventloop::{Next, Task};

use super::operation::{Asks, Operation, Reply};
use super::window::{Nom, Window};
use crate::error::Error;
use crate::server::taken;
use crate::wire::{Form, Headers, Message, Mode, Request};

/// Frames that are handled in one turn of the loop.
const TURN: usize = 64;

/// The most requests that the server has at once. Each may hold a block's credit, so they are few.
const REQUESTS_MAX: usize = 4;

/// What the client's thread is told.
pub enum Command {
    Start { operation: u64, what: Box<dyn Operation> },
    Cancel { operation: u64 },
}

/// How often in a row the server may not understand a request.
const COMPLAINTS_MAX: u32 = 3;

/// Settings of a client.
#[derive(Clone)]
pub struct Settings {
    /// How long the server may take to answer a greeting.
    pub patience: Duration,
    /// The largest window, in bytes.
    pub window_max: u64,
    /// The most octets of a chunk.
    pub chunk: u32,
}

/// The dialogue with a server.
pub struct ClientTask {
    socket: Socket,
    endpoint: String,
    settings: Settings,
    /// The last greeting: its request's number, and when it was sent.
    greeting: Option<(u32, Instant)>,
    /// The server has answered the last greeting.
    is_ready: bool,
    /// When the round trip's measurement began, if it has not ended.
    pinged_at: Option<Instant>,
    window: Window,
    operations: BTreeMap<u64, Box<dyn Operation>>,
    /// The operation of each request that has not ended.
    requests: HashMap<u32, u64>,
    last_request: u32,
    /// Requests that are not sent yet, and their operations.
    waiting: VecDeque<(u64, Request)>,
    failed: bool,
    /// What the server has not understood, since it last did.
    complaint: Option<String>,
    /// How often it has not understood a request, since it last answered one.
    complaints: u32,
}

impl ClientTask {
    pub fn new(socket: Socket, endpoint: &str, settings: Settings) -> ClientTask {
        let window = Window::new(settings.window_max, u64::from(settings.chunk));
        ClientTask {
            socket,
            endpoint: endpoint.to_owned(),
            settings,
            greeting: None,
            is_ready: false,
            pinged_at: None,
            window,
            operations: BTreeMap::new(),
            requests: HashMap::new(),
            last_request: 0,
            waiting: VecDeque::new(),
            failed: false,
            complaint: None,
            complaints: 0,
        }
    }

    fn send(&mut self, frame: Vec<u8>) {
        // Without a high-water mark it waits in the socket at worst.
        let _ = self.socket.send(Outgoing::Body(frame.into()), false, false);
    }

    fn ask(&mut self, operation: u64, asks: &mut Asks) {
        self.waiting.extend(asks.take().into_iter().map(|request| (operation, request)));
        self.send_requests();
    }

    fn nom(&mut self, (credit, sequence): Nom) {
        self.send(Message::Nom { credit, sequence }.to_frame());
    }

    fn on_frame(&mut self, frame: &[u8]) {
        match Message::read(frame) {
            // This client's own greeting comes back from the socket when it has connected again.
            Ok(Message::Ohai { .. }) => self.begin_again(),
            Ok(Message::Cheezburger(burger)) if !self.is_ready => {
                let answered = Headers::read(burger.headers).ok().and_then(|headers| headers.request);
                if answered.is_some() && answered == self.greeting.map(|(number, _)| number) {
                    self.on_greeted();
                }
            }
            Ok(Message::Cheezburger(burger)) => {
                let headers = match Headers::read(burger.headers) {
                    Ok(headers) => headers,
                    Err(what) => {
                        return self.end_all(&|| Error::Protocol(format!("an invalid header {what}")));
                    }
                };
                let cost = burger.chunk.len() as u64;
                match self.window.receive(cost, Instant::now()) {
                    Ok(nom) => nom.into_iter().for_each(|nom| self.nom(nom)),
                    Err(exceeded) => return self.end_all(&|| Error::Protocol(exceeded.to_string())),
                }
                let settled = self.on_reply(&Reply { burger, headers: &headers });
                if let Some(nom) = self.window.give_back(settled) {
                    self.nom(nom);
                }
            }
            Ok(Message::HugzOk) => {
                if let Some(at) = self.pinged_at.take() {
                    self.window.set_round_trip(at.elapsed());
                }
            }
            Ok(Message::Hugz) => self.send(Message::HugzOk.to_frame()),
            Ok(Message::Srsly { reason }) => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                self.end_all(&|| Error::Refused(reason.clone()));
            }
            // A server that was restarted gets what was on its way to the one before, and complains.
            Ok(Message::Rtfm { reason }) => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                self.complaint = Some(reason.clone());
                self.complaints += u32::from(self.is_ready);
                match (self.is_ready, self.complaints > COMPLAINTS_MAX) {
                    (true, false) => self.begin_again(),
                    (true, true) => self.end_all(&|| Error::Protocol(reason.clone())),
                    (false, _) => {}
                }
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn greet(&mut self) {
        self.last_request = self.last_request.wrapping_add(1);
        self.greeting = Some((self.last_request, Instant::now()));
        self.send(Message::GREETING.to_frame());
        self.send(Request::new(self.last_request, Mode::Greet, b"/").to_frame());
    }

    fn on_greeted(&mut self) {
        (self.is_ready, self.complaint) = (true, None);
        // The answer comes before any content: it tells the round trip.
        self.pinged_at = Some(Instant::now());
        self.send(Message::Hugz.to_frame());
        let first = self.window.first();
        self.nom(first);
        self.send_requests();
    }

    /// Returns the octets that are settled.
    fn on_reply(&mut self, reply: &Reply<'_>) -> u64 {
        let cost = reply.burger.chunk.len() as u64;
        let Some(number) = reply.headers.request else { return cost };
        let Some(operation) = self.requests.get(&number).copied() else { return cost };
        self.complaints = 0;
        if reply.headers.form == Form::End {
            self.requests.remove(&number);
        }
        let Some(what) = self.operations.get_mut(&operation) else { return cost };
        let mut asks = Asks::default();
        let settled = what.on_reply(reply, &mut asks);
        if what.is_over() {
            self.operations.remove(&operation);
        }
        self.ask(operation, &mut asks);
        settled
    }

    /// Sends requests as far as the server may have them at once.
    fn send_requests(&mut self) {
        while self.is_ready && self.requests.len() < REQUESTS_MAX {
            let Some((operation, mut request)) = self.waiting.pop_front() else { return };
            if !self.operations.contains_key(&operation) {
                continue;
            }
            self.last_request = self.last_request.wrapping_add(1);
            (request.number, request.chunk) = (self.last_request, self.settings.chunk);
            self.requests.insert(request.number, operation);
            self.send(request.to_frame());
        }
    }

    /// A new connection, or a server that was restarted: it knows nothing of this client.
    fn begin_again(&mut self) {
        (self.is_ready, self.pinged_at) = (false, None);
        self.window = Window::new(self.settings.window_max, u64::from(self.settings.chunk));
        self.requests.clear();
        self.waiting.clear();
        let numbers: Vec<u64> = self.operations.keys().copied().collect();
        for number in numbers {
            let mut asks = Asks::default();
            if let Some(what) = self.operations.get_mut(&number) {
                what.begin(&mut asks);
            }
            self.ask(number, &mut asks);
        }
        self.greet();
    }

    fn end_all(&mut self, error: &dyn Fn() -> Error) {
        self.failed = true;
        self.requests.clear();
        for (_, mut operation) in std::mem::take(&mut self.operations) {
            operation.abort(error());
        }
    }
}

impl Task for ClientTask {
    type Token = ();
    type Command = Command;

    fn on_ready(&mut self, (): ()) {
        for _ in 0..TURN {
            let mut frame: Option<Body> = None;
            match self.socket.recv(false, &mut |part| frame = Some(taken(part))) {
                Ok(false) => {}
                // No command has several frames.
                Ok(true) => continue,
                Err(_) => return,
            }
            if let Some(frame) = frame {
                self.on_frame(&frame);
            }
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Start { operation, mut what } => {
                let mut asks = Asks::default();
                what.begin(&mut asks);
                self.operations.insert(operation, what);
                self.ask(operation, &mut asks);
            }
            Command::Cancel { operation } => {
                let numbers: Vec<u32> = self
                    .requests
                    .iter()
                    .filter(|(_, of)| **of == operation)
                    .map(|(number, _)| *number)
                    .collect();
                for number in numbers {
                    self.requests.remove(&number);
                    self.send(Request::new(number, Mode::Cancel, b"/").to_frame());
                }
                let settled =
                    self.operations.remove(&operation).map_or(0, |mut what| what.abort(Error::Cancelled));
                if let Some(nom) = self.window.give_back(settled) {
                    self.nom(nom);
                }
                self.send_requests();
            }
        }
    }

    fn work(&mut self) -> Next {
        if self.greeting.is_none() {
            self.greet();
        }
        let greeted_at = self.greeting.map(|(_, at)| at).filter(|_| !self.is_ready && !self.failed);
        let until = greeted_at.map(|at| at + self.settings.patience);
        if until.is_some_and(|until| Instant::now() >= until) {
            let (endpoint, complaint) = (self.endpoint.clone(), self.complaint.take());
            self.end_all(&|| match &complaint {
                Some(complaint) => Error::Protocol(complaint.clone()),
                None => Error::NoServer(endpoint.clone()),
            });
            return Next::Wait(None);
        }
        Next::Wait(until)
    }
}

impl Drop for ClientTask {
    fn drop(&mut self) {
        self.send(Message::Kthxbai.to_frame());
        let _ = self.socket.close();
    }
}
