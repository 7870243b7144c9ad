//! Guaranteed delivery between clients of one process.

mod bodies;
mod clients;
mod discovery;
mod effects;
mod handlers;
mod leaving;
mod memory;
mod peeking;
mod permissions;
mod reassign;
mod secrecy;
