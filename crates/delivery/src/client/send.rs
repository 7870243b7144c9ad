//! Sending messages.

use std::borrow::Cow;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Client;
use super::routes::Route;
use crate::Error;
use crate::environment::{now, now_ms};
use crate::log::{LogError, Urgency};
use crate::pack::pack;
use crate::peer_loop::{Command, SUFFIX};
use crate::properties::{Properties, block_of};
use crate::signal::Patience;
use crate::store::{IdState, Sending, SendingId, SentId, State, digest_of};
use crate::wire::{ANY, BEGINS, COST, ENDS, NAME_MAX, PACKED, PART_MAX, PROPERTIES};

/// The pause before a guard file is tried again for which there was no room.
const GUARD_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// When a message is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Before the send returns Ok.
    #[default]
    Sync,
    /// Some time after Ok, see [`Builder::interval`](super::Builder::interval).
    Interval,
    /// Never: it is held in memory until it is acknowledged, and lost if this process ends.
    Memory,
}

/// How to send a message; the default is that of [`Client::send_to`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// To each client that listens on the topic, as [`Client::send_all`], instead of to one.
    pub all: bool,
    pub durability: Durability,
    /// Its time to live, more than zero and at most u32::MAX ms. It is not handled after that.
    pub ttl: Option<Duration>,
    /// How long to wait for room and for the disk; None: without limit.
    pub deadline: Option<Instant>,
    /// The message's id: 1 to 255 bytes, without NUL. If this client has sent one with this id on this topic within
    /// [`Builder::deduplicate_for`](super::Builder::deduplicate_for), the message is not stored again: the call returns
    /// Ok as for the first one, with the first one's durability.
    pub id: Option<&'a str>,
    /// The content type of the body, such as `application/json`: 1 to 255 bytes, without NUL.
    pub content_type: Option<&'a str>,
    /// W3C trace context: `traceparent`, of version 00 or later.
    pub traceparent: Option<&'a str>,
    /// `tracestate`, in printable ASCII; only with `traceparent`.
    pub tracestate: Option<&'a str>,
    /// The ordering key: 1 to 255 bytes, without NUL. Messages to one with the same key go to the same receiver while
    /// it lives, in the order in which this client sent them.
    pub ordering_key: Option<&'a str>,
    /// At most 64 headers: distinct keys of 1 to 255 bytes without NUL, and values of any bytes. The id, the content
    /// type, the trace context, the ordering key and the headers have at most 16 KiB in all.
    pub headers: &'a [(&'a str, &'a [u8])],
}

impl<'a> Options<'a> {
    /// The options of a message with these properties; `headers` are theirs.
    pub(super) fn of(properties: &'a Properties, headers: &'a [(&'a str, &'a [u8])]) -> Options<'a> {
        Options {
            id: properties.id(),
            content_type: properties.content_type(),
            traceparent: properties.traceparent(),
            tracestate: properties.tracestate(),
            ordering_key: properties.ordering_key(),
            headers,
            ..Options::default()
        }
    }
}

/// A message on its way to the disk.
#[derive(Debug, Clone, Copy)]
#[must_use = "whether it is on the disk is known when it was waited for"]
pub struct Ticket {
    batch: u64,
    receivers: usize,
}

impl Ticket {
    /// The number of receivers of a message to all; 0: it is kept for those to come. Of a message to one client
    /// it is 1.
    pub fn receivers(&self) -> usize {
        self.receivers
    }
}

/// For callers that store it as a number.
impl From<Ticket> for u64 {
    fn from(ticket: Ticket) -> u64 {
        ticket.batch
    }
}

/// Waiting for a number that never was a ticket of the client may last until the deadline. The receivers are not known.
impl From<u64> for Ticket {
    fn from(batch: u64) -> Ticket {
        Ticket { batch, receivers: 0 }
    }
}

/// A message to send, with the checked values of its options.
struct ToSend<'a> {
    topic: &'a str,
    body: &'a [u8],
    block: &'a [u8],
    /// 0: it does not expire.
    ttl_ms: u32,
    id: Option<SendingId>,
}

/// What has become of a message.
#[derive(Debug, Clone, Copy)]
enum Acceptance {
    InBatch(u64),
    /// A message with its id was sent before.
    Before(SentId),
}

/// A retry is waited for like the message that was sent first.
impl From<SentId> for Ticket {
    fn from(sent: SentId) -> Ticket {
        Ticket { batch: sent.batch, receivers: sent.receivers as usize }
    }
}

