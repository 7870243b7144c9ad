//! The connections between clients, as the peer loop uses them. Implemented by the engine's sockets (`sockets`) and by
//! the simulator.
//!
//! Frames of one connection arrive in order. When a connection is lost, frames under way may be lost with it, or may
//! arrive on the next one, after its Hello.

use std::sync::Arc;
use std::time::Duration;

use pinnace_engine::{About, Body, Error, Outgoing};

use super::Keyring;

/// Received in place of a frame when a connection is lost. No frame begins with this byte.
pub const LOST: [u8; 1] = [0];

/// Names a socket of the peer loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// The listener of the client of this number.
    In(u32),
    /// The link to the peer of this index.
    Out(usize),
}

/// Makes listeners and links.
pub trait Network: Send + Sync {
    /// A listener for the client of this number, and its endpoint. With keys, peers have to authenticate.
    fn listen(
        &self,
        client: u32,
        endpoint: &str,
        keys: Option<&Arc<Keyring>>,
    ) -> Result<(Box<dyn Listener>, String), Error>;

    /// A link to a peer.
    fn link(&self, peer: Target<'_>) -> Result<Box<dyn PeerLink>, Error>;
}

/// The peer of a link.
pub struct Target<'a> {
    pub index: usize,
    pub name: &'a str,
    pub endpoint: &'a str,
    /// Sent first on each connection.
    pub hello: Vec<u8>,
    pub keys: Option<&'a Keyring>,
}

/// What became of the attempts to connect a link, as counts since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attempts {
    /// No connection was made.
    pub refused: u64,
    /// The handshake ended without a reason, failed by a breach of the protocol, or the peer did not admit us.
    pub broken: u64,
    pub failed: u64,
    pub not_admitted: u64,
}

impl Attempts {
    pub fn since(&self, before: &Attempts) -> Attempts {
        Attempts {
            refused: self.refused - before.refused,
            broken: self.broken - before.broken,
            failed: self.failed - before.failed,
            not_admitted: self.not_admitted - before.not_admitted,
        }
    }
}

/// A peer that was not admitted, by its address without a port, or its name; and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedHandshake {
    pub address: String,
    pub reason: String,
}

/// A connection to one peer that reconnects by itself; `recv` yields `LOST` after each loss. Closed when dropped.
pub trait PeerLink: Send {
    /// Error: WouldBlock, too much waits already.
    fn send(&self, frame: Outgoing<'_>) -> Result<(), Error>;

    /// Appends the next frame. Returns false if there is none.
    fn recv(&self, into: &mut Vec<u8>) -> bool;

    fn connect(&self, endpoint: &str) -> Result<(), Error>;

    fn disconnect(&self, endpoint: &str);

    /// Sets what is sent first on later connections.
    fn set_hello(&self, hello: Vec<u8>) -> Result<(), Error>;

    fn attempts(&self) -> Attempts {
        Attempts::default()
    }
}

/// A received frame.
pub struct Arrival {
    /// The id of the connection; a peer that reconnects gets a new one.
    pub from: u32,
    /// What is known of the peer, such as its key if it had to authenticate.
    pub about: Option<Arc<About>>,
    pub bytes: Body,
}

/// The socket on which a client listens. When a connection is lost, `LOST` is received from it. Closed when dropped.
pub trait Listener: Send {
    fn recv(&self) -> Option<Arrival>;

    /// Sends on a connection ([`Arrival::from`]). Error: WouldBlock, the peer does not read.
    fn send(&self, connection: u32, frame: &[u8]) -> Result<(), Error>;

    fn disconnect_peer(&self, connection: u32);

    /// The next peer that could not authenticate, if there is one.
    fn next_failure(&self) -> Option<FailedHandshake> {
        None
    }

    /// How long frames may still be sent after it was dropped.
    fn set_linger(&self, linger: Duration);
}

/// The listener of a client that only sends: no peer reaches it.
pub struct NoListener;

impl Listener for NoListener {
    fn recv(&self) -> Option<Arrival> {
        None
    }

    fn send(&self, _: u32, _: &[u8]) -> Result<(), Error> {
        Err(Error::Unreachable)
    }

    fn disconnect_peer(&self, _: u32) {}

    fn set_linger(&self, _: Duration) {}
}
