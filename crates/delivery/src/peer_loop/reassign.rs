//! Reassigns messages sent to one of a topic's clients that has been away for too long, to another that is present.
//!
//! A message is copied into the other client's stream before it is marked done in the first one, so that it is always
//! in at least one. A crash in between leaves it in both. Messages sent to all stay where they are.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::{PeerLoop, TRY_AGAIN_AFTER};
use crate::log::{LogError, Urgency};
use crate::ranges::RangeSet;
use crate::store::records::{MESSAGE, MessageRecord, Receiver};
use crate::store::{Sending, State, Store};
use crate::wire::{ANY, ENDS};

/// Bytes of the log read at once, and bytes of bodies moved at once, unless the only message is larger.
const READ_BYTES: usize = 256 << 10;

/// Streams to clients that are away.
#[derive(Default)]
pub struct Reassign {
    away: HashMap<u32, Away>,
}

struct Away {
    since: Instant,
    /// Messages up to this number were examined.
    upto: u64,
}

/// A message, or a part of one, that may be moved.
struct MovablePart {
    seq: u64,
    flags: u8,
    accepted_ms: u64,
    ttl_ms: u32,
    body: Vec<u8>,
}

/// The messages of a stream that may be moved.
pub struct Movable {
    parts: Vec<MovablePart>,
    held: bool,
    /// Messages after this number were not examined.
    upto: u64,
}

impl Reassign {
    /// Records that a stream's receiver is away, since now or an earlier call, and has all its messages examined.
    pub fn is_away(&mut self, stream: u32) {
        self.away.entry(stream).or_insert_with(|| Away { since: Instant::now(), upto: 0 }).upto = 0;
    }

    pub fn is_back(&mut self, stream: u32) {
        self.away.remove(&stream);
    }

    /// Streams with receivers that are away and with messages not examined yet, and since when.
    pub fn open(&self, state: &State) -> Vec<(u32, Instant)> {
        let open = self.away.iter().filter(|(stream, away)| {
            state.outbox.get(**stream).is_some_and(|of| of.pending() > 0 && of.record.last > away.upto)
        });
        open.map(|(stream, away)| (*stream, away.since)).collect()
    }

    /// Finds some messages of a stream that may be moved.
    pub fn find(&self, store: &Store, stream: u32) -> Result<Movable, LogError> {
        let from = self.away.get(&stream).map_or(0, |away| away.upto);
        let mut found = find_held(store, stream, from);
        if found.parts.is_empty() {
            found = find_logged(store, stream, from)?;
        }
        Ok(found)
    }

    /// Moves the found messages to another stream. Errors: NoRoom, also if that stream is in the middle of a message.
    pub fn put(&mut self, store: &Store, from: u32, found: Movable, to: u32) -> Result<(), LogError> {
        let mut state = store.lock();
        let Some(client) = state.outbox.get(from).map(|stream| stream.record.client) else { return Ok(()) };
        if state.is_in_parts(&[to]) {
            return Err(LogError::NoRoom(None));
        }
        let mut done = RangeSet::default();
        for part in &found.parts {
            let sending = Sending {
                client,
                streams: &[to],
                flags: part.flags,
                accepted_ms: part.accepted_ms,
                ttl_ms: part.ttl_ms,
                body: &part.body,
                urgency: Urgency::Sync,
            };
            match found.held {
                true => drop(store.hold(&mut state, &sending)),
                false => drop(store.accept(&mut state, &sending)?),
            }
            done.add(part.seq, part.seq);
        }
        store.settle(&mut state, from, &done)?;
        if let Some(away) = self.away.get_mut(&from).filter(|_| !found.held) {
            away.upto = found.upto;
        }
        Ok(())
    }
}

