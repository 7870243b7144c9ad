//! Holes: parts of a file that are zeros, and are told by their length.

use super::digest::{BLOCK, GROUP, GroupHasher};
use crate::error::FileError;
use crate::tree::Source;

/// The most zeros that a frame tells: each side hashes them at once.
pub const ZEROS_MAX: u64 = 16 << 20;

static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// Pieces of `len` zeros that begin at `offset`: the offset of each, and its octets.
pub fn zeros(offset: u64, len: u64) -> impl Iterator<Item = (u64, &'static [u8])> {
    (0..len).step_by(ZEROS.len()).map(move |done| (offset + done, &ZEROS[..(len - done).min(BLOCK) as usize]))
}

/// The values of the groups of zeros that begin at `offset`, where a group of a file of `size` octets does.
pub fn values(offset: u64, zeros: &[u8], size: u64) -> Vec<u8> {
    let mut values = Vec::new();
    GroupHasher::new(offset, size).update(zeros, |_, value| values.extend_from_slice(&value));
    values
}

/// The first hole of whole groups that begins between `first` and `end`: its first octet, and its end.
pub fn first_within(
    source: &dyn Source,
    (mut first, end): (u64, u64),
) -> Result<Option<(u64, u64)>, FileError> {
    while first < end {
        let Some((hole, data)) = source.next_hole(first)? else { return Ok(None) };
        // Smaller ones are sent.
        let (from, to) = (hole.next_multiple_of(GROUP), data / GROUP * GROUP);
        if from < to {
            return Ok(Some((from, to)).filter(|_| from < end));
        }
        first = data;
    }
    Ok(None)
}
