//! Messages that this store's clients have sent and that are not acknowledged yet: by stream, their numbers and the
//! segments of the log that hold them.

mod counts;
mod kept;
mod recovery;
mod runs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::HashMap;
use pinnace_stream::RangeSet;

use counts::{Ages, StreamCounts, Unended};
use kept::HEIRS_FROM;
use recovery::FoundStream;
use runs::{Run, extend};

use super::records::{self, Receiver};
use super::volatile::{Extent, Volatile, VolatileRun};
use crate::log::Position;
use crate::wire::{ANY, COST, ENDS, FrameEntry};
pub use counts::Cause;
pub use runs::Logged;

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
    /// The batch that records the last numbers marked as done.
    pub recorded_in: u64,
    /// The numbers that are done, and that no DONE record has yet. A checkpoint may have them.
    unrecorded: RangeSet,
    /// The last number when the store was opened.
    recovered_upto: u64,
    /// Numbers that no message has: they were skipped, or were volatile when the store was closed. A stream to any one
    /// receiver leaves out those that are done.
    missing: RangeSet,
    gone: RangeSet,
    unended: Unended,
    ages: Ages,
    pub counts: StreamCounts,
}

impl Stream {
    /// The number of its next message in `epoch`.
    pub fn next(&self, epoch: u64) -> u64 {
        (self.record.last + 1).max((epoch << EPOCH_SHIFT) + 1)
    }

    /// The last number when the store was opened; 0: it was empty.
    pub fn recovered_upto(&self) -> u64 {
        self.recovered_upto
    }

    /// Returns true if the log holds unfinished messages up to `seq`.
    pub fn is_logged_upto(&self, seq: u64) -> bool {
        self.runs.front().is_some_and(|run| run.first <= seq)
    }

    /// How many messages are not done. One of several parts counts until its last part is done.
    pub fn pending(&self) -> u64 {
        let parts = self.record.last.saturating_sub(self.gone.count());
        parts.saturating_sub(self.unended.count_without(&self.gone))
    }

    /// Numbers that are done, that no message has, or whose kept message is pending in the streams of receivers that
    /// have inherited it.
    pub fn gone(&self) -> &RangeSet {
        &self.gone
    }

    /// Computes `gone` from `done`, `missing` and `taken`.
    fn find_gone(&mut self) {
        self.gone = self.record.done.clone();
        self.gone.add_all(&self.missing, u64::MAX);
        self.gone.add_upto(self.record.taken);
    }

    /// What its pending messages cost: the bytes of their bodies, and COST for each part. An estimate if a part of a
    /// segment's messages is done and they differ in size.
    pub fn pending_cost(&self) -> u64 {
        let logged: u64 = self.runs.iter().map(|run| run.cost_of(self.left_in(run.first, run.last))).sum();
        logged + self.held_pending_cost()
    }

    /// What its pending messages in memory cost.
    pub fn held_pending_cost(&self) -> u64 {
        let share =
            |cost: u64, left: u64, all: u64| (u128::from(cost) * u128::from(left) / u128::from(all)) as u64;
        let held = self.volatile.all();
        let left = |run: &Extent| self.left_in(run.first, run.last);
        held.map(|run| share(run.cost, left(run), run.last - run.first + 1)).sum()
    }

    /// How many of the numbers from `first` to `last` are not gone.
    fn left_in(&self, first: u64, last: u64) -> u64 {
        last - first + 1 - self.gone.count_in(first, last)
    }

    /// When the oldest pending message was accepted, or earlier: by 0.1 s or a few thousandths of the backlog's age;
    /// of a message that was recovered from a full segment, by the time in which that segment was filled.
    pub fn oldest_pending_ms(&self) -> Option<u64> {
        (self.pending() > 0).then(|| self.ages.after(self.gone.all_upto())).flatten()
    }

