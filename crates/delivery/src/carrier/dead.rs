//! Dead letters: what a receiver has given up is kept, as a message on the topic of its dead letters.

use crate::log::{LogError, Urgency};
use crate::ranges::Done;
use crate::store::records::{self, BEGINS, DEAD, ENDS, MESSAGE, Message, Receiver};
use crate::store::{Sending, Store};
use crate::wire::{NAME_MAX, Verdict, put_counted, put_number};

/// What is behind the name of a topic in that of its dead letters.
const SUFFIX: &str = ".dead";
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

/// One part of it.
struct Part {
    flags: u8,
    accepted_ms: u64,
    body: Vec<u8>,
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

    /// Its parts, from the log.
    fn read(&self, store: &Store) -> Result<Vec<Part>, LogError> {
        let place =
            store.lock().outbox.get(self.stream).and_then(|of| of.place_behind(self.first.saturating_sub(1)));
        let Some(mut place) = place else { return Ok(Vec::new()) };
        let (mut parts, mut buffer, mut at_end, mut is_one) = (Vec::new(), Vec::new(), false, false);
        while !at_end {
            let next = store.log().read(place, READ_BYTES, &mut buffer, &mut |_, kind, payload| {
                if kind == MESSAGE
                    && let Some(message) = Message::read(payload)
                    && let Some((_, seq)) = message.destinations().find(|(stream, _)| *stream == self.stream)
                {
                    if (self.first..=self.last).contains(&seq) {
                        parts.push(Part::of(&message));
                    }
                    at_end = seq >= self.last || (seq >= self.first && message.flags & ENDS != 0);
                    is_one = seq == self.last && message.flags & ENDS != 0;
                }
                !at_end
            })?;
            if next == place {
                break;
            }
            place = next;
        }
        // Whoever speaks of anything but one whole message is not heard.
        is_one &= parts.first().is_some_and(|part| part.flags & BEGINS != 0);
        Ok(if is_one { parts } else { Vec::new() })
    }
}

impl Part {
    fn of(message: &records::Message<'_>) -> Part {
        Part { flags: message.flags, accepted_ms: message.accepted_ms, body: message.body.to_vec() }
    }
}
