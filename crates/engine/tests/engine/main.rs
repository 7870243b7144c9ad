//! The engine through its Rust interface.

mod draft_drops;
mod lost_connections;
mod lost_messages;
mod raw_peers;
