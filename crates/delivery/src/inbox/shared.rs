//! Streams that several receivers share: what this client has of them, and how many messages it asks for.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use pinnace_stream::{Acceptance, Arrival, Pull, RETURN_AFTER, RangeSet};

use super::begun::{Assembled, BegunMessages};
use super::flow::{Flow, Message, Taken};
use super::{Arrived, Frame, FramePlace, GivenUp, Inbox, Origin, Outcome, StreamStart, Waiting};
use crate::environment::now;
use crate::store::Incoming;
use crate::wire::{BEGINS, COST, Data, ENDS, split};

/// What a flow of a shared stream has in addition.
#[derive(Default)]
pub struct SharedPart {
    pull: Pull,
    /// The numbers that have arrived and were not returned, and those that are done.
    pub(super) arrived: RangeSet,
    /// The done numbers that the sender knows: this client has acknowledged them, or the sender has reported them as
    /// gone.
    pub(super) known: RangeSet,
    /// The frame of which a message was handed out last: its generation and index.
    last_frame: Option<(u64, u64)>,
    /// The flow is listed in `InboxNews::asking`.
    is_asking: bool,
    pub(super) begun: BegunMessages,
}

/// Messages asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    pub of: Incoming,
    pub generation: u64,
    /// The total since this generation began.
    pub wanted: u64,
}

/// What this client has of a shared stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub of: Incoming,
    pub generation: u64,
    pub wanted: u64,
    /// The numbers of messages that wait or are in hand, and done numbers that the sender may not know.
    pub held: RangeSet,
    /// What is certainly done.
    pub done: RangeSet,
}

impl SharedPart {
    /// Takes a number. Returns false for a duplicate.
    pub(super) fn accept(&mut self, number: u64, acceptance: &Acceptance) -> bool {
        let is_new = !self.arrived.contains(number) && !acceptance.done().contains(number);
        self.arrived.add(number, number);
        is_new
    }

    /// A message has arrived. `waits`: for a handler.
    pub(super) fn receive(&mut self, waits: bool) {
        self.pull.receive();
        if !waits {
            self.pull.take(Duration::ZERO, now);
        }
    }

    /// A message leaves the queue.
    pub(super) fn hand_out(&mut self, first: &Arrived) {
        let frame = first.frame.place.map(|of| (of.generation, of.index));
        let mut waited = Duration::ZERO;
        if std::mem::replace(&mut self.last_frame, frame) != frame {
            waited = first.frame.place.map_or(waited, |of| now().saturating_duration_since(of.arrived));
        }
        self.pull.take(waited, now);
    }
}

impl Flow {
    /// Takes in the messages of a frame of a shared stream.
    pub(super) fn take_work(
        &mut self,
        frame: &Arc<Frame>,
        place: FramePlace,
        data: &Data<'_>,
        largest: usize,
    ) -> Taken {
        let Some(shared) = &mut self.shared else { return Taken::dropped(data, Outcome::Nonsense) };
        match shared.pull.check(place.generation, place.index) {
            Arrival::InTurn => self.take_shared(frame, data, largest),
            Arrival::Old => Taken::dropped(data, Outcome::Taken),
            Arrival::Gap => Taken::dropped(data, Outcome::Lost),
        }
    }

