//! Streams of which other receivers have a part.

use std::time::Instant;

use pinnace_stream::{RETURN_AFTER, RangeSet};

use super::Inward;
use crate::environment::now;
use crate::inbox::{Held, Want};
use crate::store::Store;
use crate::wire::{FromReceiver, split};

impl Inward {
    pub(super) fn on_share(&mut self, store: &Store, from: u32, stream: u64, topic: &str, gone: &RangeSet) {
        let Some(start) = self.begin_stream(store, from, stream, topic) else { return };
        let (origin, held, given_up) = self.inbox.share(&start, gone);
        if let Some(session) = self.sessions.get_mut(&from) {
            self.inbox.set_reports_expired(&origin, session.wants_expired);
            session.streams.insert(stream, origin);
        }
        if let Some(held) = held {
            // They precede the Held frame: the sender gives messages to others that are neither held nor done.
            split(&held.done).skip(1).for_each(|done| self.say(from, &FromReceiver::Ack { stream, done }));
            self.say_held(from, held);
        }
        for (last, given_up) in given_up {
            self.say_final(from, stream, last, given_up);
        }
    }

    pub(super) fn on_taken(&mut self, from: u32, stream: u64, taken: &RangeSet) {
        let origin = self.sessions.get(&from).and_then(|session| session.streams.get(&stream)).cloned();
        if let Some(held) = origin.and_then(|origin| self.inbox.mark_taken(&origin, taken)) {
            self.say_held(from, held);
        }
    }

    /// A frame of a shared stream was lost.
    pub(super) fn report(&mut self, from: u32, stream: u64) {
        let origin = self.sessions.get(&from).and_then(|session| session.streams.get(&stream)).cloned();
        if let Some(held) = origin.and_then(|origin| self.inbox.report(&origin)) {
            self.say_held(from, held);
        }
    }

    /// Returns messages that have waited for too long to their senders, and parks streams that starve others.
    pub fn return_waiting(&mut self) {
        if self.return_at.is_none_or(|at| at > now()) {
            return;
        }
        let (returned, next) = self.inbox.return_waiting();
        self.return_at = next.into_iter().chain(self.park()).min();
        for held in returned {
            if let Some(from) = self.session_of(&held.of) {
                self.say_held(from, held);
            }
        }
    }

    /// Parks a stream of each sender to which no credit was granted for too long. Returns when to call this again.
    fn park(&mut self) -> Option<Instant> {
        let (time, mut next) = (now(), None);
        for session in self.sessions.values_mut() {
            let Some((since, granted)) = session.exhausted else { continue };
            if !session.credit.is_exhausted() || session.credit.granted() != granted {
                session.exhausted = session.credit.is_exhausted().then(|| (time, session.credit.granted()));
            } else if since + RETURN_AFTER <= time {
                if session.streams.len() > 1 {
                    self.inbox.park(session.id);
                }
                session.exhausted = Some((time, granted));
            }
            let due = session.exhausted.map(|(since, _)| since + RETURN_AFTER);
            next = [next, due].into_iter().flatten().min();
        }
        next
    }

    /// The client ends: returns what no handler has. Returns true if there are shared streams.
    pub(super) fn say_returned(&mut self) -> bool {
        let returned = self.inbox.return_all();
        let any = !returned.is_empty();
        for held in returned {
            if let Some(from) = self.session_of(&held.of) {
                self.say_held(from, held);
            }
        }
        any
    }

    /// When to call `return_waiting`.
    pub fn return_at(&self) -> Option<Instant> {
        self.return_at
    }

    fn say_held(&self, to: u32, held: Held) {
        let Held { of: (_, _, stream), generation, wanted, held, done } = held;
        let done = split(&done).next().unwrap_or_default();
        self.say(to, &FromReceiver::Held { stream, generation, wanted, held, done });
    }

    pub(super) fn say_want(&self, want: Want) {
        let Want { of, generation, wanted } = want;
        if let Some(from) = self.session_of(&of) {
            self.say(from, &FromReceiver::Want { stream: of.2, generation, wanted });
        }
    }
}
