//! Reads the dead letters of a store, from its files as [`peek`](crate::peek()) does.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::Error;
use crate::client::{Dead, read_envelope};
use crate::log::{LogError, View};
use crate::pack;
use crate::peer_loop::SUFFIX;
use crate::properties::Properties;
use crate::store::records::{self, MESSAGE, MessageRecord};
use crate::store::{EPOCH_SHIFT, State, view};
use crate::wire::{BEGINS, DEAD, ENDS, PACKED, PROPERTIES};

/// Bytes of a letter's body in its preview.
const PREVIEW: usize = 64;

/// Identifies a dead letter, or another pending message, of a store; as text `STREAM.EPOCH.NUMBER`. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LetterNumber {
    pub(crate) stream: u32,
    pub(crate) seq: u64,
}

/// A message that its receiver has given up, kept by its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    pub number: LetterNumber,
    /// The sender.
    pub from: String,
    /// The original topic, the receiver that gave it up, and the reason.
    pub dead: Dead,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted_ms: u64,
    /// Bytes of its body, which begins with `preview`.
    pub bytes: u64,
    pub preview: Vec<u8>,
    /// Its id, content type, trace context and headers.
    pub properties: Properties,
}

/// All dead letters in the store of a directory that were neither received nor sent again, the oldest of each sender
/// and topic first. Errors: Io, there is no store or it cannot be read; Damaged.
pub fn dead_letters(store: &Path) -> Result<Vec<DeadLetter>, Error> {
    Ok(view(store, gather)?)
}

/// A letter with parts still missing.
struct Begun {
    number: LetterNumber,
    flags: u8,
    accepted_ms: u64,
    first: Vec<u8>,
    /// Bytes of all parts.
    bytes: u64,
}

fn gather(state: &State, view: &View) -> Result<Vec<DeadLetter>, LogError> {
    let streams: HashMap<u32, &records::StreamRecord> =
        state.outbox.iter().map(|stream| (stream.record.number, &stream.record)).collect();
    let (mut begun, mut letters) = (HashMap::new(), Vec::new());
    for segment in state.outbox.segments_of_topics(|topic| topic.ends_with(SUFFIX)) {
        view.visit(segment, &mut |kind, payload| {
            if kind != MESSAGE {
                return;
            }
            let Some(message) = MessageRecord::read(payload).filter(|message| message.flags & DEAD != 0)
            else {
                return;
            };
            for (stream, seq) in message.destinations() {
                let Some(record) = streams.get(&stream).filter(|record| !record.done.contains(seq)) else {
                    continue;
                };
                let number = LetterNumber { stream, seq };
                if let Some(whole) = take(&mut begun, number, &message) {
                    let client = state.clients.get(record.client as usize);
                    letters.extend(whole.read(client.map_or("", |client| &client.name)));
                }
            }
        })?;
    }
    letters.sort_by_key(|letter| letter.number);
    Ok(letters)
}

/// Adds a part to its letter. Returns the letter once it is complete.
fn take(begun: &mut HashMap<u32, Begun>, number: LetterNumber, part: &MessageRecord<'_>) -> Option<Begun> {
    let bytes = part.body.len() as u64;
    if part.flags & BEGINS != 0 {
        let MessageRecord { flags, accepted_ms, .. } = *part;
        begun.insert(number.stream, Begun { number, flags, accepted_ms, first: part.body.to_vec(), bytes });
    } else {
        begun.get_mut(&number.stream)?.bytes += bytes;
    }
    if part.flags & ENDS != 0 { begun.remove(&number.stream) } else { None }
}

impl Begun {
    /// None: its envelope is invalid. Properties that cannot be read are part of its body.
    fn read(self, from: &str) -> Option<DeadLetter> {
        let (dead, mut begin) = read_envelope(&self.first)?;
        let read = if self.flags & PROPERTIES == 0 { None } else { Properties::read(&self.first[begin..]) };
        let (properties, len) = read.unwrap_or_default();
        begin += len;
        let (body, bytes) = (&self.first[begin..], self.bytes - begin as u64);
        let (preview, bytes) = match self.flags & PACKED {
            0 => (body[..body.len().min(PREVIEW)].to_vec(), bytes),
            _ => pack::begin(body, PREVIEW),
        };
        let Begun { number, accepted_ms, .. } = self;
        Some(DeadLetter { number, from: from.to_owned(), dead, accepted_ms, bytes, preview, properties })
    }
}

impl fmt::Display for LetterNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&number_text(u64::from(self.stream), self.seq))
    }
}

/// A message's stream and number as `STREAM.EPOCH.NUMBER`.
pub(crate) fn number_text(stream: u64, seq: u64) -> String {
    let (epoch, number) = (seq >> EPOCH_SHIFT, seq & ((1 << EPOCH_SHIFT) - 1));
    format!("{stream}.{epoch}.{number}")
}

/// The text is not the number of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoNumber;

impl fmt::Display for NoNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a dead letter is identified as STREAM.EPOCH.NUMBER, such as 2.1.17")
    }
}

impl std::error::Error for NoNumber {}

impl FromStr for LetterNumber {
    type Err = NoNumber;

    fn from_str(text: &str) -> Result<LetterNumber, NoNumber> {
        let numbers: Result<Vec<u64>, _> = text.split('.').map(str::parse).collect();
        let Ok([stream, epoch, number]) = numbers.as_deref() else { return Err(NoNumber) };
        let stream = u32::try_from(*stream).map_err(|_| NoNumber)?;
        match epoch >> (u64::BITS - EPOCH_SHIFT) == 0 && number >> EPOCH_SHIFT == 0 {
            true => Ok(LetterNumber { stream, seq: epoch << EPOCH_SHIFT | number }),
            false => Err(NoNumber),
        }
    }
}
