//! Brokerless messaging: sockets that carry whole messages between threads, processes and machines, without a broker
//! between them. This is the Rust API of Pinnace. It speaks ZeroMQ's protocol (ZMTP) and talks to any ZMTP peer.
//!
//! ```
//! use pinnace::{Context, Pull, Push};
//! let context = Context::new()?;
//! let pull = Pull::new(&context)?;
//! let endpoint = pull.bind("tcp://127.0.0.1:*")?;
//! let push = Push::builder(&context).send_high_water_mark(10).connect(&endpoint)?;
//! push.send(["hello", "world"])?;
//! assert_eq!(pull.recv()?, ["hello", "world"]);
//! # Ok::<(), pinnace::Error>(())
//! ```
//!
//! - Each socket type is a Rust type: [`Push`], [`Sub`] and so on are aliases of [`Socket`]. A call that a pattern does
//!   not support does not compile. [`AnySocket`] is for a type known only at run time.
//! - Options: [`Socket::builder`] for the common ones, [`Socket::set_option`] for any option by name.
//! - Messages: [`Message`] and its [`Frame`]s. A message is sent and received whole or not at all.
//! - Blocking: [`send`](Socket::send) and [`recv`](Socket::recv), each with a `try_` and a `_timeout` variant;
//!   [`Poller`] and [`poll()`] for several sockets.
//! - Async, under any executor: [`send_async`](Socket::send_async), [`recv_async`](Socket::recv_async),
//!   [`stream`](Socket::stream).
//! - Observability: [`stats`](Socket::stats) as values, as JSON and for Prometheus, [`monitor`](Socket::monitor), and
//!   calls that wait for peers ([`wait_peers`](Socket::wait_peers) and others).
//! - Limits in messages and in bytes, per peer ([`Builder::send_byte_limit`]) and for the whole context
//!   ([`ContextBuilder::max_bytes`]).
//! - Guaranteed delivery between named clients, without a service to run: [`delivery`].
//! - File transfer, verified and resumable, with events as an iterator and as a stream: [`files`].
//! - Cargo features, all on by default: `redis` and `sqlite`, the registries of [`delivery`] of these kinds; `tls`, for
//!   wss://, tls+tcp:// and rediss://; `zstd`, for the compression of large bodies in [`delivery`]. An address that
//!   needs a feature without which the crate was built is an error that names it. `pgm` (pgm:// and epgm://) is off.
//! - Security: [`Builder::curve_server`] and others; [`certificate`] for keys in files; [`z85`].
//!
//! Any thread may use any socket. A future dropped early, or a call that fails, has received no message and sent none.
//! Nothing that a peer does makes this crate panic or abort; an [`Error`] tells which side is at fault.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod builder;
mod context;
mod frame;
mod kind;
mod labels;
mod message;
mod monitor;
mod options;
mod poll;
mod poller;
mod socket;
mod tasks;
mod transfer;
pub mod z85;

pub use builder::{Builder, SharedMemory};
pub use context::{Context, ContextBuilder};
pub use frame::Frame;
pub use kind::{
    Addresses, AnySocket, Channel, Client, Dealer, Dgram, Dials, Dish, Gather, Joins, Kind, Pair, Peer, Pub,
    Publishes, Pull, Push, Radio, Receives, Rep, Req, Router, Scatter, Sends, Server, Stream, Sub,
    Subscribes, Typed, XPub, XSub, kinds,
};
pub use message::Message;
pub use monitor::{Event, EventKind, Monitor};
pub use options::{Value, find as find_option};
#[doc(inline)]
pub use pinnace_cert as certificate;
#[doc(inline)]
pub use pinnace_delivery as delivery;
pub use pinnace_engine::{
    Access, Drops, Error, Events, FallbackReason, Invalid, KeyPair, Leftover, LevelFd, Medium, OPTIONS,
    OptionKind, OptionSpec, PeerStats, Reason, SecretKey, SocketType, Stats, Traffic, prometheus,
};
pub use pinnace_files as files;
pub use poll::{PollItem, poll};
pub use poller::{Interest, Poller, Ready};
pub use socket::Socket;
pub use tasks::{Messages, Recv, Send};
pub use transfer::{Iter, Unsent};
