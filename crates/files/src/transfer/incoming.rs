//! A file on its way in: written beside its place, verified group by group, and put in its place when it is whole.
//!
//! Until then its octets are in a part ([`parts`](crate::tree::parts)). Of a file with several blocks, a sidecar tells
//! which have arrived ([`sidecar`](super::sidecar)), so that a later transfer goes on there.

use pinnace_stream::RangeSet;

use super::digest::{
    BLOCK, Digest, GROUP, GroupHasher, PIECE, Value, ValueTree, block_value, group_value, groups_of,
};
use super::sidecar;
use crate::error::{Code, FileError};
use crate::tree::parts::{blocks_name, part_name};
use crate::tree::{Directory, MoreAttributes, Target};
use crate::wire::{Cheezburger, DIGEST, Headers};

/// How often a part is opened again that gets its place meanwhile.
const OPENS: u32 = 3;

/// What is announced of a file before its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    pub size: u64,
    pub mtime_ns: i64,
    pub mode: u32,
    /// Names the version, for the server that gave it.
    pub tag: Vec<u8>,
}

impl Announced {
    /// What the headers tell of a file.
    pub fn by(headers: &Headers) -> Announced {
        Announced {
            size: headers.size.unwrap_or(0),
            mtime_ns: headers.mtime_ns.unwrap_or(0),
            mode: headers.mode.unwrap_or(0o644) & 0o777,
            tag: headers.tag.clone(),
        }
    }
}

/// The part of a file that an earlier transfer has left, locked for this one.
pub struct Part {
    target: Box<dyn Target>,
    sidecar: Option<sidecar::Sidecar>,
}

/// A file that is received.
pub struct IncomingFile {
    target: Box<dyn Target>,
    blocks: Option<BlockLog>,
    name: Vec<u8>,
    announced: Announced,
    hasher: GroupHasher,
    tree: ValueTree,
    /// The groups that arrived, counted from 1.
    done: RangeSet,
    /// Octets that were written, and are in no recorded block.
    unrecorded: u64,
}

/// What became of a chunk.
pub struct Written {
    /// Octets, also of earlier chunks, that a later transfer does not need again, or that are wrong.
    pub recorded: u64,
    /// The offset of the first group that is not as it was announced.
    pub wrong_at: Option<u64>,
}

/// The sidecar, as it is written.
struct BlockLog {
    target: Box<dyn Target>,
    len: u64,
}

impl Part {
    /// Opens the part of a file, or creates it. Error: InUse.
    pub fn open(directory: &dyn Directory, name: &[u8]) -> Result<Part, FileError> {
        let target = lock_part(directory, &part_name(name))?.ok_or_else(in_use)?;
        Ok(Part { target, sidecar: read_sidecar(directory, name) })
    }

    /// The file that it is a part of.
    pub fn announced(&self) -> Option<&Announced> {
        self.sidecar.as_ref().map(|sidecar| &sidecar.announced)
    }
}

/// Opens a part, or creates it, and locks it. None: another transfer writes it.
pub fn lock_part(directory: &dyn Directory, part: &[u8]) -> Result<Option<Box<dyn Target>>, FileError> {
    for _ in 0..OPENS {
        let target = directory.create(part)?;
        if !target.try_lock()? {
            return Ok(None);
        }
        // Else the transfer that had locked it has put it in its place meanwhile: it is the finished file.
        if directory.is_named(part, &*target)? {
            return Ok(Some(target));
        }
    }
    Ok(None)
}

/// Another transfer writes the file.
pub fn in_use() -> FileError {
    FileError::new(Code::InUse, "another transfer writes this file")
}

fn read_sidecar(directory: &dyn Directory, name: &[u8]) -> Option<sidecar::Sidecar> {
    let (source, attributes) = directory.open(&blocks_name(name)).ok()?;
    let len = usize::try_from(attributes.size).ok()?;
    let mut octets = Vec::new();
    octets.try_reserve(len).ok()?;
    octets.resize(len, 0);
    let read = source.read(0, &mut octets).ok()?;
    sidecar::read(&octets[..read])
}

