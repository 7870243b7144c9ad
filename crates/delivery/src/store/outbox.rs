//! Messages that this store's clients have sent and that are not acknowledged yet: by stream, their numbers and the
//! segments of the log that hold them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::HashMap;
use pinnace_stream::RangeSet;

use super::records::{self, Receiver};
use super::volatile::{Volatile, VolatileRun};
use crate::log::Position;
use crate::wire::{Bytes, COST, FrameEntry, put_number};

/// The numbers of an epoch begin above the epoch shifted left by this.
pub const EPOCH_SHIFT: u32 = 40;

#[derive(Default)]
pub struct Outbox {
    streams: BTreeMap<u32, Stream>,
    by_receiver: HashMap<(u32, Receiver, String), u32>,
    last_stream: u32,
    held_cost: u64,
    /// How many streams need each segment.
    segments: HashMap<u64, u32>,
    /// Segments that no stream needs any more, since the last `take_free`.
    free: Vec<u64>,
    /// Recovered messages, until the list of streams is complete.
    found: HashMap<u32, FoundStream>,
}

/// An outgoing stream.
pub struct Stream {
    pub record: records::StreamRecord,
    runs: VecDeque<Run>,
    /// The last message logged since the log was opened.
    logged: Option<Position>,
    volatile: Volatile,
    /// The batch that records the last numbers marked as done by this side, of which the receiver does not know.
    pub done_in: u64,
    /// Numbers that no message has: they were skipped, or were volatile when the store was closed.
    missing: RangeSet,
}

/// What recovery found of a stream.
#[derive(Default)]
struct FoundStream {
    runs: VecDeque<Run>,
    /// Numbers below the last for which there is no record.
    missing: RangeSet,
}

/// The messages of a stream in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    segment: u64,
    /// Offset of the first.
    at: u32,
    first: u64,
    last: u64,
    /// The count of messages from the first to the last.
    count: u64,
}

impl Stream {
    /// The number of its next message in `epoch`.
    pub fn next(&self, epoch: u64) -> u64 {
        (self.record.last + 1).max((epoch << EPOCH_SHIFT) + 1)
    }

    /// Returns true if the log holds unfinished messages up to `seq`.
    pub fn is_logged_upto(&self, seq: u64) -> bool {
        self.runs.front().is_some_and(|run| run.first <= seq)
    }

    /// How many messages and parts are not done.
    pub fn pending(&self) -> u64 {
        let mut gone = self.record.done.clone();
        gone.add_all(&self.missing, u64::MAX);
        let later: u64 = gone.later().iter().map(|(first, last)| last - first + 1).sum();
        self.record.last.saturating_sub(gone.all_upto()).saturating_sub(later)
    }

    /// Where to begin to read for the messages after `seq`. None: the log holds none.
    pub fn position_after(&self, seq: u64) -> Option<Position> {
        let at = self.runs.partition_point(|run| run.last <= seq);
        self.runs.get(at).map(|run| Position { segment: run.segment, at: run.at })
    }

    /// Assigns the next number.
    fn give(&mut self, epoch: u64) -> u64 {
        let seq = self.next(epoch);
        self.missing.add(self.record.last + 1, seq - 1);
        self.record.last = seq;
        seq
    }
}

impl Outbox {
    pub fn get(&self, stream: u32) -> Option<&Stream> {
        self.streams.get(&stream)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.streams.values()
    }

    pub fn find(&self, client: u32, receiver: &Receiver, topic: &str) -> Option<u32> {
        self.by_receiver.get(&(client, receiver.clone(), topic.to_owned())).copied()
    }

    /// The client's streams on a topic to named receivers; of two to one receiver, the one for later messages.
    pub fn known_on(&self, client: u32, topic: &str) -> Vec<u32> {
        let records = self.streams.values().map(|stream| &stream.record);
        let known = records.filter(|record| {
            record.client == client
                && record.topic == topic
                && record.receiver != Receiver::Anyone
                && self.find(client, &record.receiver, topic) == Some(record.number)
        });
        known.map(|record| record.number).collect()
    }

    /// Of those, the streams to receivers that have not ended their subscription.
    pub fn listening_on(&self, client: u32, topic: &str) -> Vec<u32> {
        let mut known = self.known_on(client, topic);
        known.retain(|stream| self.get(*stream).is_some_and(|stream| !stream.record.left));
        known
    }

