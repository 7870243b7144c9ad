//! Which chunks travel compressed: those that shrink by at least an eighth.
//!
//! Each chunk is compressed alone. After some chunks in a row that did not shrink, the next ones are not tried.

use super::codec::{compressor, decompress};
use crate::error::{Code, FileError};

/// Smaller chunks are not tried.
const SMALLEST: usize = 512;
/// After so many chunks of a file that did not shrink, so many are not tried.
const MISSES: u32 = 4;
const PAUSE: u32 = 8;

/// Compresses octets to at most so many. None: there would be more.
pub type Compress = Box<dyn FnMut(&[u8], usize) -> Option<Vec<u8>> + Send>;

/// Compresses the chunks of a request.
pub struct Packer {
    compress: Compress,
    /// How many chunks in a row did not shrink.
    misses: u32,
    /// How many chunks are not tried.
    pause: u32,
}

impl Packer {
    /// None: this build compresses nothing.
    pub fn new() -> Option<Packer> {
        Some(Packer { compress: compressor()?, misses: 0, pause: 0 })
    }

    /// As `pack`, for a chunk at an offset of a file. Another file may shrink where the last one did not.
    pub fn pack_at(&mut self, offset: u64, plain: &[u8]) -> Option<Vec<u8>> {
        if offset == 0 {
            (self.misses, self.pause) = (0, 0);
        }
        self.pack(plain)
    }

    /// The chunk, compressed. None: it goes as it is.
    pub fn pack(&mut self, plain: &[u8]) -> Option<Vec<u8>> {
        if plain.len() < SMALLEST {
            return None;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let packed = (self.compress)(plain, plain.len() - plain.len() / 8);
        self.misses = if packed.is_some() { 0 } else { self.misses + 1 };
        if self.misses >= MISSES {
            self.pause = PAUSE;
        }
        packed
    }
}

/// The octets of a compressed chunk. `len`: how many the sender announced; `most`: how many were asked for. Errors:
/// Limit, it announces more than that; Invalid, it does not have what it announces, or is not compressed.
pub fn unpack(packed: &[u8], len: u64, most: u64) -> Result<Vec<u8>, FileError> {
    if len > most {
        return Err(FileError::new(Code::Limit, format!("a chunk that unpacks to {len} octets")));
    }
    let invalid = || FileError::new(Code::Invalid, "a compressed chunk that is not as it was announced");
    if len <= packed.len() as u64 {
        return Err(invalid());
    }
    decompress(packed, len as usize).ok_or_else(invalid)
}

#[cfg(all(test, feature = "zstd"))]
mod tests {
    use super::*;

    fn noise(len: usize, seed: u64) -> Vec<u8> {
        let mut octets = vec![0; len];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut octets);
        octets
    }

    #[test]
    fn what_shrinks_comes_back_and_what_does_not_is_soon_left_alone() {
        let mut packer = Packer::new().unwrap();
        let text = b"a line of text\n".repeat(10_000);
        let packed = packer.pack(&text).unwrap();
        assert!(packed.len() < text.len() / 10);
        assert_eq!(unpack(&packed, text.len() as u64, 1 << 20).unwrap(), text);
        assert!(packer.pack(&text[..SMALLEST - 1]).is_none());
        for chunk in 0..MISSES {
            assert!(packer.pack(&noise(100_000, u64::from(chunk))).is_none());
        }
        for _ in 0..PAUSE {
            assert!(packer.pack(&text).is_none());
        }
        assert!(packer.pack(&text).is_some());
        // One miss is not enough again.
        assert!(packer.pack(&noise(100_000, 9)).is_none());
        assert!(packer.pack(&text).is_some());
        // Seven eighths are noise.
        let little = [noise(90_000, 1), vec![0; 10_000]].concat();
        assert!(packer.pack(&little).is_none());
    }

    #[test]
    fn what_unpacks_to_something_else_is_refused() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap();
        let code = |packed: &[u8], len: u64, most: u64| unpack(packed, len, most).unwrap_err().code;
        assert_eq!(code(&bomb, 64 << 20, 1 << 20), Code::Limit);
        assert_eq!(code(&bomb, 1 << 20, 1 << 20), Code::Invalid);
        assert_eq!(code(&bomb, u64::MAX, u64::MAX - 1), Code::Limit);
        let packed = zstd::bulk::compress(&[0; 1000], 1).unwrap();
        for len in [999, 1001, packed.len() as u64, 0] {
            assert_eq!(code(&packed, len, 1 << 20), Code::Invalid, "{len}");
        }
        assert_eq!(code(&packed[..packed.len() - 1], 1000, 1 << 20), Code::Invalid);
        assert_eq!(code(b"", 1000, 1 << 20), Code::Invalid);
    }
}
