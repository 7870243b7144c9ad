//! A stream's volatile messages, held in memory until they are done, encoded as on the wire.

use std::collections::VecDeque;

use pinnace_engine::{Body, prefetch_room};
use pinnace_stream::RangeSet;

use crate::log::Position;
use crate::properties;
use crate::wire::{ANY, BEGINS, COST, Data, ENDS, FrameEntry, FromSender, PROPERTIES, make_room};

/// Consecutive messages, with no logged message between them.
#[derive(Debug, Clone)]
pub struct VolatileRun {
    pub of: Extent,
    /// A data frame for a receiver that has everything before the first message; and the offset after the step of its
    /// first entry.
    frame: Body,
    start: usize,
}

/// The messages of a run.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub first: u64,
    pub last: u64,
    /// The last logged message accepted before them, if known.
    pub after: Option<Position>,
    /// The credit that they cost.
    pub cost: u64,
    /// When the last of them expires; None: never.
    pub expires_ms: Option<u64>,
    /// At least one of them has a block of properties; was sent to any one receiver of the topic.
    pub has_properties: bool,
    pub has_any: bool,
    /// Its first entry is the first part of a message.
    pub begins: bool,
    /// Its last entry is the last part of a message.
    pub ends: bool,
    /// How many messages end in it.
    pub messages: u64,
    time: u64,
}

/// The last run of a stream, which still grows.
struct Open {
    of: Extent,
    frame: Vec<u8>,
    start: usize,
}

#[derive(Default)]
pub struct Volatile {
    runs: VecDeque<VolatileRun>,
    open: Option<Open>,
}

impl Extent {
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms)
    }
}

impl Open {
    /// A run with one entry.
    fn new(stream: u32, entry: &FrameEntry<'_>, after: Option<Position>) -> Open {
        let (first, time) = (entry.seq, entry.accepted_ms);
        let mut frame = Vec::new();
        make_room(&mut frame, entry);
        let start = Data::begin_at(&mut frame, u64::from(stream), first - 1, time, first);
        entry.put_after_step(&mut frame, time);
        let (cost, expires_ms) = (COST + entry.body.len() as u64, expires(entry));
        let (has_properties, has_any) = (entry.flags & PROPERTIES != 0, entry.flags & ANY != 0);
        let (begins, ends) = (entry.flags & BEGINS != 0, entry.flags & ENDS != 0);
        let of = Extent {
            first,
            last: first,
            after,
            cost,
            expires_ms,
            has_properties,
            has_any,
            begins,
            ends,
            messages: u64::from(ends),
            time,
        };
        Open { of, frame, start }
    }

    fn has_room_for(&self, entry: &FrameEntry<'_>) -> bool {
        entry.fits(self.frame.len(), self.of.time)
    }

    fn add(&mut self, entry: &FrameEntry<'_>) {
        let of = &mut self.of;
        make_room(&mut self.frame, entry);
        entry.put(&mut self.frame, of.last, of.time);
        // The next message is often as large. Its copy is made under the store's lock.
        prefetch_room(&self.frame, entry.body.len());
        of.last = entry.seq;
        of.cost += COST + entry.body.len() as u64;
        of.has_properties |= entry.flags & PROPERTIES != 0;
        of.has_any |= entry.flags & ANY != 0;
        of.ends = entry.flags & ENDS != 0;
        of.messages += u64::from(of.ends);
        of.expires_ms = of.expires_ms.zip(expires(entry)).map(|(one, other)| one.max(other));
    }
}

impl VolatileRun {
    /// A data frame for a receiver that has the stream up to `prev` or further.
    pub fn frame_after(&self, stream: u32, prev: u64) -> Body {
        if prev >= self.of.first - 1 {
            return self.frame.clone();
        }
        let mut frame = Vec::with_capacity(self.frame.len() + self.start);
        Data::begin_at(&mut frame, u64::from(stream), prev, self.of.time, self.of.first);
        frame.extend_from_slice(&self.frame[self.start..]);
        frame.into()
    }

    /// The same messages, as they go to a peer that cannot take properties.
    pub fn without_properties(&self, stream: u32) -> VolatileRun {
        let mut open: Option<Open> = None;
        self.visit(|entry| {
            let (flags, body) = properties::without(entry.flags, entry.body);
            let entry = FrameEntry { flags, body: &body, ..*entry };
            match &mut open {
                Some(open) => open.add(&entry),
                None => open = Some(Open::new(stream, &entry, self.of.after)),
            }
        });
        match open {
            Some(Open { of, frame, start }) => VolatileRun { of, frame: frame.into(), start },
            // A run has at least one message.
            None => self.clone(),
        }
    }

    /// Calls `visit` with each message.
    pub fn visit(&self, mut visit: impl FnMut(&FrameEntry<'_>)) {
        if let Some(FromSender::Data(data)) = FromSender::read(&self.frame) {
            data.entries().flatten().for_each(|entry| visit(&entry));
        }
    }
}

fn expires(entry: &FrameEntry<'_>) -> Option<u64> {
    entry.ttl_ms.map(|ttl_ms| entry.accepted_ms.saturating_add(ttl_ms))
}

impl Volatile {
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.open.is_none()
    }

