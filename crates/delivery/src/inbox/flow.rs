//! One incoming stream: its received messages and its progress.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;
use std::time::Instant;

use pinnace_stream::{Acceptance, Batch, RangeSet};

use super::counts::FlowCounts;
use super::shared::SharedPart;
use super::{Arrived, Frame, GivenUp, Origin, Outcome};
use crate::properties;
use crate::wire::{BEGINS, COST, Data, ENDS, FrameEntry, Id, VOLATILE, Verdict};

pub struct Flow {
    pub origin: Arc<Origin>,
    /// Which numbers have arrived, and which are done: handled, or never to be handled.
    pub acceptance: Acceptance,
    /// The number up to which what is done is final and acknowledged.
    pub settled: u64,
    /// The done numbers of which the peer loop was not told since the connection began.
    pub fresh: RangeSet,
    /// That includes messages of the sender's log, and is not logged here yet.
    pub to_note: bool,
    /// The peer loop is to be told of `fresh`.
    pub dirty: bool,
    pub(super) queue: VecDeque<Arrived>,
    /// Bytes of the message that is arriving; and the number of the first part of one that is too large.
    growing: usize,
    pub(super) skipping: Option<u64>,
    /// Messages to deliver again, ahead of `queue`.
    pub(super) again: VecDeque<Message>,
    /// Delivery is paused until then, so that a failed message keeps its place.
    pub held_until: Option<Instant>,
    /// Credit of messages that need no handling, by sender; to be returned.
    pub unpaid: Vec<(Id, u64)>,
    /// Given-up messages that the sender has not made dead letters yet, by the number of the last part.
    pub given_up: BTreeMap<u64, GivenUp>,
    /// The sender is told which messages have expired here; and those that it was not told of.
    pub reports_expired: bool,
    pub expired: Vec<(u64, GivenUp)>,
    /// Present if other receivers have a part of the stream.
    pub shared: Option<SharedPart>,
    /// Messages that had arrived were dropped, and are requested again once the others are handled.
    pub is_parked: bool,
    pub counts: FlowCounts,
}

/// The result of taking in a frame: its cost, and how much of that to return at once.
#[derive(Default)]
pub struct Taken {
    pub outcome: Outcome,
    pub cost: u64,
    pub at_once: u64,
    /// Messages that are too large, by the number of the last part.
    pub given_up: Vec<(u64, GivenUp)>,
}

/// A complete message.
#[derive(Clone)]
pub struct Message {
    pub parts: Parts,
    /// Its deliveries, including this one; those before this process as far as they were recorded.
    pub deliveries: u32,
    /// This delivery's time limit, if it has one.
    pub limit: Option<TimeLimit>,
    /// The number up to which no message of its stream is delivered again.
    pub settled: u64,
    /// The thread of the handler that has it, if a handler has it.
    pub handler: Option<ThreadId>,
}

/// The time limit of a delivery.
#[derive(Clone)]
pub struct TimeLimit {
    pub key: u64,
    /// The credit of the message was returned. All deliveries of the message share it.
    pub is_paid: Arc<AtomicBool>,
}

#[derive(Clone)]
pub enum Parts {
    One(Arrived),
    Many(Vec<Arrived>),
}

impl Parts {
    pub fn as_slice(&self) -> &[Arrived] {
        match self {
            Parts::One(part) => std::slice::from_ref(part),
            Parts::Many(parts) => parts,
        }
    }

    pub fn first(&self) -> &Arrived {
        match self {
            Parts::One(part) => part,
            // A message has at least one part.
            Parts::Many(parts) => &parts[0],
        }
    }

    pub fn last_seq(&self) -> u64 {
        self.as_slice().last().map_or(0, |part| part.seq)
    }
}

impl Message {
    /// Bytes of its body.
    pub fn bytes(&self) -> u64 {
        self.parts.as_slice().iter().map(|part| part.body().len() as u64).sum()
    }

