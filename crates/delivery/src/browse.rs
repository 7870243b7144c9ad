//! Reads the pending messages of a store, from its files as [`peek`](crate::peek()) does.
//!
//! ```
//! use pinnace_delivery::{Browse, Client, browse};
//! # let dir = tempfile::tempdir()?;
//! let shop = Client::builder("shop", "orders").data_dir(dir.path()).registry("none").start()?;
//! shop.send_to("invoices", b"3 pinnaces")?;
//! let found = browse(dir.path(), &Browse { topics: &["invoices"], ..Browse::default() })?;
//! assert_eq!((found.messages[0].topic.as_str(), &found.messages[0].body[..]), ("invoices", &b"3 pinnaces"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::path::Path;

use crate::Error;
use crate::client::{Dead, read_envelope};
use crate::dead_letters::LetterNumber;
use crate::log::{LogError, View};
use crate::pack;
use crate::properties::Properties;
use crate::store::records::{MESSAGE, MessageRecord, Receiver, StreamRecord};
use crate::store::{State, view};
use crate::wire::{BEGINS, DEAD, ENDS, PACKED, PROPERTIES};

/// The most bytes of a dead letter's envelope: two names, a byte and a number, each with its length.
const ENVELOPE_MAX: usize = 600;

/// Which pending messages to read, and how much of them.
#[derive(Debug, Clone, Copy)]
pub struct Browse<'a> {
    /// Only those that this client sent; None: any client of the store.
    pub from: Option<&'a str>,
    /// Only those on one of these topics; empty: on any.
    pub topics: &'a [&'a str],
    /// Only those for one of these receivers; empty: for any, and those that wait for the first receiver.
    pub receivers: &'a [&'a str],
    /// The most messages to return, of which those accepted first; 100 by default.
    pub limit: usize,
    /// The most bytes to return of each body; 64 by default.
    pub preview: usize,
}

impl Default for Browse<'_> {
    fn default() -> Self {
        Browse { from: None, topics: &[], receivers: &[], limit: 100, preview: 64 }
    }
}

/// A message that is not acknowledged yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingMessage {
    /// Identifies it in its store. A message to all has one for each receiver.
    pub number: LetterNumber,
    /// The sender.
    pub from: String,
    pub topic: String,
    /// None: the first client that will listen on the topic.
    pub receiver: Option<String>,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted_ms: u64,
    /// Its time to live, in milliseconds; None: without limit. It may have expired.
    pub ttl_ms: Option<u32>,
    /// Present if it is a dead letter.
    pub dead: Option<Dead>,
    /// Its id, content type, trace context and headers.
    pub properties: Properties,
    /// Bytes of its body, which begins with `body`.
    pub bytes: u64,
    pub body: Vec<u8>,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Browsed {
    /// By topic and receiver, and in the order of their numbers.
    pub messages: Vec<PendingMessage>,
    /// How many more there are beyond the limit.
    pub omitted: u64,
}

/// The pending messages in the store of a directory, whether or not a process has it open. Nothing is changed, locked
/// or acknowledged. Messages held in memory only are not among them, and what was sent or handled in the last tenth of
/// a second may be missing. Errors: Io, there is no store or it cannot be read; Damaged.
pub fn browse(store: &Path, wanted: &Browse<'_>) -> Result<Browsed, Error> {
    Ok(view(store, |state, view| gather(state, view, wanted))?)
}

impl Browse<'_> {
    fn includes(&self, from: &str, stream: &StreamRecord) -> bool {
        let is_for = |receiver: &Receiver| match receiver {
            Receiver::Anyone | Receiver::Later => self.receivers.is_empty(),
            Receiver::Client(name) => self.receivers.is_empty() || self.receivers.contains(&name.as_str()),
        };
        self.from.is_none_or(|name| name == from)
            && (self.topics.is_empty() || self.topics.contains(&stream.topic.as_str()))
            && is_for(&stream.receiver)
    }
}

/// A message with parts still missing.
struct Unfinished {
    number: LetterNumber,
    flags: u8,
    accepted_ms: u64,
    ttl_ms: u32,
    first: Vec<u8>,
    /// Bytes of all parts.
    bytes: u64,
}

