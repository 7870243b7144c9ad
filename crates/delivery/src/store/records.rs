//! Encodes and decodes the records of the log.
//!
//! ```text
//! client   = number name id count *opening                     ; kind 2: a client of this store
//! stream   = number client kind receiver topic last done flags id version from upto taken dropped
//!                                                         ; kind 3: the state of a stream
//! flags    = OCTET                                        ; 1 left, 2 second, 4 kept
//! message  = flags %x00 count accepted ttl 1*destination body  ; kind 4, little-endian: u8 u8 u16 u64 u32
//! destination = stream seq                                     ; u32 u64
//! done     = stream done                                       ; kind 5: of an outgoing stream, in addition to what
//!                                                              ; earlier records of it say
//! cursor   = client id stream opening name topic done          ; kind 6: of an incoming stream, in addition to what
//!                                                              ; earlier records of it say
//! known    = client receiver id opening [idle]                 ; kind 7: the id under which a receiver knows a client;
//!                                                              ; the opening at whose end it had no message
//! topics   = client count *topic version                       ; kind 8: what a client listens on
//! sent     = client stream time count *(digest later receivers) ; kind 9: ids of sent messages; stream 0: of whole
//!                                                                ; ones, else of one that has begun there (`sent.rs`)
//! settings = client flags registry reassign age bytes limit [key] trusted peers ; kind 10: what a client was started
//!            with
//! attempts = client clean count *(sender stream number deliveries) ; kind 11: how often messages were handed out
//!            (`attempts.rs`)
//! trusted  = count *(name key)
//! peers    = count *(name endpoint count *topic)
//! ```

use pinnace_stream::RangeSet;

use crate::wire::{
    Bytes, FrameEntry, Id, NAME_MAX, Opening, put_counted, put_number, put_ranges, split, take_ranges,
};

pub const CLIENT: u8 = 2;
pub const STREAM: u8 = 3;
pub const MESSAGE: u8 = 4;
pub const DONE: u8 = 5;
pub const CURSOR: u8 = 6;
pub const KNOWN: u8 = 7;
pub const TOPICS: u8 = 8;
pub const SENT: u8 = 9;
pub const SETTINGS: u8 = 10;
pub const ATTEMPTS: u8 = 11;

/// Flags of a stream.
const LEFT: u8 = 1;
const SECOND: u8 = 2;
const KEPT: u8 = 4;

/// Bytes of a message's header, and of each destination.
pub const HEADER: usize = 16;
pub const DESTINATION: usize = 12;

/// A stream, and the message's number there.
pub type Destination = (u32, u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRecord {
    pub number: u32,
    pub name: String,
    pub id: Id,
    /// The last openings of its store; the present one is the last.
    pub openings: Vec<Opening>,
}

/// The receiver of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Receiver {
    /// The first client found to listen on the topic.
    Anyone,
    /// Each client that will listen on the topic. Earlier builds read it as Anyone.
    Later,
    Client(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRecord {
    pub number: u32,
    pub client: u32,
    pub receiver: Receiver,
    pub topic: String,
    /// The last number assigned.
    pub last: u64,
    pub done: RangeSet,
    /// The receiver has ended its subscription of the topic: messages to all do not go to it.
    pub left: bool,
    /// It was handed over to a receiver that had a stream of the topic already, and takes no further messages.
    pub second: bool,
    pub seen: SeenEntry,
    /// Its first messages are those of another stream.
    pub inherited: Option<Inherited>,
    /// Of messages kept for later receivers: those up to this number were inherited.
    pub taken: u64,
    /// How many messages were dropped because of the limits.
    pub dropped: u64,
}

/// The messages of another stream up to a number, which a stream has as its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inherited {
    pub from: u32,
    pub upto: u64,
}

/// The latest entry of a receiver that a registry has shown: of two with one id, that with the higher version is later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeenEntry {
    pub id: Id,
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorRecord {
    pub client: u32,
    pub sender: Id,
    pub stream: u64,
    /// The sender's last opening from which the stream was opened.
    pub opening: Opening,
    pub name: String,
    pub topic: String,
    pub done: RangeSet,
}

/// The id under which a receiver knows a client of this store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub client: u32,
    pub receiver: String,
    /// The client's own id, or another one if the receiver knows a copy of this store under the own id.
    pub id: Id,
    /// The last opening in which the receiver has recorded its progress.
    pub opening: Opening,
    /// The last opening at whose orderly end it had no message of the client; 0: none.
    pub idle_at: u64,
}

