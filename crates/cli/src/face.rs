//! The crate `pinnace` as the commands see it: contexts that end, waits that a signal ends, failures in words.

use std::fmt::Display;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use pinnace::{
    AnySocket, Drops, Error, Interest, Message, PollItem, Reason, SocketType, Stats, Unsent, poll,
};

use crate::outcome::{Failure, Outcome};
use crate::signals::Signals;

/// Longest and shortest pause between two looks at what is still to be sent.
const DRAIN_MIN: Duration = Duration::from_millis(1);
const DRAIN_MAX: Duration = Duration::from_millis(20);

/// Sockets that a context has beside those that the command counts: who decides on guests, one to try the options.
const OWN_SOCKETS: usize = 8;

/// A context. Dropped before its orderly end (`end`) it gives up what is not sent.
pub struct Context {
    inner: pinnace::Context,
    /// Who comes in is asked about: the answers to that are among what the context loses.
    guarded: bool,
}

/// A socket.
pub struct Socket(pub AnySocket);

/// A deadline from now; None: none.
pub fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// The socket type of this name, in any case.
pub fn type_of(name: &str) -> Outcome<SocketType> {
    SocketType::from_name(name.to_uppercase().as_bytes())
        .ok_or_else(|| Failure::usage(format!("there is no socket type {name}")))
}

/// Waits until one of `items` is ready, at most until `deadline`; the items, or None when the time is over. It may
/// return early, with nothing ready. A signal that ends the process is an error.
pub fn wait<'a>(
    mut items: Vec<PollItem<'a>>,
    signals: &'a Signals,
    deadline: Option<Instant>,
) -> Outcome<Option<Vec<PollItem<'a>>>> {
    signals.check()?;
    items.push(signals.item());
    let found = wait_on(items, deadline);
    signals.check()?;
    Ok(found?.map(|mut items| {
        items.pop();
        items
    }))
}

/// The same, whatever signals came before: for what is left to be done after one. The next ends the process.
pub fn wait_on<'a>(
    mut items: Vec<PollItem<'a>>,
    deadline: Option<Instant>,
) -> Outcome<Option<Vec<PollItem<'a>>>> {
    let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    match poll(&mut items, timeout) {
        Ok(0) => Ok(None),
        Ok(_) | Err(Error::Interrupted) => Ok(Some(items)),
        Err(error) => Err(Failure::Failed(error.to_string())),
    }
}

/// A pause that a signal ends.
pub fn pause(signals: &Signals, time: Duration) -> Outcome {
    let until = deadline(Some(time));
    while wait(Vec::new(), signals, until)?.is_some() {}
    Ok(())
}