/// What a message consists of: the block of its properties, and the body behind it.
#[derive(Clone, Copy)]
struct Content<'a> {
    block: &'a [u8],
    body: &'a [u8],
    /// The flags that all its parts have.
    flags: u8,
}

impl<'a> Content<'a> {
    fn len(self) -> usize {
        self.block.len() + self.body.len()
    }

    /// The number of parts.
    fn parts(self) -> usize {
        self.len().div_ceil(PART_MAX).max(1)
    }

    /// One part, and its flags. A block is shorter than a part, and is in the first one.
    fn part(self, part: usize) -> (u8, Cow<'a, [u8]>) {
        let end = self.len().min((part + 1) * PART_MAX);
        let place = if part == 0 { BEGINS } else { 0 } | if end == self.len() { ENDS } else { 0 };
        let begin = (part * PART_MAX).saturating_sub(self.block.len());
        let body = &self.body[begin..end - self.block.len()];
        let is_first_of_block = part == 0 && !self.block.is_empty();
        let part = if is_first_of_block { [self.block, body].concat().into() } else { body.into() };
        (self.flags | place, part)
    }
}

impl Client {
    /// Sends to one of the clients that listen on a topic: the first that is free. It waits if there is none.
    /// Ok: it is on this machine's disk, and will be delivered.
    pub fn send_to(&self, topic: &str, body: &[u8]) -> Result<(), Error> {
        self.send(topic, body, &Options::default())
    }

    /// Sends to each client that listens on a topic, and to those that listened until they were killed, for when they
    /// return; [`Builder::retain_for`](super::Builder::retain_for) limits that. If no receiver is known, it is kept for
    /// each client that begins to listen within that time; with [`Durability::Memory`], for the first.
    /// Returns the number of receivers.
    pub fn send_all(&self, topic: &str, body: &[u8]) -> Result<usize, Error> {
        let options = Options { all: true, ..Options::default() };
        Ok(self.send_and_wait(topic, body, &options)?.receivers)
    }

    /// Sends as the options say. Errors: Name, TooLarge, Ttl, Property; NoRoom or TimedOut, at the deadline;
    /// Closed, also if the client was closed while there was no room. After TimedOut the message may be on the disk
    /// already, or reach it later.
    pub fn send(&self, topic: &str, body: &[u8], options: &Options<'_>) -> Result<(), Error> {
        self.send_and_wait(topic, body, options).map(drop)
    }

    /// As `send`. Returns the ticket, which has the number of receivers.
    pub fn send_and_wait(&self, topic: &str, body: &[u8], options: &Options<'_>) -> Result<Ticket, Error> {
        let ticket = self.send_async(topic, body, options)?;
        match options.durability {
            Durability::Sync => self.wait(ticket, options.deadline)?,
            Durability::Interval | Durability::Memory => {}
        }
        Ok(ticket)
    }

    /// Waits until a message is on the disk; returns at once for one that is held in memory.
    pub fn wait(&self, ticket: Ticket, deadline: Option<Instant>) -> Result<(), Error> {
        match ticket.batch {
            0 => Ok(()),
            batch => Ok(self.instance.store.log().wait(batch, deadline)?),
        }
    }

    /// Like `send`, without waiting for the disk. It is sent to the receiver once it is there, whether or not a caller
    /// waits.
    pub fn send_async(&self, topic: &str, body: &[u8], options: &Options<'_>) -> Result<Ticket, Error> {
        self.begin_send(topic, body, options, self.deduplicate_for)
    }

    /// As `send`, whether or not a message with its id was sent before.
    pub(super) fn send_again(&self, topic: &str, body: &[u8], options: &Options<'_>) -> Result<(), Error> {
        let ticket = self.begin_send(topic, body, options, Duration::ZERO)?;
        self.wait(ticket, options.deadline)
    }

    fn begin_send(
        &self,
        topic: &str,
        body: &[u8],
        options: &Options<'_>,
        deduplicate_for: Duration,
    ) -> Result<Ticket, Error> {
        self.check_open()?;
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
        if let Some(id) = &id
            && let IdState::Sent(sent) = self.instance.store.lock().sent.state_of(self.record.number, id)
        {
            return Ok(sent.into());
        }
        let message = ToSend { topic, body, block: &block, ttl_ms, id };
        match self.send_with(&message, options, self.patience(options.deadline)) {
            Err(Error::NoRoom(_) | Error::TimedOut) if self.closed.load(Ordering::Relaxed) => {
                Err(Error::Closed)
            }
            sent => sent,
        }
    }

