//! Guaranteed delivery between named clients: at least once, crash-safe, with no service to run.
//!
//! ```
//! use pinnace_delivery::Client;
//! # let dir = tempfile::tempdir()?;
//! # let registry = format!("dir://{}", dir.path().join("registry").display());
//! # let builder = |name: &str, topic: &str| {
//! #     Client::builder(name, topic).data_dir(dir.path().join(name)).registry(&registry)
//! # };
//! // Both would do with `Client::builder("billing", "invoices").start()`, which keeps what it has below the user's
//! // directory for state.
//! let billing = builder("billing", "invoices").start()?;
//! let shop = builder("shop", "orders").start()?;
//! shop.send_to("invoices", b"3 pinnaces")?; // Ok: on this machine's disk.
//! let delivery = billing.recv(None)?;
//! assert_eq!((delivery.from(), delivery.body()), ("shop", &b"3 pinnaces"[..]));
//! delivery.ack(); // It is not delivered again.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The exact guarantees are in `docs/delivery.md`, the formats on the disk and on the wire in
//! `docs/delivery-formats.md`, the path of a message through the modules in `ARCHITECTURE.md`.

#![forbid(unsafe_code)]

pub mod agent;
mod browse;
#[cfg(test)]
#[allow(dead_code)]
#[path = "../tests/faults/checker.rs"]
mod checker;
mod client;
mod dead_letters;
mod environment;
mod error;
mod inbox;
mod instance;
mod log;
#[cfg_attr(not(feature = "zstd"), path = "no_pack.rs")]
mod pack;
pub mod paths;
mod peek;
mod peer_loop;
mod process;
mod properties;
pub mod registry;
mod signal;
#[cfg(test)]
mod simulator;
pub mod sql;
pub mod statistics;
mod store;
mod wire;
mod workers;

pub use browse::{Browse, Browsed, PendingMessage, browse};
pub use client::{
    Builder, CURSOR_SCHEMA, Client, Cursor, Dead, Deliveries, Delivery, Durability, Full, HandlerResult,
    NewMessage, NotAcked, Options, Pending, Settlement, Shortage, Ticket,
};
pub use dead_letters::{DeadLetter, LetterNumber, NoNumber, dead_letters};
pub use error::Error;
pub use log::{Damage, Failure};
pub use peek::{Sender, peek};
pub use peer_loop::Silence;
pub use pinnace_crypto::{KeyPair, PublicKey};
pub use properties::Properties;
pub use statistics::{ReceiverState, Statistics};
pub use wire::Verdict;