impl IncomingFile {
    /// Begins a file, with what the part has of it; a part of another version is truncated. Error: NoRoom, before any
    /// octet is written.
    pub fn begin(
        directory: &dyn Directory,
        name: &[u8],
        part: Part,
        announced: Announced,
    ) -> Result<IncomingFile, FileError> {
        let is_new = part.announced() != Some(&announced);
        if is_new {
            part.target.set_len(0)?;
        }
        let begun = IncomingFile::begin_compared(directory, name, part, announced);
        if is_new && begun.as_ref().is_err_and(|error| error.code == Code::NoRoom) {
            // Nothing has arrived: there is nothing to go on with later.
            let _ = directory.remove_file(&part_name(name));
            let _ = remove_blocks(directory, name);
        }
        begun
    }

    /// As `begin`, but the octets of another version stay in the part, to be compared with this one.
    pub fn begin_compared(
        directory: &dyn Directory,
        name: &[u8],
        part: Part,
        announced: Announced,
    ) -> Result<IncomingFile, FileError> {
        let Part { target, sidecar } = part;
        let (size, tree) = (announced.size, ValueTree::new(announced.size));
        let mut file = IncomingFile {
            target,
            blocks: None,
            name: name.to_vec(),
            hasher: GroupHasher::new(0, size),
            tree,
            done: RangeSet::default(),
            unrecorded: 0,
            announced,
        };
        let known = sidecar.filter(|known| known.announced == file.announced);
        if let Some(known) = &known {
            file.verify_part(&known.blocks)?;
        }
        file.target.allocate(size)?;
        if size > BLOCK {
            file.blocks =
                Some(BlockLog::open(directory, name, &file.announced, known.map(|known| known.len))?);
        } else if has_part(directory, name) {
            // It was the part of a larger version.
            remove_blocks(directory, name)?;
        }
        Ok(file)
    }

    /// Reads what the part has, and believes the blocks that have the recorded value.
    fn verify_part(&mut self, blocks: &[(u64, Value)]) -> Result<(), FileError> {
        let mut octets = vec![0; BLOCK as usize];
        for (block, value) in blocks {
            let Some(offset) = block.checked_mul(BLOCK).filter(|at| at + BLOCK <= self.announced.size) else {
                continue;
            };
            let first = offset / GROUP + 1;
            let is_new = !self.done.contains(first);
            if is_new
                && self.target.read(offset, &mut octets)? == octets.len()
                && block_value(*block, &octets) == *value
            {
                self.tree.add_block(*block, *value);
                self.done.add(first, first + BLOCK / GROUP - 1);
            }
        }
        Ok(())
    }

    /// Returns true if a whole block has arrived.
    pub fn has_block(&self, block: u64) -> bool {
        let first = block * (BLOCK / GROUP) + 1;
        self.done.contains_all(first, first + BLOCK / GROUP - 1)
    }

    /// Keeps a block of the part, if it has this value. `octets`: a buffer for a block.
    pub fn keep(&mut self, block: u64, value: &Value, octets: &mut [u8]) -> Result<bool, FileError> {
        let is_same =
            self.target.read(block * BLOCK, octets)? == octets.len() && block_value(block, octets) == *value;
        if is_same {
            self.add_block(block, value)?;
        }
        Ok(is_same)
    }

    /// Takes a block that was found elsewhere, if nothing of it has arrived.
    pub fn take_over(&mut self, block: u64, octets: &[u8], value: &Value) -> Result<(), FileError> {
        let first = block * (BLOCK / GROUP) + 1;
        let last = first + BLOCK / GROUP - 1;
        if self.done.count_in(first, last) > 0 {
            return Ok(());
        }
        self.target.write(block * BLOCK, octets)?;
        self.add_block(block, value)
    }

    fn add_block(&mut self, block: u64, value: &Value) -> Result<(), FileError> {
        let first = block * (BLOCK / GROUP) + 1;
        self.tree.add_block(block, *value);
        self.done.add(first, first + BLOCK / GROUP - 1);
        self.record(block, value).map(|_| ())
    }

    /// Gives it attributes, which it keeps when it gets its name.
    pub fn set_more(&self, more: &MoreAttributes) -> Result<(), FileError> {
        self.target.set_more(more)
    }

    pub fn size(&self) -> u64 {
        self.announced.size
    }

    pub fn announced(&self) -> &Announced {
        &self.announced
    }

