//! A set of message numbers: all up to one, and ranges after it.
//!
//! The numbers of a stream are settled nearly in order, so the set stays small: its size is the count of ranges, not of
//! numbers. A look-up is one comparison for a number below the first gap, and a binary search above it. Equal sets have
//! one representation.
//!
//! ```
//! use pinnace_stream::RangeSet;
//!
//! let mut done = RangeSet::default();
//! done.add(1, 2);
//! done.add(4, 6);
//! assert!(done.contains(2) && !done.contains(3));
//! assert_eq!((done.all_upto(), done.later()), (2, &[(4, 6)][..]));
//! done.add(3, 3);
//! assert_eq!((done.all_upto(), done.later()), (6, &[][..]));
//! ```

/// Adding more ranges than this is faster by merging the lists.
const FEW: usize = 4;

/// Numbers from 1 on: those up to `upto`, and the ranges of `later`. These are sorted, do not touch each other, and
/// begin after `upto + 1`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    upto: u64,
    later: Vec<(u64, u64)>,
}

impl RangeSet {
    /// A set of all numbers up to `upto` and the ranges of `later`, first and last number. None: `later` is not sorted,
    /// or ranges overlap or touch.
    pub fn new(upto: u64, later: Vec<(u64, u64)>) -> Option<RangeSet> {
        let mut end = upto;
        for &(first, last) in &later {
            if first <= end.checked_add(1)? || last < first {
                return None;
            }
            end = last;
        }
        Some(RangeSet { upto, later })
    }

    /// The number up to which all are in the set; 0: number 1 is not.
    #[inline]
    pub fn all_upto(&self) -> u64 {
        self.upto
    }

    /// The ranges after `all_upto`, first and last number, sorted.
    #[inline]
    pub fn later(&self) -> &[(u64, u64)] {
        &self.later
    }

    /// The largest number in it; 0: it is empty.
    pub fn last(&self) -> u64 {
        self.later.last().map_or(self.upto, |range| range.1)
    }

    /// Returns true if it contains `number`.
    #[inline]
    pub fn contains(&self, number: u64) -> bool {
        number <= self.upto
            || self.later[..self.ranges_starting_upto(number)].last().is_some_and(|range| number <= range.1)
    }

    /// Returns true if it contains all numbers from `first` to `last`.
    pub fn contains_all(&self, first: u64, last: u64) -> bool {
        let range = self.later[..self.ranges_starting_upto(first)].last();
        last <= self.upto || range.is_some_and(|range| last <= range.1)
    }

    /// The count of ranges that begin at or before `number`.
    fn ranges_starting_upto(&self, number: u64) -> usize {
        self.later.partition_point(|range| range.0 <= number)
    }

    /// Adds the numbers from `first` to `last`.
    pub fn add(&mut self, first: u64, last: u64) {
        if last < first || last <= self.upto {
            return;
        }
        if first <= self.upto.saturating_add(1) {
            return self.add_upto(last);
        }
        // Merge the ranges that overlap or touch the new one.
        let from = self.later.partition_point(|range| range.1.saturating_add(1) < first);
        let to = self.later.partition_point(|range| range.0 <= last.saturating_add(1));
        let met = &self.later[from..to];
        let first = met.first().map_or(first, |range| range.0.min(first));
        let last = met.last().map_or(last, |range| range.1.max(last));
        self.later.splice(from..to, [(first, last)]);
    }

    /// Adds all numbers up to `number`.
    pub fn add_upto(&mut self, number: u64) {
        if number > self.upto {
            self.upto = number;
            let gone = self.later.partition_point(|range| range.1 <= number);
            self.later.drain(..gone);
            if let Some(first) = self.later.first_mut() {
                first.0 = first.0.max(number + 1);
            }
            self.normalize();
        }
    }

    /// Adds all numbers of `other` up to `most`.
    pub fn add_all(&mut self, other: &RangeSet, most: u64) {
        self.add_upto(other.upto.min(most));
        if other.later.len() <= FEW {
            return other.later.iter().for_each(|(first, last)| self.add(*first, (*last).min(most)));
        }
        let own = std::mem::take(&mut self.later);
        self.later.reserve(own.len() + other.later.len());
        let (mut own, mut others) = (own.into_iter().peekable(), other.later.iter().copied().peekable());
        while let Some(next) = others.peek().or(own.peek()).copied() {
            let (first, last) = match own.next_if(|range| *range <= next) {
                Some(range) => range,
                None => others.next().map_or(next, |(first, last)| (first, last.min(most))),
            };
            self.append(first, last);
        }
    }

    /// Adds a range that does not begin before the last one.
    fn append(&mut self, first: u64, last: u64) {
        let end = self.later.last_mut().map_or(&mut self.upto, |range| &mut range.1);
        if first <= end.saturating_add(1) {
            *end = last.max(*end);
        } else if first <= last {
            self.later.push((first, last));
        }
    }

