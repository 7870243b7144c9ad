//! Deliveries are counted over crashes, for a client with `max_deliveries`.
//!
//! After a process that did not end in order the inbox is *suspect* for a while: a message is handed out only after its
//! count is on the disk. `pop` does not wait for that. It sets the message aside, and the peer loop tells when it is
//! recorded. Only one message is aside at a time, and it is the next to be handed out: otherwise messages would count
//! as delivered that no handler had when the process died.

use std::collections::HashMap;
use std::sync::MutexGuard;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pinnace_stream::{RETURN_AFTER, RangeSet};

use super::waiting::Recording;
use super::{Held, Inbox, Message, Waiting};
use crate::environment::now;
use crate::store::{Attempt, Incoming};
use crate::wire::Verdict;

/// An inbox is suspect until both are over: this time, and this many messages that were settled.
const SUSPECT_FOR: Duration = Duration::from_secs(2);
const SUSPECT_COUNT: u32 = 64;

/// A message, by its stream and the number of its last part.
type MessageKey = (Incoming, u64);

/// The counts of an inbox.
#[derive(Default)]
pub struct Counts {
    /// Of earlier processes, until the message arrives.
    loaded: HashMap<MessageKey, u32>,
    /// As recorded, of messages that are not settled.
    recorded: HashMap<MessageKey, u32>,
    aside: Option<Aside>,
    /// None: the inbox is not suspect.
    suspect: Option<Suspect>,
}

/// A message whose count is being recorded.
struct Aside {
    message: Message,
    is_recorded: bool,
    since: Instant,
    /// No handler of this process had it.
    is_new: bool,
}

struct Suspect {
    until: Instant,
    /// Messages that are to be settled.
    left: u32,
}

/// What becomes of a message that is next.
pub(super) enum Admission {
    HandOut(Message),
    GivenUp,
    Aside,
}

fn key_of(message: &Message) -> MessageKey {
    (message.parts.first().frame.origin.of, message.parts.last_seq())
}

fn attempt_of(message: &Message) -> Attempt {
    let (of, last) = key_of(message);
    Attempt { of, last, deliveries: message.deliveries }
}

impl Counts {
    /// Returns true if a message is set aside until its count is on the disk: no other is handed out.
    pub fn is_waiting(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| !aside.is_recorded)
    }

    fn is_suspect(&mut self) -> bool {
        if self.suspect.as_ref().is_some_and(|suspect| suspect.left == 0 && suspect.until <= now()) {
            self.suspect = None;
        }
        self.suspect.is_some()
    }

    /// A message is acknowledged or given up.
    pub fn settle(&mut self, message: &Message) {
        if !self.recorded.is_empty() {
            self.recorded.remove(&key_of(message));
        }
        self.suspect.iter_mut().for_each(|suspect| suspect.left = suspect.left.saturating_sub(1));
    }

    /// The sender no longer has these messages.
    pub fn forget(&mut self, of: &Incoming, gone: &RangeSet) {
        for counts in [&mut self.loaded, &mut self.recorded] {
            if !counts.is_empty() {
                counts.retain(|(other, last), _| other != of || !gone.contains(*last));
            }
        }
    }
}

impl Waiting {
    /// Puts the message that was recorded back at the head of its flow, and returns the flow.
    pub(super) fn release_aside(&mut self) -> Option<usize> {
        let Aside { message, .. } = self.counts.aside.take_if(|aside| aside.is_recorded)?;
        let index = message.parts.first().frame.origin.flow;
        if self.flows[index].acceptance.done().contains(message.parts.last_seq()) {
            // The sender has dropped it meanwhile, or a late handler has finished it.
            self.credit(&message);
        } else {
            self.flows[index].again.push_front(Message { deliveries: message.deliveries - 1, ..message });
        }
        Some(index)
    }
}

impl Inbox {
    /// Begins with what earlier processes have recorded. `was_clean`: the last one ended in order.
    pub fn load_counts(&self, (was_clean, counts): (bool, Vec<Attempt>)) {
        if self.retry.deliveries.is_none() {
            return;
        }
        let mut state = self.lock();
        state.counts.loaded = counts.iter().map(|of| ((of.of, of.last), of.deliveries)).collect();
        let suspect = || Suspect { until: now() + SUSPECT_FOR, left: SUSPECT_COUNT };
        state.counts.suspect = (!was_clean).then(suspect);
    }

