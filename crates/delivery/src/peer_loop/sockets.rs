//! The engine's sockets as the network between clients.

use std::sync::Arc;
use std::time::Duration;

use pinnace_engine::{Body, Context, Error, Frame, Label, Outgoing, PollTarget, Socket, SocketType};
use pinnace_eventloop::Interest;

use super::Keyring;
use super::network::{Arrival, Attempts, FailedHandshake, LOST, Listener, Network, PeerLink, Target, Token};
use crate::wire::{FRAME_MAX, WINDOW};

/// The kernel's send buffer for a peer on this machine, in bytes (limited by net.core.wmem_max).
const LOCAL_BUFFER: i32 = 1 << 20;

/// The most bytes waiting to be written to one peer. Credit and the frames that open streams need far less.
const UNSENT_MAX: u64 = 64 << 20;

/// Makes sockets, and has an event loop wait for them.
pub struct Sockets {
    context: Context,
    interest: Interest<Token>,
}

/// Events of zmq_socket_monitor(3): a handshake failed by a breach of the protocol, or by the ZAP handler's refusal.
const FAILED_PROTOCOL: u64 = 0x2000;
const FAILED_AUTHENTICATION: u64 = 0x4000;

/// Values of the first: a box could not be opened, and the peer has another mechanism. Others may be port scans.
const CRYPTOGRAPHIC: u64 = 0x1100_0001;
const OTHER_MECHANISM: u64 = 0x1100_0002;

/// A listening socket, and the events of failed handshakes if peers have to authenticate.
struct Guarded {
    listener: Watched,
    failures: Option<Watched>,
}

/// A socket that the event loop waits for; closed when dropped.
struct Watched {
    socket: Socket,
    interest: Interest<Token>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.interest.remove(PollTarget::Socket(self.socket));
        let _ = self.socket.close();
    }
}

impl Sockets {
    pub fn new(context: Context, interest: Interest<Token>) -> Sockets {
        Sockets { context, interest }
    }

    /// A socket with the options of all: no high-water marks in messages, because credit limits what is in flight;
    /// limits in bytes for peers that ignore credit; the largest frame; and heartbeats.
    fn socket(&self, kind: SocketType) -> Result<Watched, Error> {
        let watched = Watched { socket: self.context.socket(kind)?, interest: self.interest.clone() };
        watched.socket.configure(|options| {
            options.linger = Some(Duration::ZERO);
            (options.sndhwm, options.rcvhwm) = (0, 0);
            (options.snd_bytes, options.rcv_bytes) = (UNSENT_MAX, WINDOW);
            options.maxmsgsize = Some(FRAME_MAX as u64);
            options.reconnect_ivl = Some(Duration::from_millis(10));
            options.reconnect_ivl_max = Duration::from_secs(1);
            options.handshake_ivl = Duration::from_secs(10);
            options.heartbeat_ivl = Duration::from_secs(1);
        })?;
        Ok(watched)
    }

    /// The events of a listener's failed handshakes.
    fn failures_of(&self, listener: &Watched, token: Token) -> Result<Watched, Error> {
        let random = pinnace_sys::random::bytes::<16>().map_err(Error::from)?;
        let endpoint = format!("inproc://pinnace-handshakes-{:032x}", u128::from_ne_bytes(random));
        let events = FAILED_PROTOCOL | FAILED_AUTHENTICATION;
        listener.socket.monitor(Some(&endpoint), events, 2, SocketType::Pair)?;
        let failures =
            Watched { socket: self.context.socket(SocketType::Pair)?, interest: self.interest.clone() };
        failures.socket.configure(|options| options.linger = Some(Duration::ZERO))?;
        failures.socket.connect(&endpoint)?;
        self.watch(&failures, token)?;
        Ok(failures)
    }

    fn watch(&self, socket: &Watched, token: Token) -> Result<(), Error> {
        self.interest.add(PollTarget::Socket(socket.socket), token)
    }
}

impl Network for Sockets {
    fn listen(
        &self,
        client: u32,
        endpoint: &str,
        keys: Option<&Arc<Keyring>>,
    ) -> Result<(Box<dyn Listener>, String), Error> {
        let listener = self.socket(SocketType::Server)?;
        if let Some(keys) = keys {
            keys.guard(&self.context, listener.socket)?;
        }
        listener.socket.configure(|options| options.disconnect_msg = Some(LOST.to_vec()))?;
        listener.socket.bind(endpoint)?;
        let endpoint = listener.socket.last_endpoint()?;
        self.watch(&listener, Token::In(client))?;
        let failures = keys.map(|_| self.failures_of(&listener, Token::In(client))).transpose()?;
        Ok((Box::new(Guarded { listener, failures }), endpoint))
    }

