//! What both ends of a transfer do with a file: its groups and digest, reading, and writing.

pub mod digest;
pub mod incoming;
pub mod outgoing;
pub mod sidecar;
