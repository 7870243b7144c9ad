//! What a stream has in memory alone, until it is done: the bytes of its messages as they go over the wire.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::log::Place;
use crate::ranges::Done;
use crate::wire::{COST, Data, Entry, FromSender};

/// Bytes of a run that takes no more.
const RUN_BYTES: usize = 64 << 10;

/// Messages that follow each other, with none from the log between them.
#[derive(Debug, Clone)]
pub struct HeldRun {
    pub first: u64,
    pub last: u64,
    /// The message from the log that was accepted last before them, where that is known.
    pub behind: Option<Place>,
    /// What they cost a connection.
    pub cost: u64,
    /// When the last of them is too old; None: never.
    pub expires_ms: Option<u64>,
    time: u64,
    /// As data, for who has all before the first; and where there the first entry goes on behind its step.
    frame: Vec<u8>,
    start: usize,
}

/// Vectors of runs that are done: fresh memory costs more than what is written to it.
#[derive(Default)]
pub struct Spare(Vec<Vec<u8>>);

impl Spare {
    /// So many are kept: a window's worth.
    const MOST: usize = 128;

    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    fn give(&mut self, run: Arc<HeldRun>) {
        let is_of_use = |run: &HeldRun| (RUN_BYTES..4 * RUN_BYTES).contains(&run.frame.capacity());
        if self.0.len() < Spare::MOST
            && let Some(run) = Arc::into_inner(run).filter(is_of_use)
        {
            self.0.push(run.frame);
        }
    }
}

#[derive(Default)]
pub struct Held {
    runs: VecDeque<Arc<HeldRun>>,
    /// The last, while it takes more.
    open: Option<HeldRun>,
}

impl HeldRun {
    /// A run that begins with an entry, in a vector that is of no other use.
    fn new(stream: u32, entry: &Entry<'_>, behind: Option<Place>, mut frame: Vec<u8>) -> HeldRun {
        let (first, time) = (entry.seq, entry.accepted_ms);
        frame.clear();
        let start = Data::begin_at(&mut frame, u64::from(stream), first - 1, time, first);
        entry.put_behind_step(&mut frame, time);
        let (cost, expires_ms) = (COST + entry.body.len() as u64, expires(entry));
        HeldRun { first, last: first, behind, cost, expires_ms, time, frame, start }
    }

    fn add(&mut self, entry: &Entry<'_>) {
        entry.put(&mut self.frame, self.last, self.time);
        self.last = entry.seq;
        self.cost += COST + entry.body.len() as u64;
        self.expires_ms = self.expires_ms.zip(expires(entry)).map(|(one, other)| one.max(other));
    }

    /// As data of a stream, for who has it up to `prev` or further.
    pub fn frame_behind(&self, stream: u32, prev: u64) -> Cow<'_, [u8]> {
        if prev >= self.first - 1 {
            return (&self.frame).into();
        }
        let mut frame = Vec::with_capacity(self.frame.len() + self.start);
        Data::begin_at(&mut frame, u64::from(stream), prev, self.time, self.first);
        frame.extend_from_slice(&self.frame[self.start..]);
        frame.into()
    }

    /// Calls `visit` with each message.
    pub fn visit(&self, mut visit: impl FnMut(&Entry<'_>)) {
        if let Some(FromSender::Data(data)) = FromSender::read(&self.frame) {
            data.entries().flatten().for_each(|entry| visit(&entry));
        }
    }

    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms)
    }
}

fn expires(entry: &Entry<'_>) -> Option<u64> {
    entry.ttl_ms.map(|ttl_ms| entry.accepted_ms.saturating_add(ttl_ms))
}

impl Held {
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.open.is_none()
    }

    /// Adds a message behind all others.
    pub fn add(&mut self, stream: u32, entry: &Entry<'_>, behind: Option<Place>, spare: &mut Spare) {
        match &mut self.open {
            Some(run) => run.add(entry),
            None => self.open = Some(HeldRun::new(stream, entry, behind, spare.take())),
        }
        if self.open.as_ref().is_some_and(|run| run.frame.len() >= RUN_BYTES) {
            self.close();
        }
    }

    /// What comes next does not belong to the last run.
    pub fn close(&mut self) {
        self.runs.extend(self.open.take().map(Arc::new));
    }

    /// The first run with something behind a number.
    pub fn run_behind(&mut self, seq: u64) -> Option<Arc<HeldRun>> {
        self.close();
        let at = self.runs.partition_point(|run| run.last <= seq);
        self.runs.get(at).cloned()
    }

    /// Forgets what is done. Returns what that cost.
    pub fn settle(&mut self, done: &Done, spare: &mut Spare) -> u64 {
        if self.open.as_ref().is_some_and(|run| done.contains_all(run.first, run.last)) {
            self.close();
        }
        let mut cost = 0;
        while let Some(run) = self.runs.pop_front_if(|run| run.last <= done.all_upto()) {
            cost += run.cost;
            spare.give(run);
        }
        if done.last() > done.all_upto() {
            self.runs.retain(|run| {
                let is_done = done.contains_all(run.first, run.last);
                cost += if is_done { run.cost } else { 0 };
                !is_done
            });
        }
        cost
    }

    pub fn all(&self) -> impl Iterator<Item = &HeldRun> {
        self.runs.iter().map(Arc::as_ref).chain(&self.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{BEGINS, ENDS, VOLATILE};

    fn entry(seq: u64, body: &[u8], ttl_ms: Option<u64>) -> Entry<'_> {
        Entry { seq, accepted_ms: 1000 + seq, ttl_ms, flags: BEGINS | ENDS | VOLATILE, body }
    }

    fn numbers(run: &HeldRun) -> Vec<u64> {
        let mut numbers = Vec::new();
        run.visit(|entry| numbers.push(entry.seq));
        numbers
    }

    #[test]
    fn runs_end_where_they_have_to_and_go_when_they_are_done() {
        let (mut held, mut spare) = (Held::default(), Spare::default());
        (1..=3).for_each(|seq| held.add(1, &entry(seq, b"some", None), None, &mut spare));
        held.close();
        let behind = Some(Place { segment: 1, at: 2 });
        (5..=6).for_each(|seq| held.add(1, &entry(seq, b"more", None), behind, &mut spare));
        assert_eq!(numbers(&held.run_behind(0).unwrap()), [1, 2, 3]);
        assert_eq!(numbers(&held.run_behind(2).unwrap()), [1, 2, 3]);
        let second = held.run_behind(3).unwrap();
        assert_eq!((numbers(&second), second.behind, second.cost), (vec![5, 6], behind, 2 * (COST + 4)));
        assert!(held.run_behind(6).is_none());

        let mut done = Done::default();
        done.add(5, 6);
        assert_eq!(held.settle(&done, &mut spare), 2 * (COST + 4));
        assert!(held.run_behind(3).is_none() && !held.is_empty());
        done.add(1, 3);
        assert_eq!(held.settle(&done, &mut spare), 3 * (COST + 4));
        assert!(held.is_empty());
    }

    #[test]
    fn a_run_is_too_old_when_all_of_it_is() {
        let (mut held, mut spare) = (Held::default(), Spare::default());
        held.add(1, &entry(1, b"", Some(10)), None, &mut spare);
        held.add(1, &entry(2, b"", Some(100)), None, &mut spare);
        let expired = |held: &Held, now_ms| held.all().all(|run| run.is_expired(now_ms));
        assert!(!expired(&held, 1101) && expired(&held, 1102));
        held.add(1, &entry(3, b"", None), None, &mut spare);
        assert!(!expired(&held, u64::MAX));
    }
}
