//! The further names of files in a tree: made when the files have arrived.

use super::TreeTarget;
use crate::error::{Code, FileError};
use crate::transfer::hard_links::LaterName;
use crate::tree::{Attributes, Kind, TreePath};

impl TreeTarget {
    /// The files have arrived: makes their further names, and reports each that is new. Returns those that are to be
    /// fetched, because the file is not here, or not as it was listed, or cannot have this name.
    pub fn make_links(&mut self, mut report: impl FnMut(&LaterName)) -> Vec<TreePath> {
        let (links, mut wanted) = (self.links.take(), Vec::new());
        if !links.is_empty() {
            self.last = None;
        }
        for link in links {
            match self.make_link(&link) {
                Ok(true) => report(&link),
                Ok(false) => {}
                Err(_) => wanted.push(link.path),
            }
        }
        wanted
    }

    /// False: the name stays as it is. Error: it is to be fetched.
    fn make_link(&mut self, link: &LaterName) -> Result<bool, FileError> {
        let known = |tree: &mut TreeTarget, path: &TreePath| {
            let (directory, name) = tree.place_of(path)?;
            directory.attributes(&name)
        };
        let is_listed = |known: &Attributes| {
            known.kind == Kind::File && (known.size, known.mtime_ns) == (link.size, link.mtime_ns)
        };
        let own = known(self, &link.path).ok();
        if own.as_ref().is_some_and(|own| !self.selection.may_replace(own, link.mtime_ns)) {
            return Ok(false);
        }
        let first = match known(self, &link.first) {
            Ok(first) if is_listed(&first) => first,
            // The name keeps a file of its own.
            _ if own.as_ref().is_some_and(is_listed) => return Ok(false),
            _ => return Err(FileError::new(Code::Changed, "the file is not here as it was listed")),
        };
        if own.as_ref().is_some_and(|own| own.tag == first.tag) {
            return Ok(false);
        }
        if self.selection.rules.dry_run {
            return Ok(true);
        }
        if own.is_some_and(|own| own.kind == Kind::Directory) {
            self.make_way(&link.path, Kind::File)?;
        }
        self.folder.link(&link.first, &link.path)?;
        Ok(true)
    }
}