/// A descriptor to wait for: until it can be read.
pub fn readable(fd: BorrowedFd<'_>) -> PollItem<'_> {
    PollItem::fd(fd, Interest::READABLE)
}

impl Context {
    /// For so many sockets of the command, where that is said; None: for as many as a context has unless told.
    pub fn new(sockets: Option<usize>, guarded: bool) -> Outcome<Context> {
        let builder = pinnace::Context::builder();
        let builder = match sockets {
            Some(sockets) => {
                let all = sockets.saturating_add(OWN_SOCKETS);
                builder.max_sockets(u32::try_from(all).unwrap_or(u32::MAX))
            }
            None => builder,
        };
        let inner = builder.build().map_err(|error| Failure::Failed(error.to_string()))?;
        Ok(Context { inner, guarded })
    }

    /// The crate's.
    pub fn inner(&self) -> &pinnace::Context {
        &self.inner
    }

    /// What its one socket has lost, after the end; `counted` is what that had lost when it was closed. A loss of the
    /// last moment is counted by the context alone.
    pub fn lost(&self, counted: Drops) -> Drops {
        if self.guarded { counted } else { self.inner.lost() }
    }

    /// How many messages came in for its one socket and were not received; `stats` are those of its last moment.
    pub fn unread(&self, stats: &Stats) -> u64 {
        if self.guarded { stats.received.queued } else { self.inner.lost().of(Reason::Unread) }
    }

    /// Ends it, its sockets being closed: returns when they have sent what they had, or a signal came.
    pub fn end(&self, signals: &Signals) -> Outcome {
        while let Err(error) = self.inner.terminate() {
            signals.check()?;
            if error != Error::Interrupted {
                return Err(Failure::Failed(error.to_string()));
            }
        }
        Ok(())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        while let Err(Error::Interrupted) = self.inner.terminate_within(Duration::ZERO) {}
    }
}

impl Socket {
    pub fn new(context: &Context, socket_type: SocketType) -> Outcome<Socket> {
        AnySocket::of_type(&context.inner, socket_type)
            .map(Socket)
            .map_err(|error| Failure::of(socket_type.name(), error))
    }

    /// Binds, and returns where: wildcards are filled in.
    pub fn bind(&self, endpoint: &str) -> Outcome<String> {
        let is_tls = ["wss://", "tls+tcp://"].iter().any(|start| endpoint.starts_with(start));
        self.0.bind(endpoint).map_err(|error| match error {
            Error::Invalid if is_tls => Failure::usage(format!(
                "{endpoint}: not an endpoint, or without a certificate: -o wss_cert_pem=... and -o wss_key_pem=..."
            )),
            error => endpoint_failure(endpoint, error),
        })
    }

    /// Connects; a PEER learns the routing id of whom it connects to.
    pub fn connect(&self, endpoint: &str) -> Outcome<Option<u32>> {
        let connected = match self.0.socket_type() {
            SocketType::Peer => self.0.connect_peer(endpoint).map(Some),
            _ => self.0.connect(endpoint).map(|()| None),
        };
        connected.map_err(|error| endpoint_failure(endpoint, error))
    }

    pub fn readable(&self) -> PollItem<'_> {
        self.0.poll_item(Interest::READABLE)
    }

    /// Sends a message if there is room; else it comes back.
    pub fn try_send(&self, message: Message) -> Outcome<Option<Message>> {
        match self.0.try_send(message) {
            Ok(()) => Ok(None),
            Err(Unsent { error: Error::WouldBlock, message }) => Ok(Some(message)),
            Err(unsent) => Err(self.unsendable(unsent)),
        }
    }

    /// Receives a message if there is one.
    pub fn try_recv(&self) -> Outcome<Option<Message>> {
        match self.0.try_recv() {
            Ok(message) => Ok(Some(message)),
            Err(Error::WouldBlock) => Ok(None),
            Err(error) => Err(Failure::of("receiving", error)),
        }
    }

    /// Sends a message as soon as there is room; from a ROUTER, as soon as the peer is there that it names. `what` it
    /// is, is said where nobody takes it in time.
    pub fn send(
        &self,
        mut message: Message,
        signals: &Signals,
        timeout: Option<Duration>,
        what: impl Display,
    ) -> Outcome {
        let deadline = deadline(timeout);
        let routes = self.0.socket_type() == SocketType::Router;
        let mut pause = DRAIN_MIN;
        loop {
            let unsent = match self.0.try_send(message) {
                Ok(()) => return Ok(()),
                Err(unsent) => unsent,
            };
            match unsent.error {
                // It is writable while any of its peers is.
                Error::Unreachable | Error::WouldBlock if routes => {
                    if !self.rest(&mut pause, signals, deadline)? {
                        return Err(self.timed_out(&format!("nobody of that name took {what}")));
                    }
                }
                Error::WouldBlock => {
                    if wait(vec![self.0.poll_item(Interest::WRITABLE)], signals, deadline)?.is_none() {
                        return Err(self.timed_out(&format!("nobody took {what}")));
                    }
                }
                _ => return Err(self.unsendable(unsent)),
            }
            message = unsent.message;
        }
    }

    /// Why a message cannot be sent, now or later.
    fn unsendable(&self, unsent: Unsent) -> Failure {
        let socket_type = self.0.socket_type();
        let frames = unsent.message.len();
        match (unsent.error, socket_type) {
            (Error::Invalid, SocketType::Dgram) if frames != 2 => Failure::of(
                "sending",
                format!(
                    "a message of DGRAM has two frames, and the first is the address; this one has {frames}"
                ),
            ),
            (Error::Invalid, _) if frames > 1 => Failure::of(
                "sending",
                format!("a message of {} has one frame; this one has {frames}", socket_type.name()),
            ),
            (error, _) => Failure::of("sending", error),
        }
    }

    /// Sends an answer. Who asked may be gone by now: then it is dropped.
    pub fn answer(&self, message: Message, signals: &Signals, timeout: Option<Duration>) -> Outcome {
        match self.0.try_send(message) {
            Ok(()) | Err(Unsent { error: Error::Unreachable, .. }) => Ok(()),
            Err(Unsent { message, .. }) => self.send(message, signals, timeout, "the answer"),
        }
    }

    /// Receives a message as soon as there is one.
    pub fn recv(&self, signals: &Signals, timeout: Option<Duration>, what: &str) -> Outcome<Message> {
        let deadline = deadline(timeout);
        loop {
            if let Some(message) = self.try_recv()? {
                return Ok(message);
            }
            if wait(vec![self.readable()], signals, deadline)?.is_none() {
                return Err(self.timed_out(what));
            }
        }
    }

    /// Waits until `count` peers are there; for publishers, until as many have subscribed to `topic`, or joined it.
    pub fn wait_peers(
        &self,
        count: usize,
        topic: &[u8],
        signals: &Signals,
        timeout: Option<Duration>,
    ) -> Outcome {
        let deadline = deadline(timeout);
        let publishes =
            matches!(self.0.socket_type(), SocketType::Pub | SocketType::XPub | SocketType::Radio);
        let mut pause = DRAIN_MIN;
        loop {
            let found = match publishes {
                true => self.0.wait_subscribers(topic, count, Duration::ZERO),
                false => self.0.wait_peers(count, Duration::ZERO),
            };
            match found {
                Ok(()) => return Ok(()),
                Err(Error::WouldBlock | Error::Interrupted) => {}
                Err(error) => return Err(Failure::of("waiting for peers", error)),
            }
            if !self.rest(&mut pause, signals, deadline)? {
                return Err(self.timed_out(&format!("fewer than {count} peers came")));
            }
        }
    }

    /// Waits until the kernel, or the peer, has all messages. The number of those that are left is counted once the
    /// time is over, which is why this looks again and again instead of leaving it to the linger.
    pub fn drain(&self, signals: &Signals, linger: Option<Duration>) -> Outcome {
        let deadline = deadline(linger);
        let mut pause = DRAIN_MIN;
        loop {
            let left = self.stats()?.sent.queued;
            if left == 0 {
                return Ok(());
            }
            if !self.rest(&mut pause, signals, deadline)? {
                return Err(self.timed_out(&format!("messages not delivered: {left}")));
            }
        }
    }

    /// A pause between two looks, which grows. False: the time is over.
    fn rest(&self, pause: &mut Duration, signals: &Signals, deadline: Option<Instant>) -> Outcome<bool> {
        let end = Instant::now() + *pause;
        let until = deadline.map_or(end, |deadline| deadline.min(end));
        wait(Vec::new(), signals, Some(until))?;
        *pause = (*pause * 2).min(DRAIN_MAX);
        Ok(deadline.is_none_or(|deadline| Instant::now() < deadline))
    }

    pub fn stats(&self) -> Outcome<Stats> {
        self.0.stats().map_err(|error| Failure::Failed(error.to_string()))
    }

    /// That the time is over, and what the socket knows of the reason.
    pub fn timed_out(&self, what: &str) -> Failure {
        let reason = self.0.stats().ok().and_then(|stats| reason(&stats));
        Failure::TimedOut(match reason {
            Some(reason) => format!("timed out: {what} ({reason})"),
            None => format!("timed out: {what}"),
        })
    }

    /// Closes the socket; what it has not sent is given up where `keep` is false.
    pub fn close(self, keep: bool) {
        if !keep {
            let _ = self.0.set_option("LINGER", 0);
        }
    }
}

