//! Walks a tree, a chunk of entries at a time.

use std::collections::VecDeque;

use super::details::{Details, SharedFiles};
use crate::error::{Code, FileError};
use crate::transfer::digest::{Digest, FileHashing};
use crate::tree::parts::is_part;
use crate::tree::{DEPTH_MAX, Directory, Folder, Kind, Names, Source, TreePath};
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
    /// The name in the entry, if only one is listed.
    only: Option<Vec<u8>>,
    hashing: Option<Box<HashedFile>>,
    /// The octets that may be hashed in this step.
    left: u64,
}

/// A file whose digest is computed, by its name in the current directory.
struct HashedFile {
    name: Vec<u8>,
    source: Box<dyn Source>,
    hashing: FileHashing,
}

/// The most octets that are hashed in one step.
const STEP: u64 = 4 << 20;

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
    /// Nothing in this step: digests take time.
    Working,
    /// Nothing more.
    Nothing,
}

impl Walk {
    /// Begins below a directory, whose name below the request's path is `name`.
    pub fn new(directory: Box<dyn Directory>, name: &[u8], details: Details) -> Result<Walk, FileError> {
        let names = directory.names()?;
        let stack = vec![Level { directory, names, name_len: name.len() }];
        Ok(Walk { stack, name: name.to_vec(), ..Walk::of_nothing(details) })
    }

    fn of_nothing(details: Details) -> Walk {
        let (stack, name, ready, shared, only, hashing, left) = Default::default();
        Walk { stack, name, ready, details, shared, only, hashing, left }
    }

    /// Lists a name in a directory that is none itself. `shown`: the name in the entry.
    pub fn of_one(directory: Box<dyn Directory>, name: &[u8], shown: &[u8], details: Details) -> Walk {
        let names = Box::new(std::iter::once(Ok(name.to_vec())));
        let stack = vec![Level { directory, names, name_len: 0 }];
        Walk { stack, only: Some(shown.to_vec()), ..Walk::of_nothing(details) }
    }

    /// Lists names, and nothing below them: each with its path in a folder.
    pub fn of_names(names: &[(Vec<u8>, &dyn Folder, TreePath)]) -> Result<Walk, FileError> {
        let (details, mut shared) = (Details::default(), SharedFiles::default());
        let mut ready = VecDeque::new();
        for (shown, folder, path) in names {
            let mut entry = Vec::new();
            match path.split_last() {
                Some((parent, name)) => {
                    put(&mut entry, &*folder.directory(&parent)?, (name, shown), details, &mut shared, None)?;
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
        Ok(Walk { ready, shared, ..Walk::of_nothing(details) })
    }

    /// Appends the next entry.
    pub fn next(&mut self, into: &mut Vec<u8>) -> Found {
        if let Some(entry) = self.ready.pop_front() {
            into.extend_from_slice(&entry);
            return Found::Entry;
        }
        loop {
            if let Some(file) = self.hashing.take() {
                match self.hash(file, into) {
                    // It was removed since it was read.
                    Found::Failed(_, error) if error.code == Code::NotFound => {}
                    found => return found,
                }
            }
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
                    self.name.extend_from_slice(self.only.as_ref().unwrap_or(&name));
                    match self.begin(&name, into) {
                        Ok(true) => return Found::Entry,
                        Ok(false) => {}
                        // It was removed since it was read.
                        Err(error) if error.code == Code::NotFound => {}
                        Err(error) => return Found::Failed(self.name.clone(), error),
                    }
                }
            }
        }
    }

    /// The next step begins: digests may be computed.
    pub fn begin_step(&mut self) {
        self.left = STEP;
    }

    /// Adds the entry of a name, or begins to compute its digest. False: the digest is needed first.
    fn begin(&mut self, name: &[u8], into: &mut Vec<u8>) -> Result<bool, FileError> {
        let Some(level) = self.stack.last() else { return Ok(false) };
        if self.details.digests && level.directory.attributes(name)?.kind == Kind::File {
            let (source, name, hashing) =
                (level.directory.open(name)?.0, name.to_vec(), FileHashing::default());
            self.hashing = Some(Box::new(HashedFile { name, source, hashing }));
            return Ok(false);
        }
        self.add(name, None, into).map(|()| true)
    }

    fn hash(&mut self, mut file: Box<HashedFile>, into: &mut Vec<u8>) -> Found {
        let added = match file.hashing.step(&*file.source, &mut self.left) {
            Ok(Some(digest)) => self.add(&file.name, Some(digest), into),
            Ok(None) => {
                self.hashing = Some(file);
                return Found::Working;
            }
            Err(error) => Err(error),
        };
        added.map_or_else(|error| Found::Failed(self.name.clone(), error), |()| Found::Entry)
    }

    fn add(&mut self, name: &[u8], digest: Option<Digest>, into: &mut Vec<u8>) -> Result<(), FileError> {
        let Some(level) = self.stack.last() else { return Ok(()) };
        let (names, details) = ((name, &self.name[..]), self.details);
        if put(into, &*level.directory, names, details, &mut self.shared, digest)? == Kind::Directory {
            if self.stack.len() >= DEPTH_MAX {
                return Err(FileError::new(Code::Limit, "more than 256 directories deep"));
            }
            let directory = level.directory.directory(name)?;
            let names = directory.names()?;
            self.stack.push(Level { directory, names, name_len: self.name.len() });
        }
        Ok(())
    }
}

/// Appends the entry of a name in a directory, which the client knows as `shown`. `digest`: of a file, if the entry is
/// to have it.
pub fn put(
    into: &mut Vec<u8>,
    directory: &dyn Directory,
    (name, shown): (&[u8], &[u8]),
    details: Details,
    shared: &mut SharedFiles,
    digest: Option<Digest>,
) -> Result<Kind, FileError> {
    let attributes = directory.attributes(name)?;
    let target = match (attributes.kind, digest) {
        (Kind::Link, _) => directory.read_link(name)?,
        (Kind::File, Some(digest)) => digest.to_vec(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::disk::DiskFolder;
    use crate::wire::Entries;

    #[test]
    fn a_file_that_is_removed_while_it_is_hashed_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("large"), vec![7; 20 << 20]).unwrap();
        std::fs::write(dir.path().join("small"), "small").unwrap();
        let directory = DiskFolder::open(dir.path()).unwrap().directory(&TreePath::default()).unwrap();
        let details = Details { digests: true, ..Details::default() };
        let mut walk = Walk::new(directory, b"", details).unwrap();
        let mut entries = Vec::new();
        let mut steps = 0;
        loop {
            walk.begin_step();
            match walk.next(&mut entries) {
                Found::Working => {
                    let _ = std::fs::remove_file(dir.path().join("large"));
                    steps += 1;
                }
                Found::Entry => {}
                Found::Failed(_, error) => panic!("{error}"),
                Found::Nothing => break,
            }
        }
        assert!(steps > 1, "{steps}");
        let names: Vec<&[u8]> = Entries::of_list(&entries).map(|entry| entry.unwrap().name).collect();
        assert_eq!(names, [b"small"]);
    }
}
