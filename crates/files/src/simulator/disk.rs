//! A disk in memory: it may fail, tear a write, be full, and lose at a power cut what was not synced.

mod open;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::random::Random;
use crate::error::{Code, FileError};
use crate::tree::{Attributes, Kind, Owner, Tag};

/// The unit in which a power cut keeps or loses what was written.
const PAGE: usize = 4096;

/// How often calls fail, in 1/1000.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskFaults {
    pub read: u64,
    pub write: u64,
    /// The most octets of all files; 0: no limit.
    pub room: u64,
}

#[derive(Debug, Clone)]
pub enum SimulatedNode {
    File(SimulatedFile),
    Directory(SimulatedDirectory),
    Link(Vec<u8>),
}

/// A file: its octets, and those that a power cut does not take.
#[derive(Debug, Clone, Default)]
pub struct SimulatedFile {
    pub octets: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    pub mtime_ns: i64,
    pub mode: u32,
    /// Differs after each change.
    pub version: u64,
    /// The open file that has it locked.
    locked_by: Option<u64>,
}

#[derive(Debug, Clone, Default)]
pub struct SimulatedDirectory {
    names: BTreeMap<Vec<u8>, u64>,
    durable: BTreeMap<Vec<u8>, u64>,
    mtime_ns: i64,
    mode: u32,
}

struct DiskState {
    nodes: BTreeMap<u64, SimulatedNode>,
    last: u64,
    last_open: u64,
    /// Counts changes: it is the time of a file, and names its version.
    changes: u64,
    random: Random,
    faults: DiskFaults,
}

/// The disk; clones are the same one.
#[derive(Clone)]
pub struct SimulatedDisk(Arc<Mutex<DiskState>>);

const ROOT: u64 = 1;

