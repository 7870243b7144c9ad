//! The inbox's queues: streams waiting for their turn, messages for their time, tasks for messages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use pinnace_stream::RoundRobin;

use super::attempts::Counts;
use super::counts::FlowCounts;
use super::flow::{Flow, Message, TimeLimit};
use super::in_hand::InHand;
use super::readiness::Readiness;
use super::{InboxNews, Origin};
use crate::environment::now;
use crate::store::Incoming;

/// Whether the progress is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recording {
    #[default]
    Complete,
    UnderWay,
    /// The store has failed.
    Failed,
}

/// A message in the hands of a handler with a time limit.
pub struct Out {
    pub message: Message,
    pub until: Instant,
}

/// The state behind an inbox's lock.
#[derive(Default)]
pub struct Waiting {
    pub flows: Vec<Flow>,
    pub by_stream: HashMap<Incoming, usize>,
    /// Flows with deliverable messages.
    pub ready: RoundRobin,
    /// Deferred messages, by the time they are due.
    pub later: BTreeMap<(Instant, u64), Message>,
    /// Distinguishes messages that are due at the same time.
    pub put_off_last: u64,
    /// Paused flows, by the time they resume.
    pub resting: BTreeMap<(Instant, usize), ()>,
    /// Messages in the hands of handlers with a time limit, and the limits sorted by time.
    pub out: HashMap<u64, Out>,
    pub limits: BTreeSet<(Instant, u64)>,
    pub last_watch: u64,
    pub in_hand: InHand,
    pub recording: Recording,
    pub counts: Counts,
    /// Tasks waiting for a message.
    pub tasks: Vec<Waker>,
    pub readiness: Readiness,
    pub news: InboxNews,
    pub is_notified: bool,
    pub closed: bool,
    /// Settling a message has no effect: the client has ended, and another one may have its name.
    pub is_void: bool,
    /// The flows of shared streams.
    pub shared: Vec<usize>,
    /// Flows that have changed since the last call of `Inbox::ask`, which looks at these alone.
    pub changed: RoundRobin,
}

impl Waiting {
    /// Makes everything due by `now` ready. Returns when the next item is due.
    pub fn wake(&mut self, now: Instant) -> Option<Instant> {
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
                self.changed.enqueue(index);
                self.list(index);
            }
        }
        let later = self.later.keys().next().map(|key| key.0);
        let resting = self.resting.keys().next().map(|key| key.0);
        let limit = self.limits.first().map(|limit| limit.0);
        later.into_iter().chain(resting).chain(limit).min()
    }

    pub fn counts_of(&mut self, message: &Message) -> &mut FlowCounts {
        &mut self.flows[message.parts.first().frame.origin.flow].counts
    }

    /// Counts a message as handed out.
    pub fn hand_out(&mut self, message: &Message) {
        self.in_hand.add(message.handler);
        self.counts_of(message).hand_out(message);
    }

    /// Starts a handler's time limit for a message.
    pub fn watch(&mut self, message: &mut Message, until: Instant) {
        self.last_watch += 1;
        let is_paid = message.limit.take().map(|limit| limit.is_paid).unwrap_or_default();
        message.limit = Some(TimeLimit { key: self.last_watch, is_paid });
        self.out.insert(self.last_watch, Out { message: message.clone(), until });
        self.limits.insert((until, self.last_watch));
    }

    pub fn take_out(&mut self, watch: u64) -> Option<Out> {
        let out = self.out.remove(&watch)?;
        self.limits.remove(&(out.until, watch));
        Some(out)
    }

    /// Ends a handler's time limit for a message. False: it had expired.
    pub fn take_back(&mut self, message: &Message) -> bool {
        message.limit.as_ref().is_none_or(|limit| self.take_out(limit.key).is_some())
    }

    pub fn put_off(&mut self, delay: Duration, message: Message) {
        self.put_off_last += 1;
        let at = (now() + delay, self.put_off_last);
        self.later.insert(at, message);
    }

    /// The flow of a stream, which is added if there is none. Returns also whether it was.
    pub fn flow_of(&mut self, of: Incoming, from: &str, topic: &str) -> (usize, bool) {
        let next = self.flows.len();
        let index = *self.by_stream.entry(of).or_insert(next);
        let origin = || Arc::new(Origin { of, from: from.to_owned(), topic: topic.to_owned(), flow: index });
        if index == next {
            self.flows.push(Flow::new(origin()));
        } else if self.flows[index].origin.topic != topic || self.flows[index].origin.from != from {
            // The sender lost its record of the earlier stream before it reached the disk, and reused the number.
            self.flows[index].origin = origin();
        }
        (index, index == next)
    }

    /// Returns true if a message can be handed out.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty() && !self.counts.is_waiting()
    }

    pub fn list(&mut self, index: usize) {
        if self.flows[index].has_some() {
            self.ready.enqueue(index);
        }
    }

    /// Returns the credit of a whole message to its sender. That of parts was returned on arrival.
    pub fn credit(&mut self, message: &Message) {
        if let Some((sender, cost)) = message.take_credit() {
            self.news.pay_back(sender, cost);
        }
    }

    /// The peer loop is to look at a flow.
    pub fn note(&mut self, index: usize) {
        if !std::mem::replace(&mut self.flows[index].dirty, true) {
            self.news.dirty.push(index);
        }
    }

    /// The application has settled a message of a flow for good: until that is on the disk, `Inbox::wait_recorded`
    /// waits.
    pub fn note_progress(&mut self, index: usize) {
        self.note(index);
        if self.recording == Recording::Complete {
            self.recording = Recording::UnderWay;
        }
    }
}
