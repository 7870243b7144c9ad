//! A client of guaranteed delivery as a channel: it delivers on credit, and confirms what it sends when that is on the
//! disk.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use pinnace_cert::Certificate;
use pinnace_delivery::{Client, Delivery, Durability, Options, Settlement, Ticket, Verdict};
use pinnace_interface::{DeliveryOptions, KnownPeer};
use rustix::io::Errno;

use crate::answers::{Answer, Desk, start};
use crate::credit::Credit;
use crate::operations::Refusal;
use crate::pipes::Output;
use crate::wire::{
    BATCH_MAX, Fields, Malformed, PART_MAX, ProgramPacket, begin_delivery, end_packet, frame_header,
};

/// Properties of a message: the kinds of docs/port.md.
const ID: u8 = 1;
const CONTENT_TYPE: u8 = 2;
const TRACEPARENT: u8 = 3;
const TRACESTATE: u8 = 4;
const ORDERING_KEY: u8 = 5;
const HEADER: u8 = 6;
const DEAD: u8 = 7;

/// A message to send, with what it was requested by.
struct NewMessage {
    id: u32,
    arguments: Vec<u8>,
    /// That which came in parts; None: it follows the other arguments.
    body: Option<Vec<u8>>,
}

pub struct DeliveryChannel {
    pub client: Arc<Client>,
    pub credit: Credit,
    /// Deliveries that the client of the port has, by their tokens.
    handed: HashMap<u64, Delivery>,
    last_token: u64,
    messages: Sender<NewMessage>,
    pub is_held: bool,
}

impl DeliveryChannel {
    /// Its messages are sent by a thread of its own, because a send may wait for room, and confirmed by another one.
    pub fn new(client: Arc<Client>, desk: &Desk) -> Result<DeliveryChannel, Refusal> {
        let (messages, to_send) = channel::<NewMessage>();
        let (tickets, to_confirm) = channel::<(u32, Ticket)>();
        let (sender, confirmer) = (client.clone(), client.clone());
        let (refuses, confirms) = (desk.clone(), desk.clone());
        start("port-send", move || {
            for NewMessage { id, arguments, body } in to_send {
                match send(&sender, Fields::new(&arguments), body.as_deref()) {
                    Ok(ticket) => drop(tickets.send((id, ticket))),
                    Err(error) => refuses.done(id, Err(error)),
                }
            }
        })?;
        start("port-confirm", move || {
            for (id, ticket) in to_confirm {
                let receivers = u32::try_from(ticket.receivers()).unwrap_or(u32::MAX);
                let done = confirmer.wait(ticket, None).map_err(Refusal::Delivery);
                confirms.done(id, done.map(|()| receivers.to_be_bytes().to_vec()));
            }
        })?;
        Ok(DeliveryChannel {
            client,
            credit: Credit::default(),
            handed: HashMap::new(),
            last_token: 0,
            messages,
            is_held: false,
        })
    }

    pub fn descriptor(&self) -> Result<RawFd, Refusal> {
        Ok(self.client.readiness().map_err(Refusal::Delivery)?.as_raw_fd())
    }

    /// Sends a message, which is answered when it is on the disk.
    pub fn send(&self, id: u32, arguments: &[u8], body: Option<Vec<u8>>) {
        // The thread lives as long as this channel.
        let _ = self.messages.send(NewMessage { id, arguments: arguments.to_vec(), body });
    }

    /// Delivers at most one packet, as far as there is credit. False: nothing more is there.
    pub fn deliver(&mut self, number: u32, output: &mut Output) -> bool {
        let at = begin_delivery(&mut output.buffer, number);
        let begin = output.buffer.len();
        let mut large = None;
        let mut may_have_more = true;
        while self.credit.is_left() && output.buffer.len() - at < BATCH_MAX {
            let Ok(Some(delivery)) = self.client.try_recv() else {
                may_have_more = false;
                break;
            };
            self.last_token += 1;
            let message = encoded(self.last_token, &delivery);
            self.handed.insert(self.last_token, delivery);
            self.credit.use_for(message.len());
            if message.len() > PART_MAX {
                large = Some(message);
                break;
            }
            if output.buffer.len() > begin && output.buffer.len() - at + message.len() > BATCH_MAX {
                end_packet(&mut output.buffer, at);
                return self.deliver_alone(number, &message, output);
            }
            output.buffer.extend_from_slice(&message);
        }
        if output.buffer.len() == begin {
            output.buffer.truncate(at);
        } else {
            end_packet(&mut output.buffer, at);
        }
        if let Some(message) = large {
            return self.deliver_alone(number, &message, output);
        }
        may_have_more
    }

