//! Walks a tree, a chunk of entries at a time.

use crate::error::{Code, FileError};
use crate::tree::{DEPTH_MAX, Directory, Kind, Names};
use crate::wire::{Entry, put_entry};

/// A walk that is under way.
pub struct Walk {
    /// The open directories, the deepest last, each with the length of its name.
    stack: Vec<Level>,
    /// The name of the current directory below the path of the request.
    name: Vec<u8>,
}

struct Level {
    directory: Box<dyn Directory>,
    names: Names,
    name_len: usize,
}

/// What a walk found.
pub enum Found {
    /// An entry was appended.
    Entry,
    /// A name that cannot be listed, and why.
    Failed(Vec<u8>, FileError),
    /// All was listed.
    Nothing,
}

impl Walk {
    /// Begins below a directory.
    pub fn new(directory: Box<dyn Directory>) -> Result<Walk, FileError> {
        let names = directory.names()?;
        Ok(Walk { stack: vec![Level { directory, names, name_len: 0 }], name: Vec::new() })
    }

    /// Appends the next entry.
    pub fn next(&mut self, into: &mut Vec<u8>) -> Found {
        let depth = self.stack.len();
        loop {
            let Some(level) = self.stack.last_mut() else { return Found::Nothing };
            self.name.truncate(level.name_len);
            match level.names.next() {
                None => drop(self.stack.pop()),
                Some(Err(error)) => {
                    self.stack.pop();
                    return Found::Failed(self.name.clone(), error);
                }
                Some(Ok(name)) => {
                    if !self.name.is_empty() {
                        self.name.push(b'/');
                    }
                    self.name.extend_from_slice(&name);
                    return match self.add(&name, depth, into) {
                        Ok(()) => Found::Entry,
                        // It was removed since it was read.
                        Err(error) if error.code == Code::NotFound => continue,
                        Err(error) => Found::Failed(self.name.clone(), error),
                    };
                }
            }
        }
    }

    fn add(&mut self, name: &[u8], depth: usize, into: &mut Vec<u8>) -> Result<(), FileError> {
        let Some(level) = self.stack.last() else { return Ok(()) };
        let attributes = level.directory.attributes(name)?;
        let target = match attributes.kind {
            Kind::Link => level.directory.read_link(name)?,
            _ => Vec::new(),
        };
        let entry = Entry {
            kind: attributes.kind,
            name: &self.name,
            size: attributes.size,
            mtime_ns: attributes.mtime_ns,
            mode: attributes.mode,
            target: &target,
            content: None,
        };
        put_entry(into, &entry).map_err(|text| FileError::new(Code::Limit, text))?;
        if attributes.kind == Kind::Directory {
            if depth >= DEPTH_MAX {
                return Err(FileError::new(Code::Limit, "more than 256 directories deep"));
            }
            let directory = level.directory.directory(name)?;
            let names = directory.names()?;
            self.stack.push(Level { directory, names, name_len: self.name.len() });
        }
        Ok(())
    }
}
