//! Sending messages.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Client;
use crate::Error;
use crate::properties::Properties;
use crate::store::{IdState, SentId};

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
    pub(super) fn of(batch: u64, receivers: usize) -> Ticket {
        Ticket { batch, receivers }
    }

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

/// A retry is waited for like the message that was sent first.
impl From<SentId> for Ticket {
    fn from(sent: SentId) -> Ticket {
        Ticket { batch: sent.batch, receivers: sent.receivers as usize }
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
        let message = self.check(topic, body, options, deduplicate_for)?;
        if let Some(id) = &message.id
            && let IdState::Sent(sent) = self.instance.store.lock().sent.state_of(self.record.number, id)
        {
            return Ok(sent.into());
        }
        self.or_closed(self.send_with(&message, self.patience(options.deadline)))
    }

    /// If the client was closed while the call waited, its error is Closed.
    pub(super) fn or_closed<R>(&self, sent: Result<R, Error>) -> Result<R, Error> {
        match sent {
            Err(Error::NoRoom(_) | Error::TimedOut) if self.closed.load(Ordering::Relaxed) => {
                Err(Error::Closed)
            }
            sent => sent,
        }
    }
}
