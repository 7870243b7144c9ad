//! Messages in several parts of a shared stream, of which not all parts have arrived.
//!
//! The parts of a message have consecutive numbers. Between two of them other messages of the stream may arrive: those
//! that another receiver had before, and those that have waited for their ordering key.

use std::collections::BTreeMap;

use pinnace_stream::RangeSet;

use super::Arrived;
use super::counts::FlowCounts;
use crate::properties;
use crate::wire::{BEGINS, ENDS, VOLATILE};

/// The most messages of a stream that may have begun at once. An honest sender begins few.
const MOST: usize = 16;

struct BegunMessage {
    first: u64,
    /// Empty if it is too large.
    parts: Vec<Arrived>,
    bytes: usize,
    is_too_large: bool,
    is_volatile: bool,
}

impl BegunMessage {
    fn held_bytes(&self) -> usize {
        if self.is_too_large { 0 } else { self.bytes }
    }
}

/// What a part makes of its message.
pub enum Assembled {
    /// Further parts are missing.
    Incomplete,
    /// It has no other part.
    Whole(Arrived),
    Complete(Vec<Arrived>),
    /// It is complete, and too large. The number of its first part.
    TooLarge(u64),
    /// The part before it is not here: the sender dropped it, as it had expired or its caller had ended.
    Orphan(Arrived),
}

/// The messages that have begun, by the number of the last part that has arrived.
#[derive(Default)]
pub struct BegunMessages(BTreeMap<u64, BegunMessage>);

impl BegunMessages {
    /// A message of which these parts have arrived, up to `last`. `skipped`: the first number of one that is too large.
    pub fn of_one(parts: Vec<Arrived>, skipped: Option<u64>, last: u64) -> BegunMessages {
        let begin = parts.first().map(|part| part.seq).or(skipped);
        let begun = begin.map(|first| {
            let bytes = parts.iter().map(|part| part.len).sum();
            let (is_too_large, is_volatile) =
                (skipped.is_some(), parts.iter().any(|part| part.has(VOLATILE)));
            (last, BegunMessage { first, parts, bytes, is_too_large, is_volatile })
        });
        BegunMessages(begun.into_iter().collect())
    }

    /// A part has arrived. `largest`: the most bytes of a body.
    #[inline]
    pub fn add(&mut self, part: Arrived, largest: usize, counts: &mut FlowCounts) -> Assembled {
        let (seq, ends) = (part.seq, part.has(ENDS));
        let bytes = part.len - properties::len_in(part.flags, part.body());
        if part.has(BEGINS | ENDS) && bytes <= largest {
            counts.enqueue(&part);
            return Assembled::Whole(part);
        }
        let new = BegunMessage {
            first: seq,
            parts: Vec::new(),
            bytes: 0,
            is_too_large: false,
            is_volatile: part.has(VOLATILE),
        };
        let begun = if part.has(BEGINS) { Some(new) } else { self.0.remove(&(seq - 1)) };
        let Some(mut begun) = begun else { return Assembled::Orphan(part) };
        begun.bytes += bytes;
        if begun.bytes > largest {
            begun.is_too_large = true;
            begun.parts.drain(..).for_each(|part| counts.dequeue(&part));
        } else {
            counts.enqueue(&part);
            begun.parts.push(part);
        }
        match (ends, begun.is_too_large) {
            (true, false) => return Assembled::Complete(begun.parts),
            (true, true) => return Assembled::TooLarge(begun.first),
            (false, _) => drop(self.0.insert(seq, begun)),
        }
        Assembled::Incomplete
    }

    /// The lowest number, if there are too many messages or they have together more bytes than one body may have. The
    /// caller returns the messages with higher numbers. Credit does not limit them: it is returned for each part that
    /// arrives.
    pub fn excess(&self, largest: usize) -> Option<u64> {
        let bytes = || self.0.values().fold(0_usize, |sum, begun| sum.saturating_add(begun.held_bytes()));
        let is_excess = self.0.len() > MOST || (self.0.len() > 1 && bytes() > largest);
        self.0.values().map(|begun| begun.first).min().filter(|_| is_excess)
    }

