//! The side that gets files: its requests, the operations that they belong to, and the credit that it grants.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use pinnace_stream::Pacer;

use super::job::CHUNK_BYTES;
use super::operation::{Asks, Operation, Reply};
use super::window::{WINDOW_MAX_BYTES, Window};
use crate::clock;
use crate::error::Error;
use crate::wire::{Cheezburger, Form, Headers, Message, Mode, Request};

/// The most requests that the other side has at once, without those that follow a path or upload. Each may hold a
/// block's credit, so they are few.
const REQUESTS_MAX: usize = 4;

/// How much the other side may send.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest window, in bytes.
    pub window_max: u64,
    /// The most octets of a chunk.
    pub chunk: u32,
    /// The most bytes a second, in each direction.
    pub rate: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { window_max: WINDOW_MAX_BYTES, chunk: CHUNK_BYTES as u32, rate: None }
    }
}

/// A request that has not ended.
#[derive(Clone, Copy)]
struct OpenRequest {
    operation: u64,
    /// It ends when its operation does, and takes no place of others.
    lasts: bool,
}

/// Requests, operations and credit.
pub struct Requester {
    limits: Limits,
    window: Window,
    /// Requests may be sent.
    is_open: bool,
    /// When the round trip's measurement began, if it has not ended.
    pinged_at: Option<Instant>,
    operations: BTreeMap<u64, Box<dyn Operation>>,
    /// The requests that have not ended.
    requests: BTreeMap<u32, OpenRequest>,
    last_request: u32,
    /// Requests that are answered by ICANHAZ-OK, since the client began.
    sent: u64,
    /// Requests that are not sent yet, and their operations.
    waiting: VecDeque<(u64, Request)>,
    /// Frames to be sent.
    frames: Vec<Vec<u8>>,
    /// Present if the rate is limited: credit that is to be granted later.
    paced: Option<(Pacer, u64)>,
    sequence: u64,
}

impl Requester {
    pub fn new(limits: Limits) -> Requester {
        Requester {
            limits,
            window: Window::new(limits.window_max, u64::from(limits.chunk)),
            is_open: false,
            pinged_at: None,
            operations: BTreeMap::new(),
            requests: BTreeMap::new(),
            last_request: 0,
            sent: 0,
            waiting: VecDeque::new(),
            frames: Vec::new(),
            paced: limits.rate.map(|rate| (Pacer::new(rate, clock::now()), 0)),
            sequence: 0,
        }
    }