    /// Delivers a message in a packet of its own, or in parts.
    fn deliver_alone(&self, number: u32, message: &[u8], output: &mut Output) -> bool {
        if message.len() <= PART_MAX {
            let at = begin_delivery(&mut output.buffer, number);
            output.buffer.extend_from_slice(message);
            end_packet(&mut output.buffer, at);
            return true;
        }
        let mut parts = message.chunks(PART_MAX).peekable();
        while let Some(content) = parts.next() {
            let is_last = parts.peek().is_none();
            output.put(ProgramPacket::DeliverPart { channel: number, is_last, content });
        }
        true
    }

    /// Settles a delivery.
    pub fn settle(&mut self, mut of: Fields<'_>) -> Result<(), Refusal> {
        let (token, verdict, delay) = (of.u64()?, of.u8()?, of.i32()?);
        of.end()?;
        let unknown = Refusal::Other(Errno::NOENT, "no such delivery, or it was settled");
        if verdict == 4 {
            self.handed.get(&token).ok_or(unknown)?.in_progress();
            return Ok(());
        }
        let settlement = settlement(verdict, delay)?;
        settle(self.handed.remove(&token).ok_or(unknown)?, settlement);
        Ok(())
    }

    /// Settles all that is not settled.
    pub fn settle_all(&mut self, verdict: u8) -> Result<(), Refusal> {
        let settlement = settlement(verdict, -1)?;
        self.handed.drain().for_each(|(_, delivery)| settle(delivery, settlement));
        Ok(())
    }
}

/// What a verdict says. None: the delivery is given back.
fn settlement(verdict: u8, delay: i32) -> Result<Option<Settlement>, Refusal> {
    Ok(Some(match verdict {
        0 => Settlement::Ack,
        1 => Settlement::Nack(u64::try_from(delay).ok().map(Duration::from_millis)),
        2 => Settlement::Terminate,
        3 => return Ok(None),
        5 => Settlement::Fail,
        _ => return Err(Refusal::Other(Errno::INVAL, "no such verdict")),
    }))
}

fn settle(delivery: Delivery, settlement: Option<Settlement>) {
    match settlement {
        Some(settlement) => delivery.settle(settlement),
        None => delivery.give_back(),
    }
}

/// A delivery as a message: what is known of it, its sender, its topic, its properties, its body.
fn encoded(token: u64, delivery: &Delivery) -> Vec<u8> {
    let cursor = delivery.cursor();
    let about = [
        &token.to_be_bytes()[..],
        &delivery.deliveries().to_be_bytes(),
        &delivery.accepted_ms().to_be_bytes(),
        &cursor.sender,
        &cursor.stream.to_be_bytes(),
        &cursor.number.to_be_bytes(),
        &cursor.settled.to_be_bytes(),
    ];
    let mut properties = Vec::new();
    let mut put = |kind: u8, texts: &[&[u8]]| {
        properties.push(kind);
        for text in texts {
            properties.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
            properties.extend_from_slice(text);
        }
    };
    let known = [
        (ID, delivery.id()),
        (CONTENT_TYPE, delivery.content_type()),
        (TRACEPARENT, delivery.traceparent()),
        (TRACESTATE, delivery.tracestate()),
        (ORDERING_KEY, delivery.ordering_key()),
    ];
    known.iter().for_each(|(kind, text)| text.iter().for_each(|text| put(*kind, &[text.as_bytes()])));
    delivery.headers().for_each(|(key, value)| put(HEADER, &[key.as_bytes(), value]));
    if let Some(dead) = delivery.dead() {
        let (reason, count) = (reason(dead.reason), dead.deliveries.to_string());
        put(DEAD, &[dead.topic.as_bytes(), dead.receiver.as_bytes(), reason.as_bytes(), count.as_bytes()]);
    }
    let about = about.concat();
    let frames =
        [&about[..], delivery.from().as_bytes(), delivery.topic().as_bytes(), &properties, delivery.body()];
    let mut message = Vec::with_capacity(frames.iter().map(|frame| frame.len() + 4).sum());
    for (index, frame) in frames.iter().enumerate() {
        // A body has at most 1 GiB, unless the client's option `max_body` says more.
        message.extend_from_slice(&frame_header(frame.len(), index + 1 < frames.len()).unwrap_or_default());
        message.extend_from_slice(frame);
    }
    message
}

