//! What the log's records say, as bytes and back.
//!
//! ```text
//! client   = number name id count *opening                     ; kind 2: a client of this store
//! stream   = number client kind receiver topic last done       ; kind 3: a stream, as it stands
//! message  = flags %x00 count accepted ttl 1*destination body  ; kind 4, little-endian: u8 u8 u16 u64 u32
//! destination = stream seq                                     ; u32 u64
//! done     = stream done                                       ; kind 5: of a stream to others
//! cursor   = client id stream opening name topic done          ; kind 6: of a stream from another
//! known    = client receiver id opening                        ; kind 7: as whom a receiver knows a client
//! ```

use crate::ranges::Done;
use crate::wire::{Bytes, Id, NAME_MAX, Opening, put_counted, put_done, put_number, take_done};

pub const CLIENT: u8 = 2;
pub const STREAM: u8 = 3;
pub const MESSAGE: u8 = 4;
pub const DONE: u8 = 5;
pub const CURSOR: u8 = 6;
pub const KNOWN: u8 = 7;

/// Bytes of a message's header, and of each of its destinations.
pub const HEADER: usize = 16;
pub const DESTINATION: usize = 12;

/// Where a message goes: a stream, and its number there.
pub type Destination = (u32, u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub number: u32,
    pub name: String,
    pub id: Id,
    /// The last openings of its store, and the present one behind them.
    pub openings: Vec<Opening>,
}

/// To whom a stream goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Receiver {
    /// Whoever comes first of those that listen on the topic.
    Anyone,
    Client(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    pub number: u32,
    pub client: u32,
    pub receiver: Receiver,
    pub topic: String,
    /// The last number that was given.
    pub last: u64,
    pub done: Done,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    pub client: u32,
    pub sender: Id,
    pub stream: u64,
    /// The last of the sender's store in which it was there.
    pub opening: Opening,
    pub name: String,
    pub topic: String,
    pub done: Done,
}

/// As whom a receiver knows a client of this store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub client: u32,
    pub receiver: String,
    /// The client's own, or another where the receiver knows a copy of this store under that.
    pub id: Id,
    /// The last in which the receiver has put down how far it is.
    pub opening: Opening,
}

/// A message as it lies in the log.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// As on the wire.
    pub flags: u8,
    pub accepted_ms: u64,
    /// 0: for ever.
    pub ttl_ms: u32,
    destinations: &'a [u8],
    pub body: &'a [u8],
}

impl Client {
    pub fn write(&self) -> Vec<u8> {
        let mut to = Vec::new();
        put_number(&mut to, u64::from(self.number));
        put_counted(&mut to, self.name.as_bytes());
        to.extend_from_slice(&self.id);
        put_number(&mut to, self.openings.len() as u64);
        self.openings.iter().for_each(|opening| opening.put(&mut to));
        to
    }

    pub fn read(payload: &[u8]) -> Option<Client> {
        let mut from = Bytes::new(payload);
        let number = number(&mut from)?;
        let name = name(&mut from)?;
        let (id, count) = (from.array()?, from.number()?);
        let openings = (0..count).map(|_| Opening::take(&mut from)).collect::<Option<Vec<Opening>>>()?;
        Some(Client { number, name, id, openings })
    }

    /// The present opening of its store.
    pub fn opening(&self) -> Opening {
        self.openings.last().copied().unwrap_or_default()
    }
}

impl Stream {
    pub fn write(&self) -> Vec<u8> {
        let mut to = Vec::new();
        let (kind, receiver) = match &self.receiver {
            Receiver::Anyone => (0, ""),
            Receiver::Client(name) => (1, name.as_str()),
        };
        put_number(&mut to, u64::from(self.number));
        put_number(&mut to, u64::from(self.client));
        to.push(kind);
        put_counted(&mut to, receiver.as_bytes());
        put_counted(&mut to, self.topic.as_bytes());
        put_number(&mut to, self.last);
        put_done(&mut to, &self.done);
        to
    }

    pub fn read(payload: &[u8]) -> Option<Stream> {
        let mut from = Bytes::new(payload);
        let (number, client) = (number(&mut from)?, number(&mut from)?);
        let kind = from.byte()?;
        let receiver = match (kind, name(&mut from)?) {
            (0, _) => Receiver::Anyone,
            (1, name) => Receiver::Client(name),
            _ => return None,
        };
        let (topic, last, done) = (name(&mut from)?, from.number()?, take_done(&mut from)?);
        Some(Stream { number, client, receiver, topic, last, done })
    }
}

impl Cursor {
    pub fn write(&self) -> Vec<u8> {
        let mut to = Vec::new();
        put_number(&mut to, u64::from(self.client));
        to.extend_from_slice(&self.sender);
        put_number(&mut to, self.stream);
        self.opening.put(&mut to);
        put_counted(&mut to, self.name.as_bytes());
        put_counted(&mut to, self.topic.as_bytes());
        put_done(&mut to, &self.done);
        to
    }

    pub fn read(payload: &[u8]) -> Option<Cursor> {
        let mut from = Bytes::new(payload);
        Some(Cursor {
            client: number(&mut from)?,
            sender: from.array()?,
            stream: from.number()?,
            opening: Opening::take(&mut from)?,
            name: name(&mut from)?,
            topic: name(&mut from)?,
            done: take_done(&mut from)?,
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
        to
    }

    pub fn read(payload: &[u8]) -> Option<Known> {
        let mut from = Bytes::new(payload);
        Some(Known {
            client: number(&mut from)?,
            receiver: name(&mut from)?,
            id: from.array()?,
            opening: Opening::take(&mut from)?,
        })
    }
}

pub fn write_done(stream: u32, done: &Done) -> Vec<u8> {
    let mut to = Vec::new();
    put_number(&mut to, u64::from(stream));
    put_done(&mut to, done);
    to
}

pub fn read_done(payload: &[u8]) -> Option<(u32, Done)> {
    let mut from = Bytes::new(payload);
    Some((number(&mut from)?, take_done(&mut from)?))
}

/// The header and the destinations of a message; behind them comes its body.
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

impl<'a> Message<'a> {
    pub fn read(payload: &'a [u8]) -> Option<Message<'a>> {
        let (header, rest) = payload.split_first_chunk::<HEADER>()?;
        let count = u16::from_le_bytes([header[2], header[3]]);
        let (destinations, body) = rest.split_at_checked(usize::from(count) * DESTINATION)?;
        Some(Message {
            flags: header[0],
            accepted_ms: u64::from_le_bytes(std::array::from_fn(|i| header[4 + i])),
            ttl_ms: u32::from_le_bytes(std::array::from_fn(|i| header[12 + i])),
            destinations,
            body,
        })
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
