//! What is open of a simulated disk: directories and files, as transfers use them.

use std::sync::Arc;

use rustix::io::Errno;

use super::{DiskState, SimulatedDirectory, SimulatedDisk, SimulatedFile, SimulatedNode, fault};
use crate::error::{Code, FileError};
use crate::tree::{
    Attributes, Directory, Folder, Hint, MoreAttributes, Names, Source, Target, TreePath, Watch,
};

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
    fn at(&self, state: &mut DiskState, name: &[u8]) -> Result<u64, FileError> {
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
            SimulatedNode::Link(target) => Ok(target.clone()),
            _ => Err(fault(Errno::INVAL)),
        }
    }

    fn make_directory(&self, name: &[u8], mode: u32) -> Result<(), FileError> {
        let mut state = self.0.state();
        state.fails(true)?;
        if state.listing(self.1)?.names.contains_key(name) {
            return Err(fault(Errno::EXIST));
        }
        let added = state.add(SimulatedNode::Directory(SimulatedDirectory {
            mode: mode | 0o700,
            ..SimulatedDirectory::default()
        }));
        state.listing(self.1)?.names.insert(name.to_vec(), added);
        Ok(())
    }

    fn make_link(&self, name: &[u8], target: &[u8]) -> Result<(), FileError> {
        let mut state = self.0.state();
        state.fails(true)?;
        let added = state.add(SimulatedNode::Link(target.to_vec()));
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
                let added =
                    state.add(SimulatedNode::File(SimulatedFile { mode: 0o600, ..SimulatedFile::default() }));
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
        if matches!(state.nodes[&at], SimulatedNode::Directory(_)) {
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
            Some(SimulatedNode::File(file)) => (file.mtime_ns, file.mode) = (mtime_ns, mode),
            Some(SimulatedNode::Directory(listing)) => (listing.mtime_ns, listing.mode) = (mtime_ns, mode),
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

    fn set_more(&self, _: &MoreAttributes) -> Result<(), FileError> {
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