/// Why a message became a dead letter.
fn reason(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Terminated => "terminated",
        Verdict::Deliveries => "deliveries",
        Verdict::TooLarge => "too_large",
        Verdict::Unreadable => "unreadable",
        Verdict::Expired => "expired",
    }
}

/// Begins to send. The arguments: topic, flags, time to live, deadline, properties, body.
fn send(client: &Client, mut of: Fields<'_>, body: Option<&[u8]>) -> Result<Ticket, Refusal> {
    let (topic, to_all, durability) = (of.text()?, of.bool()?, of.u8()?);
    let (ttl_ms, timeout_ms, mut properties) = (of.u32()?, of.i32()?, Fields::new(of.bytes()?));
    let durability = match durability {
        0 => Durability::Sync,
        1 => Durability::Interval,
        2 => Durability::Memory,
        _ => return Err(Refusal::Other(Errno::INVAL, "no such durability")),
    };
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    let mut options = Options {
        all: to_all,
        durability,
        ttl: (ttl_ms > 0).then(|| Duration::from_millis(ttl_ms.into())),
        deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        ..Options::default()
    };
    let mut headers = Vec::new();
    while !properties.is_empty() {
        let (kind, text) = (properties.u8()?, properties.text()?);
        match kind {
            ID => options.id = Some(text),
            CONTENT_TYPE => options.content_type = Some(text),
            TRACEPARENT => options.traceparent = Some(text),
            TRACESTATE => options.tracestate = Some(text),
            ORDERING_KEY => options.ordering_key = Some(text),
            HEADER => headers.push((text, properties.bytes()?)),
            _ => return Err(Refusal::Other(Errno::INVAL, "no such property")),
        }
    }
    options.headers = &headers;
    let rest = of.rest();
    if body.is_some() && !rest.is_empty() {
        return Err(Malformed::Long.into());
    }
    client.send_async(topic, body.unwrap_or(rest), &options).map_err(Refusal::Delivery)
}

/// Starts a client in a thread. The arguments: name, topic, then options by their names.
pub fn begin(id: u32, channel: u32, of: Fields<'_>, desk: &Desk) -> Result<(), Refusal> {
    let (options, desk) = (options(of)?, desk.clone());
    Ok(start("port-start", move || {
        let name = options.name.clone();
        // It goes to the client of the port as the log.
        let builder = options.builder().on_error(move |error| eprintln!("delivery, {name}: {error}"));
        let outcome = builder.start().map(Arc::new).map_err(Refusal::Delivery);
        desk.put(Answer::Started { id, channel, outcome });
    })?)
}

fn options(mut of: Fields<'_>) -> Result<DeliveryOptions, Refusal> {
    let mut options = DeliveryOptions::new(of.text()?, of.text()?);
    while !of.is_empty() {
        let (key, value) = (of.bytes()?, of.bytes()?);
        let mut fields = Fields::new(value);
        match key {
            b"topic" => options.topics.push(text_of(value)?),
            b"peer" => {
                let (name, endpoint) = (fields.text()?.to_owned(), fields.text()?.to_owned());
                let mut topics = Vec::new();
                while !fields.is_empty() {
                    topics.push(fields.text()?.to_owned());
                }
                options.peers.push(KnownPeer { name, endpoint, topics });
            }
            b"cert" => options.curve = Some(own_keys(value)?),
            b"trust" => {
                let (name, file) = (fields.text()?, fields.bytes()?);
                let cert = Certificate::load_public(path_of(file)).map_err(Refusal::Certificate)?;
                options.trusted.push((name.to_owned(), *cert.public_key()));
            }
            key => options.set(key, value).map_err(Refusal::Unset)?,
        }
    }
    Ok(options)
}

fn text_of(octets: &[u8]) -> Result<String, Refusal> {
    String::from_utf8(octets.to_vec()).map_err(|_| Refusal::Arguments(Malformed::Text))
}

fn path_of(octets: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(octets))
}

fn own_keys(file: &[u8]) -> Result<pinnace_cert::KeyPair, Refusal> {
    let cert = Certificate::load_own(path_of(file)).map_err(Refusal::Certificate)?;
    cert.keys().cloned().ok_or(Refusal::Other(Errno::NOKEY, "the certificate has no secret key"))
}
