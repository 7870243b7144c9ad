//! In place of `pack` in a build without the feature `zstd`. Nothing is compressed, and a compressed message of a peer
//! is given up as unreadable: its sender keeps it as a dead letter.

use std::borrow::Cow;

use crate::wire::Verdict;

pub fn pack(body: &[u8]) -> (Cow<'_, [u8]>, bool) {
    (body.into(), false)
}

pub fn unpack(_: &[u8], _: usize) -> Result<Vec<u8>, Verdict> {
    Err(Verdict::Unreadable)
}

pub fn begin(_: &[u8], _: usize) -> (Vec<u8>, u64) {
    (Vec::new(), 0)
}
