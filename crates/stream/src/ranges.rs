//! A set of message numbers: all up to one, and ranges after it.
//!
//! The numbers of a stream are settled nearly in order, so the set stays small: its size is the count of ranges, not of
//! numbers. A look-up is one comparison for a number below the first gap, and a binary search above it. A change costs
//! as much as it has ranges, and moves those between its place and the nearer end. Equal sets have one representation.
//!
//! ```
//! use pinnace_stream::RangeSet;
//!
//! let mut done = RangeSet::default();
//! done.add(1, 2);
//! done.add(4, 6);
//! assert!(done.contains(2) && !done.contains(3));
//! assert_eq!((done.all_upto(), done.count()), (2, 5));
//! assert_eq!(*done.later(), [(4, 6)]);
//! done.add(3, 3);
//! assert_eq!((done.all_upto(), done.later().len()), (6, 0));
//! ```

use std::collections::VecDeque;

/// Adding more ranges than this is faster by merging the lists.
const FEW: usize = 4;

/// Numbers from 1 on: those up to `upto`, and the ranges of `later`. These are sorted, do not touch each other, and
/// begin after `upto + 1`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    upto: u64,
    later: VecDeque<(u64, u64)>,
    /// How many numbers the ranges of `later` have.
    later_count: u64,
}

/// How many numbers a range has.
fn len((first, last): (u64, u64)) -> u64 {
    last - first + 1
}

impl RangeSet {
    /// A set of all numbers up to `upto` and the ranges of `later`, first and last number. None: `later` is not sorted,
    /// or ranges overlap or touch.
    pub fn new(upto: u64, later: Vec<(u64, u64)>) -> Option<RangeSet> {
        let (mut end, mut later_count) = (upto, 0);
        for &(first, last) in &later {
            if first <= end.checked_add(1)? || last < first {
                return None;
            }
            end = last;
            later_count += len((first, last));
        }
        Some(RangeSet { upto, later: later.into(), later_count })
    }

    /// The number up to which all are in the set; 0: number 1 is not.
    #[inline]
    pub fn all_upto(&self) -> u64 {
        self.upto
    }

    /// The ranges after `all_upto`, first and last number, sorted.
    #[inline]
    pub fn later(&self) -> &VecDeque<(u64, u64)> {
        &self.later
    }

    /// The largest number in it; 0: it is empty.
    pub fn last(&self) -> u64 {
        self.later.back().map_or(self.upto, |range| range.1)
    }

    /// Returns true if it contains `number`.
    #[inline]
    pub fn contains(&self, number: u64) -> bool {
        self.contains_all(number, number)
    }

    /// Returns true if it contains all numbers from `first` to `last`.
    #[inline]
    pub fn contains_all(&self, first: u64, last: u64) -> bool {
        last <= self.upto || self.range_before(first).is_some_and(|at| last <= self.later[at].1)
    }

    /// The last range of `later` that begins at or before `number`.
    fn range_before(&self, number: u64) -> Option<usize> {
        self.later.partition_point(|range| range.0 <= number).checked_sub(1)
    }

    /// The indices of the ranges of `later` that contain some of the numbers from `first` to `last`.
    fn met(&self, first: u64, last: u64) -> (usize, usize) {
        let from = self.later.partition_point(|range| range.1 < first);
        (from, self.later.partition_point(|range| range.0 <= last))
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
        let (from, to) = self.met(first - 1, last.saturating_add(1));
        let mut all = (first, last);
        for range in self.later.range(from..to) {
            all = (range.0.min(all.0), range.1.max(all.1));
            self.later_count -= len(*range);
        }
        self.later_count += len(all);
        match from < to {
            true => {
                self.later[from] = all;
                self.later.drain(from + 1..to);
            }
            false => self.later.insert(from, all),
        }
    }

    /// Adds all numbers up to `number`.
    pub fn add_upto(&mut self, number: u64) {
        if number <= self.upto {
            return;
        }
        self.upto = number;
        while let Some(range) = self.later.pop_front_if(|range| range.0 <= number.saturating_add(1)) {
            self.later_count -= len(range);
            self.upto = self.upto.max(range.1);
        }
    }