    fn link(&self, peer: Target<'_>) -> Result<Box<dyn PeerLink>, Error> {
        let link = self.socket(SocketType::Client)?;
        if let Some(keys) = peer.keys {
            keys.address(link.socket, peer.name)?;
        }
        if peer.endpoint.starts_with("ipc:") {
            // For networks the kernel's own tuning of its buffers is best.
            link.socket.configure(|options| options.sndbuf = LOCAL_BUFFER)?;
        }
        link.socket.configure(|options| {
            options.hello_msg = Some(peer.hello);
            options.hiccup_msg = Some(LOST.to_vec());
        })?;
        link.socket.connect(peer.endpoint)?;
        self.watch(&link, Token::Out(peer.index))?;
        Ok(Box::new(link))
    }
}

impl PeerLink for Watched {
    fn send(&self, frame: Outgoing<'_>) -> Result<(), Error> {
        self.socket.send(frame, false, false)
    }

    fn recv(&self, into: &mut Vec<u8>) -> bool {
        self.socket.recv(false, &mut |frame| into.extend_from_slice(frame.data())).is_ok()
    }

    fn connect(&self, endpoint: &str) -> Result<(), Error> {
        self.socket.connect(endpoint)
    }

    fn disconnect(&self, endpoint: &str) {
        let _ = self.socket.disconnect(endpoint);
    }

    fn set_hello(&self, hello: Vec<u8>) -> Result<(), Error> {
        self.socket.configure(|options| options.hello_msg = Some(hello))
    }

    fn attempts(&self) -> Attempts {
        let Ok(stats) = self.socket.stats() else { return Attempts::default() };
        Attempts {
            refused: stats.events.of("closed"),
            broken: stats.events.of("handshake_failed_no_detail"),
            failed: stats.events.of("handshake_failed_protocol"),
            not_admitted: stats.events.of("handshake_failed_auth"),
        }
    }
}

/// The bytes of a frame; those of a large one are not copied.
fn taken(frame: Frame<'_>) -> Body {
    match frame {
        Frame::Body { body, .. } => body.take().unwrap_or_else(|| Vec::new().into()),
        Frame::Bytes { data, .. } => data.to_vec().into(),
    }
}

impl Listener for Guarded {
    fn recv(&self) -> Option<Arrival> {
        let mut bytes = None;
        let received =
            self.listener.socket.recv_labelled(false, &mut |frame| bytes = Some(taken(frame))).ok()?;
        Some(Arrival { from: received.label.routing_id, about: received.about, bytes: bytes? })
    }

    fn send(&self, to: u32, frame: &[u8]) -> Result<(), Error> {
        let label = Label { routing_id: to, ..Label::default() };
        self.listener.socket.send_labelled(Outgoing::Bytes(frame), &label, false, false)
    }

    fn disconnect_peer(&self, peer: u32) {
        let _ = self.listener.socket.disconnect_peer(peer);
    }

    fn next_failure(&self) -> Option<FailedHandshake> {
        let failures = self.failures.as_ref()?;
        loop {
            let mut frames: Vec<Vec<u8>> = Vec::new();
            failures.socket.recv_frames(false, &mut |frame| frames.push(frame.data().to_vec())).ok()?;
            if let Some(failure) = failure_of(&frames) {
                return Some(failure);
            }
        }
    }

    fn set_linger(&self, linger: Duration) {
        let _ = self.listener.socket.configure(|options| options.linger = Some(linger));
    }
}

/// Reads an event: its number, the count of its values, the values, and both ends of the connection.
fn failure_of(frames: &[Vec<u8>]) -> Option<FailedHandshake> {
    let [event, _, value, _local, remote] = frames else { return None };
    let number = |frame: &[u8]| frame.try_into().map(u64::from_ne_bytes).ok();
    let reason = match (number(event)?, number(value)?) {
        (FAILED_AUTHENTICATION, _) => "its CURVE key is not known here",
        (FAILED_PROTOCOL, CRYPTOGRAPHIC) => "it expects another CURVE key of this client",
        (FAILED_PROTOCOL, OTHER_MECHANISM) => "it does not use CURVE",
        _ => return None,
    };
    Some(FailedHandshake {
        address: without_port(&String::from_utf8_lossy(remote)),
        reason: reason.to_owned(),
    })
}

/// A peer gets a new port for each attempt.
fn without_port(endpoint: &str) -> String {
    match endpoint.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            host.to_owned()
        }
        _ => endpoint.to_owned(),
    }
}
