//! Progress on incoming streams: alone, and together with messages that are sent because of it.

use std::collections::HashMap;
use std::io::ErrorKind;

use pinnace_stream::RangeSet;

use super::records::{CURSOR, CursorRecord, Destination, MESSAGE};
use super::{Accepted, Incoming, Sending, State, Store};
use crate::log::{Appended, LogError, Position, Urgency, record_bytes};

/// A message that is to be accepted, and its place in its streams.
struct Numbered<'a> {
    sending: &'a Sending<'a>,
    header: Vec<u8>,
    destinations: Vec<Destination>,
}

impl Store {
    /// Logs a client's progress on an incoming stream, unless the log has it already. Returns the batch.
    pub fn note(&self, state: &mut State, of: &Incoming, done: &RangeSet) -> Result<u64, LogError> {
        let Some(cursor) = state.cursors.get_mut(of) else { return Ok(0) };
        let new = cursor.done.add_new(done, u64::MAX);
        let progress = match state.noted.get(of) {
            Some(batch) if new.last() == 0 => return Ok(*batch),
            Some(_) => cursor.write_new(&new),
            None => cursor.write_all(),
        };
        // If this cannot be logged, the next record has all.
        state.noted.remove(of);
        state.forget_attempts(of);
        let payloads: Vec<[&[u8]; 1]> = progress.iter().map(|record| [&record[..]]).collect();
        let records: Vec<(u8, &[&[u8]])> = payloads.iter().map(|payload| (CURSOR, &payload[..])).collect();
        let Appended { position, batch } = self.log.append_together(Urgency::Note, &records, state)?;
        state.noted.insert(*of, batch);
        state.follow(position);
        self.free(state);
        Ok(batch)
    }

    /// Accepts messages, and their parts, in this order, together with progress on an incoming stream: a crash leaves
    /// all of it or nothing. Errors: TooLarge, they have more than `Log::largest_together` bytes; of `accept`. After an
    /// error nothing has changed.
    pub fn accept_together(
        &self,
        state: &mut State,
        sendings: &[Sending<'_>],
        of: &Incoming,
        done: &RangeSet,
    ) -> Result<Accepted, LogError> {
        // A message is in hand, so its stream was opened.
        let known = state.cursors.get(of).cloned();
        let mut cursor = known.ok_or(LogError::Io(ErrorKind::NotFound))?;
        let new = cursor.done.add_new(done, u64::MAX);
        let progress = if state.noted.contains_key(of) { cursor.write_new(&new) } else { cursor.write_all() };
        let messages = state.number(sendings);
        let payloads: Vec<[&[u8]; 2]> =
            messages.iter().map(|message| [&message.header[..], message.sending.body]).collect();
        let progress: Vec<[&[u8]; 1]> = progress.iter().map(|record| [&record[..]]).collect();
        let of_messages = payloads.iter().map(|payload| (MESSAGE, &payload[..]));
        let of_progress = progress.iter().map(|payload| (CURSOR, &payload[..]));
        let records: Vec<(u8, &[&[u8]])> = of_messages.chain(of_progress).collect();
        let bytes = |payload: &[&[u8]]| record_bytes(payload.iter().map(|part| part.len()).sum());
        if records.iter().map(|(_, payload)| bytes(payload) as u64).sum::<u64>() > self.log.largest_together()
        {
            return Err(LogError::TooLarge);
        }
        let Appended { position, batch } = self.log.append_together(Urgency::Sync, &records, state)?;
        let mut at = position.at;
        for (message, payload) in messages.iter().zip(&payloads) {
            let appended = Appended { position: Position { at, ..position }, batch };
            state.accepted(message.sending, &message.destinations, &appended);
            at += bytes(payload) as u32;
        }
        state.noted_in(of, cursor, batch);
        state.follow(position);
        self.free(state);
        Ok(Accepted { batch })
    }
}

impl State {
    /// Gives numbers to messages that are to be accepted together.
    fn number<'a>(&self, sendings: &'a [Sending<'a>]) -> Vec<Numbered<'a>> {
        let mut ahead: HashMap<u32, u64> = HashMap::new();
        let number = |sending: &'a Sending<'a>| {
            let mut header = Vec::new();
            let known = |stream| ahead.get(&stream).copied().unwrap_or(0);
            let destinations = self.write_header(&mut header, sending, known);
            destinations.iter().for_each(|(stream, _)| *ahead.entry(*stream).or_default() += 1);
            Numbered { sending, header, destinations }
        };
        sendings.iter().map(number).collect()
    }

    /// The record of a cursor was appended.
    fn noted_in(&mut self, of: &Incoming, cursor: CursorRecord, batch: u64) {
        self.cursors.insert(*of, cursor);
        self.noted.insert(*of, batch);
        self.forget_attempts(of);
    }
}
