//! What fuzz targets reach beyond the public API: parsers of untrusted text and messages.

pub use crate::endpoint::{Endpoint, Role};

/// Parses the frames of a ZAP reply. Returns true if it admits the peer.
pub fn zap_reply_admits(frames: &[Vec<u8>]) -> bool {
    matches!(crate::socket::zap::read(frames), crate::authorization::Answer::Admitted(_))
}