    /// Adds a message after all others.
    pub fn add(&mut self, stream: u32, entry: &FrameEntry<'_>, after: Option<Position>) {
        match &mut self.open {
            Some(run) if run.has_room_for(entry) => run.add(entry),
            _ => {
                self.close();
                self.open = Some(Open::new(stream, entry, after));
            }
        }
    }

    /// Ends the last run.
    pub fn close(&mut self) {
        let Some(Open { of, mut frame, start }) = self.open.take() else { return };
        if frame.len() < frame.capacity() / 2 {
            // The run may be held for long: keep an exact copy, so that it uses what it costs, and return the buffer to
            // the pool.
            let exact = frame.as_slice().into();
            drop(Body::from(std::mem::replace(&mut frame, exact)));
        }
        self.runs.push_back(VolatileRun { of, frame: frame.into(), start });
    }

    /// The first run with a message after `seq`.
    pub fn run_after(&mut self, seq: u64) -> Option<VolatileRun> {
        self.close();
        let at = self.runs.partition_point(|run| run.of.last <= seq);
        self.runs.get(at).cloned()
    }

    /// Drops runs that are done, of those that begin up to `last`. Returns their credit cost.
    pub fn drop_done(&mut self, done: &RangeSet, last: u64) -> u64 {
        if self.open.as_ref().is_some_and(|run| done.contains_all(run.of.first, run.of.last)) {
            self.close();
        }
        let mut cost = 0;
        let count = self.runs.partition_point(|run| run.of.first <= last);
        let mut kept = Vec::new();
        for run in self.runs.drain(..count) {
            match done.contains_all(run.of.first, run.of.last) {
                true => cost += run.of.cost,
                false => kept.push(run),
            }
        }
        kept.into_iter().rev().for_each(|run| self.runs.push_front(run));
        cost
    }

    pub fn all(&self) -> impl Iterator<Item = &Extent> {
        self.runs.iter().map(|run| &run.of).chain(self.open.as_ref().map(|run| &run.of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{BEGINS, ENDS, VOLATILE};

    fn entry(seq: u64, body: &[u8], ttl_ms: Option<u64>) -> FrameEntry<'_> {
        FrameEntry { seq, accepted_ms: 1000 + seq, ttl_ms, flags: BEGINS | ENDS | VOLATILE, body }
    }

    fn numbers(run: &VolatileRun) -> Vec<u64> {
        let mut numbers = Vec::new();
        run.visit(|entry| numbers.push(entry.seq));
        numbers
    }

    #[test]
    fn runs_end_where_they_have_to_and_go_when_they_are_done() {
        let mut volatile = Volatile::default();
        (1..=3).for_each(|seq| volatile.add(1, &entry(seq, b"some", None), None));
        volatile.close();
        let after = Some(Position { segment: 1, at: 2 });
        (5..=6).for_each(|seq| volatile.add(1, &entry(seq, b"more", None), after));
        assert_eq!(numbers(&volatile.run_after(0).unwrap()), [1, 2, 3]);
        assert_eq!(numbers(&volatile.run_after(2).unwrap()), [1, 2, 3]);
        let second = volatile.run_after(3).unwrap();
        assert_eq!((numbers(&second), second.of.after, second.of.cost), (vec![5, 6], after, 2 * (COST + 4)));
        assert!(volatile.run_after(6).is_none());

        let mut done = RangeSet::default();
        done.add(5, 6);
        assert_eq!(volatile.drop_done(&done, 6), 2 * (COST + 4));
        assert!(volatile.run_after(3).is_none() && !volatile.is_empty());
        done.add(1, 3);
        assert_eq!(volatile.drop_done(&done, 3), 3 * (COST + 4));
        assert!(volatile.is_empty());
    }

    #[test]
    fn a_message_keeps_its_time_when_the_clock_is_set_back() {
        let mut volatile = Volatile::default();
        volatile.add(1, &entry(1, b"", None), None);
        volatile.add(1, &FrameEntry { accepted_ms: 7, ..entry(2, b"", None) }, None);
        volatile.add(1, &entry(3, b"", None), None);
        let mut times = Vec::new();
        volatile.close();
        volatile.runs.iter().for_each(|run| run.visit(|entry| times.push(entry.accepted_ms)));
        assert_eq!(times, [1001, 7, 1003]);
    }

    #[test]
    fn a_run_is_too_old_when_all_of_it_is() {
        let mut volatile = Volatile::default();
        volatile.add(1, &entry(1, b"", Some(10)), None);
        volatile.add(1, &entry(2, b"", Some(100)), None);
        let expired = |volatile: &Volatile, now_ms| volatile.all().all(|run| run.is_expired(now_ms));
        assert!(!expired(&volatile, 1101) && expired(&volatile, 1102));
        volatile.add(1, &entry(3, b"", None), None);
        assert!(!expired(&volatile, u64::MAX));
    }
}