    fn take_shared(&mut self, frame: &Arc<Frame>, data: &Data<'_>, largest: usize) -> Taken {
        let mut taken = Taken::default();
        for entry in data.entries() {
            let Some(entry) = entry else { return Taken { outcome: Outcome::Nonsense, ..taken } };
            let Some(shared) = &mut self.shared else { continue };
            let (cost, ends) = (COST + entry.body.len() as u64, entry.flags & ENDS != 0);
            taken.cost += cost;
            let is_new = shared.accept(entry.seq, &self.acceptance);
            let mut waits = false;
            if is_new {
                // The numbers before it are other receivers'.
                let part = Arrived::new(frame, &entry, entry.seq);
                match shared.begun.add(part, largest, &mut self.counts) {
                    Assembled::Incomplete => {}
                    Assembled::TooLarge(first) => {
                        taken.given_up.push(self.give_up_too_large(first, entry.seq));
                    }
                    Assembled::Whole(part) => {
                        waits = true;
                        self.queue.push_back(part);
                    }
                    Assembled::Complete(parts) => {
                        waits = true;
                        self.queue.extend(parts);
                    }
                    Assembled::Orphan(part) => {
                        self.finish(&part);
                        self.dirty = true;
                    }
                }
            }
            if !(waits && entry.flags & BEGINS != 0) {
                // The credit of parts is returned on arrival: a message may be larger than the window.
                taken.at_once += cost;
            }
            if ends {
                *(if is_new { &mut self.counts.received } else { &mut self.counts.duplicates }) += 1;
                self.shared.as_mut().into_iter().for_each(|shared| shared.receive(waits));
            }
        }
        if let Some(lowest) = self.shared.as_ref().and_then(|shared| shared.begun.excess(largest)) {
            self.return_some(|first, _| first <= lowest);
            taken.outcome = Outcome::Lost;
        }
        taken
    }

    /// The count of whole messages that wait.
    fn waiting(&self) -> u64 {
        self.queue.iter().filter(|part| part.has(ENDS)).count() as u64
    }

    /// Begins a generation. `wanted`: the messages asked for at first, if none waits.
    fn report(&mut self, wanted: u64, done: RangeSet) -> Option<Held> {
        let held = self.held()?;
        let waiting = self.waiting();
        let wanted = if waiting == 0 { wanted } else { 0 };
        let shared = self.shared.as_mut()?;
        let (generation, wanted) = shared.pull.restart(waiting, wanted);
        Some(Held { of: self.origin.of, generation, wanted, held, done })
    }

    /// The numbers to report as held. If a frame has no room for all ranges, the client returns the waiting messages of
    /// the last ones.
    fn held(&mut self) -> Option<RangeSet> {
        let shared = self.shared.as_ref()?;
        let all = shared.arrived.without(&shared.known);
        let first = split(&all).next()?;
        if first == all {
            return Some(first);
        }
        let returned = self.return_some(|_, last| last <= first.last());
        Some(first.without(&returned))
    }

    /// Drops the messages that wait, and those that have begun, except those that `keeps` selects by their first and
    /// last number, as if they had never arrived. Returns their numbers.
    fn return_some(&mut self, keeps: impl Fn(u64, u64) -> bool) -> RangeSet {
        let Some(shared) = &mut self.shared else { return RangeSet::default() };
        let (mut unpaid, sender) = (0, self.origin.of.1);
        let counts = &mut self.counts;
        let mut returned = shared.begun.retain(counts, &keeps);
        let (mut first, mut kept) = (0, VecDeque::with_capacity(self.queue.len()));
        let mut parts = Vec::new();
        for part in self.queue.drain(..) {
            first = if part.has(BEGINS) { part.seq } else { first };
            let (last, ends) = (part.seq, part.has(ENDS));
            parts.push(part);
            if !ends {
                continue;
            }
            if keeps(first, last) {
                kept.extend(parts.drain(..));
                continue;
            }
            returned.add(first, last);
            for part in parts.drain(..) {
                counts.dequeue(&part);
                // The credit of parts was returned on arrival.
                unpaid += if part.has(BEGINS | ENDS) { part.cost() } else { 0 };
            }
        }
        kept.append(&mut parts.into());
        self.queue = kept;
        let returned = returned.without(self.acceptance.done());
        shared.arrived.remove_all(&returned);
        self.unpaid.push((sender, unpaid));
        returned
    }

    /// Drops the complete messages that wait for a handler, and the begun messages with higher numbers, so that
    /// messages with an ordering key stay in order. A begun message with a lower number stays: it arrives slowly.
    fn return_complete(&mut self) {
        let lowest = self.queue.iter().map(|part| part.seq).min().unwrap_or(u64::MAX);
        self.return_some(|first, _| first < lowest);
    }

    /// Returns messages that have failed.
    fn return_failed(&mut self, put_off: Vec<Message>) {
        let mut returned = RangeSet::default();
        for message in put_off.into_iter().chain(self.again.drain(..)) {
            message.parts.as_slice().iter().for_each(|part| returned.add(part.seq, part.seq));
            self.unpaid.extend(message.take_credit());
        }
        if let Some(shared) = &mut self.shared {
            shared.arrived.remove_all(&returned.without(self.acceptance.done()));
        }
    }