    /// Adds all numbers of `other` up to `most`.
    pub fn add_all(&mut self, other: &RangeSet, most: u64) {
        self.add_upto(other.upto.min(most));
        if other.later.len() <= FEW {
            return other.later.iter().for_each(|(first, last)| self.add(*first, (*last).min(most)));
        }
        self.change(other.later[0].0 - 1, other.last().saturating_add(1), |own| {
            let mut all = RangeSet { upto: own.upto, ..RangeSet::default() };
            let (mut own, mut others) = (own.later.iter().peekable(), other.later.iter().peekable());
            while let Some(next) = others.peek().or(own.peek()).copied() {
                let (first, last) = match own.next_if(|range| *range <= next) {
                    Some(range) => *range,
                    None => others.next().map_or(*next, |(first, last)| (*first, (*last).min(most))),
                };
                all.append(first, last);
            }
            all
        });
    }

    /// Removes all numbers of `other`.
    pub fn remove_all(&mut self, other: &RangeSet) {
        if let Some(first) = other.first() {
            self.change(first, other.last(), |own| own.without(other));
        }
    }

    /// Replaces the numbers from `first` to `last`, with others up to the nearer end, by what `changed` makes of them.
    fn change(&mut self, first: u64, last: u64, changed: impl FnOnce(RangeSet) -> RangeSet) {
        let (from, to) = self.met(first, last);
        let is_near_end = first > self.upto && from > self.later.len() - to;
        let later = match is_near_end {
            true => self.later.split_off(from),
            false => self.later.drain(..to).collect(),
        };
        let upto = if is_near_end { 0 } else { self.upto };
        let later_count = later.iter().copied().map(len).sum();
        let mut part = changed(RangeSet { upto, later, later_count });
        self.later_count = self.later_count - later_count + part.later_count;
        if is_near_end {
            self.later.append(&mut part.later);
        } else {
            self.upto = part.upto;
            part.later.into_iter().rev().for_each(|range| self.later.push_front(range));
        }
    }

    /// Adds all numbers of `other` up to `most`. Returns those that are new.
    pub fn add_new(&mut self, other: &RangeSet, most: u64) -> RangeSet {
        let mut new = RangeSet::default();
        new.add_all(&other.without(self), most);
        self.add_all(&new, most);
        new
    }

    /// Adds a range that does not begin before the last one.
    fn append(&mut self, first: u64, last: u64) {
        let end = self.last();
        if last <= end || last < first {
            return;
        }
        match self.later.back_mut() {
            None if first <= end.saturating_add(1) => self.upto = last,
            Some(range) if first <= end.saturating_add(1) => {
                range.1 = last;
                self.later_count += last - end;
            }
            _ => {
                self.later.push_back((first, last));
                self.later_count += len((first, last));
            }
        }
    }

    /// Removes the range that contains `number`, and returns it: first and last number.
    pub fn take_range(&mut self, number: u64) -> Option<(u64, u64)> {
        if (1..=self.upto).contains(&number) {
            return Some((1, std::mem::take(&mut self.upto)));
        }
        let at = self.range_before(number).filter(|at| number <= self.later[*at].1)?;
        let range = self.later.remove(at)?;
        self.later_count -= len(range);
        Some(range)
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
        if next <= self.upto {
            return self.upto.saturating_add(1);
        }
        let end = self.range_before(next).map(|at| self.later[at].1);
        end.filter(|end| next <= *end).map_or(next, |end| end.saturating_add(1))
    }

    /// How many numbers it contains.
    pub fn count(&self) -> u64 {
        self.upto + self.later_count
    }

    /// How many of the numbers from `first` to `last` it contains.
    pub fn count_in(&self, first: u64, last: u64) -> u64 {
        let overlap = |from: u64, to: u64| to.min(last).saturating_add(1).saturating_sub(from.max(first));
        let (from, to) = self.met(first, last);
        let later = self.later.range(from..to.max(from));
        overlap(1, self.upto) + later.map(|range| overlap(range.0, range.1)).sum::<u64>()
    }

