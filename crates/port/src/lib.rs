//! The engine behind a pair of pipes, for languages that cannot, or should not, have it in their own process: a fault
//! here ends this program, and not the client's. docs/port.md has the protocol.
//!
//! | module | what it is |
//! | --- | --- |
//! | `wire` | packets, fields and messages as functions of their arguments |
//! | `pipes`, `log` | the two pipes; the standard error, for the client's log |
//! | `channel`, `large` | a socket as the client sees it: room, parts; a received message that goes in parts |
//! | `delivery`, `delivery_messages` | a client of guaranteed delivery, likewise; its messages |
//! | `bodies` | large bodies that it sends |
//! | `contexts` | contexts that end when their sockets have sent what waits |
//! | `files`, `events` | servers, clients and transfers of files; what is told of a transfer |
//! | `credit` | what a client has granted |
//! | `answers` | answers of threads, to operations that may wait |
//! | `arguments` | options, times, paths and keys |
//! | `session` | what a client has made, and how it shares the output |
//! | `operations`, `delivery_operations`, `files_operations`, `certificates` | the requests |
//! | `entries` | statistics as the client gets them |
//! | `refusal`, `failure` | why an operation fails, and why the program ends |
//! | `program` | the loop |

#![forbid(unsafe_code)]

mod answers;
mod arguments;
mod bodies;
mod certificates;
mod channel;
mod contexts;
mod credit;
mod delivery;
mod delivery_messages;
mod delivery_operations;
mod entries;
mod events;
mod failure;
mod files;
mod files_operations;
mod large;
mod log;
mod operations;
mod pipes;
mod program;
mod refusal;
mod session;
pub mod wire;

pub use failure::Failure;
pub use log::Log;
pub use program::Program;
