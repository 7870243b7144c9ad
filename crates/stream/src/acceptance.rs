//! Acceptance: a receiver takes a stream's numbers in order, each once, and has missing ones sent again.
//!
//! A batch of messages says which number precedes its first one. The number after that need not be one higher: numbers
//! may be left out for ever, but only the sender knows which, so the receiver compares with the preceding number alone.
//! A batch that begins beyond what has arrived is dropped, and everything after the last number is requested again. One
//! request covers the gap, however many batches follow it on the same connection. The request may be lost with the
//! connection, and is repeated on the next one.
//!
//! Numbers are *received*, in order, and *done*, in any order: handled, or never to be handled. What is done before it
//! arrives is a duplicate.
//!
//! ```
//! use pinnace_stream::{Acceptance, Batch};
//!
//! let mut stream = Acceptance::default();
//! assert_eq!(stream.check(0), Batch::Accept);
//! assert!(stream.accept(1));
//! assert!(!stream.accept(1), "a duplicate");
//!
//! assert_eq!(stream.check(5), Batch::Gap { resend_after: 1 });
//! assert_eq!(stream.check(6), Batch::GapRequested);
//! assert_eq!(stream.check(1), Batch::Accept);
//! ```

use crate::RangeSet;

/// The receiver's end of one stream.
#[derive(Debug, Clone, Default)]
pub struct Acceptance {
    /// The number up to which everything has arrived, or need not.
    received: u64,
    done: RangeSet,
    /// This connection was asked to resend what follows this number.
    requested_after: Option<u64>,
}

/// What to do with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batch {
    /// `accept` each of its numbers.
    Accept,
    /// Drop it. Ask the sender to resend everything after this number.
    Gap {
        /// The last number that arrived.
        resend_after: u64,
    },
    /// Drop it: it will be resent, for this gap was requested on this connection.
    GapRequested,
}

impl Acceptance {
    /// A new connection begins: a request on the earlier one may be lost.
    pub fn begin_connection(&mut self) {
        self.requested_after = None;
    }

    /// The number up to which everything has arrived, or need not: the sender resumes after it.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The numbers that are done.
    #[inline]
    pub fn done(&self) -> &RangeSet {
        &self.done
    }

    /// Decides on a batch whose first number follows `prev`. `Gap` counts as requested from now on.
    #[inline]
    pub fn check(&mut self, prev: u64) -> Batch {
        if prev <= self.received {
            return Batch::Accept;
        }
        match self.requested_after.replace(self.received) == Some(self.received) {
            true => Batch::GapRequested,
            false => Batch::Gap { resend_after: self.received },
        }
    }

    /// Numbers after `last` that have arrived are dropped, as if they had not, and so is what follows them, without a
    /// request: the caller requests it later, after [`received`](Self::received).
    pub fn rewind(&mut self, last: u64) {
        self.received = self.received.min(last.max(self.done.all_upto()));
        self.requested_after = Some(self.received);
    }

    /// Takes the next number of an accepted batch. Returns false for a duplicate.
    #[inline]
    pub fn accept(&mut self, number: u64) -> bool {
        let is_new = number > self.received && !self.done.contains(number);
        self.received = self.received.max(number);
        is_new
    }

    /// Marks the numbers from `first` to `last` as done.
    pub fn mark_done(&mut self, first: u64, last: u64) {
        self.done.add(first, last);
    }