/// A message in the log.
#[derive(Debug, Clone, Copy)]
pub struct MessageRecord<'a> {
    /// As on the wire.
    pub flags: u8,
    pub accepted_ms: u64,
    /// 0: it never expires.
    pub ttl_ms: u32,
    destinations: &'a [u8],
    pub body: &'a [u8],
}

impl ClientRecord {
    pub fn write(&self) -> Vec<u8> {
        let mut to = Vec::new();
        put_number(&mut to, u64::from(self.number));
        put_counted(&mut to, self.name.as_bytes());
        to.extend_from_slice(&self.id);
        put_number(&mut to, self.openings.len() as u64);
        self.openings.iter().for_each(|opening| opening.put(&mut to));
        to
    }

    pub fn read(payload: &[u8]) -> Option<ClientRecord> {
        let mut from = Bytes::new(payload);
        let number = number(&mut from)?;
        let name = name(&mut from)?;
        let (id, count) = (from.array()?, from.number()?);
        let openings = (0..count).map(|_| Opening::take(&mut from)).collect::<Option<Vec<Opening>>>()?;
        Some(ClientRecord { number, name, id, openings })
    }

    /// The present opening of its store.
    pub fn opening(&self) -> Opening {
        self.openings.last().copied().unwrap_or_default()
    }
}

impl StreamRecord {
    /// A stream without messages.
    pub fn new(number: u32, client: u32, receiver: Receiver, topic: &str) -> StreamRecord {
        StreamRecord {
            number,
            client,
            receiver,
            topic: topic.to_owned(),
            last: 0,
            done: RangeSet::default(),
            left: false,
            second: false,
            seen: SeenEntry::default(),
            inherited: None,
            taken: 0,
            dropped: 0,
        }
    }

    /// Returns true if a message that was logged under this number of that stream is one of this stream.
    pub fn has(&self, stream: u32, seq: u64) -> bool {
        let is_inherited = |of: Inherited| of.from == stream && seq <= of.upto;
        stream == self.number || self.inherited.is_some_and(is_inherited)
    }

