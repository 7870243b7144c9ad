//! The events of a socket's connections (zmq_socket_monitor(3)), typed.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use futures_core::Stream;
use pinnace_engine::{SocketType, WakerPlace};

use crate::{Context, Error, Interest, Message, Pair, PollItem};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// A connection was made; the handshake follows.
    Connected,
    /// A connection attempt has started and is not complete yet.
    ConnectDelayed,
    /// Another attempt follows; the value is the delay before it, in milliseconds.
    ConnectRetried,
    /// An endpoint is bound.
    Listening,
    /// An endpoint could not be bound; the value is the system's error number.
    BindFailed,
    /// A peer has connected; the handshake follows.
    Accepted,
    /// A connection could not be accepted; the value is the system's error number.
    AcceptFailed,
    /// We closed a connection or an endpoint.
    Closed,
    /// A connection was lost.
    Disconnected,
    /// Monitoring has stopped; no more events follow.
    Stopped,
    /// The handshake failed; the value is the system's error number.
    HandshakeFailed,
    /// The handshake succeeded: the peer is connected.
    HandshakeSucceeded,
    /// The peer violated the protocol in the handshake; the value says how (zmq.h, `ZMQ_PROTOCOL_ERROR_*`).
    HandshakeFailedProtocol,
    /// ZAP refused the peer; the value is ZAP's status code (RFC 27).
    HandshakeFailedAuth,
    /// The numbers of messages that a connection has queued for sending and receiving.
    PipesStats,
    /// Any other event, by libzmq's number.
    Other(u64),
}

/// The kinds by libzmq's numbers, and their names in text.
const KINDS: [(u64, EventKind, &str); 15] = [
    (0x1, EventKind::Connected, "connected"),
    (0x2, EventKind::ConnectDelayed, "connect_delayed"),
    (0x4, EventKind::ConnectRetried, "connect_retried"),
    (0x8, EventKind::Listening, "listening"),
    (0x10, EventKind::BindFailed, "bind_failed"),
    (0x20, EventKind::Accepted, "accepted"),
    (0x40, EventKind::AcceptFailed, "accept_failed"),
    (0x80, EventKind::Closed, "closed"),
    (0x200, EventKind::Disconnected, "disconnected"),
    (0x400, EventKind::Stopped, "monitor_stopped"),
    (0x800, EventKind::HandshakeFailed, "handshake_failed_no_detail"),
    (0x1000, EventKind::HandshakeSucceeded, "handshake_succeeded"),
    (0x2000, EventKind::HandshakeFailedProtocol, "handshake_failed_protocol"),
    (0x4000, EventKind::HandshakeFailedAuth, "handshake_failed_auth"),
    (0x1_0000, EventKind::PipesStats, "pipes_stats"),
];

impl EventKind {
    fn of(number: u64) -> EventKind {
        let known = KINDS.iter().find(|&&(other, ..)| other == number);
        known.map_or(EventKind::Other(number), |&(_, kind, _)| kind)
    }

    /// The name used in statistics: libzmq's name in lower case; "other" for an unknown event.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|&&(_, kind, _)| kind == self).map_or("other", |&(.., name)| name)
    }
}

/// An event of a connection or an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The event's values, as documented at its kind; otherwise those that libzmq reports.
    pub values: Vec<u64>,
    /// Our endpoint; empty if there is none.
    pub local: String,
    /// The peer's endpoint.
    pub remote: String,
}

impl Event {
    /// The first value.
    pub fn value(&self) -> u64 {
        self.values.first().copied().unwrap_or_default()
    }

    /// Parses a message of version 2: number, count, values, both endpoints.
    fn read(message: &Message) -> Option<Event> {
        let number = |index: usize| Some(u64::from_ne_bytes(message.get(index)?[..].try_into().ok()?));
        let text = |index: usize| Some(String::from_utf8_lossy(message.get(index)?).into_owned());
        let count = usize::try_from(number(1)?).ok().filter(|&count| count < message.len())?;
        Some(Event {
            kind: EventKind::of(number(0)?),
            values: (2..2 + count).map(number).collect::<Option<_>>()?,
            local: text(2 + count)?,
            remote: text(3 + count)?,
        })
    }
}