    /// The credit to return for it, and to which sender. None: it was returned, or parts have none.
    pub fn take_credit(&self) -> Option<(Id, u64)> {
        self.credit_unless(|is_paid| is_paid.swap(true, Ordering::Relaxed))
    }

    /// The credit that is still to be returned for it, and to which sender.
    #[cfg(test)]
    pub fn owed_credit(&self) -> Option<(Id, u64)> {
        self.credit_unless(|is_paid| is_paid.load(Ordering::Relaxed))
    }

    fn credit_unless(&self, was_paid: impl FnOnce(&AtomicBool) -> bool) -> Option<(Id, u64)> {
        let Parts::One(part) = &self.parts else { return None };
        let was_paid = self.limit.as_ref().is_some_and(|limit| was_paid(&limit.is_paid));
        (!was_paid).then(|| (part.frame.origin.of.1, part.cost()))
    }
}

impl Taken {
    /// These messages are sent again later, and charged again then.
    pub fn dropped(data: &Data<'_>, outcome: Outcome) -> Taken {
        let cost = data.entries().flatten().map(|entry| COST + entry.body.len() as u64).sum();
        Taken { outcome, cost, at_once: cost, given_up: Vec::new() }
    }
}

impl Flow {
    pub fn new(origin: Arc<Origin>) -> Flow {
        Flow {
            origin,
            acceptance: Acceptance::default(),
            settled: 0,
            fresh: RangeSet::default(),
            to_note: false,
            dirty: false,
            queue: VecDeque::new(),
            growing: 0,
            skipping: None,
            again: VecDeque::new(),
            held_until: None,
            unpaid: Vec::new(),
            reports_expired: false,
            expired: Vec::new(),
            given_up: BTreeMap::new(),
            shared: None,
            is_parked: false,
            counts: FlowCounts::default(),
        }
    }

    /// Marks a message or part as done.
    pub fn finish(&mut self, part: &Arrived) {
        self.mark_done(part.first, part.seq);
        self.to_note |= !part.has(VOLATILE);
    }

    /// Gives a message up. The sender learns of it by its parts' own numbers, and of the gap before it as done.
    pub fn give_up(&mut self, message: &Message, verdict: Verdict) -> (u64, GivenUp) {
        let (first, last) = (message.parts.first(), message.parts.last_seq());
        let given_up = GivenUp { first: first.seq, verdict, deliveries: message.deliveries };
        self.given_up.insert(last, given_up);
        self.counts.given_up += 1;
        self.finish_gap(first.first, first.seq);
        (last, given_up)
    }

    /// Marks the numbers from `first` to the one before `seq` as done: no message has them.
    fn finish_gap(&mut self, first: u64, seq: u64) {
        if first < seq {
            self.mark_done(first, seq - 1);
            self.to_note = true;
        }
    }

    fn mark_done(&mut self, first: u64, last: u64) {
        self.acceptance.mark_done(first, last);
        self.fresh.add(first, last);
    }

    /// The done numbers of which the peer loop was not told, and all up to the first number that is not done.
    pub fn take_fresh(&mut self) -> RangeSet {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.add_upto(self.acceptance.done().all_upto());
        fresh
    }

    /// Marks what the sender no longer has as done. Returns false if all of it was done.
    pub fn mark_gone(&mut self, gone: &RangeSet) -> bool {
        if let Some(shared) = &mut self.shared {
            shared.arrived.add_all(gone, u64::MAX);
            shared.known.add_all(gone, u64::MAX);
            shared.begun.retain(&mut self.counts, |_, last| !gone.contains(last));
        }
        let new = gone.without(self.acceptance.done());
        if new.last() == 0 {
            return false;
        }
        self.to_note = true;
        self.acceptance.mark_gone(&new);
        self.fresh.add_all(&new, u64::MAX);
        self.given_up.retain(|seq, _| !gone.contains(*seq));
        true
    }

