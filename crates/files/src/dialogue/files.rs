//! The files of a request, opened one after the other.

use std::sync::Arc;
use std::vec::IntoIter;

use super::details::Details;
use super::values::BlockValues;
use crate::error::{Code, FileError};
use crate::transfer::outgoing::OutgoingFile;
use crate::transfer::pack::Packer;
use crate::transfer::sent_values::SentValues;
use crate::tree::{Attributes, Directory, Folder, Kind, MoreAttributes, Source, TreePath};
use crate::wire::{Entry, Extra, Mode, Request, put_entry, put_entry_with_extra};

/// The files of a request.
pub struct Files {
    folder: Arc<dyn Folder>,
    base: TreePath,
    names: IntoIter<Vec<u8>>,
    pub ranges: Vec<(u64, u64)>,
    pub tag: Vec<u8>,
    pub known: Option<(u64, i64)>,
    /// The values of blocks are asked for, and not the blocks.
    pub is_compared: bool,
    /// The directory of the last name.
    directory: Option<(TreePath, Box<dyn Directory>)>,
    /// Opened, and not begun.
    next: Option<Opened>,
    pub is_sparse: bool,
    details: Details,
    /// Present if chunks may be compressed.
    pub packer: Option<Packer>,
    pub current: Option<OutgoingFile>,
    pub values: Option<BlockValues>,
    pub sent_values: Arc<SentValues>,
}

pub struct Opened {
    pub name: Vec<u8>,
    pub source: Box<dyn Source>,
    pub attributes: Attributes,
    pub more: MoreAttributes,
}

impl Files {
    /// `names`: below `base`; an empty one is `base` itself.
    pub fn new(
        request: &Request,
        (folder, base): (Arc<dyn Folder>, TreePath),
        names: Vec<Vec<u8>>,
        sent_values: Arc<SentValues>,
    ) -> Files {
        let (directory, next, current, values) = Default::default();
        Files {
            folder,
            base,
            names: names.into_iter(),
            ranges: request.ranges.clone(),
            tag: request.tag.clone(),
            known: request.known,
            is_compared: request.mode == Mode::Values,
            directory,
            next,
            is_sparse: request.rules.sparse,
            details: Details::of(request),
            packer: request.rules.compress.then(Packer::new).flatten(),
            current,
            values,
            sent_values,
        }
    }

    /// Gives back a file that was opened: it is the next one.
    pub fn put_back(&mut self, opened: Opened) {
        self.next = Some(opened);
    }

    /// Opens the next file. Error: its name, and why it failed.
    pub fn open_next(&mut self) -> Option<Result<Opened, (Vec<u8>, FileError)>> {
        if let Some(opened) = self.next.take() {
            return Some(Ok(opened));
        }
        let name = self.names.next()?;
        Some(match self.open(&name) {
            Ok((source, attributes)) => match self.details.more_of(&attributes, || source.xattrs()) {
                Ok(more) => Ok(Opened { name, source, attributes, more }),
                Err(error) => Err((name, error)),
            },
            Err(error) => Err((name, error)),
        })
    }

    fn open(&mut self, name: &[u8]) -> Result<(Box<dyn Source>, Attributes), FileError> {
        let path = self.base.join(name)?;
        let Some((parent, last)) = path.split_last() else {
            return Err(FileError::new(Code::Invalid, "it is a directory"));
        };
        let directory = match self.directory.take().filter(|(known, _)| *known == parent) {
            Some((_, directory)) => directory,
            None => self.folder.directory(&parent)?,
        };
        let opened = directory.open(last);
        self.directory = Some((parent, directory));
        opened
    }
}

impl Opened {
    /// The most octets of its entry.
    pub fn cost(&self) -> u64 {
        let xattrs = self.more.xattrs.as_ref().map_or(0, Vec::len);
        self.attributes.size + (self.name.len() + xattrs) as u64 + 120
    }

    /// Appends it as an entry of a pack. `content` is a buffer.
    pub fn add_to(
        &self,
        frame: &mut Vec<u8>,
        content: &mut Vec<u8>,
        has_extra: bool,
    ) -> Result<(), FileError> {
        // One octet more, to notice a file that grows.
        content.resize(self.attributes.size as usize + 1, 0);
        let len = self.source.read(0, content)?;
        content.truncate(len);
        if len as u64 != self.attributes.size {
            return Err(FileError::new(Code::Changed, "the file was changed while it was read"));
        }
        let digest = *blake3::hash(content).as_bytes();
        let entry = Entry {
            kind: Kind::File,
            name: &self.name,
            size: self.attributes.size,
            mtime_ns: self.attributes.mtime_ns,
            mode: self.attributes.mode,
            target: b"",
            content: Some((&digest, content)),
            extra: Extra::of(&self.more),
        };
        let put = if has_extra { put_entry_with_extra } else { put_entry };
        put(frame, &entry).map_err(|text| FileError::new(Code::Limit, text))
    }
}
