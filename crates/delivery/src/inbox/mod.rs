//! Messages that have arrived for one client and wait for its handler, and the progress of each incoming stream.
//!
//! A stream's messages are delivered in order. A message that failed is delivered next again, after a pause of its
//! stream; one that is put off lets later ones pass. Streams take turns.

mod arrived;
mod attempts;
mod begun;
mod counts;
mod flow;
mod in_hand;
mod news;
mod parking;
mod readiness;
mod retry;
mod settling;
mod shared;
mod waiting;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pinnace_stream::RangeSet;
use pinnace_sys::wake::WakeFd;

use crate::Error;
use crate::environment::{now, now_ms};
use crate::signal::{Patience, Signal};
use crate::store::Incoming;
use crate::wire::{FromSender, Verdict};
use arrived::Arrived;
pub use arrived::{Frame, FramePlace};
use attempts::Admission;
use flow::Taken;
pub use flow::{Message, Parts};
pub use news::InboxNews;
use readiness::Readiness;
pub use retry::Retry;
pub use shared::{Held, Want};
use waiting::Waiting;

/// The queue of received messages of one client.
pub struct Inbox {
    state: Mutex<Waiting>,
    arrived: Signal,
    /// Fewer messages are in hand, or are waited for.
    settled: Signal,
    descriptor: OnceLock<WakeFd>,
    retry: Retry,
    /// The largest body accepted, in bytes.
    largest: usize,
    /// Called at the first news since `take_news`.
    tell: Box<dyn Fn() + Send + Sync>,
}

/// The sender and topic of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Origin {
    pub of: Incoming,
    pub from: String,
    pub topic: String,
    /// The index of its flow in the inbox.
    pub flow: usize,
}

/// A sender opens a stream on a new connection.
#[derive(Debug)]
pub struct StreamStart {
    pub of: Incoming,
    pub from: String,
    pub topic: String,
    /// The numbers that this client's store has recorded as done.
    pub noted: RangeSet,
    /// The sender's store was opened again since the stream's last connection: what it had in memory is lost.
    pub is_restarted: bool,
}

/// A message that this client will not handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenUp {
    pub first: u64,
    pub verdict: Verdict,
    pub deliveries: u32,
}

/// The result of taking in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    #[default]
    Taken,
    /// Messages after this number are missing.
    Gap(u64),
    /// Of a shared stream, a frame is missing: what has arrived is to be reported.
    Lost,
    /// The frame is invalid.
    Nonsense,
}

impl Inbox {
    pub fn new(retry: Retry, largest: usize, tell: Box<dyn Fn() + Send + Sync>) -> Inbox {
        let (state, arrived, settled, descriptor) = Default::default();
        Inbox { state, arrived, settled, descriptor, retry, largest, tell }
    }

