//! The engine as the commands see it: contexts that end, sockets that carry whole messages, and one way to wait.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use pinnace_engine::{Context, Error, Outgoing, POLLIN, POLLOUT, PollItem, SocketType, Source, Stats, poll};

use crate::outcome::{Failure, Outcome};
use crate::signals::Signals;

/// A whole message: its frames.
pub type Message = Vec<Vec<u8>>;

/// Options by libzmq's numbers, where a command needs one itself.
const LINGER: i32 = 17;
const LAST_ENDPOINT: i32 = 32;

/// Longest and shortest pause between two looks at what is still to be sent.
const DRAIN_MIN: Duration = Duration::from_millis(1);
const DRAIN_MAX: Duration = Duration::from_millis(20);

/// A socket. Copies are the same socket.
#[derive(Clone, Copy)]
pub struct Socket(pub pinnace_engine::Socket);

/// A deadline from now; None: none.
pub fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// A new context.
pub fn context() -> Outcome<Context> {
    Context::new().map_err(|error| Failure::Failed(error.to_string()))
}

/// The socket type of this name, in any case.
pub fn type_of(name: &str) -> Outcome<SocketType> {
    SocketType::from_name(name.to_uppercase().as_bytes())
        .ok_or_else(|| Failure::usage(format!("there is no socket type {name}")))
}

/// Waits until one of `items` is ready, at most until `deadline`; what each is ready for, or None when the time is
/// over. It may return early, with nothing ready. A signal that ends the process is an error.
pub fn wait<'a>(
    mut items: Vec<PollItem<'a>>,
    signals: &'a Signals,
    deadline: Option<Instant>,
) -> Outcome<Option<Vec<i16>>> {
    signals.check()?;
    let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    items.push(signals.item());
    let found = match poll(&mut items, timeout, None) {
        Err(Error::Interrupted) => Ok(1),
        found => found,
    };
    signals.check()?;
    items.pop();
    match found {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(items.iter().map(|item| item.revents).collect())),
        Err(error) => Err(Failure::Failed(error.to_string())),
    }
}

/// A pause that a signal ends.
pub fn pause(signals: &Signals, time: Duration) -> Outcome {
    let until = deadline(Some(time));
    while wait(Vec::new(), signals, until)?.is_some() {}
    Ok(())
}

