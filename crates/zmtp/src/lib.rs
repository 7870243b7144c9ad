//! The ZMTP wire protocol, without any I/O.
//!
//! This crate implements everything that two ZeroMQ peers exchange over a stream, as plain functions and one state
//! machine: received bytes come in as arguments, bytes to write and decisions come out. It has no socket, clock,
//! thread or random source (random bytes are arguments), so tests and fuzzers can call all of it directly.
//!
//! | module | what it knows |
//! | --- | --- |
//! | [`handshake`] | a connection from its first byte until traffic may flow, ZMTP 1.0 to 3.1 |
//! | [`frame`], [`v1`] | frame headers of ZMTP 2.0 and later, and of ZMTP 1.0 |
//! | [`command`] | the bodies of command frames: READY, ERROR, PING, PONG, SUBSCRIBE, CANCEL |
//! | [`subscription`] | how a subscription travels to a peer of a given version |
//! | [`metadata`] | the properties that READY carries |
//! | [`sharing`] | how two Pinnace peers on one host agree to move messages through shared memory |
//! | [`z85`] | keys as text |
//! | [`ws`] | ZMTP over WebSocket: upgrade, framing, and the translation of frames |
//! | [`socks`] | the SOCKS5 client, which runs before anything else |
//! | [`pgm`] | messages in the packets of a reliable multicast, which has no handshake |
//! | [`curve`] | the security mechanism CURVE: its randomness, and the boxes that carry its traffic |
//!
//! No input makes this crate panic. A peer cannot make it hold more than the [limits](handshake::Limits) allow. An
//! [`Error`] tells which side is at fault. The crate does not move traffic: after the handshake the caller parses
//! frame headers with [`frame::parse`] in its own buffers and applies its own limits.
//!
//! The rules are those of the ZeroMQ RFCs 13 (ZMTP 1.0), 15 (2.0), 23 (3.0) and 37 (3.1). Where libzmq deviates and
//! the deviation shows on the wire, this crate follows libzmq, and a comment says so.
//!
//! ```
//! use pinnace_zmtp::{SocketType, handshake::{Config, Handshake}};
//!
//! let mut push = Handshake::new(Config::new(SocketType::Push));
//! let mut pull = Handshake::new(Config::new(SocketType::Pull));
//! // A caller would write `output` to its stream and feed `input` with what it has read.
//! while push.peer().is_none() || pull.peer().is_none() {
//!     let (to_pull, to_push) = (push.output().to_vec(), pull.output().to_vec());
//!     push.sent(to_pull.len());
//!     pull.sent(to_push.len());
//!     pull.input(&to_pull)?;
//!     push.input(&to_push)?;
//! }
//! assert_eq!(push.peer().unwrap().socket_type, Some(SocketType::Pull));
//! # Ok::<(), pinnace_zmtp::Error>(())
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod command;
mod error;
pub mod frame;
pub mod handshake;
mod mechanism;
pub mod metadata;
pub mod pgm;
pub mod sharing;
mod socket_type;
pub mod socks;
pub mod subscription;
pub mod v1;
mod version;
pub mod ws;
pub mod z85;

pub use error::{Error, Incompatibility, Misbehaviour, Misuse};
pub use handshake::{AuthorizationRequest, Config, Decision, Handshake, Limits, Peer, Refusal, Traffic};
pub use mechanism::{MechanismConfig, curve};
pub use socket_type::SocketType;
pub use version::Version;
