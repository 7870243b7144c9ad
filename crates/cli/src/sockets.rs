//! The crate `pinnace` as the commands use it: contexts that terminate, waits that a signal ends, failures in
//! words.

use std::fmt::Display;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use pinnace::{
    AnySocket, Drops, Error, Interest, Invalid, Message, PollItem, Reason, SocketType, Stats, Unsent, poll,
};

use crate::outcome::{Failure, Outcome};
use crate::signals::Signals;

/// Shortest and longest pause between two checks for unsent messages.
const DRAIN_MIN: Duration = Duration::from_millis(1);
const DRAIN_MAX: Duration = Duration::from_millis(20);

/// Sockets besides those that the command counts: the ZAP handler's, and one for checking the options.
const OWN_SOCKETS: usize = 8;

/// A context. If it is dropped before `end`, unsent messages are discarded.
pub struct Context {
    inner: pinnace::Context,
    /// True if a ZAP handler runs: the context's counts then include the handler's messages.
    has_zap_handler: bool,
}

/// A socket.
pub struct Socket(pub AnySocket);

/// The deadline after `timeout`; `None` means no deadline.
pub fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// The socket type of this name, ignoring case.
pub fn type_of(name: &str) -> Outcome<SocketType> {
    SocketType::from_name(name.to_uppercase().as_bytes())
        .ok_or_else(|| Failure::usage(format!("unknown socket type {name}")))
}

/// Waits until one of `items` is ready, at most until `deadline`. Returns the items, or `None` at the deadline. It
/// may return early, with nothing ready. A signal that ends the process is an error.
pub fn wait<'a>(
    mut items: Vec<PollItem<'a>>,
    signals: &'a Signals,
    deadline: Option<Instant>,
) -> Outcome<Option<Vec<PollItem<'a>>>> {
    signals.check()?;
    items.push(signals.item());
    let found = wait_after_signal(items, deadline);
    signals.check()?;
    Ok(found?.map(|mut items| {
        items.pop();
        items
    }))
}

/// As [`wait`], but ignores earlier signals: for the remaining work after a signal. The next signal ends the
/// process.
pub fn wait_after_signal<'a>(
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

/// Pauses; a signal ends the pause.
pub fn pause(signals: &Signals, time: Duration) -> Outcome {
    let until = deadline(Some(time));
    while wait(Vec::new(), signals, until)?.is_some() {}
    Ok(())
}