    /// Decides whether a message can be handed out now.
    pub(super) fn admit(&self, state: &mut MutexGuard<'_, Waiting>, mut message: Message) -> Admission {
        let Some(most) = self.retry.deliveries else { return Admission::HandOut(message) };
        let (key, is_new) = (key_of(&message), message.deliveries == 1);
        if let Some(before) = state.counts.loaded.remove(&key) {
            message.deliveries += before;
            state.counts.recorded.insert(key, before);
        }
        if message.deliveries > most {
            message.deliveries -= 1;
            self.give_up_in(state, &message, Verdict::Deliveries);
            return Admission::GivenUp;
        }
        let recorded = state.counts.recorded.get(&key).copied();
        let is_due = recorded.unwrap_or(0) < message.deliveries
            && (recorded.is_some() || state.counts.is_suspect())
            && state.recording != Recording::Failed;
        if !is_due {
            return Admission::HandOut(message);
        }
        state.news.attempt = Some(attempt_of(&message));
        state.counts.aside = Some(Aside { message, is_recorded: false, since: now(), is_new });
        self.tell_once(state);
        Admission::Aside
    }

    /// A message goes to a handler.
    pub(super) fn hand_out(
        &self,
        state: &mut MutexGuard<'_, Waiting>,
        mut message: Message,
        handler: Option<ThreadId>,
    ) -> Message {
        if let Some(within) = self.retry.within {
            if state.limits.is_empty() {
                // The peer loop must watch the time for the handler.
                (self.tell)();
            }
            state.watch(&mut message, now() + within);
        }
        message.handler = handler;
        state.hand_out(&message);
        message
    }

    pub(super) fn is_last(&self, message: &Message) -> bool {
        self.retry.deliveries.is_some_and(|most| message.deliveries >= most)
    }

    /// Has the count of a message recorded that no handler has any more, without waiting for that.
    pub(super) fn count(&self, state: &mut MutexGuard<'_, Waiting>, message: &Message) {
        if self.retry.deliveries.is_some() {
            state.news.counted.push(attempt_of(message));
            self.tell_once(state);
        }
    }

    /// A delivery does not count: if its count was recorded, it is recorded again.
    pub(super) fn take_back_count(&self, state: &mut MutexGuard<'_, Waiting>, message: &Message) {
        if let Some(recorded) = state.counts.recorded.get_mut(&key_of(message)) {
            *recorded = message.deliveries;
            self.count(state, message);
        }
    }

    /// Called by the peer loop when the count of the message that was set aside is on the disk, or the store has
    /// failed.
    pub fn attempt_recorded(&self) {
        let mut state = self.lock();
        let Some(aside) = &mut state.counts.aside else { return };
        aside.is_recorded = true;
        let Attempt { of, last, deliveries } = attempt_of(&aside.message);
        let index = aside.message.parts.first().frame.origin.flow;
        state.counts.recorded.insert((of, last), deliveries);
        state.ready.enqueue(index);
        self.tell_arrived(state);
    }

    /// Returns a message of a shared stream to its sender that was set aside and has waited too long for a handler.
    /// Returns also when to call this again.
    pub(super) fn return_aside(
        &self,
        state: &mut MutexGuard<'_, Waiting>,
        time: Instant,
    ) -> (Option<Held>, Option<Instant>) {
        let Waiting { flows, counts, .. } = &mut **state;
        let Some(aside) = counts.aside.as_ref().filter(|aside| aside.is_new) else { return (None, None) };
        let index = aside.message.parts.first().frame.origin.flow;
        if flows[index].shared.is_none() {
            return (None, None);
        }
        let due = aside.since + RETURN_AFTER;
        if due > time || !aside.is_recorded {
            return (None, Some(due.max(time + Duration::from_millis(1))));
        }
        let Some(Aside { message, .. }) = counts.aside.take() else { return (None, None) };
        let message = Message { deliveries: message.deliveries - 1, ..message };
        counts.recorded.remove(&key_of(&message));
        // It may come again.
        counts.loaded.insert(key_of(&message), message.deliveries);
        self.count(state, &message);
        let held = state.flows[index].return_one(message);
        state.changed.enqueue(index);
        self.pay(state, index);
        (held, None)
    }

    /// Returns true if a message is set aside.
    #[cfg(test)]
    pub fn is_aside(&self) -> bool {
        self.lock().counts.aside.is_some()
    }

    /// The client ends: takes the message back that was set aside for a handler. Its count is one too high.
    pub fn cancel_attempt(&self) -> Option<Attempt> {
        let mut state = self.lock();
        let aside = state.counts.aside.take()?;
        let index = aside.message.parts.first().frame.origin.flow;
        let message = Message { deliveries: aside.message.deliveries - 1, ..aside.message };
        let attempt = attempt_of(&message);
        state.flows[index].again.push_front(message);
        Some(attempt)
    }
}