/// What stands in the way, as far as the events of the socket tell.
fn reason(stats: &Stats) -> Option<String> {
    if stats.peers.iter().any(|peer| peer.connected) {
        return None;
    }
    let reasons = [
        ("handshake_failed_auth", ["we refused a peer", "the peer refused us", "a peer was refused"]),
        (
            "handshake_failed_protocol",
            [
                "a peer's handshake failed: it has another socket type, key, mechanism or protocol",
                "the handshake failed: another socket type, key, mechanism or protocol",
                "a handshake failed: another socket type, key, mechanism or protocol",
            ],
        ),
        (
            "handshake_failed_no_detail",
            ["a peer's handshake failed", "the handshake failed", "a handshake failed"],
        ),
        ("connect_retried", ["no connection"; 3]),
    ];
    // Who has come to us, whom we have come to, or either.
    let role = match (stats.events.of("accepted"), stats.events.of("connected")) {
        (1.., 0) => 0,
        (0, _) => 1,
        _ => 2,
    };
    let found = reasons.iter().find(|(event, _)| stats.events.of(event) > 0);
    Some(found.map_or("no peer", |(_, texts)| texts[role]).to_owned())
}

pub fn endpoint_failure(endpoint: &str, error: Error) -> Failure {
    match error {
        Error::Invalid => Failure::usage(format!("{endpoint}: not an endpoint")),
        Error::Transport | Error::TransportForType => Failure::usage(format!("{endpoint}: {error}")),
        error => Failure::of(endpoint, error),
    }
}