fn gather(state: &State, view: &View, wanted: &Browse<'_>) -> Result<Browsed, LogError> {
    let name = |record: &StreamRecord| {
        state.clients.get(record.client as usize).map_or("", |client| client.name.as_str())
    };
    let streams: HashMap<u32, &StreamRecord> = state
        .outbox
        .iter()
        .map(|stream| &stream.record)
        .filter(|record| wanted.includes(name(record), record))
        .map(|record| (record.number, record))
        .collect();
    // What a receiver has inherited lies in the log under the stream that it was kept in.
    let mut heirs: HashMap<u32, Vec<&StreamRecord>> = HashMap::new();
    for record in streams.values() {
        record.inherited.iter().for_each(|inherited| heirs.entry(inherited.from).or_default().push(record));
    }
    let (mut begun, mut found) = (HashMap::new(), Browsed::default());
    let is_wanted = |topic: &str| wanted.topics.is_empty() || wanted.topics.contains(&topic);
    for segment in state.outbox.segments_of_topics(is_wanted) {
        view.visit(segment, &mut |kind, payload| {
            let Some(message) = (kind == MESSAGE).then(|| MessageRecord::read(payload)).flatten() else {
                return;
            };
            for (stream, seq) in message.destinations() {
                let own = streams.get(&stream).copied().filter(|record| seq > record.taken);
                let heirs = heirs.get(&stream).into_iter().flatten().copied();
                let heirs =
                    heirs.filter(|heir| heir.inherited.is_some_and(|inherited| seq <= inherited.upto));
                for record in own.into_iter().chain(heirs).filter(|record| !record.done.contains(seq)) {
                    let number = LetterNumber { stream: record.number, seq };
                    match take(&mut begun, number, &message, wanted.preview) {
                        Some(whole) if found.messages.len() < wanted.limit => {
                            found.messages.push(whole.read(name(record), record, wanted.preview));
                        }
                        Some(_) => found.omitted += 1,
                        None => {}
                    }
                }
            }
        })?;
    }
    let order = |one: &PendingMessage, other: &PendingMessage| {
        (&one.topic, &one.receiver, one.number).cmp(&(&other.topic, &other.receiver, other.number))
    };
    found.messages.sort_by(order);
    Ok(found)
}

/// Adds a part to its message. Returns the message once it is complete.
fn take(
    begun: &mut HashMap<u32, Unfinished>,
    number: LetterNumber,
    part: &MessageRecord<'_>,
    preview: usize,
) -> Option<Unfinished> {
    if part.flags & BEGINS != 0 {
        let MessageRecord { flags, accepted_ms, ttl_ms, .. } = *part;
        let empty = Unfinished { number, flags, accepted_ms, ttl_ms, first: Vec::new(), bytes: 0 };
        begun.insert(number.stream, empty);
    }
    let of = begun.get_mut(&number.stream)?;
    of.bytes += part.body.len() as u64;
    let room = preview.saturating_add(ENVELOPE_MAX).saturating_sub(of.first.len());
    // The first part is kept whole: a compressed body says its size at its beginning.
    let kept = if of.first.is_empty() { part.body.len() } else { room.min(part.body.len()) };
    of.first.extend_from_slice(&part.body[..kept]);
    if part.flags & ENDS != 0 { begun.remove(&number.stream) } else { None }
}

impl Unfinished {
    fn read(self, from: &str, stream: &StreamRecord, preview: usize) -> PendingMessage {
        let envelope = if self.flags & DEAD == 0 { None } else { read_envelope(&self.first) };
        let (dead, begin) = envelope.map_or((None, 0), |(dead, begin)| (Some(dead), begin));
        let read = if self.flags & PROPERTIES == 0 { None } else { Properties::read(&self.first[begin..]) };
        let (properties, len) = read.unwrap_or_default();
        let begin = begin + len;
        let (body, bytes) = (&self.first[begin..], self.bytes - begin as u64);
        let (body, bytes) = match self.flags & PACKED {
            0 => (body[..body.len().min(preview)].to_vec(), bytes),
            _ => pack::begin(body, preview),
        };
        let receiver = match &stream.receiver {
            Receiver::Anyone | Receiver::Later => None,
            Receiver::Client(name) => Some(name.clone()),
        };
        PendingMessage {
            number: self.number,
            from: from.to_owned(),
            topic: stream.topic.clone(),
            receiver,
            accepted_ms: self.accepted_ms,
            ttl_ms: (self.ttl_ms > 0).then_some(self.ttl_ms),
            dead,
            properties,
            bytes,
            body,
        }
    }
}
