//! Recovers the outbox: from the records of the log, and from the summaries of full segments.

use std::collections::VecDeque;

use pinnace_stream::RangeSet;

use super::counts::{Ages, Unended};
use super::runs::{Logged, Run, extend};
use super::{Outbox, Stream};
use crate::store::records::{Inherited, StreamRecord};
use crate::wire::{Bytes, ENDS, put_number};

/// What recovery found of a stream.
#[derive(Default, Clone)]
pub struct FoundStream {
    runs: VecDeque<Run>,
    /// Numbers below the last for which there is no record.
    missing: RangeSet,
    unended: Unended,
    ages: Ages,
}

/// With this begins a summary. Earlier builds take the summary for an invalid one, and read the records.
const SUMMARY: [u8; 11] = [0; 11];

impl Outbox {
    /// The content of one segment: for each stream its number, the first number, the distance to the last, the offset
    /// of the first, the count, the cost, the flags of all, the time of the oldest, the distance to that of the newest,
    /// and the numbers that are not the last part of their message: the count of ranges, then for each the distance of
    /// its first number to the number before, and how many more it has.
    pub fn summary(&self, segment: u64) -> Vec<u8> {
        let mut to = Vec::new();
        for (number, stream) in &self.streams {
            // Inherited runs are in the summary of the stream that they are inherited from.
            let own = stream.runs.iter().filter(|run| run.last > stream.inherited_upto());
            for run in own.filter(|run| run.segment == segment) {
                if to.is_empty() {
                    to.extend_from_slice(&SUMMARY);
                }
                let Run { at, first, last, count, cost, flags, oldest_ms, newest_ms, .. } = *run;
                for value in [u64::from(*number), first, last - first, u64::from(at), count, cost] {
                    put_number(&mut to, value);
                }
                for value in [u64::from(flags), oldest_ms, newest_ms - oldest_ms] {
                    put_number(&mut to, value);
                }
                let unended: Vec<(u64, u64)> = stream.unended.within(first, last).collect();
                put_number(&mut to, unended.len() as u64);
                let mut before = first;
                for (from, upto) in unended {
                    put_number(&mut to, from - before);
                    put_number(&mut to, upto - from);
                    before = upto;
                }
            }
        }
        to
    }

    /// Reads a summary of a segment. False: the records must be read.
    pub fn find_summary(&mut self, segment: u64, summary: &[u8]) -> bool {
        let Some(runs) = read_summary(segment, summary) else { return false };
        for (number, run, unended) in runs {
            let found = self.found.entry(number).or_default();
            found.push(run);
            found.ages.add(run.first, run.oldest_ms);
            found.unended.append(&unended);
        }
        true
    }

    /// Recovery found a message.
    pub fn find_message(&mut self, stream: u32, seq: u64, logged: &Logged) {
        self.found.entry(stream).or_default().find(seq, logged);
    }

    /// Recovery found the progress of a stream.
    pub fn find_done(&mut self, stream: u32, done: &RangeSet) {
        if let Some(of) = self.streams.get_mut(&stream) {
            of.record.done.add_all(done, u64::MAX);
        }
    }

    /// Recovery found the state of a stream. Later records update it.
    pub fn find_stream(&mut self, mut record: StreamRecord) {
        if let Some(known) = self.streams.get(&record.number) {
            record.done.add_all(&known.record.done, u64::MAX);
            record.last = record.last.max(known.record.last);
            let key = (known.record.client, known.record.receiver.clone(), known.record.topic.clone());
            if self.by_receiver.get(&key) == Some(&record.number) {
                self.by_receiver.remove(&key);
            }
        }
        self.insert(record);
    }

    /// Completes recovery.
    pub fn finish_recovery(&mut self) {
        let found = std::mem::take(&mut self.found);
        for stream in self.streams.values_mut() {
            let mut own = found.get(&stream.record.number).cloned().unwrap_or_default();
            if let Some(Inherited { from, upto }) = stream.record.inherited {
                own = found.get(&from).cloned().unwrap_or_default().upto(upto).with(own);
            }
            if !own.runs.is_empty() {
                stream.recover(own);
            }
            for run in &stream.runs {
                *self.segments.entry(run.segment).or_default() += 1;
            }
            if stream.runs.is_empty() {
                stream.missing.add_upto(stream.record.last);
            }
            stream.find_gone();
            stream.end_unended();
            stream.recovered_upto = stream.record.last;
        }
    }
}