    /// Takes in the messages of a data frame.
    pub fn take(&mut self, frame: &Arc<Frame>, data: &Data<'_>, largest: usize) -> Taken {
        let dropped = match self.acceptance.check(data.prev) {
            Batch::Accept => return self.take_entries(frame, data, largest),
            Batch::Gap { resend_after } => Outcome::Gap(resend_after),
            Batch::GapRequested => Outcome::Taken,
        };
        Taken::dropped(data, dropped)
    }

    fn take_entries(&mut self, frame: &Arc<Frame>, data: &Data<'_>, largest: usize) -> Taken {
        let mut prev = data.prev;
        let mut taken = Taken::default();
        for entry in data.entries() {
            let Some(entry) = entry else { return Taken { outcome: Outcome::Nonsense, ..taken } };
            taken.cost += COST + entry.body.len() as u64;
            let first = std::mem::replace(&mut prev, entry.seq) + 1;
            let is_new = self.acceptance.accept(entry.seq);
            let is_whole = entry.flags & (BEGINS | ENDS) == BEGINS | ENDS;
            let skipped = is_new && self.skips(&entry, first, largest);
            if entry.flags & ENDS != 0 {
                *(if is_new { &mut self.counts.received } else { &mut self.counts.duplicates }) += 1;
            }
            if !(is_new && is_whole) || skipped {
                // Return the credit of parts on arrival: a message may be larger than the window.
                taken.at_once += COST + entry.body.len() as u64;
            }
            if skipped && entry.flags & ENDS != 0 {
                let first = self.skipping.take();
                taken.given_up.extend(first.map(|first| self.give_up_too_large(first, entry.seq)));
            } else if is_new && !skipped {
                let arrived = Arrived::new(frame, &entry, first);
                self.counts.enqueue(&arrived);
                self.queue.push_back(arrived);
            }
        }
        taken
    }

    /// Returns true if the entry belongs to a message that is too large. `first`: the number after the previous
    /// entry's.
    fn skips(&mut self, entry: &FrameEntry<'_>, first: u64, largest: usize) -> bool {
        if entry.flags & BEGINS != 0 {
            (self.growing, self.skipping) = (0, None);
        }
        self.growing += entry.body.len() - properties::len_in(entry.flags, entry.body);
        if self.growing > largest && self.skipping.is_none() {
            let begin = self.queue.iter().rposition(|part| part.has(BEGINS) && !part.has(ENDS));
            let begin = begin.filter(|_| entry.flags & BEGINS == 0);
            let (first, seq) =
                begin.map_or((first, entry.seq), |at| (self.queue[at].first, self.queue[at].seq));
            let counts = &mut self.counts;
            self.queue.drain(begin.unwrap_or(self.queue.len())..).for_each(|part| counts.dequeue(&part));
            self.finish_gap(first, seq);
            self.skipping = Some(seq);
        }
        self.skipping.is_some()
    }

    /// Gives up a message after all its parts have arrived.
    pub(super) fn give_up_too_large(&mut self, first: u64, last: u64) -> (u64, GivenUp) {
        let given_up = GivenUp { first, verdict: Verdict::TooLarge, deliveries: 0 };
        self.given_up.insert(last, given_up);
        self.counts.given_up += 1;
        (last, given_up)
    }

    /// A message failed: it is delivered next again, but not before `until`.
    pub fn put_back(&mut self, message: Message, until: Instant) {
        self.return_to_place(message);
        self.held_until = Some(self.held_until.map_or(until, |held| held.max(until)));
    }

    /// No handler has seen a message: it is delivered next again, and this delivery does not count.
    pub fn give_back(&mut self, message: Message) {
        self.return_to_place(Message { deliveries: message.deliveries - 1, ..message });
    }

    fn return_to_place(&mut self, message: Message) {
        // If several come back, the earliest is first.
        let at = self.again.partition_point(|other| other.parts.last_seq() < message.parts.last_seq());
        self.again.insert(at, message);
    }

    /// Delivers a message again, ahead of all that wait.
    pub fn deliver_again(&mut self, message: Message) {
        self.again.push_back(message);
    }