    /// The other side may be asked from now on: measures the round trip, grants credit, and sends what waits.
    pub fn open(&mut self, now: Instant) {
        if std::mem::replace(&mut self.is_open, true) {
            return;
        }
        // The answer comes before any content: it tells the round trip.
        self.pinged_at = Some(now);
        self.frames.push(Message::Hugz.to_frame());
        let first = self.window.first();
        self.nom(first);
        self.send_requests();
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Requests so far that the other side answers by ICANHAZ-OK.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// A new connection, or another process at the other side: it knows nothing of earlier requests.
    pub fn begin_again(&mut self) {
        (self.is_open, self.pinged_at) = (false, None);
        self.window = Window::new(self.limits.window_max, u64::from(self.limits.chunk));
        self.sequence = 0;
        self.paced.iter_mut().for_each(|(_, waiting)| *waiting = 0);
        self.requests.clear();
        self.waiting.clear();
        // Credit that was to be granted on the connection before is void.
        self.frames.clear();
        let numbers: Vec<u64> = self.operations.keys().copied().collect();
        for number in numbers {
            let mut asks = Asks::default();
            if let Some(what) = self.operations.get_mut(&number) {
                what.begin(&mut asks);
            }
            self.ask(number, asks);
        }
    }

    pub fn start(&mut self, operation: u64, mut what: Box<dyn Operation>) {
        let mut asks = Asks::default();
        what.begin(&mut asks);
        self.operations.insert(operation, what);
        self.ask(operation, asks);
    }

    /// Returns true if an operation is under way.
    pub fn has(&self, operation: u64) -> bool {
        self.operations.contains_key(&operation)
    }

    pub fn cancel(&mut self, operation: u64) {
        let own = self.requests.iter().filter(|(_, of)| of.operation == operation).map(|(number, _)| *number);
        own.collect::<Vec<u32>>().into_iter().for_each(|number| self.cancel_request(number));
        let settled = self.operations.remove(&operation).map_or(0, |mut what| what.abort(Error::Cancelled));
        self.give_back(settled);
        self.send_requests();
    }

    /// Another thread has used what an operation gave it.
    pub fn collect(&mut self, operation: u64) {
        let settled = self.call(operation, |what, asks| what.collect(asks));
        self.give_back(settled.unwrap_or(0));
    }

    /// When `on_due` is to be called.
    pub fn due(&self) -> Option<Instant> {
        self.operations.values().filter_map(|what| what.due()).min().filter(|_| self.is_open)
    }

    /// Calls the operations whose time has come.
    pub fn on_due(&mut self, now: Instant) {
        let is_due = |what: &dyn Operation| what.due().is_some_and(|due| due <= now);
        let due = self.operations.iter().filter(|(_, what)| self.is_open && is_due(&***what));
        for operation in due.map(|(number, _)| *number).collect::<Vec<u64>>() {
            let settled = self.call(operation, |what, asks| what.on_due(now, asks));
            self.give_back(settled.unwrap_or(0));
        }
    }

    /// Calls an operation, asks for what it wants, and ends it if it is over. Returns the octets that are settled.
    fn call(
        &mut self,
        operation: u64,
        call: impl FnOnce(&mut dyn Operation, &mut Asks) -> u64,
    ) -> Option<u64> {
        let what = self.operations.get_mut(&operation)?;
        let mut asks = Asks::default();
        let settled = call(&mut **what, &mut asks);
        if what.is_over() {
            self.operations.remove(&operation);
        }
        self.ask(operation, asks);
        Some(settled)
    }

    /// Ends all operations.
    pub fn abort(&mut self, error: &dyn Fn() -> Error) {
        self.requests.clear();
        for (_, mut operation) in std::mem::take(&mut self.operations) {
            operation.abort(error());
        }
    }

    /// The other side does not answer any more: ends the operations that do not wait for it.
    pub fn server_lost(&mut self, error: &dyn Fn() -> Error) {
        self.requests.clear();
        for (_, mut operation) in
            self.operations.extract_if(.., |_, operation| !operation.waits_for_server(error))
        {
            operation.abort(error());
        }
    }

    /// Takes all operations out.
    pub fn take_operations(&mut self) -> BTreeMap<u64, Box<dyn Operation>> {
        self.requests.clear();
        self.waiting.clear();
        std::mem::take(&mut self.operations)
    }

    /// A number for a request that is not an operation's.
    pub fn next_number(&mut self) -> u32 {
        self.last_request = self.last_request.wrapping_add(1);
        self.last_request
    }

    /// The other side has answered HUGZ.
    pub fn on_pong(&mut self) {
        if let Some(at) = self.pinged_at.take() {
            self.window.set_round_trip(clock::now() - at);
        }
    }

    /// Handles a chunk. Returns true if it replies to a request of an operation. Error: the other side does not follow
    /// the protocol.
    pub fn on_chunk(&mut self, burger: Cheezburger<'_>, now: Instant) -> Result<bool, String> {
        let headers = Headers::read(burger.headers).map_err(|what| format!("an invalid header {what}"))?;
        let cost = burger.chunk.len() as u64;
        let nom = self.window.receive(cost, now).map_err(|exceeded| exceeded.to_string())?;
        nom.into_iter().for_each(|nom| self.nom(nom));
        let settled =
            self.on_reply(&Reply { burger, headers: &headers, chunk_max: self.limits.chunk.into() });
        self.give_back(settled.unwrap_or(cost));
        Ok(settled.is_some())
    }

    /// Returns the octets that are settled; None: it replies to nothing.
    fn on_reply(&mut self, reply: &Reply<'_>) -> Option<u64> {
        let number = reply.headers.request?;
        let OpenRequest { operation, .. } = self.requests.get(&number).copied()?;
        if reply.headers.form == Form::End {
            self.requests.remove(&number);
        }
        self.call(operation, |what, asks| what.on_reply(reply, asks))
    }

    fn cancel_request(&mut self, number: u32) {
        if self.requests.remove(&number).is_some() {
            self.frames.push(Request::new(number, Mode::Cancel, b"/").to_frame());
        }
    }

    fn ask(&mut self, operation: u64, asks: Asks) {
        asks.cancelled.into_iter().for_each(|number| self.cancel_request(number));
        for (number, filename) in asks.skipped {
            self.frames.push(Request::new(number, Mode::Skip, &filename).to_frame());
        }
        self.waiting.extend(asks.requests.into_iter().map(|request| (operation, request)));
        self.send_requests();
    }

    /// Sends requests as far as the other side may have them at once.
    fn send_requests(&mut self) {
        while self.is_open && self.requests.values().filter(|of| !of.lasts).count() < REQUESTS_MAX {
            let Some((operation, mut request)) = self.waiting.pop_front() else { return };
            if !self.operations.contains_key(&operation) {
                continue;
            }
            (request.number, request.chunk) = (self.next_number(), self.limits.chunk);
            let lasts = matches!(request.mode, Mode::Follow | Mode::Upload);
            self.sent += u64::from(request.mode != Mode::Upload);
            self.requests.insert(request.number, OpenRequest { operation, lasts });
            self.frames.push(request.to_frame());
        }
    }

    fn give_back(&mut self, settled: u64) {
        if let Some(nom) = self.window.give_back(settled) {
            self.nom(nom);
        }
    }

    fn nom(&mut self, credit: u64) {
        match &mut self.paced {
            Some((_, waiting)) => *waiting += credit,
            None => self.grant(credit),
        }
    }

    fn grant(&mut self, credit: u64) {
        self.sequence += 1;
        self.frames.push(Message::Nom { credit, sequence: self.sequence }.to_frame());
    }

    /// Grants credit that had to wait, as far as the rate allows. Returns when to call this again.
    pub fn release(&mut self, now: Instant) -> Option<Instant> {
        let (pacer, waiting) = self.paced.as_mut().filter(|(_, waiting)| *waiting > 0)?;
        let credit = pacer.take(*waiting, now);
        *waiting -= credit;
        let next = (*waiting > 0).then(|| pacer.next());
        if credit > 0 {
            self.grant(credit);
        }
        next
    }

    /// The frames to send.
    pub fn take_frames(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.frames)
    }
}