    /// Its numbers that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &RangeSet) -> RangeSet {
        let (from, _) = other.met(self.first().unwrap_or(u64::MAX), u64::MAX);
        let upto = (other.upto > 0).then_some((1, other.upto));
        let mut others = upto.into_iter().chain(other.later.range(from..).copied()).peekable();
        let mut rest = RangeSet::default();
        for (mut first, last) in self.iter() {
            while let Some((start, end)) = others.next_if(|range| range.1 <= last) {
                rest.append(first, last.min(start.saturating_sub(1)));
                first = first.max(end.saturating_add(1));
            }
            // The next one may reach into further ranges.
            let until = others.peek().map_or(last, |range| last.min(range.0.saturating_sub(1)));
            rest.append(first, until);
        }
        rest
    }

    /// Splits it into sets that each have its `all_upto`, and at most `most` of the ranges after that.
    pub fn split(&self, most: usize) -> impl Iterator<Item = RangeSet> + '_ {
        let count = self.later.len().div_ceil(most).max(1);
        (0..count).map(move |at| {
            let upto = self.later.len().min((at + 1) * most);
            let later: VecDeque<(u64, u64)> = self.later.range(at * most..upto).copied().collect();
            let later_count = later.iter().copied().map(len).sum();
            RangeSet { upto: self.upto, later, later_count }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set_of(numbers: &BTreeSet<u64>) -> RangeSet {
        let mut set = RangeSet::default();
        numbers.iter().for_each(|number| set.add(*number, *number));
        set
    }

    /// The set has these numbers, in the one representation.
    fn assert_same(set: &RangeSet, numbers: &BTreeSet<u64>) {
        let ranges: Vec<(u64, u64)> = set.later().iter().copied().collect();
        assert_eq!(RangeSet::new(set.all_upto(), ranges).as_ref(), Some(set));
        assert_eq!(*set, set_of(numbers));
        assert_eq!(set.last(), numbers.last().copied().unwrap_or(0));
        assert_eq!(set.count(), numbers.len() as u64);
    }

    proptest! {
        #[test]
        fn as_a_set_of_numbers(steps in prop::collection::vec((1_u64..60, 0..8), 0..80)) {
            let (mut done, mut set) = (RangeSet::default(), BTreeSet::new());
            for (number, step) in steps {
                match step {
                    0 if number % 5 == 0 => {
                        done.add_upto(number);
                        set.extend(1..=number);
                    }
                    1 => match done.take_range(number) {
                        Some((first, last)) => {
                            assert!(first <= number && number <= last);
                            assert!(!set.contains(&(first - 1)) && !set.contains(&(last + 1)));
                            assert!((first..=last).all(|number| set.remove(&number)));
                        }
                        None => assert!(!set.contains(&number)),
                    },
                    _ => {
                        done.add(number, number + number % 4);
                        set.extend(number..=number + number % 4);
                    }
                }
                assert!((1..70).all(|number| done.contains(number) == set.contains(&number)));
                assert_same(&done, &set);
            }
        }

        #[test]
        fn one_set_and_another(
            one in prop::collection::btree_set(1_u64..120, 0..80),
            other in prop::collection::btree_set(1_u64..40, 0..30),
            shift in 0_u64..80,
        ) {
            let other: BTreeSet<u64> = other.iter().map(|number| number + shift).collect();
            let (own, others) = (set_of(&one), set_of(&other));
            assert_same(&own.without(&others), &one.difference(&other).copied().collect());
            assert_same(&others.without(&own), &other.difference(&one).copied().collect());
            for most in [0, 1, 20, 60, 120] {
                let new: BTreeSet<u64> = other.difference(&one).copied().filter(|number| *number <= most).collect();
                let (mut all, mut again) = (own.clone(), own.clone());
                all.add_all(&others, most);
                assert_same(&all, &one.union(&new).copied().collect());
                assert_same(&again.add_new(&others, most), &new);
                assert_eq!(again, all);
                again.remove_all(&others);
                assert_same(&again, &one.difference(&other).copied().collect());
                let counted = one.iter().filter(|number| (shift..=most).contains(*number)).count();
                assert_eq!(own.count_in(shift, most), counted as u64);
            }
            for most in 1..4 {
                let mut all = RangeSet::default();
                for part in own.split(most) {
                    assert!(part.later().len() <= most);
                    all.add_all(&part, u64::MAX);
                }
                assert_eq!(all, own);
            }
            assert_eq!(own.first(), one.first().copied());
            for number in 0..121 {
                let missing = (number + 1..).find(|next| !one.contains(next));
                assert_eq!(Some(own.next_missing(number)), missing);
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_no_harm() {
        let mut done = RangeSet::new(0, vec![(10, u64::MAX)]).unwrap();
        done.add(3, 4);
        done.add(6, 9);
        assert_eq!(*done.later(), [(3, 4), (6, u64::MAX)]);
        assert_eq!(done.count(), 2 + (u64::MAX - 5));
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