    /// The lowest number of a message that is not in its sender's log.
    pub fn first_volatile(&self) -> Option<u64> {
        self.0.values().filter(|begun| begun.is_volatile).map(|begun| begun.first).min()
    }

    /// Removes the messages whose numbers `keeps` does not select, and returns their numbers.
    pub fn retain(&mut self, counts: &mut FlowCounts, keeps: impl Fn(u64, u64) -> bool) -> RangeSet {
        let mut removed = RangeSet::default();
        for (last, begun) in self.0.extract_if(.., |last, begun| !keeps(begun.first, *last)) {
            begun.parts.iter().for_each(|part| counts.dequeue(part));
            removed.add(begun.first, last);
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::inbox::{Frame, Origin};
    use crate::wire::{Data, FrameEntry};

    fn part(seq: u64, flags: u8, body: &[u8]) -> Arrived {
        let mut bytes = Vec::new();
        Data::begin(&mut bytes, 1, seq - 1, 0);
        FrameEntry { seq, accepted_ms: 0, ttl_ms: None, flags, body }.put(&mut bytes, seq - 1, 0);
        let origin = Arc::new(Origin { of: (0, [0; 16], 1), from: "a".into(), topic: "b".into(), flow: 0 });
        let at = bytes.len() - body.len();
        let frame = Arc::new(Frame { bytes: bytes.into(), origin, place: None });
        let (accepted_ms, ttl_ms, len) = (0, None, body.len());
        Arrived { frame, at, len, first: seq, seq, accepted_ms, ttl_ms, flags }
    }

    fn add(begun: &mut BegunMessages, seq: u64, flags: u8, body: &[u8]) -> String {
        let body_of = |parts: &[Arrived]| parts.iter().flat_map(|part| part.body().to_vec()).collect();
        match begun.add(
            part(seq, flags, body),
            6,
            &mut FlowCounts { queued_bytes: 99, ..FlowCounts::default() },
        ) {
            Assembled::Incomplete => String::new(),
            Assembled::Whole(part) => format!("whole {}", part.seq),
            Assembled::Complete(parts) => String::from_utf8(body_of(&parts)).unwrap(),
            Assembled::TooLarge(first) => format!("too large {first}"),
            Assembled::Orphan(part) => format!("orphan {}", part.seq),
        }
    }

    #[test]
    fn parts_of_several_messages_may_arrive_in_turn() {
        let mut begun = BegunMessages::default();
        let steps: [(u64, u8, &[u8], &str); 9] = [
            (5, BEGINS, b"ab", ""),
            (2, BEGINS | ENDS, b"", "whole 2"),
            (8, BEGINS, b"12", ""),
            (6, 0, b"cd", ""),
            (9, ENDS, b"34", "1234"),
            (3, ENDS, b"", "orphan 3"),
            (7, ENDS, b"ef", "abcdef"),
            (10, BEGINS, b"abcd", ""),
            (11, ENDS, b"efg", "too large 10"),
        ];
        for (seq, flags, body, made) in steps {
            assert_eq!(add(&mut begun, seq, flags, body), made, "{seq}");
        }
        assert!(begun.0.is_empty());
    }

    #[test]
    fn messages_that_never_end_are_limited() {
        let mut begun = BegunMessages::default();
        for seq in (10..).step_by(2).take(MOST) {
            add(&mut begun, seq, BEGINS, b"");
            assert_eq!(begun.excess(6), None);
        }
        add(&mut begun, 2, BEGINS, b"");
        assert_eq!(begun.excess(6), Some(2), "too many");
        let mut begun = BegunMessages::default();
        add(&mut begun, 4, BEGINS, b"abcd");
        assert_eq!(begun.excess(6), None);
        add(&mut begun, 8, BEGINS, b"abc");
        assert_eq!(begun.excess(6), Some(4), "too large");
    }
}