    /// The number up to which a stream to one receiver may hold messages that were sent to any one receiver of the
    /// topic: those that an earlier build has bound to it, and copies for a receiver of an earlier build. 0: it holds
    /// none.
    pub fn bound_upto(&self) -> u64 {
        let logged = self.runs.iter().filter(|run| run.flags & ANY != 0).map(|run| run.last);
        let held = self.volatile.all().filter(|run| run.has_any).map(|run| run.last);
        let upto = logged.chain(held).max().unwrap_or(0);
        if self.is_gone_upto(upto) { 0 } else { upto }
    }

    /// Returns true if no message up to `seq` is pending.
    pub fn is_gone_upto(&self, seq: u64) -> bool {
        self.gone.all_upto() >= seq
    }

    /// The number of the first part of the message that ends in `last`, or a lower one.
    pub fn first_part_of(&self, last: u64) -> u64 {
        let before = self.unended.within(0, last.saturating_sub(1)).last();
        before.filter(|(_, end)| end + 1 == last).map_or(last, |(first, _)| first)
    }

    /// Where to begin to read for the messages after `seq`. None: the log holds none.
    pub fn position_after(&self, seq: u64) -> Option<Position> {
        let at = self.runs.partition_point(|run| run.last <= seq);
        self.runs.get(at).map(|run| Position { segment: run.segment, at: run.at })
    }

    /// Assigns the next number.
    fn give(&mut self, epoch: u64, flags: u8, accepted_ms: u64) -> u64 {
        let seq = self.next(epoch);
        self.missing.add(self.record.last + 1, seq - 1);
        self.gone.add(self.record.last + 1, seq - 1);
        self.record.last = seq;
        self.ages.add(seq, accepted_ms);
        match flags & ENDS != 0 {
            true => self.counts.accepted += 1,
            false => self.unended.add(seq, seq),
        }
        seq
    }

    /// Marks numbers as done, and counts the messages that are no longer pending. Returns the numbers that are new.
    fn mark_done(&mut self, done: &RangeSet, cause: Cause) -> RangeSet {
        let before = self.pending();
        let mut new = self.record.done.add_new(done, self.record.last);
        self.gone.add_all(&new, u64::MAX);
        let left = self.pending();
        self.counts.count(cause, before.saturating_sub(left));
        self.unended.forget_upto(self.gone.all_upto());
        match left {
            0 => self.ages.clear(),
            _ => self.ages.forget_upto(self.gone.all_upto()),
        }
        if new.last() > 0 && self.record.receiver == Receiver::Anyone {
            self.finish_missing(&mut new);
        }
        new
    }