impl SimulatedDisk {
    /// `began`: the time of its first file, which no other disk has.
    pub fn new(random: Random, began: u64) -> SimulatedDisk {
        let nodes = BTreeMap::from([(
            ROOT,
            SimulatedNode::Directory(SimulatedDirectory { mode: 0o755, ..SimulatedDirectory::default() }),
        )]);
        let (last, last_open, changes, faults) = (ROOT, 0, began, DiskFaults::default());
        SimulatedDisk(Arc::new(Mutex::new(DiskState { nodes, last, last_open, changes, random, faults })))
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_faults(&self, faults: DiskFaults) {
        self.state().faults = faults;
    }

    /// All names of the disk with what they are, sorted, without their content's history.
    pub fn walk(&self) -> Vec<(Vec<u8>, SimulatedNode)> {
        let (state, mut found) = (self.state(), Vec::new());
        let mut open = vec![(Vec::new(), ROOT)];
        while let Some((path, at)) = open.pop() {
            let Some(SimulatedNode::Directory(listing)) = state.nodes.get(&at) else { continue };
            for (name, node) in &listing.names {
                let path = if path.is_empty() { name.clone() } else { [&path, &b"/"[..], name].concat() };
                found.push((path.clone(), state.nodes[node].clone()));
                open.push((path, *node));
            }
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found
    }

    /// The content of a file.
    pub fn content(&self, path: &[u8]) -> Option<SimulatedFile> {
        let state = self.state();
        match state.nodes.get(&state.find(path).ok()?) {
            Some(SimulatedNode::File(content)) => Some(content.clone()),
            _ => None,
        }
    }

    /// Gives a file other octets, as a program of the host would; `path` is made if needed. It is on the disk at once.
    pub fn put(&self, path: &[u8], octets: Vec<u8>) {
        let mut state = self.state();
        let (mtime_ns, version) = (state.stamp() as i64 * 1_000, state.changes);
        let at = state
            .make(path, || SimulatedNode::File(SimulatedFile { mode: 0o644, ..SimulatedFile::default() }));
        if let Some(SimulatedNode::File(file)) = state.nodes.get_mut(&at) {
            file.octets = Arc::new(octets);
            file.durable = file.octets.clone();
            (file.mtime_ns, file.version) = (mtime_ns, version);
        }
        state.sync_all_names();
    }

    /// Changes a file in place, as a program of the host would.
    pub fn change(&self, path: &[u8], change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(mut content) = self.content(path) {
            change(Arc::make_mut(&mut content.octets));
            self.put(path, content.octets.to_vec());
        }
    }

    pub fn put_directory(&self, path: &[u8]) {
        let mut state = self.state();
        state.make(path, || {
            SimulatedNode::Directory(SimulatedDirectory { mode: 0o755, ..SimulatedDirectory::default() })
        });
        state.sync_all_names();
    }

    pub fn put_link(&self, path: &[u8], target: &[u8]) {
        let mut state = self.state();
        state.make(path, || SimulatedNode::Link(target.to_vec()));
        state.sync_all_names();
    }

    /// Removes a file or link.
    pub fn remove(&self, path: &[u8]) {
        let mut state = self.state();
        if let Ok((parent, name)) = state.parent(path)
            && let Ok(listing) = state.listing(parent)
        {
            listing.names.remove(&name);
        }
        state.sync_all_names();
    }

    /// What was not synced may be lost: of each file some pages, of each directory all changes or none.
    pub fn cut_power(&self) {
        let mut state = self.state();
        let DiskState { nodes, random, changes, .. } = &mut *state;
        for node in nodes.values_mut() {
            match node {
                SimulatedNode::Link(_) => {}
                SimulatedNode::Directory(listing) if random.chance(50) => {
                    listing.names = listing.durable.clone()
                }
                SimulatedNode::Directory(listing) => listing.durable = listing.names.clone(),
                SimulatedNode::File(file) => {
                    let len = *random.pick(&[file.octets.len(), file.durable.len()]);
                    let mut kept = vec![0; len];
                    for (page, at) in kept.chunks_mut(PAGE).zip((0..len).step_by(PAGE)) {
                        let from = if random.chance(50) { &file.octets } else { &file.durable };
                        let from = from.get(at..).unwrap_or_default();
                        let len = page.len().min(from.len());
                        page[..len].copy_from_slice(&from[..len]);
                    }
                    file.octets = Arc::new(kept);
                    file.durable = file.octets.clone();
                    *changes += 1;
                    file.version = *changes;
                }
            }
        }
    }
}

fn fault(errno: Errno) -> FileError {
    errno.into()
}

impl DiskState {
    fn stamp(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    fn find(&self, path: &[u8]) -> Result<u64, FileError> {
        let names = path.split(|octet| *octet == b'/').filter(|name| !name.is_empty());
        let mut at = ROOT;
        for name in names {
            match &self.nodes[&at] {
                SimulatedNode::Directory(listing) => {
                    at = *listing.names.get(name).ok_or_else(|| fault(Errno::NOENT))?;
                }
                SimulatedNode::Link(_) => return Err(fault(Errno::LOOP)),
                SimulatedNode::File(_) => return Err(fault(Errno::NOTDIR)),
            }
        }
        Ok(at)
    }

    fn parent(&self, path: &[u8]) -> Result<(u64, Vec<u8>), FileError> {
        let cut = path.iter().rposition(|octet| *octet == b'/');
        let (parent, name) = cut.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
        Ok((self.find(parent)?, name.to_vec()))
    }

    fn listing(&mut self, at: u64) -> Result<&mut SimulatedDirectory, FileError> {
        match self.nodes.get_mut(&at) {
            Some(SimulatedNode::Directory(listing)) => Ok(listing),
            _ => Err(fault(Errno::NOTDIR)),
        }
    }

    fn add(&mut self, node: SimulatedNode) -> u64 {
        self.last += 1;
        self.nodes.insert(self.last, node);
        self.last
    }

    /// The node of a path, which is made if needed.
    fn make(&mut self, path: &[u8], node: impl FnOnce() -> SimulatedNode) -> u64 {
        if let Ok(at) = self.find(path) {
            return at;
        }
        let added = self.add(node());
        if let Ok((parent, name)) = self.parent(path)
            && let Ok(listing) = self.listing(parent)
        {
            listing.names.insert(name, added);
        }
        added
    }

    fn sync_all_names(&mut self) {
        for node in self.nodes.values_mut() {
            if let SimulatedNode::Directory(listing) = node {
                listing.durable = listing.names.clone();
            }
        }
    }

    fn file(&mut self, at: u64) -> Result<&mut SimulatedFile, FileError> {
        match self.nodes.get_mut(&at) {
            Some(SimulatedNode::File(file)) => Ok(file),
            _ => Err(FileError::new(Code::NotPlain, "not a regular file")),
        }
    }

    fn attributes(&self, at: u64) -> Attributes {
        let (kind, size, mtime_ns, mode, version) = match &self.nodes[&at] {
            SimulatedNode::File(file) => {
                (Kind::File, file.octets.len() as u64, file.mtime_ns, file.mode, file.version)
            }
            SimulatedNode::Directory(listing) => (Kind::Directory, 0, listing.mtime_ns, listing.mode, 0),
            SimulatedNode::Link(_) => (Kind::Link, 0, 0, 0o777, 0),
        };
        let mut tag = Tag::default();
        tag[..8].copy_from_slice(&at.to_be_bytes());
        tag[8..].copy_from_slice(&version.to_be_bytes());
        let (ctime_ns, owner) = (mtime_ns, Owner::default());
        Attributes { kind, size, mtime_ns, ctime_ns, mode, tag, shared: None, owner }
    }

    fn fails(&mut self, writes: bool) -> Result<(), FileError> {
        let permille = if writes { self.faults.write } else { self.faults.read };
        match self.random.below(1000) < permille {
            true => Err(fault(Errno::IO)),
            false => Ok(()),
        }
    }

    /// Error: NoRoom, `more` octets do not fit.
    fn check_room(&self, more: u64) -> Result<(), FileError> {
        let used: u64 = self
            .nodes
            .values()
            .map(|node| match node {
                SimulatedNode::File(file) => file.octets.len() as u64,
                _ => 0,
            })
            .sum();
        match self.faults.room > 0 && used + more > self.faults.room {
            true => Err(fault(Errno::NOSPC)),
            false => Ok(()),
        }
    }
}
