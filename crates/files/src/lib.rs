//! File transfer over FILEMQ v2: verified, resumed where a transfer ended, with bounded memory.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`server`] | a socket, a session for each client, and workers |
//! | [`client`] | a connection to a server, and the transfers over it |
//! | [`access`] | which clients a server admits, and what each may do |
//! | [`rules`] | what a transfer leaves out, replaces and removes |
//! | `outbox` | frames from a dialogue to the thread that has the socket |
//! | `sockets` | a context and sockets that end with their owner |
//! | `dialogue` | what both sides say, without a socket: requests, credit, files that are sent and that arrive |
//! | [`transfer`] | a file on its way out or in: chunks, digests, parts |
//! | [`tree`] | folders that no path leaves |
//! | [`wire`] | the frames |
//!
//! ```
//! use pinnace_files::client::Client;
//! use pinnace_files::server::Server;
//!
//! # let (from, to) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! std::fs::write(from.path().join("a"), "content")?;
//! let server = Server::builder().folder("/data", from.path())?.bind("tcp://127.0.0.1:*").start()?;
//! let client = Client::connect(&server.endpoints()[0])?;
//! let report = client.get("/data/a", &to.path().join("a")).wait()?;
//! assert_eq!((report.files, report.bytes), (1, 7));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod access;
pub mod client;
mod clock;
mod dialogue;
pub mod error;
mod names;
mod outbox;
pub mod rules;
pub mod server;
#[cfg(test)]
mod simulator;
mod sockets;
pub mod transfer;
pub mod tree;
pub mod wire;
