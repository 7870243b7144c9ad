//! Walks a tree, a chunk of entries at a time.

use std::collections::VecDeque;

use super::details::{Details, SharedFiles};
use crate::error::{Code, FileError};
use crate::transfer::digest::digest_of;
use crate::tree::parts::is_part;
use crate::tree::{DEPTH_MAX, Directory, Folder, Kind, Names, TreePath};
use crate::wire::{Entry, Extra, HardLink, put_entry, put_entry_with_extra};

/// A walk that is under way.
pub struct Walk {
    /// The open directories, the deepest last, each with the length of its name.
    stack: Vec<Level>,
    /// The name of the current directory below the path of the request.
    name: Vec<u8>,
    /// Entries that come before those of the directories.
    ready: VecDeque<Vec<u8>>,
    details: Details,
    shared: SharedFiles,
}

struct Level {
    directory: Box<dyn Directory>,
    names: Names,
    name_len: usize,
}

/// What there is to tell.
pub enum Found {
    /// An entry was appended.
    Entry,
    /// A name that cannot be listed, and why.
    Failed(Vec<u8>, FileError),
    /// Nothing more.
    Nothing,
}

impl Walk {
    /// Begins below a directory, whose name below the request's path is `name`.
    pub fn new(directory: Box<dyn Directory>, name: &[u8], details: Details) -> Result<Walk, FileError> {
        let names = directory.names()?;
        let stack = vec![Level { directory, names, name_len: name.len() }];
        Ok(Walk {
            stack,
            name: name.to_vec(),
            ready: VecDeque::new(),
            details,
            shared: SharedFiles::default(),
        })
    }

    /// Lists a path that is no directory, by an entry without a name. `directory`: the one that has it.
    pub fn of_one(directory: &dyn Directory, name: &[u8], details: Details) -> Result<Walk, FileError> {
        let mut entry = Vec::new();
        let mut shared = SharedFiles::default();
        put(&mut entry, directory, (name, b""), details, &mut shared)?;
        Ok(Walk { stack: Vec::new(), name: Vec::new(), ready: VecDeque::from([entry]), details, shared })
    }

    /// Lists names, and nothing below them: each with its path in a folder.
    pub fn of_names(names: &[(Vec<u8>, &dyn Folder, TreePath)]) -> Result<Walk, FileError> {
        let (details, mut shared) = (Details::default(), SharedFiles::default());
        let mut ready = VecDeque::new();
        for (shown, folder, path) in names {
            let mut entry = Vec::new();
            match path.split_last() {
                Some((parent, name)) => {
                    put(&mut entry, &*folder.directory(&parent)?, (name, shown), details, &mut shared)?;
                }
                None => {
                    let (kind, name, mode) = (Kind::Directory, &shown[..], 0o755);
                    let (size, mtime_ns, target, content, extra) = Default::default();
                    let entry_of = Entry { kind, name, size, mtime_ns, mode, target, content, extra };
                    put_entry(&mut entry, &entry_of).map_err(|text| FileError::new(Code::Limit, text))?;
                }
            }
            ready.push_back(entry);
        }
        Ok(Walk { stack: Vec::new(), name: Vec::new(), ready, details, shared })
    }

    /// Appends the next entry.
    pub fn next(&mut self, into: &mut Vec<u8>) -> Found {
        if let Some(entry) = self.ready.pop_front() {
            into.extend_from_slice(&entry);
            return Found::Entry;
        }
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
                Some(Ok(name)) if is_part(&name) => {}
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
        let kind = put(into, &*level.directory, (name, &self.name), self.details, &mut self.shared)?;
        if kind == Kind::Directory {
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

/// Appends the entry of a name in a directory, which the client knows as `shown`.
pub fn put(
    into: &mut Vec<u8>,
    directory: &dyn Directory,
    (name, shown): (&[u8], &[u8]),
    details: Details,
    shared: &mut SharedFiles,
) -> Result<Kind, FileError> {
    let attributes = directory.attributes(name)?;
    let target = match attributes.kind {
        Kind::Link => directory.read_link(name)?,
        Kind::File if details.digests => digest_of(&*directory.open(name)?.0)?.to_vec(),
        _ => Vec::new(),
    };
    let more = details.more_of(&attributes, || directory.xattrs(name))?;
    let link = if details.hard_links { shared.link_of(&attributes, shown) } else { HardLink::None };
    let entry = Entry {
        kind: attributes.kind,
        name: shown,
        size: attributes.size,
        mtime_ns: attributes.mtime_ns,
        mode: attributes.mode,
        target: &target,
        content: None,
        extra: Extra { link, ..Extra::of(&more) },
    };
    let put = if details.has_extra() { put_entry_with_extra } else { put_entry };
    put(into, &entry).map_err(|text| FileError::new(Code::Limit, text))?;
    Ok(attributes.kind)
}