    /// The parts that are missing, as offsets: first, and end. The only group of an empty file is the octet 0.
    pub fn missing(&self) -> Vec<(u64, u64)> {
        let (groups, mut missing, mut next) = (groups_of(self.announced.size), Vec::new(), 1);
        for (first, last) in self.done.iter().chain([(groups + 1, groups + 1)]) {
            if next < first {
                missing.push(((next - 1) * GROUP, ((first - 1) * GROUP).min(self.announced.size.max(1))));
            }
            next = last + 1;
        }
        missing
    }

    /// Returns true if nothing has arrived.
    pub fn is_empty(&self) -> bool {
        self.done.last() == 0
    }

    /// Verifies a chunk and writes it. A group with another value than announced stays missing. Errors: those of
    /// writing; Invalid, the chunk is outside the file, or does not begin where a group does.
    pub fn write(&mut self, burger: &Cheezburger<'_>, headers: &Headers) -> Result<Written, FileError> {
        let (offset, len) = (burger.offset, burger.chunk.len() as u64);
        if offset.checked_add(len).is_none_or(|end| end > self.announced.size) {
            return Err(FileError::new(Code::Invalid, "a chunk beyond the end of the file"));
        }
        if offset != self.hasher.offset() {
            if !offset.is_multiple_of(GROUP) {
                return Err(FileError::new(Code::Invalid, "a chunk that does not begin a group"));
            }
            self.hasher = GroupHasher::new(offset, self.announced.size);
        }
        let mut values = Vec::with_capacity(headers.groups.len() / DIGEST);
        if self.announced.size == 0 {
            values.push((0, group_value(0, b"", 0)));
        }
        for (at, piece) in (offset..).step_by(PIECE).zip(burger.chunk.chunks(PIECE)) {
            self.hasher.update(piece, |index, value| values.push((index, value)));
            self.write_missing(at, piece)?;
        }
        self.unrecorded += len;
        let (mut announced, mut wrong, mut recorded) = (headers.groups.chunks_exact(DIGEST), None, 0);
        for (index, value) in values {
            if announced.next() != Some(&value[..]) {
                wrong = wrong.or(Some(index));
            } else if self.done.contains(index + 1) {
                // It was here already.
                let len = GROUP.min(self.announced.size - index * GROUP).min(self.unrecorded);
                self.unrecorded -= len;
                recorded += len;
            } else {
                self.done.add(index + 1, index + 1);
                if let Some((block, value)) = self.tree.add(index, value) {
                    recorded += self.record(block, &value)?;
                }
            }
        }
        // A block with a wrong group is not recorded, and its credit is needed for those that follow.
        let begun = if self.blocks.is_some() { self.hasher.offset() % BLOCK } else { 0 };
        let rest = self.unrecorded.saturating_sub(begun);
        self.unrecorded -= rest;
        recorded += rest;
        Ok(Written { recorded, wrong_at: wrong.map(|index| index * GROUP) })
    }

    /// Writes octets, except those of groups that have arrived: these are verified, and stay.
    fn write_missing(&mut self, offset: u64, octets: &[u8]) -> Result<(), FileError> {
        let group_of = |offset: u64| offset / GROUP + 1;
        let last = offset + (octets.len() as u64).max(1) - 1;
        if self.done.count_in(group_of(offset), group_of(last)) == 0 {
            return self.target.write(offset, octets);
        }
        let (mut at, mut rest) = (offset, octets);
        while !rest.is_empty() {
            let (group, rest_of_group) = (group_of(at), (GROUP - at % GROUP) as usize);
            let (now, later) = rest.split_at(rest.len().min(rest_of_group));
            if !self.done.contains(group) {
                self.target.write(at, now)?;
            }
            (at, rest) = (at + now.len() as u64, later);
        }
        Ok(())
    }

    /// Records a block. Returns how many octets are recorded with it.
    fn record(&mut self, block: u64, value: &Value) -> Result<u64, FileError> {
        let Some(blocks) = &mut self.blocks else { return Ok(0) };
        let record = sidecar::record(block, value);
        blocks.target.write(blocks.len, &record)?;
        blocks.len += record.len() as u64;
        // What was written of the next block is not.
        let beyond = self.hasher.offset().saturating_sub((block + 1) * BLOCK).min(self.unrecorded);
        Ok(std::mem::replace(&mut self.unrecorded, beyond) - beyond)
    }