impl PeerLoop {
    /// Moves some messages of receivers that have been away for too long.
    pub(super) fn move_on(&mut self) {
        if self.move_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        let open = self.reassign.open(&self.store.lock());
        let mut next = None;
        for (stream, since) in open {
            let Some((after, topic, client)) = self.patience_with(stream) else { continue };
            let left = after.saturating_sub(since.elapsed());
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
        self.move_at = next.map(|wait| Instant::now() + wait);
    }

    /// How long a stream waits for its receiver before others may get its messages, its topic, and its client.
    fn patience_with(&self, stream: u32) -> Option<(Duration, String, u32)> {
        let state = self.store.lock();
        let record = &state.outbox.get(stream)?.record;
        let inward = self.inward.iter().find(|inward| inward.client.number == record.client)?;
        Some((inward.patience?, record.topic.clone(), record.client))
    }

    /// Moves some messages of a stream to another client. Returns false if no other client listens.
    fn move_some(&mut self, stream: u32, client: u32, topic: &str) -> Result<bool, LogError> {
        let Some((_, members)) = self.members.iter().find(|(other, _)| *other == client) else {
            return Ok(false);
        };
        let own = self.store.lock().clients[client as usize].name.clone();
        let others: Vec<String> =
            members.of_topic(topic).map(|member| member.name.clone()).filter(|name| *name != own).collect();
        if others.is_empty() {
            return Ok(false);
        }
        let found = self.reassign.find(&self.store, stream)?;
        self.turn += 1;
        let receiver = Receiver::Client(others[self.turn % others.len()].clone());
        let to = self.store.stream(&mut self.store.lock(), client, &receiver, topic)?;
        self.reassign.put(&self.store, stream, found, to)?;
        self.find(to);
        Ok(true)
    }
}

fn find_held(store: &Store, stream: u32, mut at: u64) -> Movable {
    let mut state = store.lock();
    let done = state.outbox.get(stream).map(|of| of.record.done.clone()).unwrap_or_default();
    let mut found = Movable { parts: Vec::new(), held: true, upto: at };
    // A run may begin or end in the middle of a message.
    while let Some(run) = state.outbox.held_behind(stream, at) {
        let whole = found.parts.last().is_none_or(|part: &MovablePart| part.flags & ENDS != 0);
        if whole && !found.parts.is_empty() {
            break;
        }
        run.visit(|entry| {
            if entry.flags & ANY != 0 && !done.contains(entry.seq) {
                found.parts.push(MovablePart {
                    seq: entry.seq,
                    flags: entry.flags,
                    accepted_ms: entry.accepted_ms,
                    ttl_ms: entry.ttl_ms.map_or(0, |ttl_ms| ttl_ms as u32),
                    body: entry.body.to_vec(),
                });
            }
        });
        at = run.of.last;
    }
    found
}

fn find_logged(store: &Store, stream: u32, from: u64) -> Result<Movable, LogError> {
    let (mut place, done, last) = {
        let state = store.lock();
        let Some(of) = state.outbox.get(stream) else {
            return Ok(Movable { parts: Vec::new(), held: false, upto: u64::MAX });
        };
        let done = of.record.done.clone();
        (of.place_behind(from.max(done.all_upto())), done, of.record.last)
    };
    let mut found = Movable { parts: Vec::new(), held: false, upto: last };
    let (mut buffer, mut bytes, mut enough) = (Vec::new(), 0, false);
    while let Some(at) = place.filter(|_| !enough) {
        let next = store.log().read(at, READ_BYTES, &mut buffer, &mut |_, kind, payload| {
            if kind == MESSAGE
                && let Some(message) = MessageRecord::read(payload)
                && let Some((_, seq)) = message.destinations().find(|(other, _)| *other == stream)
                && seq > from
            {
                if message.flags & ANY != 0 && !done.contains(seq) {
                    bytes += message.body.len();
                    found.parts.push(MovablePart {
                        seq,
                        flags: message.flags,
                        accepted_ms: message.accepted_ms,
                        ttl_ms: message.ttl_ms,
                        body: message.body.to_vec(),
                    });
                }
                enough = seq >= last || (bytes >= READ_BYTES && message.flags & ENDS != 0);
                found.upto = if enough { seq } else { last };
            }
            !enough
        })?;
        place = (next != at).then_some(next);
    }
    Ok(found)
}
