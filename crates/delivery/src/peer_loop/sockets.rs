//! The engine's sockets as the network between clients.

use std::sync::Arc;
use std::time::Duration;

use pinnace_engine::{Body, Context, Error, Frame, Label, Outgoing, PollTarget, Socket, SocketType};
use pinnace_eventloop::Interest;

use super::Keyring;
use super::network::{Arrival, LOST, Listener, Network, PeerLink, Target, Token};
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
        Ok((Box::new(listener), endpoint))
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
}

/// The bytes of a frame; those of a large one are not copied.
fn taken(frame: Frame<'_>) -> Body {
    match frame {
        Frame::Body { body, .. } => body.take().unwrap_or_else(|| Vec::new().into()),
        Frame::Bytes { data, .. } => data.to_vec().into(),
    }
}

impl Listener for Watched {
    fn recv(&self) -> Option<Arrival> {
        let mut bytes = None;
        let received = self.socket.recv_labelled(false, &mut |frame| bytes = Some(taken(frame))).ok()?;
        Some(Arrival { from: received.label.routing_id, about: received.about, bytes: bytes? })
    }

    fn send(&self, to: u32, frame: &[u8]) -> Result<(), Error> {
        let label = Label { routing_id: to, ..Label::default() };
        self.socket.send_labelled(Outgoing::Bytes(frame), &label, false, false)
    }

    fn disconnect_peer(&self, peer: u32) {
        let _ = self.socket.disconnect_peer(peer);
    }

    fn set_linger(&self, linger: Duration) {
        let _ = self.socket.configure(|options| options.linger = Some(linger));
    }
}
