//! BLAKE3 of a file that arrives in parts: each group of 16 KiB has a chaining value, and these form a tree.
//!
//! Sender and receiver compute the value of each group from its octets. If they differ, that group is wrong, and no
//! other. The values of all groups give the file's digest, the same as `b3sum` prints.

use std::collections::BTreeMap;

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

use crate::error::FileError;
use crate::tree::Source;

/// The octets of a group. The last one of a file may have fewer.
pub const GROUP: u64 = 16 << 10;

/// The octets of a block, which is a subtree of groups.
pub const BLOCK: u64 = GROUP << BLOCK_LEVEL;
const BLOCK_LEVEL: u32 = 4;

/// The octets that are read or written at once, and hashed: few enough to stay in a processor's cache meanwhile.
pub const PIECE: usize = 64 << 10;

/// BLAKE3 of a file.
pub type Digest = [u8; blake3::OUT_LEN];

/// The value of a group or block.
pub type Value = ChainingValue;

/// How many groups a file of `size` octets has. An empty file has one.
pub fn groups_of(size: u64) -> u64 {
    size.div_ceil(GROUP).max(1)
}

/// The value of a group: its chaining value; that of a file's only group is the file's digest.
///
/// `index`: which group; `octets`: all of it; `size`: of the file.
pub fn group_value(index: u64, octets: &[u8], size: u64) -> Value {
    let mut hasher = hasher_of(index);
    hasher.update(octets);
    finish(&hasher, size)
}

fn hasher_of(index: u64) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(index * GROUP);
    hasher
}

fn finish(hasher: &Hasher, size: u64) -> Value {
    match groups_of(size) {
        1 => *hasher.finalize().as_bytes(),
        _ => hasher.finalize_non_root(),
    }
}

/// The value of a whole block of a file that has others; `octets`: all of it.
pub fn block_value(block: u64, octets: &[u8]) -> Value {
    let mut hasher = hasher_of(block << BLOCK_LEVEL);
    hasher.update(octets);
    hasher.finalize_non_root()
}

/// Reads a file and computes its digest.
pub fn digest_of(source: &dyn Source) -> Result<Digest, FileError> {
    let mut hashing = FileHashing::default();
    loop {
        let mut most = u64::MAX;
        if let Some(digest) = hashing.step(source, &mut most)? {
            return Ok(digest);
        }
    }
}

/// A file whose digest is computed in steps.
#[derive(Default)]
pub struct FileHashing {
    hasher: Hasher,
    offset: u64,
}

impl FileHashing {
    /// Reads about `most` octets, and takes those from it. Returns the digest at the end of the file.
    pub fn step(&mut self, source: &dyn Source, most: &mut u64) -> Result<Option<Digest>, FileError> {
        let mut octets = vec![0; PIECE];
        while *most > 0 {
            let read = source.read(self.offset, &mut octets)?;
            self.hasher.update(&octets[..read]);
            self.offset += read as u64;
            *most = most.saturating_sub(read as u64);
            if read < octets.len() {
                return Ok(Some(*self.hasher.finalize().as_bytes()));
            }
        }
        Ok(None)
    }
}

/// Computes the values of groups from consecutive octets, however these are cut.
pub struct GroupHasher {
    size: u64,
    offset: u64,
    /// Of the group at `offset`, if some of its octets were seen.
    begun: Option<Hasher>,
}

impl GroupHasher {
    /// Begins at `offset`, which is the first octet of a group of a file of `size` octets.
    pub fn new(offset: u64, size: u64) -> GroupHasher {
        debug_assert!(offset.is_multiple_of(GROUP));
        GroupHasher { size, offset, begun: None }
    }

    /// The offset of the next octet.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes the next octets. Reports each group that they complete: its index and value.
    pub fn update(&mut self, mut octets: &[u8], mut report: impl FnMut(u64, Value)) {
        while !octets.is_empty() {
            let index = self.offset / GROUP;
            let end = ((index + 1) * GROUP).min(self.size.max(self.offset + 1));
            let (now, rest) = octets.split_at(octets.len().min((end - self.offset) as usize));
            octets = rest;
            let is_whole = self.offset + now.len() as u64 == end;
            self.offset += now.len() as u64;
            if is_whole && self.begun.is_none() {
                report(index, group_value(index, now, self.size));
                continue;
            }
            let hasher = self.begun.get_or_insert_with(|| hasher_of(index));
            hasher.update(now);
            if is_whole {
                report(index, finish(hasher, self.size));
                self.begun = None;
            }
        }
    }
}

