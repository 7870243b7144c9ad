//! The dead-letter queue: a message that its receiver gave up is kept by its sender, as a message on the dead-letter
//! topic.

use std::cell::Cell;

use pinnace_stream::RangeSet;

use crate::log::LogError;
use crate::properties::envelope_len;
use crate::store::records::Receiver;
use crate::store::{Cause, Messages, Store, StreamMessage, Wanted};
use crate::wire::{
    BEGINS, DEAD, ENDS, FrameEntry, NAME_MAX, PROPERTIES, VOLATILE, Verdict, put_counted, put_number,
};

/// The suffix of a dead-letter topic.
pub const SUFFIX: &str = ".dead";

/// A message that was given up: the numbers of its parts, and the reason.
pub struct GivenUpMessage {
    pub stream: u32,
    pub first: u64,
    pub last: u64,
    pub verdict: Verdict,
    pub deliveries: u64,
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
    /// or does not exist, and is done. `cause`: how it counts.
    pub fn put_away(&self, store: &Store, receiver: &str, cause: Cause) -> Result<Option<u32>, LogError> {
        let parts = self.read(store)?;
        // A message that was held in memory comes into the log now.
        let is_special = |parts: &Messages| parts.list.len() > 1 || parts.list[0].flags & PROPERTIES != 0;
        if parts.as_ref().is_some_and(is_special) {
            store.log().guard()?;
        }
        let mut state = store.lock();
        let Some(mut parts) = parts else {
            // It was held in memory by a process that has ended. Without this it would stay pending for ever.
            let mut done = RangeSet::default();
            done.add(self.last, self.last);
            return store.mark_done(&mut state, self.stream, &done, cause).map(|_| None);
        };
        let Some(of) = state.outbox.get(self.stream) else { return Ok(None) };
        if of.record.done.contains(self.last) {
            return Ok(None);
        }
        let (client, topic) = (of.record.client, of.record.topic.clone());
        let to = store.stream(&mut state, client, &Receiver::Anyone, &topic_of(&topic))?;
        // A letter that is given up again has its last envelope alone.
        let first = &mut parts.list[0];
        let old = if first.flags & DEAD == 0 { 0 } else { envelope_len(&first.body).unwrap_or(0) };
        first.body.splice(..old, self.envelope(&topic, receiver));
        for part in &mut parts.list {
            part.flags = part.flags & !VOLATILE | DEAD;
            part.ttl_ms = 0;
        }
        parts.volatile = false;
        // While a caller sends a multi-part message on that topic this is NoRoom, and is tried again later.
        store.transfer(&mut state, self.stream, &parts, to, cause)?;
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

    /// Its parts. None: it does not exist, or `last` is not the number of a message's last part.
    fn read(&self, store: &Store) -> Result<Option<Messages>, LogError> {
        // Receivers of version 0.1.0 give as `first` the number after the message before it, which may be long done.
        let begin = Cell::new(None);
        let note_begin = |entry: &FrameEntry<'_>| {
            if entry.flags & BEGINS != 0 {
                begin.set(begin.get().max(Some(entry.seq)));
            }
            false
        };
        let known = store.lock().outbox.get(self.stream).map(|of| of.first_part_of(self.last));
        let first = known.map_or(self.first, |known| known.min(self.first));
        let wanted = Wanted { range: first..=self.last, enough_bytes: usize::MAX, filter: &note_begin };
        store.messages(self.stream, &wanted)?;
        let Some(begin) = begin.get() else { return Ok(None) };
        let one = Wanted { range: begin..=self.last, enough_bytes: 0, filter: &|_| true };
        let parts = store.messages(self.stream, &one)?;
        let ends = |part: &StreamMessage| part.seq == self.last && part.flags & ENDS != 0;
        Ok(parts.list.last().is_some_and(ends).then_some(parts))
    }
}
