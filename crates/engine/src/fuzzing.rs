//! What fuzz targets reach beyond the public face: readers of text and messages that others write.

pub use crate::endpoint::{Endpoint, Role};

/// Reads the frames of a ZAP reply. Returns whether it admits.
pub fn zap_reply_admits(frames: &[Vec<u8>]) -> bool {
    matches!(crate::zap::read(frames), crate::zap::Answer::Admitted(_))
}
