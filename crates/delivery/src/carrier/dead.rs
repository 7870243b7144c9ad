//! Dead letters: what a receiver has given up is kept, as a message on the topic of its dead letters.

use crate::log::{LogError, Urgency};
use crate::ranges::Done;
use crate::store::records::{self, MESSAGE, Message, Receiver};
use crate::store::{Sending, Store};
use crate::wire::{BEGINS, DEAD, ENDS, NAME_MAX, VOLATILE, Verdict, put_counted, put_number};

/// What is behind the name of a topic in that of its dead letters.
pub const SUFFIX: &str = ".dead";
/// Bytes of the log that are read at once.
const READ_BYTES: usize = 256 << 10;

/// A message that was given up: the numbers of its parts, and why.
pub struct DeadLetter {
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

/// The topic of a topic's dead letters.
pub fn topic_of(topic: &str) -> String {
    let mut end = topic.len().min(NAME_MAX - SUFFIX.len());
    while !topic.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{SUFFIX}", &topic[..end])
}

impl DeadLetter {
    /// Moves it to the stream of its topic's dead letters, and returns that. None: it is there already, or was never
    /// sent.
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
            // Somebody sends on that very topic; it is tried again.
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
        // Behind the copies, so that there is never neither.
        let mut done = Done::default();
        done.add(self.first, self.last);
        store.settle(&mut state, self.stream, &done)?;
        Ok(Some(to))
    }

    /// What is known of it, before its body.
    fn envelope(&self, topic: &str, receiver: &str) -> Vec<u8> {
        let mut to = Vec::new();
        put_counted(&mut to, topic.as_bytes());
        put_counted(&mut to, receiver.as_bytes());
        to.push(self.verdict as u8);
        put_number(&mut to, self.deliveries);
        to
    }

    /// Its parts. Whoever speaks of anything but one whole message is not heard.
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

    /// Those that are held in memory.
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

/// The parts of a message in the log, whose first has one number and whose last another, or one before that.
pub fn read_parts(store: &Store, stream: u32, first: u64, last: u64) -> Result<Vec<Part>, LogError> {
    let place = store.lock().outbox.get(stream).and_then(|of| of.place_behind(first.saturating_sub(1)));
    let Some(mut place) = place else { return Ok(Vec::new()) };
    let (mut parts, mut buffer, mut at_end) = (Vec::new(), Vec::new(), false);
    while !at_end {
        let next = store.log().read(place, READ_BYTES, &mut buffer, &mut |_, kind, payload| {
            if kind == MESSAGE
                && let Some(message) = Message::read(payload)
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
    fn of(message: &records::Message<'_>) -> Part {
        Part { flags: message.flags, accepted_ms: message.accepted_ms, body: message.body.to_vec() }
    }
}
