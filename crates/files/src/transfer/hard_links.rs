//! The names of a listing that are further names of a file which has another one.
//!
//! They are made when the files have arrived.

use std::collections::HashSet;

use crate::error::{Code, FileError};
use crate::tree::TreePath;
use crate::wire::{Entry, HardLink, Kind};

/// The most octets of names that are kept; then such files are fetched by each name.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// A further name.
pub struct LaterName {
    pub path: TreePath,
    pub first: TreePath,
    /// Of the file, as it was listed.
    pub size: u64,
    pub mtime_ns: i64,
}

/// The names of a listing.
#[derive(Default)]
pub struct HardLinks {
    firsts: HashSet<TreePath>,
    later: Vec<LaterName>,
    bytes: usize,
}

impl HardLinks {
    /// Keeps what an entry tells of names. True: it is a further name, and not to be fetched. `takes_part`: whether a
    /// path is part of the transfer. Error: Invalid, it is no name of a file that was listed.
    pub fn add(
        &mut self,
        path: &TreePath,
        entry: &Entry<'_>,
        takes_part: impl Fn(&TreePath) -> bool,
    ) -> Result<bool, FileError> {
        let is_kept = self.bytes < NAMES_BYTES_MAX;
        match entry.extra.link {
            HardLink::None => Ok(false),
            _ if entry.kind != Kind::File => {
                Err(FileError::new(Code::Invalid, "a hard link that is no file"))
            }
            HardLink::First => {
                if is_kept {
                    self.bytes += path.as_bytes().len();
                    self.firsts.insert(path.clone());
                }
                Ok(false)
            }
            HardLink::Later(first) => {
                let first = TreePath::parse(first)?;
                if first == *path || takes_part(&first) && is_kept && !self.firsts.contains(&first) {
                    let text = "a hard link to a file that is not part of this transfer";
                    return Err(FileError::new(Code::Invalid, text));
                }
                if !is_kept || !takes_part(&first) {
                    return Ok(false);
                }
                self.bytes += path.as_bytes().len() + first.as_bytes().len();
                let (size, mtime_ns) = (entry.size, entry.mtime_ns);
                self.later.push(LaterName { path: path.clone(), first, size, mtime_ns });
                Ok(true)
            }
        }
    }

    /// All names are listed, and the files are here: the names that are to be made.
    pub fn take(&mut self) -> Vec<LaterName> {
        std::mem::take(self).later
    }
}
