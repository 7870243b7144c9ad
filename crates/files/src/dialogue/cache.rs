//! The digests by which a subscriber of RFC 35 tells which files it has: SHA-1 in hexadecimal digits.

use std::collections::HashMap;

use sha1::{Digest, Sha1};

use crate::error::{Code, FileError};
use crate::tree::Source;
use crate::wire::Hash;

/// Octets that are hashed in one step.
const PIECE_BYTES: usize = 1 << 20;

/// The SHA-1 of a file.
pub type Sha1Digest = [u8; 20];

/// The files that a subscriber has, by virtual path.
#[derive(Default)]
pub struct Cache(HashMap<Vec<u8>, Sha1Digest>);

impl Cache {
    /// `path`: that of the subscription, to which names without a slash at their beginning are relative. Values that
    /// are no digests are ignored.
    pub fn read(path: &[u8], pairs: Hash<'_>) -> Cache {
        let base = path.strip_suffix(b"/").unwrap_or(path);
        let absolute = |name: &[u8]| match name.starts_with(b"/") {
            true => name.to_vec(),
            false => [base, b"/", name].concat(),
        };
        Cache(pairs.iter().filter_map(|(name, digest)| Some((absolute(name), of_hex(digest)?))).collect())
    }

    /// Takes the digest of a file out.
    pub fn take(&mut self, filename: &[u8]) -> Option<Sha1Digest> {
        self.0.remove(filename)
    }
}

fn of_hex(text: &[u8]) -> Option<Sha1Digest> {
    let mut digest = Sha1Digest::default();
    if text.len() != 2 * digest.len() {
        return None;
    }
    for (octet, digits) in digest.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        *octet = (digit(0)? * 16 + digit(1)?) as u8;
    }
    Some(digest)
}

/// The digits of a digest.
pub fn to_hex(digest: &Sha1Digest) -> String {
    digest.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// A file that is hashed in pieces.
#[derive(Default)]
pub struct FileHasher {
    hash: Sha1,
    offset: u64,
}

impl FileHasher {
    /// Hashes the next piece of a file. None: there is more.
    pub fn step(&mut self, source: &dyn Source, size: u64) -> Result<Option<Sha1Digest>, FileError> {
        let mut piece = vec![0; (size - self.offset).min(PIECE_BYTES as u64) as usize];
        if source.read(self.offset, &mut piece)? != piece.len() {
            return Err(FileError::new(Code::Changed, "the file was changed while it was read"));
        }
        self.hash.update(&piece);
        self.offset += piece.len() as u64;
        Ok((self.offset == size).then(|| self.hash.finalize_reset().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::HashWriter;

    #[test]
    fn names_are_relative_to_the_path() {
        let digits = "0123456789abcdefABCDEF000000000000000000";
        for (path, name, filename) in [
            ("/a", "b", "/a/b"),
            ("/a/", "b/c", "/a/b/c"),
            ("/", "a/b", "/a/b"),
            ("/a", "/a/b", "/a/b"),
            ("/a", "/elsewhere", "/elsewhere"),
        ] {
            let mut pairs = HashWriter::default();
            pairs.put(name.as_bytes(), digits.as_bytes());
            pairs.put(b"short", &digits.as_bytes()[1..]);
            pairs.put(b"odd", &[b'x'; 40]);
            let mut cache = Cache::read(path.as_bytes(), pairs.hash());
            assert_eq!(cache.0.len(), 1, "{path} {name}");
            let digest = cache.take(filename.as_bytes()).unwrap();
            assert_eq!(to_hex(&digest), digits.to_lowercase());
            assert_eq!(digest[..11], [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xab, 0xcd, 0xef]);
        }
    }
}
