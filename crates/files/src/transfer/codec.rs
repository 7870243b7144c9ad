//! Zstandard (RFC 8878), a chunk at a time.

use zstd::bulk::{self, Compressor};

use super::pack::Compress;

const LEVEL: i32 = 1;

/// Chunks can be compressed in this build.
pub const IS_BUILT_IN: bool = true;

/// None: out of memory.
pub fn compressor() -> Option<Compress> {
    let mut compressor = Compressor::new(LEVEL).ok()?;
    Some(Box::new(move |plain, most| {
        let mut packed = Vec::with_capacity(most);
        compressor.compress_to_buffer(plain, &mut packed).ok().filter(|len| *len <= most)?;
        Some(packed)
    }))
}

/// The octets that were compressed, of which there are `len`. None: it is not so.
pub fn decompress(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    bulk::decompress(packed, len).ok().filter(|plain| plain.len() == len)
}
