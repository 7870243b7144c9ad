#![forbid(unsafe_code)]
//! The engine: contexts, sockets, patterns and transports.

mod error;
mod hub;
mod link;
mod options;
mod patterns;
mod peer;
mod pipe;

pub use error::{EFSM, EMTHREAD, ENOCOMPATPROTO, ETERM, Error};
pub use pinnace_zmtp::SocketType;