/// The events of one socket, as a blocking iterator and as a `Stream`; made by
/// [`Socket::monitor`](crate::Socket::monitor). Both end when the socket is closed.
///
/// The socket never waits for its monitor. Two thousand unread events are kept (a thousand at either end); later ones
/// are dropped and counted ([`Stats::events_dropped`](crate::Stats)). The final event is always delivered.
///
/// ```
/// use pinnace::{Context, EventKind, Pull, Push};
/// # let context = Context::new()?;
/// let pull = Pull::new(&context)?;
/// let events = pull.monitor()?;
/// let endpoint = pull.bind("tcp://127.0.0.1:*")?;
/// let push = Push::builder(&context).connect(&endpoint)?;
/// push.send("hello")?;
/// pull.recv()?;
/// drop(pull);
/// let kinds: Vec<EventKind> = events.map(|event| event.kind).collect();
/// assert_eq!(kinds[..3], [EventKind::Listening, EventKind::Accepted, EventKind::HandshakeSucceeded]);
/// # Ok::<(), pinnace::Error>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Monitor {
    pair: Pair,
    place: Waiting,
    over: bool,
}

#[derive(Default)]
struct Waiting(Option<WakerPlace>);

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Waiting" } else { "Idle" })
    }
}

impl Monitor {
    pub(crate) fn new(socket: pinnace_engine::Socket, context: &Context) -> Result<Monitor, Error> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        const ALL: u64 = u64::MAX;
        const FORMAT_2: i32 = 2;
        let endpoint = format!("inproc://pinnace-monitor-{}", LAST.fetch_add(1, Ordering::Relaxed));
        socket.monitor(Some(&endpoint), ALL, FORMAT_2, SocketType::Pair)?;
        let pair = Pair::builder(context).connect(&endpoint)?;
        Ok(Monitor { pair, place: Waiting::default(), over: false })
    }

    /// Waits for the next event; None after the last one. Errors: Interrupted by a signal.
    pub fn recv(&mut self) -> Result<Option<Event>, Error> {
        if self.over {
            return Ok(None);
        }
        let received = self.pair.recv();
        self.take(received)
    }

    /// As [`recv`](Self::recv), but waits at most `timeout`, then returns WouldBlock.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<Event>, Error> {
        if self.over {
            return Ok(None);
        }
        let received = self.pair.recv_timeout(timeout);
        self.take(received)
    }

    /// The next event, or WouldBlock if there is none yet; None after the last one.
    pub fn try_recv(&mut self) -> Result<Option<Event>, Error> {
        if self.over {
            return Ok(None);
        }
        let received = self.pair.try_recv();
        self.take(received)
    }

    /// For [`poll`](crate::poll()): readable when an event is available or after the last one.
    pub fn poll_item(&self) -> PollItem<'_> {
        self.pair.poll_item(Interest::READABLE)
    }

    fn take(&mut self, received: Result<Message, Error>) -> Result<Option<Event>, Error> {
        let event = match received {
            Err(Error::Terminated) => None,
            received => Event::read(&received?),
        };
        self.over = event.as_ref().is_none_or(|event| event.kind == EventKind::Stopped);
        Ok(event.filter(|event| event.kind != EventKind::Stopped))
    }
}

impl Iterator for Monitor {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            match self.recv() {
                Err(Error::Interrupted) => {}
                event => return event.ok().flatten(),
            }
        }
    }
}

impl Stream for Monitor {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Event>> {
        if self.over {
            return Poll::Ready(None);
        }
        let this = &mut *self;
        match crate::tasks::poll_recv(&this.pair, &mut this.place.0, task) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(received) => Poll::Ready(this.take(received).ok().flatten()),
        }
    }
}