    /// Encodes the stream's record, and DONE records for the ranges of `done` that it has no room for.
    pub fn write_all(&self) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut sets = split(&self.done);
        let done = sets.next().unwrap_or_default();
        (
            StreamRecord { done, ..self.clone() }.write(),
            sets.map(|done| write_done(self.number, &done)).collect(),
        )
    }

    fn write(&self) -> Vec<u8> {
        let mut to = Vec::new();
        let (kind, receiver) = match &self.receiver {
            Receiver::Anyone | Receiver::Later => (0, ""),
            Receiver::Client(name) => (1, name.as_str()),
        };
        put_number(&mut to, u64::from(self.number));
        put_number(&mut to, u64::from(self.client));
        to.push(kind);
        put_counted(&mut to, receiver.as_bytes());
        put_counted(&mut to, self.topic.as_bytes());
        put_number(&mut to, self.last);
        put_ranges(&mut to, &self.done);
        let is_kept = self.receiver == Receiver::Later;
        to.push((u8::from(self.left) * LEFT) | (u8::from(self.second) * SECOND) | (u8::from(is_kept) * KEPT));
        to.extend_from_slice(&self.seen.id);
        put_number(&mut to, self.seen.version);
        let Inherited { from, upto } = self.inherited.unwrap_or(Inherited { from: 0, upto: 0 });
        for value in [u64::from(from), upto, self.taken, self.dropped] {
            put_number(&mut to, value);
        }
        to
    }

    pub fn read(payload: &[u8]) -> Option<StreamRecord> {
        let mut from = Bytes::new(payload);
        let (number, client) = (number(&mut from)?, number(&mut from)?);
        let kind = from.byte()?;
        let mut receiver = match (kind, name(&mut from)?) {
            (0, _) => Receiver::Anyone,
            (1, name) => Receiver::Client(name),
            _ => return None,
        };
        let (topic, last, done) = (name(&mut from)?, from.number()?, take_ranges(&mut from)?);
        // Records of the first version end here.
        let flags = from.byte().unwrap_or(0);
        let (left, second) = (flags & LEFT != 0, flags & SECOND != 0);
        let seen = from.array().and_then(|id| Some(SeenEntry { id, version: from.number()? }));
        let seen = seen.unwrap_or_default();
        if flags & KEPT != 0 && receiver == Receiver::Anyone {
            receiver = Receiver::Later;
        }
        let inherited = self::number(&mut from).zip(from.number()).filter(|(from, _)| *from > 0);
        let inherited = inherited.map(|(from, upto)| Inherited { from, upto });
        let (taken, dropped) = (from.number().unwrap_or(0), from.number().unwrap_or(0));
        Some(StreamRecord {
            last,
            done,
            left,
            second,
            seen,
            inherited,
            taken,
            dropped,
            ..StreamRecord::new(number, client, receiver, &topic)
        })
    }
}

impl CursorRecord {
    fn write(&self, done: &RangeSet) -> Vec<u8> {
        let mut to = Vec::new();
        put_number(&mut to, u64::from(self.client));
        to.extend_from_slice(&self.sender);
        put_number(&mut to, self.stream);
        self.opening.put(&mut to);
        put_counted(&mut to, self.name.as_bytes());
        put_counted(&mut to, self.topic.as_bytes());
        put_ranges(&mut to, done);
        to
    }

    /// All of it: in several records, if it has more ranges than one record can have. The first ranges are in the last
    /// record, which is the only one that earlier builds keep.
    pub fn write_all(&self) -> Vec<Vec<u8>> {
        let mut records: Vec<Vec<u8>> = split(&self.done).map(|done| self.write(&done)).collect();
        records.rotate_left(1);
        records
    }

    /// What is new since the last record: `new`, which is a part of `done`. The first ranges of `done` are in the last
    /// record.
    pub fn write_new(&self, new: &RangeSet) -> Vec<Vec<u8>> {
        let first = split(&self.done).next().unwrap_or_default();
        let later = new.without(&first);
        let further = split(&later).filter(|part| part.last() > 0);
        further.chain([first]).map(|done| self.write(&done)).collect()
    }

    pub fn read(payload: &[u8]) -> Option<CursorRecord> {
        let mut from = Bytes::new(payload);
        Some(CursorRecord {
            client: number(&mut from)?,
            sender: from.array()?,
            stream: from.number()?,
            opening: Opening::take(&mut from)?,
            name: name(&mut from)?,
            topic: name(&mut from)?,
            done: take_ranges(&mut from)?,
        })
    }
}

impl Known {
    pub fn write(&self) -> Vec<u8> {
        let mut to = Vec::new();
        put_number(&mut to, u64::from(self.client));
        put_counted(&mut to, self.receiver.as_bytes());
        to.extend_from_slice(&self.id);
        self.opening.put(&mut to);
        if self.idle_at > 0 {
            put_number(&mut to, self.idle_at);
        }
        to
    }

    pub fn read(payload: &[u8]) -> Option<Known> {
        let mut from = Bytes::new(payload);
        Some(Known {
            client: number(&mut from)?,
            receiver: name(&mut from)?,
            id: from.array()?,
            opening: Opening::take(&mut from)?,
            idle_at: from.number().unwrap_or(0),
        })
    }
}

