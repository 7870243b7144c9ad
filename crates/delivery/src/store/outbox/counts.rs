//! What became of a stream's messages since its store was opened, and the ages of those that are pending.

use std::collections::{BTreeMap, VecDeque};

use pinnace_stream::RangeSet;

/// The shortest distance between two marks of the ages, in milliseconds.
const MARK_EVERY_MS: u64 = 100;
/// The most marks of a stream; then every second one is dropped.
const MARKS_MAX: usize = 4096;

/// Why messages are no longer pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The receiver has handled them.
    Acknowledged,
    /// Their time to live was over, by the sender's clock.
    Expired,
    /// It was over by the receiver's clock.
    ExpiredAtReceiver,
    /// The receiver gave them up: each is kept as a dead letter.
    Dead,
    /// They exceeded the limits for a receiver that is away, or the receiver was forgotten.
    Dropped,
    /// They were copied to the stream of another receiver.
    Reassigned,
    /// A call removed them.
    Cleared,
}

/// Whole messages of a stream, since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamCounts {
    pub accepted: u64,
    pub acknowledged: u64,
    pub expired: u64,
    pub expired_at_receiver: u64,
    pub dead: u64,
    pub dropped: u64,
    pub reassigned: u64,
    pub cleared: u64,
}

impl StreamCounts {
    pub fn count(&mut self, cause: Cause, messages: u64) {
        let counter = match cause {
            Cause::Acknowledged => &mut self.acknowledged,
            Cause::Expired => &mut self.expired,
            Cause::ExpiredAtReceiver => &mut self.expired_at_receiver,
            Cause::Dead => &mut self.dead,
            Cause::Dropped => &mut self.dropped,
            Cause::Reassigned => &mut self.reassigned,
            Cause::Cleared => &mut self.cleared,
        };
        *counter += messages;
    }
}

/// When messages of a stream were accepted: some of its numbers, each with the time. Memory and accuracy are limited:
/// a mark is followed by another after 100 ms, or longer for a stream with a long backlog.
#[derive(Debug, Clone, Default)]
pub struct Ages {
    marks: VecDeque<(u64, u64)>,
    /// 0: MARK_EVERY_MS.
    every_ms: u64,
}

impl Ages {
    /// A message was accepted, after all others.
    pub fn add(&mut self, seq: u64, accepted_ms: u64) {
        let every_ms = self.every_ms.max(MARK_EVERY_MS);
        if self.marks.back().is_some_and(|(_, before)| accepted_ms < before.saturating_add(every_ms)) {
            return;
        }
        self.marks.push_back((seq, accepted_ms));
        if self.marks.len() > MARKS_MAX {
            // The first stays.
            let mut at = 0..;
            self.marks.retain(|_| at.next().is_some_and(|at: usize| at.is_multiple_of(2)));
            self.every_ms = every_ms * 2;
        }
    }

    /// All messages up to a number are gone.
    pub fn forget_upto(&mut self, seq: u64) {
        while self.marks.get(1).is_some_and(|(next, _)| *next <= seq.saturating_add(1)) {
            self.marks.pop_front();
        }
    }

    /// No message is pending.
    pub fn clear(&mut self) {
        self.marks.clear();
        self.every_ms = 0;
    }

    /// When the first message after `seq` was accepted, or earlier by at most the distance of two marks.
    pub fn after(&self, seq: u64) -> Option<u64> {
        let at = self.marks.partition_point(|(mark, _)| *mark <= seq.saturating_add(1));
        self.marks.get(at.saturating_sub(1)).map(|(_, ms)| *ms)
    }

    /// Those of the numbers up to `upto`.
    pub fn upto(mut self, upto: u64) -> Ages {
        self.marks.retain(|(seq, _)| *seq <= upto);
        self
    }

    /// Adds those of higher numbers.
    pub fn append(&mut self, other: &Ages) {
        other.marks.iter().for_each(|(seq, ms)| self.add(*seq, *ms));
    }
}

/// The numbers of a stream that are parts of a message, and not its last part. A part has 1 MiB, so they are few.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unended(BTreeMap<u64, u64>);

impl Unended {
    /// Adds a range of numbers after all others.
    pub fn add(&mut self, first: u64, last: u64) {
        match self.0.last_entry() {
            Some(mut range) if range.get().checked_add(1) == Some(first) => drop(range.insert(last)),
            _ => drop(self.0.insert(first, last)),
        }
    }

    pub fn forget_upto(&mut self, seq: u64) {
        while let Some(range) = self.0.first_entry().filter(|range| *range.get() <= seq) {
            range.remove();
        }
    }

    /// How many of them are not in `gone`.
    pub fn count_without(&self, gone: &RangeSet) -> u64 {
        let left = |(first, last): (&u64, &u64)| last - first + 1 - gone.count_in(*first, *last);
        self.0.iter().map(left).sum()
    }

    /// The ranges from `first` to `last`, clipped to these numbers.
    pub fn within(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, u64)> {
        let before = self.0.range(..first).next_back().filter(|(_, end)| **end >= first);
        let ranges = before.into_iter().chain(self.0.range(first..=last));
        ranges.map(move |(from, to)| ((*from).max(first), (*to).min(last)))
    }

    /// Those up to a number.
    pub fn upto(&self, upto: u64) -> Unended {
        Unended(self.within(0, upto).collect())
    }

    /// Adds those of higher numbers.
    pub fn append(&mut self, other: &Unended) {
        other.0.iter().for_each(|(first, last)| self.add(*first, *last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_age_follows_what_is_gone() {
        let mut ages = Ages::default();
        assert_eq!(ages.after(0), None);
        for seq in 1..=100 {
            ages.add(seq, 1000 + seq * 50);
        }
        assert_eq!((ages.after(0), ages.after(50)), (Some(1050), Some(3550)));
        ages.forget_upto(50);
        assert_eq!(ages.after(50), Some(3550));
        ages.forget_upto(100);
        assert_eq!(ages.marks.len(), 1);
    }

    #[test]
    fn a_long_backlog_has_fewer_marks_and_keeps_the_first() {
        let mut ages = Ages::default();
        for seq in 1..=3 * MARKS_MAX as u64 {
            ages.add(seq, seq * MARK_EVERY_MS);
        }
        assert!(ages.marks.len() <= MARKS_MAX && ages.every_ms > MARK_EVERY_MS);
        assert_eq!(ages.after(0), Some(MARK_EVERY_MS));
        let exact = 5000 * MARK_EVERY_MS;
        let found = ages.after(4999).unwrap();
        assert!(found <= exact && exact - found <= 8 * MARK_EVERY_MS, "{found}");
    }

    #[test]
    fn parts_are_counted_with_their_last() {
        let mut unended = Unended::default();
        [(1, 2), (3, 4), (8, 8)].into_iter().for_each(|(first, last)| unended.add(first, last));
        assert_eq!(unended.0, BTreeMap::from([(1, 4), (8, 8)]));
        let gone = RangeSet::new(2, vec![(8, 9)]).unwrap();
        assert_eq!(unended.count_without(&gone), 2);
        assert_eq!(unended.within(2, 8).collect::<Vec<_>>(), [(2, 4), (8, 8)]);
        unended.forget_upto(4);
        assert_eq!(unended.0, BTreeMap::from([(8, 8)]));
    }
}