/// A poll item that is ready when the descriptor is readable.
pub fn readable(fd: BorrowedFd<'_>) -> PollItem<'_> {
    PollItem::fd(fd, Interest::READABLE)
}

impl Context {
    /// For this many sockets of the command; `None` uses the context's default limit.
    pub fn new(sockets: Option<usize>, has_zap_handler: bool) -> Outcome<Context> {
        let builder = pinnace::Context::builder();
        let builder = match sockets {
            Some(sockets) => {
                let all = sockets.saturating_add(OWN_SOCKETS);
                builder.max_sockets(u32::try_from(all).unwrap_or(u32::MAX))
            }
            None => builder,
        };
        let inner = builder.build().map_err(|error| Failure::Failed(error.to_string()))?;
        Ok(Context { inner, has_zap_handler })
    }

    /// The wrapped context.
    pub fn inner(&self) -> &pinnace::Context {
        &self.inner
    }

    /// The losses of the context's only socket, after `end`. `counted` are the losses at the time the socket was
    /// closed; only the context counts later ones.
    pub fn lost(&self, counted: Drops) -> Drops {
        if self.has_zap_handler { counted } else { self.inner.lost() }
    }

    /// Messages received for the only socket but not read by the command; `stats` are the socket's last statistics.
    pub fn unread(&self, stats: &Stats) -> u64 {
        if self.has_zap_handler { stats.received.queued } else { self.inner.lost().of(Reason::Unread) }
    }

    /// Terminates the context after its sockets were closed: returns when they have sent everything, or a signal
    /// came.
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

    /// Binds, and returns the actual endpoint, with wildcards resolved.
    pub fn bind(&self, endpoint: &str) -> Outcome<String> {
        self.0.bind(endpoint).map_err(|error| match error {
            Error::Invalid(reason @ (Invalid::Certificate | Invalid::PrivateKey)) => Failure::usage(format!(
                "{endpoint}: {reason}: set -o wss_cert_pem=... and -o wss_key_pem=..."
            )),
            error => endpoint_failure(endpoint, error),
        })
    }

    /// Connects; for a PEER returns the routing id of the peer.
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

    /// Sends a message if there is room; otherwise returns it.
    pub fn try_send(&self, message: Message) -> Outcome<Option<Message>> {
        match self.0.try_send(message) {
            Ok(()) => Ok(None),
            Err(Unsent { error: Error::WouldBlock, message }) => Ok(Some(message)),
            Err(unsent) => Err(self.unsendable(unsent)),
        }
    }

    /// Receives a message if one is available.
    pub fn try_recv(&self) -> Outcome<Option<Message>> {
        match self.0.try_recv() {
            Ok(message) => Ok(Some(message)),
            Err(Error::WouldBlock) => Ok(None),
            Err(error) => Err(Failure::of("receiving", error)),
        }
    }

    /// Sends a message as soon as there is room; for a ROUTER, as soon as the named peer exists. `what` describes
    /// the message in the failure at the timeout.
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
                // A ROUTER is writable while any of its peers is, so poll instead of waiting for writability.
                Error::Unreachable | Error::WouldBlock if routes => {
                    if !self.pause_and_grow(&mut pause, signals, deadline)? {
                        return Err(self.timed_out(&format!("no peer with this routing id accepted {what}")));
                    }
                }
                Error::WouldBlock => {
                    if wait(vec![self.0.poll_item(Interest::WRITABLE)], signals, deadline)?.is_none() {
                        return Err(self.timed_out(&format!("no peer accepted {what}")));
                    }
                }
                _ => return Err(self.unsendable(unsent)),
            }
            message = unsent.message;
        }
    }

    /// Describes why a message cannot be sent.
    fn unsendable(&self, unsent: Unsent) -> Failure {
        let socket_type = self.0.socket_type();
        let frames = unsent.message.len();
        match (unsent.error, socket_type) {
            (Error::Invalid(Invalid::DatagramMessage), _) if frames != 2 => Failure::of(
                "sending",
                format!(
                    "a message of DGRAM must have two frames, the first being the address; this one has {frames}"
                ),
            ),
            (Error::Invalid(Invalid::MultipartMessage), _) => Failure::of(
                "sending",
                format!("a message of {} must have one frame; this one has {frames}", socket_type.name()),
            ),
            (error, _) => Failure::of("sending", error),
        }
    }

    /// Sends an answer. If the requester is gone, the answer is dropped.
    pub fn answer(&self, message: Message, signals: &Signals, timeout: Option<Duration>) -> Outcome {
        match self.0.try_send(message) {
            Ok(()) | Err(Unsent { error: Error::Unreachable, .. }) => Ok(()),
            Err(Unsent { message, .. }) => self.send(message, signals, timeout, "the answer"),
        }
    }

    /// Receives a message as soon as one is available.
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

    /// Waits until `count` peers are connected; for publishers, until as many have subscribed to `topic`, or joined
    /// it.
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
            if !self.pause_and_grow(&mut pause, signals, deadline)? {
                return Err(self.timed_out(&format!("fewer than {count} peers connected or subscribed")));
            }
        }
    }

    /// Waits until the kernel, or the peer, has all messages. Polls instead of relying on the linger, because the
    /// failure reports the number of messages left at the deadline.
    pub fn drain(&self, signals: &Signals, linger: Option<Duration>) -> Outcome {
        let deadline = deadline(linger);
        let mut pause = DRAIN_MIN;
        loop {
            let left = self.stats()?.sent.queued;
            if left == 0 {
                return Ok(());
            }
            if !self.pause_and_grow(&mut pause, signals, deadline)? {
                return Err(self.timed_out(&format!("messages not delivered: {left}")));
            }
        }
    }

    /// Pauses between two checks; the pause grows. False at the deadline.
    fn pause_and_grow(
        &self,
        pause: &mut Duration,
        signals: &Signals,
        deadline: Option<Instant>,
    ) -> Outcome<bool> {
        let end = Instant::now() + *pause;
        let until = deadline.map_or(end, |deadline| deadline.min(end));
        wait(Vec::new(), signals, Some(until))?;
        *pause = (*pause * 2).min(DRAIN_MAX);
        Ok(deadline.is_none_or(|deadline| Instant::now() < deadline))
    }

    pub fn stats(&self) -> Outcome<Stats> {
        self.0.stats().map_err(|error| Failure::Failed(error.to_string()))
    }

    /// A timeout failure, with the reason as far as the socket knows it.
    pub fn timed_out(&self, what: &str) -> Failure {
        let reason = self.0.stats().ok().and_then(|stats| reason(&stats));
        Failure::TimedOut(match reason {
            Some(reason) => format!("timed out: {what} ({reason})"),
            None => format!("timed out: {what}"),
        })
    }

    /// Closes the socket; discards unsent messages unless `keep` is set.
    pub fn close(self, keep: bool) {
        if !keep {
            let _ = self.0.set_option("LINGER", 0);
        }
    }
}

/// The likely reason for missing peers, from the socket's events.
fn reason(stats: &Stats) -> Option<String> {
    if stats.peers.iter().any(|peer| peer.connected) {
        return None;
    }
    let reasons = [
        ("handshake_failed_auth", ["we refused a peer", "the peer refused us", "a peer was refused"]),
        (
            "handshake_failed_protocol",
            [
                "a peer's handshake failed: its socket type, key, mechanism or protocol does not match",
                "the handshake failed: the peer's socket type, key, mechanism or protocol does not match",
                "a handshake failed: the socket type, key, mechanism or protocol does not match",
            ],
        ),
        (
            "handshake_failed_no_detail",
            ["a peer's handshake failed", "the handshake failed", "a handshake failed"],
        ),
        ("connect_retried", ["no connection"; 3]),
    ];
    // Index of the text: only accepted connections, only outgoing ones, or both.
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
        Error::Invalid(reason) => Failure::usage(format!("{endpoint}: invalid endpoint: {reason}")),
        Error::Transport | Error::NoTls | Error::TransportForType => {
            Failure::usage(format!("{endpoint}: {error}"))
        }
        error => Failure::of(endpoint, error),
    }
}