    /// Returns a message that no handler has.
    pub(super) fn return_one(&mut self, message: Message) -> Option<Held> {
        self.return_failed(vec![message]);
        self.report(0, RangeSet::default())
    }

    /// As `want`, for a flow that was listed in `InboxNews::asking`.
    pub(super) fn asked(&mut self) -> Option<Want> {
        self.shared.as_mut()?.is_asking = false;
        self.want()
    }

    /// What it asks for, if that is new.
    pub(super) fn want(&mut self) -> Option<Want> {
        let of = self.origin.of;
        let shared = self.shared.as_mut()?;
        let wanted = shared.pull.to_announce()?;
        Some(Want { of, generation: shared.pull.generation(), wanted })
    }
}

impl Inbox {
    /// Opens or resumes a shared stream, as `open` does. Returns also what this client has of it.
    pub fn share(
        &self,
        start: &StreamStart,
        gone: &RangeSet,
    ) -> (Arc<Origin>, Option<Held>, Vec<(u64, GivenUp)>) {
        let mut state = self.lock();
        let (index, is_new) = state.flow_of(start.of, &start.from, &start.topic);
        if state.flows[index].shared.is_none() {
            state.shared.push(index);
            // The sender may have opened it to this client alone before.
            let arrived = state.flows[index].all_arrived();
            // What was handled since may not be on the disk yet: it is logged first, and acknowledged then.
            let known = if is_new { start.noted.clone() } else { RangeSet::default() };
            let begun = state.flows[index].take_begun();
            let flow = &mut state.flows[index];
            flow.fresh = flow.acceptance.done().clone();
            flow.shared = Some(SharedPart { arrived, known, begun, ..SharedPart::default() });
        }
        let flow = &mut state.flows[index];
        flow.mark_gone(&start.noted);
        flow.settled = flow.settled.max(gone.all_upto());
        flow.mark_gone(gone);
        let begun = flow.shared.as_ref().map(|shared| &shared.begun).filter(|_| start.is_restarted);
        if let Some(first) = begun.and_then(BegunMessages::first_volatile) {
            // The sender does not have the other parts. Higher numbers come after it again.
            flow.return_some(|_, last| last < first);
        }
        let given_up = flow.given_up.iter().map(|(seq, given_up)| (*seq, *given_up)).collect();
        let known = flow.shared.as_ref().map(|shared| shared.known.clone()).unwrap_or_default();
        let held = flow.report(1, known);
        let origin = flow.origin.clone();
        state.changed.enqueue(index);
        self.pay(&mut state, index);
        state.note(index);
        self.tell_once(&mut state);
        (origin, held, given_up)
    }

    /// The sender has opened a stream to this client alone that was a shared one: an earlier build has its store, or an
    /// old copy of its store has given the number again. What waits is sent again.
    pub(super) fn end_sharing(&self, state: &mut MutexGuard<'_, Waiting>, index: usize) {
        if state.flows[index].shared.is_some() {
            state.flows[index].return_some(|_, _| false);
            self.pay(state, index);
            state.flows[index].shared = None;
            state.shared.retain(|other| *other != index);
        }
    }

    /// A frame was lost: what has arrived is reported.
    pub fn report(&self, origin: &Origin) -> Option<Held> {
        let mut state = self.lock();
        let held = state.flows[origin.flow].report(1, RangeSet::default());
        state.changed.enqueue(origin.flow);
        self.pay(&mut state, origin.flow);
        held
    }

    /// Other receivers have these numbers: drops the waiting messages with one of them. Returns a report if these
    /// messages have other numbers too.
    pub fn mark_taken(&self, origin: &Origin, taken: &RangeSet) -> Option<Held> {
        let mut state = self.lock();
        let dropped = state.flows[origin.flow].drop_taken(taken);
        let held = (dropped.without(taken).last() > 0)
            .then(|| state.flows[origin.flow].report(0, RangeSet::default()));
        state.changed.enqueue(origin.flow);
        self.pay(&mut state, origin.flow);
        held.flatten()
    }

