//! Limits on the messages that a store keeps for receivers that are away, and for later subscribers.

use std::time::Duration;

use pinnace_stream::RangeSet;

use super::records::Receiver;
use super::{Cause, State, Store, Wanted};
use crate::log::{LogError, Urgency};
use crate::wire::{ANY, BEGINS, COST, FrameEntry};

/// The limits for the messages of one stream. The store drops the oldest messages that exceed one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainLimits {
    /// The age of a message. None: any.
    pub age: Option<Duration>,
    /// The bytes of all bodies, and 64 for each message or part.
    pub bytes: u64,
}

/// Decides which messages to drop after the whole segments, by reading them one by one.
struct Dropping {
    oldest_ms: u64,
    excess: u64,
    /// The last number to drop.
    upto: u64,
}

impl Dropping {
    /// Decides on whole messages: a further part is dropped with its first. Returns false at the first that stays.
    fn drops(&mut self, entry: &FrameEntry<'_>) -> bool {
        let is_wanted = entry.accepted_ms >= self.oldest_ms && self.excess == 0;
        if entry.flags & BEGINS != 0 && is_wanted {
            return false;
        }
        self.upto = entry.seq;
        self.excess = self.excess.saturating_sub(COST + entry.body.len() as u64);
        true
    }
}

impl Store {
    /// The stream of messages to all for a receiver that listens on a topic. A new stream begins with the messages that
    /// are kept for later subscribers.
    pub fn stream_of_listener(
        &self,
        state: &mut State,
        client: u32,
        receiver: &Receiver,
        topic: &str,
    ) -> Result<u32, LogError> {
        let kept = state.outbox.kept_on(client, topic).map(|kept| kept.record.number);
        let Some(inheritance) = kept.and_then(|kept| state.outbox.inherit(receiver, kept)) else {
            return self.stream(state, client, receiver, topic);
        };
        for record in &inheritance.records {
            match self.append_stream(state, Urgency::Interval, record) {
                // The receiver gets no message before the record is on the disk: without it, another heir would send
                // them again.
                Ok(batch) => state.outbox.set_done_in(inheritance.heir, batch),
                Err(error) => {
                    // Messages of a stream without a record would be lost at a restart.
                    state.outbox.disinherit(&inheritance);
                    return Err(error);
                }
            }
        }
        self.append_stream(state, Urgency::Interval, &inheritance.kept_record)?;
        Ok(inheritance.heir)
    }

    /// Drops the messages of a stream that exceed the limits. Returns how many pending messages were dropped.
    pub fn drop_beyond(&self, stream: u32, limits: &RetainLimits, now_ms: u64) -> Result<u64, LogError> {
        let age_ms = limits.age.map(|age| age.as_millis() as u64);
        let oldest_ms = age_ms.map_or(0, |age_ms| now_ms.saturating_sub(age_ms));
        let (upto, excess) = {
            let state = self.lock();
            let Some(of) = state.outbox.get(stream).filter(|_| !state.is_in_parts(&[stream])) else {
                return Ok(0);
            };
            let excess = of.cost().saturating_sub(limits.bytes);
            if excess == 0 && of.oldest_ms().is_none_or(|ms| ms >= oldest_ms) {
                return Ok(0);
            }
            let (whole, rest) = of.droppable_upto(oldest_ms, excess);
            (whole.unwrap_or(of.record.done.all_upto()), rest)
        };
        let mut dropping = Dropping { oldest_ms, excess, upto };
        self.scan_logged(stream, upto, &mut |entry| entry.seq <= upto || dropping.drops(entry))?;
        self.drop_upto(stream, dropping.upto)
    }

    /// Drops a stream's messages up to a number. Returns how many of them were pending.
    fn drop_upto(&self, stream: u32, upto: u64) -> Result<u64, LogError> {
        let mut done = RangeSet::default();
        done.add_upto(upto);
        let mut state = self.lock();
        let before = state.outbox.get(stream).map_or(0, |of| of.pending());
        if !self.mark_done(&mut state, stream, &done, Cause::Dropped)? {
            return Ok(0);
        }
        let dropped = before - state.outbox.get(stream).map_or(0, |of| of.pending());
        if let Some(record) = state.outbox.count_dropped(stream, dropped) {
            self.append_stream(&mut state, Urgency::Control, &record)?;
        }
        Ok(dropped)
    }

    /// Makes room: drops kept messages that at least one client has inherited. Returns false if there are none.
    pub fn drop_taken(&self, state: &mut State) -> bool {
        let kept = state.outbox.iter().map(|stream| &stream.record);
        let taken: Vec<(u32, u64)> = kept
            .filter(|record| record.taken > record.done.all_upto())
            .map(|record| (record.number, record.taken))
            .collect();
        let mut has_dropped = false;
        for (stream, upto) in taken {
            let mut done = RangeSet::default();
            done.add_upto(upto);
            has_dropped |= self.mark_done(state, stream, &done, Cause::Dropped).unwrap_or(false);
        }
        has_dropped
    }

    /// Ends a stream to a client that was forgotten: messages that another receiver of the topic may get as well go to
    /// the first that will listen, and the others are dropped. Returns how many, and the stream to the first.
    pub fn forget_stream(&self, stream: u32, at_once: usize) -> Result<(u64, Option<u32>), LogError> {
        let (client, topic, last) = {
            let state = self.lock();
            let Some(of) = state.outbox.get(stream).filter(|_| !state.is_in_parts(&[stream])) else {
                return Ok((0, None));
            };
            (of.record.client, of.record.topic.clone(), of.record.last)
        };
        let mut first = None;
        let mut at = 1;
        while at <= last {
            let done = self.lock().outbox.get(stream).map(|of| of.record.done.clone()).unwrap_or_default();
            let filter = |entry: &FrameEntry<'_>| entry.flags & ANY != 0 && !done.contains(entry.seq);
            let found = self.logged_messages(
                stream,
                &Wanted { range: at..=last, enough_bytes: at_once, filter: &filter },
            )?;
            if !found.list.is_empty() {
                let mut state = self.lock();
                let to = self.stream(&mut state, client, &Receiver::Anyone, &topic)?;
                self.transfer(&mut state, stream, &found, to, Cause::Reassigned)?;
                first = Some(to);
            }
            at = found.upto + 1;
        }
        Ok((self.drop_upto(stream, last)?, first))
    }
}
