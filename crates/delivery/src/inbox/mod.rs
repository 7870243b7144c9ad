//! What has arrived for one client and waits for its handler, and how far each stream from others is.
//!
//! A stream's messages are delivered in order. One that failed is the next again, after a while in which its stream
//! rests; one that is put off lets others go first. Streams have their turns.

mod flow;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;
use crate::clock::now_ms;
use crate::ranges::Done;
use crate::store::Incoming;
use crate::wire::{COST, FromSender, Verdict};
use flow::{Flow, Taken};
pub use flow::{Message, Parts};

/// Where messages wait for their handler.
pub struct Inbox {
    state: Mutex<Waiting>,
    arrived: Condvar,
    retry: Retry,
    /// Called where there is news for the first time since `take_news`.
    tell: Box<dyn Fn() + Send + Sync>,
}

/// What becomes of messages whose handler fails.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// The wait before the second delivery; each later one is twice the last, up to `most`.
    pub first: Duration,
    pub most: Duration,
    /// Deliveries after which a message is given up; None: never.
    pub deliveries: Option<u32>,
}

#[derive(Default)]
struct Waiting {
    flows: Vec<Flow>,
    by_stream: HashMap<Incoming, usize>,
    /// Flows with something to deliver, in their turns.
    ready: VecDeque<usize>,
    /// Messages that were put off, by when they are due.
    later: BTreeMap<(Instant, u64), Message>,
    /// To tell those apart that are due at once.
    put_off: u64,
    /// Flows that rest, by when they go on.
    resting: BTreeMap<(Instant, usize), ()>,
    news: News,
    told: bool,
    closed: bool,
}

/// Who sends a stream, and what about.
#[derive(Debug, PartialEq, Eq)]
pub struct Origin {
    pub of: Incoming,
    pub from: String,
    pub topic: String,
    /// Its flow in the inbox.
    pub flow: usize,
}

/// A frame as it came.
pub struct Frame {
    pub bytes: Vec<u8>,
    /// The connection by which it came.
    pub session: u32,
    pub origin: Arc<Origin>,
}

/// One message of a frame, or a part of one.
pub struct Arrived {
    pub frame: Arc<Frame>,
    at: usize,
    len: usize,
    /// The number behind that of the message before, and its own.
    pub first: u64,
    pub seq: u64,
    pub accepted_ms: u64,
    pub ttl_ms: Option<u64>,
    pub flags: u8,
}

/// A message that will not be handled here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenUp {
    pub first: u64,
    pub verdict: Verdict,
    pub deliveries: u32,
}

/// What came of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Taken,
    /// Something is missing behind this number.
    Gap(u64),
    /// It makes no sense.
    Nonsense,
}

/// What the carrier has to see to.
#[derive(Default)]
pub struct News {
    /// How far streams are of which more is done, and whether that is to be noted.
    pub done: Vec<(Incoming, Done, bool)>,
    /// Flows that are to be among them.
    dirty: Vec<usize>,
    /// What was paid back, by connection.
    pub taken: HashMap<u32, u64>,
    /// Streams with messages that were given up, with the number of the last part of each.
    pub given_up: Vec<(Incoming, u64, GivenUp)>,
}

impl Arrived {
    /// Whether its time is over at `now_ms`.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.ttl_ms.is_some_and(|ttl_ms| self.accepted_ms.saturating_add(ttl_ms) <= now_ms)
    }

    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// What it costs its connection until it is handled.
    pub fn cost(&self) -> u64 {
        COST + self.len as u64
    }

    pub fn body(&self) -> &[u8] {
        &self.frame.bytes[self.at..self.at + self.len]
    }
}

impl Retry {
    /// How long to wait after so many deliveries, give or take a quarter, so that not all try again at once.
    fn wait(&self, deliveries: u32) -> Duration {
        let doubled = self.first.saturating_mul(1 << (deliveries - 1).min(20)).min(self.most);
        let bytes = pinnace_sys::random::bytes::<2>().unwrap_or_default();
        doubled.mul_f64(0.75 + 0.5 * f64::from(u16::from_le_bytes(bytes)) / 65_536.0)
    }
}

