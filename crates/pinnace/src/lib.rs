//! Brokerless messaging: sockets that carry whole messages between threads, processes and machines, with nothing in
//! between. This is the Rust face of Pinnace, which speaks ZeroMQ's protocol (ZMTP) to every peer that does.
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
//! - Sockets have a type for each socket type: [`Push`], [`Sub`] and so on are names of [`Socket`]. What a pattern
//!   does not do does not compile. [`AnySocket`] is for a type that is known at run time alone.
//! - Options: [`Socket::builder`] for those that are common, [`Socket::set_option`] for any by its name.
//! - Messages: [`Message`] and its [`Frame`]s, sent and received whole or not at all.
//! - Blocking: [`send`](Socket::send) and [`recv`](Socket::recv), with `try_` in front or `_timeout` behind;
//!   [`Poller`] and [`poll()`] for several sockets.
//! - Async, under any executor: [`send_async`](Socket::send_async), [`recv_async`](Socket::recv_async),
//!   [`stream`](Socket::stream).
//! - What goes on: [`stats`](Socket::stats) as values, JSON and for Prometheus, [`monitor`](Socket::monitor), and calls
//!   that wait for peers ([`wait_peers`](Socket::wait_peers) and others).
//! - Limits in messages and in bytes, for a peer ([`Builder::send_byte_limit`]) and for everything
//!   ([`ContextBuilder::max_bytes`]).
//! - Guaranteed delivery between named clients, with no service to run: [`delivery`].
//! - Security: [`Builder::curve_server`] and others; [`certificate`] for keys in files; [`z85`].
//!
//! Any thread may use any socket. A future or a call that is given up has taken no message and sent none. Nothing here
//! panics or aborts for what a peer does; an [`Error`] says whose fault it is.

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
    Access, Because, Carrier, Drops, Error, Events, KeyPair, Kind as OptionKind, Leftover, LevelFd, OPTIONS,
    OptionSpec, PeerStats, Reason, SecretKey, SocketType, Stats, Traffic, prometheus,
};
pub use poll::{PollItem, poll};
pub use poller::{Interest, Poller, Ready};
pub use socket::Socket;
pub use tasks::{Messages, Recv, Send};
pub use transfer::{Iter, Unsent};