    /// The next complete message. Marks as done: expired messages, and parts of messages that lack a beginning or an
    /// end because the sender ended in between.
    pub fn next(&mut self, now_ms: impl Fn() -> u64) -> Option<Message> {
        while let Some(mut message) = self.again.pop_front() {
            if self.acceptance.done().contains(message.parts.last_seq()) {
                // The sender has dropped it meanwhile; or, if it had a time limit, a late handler has finished it.
                self.unpaid.extend(message.take_credit());
                continue;
            }
            // One that was given back may never have reached a handler.
            let is_unseen = message.deliveries == 0;
            if !is_unseen || !message.parts.as_slice().iter().any(|part| part.is_expired(&now_ms)) {
                message.deliveries += 1;
                return Some(message);
            }
            self.expire(&message.parts);
        }
        loop {
            let parts = self.next_parts()?;
            if let Some(shared) = &mut self.shared {
                shared.hand_out(parts.first());
            }
            let is_done = |part: &Arrived| self.acceptance.done().contains(part.seq);
            if parts.as_slice().iter().all(|part| !part.is_expired(&now_ms) && !is_done(part)) {
                let (limit, handler) = (None, None);
                return Some(Message { parts, deliveries: 1, limit, settled: self.settled, handler });
            }
            match parts.as_slice().iter().any(is_done) {
                true => self.drop_done(&parts),
                false => self.expire(&parts),
            }
        }
    }

    /// A message is not handled, because it has expired. A sender that wants to know it keeps the message until then.
    fn expire(&mut self, parts: &Parts) {
        self.counts.expired += 1;
        if !self.reports_expired {
            return self.drop_done(parts);
        }
        let (first, last) = (parts.first(), parts.last_seq());
        let (gap, first) = (first.first, first.seq);
        let given_up = GivenUp { first, verdict: Verdict::Expired, deliveries: 0 };
        self.given_up.insert(last, given_up);
        self.expired.push((last, given_up));
        self.finish_gap(gap, first);
        self.pay_back(parts);
    }

    /// Marks a message as done that needs no handling any more.
    fn drop_done(&mut self, parts: &Parts) {
        parts.as_slice().iter().for_each(|part| self.finish(part));
        self.pay_back(parts);
    }

    fn pay_back(&mut self, parts: &Parts) {
        if let Parts::One(part) = parts {
            self.unpaid.push((part.frame.origin.of.1, part.cost()));
        }
        self.dirty = true;
    }

    /// Takes the first parts of the queue.
    fn dequeue(&mut self, count: usize) -> Vec<Arrived> {
        let parts: Vec<Arrived> = self.queue.drain(..count).collect();
        parts.iter().for_each(|part| self.counts.dequeue(part));
        parts
    }

    fn next_parts(&mut self) -> Option<Parts> {
        loop {
            let first = self.queue.front()?;
            if first.has(BEGINS | ENDS) {
                self.counts.dequeue(first);
                return self.queue.pop_front().map(Parts::One);
            }
            let more = self.queue.iter().skip(1).take_while(|part| !part.has(BEGINS));
            let until_end = more.clone().position(|part| part.has(ENDS)).map(|at| at + 2);
            match until_end.filter(|_| first.has(BEGINS)) {
                Some(count) => return Some(Parts::Many(self.dequeue(count))),
                None => {
                    let count = 1 + more.count();
                    if first.has(BEGINS) && count == self.queue.len() {
                        return None;
                    }
                    // A new message begins before this one's last part.
                    let parts = self.dequeue(count);
                    parts.iter().for_each(|part| self.finish(part));
                    self.dirty = true;
                }
            }
        }
    }

    /// The counts, with the messages that wait to be delivered again in `queued`.
    pub fn counts_with_waiting(&self) -> FlowCounts {
        let mut counts = self.counts;
        counts.queued += self.again.len() as u64;
        counts.queued_bytes += self.again.iter().map(Message::bytes).sum::<u64>();
        counts
    }

