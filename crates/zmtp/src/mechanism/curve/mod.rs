//! CURVE (RFC 26): both sides have keys, and what they say is secret and authentic.
//!
//! | client | server |
//! | --- | --- |
//! | HELLO: its transient key C', a box that shows it knows the server's key S | |
//! | | WELCOME: a transient key S', a cookie |
//! | INITIATE: the cookie, its long-term key C, a vouch that binds C to C', properties | |
//! | | READY, where the caller lets C in: properties |
//! | MESSAGE: a frame in a box | MESSAGE |
//!
//! Where libzmq deviates from the RFC, this does as libzmq: a MESSAGE is the body of a message frame, its flags
//! may say that it is a command, its nonces only have to grow, and the server keeps its transient key besides
//! sending it along in the cookie. Beyond libzmq the server checks all of the vouch, and nothing is believed of
//! the flags of the frame around a MESSAGE: everybody on the way can write those.
//!
//! The keys of both directions are made when the handshake ends; [`Sealer`] and [`Opener`] carry them.
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
/// CurveZMQ's version in HELLO.
const VERSION: &[u8] = &[1, 0];
/// Makes HELLO longer than WELCOME, so that nobody gets more out of a server than he puts in.
const PADDING: &[u8] = &[0; 72];

/// A box of 64 bytes: HELLO's signature, the vouch, the cookie.
const SIGNATURE_LEN: usize = 80;
const SHORT_NONCE_LEN: usize = 8;
const LONG_NONCE_LEN: usize = 16;
/// The long nonce and the box that it belongs to.
const COOKIE_LEN: usize = LONG_NONCE_LEN + SIGNATURE_LEN;

/// The randomness of one handshake. Who uses the same twice gives both connections away, so it cannot be copied.
#[derive(Debug)]
pub struct Entropy(Secret<{ Entropy::LEN }>);

impl Entropy {
    /// How many bytes a handshake needs.
    pub const LEN: usize = 96;

    /// Takes bytes that nobody can guess.
    pub fn new(bytes: Secret<{ Entropy::LEN }>) -> Entropy {
        Entropy(bytes)
    }

    /// The secret part of our transient keys.
    fn transient(&self) -> Secret<32> {
        Secret::copy_of(self.part())
    }

    /// The key under which the server's cookie is sealed.
    fn cookie_key(&self) -> BoxKey {
        BoxKey::symmetric(Secret::copy_of(self.part_from(32)))
    }

    /// The cookie's nonce, or the vouch's: no side makes both.
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

/// The nonce of a box that is numbered.
fn short_nonce(prefix: &[u8; 16], counter: &[u8; SHORT_NONCE_LEN]) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..16].copy_from_slice(prefix);
    nonce[16..].copy_from_slice(counter);
    nonce
}

/// The nonce of a box that goes by chance.
fn long_nonce(prefix: &[u8; 8], random: &[u8; LONG_NONCE_LEN]) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(prefix);
    nonce[8..].copy_from_slice(random);
    nonce
}

/// A box, or a key, with which nothing can be made.
fn unreadable(command: &'static str) -> impl Fn(Forged) -> Error {
    move |Forged| Misbehaviour::Unreadable { command }.into()
}
