//! What waits, and for what: streams for their turns, messages for their time, tasks for messages.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::News;
use super::flow::{Flow, Message, Parts};
use crate::store::Incoming;

/// A message that is with its handler, which has a time limit.
pub struct Out {
    pub message: Message,
    pub until: Instant,
}

/// Everything behind an inbox's lock.
#[derive(Default)]
pub struct Waiting {
    pub flows: Vec<Flow>,
    pub by_stream: HashMap<Incoming, usize>,
    /// Flows with something to deliver, in their turns.
    pub ready: VecDeque<usize>,
    /// Messages that were put off, by when they are due.
    pub later: BTreeMap<(Instant, u64), Message>,
    /// To tell those apart that are due at once.
    pub put_off_last: u64,
    /// Flows that rest, by when they go on.
    pub resting: BTreeMap<(Instant, usize), ()>,
    /// Messages whose handlers have a time limit, and by when they reach it.
    pub out: HashMap<u64, Out>,
    pub limits: BTreeSet<(Instant, u64)>,
    pub last_watch: u64,
    /// Tasks that wait for a message.
    pub tasks: Vec<Waker>,
    pub news: News,
    pub told: bool,
    pub closed: bool,
}

impl Waiting {
    /// What is due by `now` is ready. Returns when more is.
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
                self.list(index);
            }
        }
        let later = self.later.keys().next().map(|key| key.0);
        let resting = self.resting.keys().next().map(|key| key.0);
        let limit = self.limits.first().map(|limit| limit.0);
        later.into_iter().chain(resting).chain(limit).min()
    }

    /// A message goes to a handler that has time until then.
    pub fn watch(&mut self, message: &mut Message, until: Instant) {
        self.last_watch += 1;
        message.watch = Some(self.last_watch);
        self.out.insert(self.last_watch, Out { message: message.clone(), until });
        self.limits.insert((until, self.last_watch));
    }

    pub fn take_out(&mut self, watch: u64) -> Option<Out> {
        let out = self.out.remove(&watch)?;
        self.limits.remove(&(out.until, watch));
        Some(out)
    }

    /// A handler is through with a message. False: it was too late.
    pub fn take_back(&mut self, message: &Message) -> bool {
        message.watch.is_none_or(|watch| self.take_out(watch).is_some())
    }

    pub fn put_off(&mut self, delay: Duration, message: Message) {
        self.put_off_last += 1;
        let at = (Instant::now() + delay, self.put_off_last);
        self.later.insert(at, message);
    }

    pub fn list(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        if flow.has_some() && !std::mem::replace(&mut flow.listed, true) {
            self.ready.push_back(index);
        }
    }

    /// The bytes of a message may be sent anew by its connection; those of parts could be before.
    pub fn credit(&mut self, message: &Message) {
        if let Parts::One(part) = &message.parts {
            self.news.pay_back(part.frame.session, part.cost());
        }
    }

    pub fn note(&mut self, index: usize) {
        if !std::mem::replace(&mut self.flows[index].dirty, true) {
            self.news.dirty.push(index);
        }
    }
}
