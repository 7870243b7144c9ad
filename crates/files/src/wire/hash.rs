//! Hashes: names with values, in the order of the frame.

use super::read::Reader;
use super::{put_longstr, put_string};

/// The encoded form of a hash without pairs.
const EMPTY: &[u8] = &[0; 4];

/// A hash in its encoded form, which is valid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash<'a>(&'a [u8]);

impl<'a> Hash<'a> {
    /// A hash without pairs.
    pub const EMPTY: Hash<'static> = Hash(EMPTY);

    /// `encoded` was read as a hash without an error.
    pub(super) fn of_valid(encoded: &'a [u8]) -> Hash<'a> {
        Hash(encoded)
    }

    /// The names with their values.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut reader = Reader::new(&self.0[4..]);
        std::iter::from_fn(move || Some((reader.string().ok()?, reader.longstr().ok()?)))
    }

    /// The first value of a name.
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.iter().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| value)
    }

    pub fn is_empty(self) -> bool {
        self.0.len() <= EMPTY.len()
    }

    pub(super) fn write(self, into: &mut Vec<u8>) {
        into.extend_from_slice(self.0);
    }
}

impl std::fmt::Debug for Hash<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (name.escape_ascii(), value.escape_ascii())))
            .finish()
    }
}

/// Builds a hash.
#[derive(Debug, Clone)]
pub struct HashWriter(Vec<u8>);

impl Default for HashWriter {
    fn default() -> HashWriter {
        HashWriter(EMPTY.to_vec())
    }
}

impl HashWriter {
    /// Adds a pair. `name`: at most 255 octets.
    pub fn put(&mut self, name: &[u8], value: &[u8]) {
        put_string(&mut self.0, name);
        put_longstr(&mut self.0, value);
        let count = self.0.first_chunk().map_or(0, |count| u32::from_be_bytes(*count));
        self.0[..4].copy_from_slice(&(count + 1).to_be_bytes());
    }

    pub fn hash(&self) -> Hash<'_> {
        Hash(&self.0)
    }
}
