//! What a listing tells of each name besides its attributes.

use std::collections::HashMap;

use crate::error::FileError;
use crate::rules::Rules;
use crate::tree::{Attributes, Kind, MoreAttributes};
use crate::wire::{HardLink, NAME_MAX, Request};

/// The most octets of names that a listing keeps to recognise further names of their files; then such files are sent by
/// each name.
const LINKS_BYTES_MAX: usize = 4 << 20;

/// What is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Details {
    /// Files are read for their digests.
    pub digests: bool,
    /// Files of several names are recognised.
    pub hard_links: bool,
    pub owner: bool,
    pub xattrs: bool,
}

impl Details {
    pub fn of(request: &Request) -> Details {
        let Rules { hard_links, owner, xattrs, .. } = request.rules;
        Details { digests: request.digests, hard_links, owner, xattrs }
    }

    /// Entries of a listing have `Extra`.
    pub fn has_extra(self) -> bool {
        self.hard_links || self.has_more()
    }

    /// Entries with content have `Extra`.
    pub fn has_more(self) -> bool {
        self.owner || self.xattrs
    }

    /// What is sent of a name. `xattrs` reads its extended attributes.
    pub fn more_of(
        self,
        attributes: &Attributes,
        xattrs: impl FnOnce() -> Result<Vec<u8>, FileError>,
    ) -> Result<MoreAttributes, FileError> {
        let xattrs = (self.xattrs && attributes.kind != Kind::Link).then(xattrs).transpose()?;
        Ok(MoreAttributes { owner: self.owner.then_some(attributes.owner), xattrs })
    }
}

/// The files of several names that were listed.
#[derive(Default)]
pub struct SharedFiles {
    /// By device and inode: the first name.
    firsts: HashMap<(u64, u64), Vec<u8>>,
    bytes: usize,
}

impl SharedFiles {
    /// Whether a name is the first or a later one of its file.
    pub fn link_of(&mut self, attributes: &Attributes, name: &[u8]) -> HardLink<'_> {
        let Some(file) = attributes.shared else { return HardLink::None };
        if self.firsts.contains_key(&file) {
            return self.firsts.get(&file).map_or(HardLink::None, |first| HardLink::Later(first));
        }
        if name.len() > NAME_MAX || self.bytes + name.len() > LINKS_BYTES_MAX {
            return HardLink::None;
        }
        self.bytes += name.len();
        self.firsts.insert(file, name.to_vec());
        HardLink::First
    }
}
