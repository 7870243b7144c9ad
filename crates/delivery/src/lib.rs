//! Guaranteed delivery between named clients: at least once, crash-safe, with no service to run.

#![forbid(unsafe_code)]

mod carrier;
mod client;
mod clock;
mod depot;
mod error;
mod inbox;
pub mod log;
mod ranges;
pub mod registry;
mod store;
mod wire;

pub use client::{Builder, Client, Dead, Delivery, Durability, Options, Ticket};
pub use error::Error;
