//! What must hold: the test oracle.
//!
//! - A file that has its name is a version that the source had there, or what was there before, whole.
//! - A file that is reported as finished is such a version, with the reported digest.
//! - A transfer that reports no failure, from a source that did not change meanwhile, leaves a copy: same names,
//!   content, times and permissions; a mirror has no other names.
//! - What the source has is never removed from the copy.
//! - Without faults of disks and changes of the source, each interruption makes at most a window travel twice.

use std::collections::{BTreeMap, BTreeSet};

use super::disk::{SimulatedDisk, SimulatedFile, SimulatedNode};
use crate::transfer::digest::Digest;
use crate::tree::parts::is_part;

/// A folder below a disk's root: names below it, and what they are.
pub type Tree = BTreeMap<Vec<u8>, SimulatedNode>;

/// The files, directories and links of a folder, without parts.
pub fn tree_of(disk: &SimulatedDisk, base: &str) -> Tree {
    let prefix = [base.as_bytes(), b"/"].concat();
    let below = |path: &[u8]| path.strip_prefix(&prefix[..]).map(<[u8]>::to_vec);
    let nodes = disk.walk().into_iter().filter_map(|(path, node)| Some((below(&path)?, node)));
    nodes
        .filter(|(path, _)| !is_part(path.rsplit(|octet| *octet == b'/').next().unwrap_or_default()))
        .collect()
}

/// All that each file of a pair of folders ever was.
#[derive(Default)]
pub struct Versions {
    known: BTreeMap<Vec<u8>, BTreeSet<Digest>>,
    /// The version of each file of the copy that was found to be one of these.
    checked: BTreeMap<Vec<u8>, u64>,
}

impl Versions {
    /// Notes what is in a folder now.
    pub fn note(&mut self, tree: &Tree) {
        for (path, node) in tree {
            if let SimulatedNode::File(file) = node {
                self.known.entry(path.clone()).or_default().insert(*hash(file).as_bytes());
            }
        }
    }

    fn has(&self, path: &[u8], digest: &Digest) -> bool {
        self.known.get(path).is_some_and(|known| known.contains(digest))
    }

    /// Each file of a folder is one of its versions.
    pub fn check(&mut self, tree: &Tree) -> Result<(), String> {
        for (path, node) in tree {
            let SimulatedNode::File(file) = node else { continue };
            if self.checked.insert(path.clone(), file.version) == Some(file.version) {
                continue;
            }
            if !self.has(path, hash(file).as_bytes()) {
                let len = file.octets.len();
                return Err(format!("{} is no version of the file, {len} octets", shown(path)));
            }
        }
        Ok(())
    }

    /// A file was reported as finished.
    pub fn check_finished(&self, tree: &Tree, path: &str, digest: &Digest) -> Result<(), String> {
        if !self.has(path.as_bytes(), digest) {
            return Err(format!("{path} is finished with a digest that it never had"));
        }
        match tree.get(path.as_bytes()) {
            Some(SimulatedNode::File(file)) if hash(file).as_bytes() == digest => Ok(()),
            Some(SimulatedNode::File(_)) => Err(format!("{path} is finished, and has other octets")),
            _ => Err(format!("{path} is finished, and is not there")),
        }
    }
}

/// The copy has all that the source has; a mirror has nothing else.
pub fn check_copy(source: &Tree, copy: &Tree, is_mirror: bool) -> Result<(), String> {
    for (path, node) in source {
        let here = copy.get(path);
        let is_same = match (node, here) {
            (SimulatedNode::File(one), Some(SimulatedNode::File(other))) => {
                (&one.octets, one.mtime_ns, one.mode) == (&other.octets, other.mtime_ns, other.mode)
            }
            (SimulatedNode::Directory(_), Some(SimulatedNode::Directory(_))) => true,
            (SimulatedNode::Link(one), Some(SimulatedNode::Link(other))) => one == other,
            _ => false,
        };
        if !is_same {
            return Err(format!("{} differs from the source's", shown(path)));
        }
    }
    match copy.keys().find(|path| !source.contains_key(*path)) {
        Some(path) if is_mirror => Err(format!("{} is not at the source", shown(path))),
        _ => Ok(()),
    }
}

/// What the source has, and the copy had, is still there.
pub fn check_kept(source: &Tree, before: &Tree, copy: &Tree) -> Result<(), String> {
    let is_file = |tree: &Tree, path: &[u8]| matches!(tree.get(path), Some(SimulatedNode::File(_)));
    match before
        .keys()
        .find(|path| is_file(before, path) && is_file(source, path) && !copy.contains_key(*path))
    {
        Some(path) => Err(format!("{} was removed, and the source has it", shown(path))),
        None => Ok(()),
    }
}

fn hash(file: &SimulatedFile) -> blake3::Hash {
    blake3::hash(&file.octets)
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