/// What a client listens on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscriptions {
    pub topics: Vec<String>,
    /// The version of its last entry in the registry.
    pub version: u64,
}

impl Subscriptions {
    pub fn write(&self, client: u32) -> Vec<u8> {
        let mut to = Vec::new();
        put_number(&mut to, u64::from(client));
        put_number(&mut to, self.topics.len() as u64);
        self.topics.iter().for_each(|topic| put_counted(&mut to, topic.as_bytes()));
        put_number(&mut to, self.version);
        to
    }

    /// Returns the client too.
    pub fn read(payload: &[u8]) -> Option<(u32, Subscriptions)> {
        let mut from = Bytes::new(payload);
        let (client, count) = (number(&mut from)?, from.number()?);
        let topics = (0..count).map(|_| name(&mut from)).collect::<Option<Vec<String>>>()?;
        Some((client, Subscriptions { topics, version: from.number().unwrap_or(0) }))
    }
}

pub fn write_done(stream: u32, done: &RangeSet) -> Vec<u8> {
    let mut to = Vec::new();
    put_number(&mut to, u64::from(stream));
    put_ranges(&mut to, done);
    to
}

pub fn read_done(payload: &[u8]) -> Option<(u32, RangeSet)> {
    let mut from = Bytes::new(payload);
    Some((number(&mut from)?, take_ranges(&mut from)?))
}

/// Writes the header and destinations of a message; its body follows.
pub fn write_message(
    to: &mut Vec<u8>,
    flags: u8,
    accepted_ms: u64,
    ttl_ms: u32,
    destinations: &[Destination],
) {
    to.clear();
    to.extend_from_slice(&[flags, 0]);
    to.extend_from_slice(&(destinations.len() as u16).to_le_bytes());
    to.extend_from_slice(&accepted_ms.to_le_bytes());
    to.extend_from_slice(&ttl_ms.to_le_bytes());
    for (stream, seq) in destinations {
        to.extend_from_slice(&stream.to_le_bytes());
        to.extend_from_slice(&seq.to_le_bytes());
    }
}

impl<'a> MessageRecord<'a> {
    pub fn read(payload: &'a [u8]) -> Option<MessageRecord<'a>> {
        let (header, rest) = payload.split_first_chunk::<HEADER>()?;
        let count = u16::from_le_bytes([header[2], header[3]]);
        let (destinations, body) = rest.split_at_checked(usize::from(count) * DESTINATION)?;
        Some(MessageRecord {
            flags: header[0],
            accepted_ms: u64::from_le_bytes(std::array::from_fn(|i| header[4 + i])),
            ttl_ms: u32::from_le_bytes(std::array::from_fn(|i| header[12 + i])),
            destinations,
            body,
        })
    }

    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.ttl_ms > 0 && self.accepted_ms.saturating_add(u64::from(self.ttl_ms)) <= now_ms
    }

    /// The message under this number, as on the wire.
    pub fn entry(&self, seq: u64) -> FrameEntry<'a> {
        FrameEntry {
            seq,
            accepted_ms: self.accepted_ms,
            ttl_ms: (self.ttl_ms > 0).then_some(u64::from(self.ttl_ms)),
            flags: self.flags,
            body: self.body,
        }
    }

    pub fn destinations(&self) -> impl Iterator<Item = Destination> + use<'a> {
        self.destinations.chunks_exact(DESTINATION).map(|bytes| {
            let stream = u32::from_le_bytes(std::array::from_fn(|i| bytes[i]));
            (stream, u64::from_le_bytes(std::array::from_fn(|i| bytes[4 + i])))
        })
    }
}

fn number(from: &mut Bytes<'_>) -> Option<u32> {
    u32::try_from(from.number()?).ok()
}

fn name(from: &mut Bytes<'_>) -> Option<String> {
    from.text(NAME_MAX).map(str::to_owned)
}
