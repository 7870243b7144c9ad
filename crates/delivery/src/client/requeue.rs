//! Sends dead letters again.

use std::io::ErrorKind;
use std::time::Instant;

use pinnace_stream::RangeSet;

use super::Client;
use super::receive::read_envelope;
use super::send::Options;
use crate::Error;
use crate::dead_letters::LetterNumber;
use crate::pack::unpack;
use crate::peer_loop::Command;
use crate::properties::Properties;
use crate::store::{Cause, StreamMessage, Wanted};
use crate::wire::{BEGINS, DEAD, ENDS, PACKED, PROPERTIES, Verdict};

impl Client {
    /// Sends a dead letter of this client ([`dead_letters`](crate::dead_letters)) again, to one of the clients that
    /// listen on its original topic. Once the copy is on the disk the letter is done; a crash before that
    /// leaves both. False: there is no such letter. Errors: as of [`Client::send`]; Io, its body or its properties
    /// cannot be read.
    pub fn requeue(&self, letter: LetterNumber, deadline: Option<Instant>) -> Result<bool, Error> {
        let (store, LetterNumber { stream, seq: first }) = (&self.instance.store, letter);
        let is_own = store
            .lock()
            .outbox
            .get(stream)
            .is_some_and(|of| of.record.client == self.record.number && !of.record.done.contains(first));
        if !is_own {
            return Ok(false);
        }
        let one = Wanted { range: first..=u64::MAX, enough_bytes: 0, filter: &|_| true };
        let parts = store.logged_messages(stream, &one)?.list;
        let Some(flags) = flags_of(&parts) else { return Ok(false) };
        let whole: Vec<u8> = parts.iter().flat_map(|part| &part.body).copied().collect();
        let Some((dead, mut begin)) = read_envelope(&whole) else { return Ok(false) };
        let unreadable = Error::Io(ErrorKind::InvalidData);
        let mut properties = Properties::default();
        if flags & PROPERTIES != 0 {
            let (found, len) = Properties::read(&whole[begin..]).ok_or(unreadable.clone())?;
            (properties, begin) = (found, begin + len);
        }
        let unpacked =
            if flags & PACKED == 0 { Ok(None) } else { unpack(&whole[begin..], self.largest).map(Some) };
        let body = unpacked.map_err(|verdict| match verdict {
            Verdict::TooLarge => Error::TooLarge,
            _ => unreadable,
        })?;
        let headers: Vec<(&str, &[u8])> = properties.headers().collect();
        let options = Options { deadline, ..Options::of(&properties, &headers) };
        self.send_again(&dead.topic, body.as_deref().unwrap_or(&whole[begin..]), &options)?;
        let mut done = RangeSet::default();
        done.add(first, first + parts.len() as u64 - 1);
        store.mark_done(&mut store.lock(), stream, &done, Cause::Cleared)?;
        self.instance.peer_loop.tell(Command::Gone(stream));
        Ok(true)
    }
}

/// The flags of a complete letter.
fn flags_of(parts: &[StreamMessage]) -> Option<u8> {
    let (first, last) = (parts.first()?, parts.last()?);
    (first.flags & (BEGINS | DEAD) == BEGINS | DEAD && last.flags & ENDS != 0).then_some(first.flags)
}