    pub fn has_some(&self) -> bool {
        !self.again.is_empty() || !self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FromSender;

    /// A data frame with one message of 10 bytes.
    fn frame(prev: u64, seq: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        Data::begin(&mut frame, 1, prev, 0);
        let body = &[7; 10];
        let (accepted_ms, ttl_ms) = (0, None);
        FrameEntry { seq, accepted_ms, ttl_ms, flags: BEGINS | ENDS, body }.put(&mut frame, prev, 0);
        frame
    }

    fn take(flow: &mut Flow, bytes: Vec<u8>) -> (Outcome, u64) {
        let frame = Arc::new(Frame { bytes: bytes.into(), origin: flow.origin.clone(), place: None });
        match FromSender::read(&frame.bytes) {
            Some(FromSender::Data(data)) => {
                let taken = flow.take(&frame, &data, 10);
                assert_eq!(taken.cost, COST + 10);
                (taken.outcome, taken.at_once)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_too_large_is_given_up_and_the_rest_goes_on() {
        let origin = Origin { of: (0, [0; 16], 1), from: "a".into(), topic: "b".into(), flow: 0 };
        let mut flow = Flow::new(Arc::new(origin));
        let mut bytes = Vec::new();
        Data::begin(&mut bytes, 1, 0, 0);
        let whole = BEGINS | ENDS;
        let parts = [
            (whole, 9),
            (BEGINS, 6),
            (0, 4),
            (0, 1),
            (ENDS, 8),
            (whole, 10),
            (whole, 11),
            (BEGINS, 2),
            (ENDS, 2),
        ];
        for (seq, (flags, len)) in (1..).zip(parts) {
            let body = &[7; 20][..len];
            FrameEntry { seq, accepted_ms: 0, ttl_ms: None, flags, body }.put(&mut bytes, seq - 1, 0);
        }
        let frame = Arc::new(Frame { bytes: bytes.into(), origin: flow.origin.clone(), place: None });
        let Some(FromSender::Data(data)) = FromSender::read(&frame.bytes) else { panic!() };
        let taken = flow.take(&frame, &data, 10);
        let too_large = |first| GivenUp { first, verdict: Verdict::TooLarge, deliveries: 0 };
        assert_eq!(taken.given_up, [(5, too_large(2)), (7, too_large(7))]);
        let paid = taken.cost - taken.at_once;
        assert_eq!(paid, 2 * COST + 19, "what is whole and is to be handled");
        let numbers: Vec<u64> =
            std::iter::from_fn(|| flow.next(|| 0)).map(|message| message.parts.last_seq()).collect();
        assert_eq!(numbers, [1, 6, 9]);
    }

    #[test]
    fn what_is_missing_is_asked_for_once_and_nothing_is_unpaid() {
        let origin = Origin { of: (0, [0; 16], 1), from: "a".into(), topic: "b".into(), flow: 0 };
        let mut flow = Flow::new(Arc::new(origin));
        assert_eq!(take(&mut flow, frame(0, 1)), (Outcome::Taken, 0));
        assert_eq!(take(&mut flow, frame(2, 3)), (Outcome::Gap(1), COST + 10));
        assert_eq!(take(&mut flow, frame(3, 4)), (Outcome::Taken, COST + 10), "it is asked for");
        flow.acceptance.begin_connection();
        assert_eq!(take(&mut flow, frame(3, 4)), (Outcome::Gap(1), COST + 10), "by another connection, too");
        assert_eq!(take(&mut flow, frame(1, 2)), (Outcome::Taken, 0));
        assert_eq!(take(&mut flow, frame(1, 2)), (Outcome::Taken, COST + 10), "it is there already");
        assert_eq!(take(&mut flow, frame(3, 4)), (Outcome::Gap(2), COST + 10));
        // Numbers of a later epoch begin above all others.
        assert_eq!(take(&mut flow, frame(2, 1 << 40)), (Outcome::Taken, 0));
        let numbers: Vec<u64> =
            std::iter::from_fn(|| flow.next(|| 0)).map(|message| message.parts.last_seq()).collect();
        assert_eq!(numbers, [1, 2, 1 << 40]);
    }
}
