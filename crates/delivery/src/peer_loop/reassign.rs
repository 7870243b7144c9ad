//! Messages to one that are bound to a receiver: those that an earlier build has sent, and those copied for a receiver
//! of an earlier build. If that receiver is away for too long, they go to the stream that the topic's clients share.
//!
//! A message is copied into that stream and marked done in the first one by one batch of the log, so that a crash
//! leaves it in one of the two. Messages sent to all stay where they are.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pinnace_stream::RangeSet;

use super::{PeerLoop, TRY_AGAIN_AFTER};
use crate::environment::now;
use crate::log::LogError;
use crate::store::records::Receiver;
use crate::store::{Cause, Messages, State, Store, Wanted};
use crate::wire::{ANY, FrameEntry};

/// Bytes of bodies moved at once, unless the only message is larger.
const MOVE_BYTES: usize = 256 << 10;

/// Streams to clients that are away.
#[derive(Default)]
pub struct Reassign {
    away: BTreeMap<u32, Away>,
}

struct Away {
    since: Instant,
    /// Messages up to this number were examined.
    upto: u64,
}

impl Reassign {
    /// Records that a stream's receiver is away, since now or an earlier call, and has all its messages examined.
    pub fn is_away(&mut self, stream: u32) {
        self.away.entry(stream).or_insert_with(|| Away { since: now(), upto: 0 }).upto = 0;
    }

    pub fn is_back(&mut self, stream: u32) {
        self.away.remove(&stream);
    }

    /// Since when a stream's receiver is away.
    pub fn away_since(&self, stream: u32) -> Option<Instant> {
        self.away.get(&stream).map(|away| away.since)
    }

    /// Streams with receivers that are away and with messages not examined yet, and since when.
    pub fn open(&self, state: &State) -> Vec<(u32, Instant)> {
        let open = self.away.iter().filter(|(stream, away)| {
            state.outbox.get(**stream).is_some_and(|of| of.pending() > 0 && of.record.last > away.upto)
        });
        open.map(|(stream, away)| (*stream, away.since)).collect()
    }

    /// Finds some messages of a stream that may be moved.
    fn find(&self, store: &Store, stream: u32) -> Result<Messages, LogError> {
        let from = self.away.get(&stream).map_or(0, |away| away.upto);
        let (done, last) = match store.lock().outbox.get(stream) {
            Some(of) => (of.record.done.clone(), of.record.last),
            None => (RangeSet::default(), 0),
        };
        let filter = |entry: &FrameEntry<'_>| entry.flags & ANY != 0 && !done.contains(entry.seq);
        store.messages(
            stream,
            &Wanted { range: from.saturating_add(1)..=last, enough_bytes: MOVE_BYTES, filter: &filter },
        )
    }

    /// Moves the found messages to another stream. Errors: NoRoom, also if that stream is in the middle of a message.
    fn put(&mut self, store: &Store, from: u32, found: &Messages, to: u32) -> Result<(), LogError> {
        store.transfer(&mut store.lock(), from, found, to, Cause::Reassigned)?;
        if let Some(away) = self.away.get_mut(&from).filter(|_| !found.volatile) {
            away.upto = found.upto;
        }
        Ok(())
    }
}

impl PeerLoop {
    /// Moves some messages of receivers that have been away for too long.
    pub(super) fn move_on(&mut self) {
        let has_left = std::mem::take(&mut self.outward.has_left);
        if !has_left && self.move_at.is_none_or(|at| at > now()) {
            return;
        }
        let open = self.reassign.open(&self.store.lock());
        let mut next = None;
        for (stream, since) in open {
            let Some((after, topic, client)) = self.patience_with(stream) else { continue };
            let left = after.saturating_sub(now().saturating_duration_since(since));
            let wait = match left.is_zero() {
                false => left,
                true => match self.move_some(stream, client, &topic) {
                    Ok(true) => Duration::ZERO,
                    Ok(false) => continue,
                    Err(_) => TRY_AGAIN_AFTER,
                },
            };
            next = Some(next.map_or(wait, |next: Duration| next.min(wait)));
        }
        self.look_again(next);
    }

    /// How long a stream waits for its receiver before others may get its messages, its topic, and its client.
    fn patience_with(&self, stream: u32) -> Option<(Duration, String, u32)> {
        let state = self.store.lock();
        let record = &state.outbox.get(stream)?.record;
        let inward = self.inward.iter().find(|inward| inward.client.number == record.client)?;
        Some((inward.patience?, record.topic.clone(), record.client))
    }

    /// Moves some messages of a stream to the one that the topic's clients share. Returns false if no other client
    /// listens.
    fn move_some(&mut self, stream: u32, client: u32, topic: &str) -> Result<bool, LogError> {
        let Some((_, members)) = self.members.iter().find(|(other, _)| *other == client) else {
            return Ok(false);
        };
        let own = self.store.lock().clients[client as usize].name.clone();
        if !members.of_topic(topic).any(|member| member.name != own) {
            return Ok(false);
        }
        let found = self.reassign.find(&self.store, stream)?;
        let to = self.store.stream(&mut self.store.lock(), client, &Receiver::Anyone, topic)?;
        self.reassign.put(&self.store, stream, &found, to)?;
        self.find(to);
        Ok(true)
    }
}