    /// Returns the messages of shared streams that have waited for too long, and when to call this again.
    pub fn return_waiting(&self) -> (Vec<Held>, Option<Instant>) {
        let mut state = self.lock();
        let time = now();
        let (aside, mut next) = self.return_aside(&mut state, time);
        let mut returned: Vec<Held> = aside.into_iter().collect();
        for at in 0..state.shared.len() {
            let index = state.shared[at];
            let flow = &mut state.flows[index];
            let front = flow.queue.iter().find(|part| !flow.acceptance.done().contains(part.seq));
            let Some(FramePlace { arrived, .. }) = front.and_then(|part| part.frame.place) else { continue };
            let due = arrived + RETURN_AFTER;
            if due > time {
                next = Some(next.map_or(due, |next: Instant| next.min(due)));
                continue;
            }
            flow.return_complete();
            returned.extend(flow.report(0, RangeSet::default()));
            state.changed.enqueue(index);
            self.pay(&mut state, index);
        }
        (returned, next)
    }

    /// The client ends: returns all messages of shared streams that no handler has.
    pub fn return_all(&self) -> Vec<Held> {
        // The caller has called `cancel_attempt`, so none is set aside.
        let mut state = self.lock();
        let put_off: Vec<Message> = std::mem::take(&mut state.later).into_values().collect();
        let mut returned = Vec::new();
        for at in 0..state.shared.len() {
            let index = state.shared[at];
            let flow = &mut state.flows[index];
            let own = put_off.iter().filter(|message| message.parts.first().frame.origin.flow == index);
            let own: Vec<Message> = own.cloned().collect();
            flow.return_failed(own);
            flow.return_some(|_, _| false);
            returned.extend(flow.report(0, RangeSet::default()));
        }
        returned
    }

    /// Returns the credit of messages that need no handling.
    pub(super) fn pay(&self, state: &mut MutexGuard<'_, Waiting>, index: usize) {
        for (sender, bytes) in std::mem::take(&mut state.flows[index].unpaid) {
            state.news.pay_back(sender, bytes);
            self.tell_once(state);
        }
    }

    /// A handler asks for a message, and none is here.
    pub(super) fn ask(&self, state: &mut MutexGuard<'_, Waiting>) {
        if state.changed.is_empty() {
            return;
        }
        let time = now();
        while let Some(index) = state.changed.take() {
            let flow = &mut state.flows[index];
            if let Some(shared) = flow.shared.as_mut().filter(|_| flow.held_until.is_none()) {
                shared.pull.ask(time);
                self.ask_more(state, index);
            }
        }
    }

    /// Has the peer loop announce what a flow asks for, if that is urgent.
    #[inline]
    pub(super) fn ask_more(&self, state: &mut MutexGuard<'_, Waiting>, index: usize) {
        let Some(shared) = &mut state.flows[index].shared else { return };
        if shared.pull.is_urgent() && !std::mem::replace(&mut shared.is_asking, true) {
            state.news.asking.push(index);
            self.tell_once(state);
        }
    }
}

impl Flow {
    /// The numbers that have arrived, and those that are done.
    fn all_arrived(&self) -> RangeSet {
        let mut arrived = self.acceptance.done().clone();
        arrived.add_upto(self.acceptance.received());
        arrived
    }

    /// Takes the message whose last part has not arrived.
    fn take_begun(&mut self) -> BegunMessages {
        let is_whole = self.queue.back().is_none_or(|part| part.has(ENDS));
        let begin = self.queue.iter().rposition(|part| part.has(BEGINS)).filter(|_| !is_whole);
        let parts = begin.map(|at| self.queue.split_off(at)).unwrap_or_default();
        BegunMessages::of_one(parts.into(), self.skipping.take(), self.acceptance.received())
    }

    fn drop_taken(&mut self, taken: &RangeSet) -> RangeSet {
        let dropped = self.return_some(|first, last| !(first..=last).any(|seq| taken.contains(seq)));
        let waiting = self.waiting();
        if let Some(shared) = &mut self.shared {
            shared.pull.forget_earlier(waiting);
        }
        dropped
    }
}
