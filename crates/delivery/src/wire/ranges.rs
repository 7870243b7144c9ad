//! Encodes and decodes sets of message numbers.

use pinnace_stream::RangeSet;

use super::{Bytes, RANGES_MAX, SEQ_MAX, put_number};
use crate::environment::ranges_limit;

/// Splits a set into sets that each fit a frame or a record.
pub fn split(done: &RangeSet) -> impl Iterator<Item = RangeSet> + '_ {
    done.split(ranges_limit(RANGES_MAX))
}

/// Writes a set of at most `RANGES_MAX` ranges (see `split`).
pub fn put_ranges(to: &mut Vec<u8>, done: &RangeSet) {
    debug_assert!(done.later().len() <= RANGES_MAX, "it is split before");
    put_number(to, done.all_upto());
    put_number(to, done.later().len() as u64);
    let mut end = done.all_upto();
    for (first, last) in done.later() {
        put_number(to, first - end);
        put_number(to, last - first);
        end = *last;
    }
}

pub fn take_ranges(from: &mut Bytes<'_>) -> Option<RangeSet> {
    let upto = from.number()?;
    let count = from.number().filter(|count| *count <= RANGES_MAX as u64)?;
    let (mut later, mut end) = (Vec::new(), upto);
    for _ in 0..count {
        let first = end.checked_add(from.number()?)?;
        end = first.checked_add(from.number()?)?;
        later.push((first, end));
    }
    RangeSet::new(upto, later).filter(|done| done.last() < SEQ_MAX)
}
