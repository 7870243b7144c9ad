//! Messages of guaranteed delivery, as requests have them and as the client of the port gets them.

use std::time::{Duration, Instant};

use pinnace_delivery::{Delivery, Durability, Options, Verdict};
use rustix::io::Errno;

use crate::refusal::Refusal;
use crate::wire::{Fields, frame_header};

/// Properties of a message: the kinds of docs/port.md.
const ID: u8 = 1;
const CONTENT_TYPE: u8 = 2;
const TRACEPARENT: u8 = 3;
const TRACESTATE: u8 = 4;
const ORDERING_KEY: u8 = 5;
const HEADER: u8 = 6;
const DEAD: u8 = 7;
const BODY: u8 = 8;

/// A delivery as a message: what is known of it, its sender, its topic, its properties, its body.
pub fn encoded(token: u64, delivery: &Delivery) -> Vec<u8> {
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

/// A message as its arguments say: topic, flags, time to live, deadline, properties, body.
pub struct Parsed<'a> {
    pub topic: &'a str,
    options: Options<'a>,
    headers: Vec<(&'a str, &'a [u8])>,
    /// The channel of a body that came in parts, which the properties name.
    pub body: Option<u32>,
    /// The body, unless that came in parts.
    pub rest: &'a [u8],
}

impl<'a> Parsed<'a> {
    pub fn new(mut of: Fields<'a>) -> Result<Parsed<'a>, Refusal> {
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
        let (mut headers, mut body) = (Vec::new(), None);
        while !properties.is_empty() {
            let kind = properties.u8()?;
            if kind == BODY {
                body = Some(properties.u32()?);
                continue;
            }
            let text = properties.text()?;
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
        Ok(Parsed { topic, options, headers, body, rest: of.rest() })
    }

    pub fn options(&self) -> Options<'_> {
        Options { headers: &self.headers, ..self.options }
    }
}