    fn send_with(
        &self,
        message: &ToSend<'_>,
        options: &Options<'_>,
        patience: Patience<'_>,
    ) -> Result<Ticket, Error> {
        let ToSend { body, block, ttl_ms, id, .. } = *message;
        let (body, is_packed) = if body.len() >= self.pack_from { pack(body) } else { (body.into(), false) };
        let any = if options.all { 0 } else { ANY };
        let flags = if is_packed { PACKED } else { 0 } | if block.is_empty() { 0 } else { PROPERTIES } | any;
        let content = Content { block, body: &body, flags };
        let store = &self.instance.store;
        if content.len() as u64 > store.log().largest() && options.durability != Durability::Memory {
            return Err(Error::TooLarge);
        }
        let urgency = match options.durability {
            Durability::Sync => Urgency::Sync,
            Durability::Interval | Durability::Memory => Urgency::Interval,
        };
        let (state, route) = self.route_with_room(message, content.parts() > 1, options, patience)?;
        let (streams, receivers) = (route.streams(), route.receivers());
        let sending = Sending {
            client: self.record.number,
            streams,
            flags,
            accepted_ms: now_ms(),
            ttl_ms,
            body: &[],
            urgency,
            id: id.map(|id| SendingId { receivers: receivers as u32, ..id }),
        };
        let accepted = match content.parts() {
            _ if options.durability == Durability::Memory => self.hold(state, &sending, content, patience)?,
            1 => {
                let (flags, body) = content.part(0);
                self.accept(state, &Sending { flags, body: &body, ..sending }, true, patience)?
            }
            _ => self.accept_parts(state, &sending, content, patience)?,
        };
        Ok(match accepted {
            Acceptance::InBatch(batch) => Ticket { batch, receivers },
            Acceptance::Before(sent) => sent.into(),
        })
    }