    /// All ranges, first and last number, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = (self.upto > 0).then_some((1, self.upto));
        first.into_iter().chain(self.later.iter().copied())
    }

    /// The smallest number in it; None: it is empty.
    pub fn first(&self) -> Option<u64> {
        self.iter().next().map(|range| range.0)
    }

    /// The smallest number after `number` that is not in it.
    pub fn next_missing(&self, number: u64) -> u64 {
        let next = number.saturating_add(1);
        match self.iter().find(|range| range.0 <= next && next <= range.1) {
            Some((_, last)) => last.saturating_add(1),
            None => next,
        }
    }

    /// How many numbers it contains.
    pub fn count(&self) -> u64 {
        self.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Its numbers that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &RangeSet) -> RangeSet {
        let (mut rest, mut others) = (RangeSet::default(), other.iter().peekable());
        for (mut first, last) in self.iter() {
            while let Some((start, end)) = others.next_if(|range| range.1 <= last) {
                rest.add(first, last.min(start.saturating_sub(1)));
                first = first.max(end.saturating_add(1));
            }
            // The next one may reach into further ranges.
            let until = others.peek().map_or(last, |range| last.min(range.0.saturating_sub(1)));
            rest.add(first, until);
        }
        rest
    }

    /// Splits it into sets that each have its `all_upto`, and at most `most` of the ranges after that.
    pub fn split(&self, most: usize) -> impl Iterator<Item = RangeSet> + '_ {
        let count = self.later.len().div_ceil(most).max(1);
        let parts = (0..count).map(move |at| self.later.iter().skip(at * most).take(most));
        parts.map(|part| RangeSet { upto: self.upto, later: part.copied().collect() })
    }

    fn normalize(&mut self) {
        while self.later.first().is_some_and(|range| range.0 == self.upto + 1) {
            self.upto = self.later.remove(0).1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_a_set_of_numbers(steps in prop::collection::vec((1_u64..60, any::<bool>()), 0..80)) {
            let (mut done, mut set) = (RangeSet::default(), BTreeSet::new());
            for (number, upto) in steps {
                match upto && number % 5 == 0 {
                    true => {
                        done.add_upto(number);
                        set.extend(1..=number);
                    }
                    false => {
                        done.add(number, number + number % 4);
                        set.extend(number..=number + number % 4);
                    }
                }
                assert!((1..70).all(|number| done.contains(number) == set.contains(&number)));
                assert_eq!(RangeSet::new(done.all_upto(), done.later().to_vec()).as_ref(), Some(&done));
                assert_eq!(done.last(), set.last().copied().unwrap_or(0));
            }
        }

        #[test]
        fn the_numbers_of_one_set_without_another(
            one in prop::collection::btree_set(1_u64..40, 0..30),
            other in prop::collection::btree_set(1_u64..40, 0..30),
        ) {
            let set = |numbers: &BTreeSet<u64>| {
                let mut set = RangeSet::default();
                numbers.iter().for_each(|number| set.add(*number, *number));
                set
            };
            let rest: BTreeSet<u64> = one.difference(&other).copied().collect();
            let (one, other) = (set(&one), set(&other));
            assert_eq!(one.without(&other), set(&rest));
            for most in [0, 1, 20, 40] {
                let mut all = one.clone();
                all.add_all(&other, most);
                let mut sum = one.clone();
                (1..=most).filter(|number| other.contains(*number)).for_each(|number| sum.add(number, number));
                assert_eq!(all, sum, "{one:?} and {other:?} up to {most}");
            }
            for most in 1..4 {
                let mut all = RangeSet::default();
                for part in one.split(most) {
                    assert!(part.later().len() <= most);
                    assert_eq!(RangeSet::new(part.all_upto(), part.later().to_vec()).as_ref(), Some(&part));
                    all.add_all(&part, u64::MAX);
                }
                assert_eq!(all, one);
            }
            assert_eq!(one.without(&other).count(), rest.len() as u64);
            assert_eq!(one.without(&other).first(), rest.first().copied());
            for number in 0..41 {
                let missing = (number + 1..).find(|next| !one.contains(*next));
                assert_eq!(Some(one.next_missing(number)), missing);
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_no_harm() {
        let mut done = RangeSet::new(0, vec![(10, u64::MAX)]).unwrap();
        done.add(3, 4);
        done.add(6, 9);
        assert_eq!(done.later(), [(3, 4), (6, u64::MAX)]);
        done.add_all(&RangeSet::new(5, Vec::new()).unwrap(), u64::MAX);
        assert_eq!(done, RangeSet::new(u64::MAX, Vec::new()).unwrap());
        done.add(1, u64::MAX);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(RangeSet::new(5, vec![(6, 7)]), None);
        assert_eq!(RangeSet::new(5, vec![(8, 7)]), None);
        assert_eq!(RangeSet::new(5, vec![(8, 9), (10, 11)]), None);
        assert_eq!(RangeSet::new(u64::MAX, vec![(8, 9)]), None);
        assert!(RangeSet::new(5, vec![(8, 9), (11, 11)]).is_some());
    }
}