    /// The largest body accepted, in bytes.
    pub fn largest(&self) -> usize {
        self.largest
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens or resumes a stream. `gone`: what the sender no longer has. Returns the number up to which it has arrived,
    /// what is certainly done, and given-up messages that the sender may not know of.
    pub fn open(
        &self,
        start: &StreamStart,
        gone: &RangeSet,
    ) -> (Arc<Origin>, u64, RangeSet, Vec<(u64, GivenUp)>) {
        let mut state = self.lock();
        let (index, is_new) = state.flow_of(start.of, &start.from, &start.topic);
        self.end_sharing(&mut state, index);
        let flow = &mut state.flows[index];
        flow.acceptance.begin_connection();
        flow.is_parked = false;
        flow.acceptance.mark_gone(&start.noted);
        flow.settled = flow.settled.max(start.noted.all_upto());
        flow.mark_gone(gone);
        let given_up = flow.given_up.iter().map(|(seq, given_up)| (*seq, *given_up)).collect();
        flow.fresh = flow.acceptance.done().clone();
        let (origin, received) = (flow.origin.clone(), flow.acceptance.received());
        // What was handled since may not be on the disk yet: it is logged first, and acknowledged then.
        let done = if is_new { flow.acceptance.done().clone() } else { gone.clone() };
        state.note(index);
        self.tell_once(&mut state);
        (origin, received, done, given_up)
    }

    /// Whether the sender of an open stream is told which of its messages have expired here.
    pub fn set_reports_expired(&self, origin: &Origin, reports: bool) {
        self.lock().flows[origin.flow].reports_expired = reports;
    }

    /// Takes in a data frame; the caller then calls `announce`. Returns the result and the credit that the frame cost.
    pub fn take(&self, frame: Frame) -> (Outcome, u64) {
        let frame = Arc::new(frame);
        let mut state = self.lock();
        let index = frame.origin.flow;
        let flow = &mut state.flows[index];
        let Some(FromSender::Data(data) | FromSender::Work { data, .. }) = FromSender::read(&frame.bytes)
        else {
            return (Outcome::Nonsense, 0);
        };
        let was_dirty = flow.dirty;
        let taken = match frame.place {
            Some(place) => flow.take_work(&frame, place, &data, self.largest),
            None => flow.take(&frame, &data, self.largest),
        };
        self.note_if_new(&mut state, index, was_dirty);
        state.changed.enqueue(index);
        let Taken { outcome, cost, at_once, given_up } = taken;
        for (last, given_up) in given_up {
            state.news.given_up.push((frame.origin.of, last, given_up));
            self.tell_once(&mut state);
        }
        state.list(index);
        if at_once > 0 {
            state.news.pay_back(frame.origin.of.1, at_once);
            self.tell_once(&mut state);
        }
        (outcome, cost)
    }

    /// Wakes receivers once for several frames taken in.
    pub fn announce(&self) {
        self.tell_arrived(self.lock());
    }

    /// Marks what the sender no longer has as done.
    pub fn mark_gone(&self, origin: &Origin, gone: &RangeSet) {
        let mut state = self.lock();
        let flow = &mut state.flows[origin.flow];
        if flow.shared.is_some() {
            flow.settled = flow.settled.max(gone.all_upto());
        }
        if flow.mark_gone(gone) {
            state.counts.forget(&origin.of, gone);
            state.note(origin.flow);
            self.tell_once(&mut state);
        }
    }

    /// Called when `done` of a stream is acknowledged. Returns how many messages to ask for then, if that has changed.
    pub fn note_done(&self, of: &Incoming, done: &RangeSet) -> Option<Want> {
        let mut state = self.lock();
        let index = state.by_stream.get(of).copied()?;
        let flow = &mut state.flows[index];
        match &mut flow.shared {
            // The sender says which numbers no receiver gets again.
            Some(shared) => shared.known.add_all(done, u64::MAX),
            None => flow.settled = flow.settled.max(done.all_upto()),
        }
        flow.want()
    }

    /// Waits for the next message, for a handler on the thread `handler`, if there is one. Errors: TimedOut, Closed.
    pub fn next(&self, deadline: Option<Instant>, handler: Option<ThreadId>) -> Result<Message, Error> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Err(Error::Closed);
            }
            let due = self.wake(&mut state);
            if let Some(message) = self.pop(&mut state, handler) {
                return Ok(message);
            }
            self.clear_descriptor(&mut state, due);
            if deadline.is_some_and(|deadline| deadline <= now()) {
                return Err(Error::TimedOut);
            }
            let until = deadline.into_iter().chain(due).min();
            state = self.arrived.wait(state, until).unwrap_or_else(|| self.lock());
        }
    }

    /// The next message, or Pending: the task is woken when there may be one. Error: Closed.
    pub fn poll_next(&self, task: &mut Context<'_>) -> Poll<Result<Message, Error>> {
        let mut state = self.lock();
        if state.closed {
            return Poll::Ready(Err(Error::Closed));
        }
        let due = self.wake(&mut state);
        if let Some(message) = self.pop(&mut state, None) {
            return Poll::Ready(Ok(message));
        }
        self.clear_descriptor(&mut state, due);
        if !state.tasks.iter().any(|other| other.will_wake(task.waker())) {
            state.tasks.push(task.waker().clone());
        }
        if due.is_some() {
            // The peer loop must watch the time for the task.
            (self.tell)();
        }
        Poll::Pending
    }

    /// Handles due items for waiting tasks, the descriptor and expired handlers. Returns when to call this again.
    pub fn wake_tasks(&self) -> Option<Instant> {
        let mut state = self.lock();
        let is_watched = !state.tasks.is_empty() || state.readiness == Readiness::Clear;
        if !is_watched && state.limits.is_empty() {
            return None;
        }
        let due = self.wake(&mut state);
        if state.is_ready() {
            self.tell_arrived(state);
        }
        due
    }

    /// Wakes all receivers: a message may be deliverable.
    fn tell_arrived(&self, mut state: MutexGuard<'_, Waiting>) {
        self.signal_descriptor(&mut state);
        self.watch_for_descriptor(&state);
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        self.arrived.tell();
        tasks.into_iter().for_each(Waker::wake);
    }

    fn pop(&self, state: &mut MutexGuard<'_, Waiting>, handler: Option<ThreadId>) -> Option<Message> {
        if state.counts.is_waiting() {
            return None;
        }
        let mut first = state.release_aside();
        while let Some(index) = first.take().or_else(|| state.ready.take()) {
            if state.flows[index].held_until.is_some() {
                continue;
            }
            state.changed.enqueue(index);
            let flow = &mut state.flows[index];
            let (was_dirty, message) = (flow.dirty, flow.next(now_ms));
            let unpaid = std::mem::take(&mut flow.unpaid);
            let (of, expired) = (flow.origin.of, std::mem::take(&mut flow.expired));
            if let Some(resumed) = flow.unpark() {
                state.news.resumed.push(resumed);
                self.tell_once(state);
            }
            self.note_if_new(state, index, was_dirty);
            for (sender, bytes) in unpaid {
                state.news.pay_back(sender, bytes);
            }
            for (last, given_up) in expired {
                state.news.given_up.push((of, last, given_up));
                self.tell_once(state);
            }
            self.ask_more(state, index);
            if let Some(message) = message {
                if let Some(next) = state.flows[index].queue.front() {
                    next.prefetch();
                }
                state.list(index);
                match self.admit(state, message) {
                    Admission::HandOut(message) => return Some(self.hand_out(state, message, handler)),
                    Admission::Aside => return None,
                    Admission::GivenUp => {}
                }
            }
        }
        self.ask(state);
        None
    }

    /// Tells the peer loop that more of a flow is done, unless it was told before.
    fn note_if_new(&self, state: &mut MutexGuard<'_, Waiting>, index: usize, was_dirty: bool) {
        if state.flows[index].dirty && !was_dirty {
            state.flows[index].dirty = false;
            state.note(index);
            self.tell_once(state);
        }
    }

    /// A message failed: it is delivered next of its stream again, after a pause.
    pub fn fail(&self, message: Message) {
        let mut state = self.lock();
        self.note_settled(&mut state, &message);
        if state.take_back(&message) {
            self.fail_in(&mut state, message);
            self.tell_arrived(state);
        }
    }

    fn fail_in(&self, state: &mut MutexGuard<'_, Waiting>, message: Message) {
        state.counts_of(&message).failed += 1;
        if self.is_last(&message) {
            return self.give_up_in(state, &message, Verdict::Deliveries);
        }
        self.count(state, &message);
        if self.retry.skips {
            return state.put_off(self.retry.wait(message.deliveries), message);
        }
        let (index, until) =
            (message.parts.first().frame.origin.flow, now() + self.retry.wait(message.deliveries));
        state.flows[index].put_back(message, until);
        let until = state.flows[index].held_until.unwrap_or(until);
        state.resting.insert((until, index), ());
    }

    /// Delivers a message again after `delay`, or after the retry pause; later ones pass it.
    pub fn put_off(&self, message: Message, delay: Option<Duration>) {
        let mut state = self.lock();
        self.note_settled(&mut state, &message);
        if !state.take_back(&message) {
            return;
        }
        state.counts_of(&message).put_off += 1;
        if self.is_last(&message) {
            return self.give_up_in(&mut state, &message, Verdict::Deliveries);
        }
        self.count(&mut state, &message);
        state.put_off(delay.unwrap_or_else(|| self.retry.wait(message.deliveries)), message);
        self.tell_arrived(state);
    }

    /// Restarts a handler's time limit.
    pub fn go_on(&self, message: &Message) {
        let (mut state, within) = (self.lock(), self.retry.within);
        let (Some(watch), Some(within)) = (message.limit.as_ref().map(|limit| limit.key), within) else {
            return;
        };
        let until = now() + within;
        if let Some(out) = state.out.get_mut(&watch) {
            let before = std::mem::replace(&mut out.until, until);
            state.limits.remove(&(before, watch));
            state.limits.insert((until, watch));
        }
    }

    /// Gives up a message; its sender keeps it as a dead letter.
    pub fn give_up(&self, message: &Message, verdict: Verdict) {
        let mut state = self.lock();
        self.note_settled(&mut state, message);
        if state.take_back(message) {
            self.give_up_in(&mut state, message, verdict);
        }
    }

    fn give_up_in(&self, state: &mut MutexGuard<'_, Waiting>, message: &Message, verdict: Verdict) {
        state.counts.settle(message);
        let origin = message.parts.first().frame.origin.clone();
        let (last, given_up) = state.flows[origin.flow].give_up(message, verdict);
        state.news.given_up.push((origin.of, last, given_up));
        state.note_progress(origin.flow);
        state.credit(message);
        self.tell_once(state);
    }

    fn tell_once(&self, state: &mut MutexGuard<'_, Waiting>) {
        if !std::mem::replace(&mut state.is_notified, true) {
            (self.tell)();
        }
    }

    /// The news since the last call.
    pub fn take_news(&self) -> InboxNews {
        let mut state = self.lock();
        state.is_notified = false;
        let mut news = std::mem::take(&mut state.news);
        for index in news.dirty.drain(..) {
            let flow = &mut state.flows[index];
            flow.dirty = false;
            let to_note = std::mem::take(&mut flow.to_note);
            news.done.push((flow.origin.of, flow.take_fresh(), to_note));
        }
        for index in news.asking.drain(..) {
            news.wants.extend(state.flows[index].asked());
        }
        news
    }

    /// The credit that is to be returned for waiting messages, and to which sender.
    #[cfg(test)]
    pub fn owed_credit(&self) -> Vec<(crate::wire::Id, u64)> {
        let state = self.lock();
        let later = state.later.values().filter_map(Message::owed_credit);
        later.chain(state.flows.iter().flat_map(flow::Flow::owed_credit)).collect()
    }

    /// Ends delivery, and wakes all receivers with Closed, and threads whose patience has ended.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.tell_arrived(state);
        self.settled.tell();
    }

    /// Makes due messages ready, and fails those of expired handlers. Returns when the next is due.
    fn wake(&self, state: &mut MutexGuard<'_, Waiting>) -> Option<Instant> {
        if state.later.is_empty() && state.resting.is_empty() && state.limits.is_empty() {
            return None;
        }
        let time = now();
        while let Some((_, watch)) = state.limits.first().copied().filter(|(until, _)| *until <= time) {
            // The late handler may still finish; another may try in the meantime.
            if let Some(out) = state.take_out(watch) {
                self.fail_in(state, out.message);
            }
        }
        let due = state.wake(time);
        self.signal_descriptor(state);
        due
    }
}
