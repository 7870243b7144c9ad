//! The dead-letter queue: a message that its receiver gave up is kept by its sender, as a message on the dead-letter
//! topic.

use crate::log::{LogError, Urgency};
use crate::ranges::RangeSet;
use crate::store::records::{self, MESSAGE, MessageRecord, Receiver};
use crate::store::{Sending, Store};
use crate::wire::{BEGINS, DEAD, ENDS, NAME_MAX, VOLATILE, Verdict, put_counted, put_number};

/// The suffix of a dead-letter topic.
pub const SUFFIX: &str = ".dead";
/// Bytes of the log read at once.
const READ_BYTES: usize = 256 << 10;

/// A message that was given up: the numbers of its parts, and the reason.
pub struct GivenUpMessage {
    pub stream: u32,
    pub first: u64,
    pub last: u64,
    pub verdict: Verdict,
    pub deliveries: u64,
}

/// One part of a message.
pub struct Part {
    pub flags: u8,
    accepted_ms: u64,
    pub body: Vec<u8>,
}

/// The dead-letter topic of a topic.
pub fn topic_of(topic: &str) -> String {
    let mut end = topic.len().min(NAME_MAX - SUFFIX.len());
    while !topic.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{SUFFIX}", &topic[..end])
}

impl GivenUpMessage {
    /// Moves the message to the stream of its dead-letter topic, and returns that stream. None: it was moved already,
    /// or was never sent.
    pub fn put_away(&self, store: &Store, receiver: &str) -> Result<Option<u32>, LogError> {
        let parts = self.read(store)?;
        if parts.is_empty() {
            return Ok(None);
        }
        let mut state = store.lock();
        let Some(of) = state.outbox.get(self.stream) else { return Ok(None) };
        if of.record.done.contains(self.last) {
            return Ok(None);
        }
        let (client, topic) = (of.record.client, of.record.topic.clone());
        let to = match state.outbox.find_by_topic(client, &topic_of(&topic)) {
            Some(stream) => stream,
            None => store.stream(&mut state, client, &Receiver::Anyone, &topic_of(&topic))?,
        };
        if state.is_in_parts(&[to]) {
            // A caller is sending a multi-part message on that topic; retry later.
            return Err(LogError::NoRoom(None));
        }
        for mut part in parts {
            if part.flags & BEGINS != 0 {
                part.body.splice(..0, self.envelope(&topic, receiver));
            }
            store.accept(
                &mut state,
                &Sending {
                    client,
                    streams: &[to],
                    flags: part.flags | DEAD,
                    accepted_ms: part.accepted_ms,
                    ttl_ms: 0,
                    body: &part.body,
                    urgency: Urgency::Sync,
                },
            )?;
        }
        // Mark it done after copying, so that it is always in at least one stream.
        let mut done = RangeSet::default();
        done.add(self.first, self.last);
        store.settle(&mut state, self.stream, &done)?;
        Ok(Some(to))
    }

    /// The envelope, which precedes its body.
    fn envelope(&self, topic: &str, receiver: &str) -> Vec<u8> {
        let mut to = Vec::new();
        put_counted(&mut to, topic.as_bytes());
        put_counted(&mut to, receiver.as_bytes());
        to.push(self.verdict as u8);
        put_number(&mut to, self.deliveries);
        to
    }

    /// Its parts. Empty if the numbers given are not those of exactly one whole message.
    fn read(&self, store: &Store) -> Result<Vec<Part>, LogError> {
        let mut parts = self.read_held(store);
        if parts.is_empty() {
            parts = read_parts(store, self.stream, self.first, self.last)?;
        }
        let begins = parts.first().is_some_and(|part| part.flags & BEGINS != 0);
        let ends = parts.iter().position(|part| part.flags & ENDS != 0);
        let is_one = begins && ends.is_some_and(|at| at + 1 == parts.len());
        Ok(if is_one { parts } else { Vec::new() })
    }

    /// Its parts, if they are held in memory.
    fn read_held(&self, store: &Store) -> Vec<Part> {
        let (mut state, mut parts, mut at) = (store.lock(), Vec::new(), self.first.saturating_sub(1));
        while let Some(run) =
            state.outbox.held_behind(self.stream, at).filter(|run| run.of.first <= self.last)
        {
            run.visit(|entry| {
                if (self.first..=self.last).contains(&entry.seq) {
                    let flags = entry.flags & !VOLATILE;
                    parts.push(Part { flags, accepted_ms: entry.accepted_ms, body: entry.body.to_vec() });
                }
            });
            at = run.of.last;
        }
        parts
    }
}

/// The logged parts of the message that begins at `first` and ends at `last` at the latest.
pub fn read_parts(store: &Store, stream: u32, first: u64, last: u64) -> Result<Vec<Part>, LogError> {
    let place = store.lock().outbox.get(stream).and_then(|of| of.place_behind(first.saturating_sub(1)));
    let Some(mut place) = place else { return Ok(Vec::new()) };
    let (mut parts, mut buffer, mut at_end) = (Vec::new(), Vec::new(), false);
    while !at_end {
        let next = store.log().read(place, READ_BYTES, &mut buffer, &mut |_, kind, payload| {
            if kind == MESSAGE
                && let Some(message) = MessageRecord::read(payload)
                && let Some((_, seq)) = message.destinations().find(|(other, _)| *other == stream)
            {
                if (first..=last).contains(&seq) {
                    parts.push(Part::of(&message));
                }
                at_end = seq >= last || (seq >= first && message.flags & ENDS != 0);
            }
            !at_end
        })?;
        if next == place {
            break;
        }
        place = next;
    }
    Ok(parts)
}

impl Part {
    fn of(message: &records::MessageRecord<'_>) -> Part {
        Part { flags: message.flags, accepted_ms: message.accepted_ms, body: message.body.to_vec() }
    }
}