impl Inbox {
    pub fn new(retry: Retry, tell: Box<dyn Fn() + Send + Sync>) -> Inbox {
        Inbox { state: Mutex::default(), arrived: Condvar::new(), retry, tell }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream goes on: how far it has arrived, and what of it is done beyond doubt. `noted`: what was, when the store
    /// was opened; `gone`: what the sender has no more. Also what was given up of it and the sender may not know of.
    pub fn open(
        &self,
        of: Incoming,
        from: &str,
        topic: &str,
        noted: &Done,
        gone: &Done,
    ) -> (Arc<Origin>, u64, Done, Vec<(u64, GivenUp)>) {
        let mut state = self.lock();
        let next = state.flows.len();
        let index = *state.by_stream.entry(of).or_insert(next);
        if index == next {
            let (from, topic) = (from.to_owned(), topic.to_owned());
            state.flows.push(Flow::new(Arc::new(Origin { of, from, topic, flow: index })));
        }
        let flow = &mut state.flows[index];
        if flow.origin.topic != topic || flow.origin.from != from {
            // The sender lost the first stream of that number before it was on its disk.
            flow.origin =
                Arc::new(Origin { of, from: from.to_owned(), topic: topic.to_owned(), flow: index });
        }
        flow.begin();
        flow.done.add_all(noted, u64::MAX);
        flow.settle(gone);
        let given_up = flow.given_up.iter().map(|(seq, given_up)| (*seq, *given_up)).collect();
        let (origin, received) = (flow.origin.clone(), flow.received);
        // What was handled since may not be on the disk yet: it is noted, and said then.
        let done = if index == next { flow.done.clone() } else { gone.clone() };
        state.note(index);
        self.tell_once(&mut state);
        (origin, received, done, given_up)
    }

    /// Takes a frame of messages in. Returns what came of it, and what it cost.
    pub fn take(&self, frame: Frame) -> (Outcome, u64) {
        let frame = Arc::new(frame);
        let Some(FromSender::Data(data)) = FromSender::read(&frame.bytes) else {
            return (Outcome::Nonsense, 0);
        };
        let mut state = self.lock();
        let index = frame.origin.flow;
        let Taken { outcome, cost, at_once } = state.flows[index].take(&frame, &data);
        state.list(index);
        if at_once > 0 {
            *state.news.taken.entry(frame.session).or_default() += at_once;
            self.tell_once(&mut state);
        }
        drop(state);
        self.arrived.notify_all();
        (outcome, cost)
    }

    /// The sender has nothing of these any more.
    pub fn settle(&self, origin: &Origin, gone: &Done) {
        let mut state = self.lock();
        state.flows[origin.flow].settle(gone);
        state.note(origin.flow);
        self.tell_once(&mut state);
    }

    /// Waits for the next message. Errors: TimedOut, Closed.
    pub fn next(&self, deadline: Option<Instant>) -> Result<Message, Error> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Err(Error::Closed);
            }
            let due = state.wake();
            if let Some(message) = self.pop(&mut state) {
                return Ok(message);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(Error::TimedOut);
            }
            state = match deadline.into_iter().chain(due).min() {
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let time = until.saturating_duration_since(now);
                    self.arrived.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn pop(&self, state: &mut MutexGuard<'_, Waiting>) -> Option<Message> {
        while let Some(index) = state.ready.pop_front() {
            let flow = &mut state.flows[index];
            flow.listed = false;
            if flow.held_until.is_some() {
                continue;
            }
            let (was_dirty, message) = (flow.dirty, flow.next(now_ms()));
            let unpaid = std::mem::take(&mut flow.unpaid);
            if flow.dirty && !was_dirty {
                flow.dirty = false;
                state.note(index);
                self.tell_once(state);
            }
            for (session, bytes) in unpaid {
                *state.news.taken.entry(session).or_default() += bytes;
            }
            if message.is_some() {
                state.list(index);
                return message;
            }
        }
        None
    }

    /// A message was handled.
    pub fn ack(&self, message: &Message) {
        let mut state = self.lock();
        let index = message.parts.first().frame.origin.flow;
        for part in message.parts.as_slice() {
            state.flows[index].finish(part);
        }
        state.credit(message);
        state.note(index);
        self.tell_once(&mut state);
    }

    /// A message failed: it is the next of its stream again, after a while.
    pub fn fail(&self, message: Message) {
        if self.is_last(&message) {
            return self.give_up(message, Verdict::Deliveries);
        }
        let mut state = self.lock();
        let (index, until) =
            (message.parts.first().frame.origin.flow, Instant::now() + self.retry.wait(message.deliveries));
        state.flows[index].put_back(message, until);
        let until = state.flows[index].held_until.unwrap_or(until);
        state.resting.insert((until, index), ());
        drop(state);
        self.arrived.notify_all();
    }

    /// A message is delivered again after `delay`, or where that is not said after a while; others go on.
    pub fn put_off(&self, message: Message, delay: Option<Duration>) {
        if self.is_last(&message) {
            return self.give_up(message, Verdict::Deliveries);
        }
        let delay = delay.unwrap_or_else(|| self.retry.wait(message.deliveries));
        let mut state = self.lock();
        state.put_off += 1;
        let at = (Instant::now() + delay, state.put_off);
        state.later.insert(at, message);
        drop(state);
        self.arrived.notify_all();
    }

    fn is_last(&self, message: &Message) -> bool {
        self.retry.deliveries.is_some_and(|most| message.deliveries >= most)
    }

    /// A message is not delivered here any more; its sender puts it away.
    pub fn give_up(&self, message: Message, verdict: Verdict) {
        let mut state = self.lock();
        let origin = message.parts.first().frame.origin.clone();
        let (first, last) = (message.parts.first().seq, message.parts.last_seq());
        let given_up = GivenUp { first, verdict, deliveries: message.deliveries };
        state.flows[origin.flow].given_up.insert(last, given_up);
        state.news.given_up.push((origin.of, last, given_up));
        state.credit(&message);
        self.tell_once(&mut state);
    }

    fn tell_once(&self, state: &mut MutexGuard<'_, Waiting>) {
        if !std::mem::replace(&mut state.told, true) {
            (self.tell)();
        }
    }

    /// What happened since the last time.
    pub fn take_news(&self) -> News {
        let mut state = self.lock();
        state.told = false;
        let mut news = std::mem::take(&mut state.news);
        for index in news.dirty.drain(..) {
            let flow = &mut state.flows[index];
            flow.dirty = false;
            let to_note = std::mem::take(&mut flow.to_note);
            news.done.push((flow.origin.of, flow.done.clone(), to_note));
        }
        news
    }

    /// Nothing more is delivered; who waits is told.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }
}

impl Waiting {
    /// What is due is ready. Returns when more is.
    fn wake(&mut self) -> Option<Instant> {
        if self.later.is_empty() && self.resting.is_empty() {
            return None;
        }
        let now = Instant::now();
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            let message = entry.remove();
            let index = message.parts.first().frame.origin.flow;
            self.flows[index].deliver_again(message);
            self.list(index);
        }
        while let Some(entry) = self.resting.first_entry().filter(|entry| entry.key().0 <= now) {
            let (_, index) = entry.remove_entry().0;
            let flow = &mut self.flows[index];
            if flow.held_until.is_some_and(|until| until <= now) {
                flow.held_until = None;
                self.list(index);
            }
        }
        let later = self.later.keys().next().map(|key| key.0);
        let resting = self.resting.keys().next().map(|key| key.0);
        later.into_iter().chain(resting).min()
    }

    fn list(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        if flow.has_some() && !std::mem::replace(&mut flow.listed, true) {
            self.ready.push_back(index);
        }
    }

    /// The bytes of a message may be sent anew by its connection; those of parts could be before.
    fn credit(&mut self, message: &Message) {
        if let Parts::One(part) = &message.parts {
            *self.news.taken.entry(part.frame.session).or_default() += part.cost();
        }
    }

    fn note(&mut self, index: usize) {
        if !std::mem::replace(&mut self.flows[index].dirty, true) {
            self.news.dirty.push(index);
        }
    }
}
