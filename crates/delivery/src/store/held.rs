//! What a stream has in memory alone, until it is done: the bytes of its messages as they go over the wire.

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
    /// The entries, the first one without its step.
    entries: Vec<u8>,
}

#[derive(Default)]
pub struct Held {
    runs: VecDeque<Arc<HeldRun>>,
    /// The last, while it takes more.
    open: Option<HeldRun>,
}

impl HeldRun {
    fn new(entry: &Entry<'_>, behind: Option<Place>) -> HeldRun {
        let (first, time) = (entry.seq, entry.accepted_ms);
        let mut entries = Vec::new();
        entry.put_behind_step(&mut entries, time);
        let (cost, expires_ms) = (COST + entry.body.len() as u64, expires(entry));
        HeldRun { first, last: first, behind, cost, expires_ms, time, entries }
    }

    fn add(&mut self, entry: &Entry<'_>) {
        entry.put(&mut self.entries, self.last, self.time);
        self.last = entry.seq;
        self.cost += COST + entry.body.len() as u64;
        self.expires_ms = self.expires_ms.zip(expires(entry)).map(|(one, other)| one.max(other));
    }

    /// As data of a stream, for who has it up to `prev`.
    pub fn write(&self, stream: u32, prev: u64) -> Vec<u8> {
        Data::write(u64::from(stream), prev, self.time, self.first, &self.entries)
    }

    /// Calls `visit` with each message.
    pub fn visit(&self, mut visit: impl FnMut(&Entry<'_>)) {
        let frame = self.write(0, self.first - 1);
        if let Some(FromSender::Data(data)) = FromSender::read(&frame) {
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
    pub fn add(&mut self, entry: &Entry<'_>, behind: Option<Place>) {
        match &mut self.open {
            Some(run) => run.add(entry),
            None => self.open = Some(HeldRun::new(entry, behind)),
        }
        if self.open.as_ref().is_some_and(|run| run.entries.len() >= RUN_BYTES) {
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
    pub fn settle(&mut self, done: &Done) -> u64 {
        if self.open.as_ref().is_some_and(|run| done.contains_all(run.first, run.last)) {
            self.close();
        }
        let mut cost = 0;
        while let Some(run) = self.runs.pop_front_if(|run| run.last <= done.all_upto()) {
            cost += run.cost;
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
        let mut held = Held::default();
        (1..=3).for_each(|seq| held.add(&entry(seq, b"some", None), None));
        held.close();
        let behind = Some(Place { segment: 1, at: 2 });
        (5..=6).for_each(|seq| held.add(&entry(seq, b"more", None), behind));
        assert_eq!(numbers(&held.run_behind(0).unwrap()), [1, 2, 3]);
        assert_eq!(numbers(&held.run_behind(2).unwrap()), [1, 2, 3]);
        let second = held.run_behind(3).unwrap();
        assert_eq!((numbers(&second), second.behind, second.cost), (vec![5, 6], behind, 2 * (COST + 4)));
        assert!(held.run_behind(6).is_none());

        let mut done = Done::default();
        done.add(5, 6);
        assert_eq!(held.settle(&done), 2 * (COST + 4));
        assert!(held.run_behind(3).is_none() && !held.is_empty());
        done.add(1, 3);
        assert_eq!(held.settle(&done), 3 * (COST + 4));
        assert!(held.is_empty());
    }

    #[test]
    fn a_run_is_too_old_when_all_of_it_is() {
        let mut held = Held::default();
        held.add(&entry(1, b"", Some(10)), None);
        held.add(&entry(2, b"", Some(100)), None);
        let expired = |held: &Held, now_ms| held.all().all(|run| run.is_expired(now_ms));
        assert!(!expired(&held, 1101) && expired(&held, 1102));
        held.add(&entry(3, b"", None), None);
        assert!(!expired(&held, u64::MAX));
    }
}
