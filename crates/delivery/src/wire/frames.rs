//! Encodes and decodes frames.

#[cfg(test)]
mod tests;

use std::fmt;

use pinnace_engine::Body;
use pinnace_stream::RangeSet;

use super::{
    BODY_MAX, Bytes, FRAME_BYTES, Id, NAME_MAX, NUMBER_MAX, Opening, SEQ_MAX, is_later, put_counted,
    put_number, put_ranges, take_ranges,
};

const HELLO: u8 = 0x01;
const OPEN: u8 = 0x02;
const DATA: u8 = 0x03;
const GONE: u8 = 0x04;
const SHARE: u8 = 0x05;
const WORK: u8 = 0x06;
const TAKEN: u8 = 0x07;
const NEXT: u8 = 0x08;
const WELCOME: u8 = 0x10;
const CURSOR: u8 = 0x11;
const ACK: u8 = 0x12;
const CREDIT: u8 = 0x13;
const AGAIN: u8 = 0x14;
const FINAL: u8 = 0x15;
const REFUSED: u8 = 0x16;
const HELD: u8 = 0x17;
const WANT: u8 = 0x18;

/// The flag of an entry that carries a time to live, used on the wire only.
const HAS_TTL: u8 = 32;

/// A frame from a sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromSender<'a> {
    Hello {
        version: u64,
        name: &'a str,
        id: Id,
        opening: Opening,
        receiver: &'a str,
    },
    Open {
        stream: u64,
        topic: &'a str,
        gone: RangeSet,
    },
    Data(Data<'a>),
    Gone {
        stream: u64,
        gone: RangeSet,
    },
    Share {
        stream: u64,
        topic: &'a str,
        gone: RangeSet,
    },
    /// Messages of a shared stream: the frame of this index in the receiver's generation.
    Work {
        generation: u64,
        index: u64,
        data: Data<'a>,
    },
    Taken {
        stream: u64,
        taken: RangeSet,
    },
    /// The next data frame of this shared stream is the frame of this index in the receiver's generation.
    Next {
        stream: u64,
        generation: u64,
        index: u64,
    },
}

/// A frame from a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromReceiver<'a> {
    Welcome {
        version: u64,
        name: &'a str,
        id: Id,
        known: Opening,
    },
    Cursor {
        stream: u64,
        received: u64,
        done: RangeSet,
    },
    Ack {
        stream: u64,
        done: RangeSet,
    },
    Credit {
        bytes: u64,
    },
    Again {
        stream: u64,
        received: u64,
    },
    Final {
        stream: u64,
        first: u64,
        last: u64,
        verdict: Verdict,
        deliveries: u64,
    },
    Refused {
        refusal: Refusal,
        text: &'a str,
    },
    /// What it has of a shared stream, and how many messages it asks for beyond that in this generation.
    Held {
        stream: u64,
        generation: u64,
        wanted: u64,
        held: RangeSet,
        done: RangeSet,
    },
    Want {
        stream: u64,
        generation: u64,
        wanted: u64,
    },
}

/// Why a message was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its handler rejected it.
    Terminated,
    /// It reached the limit of deliveries.
    Deliveries,
    /// It is larger than the receiver's limit.
    TooLarge,
    /// It is compressed and cannot be decompressed, or its properties cannot be read.
    Unreadable,
    /// Its time to live was over, by the sender's or by the receiver's clock.
    Expired,
}

/// Why a peer ends the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Version,
    /// Another client has the name.
    NameTaken,
    /// The receiver has already heard from this client in a later opening of its store, or in a different one of the
    /// same epoch: copies of the store exist.
    OldEpoch,
    /// The sender meant to reach another client.
    NotMe,
    /// The sender sent something invalid, or too much.
    Protocol,
    /// The sender's key does not belong to the name it gives.
    Forged,
}

/// Consecutive messages of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    pub stream: u64,
    pub prev: u64,
    time: u64,
    entries: Bytes<'a>,
}

/// A message, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameEntry<'a> {
    pub seq: u64,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted_ms: u64,
    /// Its time to live, in milliseconds from `accepted_ms`.
    pub ttl_ms: Option<u64>,
    /// [`BEGINS`](super::BEGINS) and others.
    pub flags: u8,
    pub body: &'a [u8],
}