    /// Marks the numbers as done that no message has and that follow a done one, so that `done` has few ranges: no
    /// single receiver knows which numbers between its own have no message. Those that follow a pending message stay:
    /// a receiver need not know of them yet, and they may be many.
    fn finish_missing(&mut self, new: &mut RangeSet) {
        let ends: Vec<u64> = new.iter().map(|(_, last)| last).collect();
        for (first, last) in ends.into_iter().filter_map(|end| self.missing.take_range(end + 1)) {
            new.add(first, last);
            self.record.done.add(first, last);
        }
        while let Some((first, last)) = self.missing.take_range(self.record.done.all_upto() + 1) {
            new.add(first, last);
            self.record.done.add(first, last);
        }
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
                && matches!(record.receiver, Receiver::Client(_))
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

    /// The done numbers of a stream that no DONE record has yet.
    pub fn unrecorded(&self, stream: u32) -> RangeSet {
        self.streams.get(&stream).map(|stream| stream.unrecorded.clone()).unwrap_or_default()
    }

    /// Sets the batch that records these numbers as done.
    pub fn set_recorded_in(&mut self, stream: u32, batch: u64, done: &RangeSet) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.recorded_in = batch;
            stream.unrecorded = stream.unrecorded.without(done);
        }
    }

    /// Records what the latest entry of a stream's receiver says: whether it has ended its subscription.
    pub fn set_left(&mut self, stream: u32, left: bool, seen: records::SeenEntry) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            (stream.record.left, stream.record.seen) = (left, seen);
        }
    }

    /// Adds a stream; the caller writes its record.
    pub fn open(&mut self, client: u32, receiver: Receiver, topic: &str) -> &Stream {
        self.last_stream += 1;
        self.insert(records::StreamRecord::new(self.last_stream, client, receiver, topic))
    }

    fn insert(&mut self, record: records::StreamRecord) -> &Stream {
        let (number, key) = (record.number, (record.client, record.receiver.clone(), record.topic.clone()));
        if !record.second {
            self.by_receiver.insert(key, number);
        }
        if number < HEIRS_FROM {
            self.last_stream = self.last_stream.max(number);
        }
        self.streams
            .entry(number)
            .insert_entry(Stream {
                record,
                runs: VecDeque::new(),
                logged: None,
                volatile: Volatile::default(),
                done_in: 0,
                recorded_in: 0,
                unrecorded: RangeSet::default(),
                recovered_upto: 0,
                missing: RangeSet::default(),
                gone: RangeSet::default(),
                unended: Unended::default(),
                ages: Ages::default(),
                counts: StreamCounts::default(),
            })
            .into_mut()
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
    pub fn add(&mut self, stream: u32, epoch: u64, logged: &Logged) {
        let Some(to) = self.streams.get_mut(&stream) else { return };
        let seq = to.give(epoch, logged.flags, logged.accepted_ms);
        let joins = to.runs.back().is_some_and(|run| run.last > to.inherited_upto());
        let before = to.runs.len();
        extend(&mut to.runs, seq, logged, joins);
        if to.runs.len() > before {
            *self.segments.entry(logged.position.segment).or_default() += 1;
        }
        to.logged = Some(logged.position);
        to.volatile.close();
    }

    /// Adds a volatile message, under the next number, which replaces that of the entry.
    pub fn hold(&mut self, stream: u32, epoch: u64, entry: &FrameEntry<'_>) {
        let Some(to) = self.streams.get_mut(&stream) else { return };
        let seq = to.give(epoch, entry.flags, entry.accepted_ms);
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
            self.held_cost -= stream.volatile.drop_done(&done, done.last());
            stream.record.done.add_all(&done, u64::MAX);
            stream.gone.add_all(&done, u64::MAX);
            stream.unrecorded.add_all(&done, u64::MAX);
        }
    }

    /// The credit cost of all volatile messages.
    pub fn held_cost(&self) -> u64 {
        self.held_cost
    }

    /// Expired volatile runs of whole messages, as stream, first and last number; and when the next run expires.
    pub fn held_expired(&self, now_ms: u64) -> (Vec<(u32, u64, u64)>, Option<u64>) {
        let (mut expired, mut next) = (Vec::new(), None);
        for (number, stream) in &self.streams {
            // The first number of adjacent expired runs, of which the first run begins with a whole message.
            let mut begin = None;
            for run in stream.volatile.all() {
                if !run.is_expired(now_ms) {
                    next = next.into_iter().chain(run.expires_ms).min();
                    begin = None;
                    continue;
                }
                begin = begin.or(run.begins.then_some(run.first));
                if let Some(first) = begin.filter(|_| run.ends) {
                    expired.push((*number, first, run.last));
                    begin = None;
                }
            }
        }
        (expired, next)
    }

    /// Marks numbers of a stream as done. False: they were done already, or were never sent. Numbers that an earlier
    /// epoch sent and the log lost are ignored.
    pub fn mark_done(&mut self, stream: u32, epoch: u64, done: &RangeSet, cause: Cause) -> bool {
        let Some(of) = self.streams.get_mut(&stream) else { return false };
        if done.last() > of.record.last.max(epoch << EPOCH_SHIFT) {
            return false;
        }
        let new = of.mark_done(done, cause);
        if new.last() == 0 {
            return false;
        }
        of.unrecorded.add_all(&new, u64::MAX);
        let upto = of.record.done.all_upto();
        let gone = of.runs.iter().take_while(|run| run.last <= upto).count();
        let gone: Vec<Run> = of.runs.drain(..gone).collect();
        self.held_cost -= of.volatile.drop_done(&of.record.done, new.last());
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
}
