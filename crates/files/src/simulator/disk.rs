//! A disk in memory: it may fail, tear a write, be full, and lose at a power cut what was not synced.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::random::Random;
use crate::error::{Code, FileError};
use crate::tree::{Attributes, Directory, Folder, Hint, Kind, Names, Source, Tag, Target, TreePath, Watch};

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
pub enum Node {
    File(Content),
    Directory(Listing),
    Link(Vec<u8>),
}

/// A file: its octets, and those that a power cut does not take.
#[derive(Debug, Clone, Default)]
pub struct Content {
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
pub struct Listing {
    names: BTreeMap<Vec<u8>, u64>,
    durable: BTreeMap<Vec<u8>, u64>,
    mtime_ns: i64,
    mode: u32,
}

struct State {
    nodes: BTreeMap<u64, Node>,
    last: u64,
    last_open: u64,
    /// Counts changes: it is the time of a file, and names its version.
    changes: u64,
    random: Random,
    faults: DiskFaults,
}

/// The disk; clones are the same one.
#[derive(Clone)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

const ROOT: u64 = 1;

impl SimulatedDisk {
    /// `began`: the time of its first file, which no other disk has.
    pub fn new(random: Random, began: u64) -> SimulatedDisk {
        let nodes = BTreeMap::from([(ROOT, Node::Directory(Listing { mode: 0o755, ..Listing::default() }))]);
        let (last, last_open, changes, faults) = (ROOT, 0, began, DiskFaults::default());
        SimulatedDisk(Arc::new(Mutex::new(State { nodes, last, last_open, changes, random, faults })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_faults(&self, faults: DiskFaults) {
        self.state().faults = faults;
    }

    /// All names of the disk with what they are, sorted, without their content's history.
    pub fn walk(&self) -> Vec<(Vec<u8>, Node)> {
        let (state, mut found) = (self.state(), Vec::new());
        let mut open = vec![(Vec::new(), ROOT)];
        while let Some((path, at)) = open.pop() {
            let Some(Node::Directory(listing)) = state.nodes.get(&at) else { continue };
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
    pub fn content(&self, path: &[u8]) -> Option<Content> {
        let state = self.state();
        match state.nodes.get(&state.find(path).ok()?) {
            Some(Node::File(content)) => Some(content.clone()),
            _ => None,
        }
    }

    /// Gives a file other octets, as a program of the host would; `path` is made if needed. It is on the disk at once.
    pub fn put(&self, path: &[u8], octets: Vec<u8>) {
        let mut state = self.state();
        let (mtime_ns, version) = (state.stamp() as i64 * 1_000, state.changes);
        let at = state.make(path, || Node::File(Content { mode: 0o644, ..Content::default() }));
        if let Some(Node::File(file)) = state.nodes.get_mut(&at) {
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
        state.make(path, || Node::Directory(Listing { mode: 0o755, ..Listing::default() }));
        state.sync_all_names();
    }

    pub fn put_link(&self, path: &[u8], target: &[u8]) {
        let mut state = self.state();
        state.make(path, || Node::Link(target.to_vec()));
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
        let State { nodes, random, changes, .. } = &mut *state;
        for node in nodes.values_mut() {
            match node {
                Node::Link(_) => {}
                Node::Directory(listing) if random.chance(50) => listing.names = listing.durable.clone(),
                Node::Directory(listing) => listing.durable = listing.names.clone(),
                Node::File(file) => {
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

impl State {
    fn stamp(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    fn find(&self, path: &[u8]) -> Result<u64, FileError> {
        let names = path.split(|octet| *octet == b'/').filter(|name| !name.is_empty());
        let mut at = ROOT;
        for name in names {
            match &self.nodes[&at] {
                Node::Directory(listing) => {
                    at = *listing.names.get(name).ok_or_else(|| fault(Errno::NOENT))?;
                }
                Node::Link(_) => return Err(fault(Errno::LOOP)),
                Node::File(_) => return Err(fault(Errno::NOTDIR)),
            }
        }
        Ok(at)
    }

    fn parent(&self, path: &[u8]) -> Result<(u64, Vec<u8>), FileError> {
        let cut = path.iter().rposition(|octet| *octet == b'/');
        let (parent, name) = cut.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
        Ok((self.find(parent)?, name.to_vec()))
    }

    fn listing(&mut self, at: u64) -> Result<&mut Listing, FileError> {
        match self.nodes.get_mut(&at) {
            Some(Node::Directory(listing)) => Ok(listing),
            _ => Err(fault(Errno::NOTDIR)),
        }
    }

    fn add(&mut self, node: Node) -> u64 {
        self.last += 1;
        self.nodes.insert(self.last, node);
        self.last
    }

    /// The node of a path, which is made if needed.
    fn make(&mut self, path: &[u8], node: impl FnOnce() -> Node) -> u64 {
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
            if let Node::Directory(listing) = node {
                listing.durable = listing.names.clone();
            }
        }
    }

    fn file(&mut self, at: u64) -> Result<&mut Content, FileError> {
        match self.nodes.get_mut(&at) {
            Some(Node::File(file)) => Ok(file),
            _ => Err(FileError::new(Code::NotPlain, "not a regular file")),
        }
    }

    fn attributes(&self, at: u64) -> Attributes {
        let (kind, size, mtime_ns, mode, version) = match &self.nodes[&at] {
            Node::File(file) => {
                (Kind::File, file.octets.len() as u64, file.mtime_ns, file.mode, file.version)
            }
            Node::Directory(listing) => (Kind::Directory, 0, listing.mtime_ns, listing.mode, 0),
            Node::Link(_) => (Kind::Link, 0, 0, 0o777, 0),
        };
        let mut tag = Tag::default();
        tag[..8].copy_from_slice(&at.to_be_bytes());
        tag[8..].copy_from_slice(&version.to_be_bytes());
        Attributes { kind, size, mtime_ns, mode, tag }
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
                Node::File(file) => file.octets.len() as u64,
                _ => 0,
            })
            .sum();
        match self.faults.room > 0 && used + more > self.faults.room {
            true => Err(fault(Errno::NOSPC)),
            false => Ok(()),
        }
    }
}

impl Folder for SimulatedDisk {
    fn directory(&self, path: &TreePath) -> Result<Box<dyn Directory>, FileError> {
        let mut state = self.state();
        state.fails(false)?;
        let at = state.find(path.as_bytes())?;
        state.listing(at)?;
        Ok(Box::new(OpenDirectory(self.clone(), at)))
    }

    fn rename(&self, from: &TreePath, to: &TreePath) -> Result<(), FileError> {
        let mut state = self.state();
        let ((from, name), (to, new_name)) = (state.parent(from.as_bytes())?, state.parent(to.as_bytes())?);
        let moved = state.listing(from)?.names.remove(&name).ok_or_else(|| fault(Errno::NOENT))?;
        state.listing(to)?.names.insert(new_name, moved);
        Ok(())
    }

    fn watch(&self, _: Box<dyn Fn(Hint) + Send>) -> Result<Box<dyn Watch>, FileError> {
        Err(FileError::new(Code::Invalid, "this disk is not watched"))
    }
}

struct OpenDirectory(SimulatedDisk, u64);

impl OpenDirectory {
    fn at(&self, state: &mut State, name: &[u8]) -> Result<u64, FileError> {
        state.listing(self.1)?.names.get(name).copied().ok_or_else(|| fault(Errno::NOENT))
    }
}

impl Directory for OpenDirectory {
    fn names(&self) -> Result<Names, FileError> {
        let mut state = self.0.state();
        state.fails(false)?;
        let mut names: Vec<Result<Vec<u8>, FileError>> =
            state.listing(self.1)?.names.keys().cloned().map(Ok).collect();
        // A listing may end early.
        if let Err(error) = state.fails(false) {
            names.truncate(names.len() / 2);
            names.push(Err(error));
        }
        Ok(Box::new(names.into_iter()))
    }

    fn attributes(&self, name: &[u8]) -> Result<Attributes, FileError> {
        let mut state = self.0.state();
        let at = self.at(&mut state, name)?;
        Ok(state.attributes(at))
    }

    fn directory(&self, name: &[u8]) -> Result<Box<dyn Directory>, FileError> {
        let mut state = self.0.state();
        let at = self.at(&mut state, name)?;
        state.fails(false)?;
        state.listing(at)?;
        Ok(Box::new(OpenDirectory(self.0.clone(), at)))
    }

    fn open(&self, name: &[u8]) -> Result<(Box<dyn Source>, Attributes), FileError> {
        let mut state = self.0.state();
        let at = self.at(&mut state, name)?;
        state.fails(false)?;
        state.file(at)?;
        let attributes = state.attributes(at);
        drop(state);
        Ok((Box::new(OpenFile::new(&self.0, at)), attributes))
    }

    fn read_link(&self, name: &[u8]) -> Result<Vec<u8>, FileError> {
        let mut state = self.0.state();
        let at = self.at(&mut state, name)?;
        match &state.nodes[&at] {
            Node::Link(target) => Ok(target.clone()),
            _ => Err(fault(Errno::INVAL)),
        }
    }

    fn make_directory(&self, name: &[u8], mode: u32) -> Result<(), FileError> {
        let mut state = self.0.state();
        state.fails(true)?;
        if state.listing(self.1)?.names.contains_key(name) {
            return Err(fault(Errno::EXIST));
        }
        let added = state.add(Node::Directory(Listing { mode: mode | 0o700, ..Listing::default() }));
        state.listing(self.1)?.names.insert(name.to_vec(), added);
        Ok(())
    }

    fn make_link(&self, name: &[u8], target: &[u8]) -> Result<(), FileError> {
        let mut state = self.0.state();
        state.fails(true)?;
        let added = state.add(Node::Link(target.to_vec()));
        state.listing(self.1)?.names.insert(name.to_vec(), added);
        Ok(())
    }

    fn create(&self, name: &[u8]) -> Result<Box<dyn Target>, FileError> {
        let mut state = self.0.state();
        state.fails(true)?;
        let known = self.at(&mut state, name);
        let at = match known {
            Ok(at) => at,
            Err(_) => {
                let added = state.add(Node::File(Content { mode: 0o600, ..Content::default() }));
                state.listing(self.1)?.names.insert(name.to_vec(), added);
                added
            }
        };
        state.file(at)?;
        drop(state);
        Ok(Box::new(OpenFile::new(&self.0, at)))
    }

    fn create_new(&self, name: &[u8]) -> Result<Option<Box<dyn Target>>, FileError> {
        let known = self.at(&mut self.0.state(), name);
        if known.is_ok() {
            return Ok(None);
        }
        self.create(name).map(Some)
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), FileError> {
        let mut state = self.0.state();
        state.fails(true)?;
        let moved = self.at(&mut state, from)?;
        let listing = state.listing(self.1)?;
        listing.names.remove(from);
        listing.names.insert(to.to_vec(), moved);
        Ok(())
    }

    fn remove_file(&self, name: &[u8]) -> Result<(), FileError> {
        let mut state = self.0.state();
        let at = self.at(&mut state, name)?;
        if matches!(state.nodes[&at], Node::Directory(_)) {
            return Err(fault(Errno::ISDIR));
        }
        state.listing(self.1)?.names.remove(name);
        Ok(())
    }

    fn remove_directory(&self, name: &[u8]) -> Result<(), FileError> {
        let mut state = self.0.state();
        let at = self.at(&mut state, name)?;
        if !state.listing(at)?.names.is_empty() {
            return Err(fault(Errno::NOTEMPTY));
        }
        state.listing(self.1)?.names.remove(name);
        Ok(())
    }

    fn set_attributes(&self, name: &[u8], mtime_ns: i64, mode: u32) -> Result<(), FileError> {
        let mut state = self.0.state();
        let at = self.at(&mut state, name)?;
        match state.nodes.get_mut(&at) {
            Some(Node::File(file)) => (file.mtime_ns, file.mode) = (mtime_ns, mode),
            Some(Node::Directory(listing)) => (listing.mtime_ns, listing.mode) = (mtime_ns, mode),
            _ => {}
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), FileError> {
        let mut state = self.0.state();
        state.fails(true)?;
        let listing = state.listing(self.1)?;
        listing.durable = listing.names.clone();
        Ok(())
    }
}

struct OpenFile {
    disk: SimulatedDisk,
    at: u64,
    number: u64,
}

impl OpenFile {
    fn new(disk: &SimulatedDisk, at: u64) -> OpenFile {
        let mut state = disk.state();
        state.last_open += 1;
        OpenFile { disk: disk.clone(), at, number: state.last_open }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if let Ok(file) = state.file(self.at)
            && file.locked_by == Some(self.number)
        {
            file.locked_by = None;
        }
    }
}

impl Source for OpenFile {
    fn attributes(&self) -> Result<Attributes, FileError> {
        Ok(self.disk.state().attributes(self.at))
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, FileError> {
        let mut state = self.disk.state();
        state.fails(false)?;
        let file = state.file(self.at)?;
        let from = usize::try_from(offset).ok().and_then(|at| file.octets.get(at..)).unwrap_or_default();
        let len = into.len().min(from.len());
        into[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }
}

impl Target for OpenFile {
    fn allocate(&self, size: u64) -> Result<(), FileError> {
        let mut state = self.disk.state();
        state.fails(true)?;
        let has = state.file(self.at)?.octets.len() as u64;
        state.check_room(size.saturating_sub(has))
    }

    fn write(&self, offset: u64, octets: &[u8]) -> Result<(), FileError> {
        let mut state = self.disk.state();
        let version = state.stamp();
        let outcome = state.fails(true).and_then(|()| {
            let has = state.file(self.at)?.octets.len() as u64;
            state.check_room((offset + octets.len() as u64).saturating_sub(has))
        });
        // A write that fails is torn.
        let len = match outcome {
            Ok(()) => octets.len(),
            Err(_) => state.random.below(octets.len() as u64) as usize,
        };
        let (file, first) = (state.file(self.at)?, offset as usize);
        let has = Arc::make_mut(&mut file.octets);
        if has.len() < first + len {
            has.resize(first + len, 0);
        }
        has[first..first + len].copy_from_slice(&octets[..len]);
        file.version = version;
        outcome
    }

    fn set_len(&self, size: u64) -> Result<(), FileError> {
        let mut state = self.disk.state();
        state.fails(true)?;
        let version = state.stamp();
        let file = state.file(self.at)?;
        Arc::make_mut(&mut file.octets).resize(size as usize, 0);
        file.version = version;
        Ok(())
    }

    fn set_attributes(&self, mtime_ns: i64, mode: u32) -> Result<(), FileError> {
        let mut state = self.disk.state();
        state.fails(true)?;
        let version = state.stamp();
        let file = state.file(self.at)?;
        (file.mtime_ns, file.mode, file.version) = (mtime_ns, mode, version);
        Ok(())
    }

    fn sync(&self) -> Result<(), FileError> {
        let mut state = self.disk.state();
        state.fails(true)?;
        let file = state.file(self.at)?;
        file.durable = file.octets.clone();
        Ok(())
    }

    fn try_lock(&self) -> Result<bool, FileError> {
        let mut state = self.disk.state();
        let file = state.file(self.at)?;
        match file.locked_by {
            Some(other) if other != self.number => Ok(false),
            _ => {
                file.locked_by = Some(self.number);
                Ok(true)
            }
        }
    }
}