/// Makes sure that `frame` can take an entry without growing. A frame that outgrows its first message gets a buffer for
/// a whole frame.
pub fn make_room(frame: &mut Vec<u8>, entry: &FrameEntry<'_>) {
    let need = frame.len() + entry.bytes_at_most();
    if frame.is_empty() {
        frame.reserve(need);
    } else if need > frame.capacity() {
        let mut larger = Body::buffer(need.max(FRAME_BYTES)).unwrap_or_default();
        larger.extend_from_slice(frame);
        *frame = larger;
    }
}

impl<'a> FromSender<'a> {
    pub fn read(frame: &'a [u8]) -> Option<FromSender<'a>> {
        let mut from = Bytes::new(frame);
        let said = match from.byte()? {
            HELLO => FromSender::Hello {
                version: from.number()?,
                name: name(&mut from)?,
                id: from.array()?,
                opening: Opening::take(&mut from)?,
                receiver: name(&mut from)?,
            },
            OPEN => FromSender::Open {
                stream: from.number()?,
                topic: name(&mut from)?,
                gone: take_ranges(&mut from)?,
            },
            DATA => return Some(FromSender::Data(Data::read(from)?)),
            GONE => FromSender::Gone { stream: from.number()?, gone: take_ranges(&mut from)? },
            SHARE => FromSender::Share {
                stream: from.number()?,
                topic: name(&mut from)?,
                gone: take_ranges(&mut from)?,
            },
            WORK => {
                let (generation, index) = (from.number()?, from.number()?);
                return Some(FromSender::Work { generation, index, data: Data::read(from)? });
            }
            TAKEN => FromSender::Taken { stream: from.number()?, taken: take_ranges(&mut from)? },
            NEXT => {
                FromSender::Next { stream: from.number()?, generation: from.number()?, index: from.number()? }
            }
            _ => return None,
        };
        // Of a later version only the beginning is known: enough to refuse it by its version.
        let has_more = matches!(said, FromSender::Hello { version, .. } if is_later(version));
        (from.is_empty() || has_more).then_some(said)
    }

    /// Encodes a frame. Senders write data frames with `Data::begin` and `FrameEntry::put` instead.
    pub fn write(&self) -> Vec<u8> {
        let mut to = Vec::new();
        match self {
            FromSender::Hello { version, name, id, opening, receiver } => {
                to.push(HELLO);
                put_number(&mut to, *version);
                put_counted(&mut to, name.as_bytes());
                to.extend_from_slice(id);
                opening.put(&mut to);
                put_counted(&mut to, receiver.as_bytes());
            }
            FromSender::Open { stream, topic, gone } => put_open(&mut to, OPEN, *stream, topic, gone),
            FromSender::Share { stream, topic, gone } => put_open(&mut to, SHARE, *stream, topic, gone),
            FromSender::Data(data) => {
                Data::begin(&mut to, data.stream, data.prev, data.time);
                to.extend_from_slice(data.entries.rest());
            }
            FromSender::Work { generation, index, data } => {
                Data::begin_work(&mut to, *generation, *index, (data.stream, data.prev, data.time));
                to.extend_from_slice(data.entries.rest());
            }
            FromSender::Gone { stream, gone } => {
                put_numbers(&mut to, GONE, &[*stream]);
                put_ranges(&mut to, gone);
            }
            FromSender::Taken { stream, taken } => {
                put_numbers(&mut to, TAKEN, &[*stream]);
                put_ranges(&mut to, taken);
            }
            FromSender::Next { stream, generation, index } => {
                put_numbers(&mut to, NEXT, &[*stream, *generation, *index]);
            }
        }
        to
    }
}

impl<'a> FromReceiver<'a> {
    pub fn read(frame: &'a [u8]) -> Option<FromReceiver<'a>> {
        let mut from = Bytes::new(frame);
        let said = match from.byte()? {
            WELCOME => FromReceiver::Welcome {
                version: from.number()?,
                name: name(&mut from)?,
                id: from.array()?,
                known: Opening::take(&mut from)?,
            },
            CURSOR => FromReceiver::Cursor {
                stream: from.number()?,
                received: from.number()?,
                done: take_ranges(&mut from)?,
            },
            ACK => FromReceiver::Ack { stream: from.number()?, done: take_ranges(&mut from)? },
            CREDIT => FromReceiver::Credit { bytes: from.number()? },
            AGAIN => FromReceiver::Again { stream: from.number()?, received: from.number()? },
            FINAL => FromReceiver::Final {
                stream: from.number()?,
                first: from.number()?,
                last: from.number()?,
                verdict: Verdict::read(from.byte()?)?,
                deliveries: from.number()?,
            },
            REFUSED => {
                FromReceiver::Refused { refusal: Refusal::read(from.byte()?)?, text: name(&mut from)? }
            }
            HELD => FromReceiver::Held {
                stream: from.number()?,
                generation: from.number()?,
                wanted: from.number()?,
                held: take_ranges(&mut from)?,
                done: take_ranges(&mut from)?,
            },
            WANT => FromReceiver::Want {
                stream: from.number()?,
                generation: from.number()?,
                wanted: from.number()?,
            },
            _ => return None,
        };
        from.is_empty().then_some(said)
    }

    pub fn write(&self) -> Vec<u8> {
        let mut to = Vec::new();
        match self {
            FromReceiver::Welcome { version, name, id, known } => {
                to.push(WELCOME);
                put_number(&mut to, *version);
                put_counted(&mut to, name.as_bytes());
                to.extend_from_slice(id);
                known.put(&mut to);
            }
            FromReceiver::Cursor { stream, received, done } => {
                put_numbers(&mut to, CURSOR, &[*stream, *received]);
                put_ranges(&mut to, done);
            }
            FromReceiver::Ack { stream, done } => {
                put_numbers(&mut to, ACK, &[*stream]);
                put_ranges(&mut to, done);
            }
            FromReceiver::Credit { bytes } => put_numbers(&mut to, CREDIT, &[*bytes]),
            FromReceiver::Again { stream, received } => put_numbers(&mut to, AGAIN, &[*stream, *received]),
            FromReceiver::Final { stream, first, last, verdict, deliveries } => {
                put_numbers(&mut to, FINAL, &[*stream, *first, *last]);
                to.push(*verdict as u8);
                put_number(&mut to, *deliveries);
            }
            FromReceiver::Refused { refusal, text } => {
                to.extend_from_slice(&[REFUSED, *refusal as u8]);
                put_counted(&mut to, text.as_bytes());
            }
            FromReceiver::Held { stream, generation, wanted, held, done } => {
                put_numbers(&mut to, HELD, &[*stream, *generation, *wanted]);
                put_ranges(&mut to, held);
                put_ranges(&mut to, done);
            }
            FromReceiver::Want { stream, generation, wanted } => {
                put_numbers(&mut to, WANT, &[*stream, *generation, *wanted]);
            }
        }
        to
    }
}

impl<'a> Data<'a> {
    fn read(mut from: Bytes<'a>) -> Option<Data<'a>> {
        let (stream, prev, time) = (from.number()?, from.number()?, from.number()?);
        Some(Data { stream, prev, time, entries: from })
    }

    /// Writes the header of a data frame, without entries.
    pub fn begin(to: &mut Vec<u8>, stream: u64, prev: u64, time: u64) {
        put_numbers(to, DATA, &[stream, prev, time]);
    }

    /// Writes the header of a frame of a shared stream, without entries. `data`: stream, prev and time.
    pub fn begin_work(to: &mut Vec<u8>, generation: u64, index: u64, data: (u64, u64, u64)) {
        put_numbers(to, WORK, &[generation, index, data.0, data.1, data.2]);
    }

    /// Writes the header and the step to the first entry. Returns the offset after them.
    pub fn begin_at(to: &mut Vec<u8>, stream: u64, prev: u64, time: u64, first: u64) -> usize {
        Data::begin(to, stream, prev, time);
        put_number(to, first - prev);
        to.len()
    }

    /// The entries in order. An invalid entry yields None and ends the iteration.
    pub fn entries(&self) -> impl Iterator<Item = Option<FrameEntry<'a>>> + use<'a> {
        let Data { mut prev, time, mut entries, .. } = *self;
        std::iter::from_fn(move || {
            if entries.is_empty() {
                return None;
            }
            let entry = FrameEntry::take(&mut entries, prev, time);
            match &entry {
                Some(entry) => prev = entry.seq,
                None => entries = Bytes::new(&[]),
            }
            Some(entry)
        })
    }
}

impl<'a> FrameEntry<'a> {
    /// Upper bound of the bytes that `put` adds, including those of `Data::begin_at`.
    fn bytes_at_most(&self) -> usize {
        // One byte for the kind, one for the flags, and nine integers.
        2 + 9 * NUMBER_MAX + self.body.len()
    }