/// A descriptor to wait for; `events` of zero waits for its end alone.
pub fn fd_item(fd: BorrowedFd<'_>, events: i16) -> PollItem<'_> {
    PollItem { source: Source::Fd(fd), events, revents: 0 }
}

impl Socket {
    pub fn new(context: &Context, socket_type: SocketType) -> Outcome<Socket> {
        let name = socket_type.name();
        match context.socket(socket_type as i32) {
            Ok(socket) => Ok(Socket(socket)),
            Err(Error::Invalid) => Err(Failure::usage(format!("there are no {name} sockets in this build"))),
            Err(error) => Err(Failure::of(name, error)),
        }
    }

    /// Binds, and returns where: wildcards are filled in.
    pub fn bind(self, endpoint: &str) -> Outcome<String> {
        self.0.bind(endpoint).map_err(|error| endpoint_failure(endpoint, error))?;
        let mut room = vec![0; endpoint.len() + 512];
        let len =
            self.0.get_option(LAST_ENDPOINT, &mut room).map_err(|error| Failure::of(endpoint, error))?;
        Ok(String::from_utf8_lossy(&room[..len.saturating_sub(1)]).into_owned())
    }

    pub fn connect(self, endpoint: &str) -> Outcome {
        self.0.connect(endpoint).map_err(|error| endpoint_failure(endpoint, error))
    }

    pub fn item(self, events: i16) -> PollItem<'static> {
        PollItem { source: Source::Socket(self.0), events, revents: 0 }
    }

    /// Sends a message if there is room. False: there is none now.
    pub fn try_send(self, message: &[Vec<u8>]) -> Outcome<bool> {
        let mut frames: Vec<Outgoing<'_>> = message.iter().map(|frame| Outgoing::Bytes(frame)).collect();
        match self.0.send_message(&mut frames, false) {
            Ok(()) => Ok(true),
            Err(Error::WouldBlock) => Ok(false),
            Err(error) => Err(Failure::of("sending", error)),
        }
    }

    /// Receives a message if there is one.
    pub fn try_recv(self) -> Outcome<Option<Message>> {
        let mut message = Message::new();
        loop {
            let first = message.is_empty();
            match self.0.recv(!first, &mut |frame| message.push(frame.data().to_vec())) {
                Ok(true) => {}
                Ok(false) => return Ok(Some(message)),
                Err(Error::WouldBlock) if first => return Ok(None),
                Err(Error::Interrupted) if !first => {}
                Err(error) => return Err(Failure::of("receiving", error)),
            }
        }
    }

    /// Sends a message as soon as there is room.
    pub fn send(self, message: &[Vec<u8>], signals: &Signals, timeout: Option<Duration>) -> Outcome {
        let deadline = deadline(timeout);
        while !self.try_send(message)? {
            if wait(vec![self.item(POLLOUT)], signals, deadline)?.is_none() {
                return Err(self.timed_out("nobody took the message"));
            }
        }
        Ok(())
    }

    /// Receives a message as soon as there is one.
    pub fn recv(self, signals: &Signals, timeout: Option<Duration>, what: &str) -> Outcome<Message> {
        let deadline = deadline(timeout);
        loop {
            if let Some(message) = self.try_recv()? {
                return Ok(message);
            }
            if wait(vec![self.item(POLLIN)], signals, deadline)?.is_none() {
                return Err(self.timed_out(what));
            }
        }
    }

    /// Waits until `count` peers are there; for publishers, until as many have subscribed to `topic`.
    pub fn wait_peers(
        self,
        count: usize,
        topic: &[u8],
        signals: &Signals,
        timeout: Option<Duration>,
    ) -> Outcome {
        let deadline = deadline(timeout);
        let publishes = matches!(self.stats()?.socket_type, SocketType::Pub | SocketType::XPub);
        let mut pause = DRAIN_MIN;
        loop {
            let now = Some(Duration::ZERO);
            let found = match publishes {
                true => self.0.wait_subscribers(topic, count, now),
                false => self.0.wait_peers(count, now),
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
    pub fn drain(self, signals: &Signals, linger: Option<Duration>) -> Outcome {
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
    fn rest(self, pause: &mut Duration, signals: &Signals, deadline: Option<Instant>) -> Outcome<bool> {
        let end = Instant::now() + *pause;
        let until = deadline.map_or(end, |deadline| deadline.min(end));
        wait(Vec::new(), signals, Some(until))?;
        *pause = (*pause * 2).min(DRAIN_MAX);
        Ok(deadline.is_none_or(|deadline| Instant::now() < deadline))
    }

    pub fn stats(self) -> Outcome<Stats> {
        self.0.stats().map_err(|error| Failure::Failed(error.to_string()))
    }

    /// That the time is over, and what the socket knows of the reason.
    pub fn timed_out(self, what: &str) -> Failure {
        let reason = self.0.stats().ok().and_then(|stats| reason(&stats));
        Failure::TimedOut(match reason {
            Some(reason) => format!("timed out: {what} ({reason})"),
            None => format!("timed out: {what}"),
        })
    }

    /// Closes the socket; what it has not sent is given up where `keep` is false.
    pub fn close(self, keep: bool) {
        if !keep {
            let _ = self.0.set_option(LINGER, &0_i32.to_ne_bytes());
        }
        let _ = self.0.close();
    }
}

/// What stands in the way, as far as the events of the socket tell.
fn reason(stats: &Stats) -> Option<String> {
    if stats.peers.iter().any(|peer| peer.connected) {
        return None;
    }
    let reasons = [
        ("handshake_failed_auth", "the peer refused us"),
        ("handshake_failed_protocol", "the handshake failed: another socket type, mechanism or protocol"),
        ("handshake_failed_no_detail", "the handshake failed"),
        ("connect_retried", "no connection"),
    ];
    let found = reasons.iter().find(|(event, _)| stats.events.of(event) > 0);
    found.map_or(Some("no peer"), |(_, text)| Some(*text)).map(str::to_owned)
}

/// Ends a context whose sockets are closed: returns when they have sent what they had, or a signal came.
pub fn end(context: &Context, signals: &Signals) -> Outcome {
    while let Err(error) = context.terminate() {
        signals.check()?;
        if error != Error::Interrupted {
            return Err(Failure::Failed(error.to_string()));
        }
    }
    Ok(())
}

fn endpoint_failure(endpoint: &str, error: Error) -> Failure {
    match error {
        Error::Invalid => Failure::usage(format!("{endpoint}: not an endpoint")),
        Error::Transport | Error::TransportForType => Failure::usage(format!("{endpoint}: {error}")),
        error => Failure::of(endpoint, error),
    }
}
