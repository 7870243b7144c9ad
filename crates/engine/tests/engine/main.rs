//! Tests of the engine through its Rust API.

mod draft_drops;
mod lost_connections;
mod lost_messages;
mod raw_peers;
