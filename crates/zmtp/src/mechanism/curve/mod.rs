//! CURVE (RFC 26): both sides have keys; the traffic is encrypted and authenticated.
//!
//! | client | server |
//! | --- | --- |
//! | HELLO: its transient key C', a box that proves that it knows the server's key S | |
//! | | WELCOME: a transient key S', a cookie |
//! | INITIATE: the cookie, its long-term key C, a vouch that binds C to C', properties | |
//! | | READY, if the caller accepts C: properties |
//! | MESSAGE: a frame in a box | MESSAGE |
//!
//! Where libzmq deviates from the RFC, this follows libzmq: a MESSAGE is the body of a message frame, its inner
//! flags may mark it as a command, its nonces only have to increase, and the server keeps its transient key in
//! addition to sending it in the cookie. Stricter than libzmq, the server checks the whole vouch. The flags of the
//! frame around a MESSAGE are ignored: they are not authenticated, so anyone on the path can set them.
//!
//! The keys of both directions are derived when the handshake ends; [`Sealer`] and [`Opener`] hold them.
//!
//! ```
//! use pinnace_crypto::{KeyPair, Secret};
//! use pinnace_zmtp::{Config, Handshake, MechanismConfig, SocketType, Traffic, curve::Entropy};
//! use std::sync::Arc;
//!
//! let (ours, theirs) = (Arc::new(KeyPair::generate()?), Arc::new(KeyPair::generate()?));
//! let server_key = theirs.public;
//! let mut push = Handshake::new(Config {
//!     mechanism: MechanismConfig::CurveClient {
//!         keys: ours,
//!         server_key,
//!         entropy: Entropy::new(Secret::random()?),
//!     },
//!     ..Config::new(SocketType::Push)
//! });
//! let mut pull = Handshake::new(Config {
//!     mechanism: MechanismConfig::CurveServer { keys: theirs, entropy: Entropy::new(Secret::random()?) },
//!     ..Config::new(SocketType::Pull)
//! });
//! while push.peer().is_none() || pull.peer().is_none() {
//!     for (from, to) in [(0, 1), (1, 0)] {
//!         let sides = [&mut push, &mut pull];
//!         let bytes = sides[from].output().to_vec();
//!         sides[from].sent(bytes.len());
//!         sides[to].input(&bytes)?;
//!     }
//! }
//! let Some((_, Traffic::Sealed(mut sealer, _))) = push.into_parts() else { unreachable!() };
//! let Some((_, Traffic::Sealed(_, mut opener))) = pull.into_parts() else { unreachable!() };
//!
//! let mut frame = Vec::new();
//! sealer.seal(0, b"hello", &mut frame)?;
//! let opened = opener.open(&mut frame[2..])?; // behind the frame's header
//! assert_eq!((opened.flags, opened.payload), (0, &b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod server;
mod traffic;

use pinnace_crypto::{BoxKey, Forged, Secret};

pub(crate) use client::Client;
pub(crate) use server::Server;
pub use traffic::{OVERHEAD, Opened, Opener, Sealer};

use crate::error::{Error, Misbehaviour};

const HELLO: &[u8] = b"\x05HELLO";
const WELCOME: &[u8] = b"\x07WELCOME";
const INITIATE: &[u8] = b"\x08INITIATE";
const READY: &[u8] = b"\x05READY";
/// The CurveZMQ version in HELLO.
const VERSION: &[u8] = &[1, 0];
/// Makes HELLO longer than WELCOME, so that a server cannot be used to amplify traffic.
const PADDING: &[u8] = &[0; 72];

/// Length of a box of 64 bytes: HELLO's signature, the vouch, the cookie.
const SIGNATURE_LEN: usize = 80;
const SHORT_NONCE_LEN: usize = 8;
const LONG_NONCE_LEN: usize = 16;
/// A long nonce and its box.
const COOKIE_LEN: usize = LONG_NONCE_LEN + SIGNATURE_LEN;

/// The randomness of one handshake. Reuse would expose both connections, so it is not `Clone`.
#[derive(Debug)]
pub struct Entropy(Secret<{ Entropy::LEN }>);

impl Entropy {
    /// Number of bytes that a handshake needs.
    pub const LEN: usize = 96;

    /// `bytes` must be unpredictable.
    pub fn new(bytes: Secret<{ Entropy::LEN }>) -> Entropy {
        Entropy(bytes)
    }

    /// The secret key of our transient key pair.
    fn transient(&self) -> Secret<32> {
        Secret::copy_of(self.part())
    }

    /// The key that seals the server's cookie.
    fn cookie_key(&self) -> BoxKey {
        BoxKey::symmetric(Secret::copy_of(self.part_from(32)))
    }

    /// The nonce of the cookie (server) or of the vouch (client); no side makes both.
    fn first_nonce(&self) -> &[u8; LONG_NONCE_LEN] {
        self.part_from(64)
    }

    fn welcome_nonce(&self) -> &[u8; LONG_NONCE_LEN] {
        self.part_from(80)
    }

    fn part<const N: usize>(&self) -> &[u8; N] {
        self.part_from(0)
    }

    fn part_from<const N: usize>(&self, at: usize) -> &[u8; N] {
        self.0[at..].first_chunk().expect("a part of the entropy")
    }
}

/// The nonce of a numbered box.
fn short_nonce(prefix: &[u8; 16], counter: &[u8; SHORT_NONCE_LEN]) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..16].copy_from_slice(prefix);
    nonce[16..].copy_from_slice(counter);
    nonce
}

/// The nonce of a box with a random nonce.
fn long_nonce(prefix: &[u8; 8], random: &[u8; LONG_NONCE_LEN]) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(prefix);
    nonce[8..].copy_from_slice(random);
    nonce
}

/// The error for a box that does not open, or for an unusable key.
fn unreadable(command: &'static str) -> impl Fn(Forged) -> Error {
    move |Forged| Misbehaviour::Unreadable { command }.into()
}