    /// Returns true if it can follow in a data frame of `bytes` bytes with the base time `time`. An earlier time cannot
    /// be written there: the clock was set back.
    pub fn fits(&self, bytes: usize, time: u64) -> bool {
        bytes + self.bytes_at_most() <= FRAME_BYTES && self.accepted_ms >= time
    }

    fn take(from: &mut Bytes<'a>, prev: u64, time: u64) -> Option<FrameEntry<'a>> {
        let seq = prev.checked_add(from.number()?).filter(|seq| *seq > prev && *seq < SEQ_MAX)?;
        let said = from.byte()?;
        let accepted_ms = time.checked_add(from.number()?)?;
        let ttl_ms = if said & HAS_TTL != 0 { Some(from.number()?) } else { None };
        let body = from.counted().filter(|body| body.len() <= BODY_MAX)?;
        Some(FrameEntry { seq, accepted_ms, ttl_ms, flags: said & !HAS_TTL, body })
    }

    /// Writes the entry after the one numbered `prev`, in a data frame with the base time `time`.
    pub fn put(&self, to: &mut Vec<u8>, prev: u64, time: u64) {
        put_number(to, self.seq - prev);
        self.put_after_step(to, time);
    }

    /// Like `put`, without the step from the previous entry.
    pub fn put_after_step(&self, to: &mut Vec<u8>, time: u64) {
        to.push(self.flags | if self.ttl_ms.is_some() { HAS_TTL } else { 0 });
        put_number(to, self.accepted_ms.saturating_sub(time));
        if let Some(ttl_ms) = self.ttl_ms {
            put_number(to, ttl_ms);
        }
        put_counted(to, self.body);
    }
}

impl Verdict {
    pub fn read(byte: u8) -> Option<Verdict> {
        use Verdict::{Deliveries, Expired, Terminated, TooLarge, Unreadable};
        [Terminated, Deliveries, TooLarge, Unreadable, Expired].get(usize::from(byte)).copied()
    }
}

impl Refusal {
    fn read(byte: u8) -> Option<Refusal> {
        const ALL: [Refusal; 6] = [
            Refusal::Version,
            Refusal::NameTaken,
            Refusal::OldEpoch,
            Refusal::NotMe,
            Refusal::Protocol,
            Refusal::Forged,
        ];
        ALL.get(usize::from(byte)).copied()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Version => "another version of the protocol",
            Refusal::NameTaken => "another client with this name is connected",
            Refusal::OldEpoch => "a newer opening of the same store is connected",
            Refusal::NotMe => "the peer has another name",
            Refusal::Protocol => "protocol error",
            Refusal::Forged => "the CURVE key does not belong to the name",
        })
    }
}

fn name<'a>(from: &mut Bytes<'a>) -> Option<&'a str> {
    from.text(NAME_MAX)
}

fn put_open(to: &mut Vec<u8>, kind: u8, stream: u64, topic: &str, gone: &RangeSet) {
    put_numbers(to, kind, &[stream]);
    put_counted(to, topic.as_bytes());
    put_ranges(to, gone);
}

fn put_numbers(to: &mut Vec<u8>, kind: u8, numbers: &[u64]) {
    to.push(kind);
    for number in numbers {
        put_number(to, *number);
    }
}
