//! Guaranteed delivery between clients of one process.

mod bodies;
mod clients;
mod closing;
mod common;
mod discovery;
mod effects;
mod expired;
mod files;
mod gaps;
mod handlers;
mod leaving;
mod limits;
mod memory;
mod ordering;
mod peeking;
mod properties;
mod reassign;
mod retention;
mod retries;
mod secrecy;
mod sharing;
mod silence;
mod statistics;
mod together;
