//! A message to send: the checks of its options, and its parts.

use std::borrow::Cow;
use std::time::Duration;

use super::routes::Route;
use super::{Client, Options};
use crate::Error;
use crate::environment::{now_ms, part_limit};
use crate::log::Urgency;
use crate::pack::pack;
use crate::peer_loop::SUFFIX;
use crate::properties::block_of;
use crate::store::{Sending, SendingId, digest_of};
use crate::wire::{ANY, BEGINS, ENDS, NAME_MAX, PACKED, PART_MAX, PROPERTIES};

/// A message to send, with the checked values of its options.
pub(super) struct ToSend<'a> {
    pub topic: &'a str,
    pub options: &'a Options<'a>,
    /// 0: it does not expire.
    pub ttl_ms: u32,
    pub id: Option<SendingId>,
    body: &'a [u8],
    block: Vec<u8>,
}

/// What a message consists of: the block of its properties, and the body behind it.
pub(super) struct Content<'a> {
    block: &'a [u8],
    body: Cow<'a, [u8]>,
    /// The flags that all its parts have.
    pub flags: u8,
}

impl ToSend<'_> {
    /// What is stored. A body of at least `pack_from` bytes is compressed if that makes it smaller.
    pub(super) fn content(&self, pack_from: usize) -> Content<'_> {
        let body = self.body;
        let (body, is_packed) = if body.len() >= pack_from { pack(body) } else { (body.into(), false) };
        let any = if self.options.all { 0 } else { ANY };
        let flags =
            if is_packed { PACKED } else { 0 } | if self.block.is_empty() { 0 } else { PROPERTIES } | any;
        Content { block: &self.block, body, flags }
    }

    /// It, or a part of it, for the store.
    pub(super) fn sending<'s>(
        &self,
        client: u32,
        route: &'s Route,
        (flags, body): (u8, &'s [u8]),
        urgency: Urgency,
    ) -> Sending<'s> {
        Sending {
            client,
            streams: route.streams(),
            flags,
            accepted_ms: now_ms(),
            ttl_ms: self.ttl_ms,
            body,
            urgency,
            id: self.id.map(|id| SendingId { receivers: route.receivers() as u32, ..id }),
        }
    }
}

impl Content<'_> {
    pub(super) fn len(&self) -> usize {
        self.block.len() + self.body.len()
    }

    /// The number of parts.
    pub(super) fn parts(&self) -> usize {
        self.len().div_ceil(part_limit(PART_MAX)).max(1)
    }

    /// Returns true if earlier builds would lose or damage it.
    pub(super) fn needs_guard(&self) -> bool {
        self.parts() > 1 || !self.block.is_empty()
    }

    /// One part, and its flags. A block is shorter than a part, and is in the first one.
    pub(super) fn part(&self, part: usize) -> (u8, Cow<'_, [u8]>) {
        let most = part_limit(PART_MAX);
        let end = self.len().min((part + 1) * most);
        let place = if part == 0 { BEGINS } else { 0 } | if end == self.len() { ENDS } else { 0 };
        let begin = (part * most).saturating_sub(self.block.len());
        let body = &self.body[begin..end - self.block.len()];
        let is_first_of_block = part == 0 && !self.block.is_empty();
        let part = if is_first_of_block { [self.block, body].concat().into() } else { body.into() };
        (self.flags | place, part)
    }
}

impl Client {
    /// Checks a message. Errors: Name, TooLarge, Ttl, Property.
    pub(super) fn check<'a>(
        &self,
        topic: &'a str,
        body: &'a [u8],
        options: &'a Options<'a>,
        deduplicate_for: Duration,
    ) -> Result<ToSend<'a>, Error> {
        // Leave room for the suffix of the dead-letter topic.
        if topic.len() > if topic.ends_with(SUFFIX) { NAME_MAX } else { NAME_MAX - SUFFIX.len() } {
            return Err(Error::Name);
        }
        if body.len() > self.largest {
            return Err(Error::TooLarge);
        }
        // 0 means without limit.
        let ttl_ms = match options.ttl.map(|ttl| u32::try_from(ttl.as_micros().div_ceil(1000))) {
            None => 0,
            Some(Ok(ttl_ms)) if ttl_ms > 0 => ttl_ms,
            Some(_) => return Err(Error::Ttl),
        };
        let block = block_of(options)?;
        let window_ms = u64::try_from(deduplicate_for.as_millis()).unwrap_or(u64::MAX);
        let id = options.id.filter(|_| window_ms > 0);
        let id = id.map(|id| SendingId { digest: digest_of(topic, id), receivers: 0, window_ms });
        Ok(ToSend { topic, options, ttl_ms, id, body, block })
    }
}