/// The values of the groups that are known, merged as far as they form subtrees: a few values for each run of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueTree {
    groups: u64,
    /// Subtrees by their first group: the power of two of their groups, and the value.
    subtrees: BTreeMap<u64, (u32, Value)>,
}

impl ValueTree {
    /// Of a file of `size` octets, with no group.
    pub fn new(size: u64) -> ValueTree {
        ValueTree { groups: groups_of(size), subtrees: BTreeMap::new() }
    }

    /// Adds the value of a group that it does not have. Returns the block that it completes, and its value.
    pub fn add(&mut self, index: u64, value: Value) -> Option<(u64, Value)> {
        self.add_subtree(index, 0, value)
    }

    /// Adds the value of a block of which it has no group.
    pub fn add_block(&mut self, block: u64, value: Value) {
        self.add_subtree(block << BLOCK_LEVEL, BLOCK_LEVEL, value);
    }

    fn add_subtree(&mut self, mut first: u64, mut level: u32, mut value: Value) -> Option<(u64, Value)> {
        let mut block = None;
        loop {
            let sibling = first ^ (1 << level);
            let parent = first & !(1 << level);
            // The last merge of a file has another form.
            let is_whole = parent == 0 && (2_u64 << level) >= self.groups;
            match self.subtrees.get(&sibling) {
                Some((of, other)) if *of == level && !is_whole => {
                    let (left, right) = if sibling < first { (other, &value) } else { (&value, other) };
                    value = merge_subtrees_non_root(left, right, Mode::Hash);
                    self.subtrees.remove(&sibling);
                    (first, level) = (parent, level + 1);
                    if level == BLOCK_LEVEL {
                        block = Some((first >> BLOCK_LEVEL, value));
                    }
                }
                _ => break,
            }
        }
        self.subtrees.insert(first, (level, value));
        block
    }

    /// The digest of the file; None: groups are missing.
    pub fn digest(&self) -> Option<Digest> {
        let mut next = 0;
        for (first, (level, _)) in &self.subtrees {
            if *first != next {
                return None;
            }
            next += 1 << level;
        }
        if next != self.groups {
            return None;
        }
        let mut values = self.subtrees.values().map(|(_, value)| *value);
        let mut right = values.next_back()?;
        while let Some(left) = values.next_back() {
            right = match values.len() {
                0 => *merge_subtrees_root(&left, &right, Mode::Hash).as_bytes(),
                _ => merge_subtrees_non_root(&left, &right, Mode::Hash),
            };
        }
        Some(right)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn octets(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    #[test]
    fn it_is_the_digest_of_the_whole() {
        let group = GROUP as usize;
        for len in
            [0, 1, 1024, group - 1, group, group + 1, 2 * group, 2 * group + 1, 3 * group, 4 * group, 77_777]
        {
            let (whole, mut tree) = (octets(len), ValueTree::new(len as u64));
            let mut hasher = GroupHasher::new(0, len as u64);
            hasher.update(&whole, |index, value| {
                tree.add(index, value);
            });
            if len == 0 {
                tree.add(0, group_value(0, &[], 0));
            }
            assert_eq!(tree.digest(), Some(*blake3::hash(&whole).as_bytes()), "{len} octets");
        }
    }

    proptest! {
        #[test]
        fn cuts_and_order_make_no_difference(
            len in 1..200_000_usize, cuts in prop::collection::vec(1..40_000_usize, 1..20), order in any::<u64>(),
        ) {
            let (whole, mut values) = (octets(len), Vec::new());
            let mut hasher = GroupHasher::new(0, len as u64);
            let (mut rest, mut cuts) = (&whole[..], cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                hasher.update(now, |index, value| values.push((index, value)));
                rest = later;
            }
            let mut tree = ValueTree::new(len as u64);
            values.sort_by_key(|(index, _)| (index ^ order).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let last = values.pop().unwrap();
            values.into_iter().for_each(|(index, value)| {
                tree.add(index, value);
            });
            prop_assert_eq!(tree.digest(), None);
            tree.add(last.0, last.1);
            prop_assert_eq!(tree.digest(), Some(*blake3::hash(&whole).as_bytes()));
            prop_assert!(tree.subtrees.len() <= 64);
        }
    }
}
