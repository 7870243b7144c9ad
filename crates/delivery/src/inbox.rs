//! What has arrived for one client and waits for its handler, and how far each stream from others is.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::Error;
use crate::ranges::Done;
use crate::store::Incoming;
use crate::wire::FromSender;

/// Where messages wait for their handler.
pub struct Inbox {
    state: Mutex<Waiting>,
    arrived: Condvar,
    /// Called where something is done, or bytes were taken, for the first time since `settled`.
    tell: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
pub struct Waiting {
    queue: VecDeque<Arrived>,
    /// Messages, by their parts, that were delivered and not handled.
    again: VecDeque<Vec<Arrived>>,
    flows: HashMap<Incoming, Flow>,
    /// Flows of which more is done than was noted.
    dirty: Vec<Incoming>,
    /// Connections of which bytes were taken since `take_news`.
    taken: HashMap<u32, u64>,
    told: bool,
    closed: bool,
}

/// A stream from another client.
#[derive(Default)]
pub struct Flow {
    /// Up to which number it has arrived, without a gap.
    pub received: u64,
    /// What was handled.
    pub done: Done,
    dirty: bool,
}

/// Who sends a stream, and what about.
#[derive(Debug, PartialEq, Eq)]
pub struct Origin {
    pub of: Incoming,
    pub from: String,
    pub topic: String,
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
    pub begins: bool,
    pub ends: bool,
}

impl Arrived {
    /// Whether its time is over at `now_ms`.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.ttl_ms.is_some_and(|ttl_ms| self.accepted_ms.saturating_add(ttl_ms) <= now_ms)
    }

    pub fn body(&self) -> &[u8] {
        &self.frame.bytes[self.at..self.at + self.len]
    }
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
    pub dirty: Vec<Incoming>,
    pub taken: Vec<(u32, u64)>,
}

impl Inbox {
    pub fn new(tell: Box<dyn Fn() + Send + Sync>) -> Inbox {
        Inbox { state: Mutex::default(), arrived: Condvar::new(), tell }
    }

    pub fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream goes on: how far it has arrived, and what of it is done. `noted`: what was, when the store was opened;
    /// `base`: up to which number the sender has nothing any more.
    pub fn open(&self, of: Incoming, noted: &Done, base: u64) -> (u64, Done) {
        let mut state = self.lock();
        let flow = state.flows.entry(of).or_default();
        flow.done.add_all(noted, u64::MAX);
        flow.done.add_upto(base);
        flow.received = flow.received.max(flow.done.all_upto());
        (flow.received, flow.done.clone())
    }

    /// Takes a frame of messages in.
    pub fn take(&self, frame: Frame) -> Outcome {
        let frame = Arc::new(frame);
        let Some(FromSender::Data(data)) = FromSender::read(&frame.bytes) else { return Outcome::Nonsense };
        let mut state = self.lock();
        let Waiting { queue, flows, taken, .. } = &mut *state;
        let flow = flows.entry(frame.origin.of).or_default();
        if data.prev > flow.received {
            return Outcome::Gap(flow.received);
        }
        let (mut prev, mut at_once) = (data.prev, 0);
        let start = frame.bytes.as_ptr() as usize;
        for entry in data.entries() {
            let Some(entry) = entry else { return Outcome::Nonsense };
            let first = std::mem::replace(&mut prev, entry.seq) + 1;
            if entry.seq <= flow.received || flow.done.contains(entry.seq) {
                at_once += entry.body.len() as u64;
                flow.received = flow.received.max(entry.seq);
                continue;
            }
            flow.received = entry.seq;
            if !(entry.begins && entry.ends) {
                // The rest of a message may be more than may be under way.
                at_once += entry.body.len() as u64;
            }
            queue.push_back(Arrived {
                frame: frame.clone(),
                at: entry.body.as_ptr() as usize - start,
                len: entry.body.len(),
                first,
                seq: entry.seq,
                accepted_ms: entry.accepted_ms,
                ttl_ms: entry.ttl_ms,
                begins: entry.begins,
                ends: entry.ends,
            });
        }
        if at_once > 0 {
            *taken.entry(frame.session).or_default() += at_once;
            self.tell_once(&mut state);
        }
        drop(state);
        self.arrived.notify_all();
        Outcome::Taken
    }

    /// There is nothing between two numbers. Else: something is missing behind the number that is returned.
    pub fn skip(&self, of: Incoming, prev: u64, end: u64) -> Result<(), u64> {
        let mut state = self.lock();
        let flow = state.flows.entry(of).or_default();
        if prev > flow.received {
            return Err(flow.received);
        }
        flow.received = flow.received.max(end);
        flow.done.add(prev + 1, end);
        state.note(of);
        self.tell_once(&mut state);
        Ok(())
    }

    /// Waits for messages, and takes what is there, `most` at most, into `into`. It also returns when there is one to
    /// be delivered again.
    pub fn wait(
        &self,
        into: &mut VecDeque<Arrived>,
        most: usize,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Err(Error::Closed);
            }
            if !state.again.is_empty() {
                return Ok(());
            }
            if !state.queue.is_empty() {
                let count = state.queue.len().min(most);
                into.extend(state.queue.drain(..count));
                return Ok(());
            }
            state = match deadline {
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let time = deadline.saturating_duration_since(Instant::now());
                    if time.is_zero() {
                        return Err(Error::TimedOut);
                    }
                    self.arrived.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// The parts of a message that was not handled: it is delivered again.
    pub fn put_back(&self, parts: Vec<Arrived>) {
        self.lock().again.push_back(parts);
        self.arrived.notify_all();
    }

    /// A message that is to be delivered again.
    pub fn take_back(&self) -> Option<Vec<Arrived>> {
        self.lock().again.pop_front()
    }

    /// Messages were handled, one behind the other.
    pub fn done_all<'a>(&self, handled: impl Iterator<Item = &'a Arrived>) {
        let mut state = self.lock();
        for each in handled {
            state.finish(each);
        }
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
        News { dirty: std::mem::take(&mut state.dirty), taken: state.taken.drain().collect() }
    }

    /// Nothing more comes; who waits is told.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        drop(state);
        self.arrived.notify_all();
    }
}

impl Waiting {
    fn finish(&mut self, arrived: &Arrived) {
        let of = arrived.frame.origin.of;
        self.flows.entry(of).or_default().done.add(arrived.first, arrived.seq);
        if arrived.begins && arrived.ends {
            *self.taken.entry(arrived.frame.session).or_default() += arrived.len as u64;
        }
        self.note(of);
    }

    fn note(&mut self, of: Incoming) {
        let flow = self.flows.entry(of).or_default();
        if !std::mem::replace(&mut flow.dirty, true) {
            self.dirty.push(of);
        }
    }

    /// How far a flow is, to be noted now.
    pub fn take_done(&mut self, of: &Incoming) -> Option<Done> {
        let flow = self.flows.get_mut(of)?;
        flow.dirty = false;
        Some(flow.done.clone())
    }
}