    /// Notes the batch that records what was marked as done by this side.
    pub fn set_done_in(&mut self, stream: u32, batch: u64) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.done_in = batch;
        }
    }

    /// Records what the latest entry of a stream's receiver says: whether it has ended its subscription.
    pub fn set_left(&mut self, stream: u32, left: bool, seen: records::SeenEntry) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            (stream.record.left, stream.record.seen) = (left, seen);
        }
    }

    /// A stream of the client on a topic, to any receiver.
    pub fn find_by_topic(&self, client: u32, topic: &str) -> Option<u32> {
        let mut streams = self.streams.values();
        let found = streams.find(|stream| stream.record.client == client && stream.record.topic == topic);
        found.map(|stream| stream.record.number)
    }

    /// Adds a stream; the caller writes its record.
    pub fn open(&mut self, client: u32, receiver: Receiver, topic: &str) -> &Stream {
        self.last_stream += 1;
        let record = records::StreamRecord {
            number: self.last_stream,
            client,
            receiver,
            topic: topic.to_owned(),
            last: 0,
            done: RangeSet::default(),
            left: false,
            second: false,
            seen: records::SeenEntry::default(),
        };
        self.insert(record)
    }

    fn insert(&mut self, record: records::StreamRecord) -> &Stream {
        let (number, key) = (record.number, (record.client, record.receiver.clone(), record.topic.clone()));
        if !record.second {
            self.by_receiver.insert(key, number);
        }
        self.last_stream = self.last_stream.max(number);
        self.streams
            .entry(number)
            .insert_entry(Stream {
                record,
                runs: VecDeque::new(),
                logged: None,
                volatile: Volatile::default(),
                done_in: 0,
                missing: RangeSet::default(),
            })
            .into_mut()
    }

    /// Changes the receiver of a stream.
    pub fn hand_over(&mut self, stream: u32, receiver: Receiver) -> Option<&Stream> {
        let record = &mut self.streams.get_mut(&stream)?.record;
        let old = std::mem::replace(&mut record.receiver, receiver);
        let key = (record.client, record.receiver.clone(), record.topic.clone());
        let old = (record.client, old, record.topic.clone());
        // The messages that the receiver's own stream holds stay ahead of later ones.
        record.second = self.by_receiver.contains_key(&key);
        if !record.second {
            self.by_receiver.insert(key, stream);
        }
        if self.by_receiver.get(&old) == Some(&stream) {
            self.by_receiver.remove(&old);
        }
        self.streams.get(&stream)
    }

    /// Removes a stream.
    pub fn remove(&mut self, stream: u32) {
        let Some(gone) = self.streams.remove(&stream) else { return };
        self.by_receiver.retain(|_, number| *number != stream);
        for run in gone.runs {
            self.release(run.segment);
        }
    }

    /// The number of a stream's next message.
    pub fn next(&self, stream: u32, epoch: u64) -> Option<u64> {
        self.streams.get(&stream).map(|stream| stream.next(epoch))
    }

    /// Adds a logged message, under the next number.
    pub fn add(&mut self, stream: u32, epoch: u64, position: Position) {
        let Some(to) = self.streams.get_mut(&stream) else { return };
        let seq = to.give(epoch);
        if to.runs.back().is_none_or(|run| run.segment != position.segment) {
            *self.segments.entry(position.segment).or_default() += 1;
        }
        extend(&mut to.runs, position, seq);
        to.logged = Some(position);
        to.volatile.close();
    }

    /// Adds a volatile message, under the next number, which replaces that of the entry.
    pub fn hold(&mut self, stream: u32, epoch: u64, entry: &FrameEntry<'_>) {
        let Some(to) = self.streams.get_mut(&stream) else { return };
        let seq = to.give(epoch);
        to.volatile.add(stream, &FrameEntry { seq, ..*entry }, to.logged);
        self.held_cost += COST + entry.body.len() as u64;
    }

    /// The next volatile run of a stream after `seq`.
    pub fn held_after(&mut self, stream: u32, seq: u64) -> Option<VolatileRun> {
        self.streams.get_mut(&stream)?.volatile.run_after(seq)
    }

    /// Returns true if a client has volatile messages.
    pub fn is_held(&self, client: u32) -> bool {
        self.streams.values().any(|stream| stream.record.client == client && !stream.volatile.is_empty())
    }

    /// Drops the client's volatile messages, as if they had never been sent.
    pub fn forget_held(&mut self, client: u32) {
        for stream in self.streams.values_mut().filter(|stream| stream.record.client == client) {
            let mut done = RangeSet::default();
            stream.volatile.all().for_each(|run| done.add(run.first, run.last));
            self.held_cost -= stream.volatile.drop_done(&done);
            stream.record.done.add_all(&done, u64::MAX);
        }
    }

    /// The credit cost of all volatile messages.
    pub fn held_cost(&self) -> u64 {
        self.held_cost
    }

    /// Expired volatile runs, as stream, first and last number; and when the next run expires.
    pub fn held_expired(&self, now_ms: u64) -> (Vec<(u32, u64, u64)>, Option<u64>) {
        let (mut expired, mut next) = (Vec::new(), None);
        for (number, stream) in &self.streams {
            for run in stream.volatile.all() {
                match run.expires_ms {
                    Some(at) if at <= now_ms => expired.push((*number, run.first, run.last)),
                    Some(at) => next = Some(next.map_or(at, |next: u64| next.min(at))),
                    None => {}
                }
            }
        }
        (expired, next)
    }

    /// Marks numbers of a stream as done. False: they were done already, or were never sent. Numbers that an earlier
    /// epoch sent and the log lost are ignored.
    pub fn mark_done(&mut self, stream: u32, epoch: u64, done: &RangeSet) -> bool {
        let Some(of) = self.streams.get_mut(&stream) else { return false };
        let last = of.record.last;
        if done.last() > last.max(epoch << EPOCH_SHIFT) {
            return false;
        }
        let before = of.record.done.clone();
        of.record.done.add_all(done, last);
        if of.record.done == before {
            return false;
        }
        let upto = of.record.done.all_upto();
        let gone = of.runs.iter().take_while(|run| run.last <= upto).count();
        let gone: Vec<Run> = of.runs.drain(..gone).collect();
        self.held_cost -= of.volatile.drop_done(&of.record.done);
        for run in gone {
            self.release(run.segment);
        }
        true
    }

    fn release(&mut self, segment: u64) {
        if let Some(count) = self.segments.get_mut(&segment) {
            *count -= 1;
            if *count == 0 {
                self.segments.remove(&segment);
                self.free.push(segment);
            }
        }
    }

    /// Segments that have become free.
    pub fn take_free(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.free)
    }

    /// Called for a full segment: it is free if no stream needs it.
    pub fn free_if_unused(&mut self, segment: u64) {
        if !self.is_used(segment) && !self.free.contains(&segment) {
            self.free.push(segment);
        }
    }

    pub fn is_used(&self, segment: u64) -> bool {
        self.segments.contains_key(&segment)
    }

    /// The segments that hold messages of matching topics.
    pub fn segments_of_topics(&self, is_wanted: impl Fn(&str) -> bool) -> BTreeSet<u64> {
        let wanted = self.streams.values().filter(|stream| is_wanted(&stream.record.topic));
        wanted.flat_map(|stream| stream.runs.iter().map(|run| run.segment)).collect()
    }

    /// The content of one segment: for each stream its number, the first number, the distance to the last, the offset
    /// of the first, and the count.
    pub fn summary(&self, segment: u64) -> Vec<u8> {
        let mut to = Vec::new();
        for (number, stream) in &self.streams {
            let at = stream.runs.partition_point(|run| run.segment < segment);
            if let Some(run) = stream.runs.get(at).filter(|run| run.segment == segment) {
                for value in
                    [u64::from(*number), run.first, run.last - run.first, u64::from(run.at), run.count]
                {
                    put_number(&mut to, value);
                }
            }
        }
        to
    }

    /// Reads a summary of a segment. False: the records must be read.
    pub fn find_summary(&mut self, segment: u64, summary: &[u8]) -> bool {
        let mut from = Bytes::new(summary);
        let mut runs = Vec::new();
        while !from.is_empty() {
            let mut next = || from.number();
            let (Some(number), Some(first), Some(more), Some(at)) = (next(), next(), next(), next()) else {
                return false;
            };
            // The summary does not say which numbers are missing; only the records do.
            let Some(count) = next().filter(|count| *count == more.saturating_add(1)) else { return false };
            let (Ok(number), Ok(at)) = (u32::try_from(number), u32::try_from(at)) else { return false };
            runs.push((number, Run { segment, at, first, last: first.saturating_add(more), count }));
        }
        for (number, run) in runs {
            self.found.entry(number).or_default().push(run);
        }
        true
    }

    /// Recovery found a message.
    pub fn find_message(&mut self, stream: u32, seq: u64, position: Position) {
        self.found.entry(stream).or_default().find(position, seq);
    }

    /// Recovery found the progress of a stream.
    pub fn find_done(&mut self, stream: u32, done: &RangeSet) {
        if let Some(of) = self.streams.get_mut(&stream) {
            of.record.done.add_all(done, u64::MAX);
        }
    }

    /// Recovery found the state of a stream. Later records update it.
    pub fn find_stream(&mut self, mut record: records::StreamRecord) {
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
        for (number, found) in std::mem::take(&mut self.found) {
            let Some(stream) = self.streams.get_mut(&number) else { continue };
            let last = found.runs.back().map_or(0, |run| run.last);
            stream.record.last = stream.record.last.max(last);
            let upto = stream.record.done.all_upto();
            stream.missing = found.missing;
            stream.missing.add(last + 1, stream.record.last);
            stream.runs = found.runs.into_iter().filter(|run| run.last > upto).collect();
            for run in &stream.runs {
                *self.segments.entry(run.segment).or_default() += 1;
            }
        }
        for stream in self.streams.values_mut().filter(|stream| stream.runs.is_empty()) {
            stream.missing.add_upto(stream.record.last);
        }
    }
}

impl FoundStream {
    fn push(&mut self, run: Run) {
        self.missing.add(self.last() + 1, run.first - 1);
        self.runs.push_back(run);
    }

    fn find(&mut self, position: Position, seq: u64) {
        self.missing.add(self.last() + 1, seq - 1);
        extend(&mut self.runs, position, seq);
    }

    fn last(&self) -> u64 {
        self.runs.back().map_or(0, |run| run.last)
    }
}

fn extend(runs: &mut VecDeque<Run>, position: Position, seq: u64) {
    match runs.back_mut() {
        Some(run) if run.segment == position.segment => (run.last, run.count) = (seq, run.count + 1),
        _ => {
            let Position { segment, at } = position;
            runs.push_back(Run { segment, at, first: seq, last: seq, count: 1 });
        }
    }
}