    /// Waits until no other thread sends parts of a message with this id. Returns the message with it that was sent
    /// before. None: the time is over.
    fn wait_for_id<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        sending: &Sending<'_>,
        patience: Patience<'_>,
    ) -> Option<(MutexGuard<'a, State>, Option<SentId>)> {
        let Some(id) = &sending.id else { return Some((state, None)) };
        loop {
            match state.sent.state_of(sending.client, id) {
                IdState::New => return Some((state, None)),
                IdState::Sent(sent) => return Some((state, Some(sent))),
                IdState::Underway => state = self.instance.store.wait_for_progress(state, patience)?,
            }
        }
    }

    /// Waits until no message is in the middle of its parts in the streams, and none with this id anywhere.
    #[inline]
    fn wait_for_turn<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        sending: &Sending<'_>,
        patience: Patience<'_>,
    ) -> Result<(MutexGuard<'a, State>, Option<SentId>), Error> {
        match sending.id.is_none() && !state.is_in_parts(sending.streams) {
            true => Ok((state, None)),
            false => self.wait_longer_for_turn(state, sending, patience),
        }
    }

    fn wait_longer_for_turn<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        sending: &Sending<'_>,
        patience: Patience<'_>,
    ) -> Result<(MutexGuard<'a, State>, Option<SentId>), Error> {
        loop {
            state =
                self.instance.store.wait_for_end(state, sending.streams, patience).ok_or(Error::TimedOut)?;
            let (again, sent) = self.wait_for_id(state, sending, patience).ok_or(Error::TimedOut)?;
            // The streams may have been taken while the lock was released.
            if sent.is_some() || !again.is_in_parts(sending.streams) {
                return Ok((again, sent));
            }
            state = again;
        }
    }

    /// The streams of a message, which are opened once there is room.
    fn route_with_room(
        &self,
        message: &ToSend<'_>,
        has_parts: bool,
        options: &Options<'_>,
        patience: Patience<'_>,
    ) -> Result<(MutexGuard<'_, State>, Route), Error> {
        let (store, mut opened) = (&self.instance.store, Vec::new());
        let is_logged = options.durability != Durability::Memory;
        let is_special = has_parts || !message.block.is_empty();
        let found = loop {
            let mut state = store.lock();
            match self.route(&mut state, message.topic, options, &mut opened) {
                // Without a receiver it is kept for those to come.
                Ok(route)
                    if is_logged && (is_special || route.receivers() == 0) && !store.log().is_guarded() =>
                {
                    drop(state);
                    self.guard_with_room(patience)?;
                }
                Ok(route) => break (state, route),
                Err(Error::NoRoom(_)) if store.drop_taken(&mut state) => {}
                Err(Error::NoRoom(_)) => {
                    drop(state);
                    self.wait_for_room(patience)?;
                }
                Err(error) => return Err(error),
            }
        };
        // Tell the peer loop even if this message fails: the streams exist now.
        opened.into_iter().for_each(|stream| self.instance.peer_loop.tell(Command::Stream(stream)));
        Ok(found)
    }

    /// Keeps earlier builds from opening the store, once there is room for the file.
    fn guard_with_room(&self, patience: Patience<'_>) -> Result<(), Error> {
        let store = &self.instance.store;
        loop {
            match store.log().guard() {
                Err(LogError::NoRoom(_)) if !patience.is_over() => {
                    let until = patience.until(Some(now() + GUARD_AGAIN_AFTER));
                    drop(store.wait_for_progress(store.lock(), until));
                }
                guarded => return Ok(guarded?),
            }
        }
    }

    /// Accepts a message of several parts, once there is room.
    fn accept_parts<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        sending: &Sending<'_>,
        content: Content<'_>,
        patience: Patience<'_>,
    ) -> Result<Acceptance, Error> {
        let (store, streams) = (&self.instance.store, sending.streams);
        let (mut state, before) = self.wait_for_turn(state, sending, patience)?;
        if let Some(before) = before {
            return Ok(Acceptance::Before(before));
        }
        store.begin_parts(&mut state, streams);
        if let Some(id) = &sending.id {
            state.sent.begin(sending.client, id);
        }
        drop(state);
        let (mut sent, mut accepted) = (Ok(Acceptance::InBatch(0)), 0);
        for part in 0..content.parts() {
            let (flags, body) = content.part(part);
            sent = self.accept(store.lock(), &Sending { flags, body: &body, ..*sending }, false, patience);
            if sent.is_err() {
                break;
            }
            accepted += 1;
        }
        let left = if sent.is_ok() { 0 } else { accepted };
        let mut state = store.lock();
        if let Some(id) = &sending.id {
            state.sent.end(sending.client, id);
        }
        store.end_parts(&mut state, streams, left)?;
        sent
    }

    /// Accepts a message that is held in memory, once there is room.
    fn hold<'a>(
        &self,
        state: MutexGuard<'a, State>,
        sending: &Sending<'_>,
        content: Content<'_>,
        patience: Patience<'_>,
    ) -> Result<Acceptance, Error> {
        let (store, parts) = (&self.instance.store, content.parts());
        let cost = (content.len() as u64 + parts as u64 * COST) * sending.streams.len() as u64;
        let most = self.memory_limit.saturating_sub(cost);
        let state = store.wait_for_memory(state, most, patience).ok_or_else(|| self.memory_shortage())?;
        let (mut state, before) = self.wait_for_turn(state, sending, patience)?;
        if let Some(before) = before {
            return Ok(Acceptance::Before(before));
        }
        // Under the lock: a client that ends drops what it holds after it.
        self.check_open()?;
        let mut is_news = false;
        for part in 0..parts {
            let (flags, body) = content.part(part);
            is_news |= store.hold(&mut state, &Sending { flags, body: &body, ..*sending });
        }
        drop(state);
        if is_news {
            self.instance.doorbell.ring();
        }
        Ok(Acceptance::InBatch(0))
    }

    /// Accepts a message, or a part of one that has begun, once there is room. `whole`: it is not a part.
    fn accept<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        sending: &Sending<'_>,
        whole: bool,
        patience: Patience<'_>,
    ) -> Result<Acceptance, Error> {
        let store = &self.instance.store;
        loop {
            while !store.log().is_calm() {
                drop(state);
                store.log().wait_until_calm(patience)?;
                state = store.lock();
            }
            if whole {
                let (again, before) = self.wait_for_turn(state, sending, patience)?;
                if let Some(before) = before {
                    return Ok(Acceptance::Before(before));
                }
                state = again;
            }
            match store.accept(&mut state, sending) {
                Ok(accepted) => return Ok(Acceptance::InBatch(accepted.batch)),
                Err(LogError::NoRoom(_)) if store.drop_taken(&mut state) => continue,
                Err(LogError::NoRoom(_)) => drop(state),
                Err(error) => return Err(error.into()),
            }
            self.wait_for_room(patience)?;
            state = store.lock();
        }
    }
}
