//! File transfer.

#![forbid(unsafe_code)]

pub mod client;
pub mod error;
pub mod server;
pub mod transfer;
pub mod tree;
pub mod wire;