    /// Marks numbers as done that need not arrive: the sender no longer has them, or they were handled earlier.
    pub fn mark_gone(&mut self, gone: &RangeSet) {
        self.done.add_all(gone, u64::MAX);
        self.received = self.received.max(self.done.all_upto());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        /// The sender sends its next batch of this many numbers.
        Send(usize),
        /// The connection carries the oldest batch, or loses it.
        Carry,
        Lose,
        /// A new connection; everything on the old one is lost.
        Reconnect,
        /// The sender drops a number that it has not sent yet or that is under way.
        Drop(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1_usize..4).prop_map(Step::Send),
            4 => Just(Step::Carry),
            1 => Just(Step::Lose),
            1 => Just(Step::Reconnect),
            1 => (1_u64..80).prop_map(Step::Drop),
        ]
    }

    /// A sender of `numbers`, which resumes where the receiver says.
    struct Sender {
        numbers: Vec<u64>,
        sent: u64,
        batches: Vec<(u64, Vec<u64>)>,
    }

    impl Sender {
        fn send(&mut self, count: usize) {
            let next = self.numbers.iter().copied().filter(|number| *number > self.sent);
            let numbers: Vec<u64> = next.take(count).collect();
            if let Some(last) = numbers.last().copied() {
                self.batches.push((std::mem::replace(&mut self.sent, last), numbers));
            }
        }

        /// Carries the oldest batch. Returns the new numbers that the receiver takes.
        fn carry(&mut self, receiver: &mut Acceptance, requests: &mut usize) -> Vec<u64> {
            if self.batches.is_empty() {
                return Vec::new();
            }
            let (prev, numbers) = self.batches.remove(0);
            match receiver.check(prev) {
                Batch::Accept => numbers.into_iter().filter(|number| receiver.accept(*number)).collect(),
                Batch::Gap { resend_after } => {
                    *requests += 1;
                    self.sent = resend_after;
                    Vec::new()
                }
                Batch::GapRequested => Vec::new(),
            }
        }
    }

    proptest! {
        #[test]
        fn each_number_arrives_once_and_in_order(
            numbers in prop::collection::btree_set(1_u64..80, 1..50),
            steps in prop::collection::vec(step(), 0..120),
        ) {
            let mut sender = Sender { numbers: numbers.iter().copied().collect(), sent: 0, batches: Vec::new() };
            let (mut receiver, mut taken, mut gone) = (Acceptance::default(), Vec::new(), BTreeSet::new());
            let (mut losses, mut requests) = (0, 0);
            for step in steps {
                match step {
                    Step::Send(count) => sender.send(count),
                    Step::Carry => taken.extend(sender.carry(&mut receiver, &mut requests)),
                    Step::Lose if sender.batches.is_empty() => {}
                    Step::Lose => {
                        losses += 1;
                        sender.batches.remove(0);
                    }
                    Step::Reconnect => {
                        losses += 1;
                        receiver.begin_connection();
                        sender.batches.clear();
                        sender.sent = receiver.received();
                    }
                    Step::Drop(number) => {
                        gone.insert(number);
                        let mut dropped = RangeSet::default();
                        dropped.add(number, number);
                        receiver.mark_gone(&dropped);
                        losses += 1;
                        sender.numbers.retain(|other| *other != number);
                    }
                }
                assert!(requests <= losses, "one request for each gap at most");
            }
            receiver.begin_connection();
            sender.batches.clear();
            sender.sent = receiver.received();
            while sender.numbers.iter().any(|number| *number > sender.sent) || !sender.batches.is_empty() {
                sender.send(3);
                taken.extend(sender.carry(&mut receiver, &mut requests));
            }
            assert!(taken.is_sorted_by(|a, b| a < b));
            let expected: Vec<u64> = numbers.into_iter().filter(|number| !gone.contains(number)).collect();
            let taken: Vec<u64> = taken.into_iter().filter(|number| !gone.contains(number)).collect();
            assert_eq!(taken, expected);
        }
    }

    #[test]
    fn a_gap_is_requested_once_for_each_connection() {
        let mut stream = Acceptance::default();
        assert_eq!((stream.check(0), stream.accept(1)), (Batch::Accept, true));
        assert_eq!(stream.check(2), Batch::Gap { resend_after: 1 });
        assert_eq!(stream.check(3), Batch::GapRequested);
        stream.begin_connection();
        assert_eq!(stream.check(3), Batch::Gap { resend_after: 1 });
        assert_eq!((stream.check(1), stream.accept(2)), (Batch::Accept, true));
        assert_eq!(stream.check(3), Batch::Gap { resend_after: 2 }, "another gap");
    }

    #[test]
    fn what_is_dropped_is_taken_again_when_it_is_requested() {
        let mut stream = Acceptance::default();
        assert!((1..=5).all(|number| stream.accept(number)));
        stream.mark_done(1, 1);
        stream.mark_done(4, 4);
        stream.rewind(2);
        assert_eq!((stream.received(), stream.check(5)), (2, Batch::GapRequested));
        assert_eq!(stream.check(2), Batch::Accept);
        assert!(stream.accept(3) && !stream.accept(4) && stream.accept(5), "4 was handled");
        stream.rewind(0);
        assert_eq!(stream.received(), 1, "what is done is not requested");
    }

    #[test]
    fn what_is_done_or_gone_is_a_duplicate() {
        let mut stream = Acceptance::default();
        stream.mark_done(3, 4);
        assert_eq!(stream.received(), 0, "what was handled out of order leaves the gap before it");
        assert_eq!((stream.check(0), stream.accept(2)), (Batch::Accept, true));
        assert!(!stream.accept(3) && !stream.accept(4) && stream.accept(5));
        stream.mark_gone(&RangeSet::new(9, vec![(12, 12)]).unwrap());
        assert_eq!((stream.received(), stream.done().last()), (9, 12));
        assert_eq!((stream.check(9), stream.accept(12)), (Batch::Accept, false));
        assert_eq!((stream.check(12), stream.received()), (Batch::Accept, 12));
    }
}