    /// Octets whose credit was not returned.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// As `unrecorded`: their credit is returned now.
    pub fn settle(&mut self) -> u64 {
        std::mem::take(&mut self.unrecorded)
    }

    /// Puts the whole file in its place. `digest`: what the sender announced. `sync`: first, its octets go to the disk.
    /// Error: Corrupt, it has another digest.
    pub fn finish(
        self,
        directory: &dyn Directory,
        digest: Option<Digest>,
        sync: bool,
    ) -> Result<Digest, FileError> {
        let own = self
            .tree
            .digest()
            .ok_or_else(|| FileError::new(Code::Corrupt, "parts of the file are missing"))?;
        if digest.is_some_and(|announced| announced != own) {
            return Err(FileError::new(Code::Corrupt, "the file has another digest than was announced"));
        }
        self.target.set_len(self.announced.size)?;
        self.target.set_attributes(self.announced.mtime_ns, self.announced.mode)?;
        if sync {
            self.target.sync()?;
        }
        directory.rename(&part_name(&self.name), &self.name)?;
        if self.blocks.is_some() {
            // The transfer before may have given the file its name, and then removed the record that this one uses.
            remove_blocks(directory, &self.name)?;
        }
        if sync {
            directory.sync()?;
        }
        Ok(own)
    }
}

impl BlockLog {
    /// `known`: the octets of the sidecar to keep.
    fn open(
        directory: &dyn Directory,
        name: &[u8],
        announced: &Announced,
        known: Option<u64>,
    ) -> Result<BlockLog, FileError> {
        let target = directory.create(&blocks_name(name))?;
        let len = match known {
            Some(len) => len,
            None => {
                let head = sidecar::head(announced);
                target.set_len(0)?;
                target.write(0, &head)?;
                head.len() as u64
            }
        };
        // Behind the last whole record there may be a torn one.
        target.set_len(len)?;
        Ok(BlockLog { target, len })
    }
}

/// Returns true if an earlier transfer has left blocks of a file.
pub fn has_part(directory: &dyn Directory, name: &[u8]) -> bool {
    directory.attributes(&blocks_name(name)).is_ok()
}

/// Removes the sidecar of a file's part, if there is one.
pub fn remove_blocks(directory: &dyn Directory, name: &[u8]) -> Result<(), FileError> {
    match directory.remove_file(&blocks_name(name)) {
        Err(error) if error.code == Code::NotFound => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::tree::disk::DiskFolder;
    use crate::tree::{Attributes, Folder, Names, Source, TreePath};

    /// A directory in which another transfer puts the part in its place when this one has opened it.
    struct Racing(Box<dyn Directory>, Cell<u32>);

    impl Directory for Racing {
        fn create(&self, name: &[u8]) -> Result<Box<dyn Target>, FileError> {
            let opened = self.0.create(name)?;
            if self.1.get() > 0 {
                self.1.set(self.1.get() - 1);
                self.0.rename(name, b"file")?;
            }
            Ok(opened)
        }

        fn attributes(&self, name: &[u8]) -> Result<Attributes, FileError> {
            self.0.attributes(name)
        }

        fn names(&self) -> Result<Names, FileError> {
            self.0.names()
        }

        fn directory(&self, name: &[u8]) -> Result<Box<dyn Directory>, FileError> {
            self.0.directory(name)
        }

        fn open(&self, name: &[u8]) -> Result<(Box<dyn Source>, Attributes), FileError> {
            self.0.open(name)
        }

        fn read_link(&self, name: &[u8]) -> Result<Vec<u8>, FileError> {
            self.0.read_link(name)
        }
    }

    #[test]
    fn a_finished_file_is_not_taken_for_its_part() {
        let dir = tempfile::tempdir().unwrap();
        let lock = |races| {
            let part = String::from_utf8(part_name(b"file")).unwrap();
            std::fs::write(dir.path().join(part), "finished").unwrap();
            let directory = DiskFolder::open(dir.path()).unwrap().directory(&TreePath::default()).unwrap();
            lock_part(&Racing(directory, Cell::new(races)), &part_name(b"file")).unwrap()
        };
        assert_eq!(lock(0).unwrap().attributes().unwrap().size, 8, "a part that was left");
        assert_eq!(lock(1).unwrap().attributes().unwrap().size, 0, "a new part");
        assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"finished");
        assert!(lock(OPENS).is_none());
    }
}