impl Stream {
    fn recover(&mut self, found: FoundStream) {
        let last = found.last();
        self.record.last = self.record.last.max(last);
        (self.missing, self.unended, self.ages) = (found.missing, found.unended, found.ages);
        self.missing.add(last + 1, self.record.last);
        self.find_gone();
        let gone_upto = self.gone.all_upto();
        self.unended.forget_upto(gone_upto);
        self.ages.forget_upto(gone_upto);
        let upto = self.record.done.all_upto();
        self.runs = found.runs.into_iter().filter(|run| run.last > upto).collect();
    }

    /// Marks the parts of messages without a last part as done: the process ended between two parts. No caller was told
    /// that they are safe, and a receiver would wait for the last part.
    fn end_unended(&mut self) {
        let last = self.record.last;
        let ranges =
            self.unended.within(0, last).filter(|(_, end)| *end == last || self.missing.contains(end + 1));
        let unended: Vec<(u64, u64)> = ranges.collect();
        for (first, end) in unended {
            self.record.done.add(first, end);
            self.gone.add(first, end);
        }
        self.unended.forget_upto(self.gone.all_upto());
    }
}

impl FoundStream {
    fn push(&mut self, run: Run) {
        self.missing.add(self.last() + 1, run.first - 1);
        self.runs.push_back(run);
    }

    fn find(&mut self, seq: u64, logged: &Logged) {
        self.missing.add(self.last() + 1, seq - 1);
        self.ages.add(seq, logged.accepted_ms);
        if logged.flags & ENDS == 0 {
            self.unended.add(seq, seq);
        }
        extend(&mut self.runs, seq, logged, true);
    }

    fn last(&self) -> u64 {
        self.runs.back().map_or(0, |run| run.last)
    }

    /// The part up to a number.
    fn upto(self, upto: u64) -> FoundStream {
        let mut missing = RangeSet::default();
        missing.add_all(&self.missing, upto);
        let runs = self.runs.into_iter().filter_map(|run| run.clipped(upto)).collect();
        FoundStream { runs, missing, unended: self.unended.upto(upto), ages: self.ages.upto(upto) }
    }

    /// The messages of both; those of `other` have higher numbers.
    fn with(mut self, other: FoundStream) -> FoundStream {
        let last = self.last();
        self.unended.append(&other.unended);
        for run in other.runs {
            self.push(run);
        }
        self.ages.append(&other.ages);
        for (first, end) in other.missing.later().iter().filter(|(first, _)| *first > last) {
            self.missing.add(*first, *end);
        }
        self
    }
}

/// None: it is of an earlier format, or does not say which numbers are missing, which only the records do.
fn read_summary(segment: u64, summary: &[u8]) -> Option<Vec<(u32, Run, Unended)>> {
    if summary.is_empty() {
        return Some(Vec::new());
    }
    let mut from = Bytes::new(summary.strip_prefix(&SUMMARY)?);
    let mut runs = Vec::new();
    while !from.is_empty() {
        let mut next = || from.number();
        let number = u32::try_from(next()?).ok()?;
        let (first, more, at) = (next()?, next()?, u32::try_from(next()?).ok()?);
        let count = next().filter(|count| *count == more.saturating_add(1))?;
        let (cost, flags) = (next()?, u8::try_from(next()?).ok()?);
        let (oldest_ms, time) = (next()?, next()?);
        let (last, newest_ms) = (first.saturating_add(more), oldest_ms.saturating_add(time));
        let (mut unended, mut before) = (Unended::default(), first);
        for _ in 0..next()? {
            let from = before.checked_add(next()?)?;
            before = from.checked_add(next()?)?;
            unended.add(from, before);
        }
        let run = Run { segment, at, first, last, count, cost, flags, oldest_ms, newest_ms };
        runs.push((number, run, unended));
    }
    Some(runs)
}
