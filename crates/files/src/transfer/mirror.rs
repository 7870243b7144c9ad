//! Removes here what the source does not have.

use std::collections::HashSet;

use crate::error::{Code, FileError};
use crate::tree::{DEPTH_MAX, Directory, Folder, Kind, TreePath, is_part};

/// How a transfer removes what the source does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deletion {
    /// If the source lacks more files and directories than this, none is removed.
    pub most: Option<u64>,
    /// Everything may be removed: an empty source is no error.
    pub force: bool,
}

/// The names that the source has, and what is removed by them.
pub struct Mirror {
    deletion: Deletion,
    listing: Option<ListedNames>,
}

/// A listing of a directory that is under way.
struct ListedNames {
    base: TreePath,
    /// Names are kept as digests, so that each takes the same memory.
    names: HashSet<[u8; 16]>,
    /// Names are missing.
    is_incomplete: bool,
}

impl Mirror {
    pub fn new(deletion: Deletion) -> Mirror {
        Mirror { deletion, listing: None }
    }

    /// The source lists a directory.
    pub fn begin(&mut self, base: TreePath) {
        self.listing = Some(ListedNames { base, names: HashSet::new(), is_incomplete: false });
    }

    /// The source has a name.
    pub fn add(&mut self, name: &[u8]) {
        if let Some(listing) = &mut self.listing {
            listing.names.insert(digest_of(name));
        }
    }

    /// A path failed. If it is not listed yet, it is not known what the source has.
    pub fn miss(&mut self, path: &TreePath) {
        if let Some(listing) = &mut self.listing {
            listing.is_incomplete |= !listing.names.contains(&digest_of(path.as_bytes()));
        }
    }

    /// After a listing: removes what it did not have, and reports each path. Errors: the listing is not complete, or is
    /// empty; more would be removed than is allowed; those of the file system.
    pub fn remove_unlisted(
        &mut self,
        folder: &dyn Folder,
        mut removed: impl FnMut(&TreePath),
    ) -> Result<(), FileError> {
        let refused = |code, text: &str| Err(FileError::new(code, format!("nothing was removed: {text}")));
        let Some(ListedNames { base, names, is_incomplete }) = self.listing.take() else { return Ok(()) };
        if is_incomplete {
            return refused(Code::Invalid, "the listing of the source is not complete");
        }
        let (mut unlisted, mut count) = (Vec::new(), 0);
        match folder.directory(&base) {
            Ok(directory) => find(&*directory, &base, &names, &mut unlisted, &mut count)?,
            // Something else has taken its place since.
            Err(_) => return Ok(()),
        }
        if base.is_empty() && names.is_empty() && !unlisted.is_empty() && !self.deletion.force {
            return refused(Code::Denied, "the source is empty");
        }
        if let Some(most) = self.deletion.most.filter(|most| count > *most) {
            let text =
                format!("{count} files and directories are not at the source, and {most} may be removed");
            return refused(Code::Limit, &text);
        }
        for path in unlisted {
            remove(folder, &path)?;
            removed(&path);
        }
        Ok(())
    }
}

fn digest_of(name: &[u8]) -> [u8; 16] {
    let mut digest = [0; 16];
    digest.copy_from_slice(&blake3::hash(name).as_bytes()[..16]);
    digest
}

/// Finds the names below a directory that are not listed. Of a directory that is not listed, `count` has all names.
fn find(
    directory: &dyn Directory,
    path: &TreePath,
    listed: &HashSet<[u8; 16]>,
    unlisted: &mut Vec<TreePath>,
    count: &mut u64,
) -> Result<(), FileError> {
    for name in directory.names()? {
        let name = name?;
        if is_part(&name) {
            continue;
        }
        let below = path.join(&name)?;
        // What is neither a file nor a directory nor a link is not removed.
        let Ok(attributes) = directory.attributes(&name) else { continue };
        let is_listed = listed.contains(&digest_of(below.as_bytes()));
        if !is_listed {
            *count += 1;
        }
        if attributes.kind == Kind::Directory {
            let mut deeper = Vec::new();
            find(&*directory.directory(&name)?, &below, listed, &mut deeper, count)?;
            if is_listed {
                unlisted.append(&mut deeper);
            }
        }
        if !is_listed {
            unlisted.push(below);
        }
    }
    Ok(())
}

/// Removes a path with all below it. False: nothing has it.
pub fn remove(folder: &dyn Folder, path: &TreePath) -> Result<bool, FileError> {
    let Some((parent, name)) = path.split_last() else {
        return Err(FileError::new(Code::Denied, "the folder itself is not removed"));
    };
    let removed = folder.directory(&parent).and_then(|directory| remove_tree(&*directory, name, 0));
    match removed {
        Err(error) if error.code == Code::NotFound => Ok(false),
        outcome => outcome.map(|()| true),
    }
}

fn remove_tree(directory: &dyn Directory, name: &[u8], depth: usize) -> Result<(), FileError> {
    if directory.attributes(name)?.kind != Kind::Directory {
        return directory.remove_file(name);
    }
    if depth > DEPTH_MAX {
        return Err(FileError::new(Code::Limit, "more than 256 directories deep"));
    }
    let below = directory.directory(name)?;
    for name in below.names()? {
        remove_tree(&*below, &name?, depth + 1)?;
    }
    directory.remove_directory(name)
}
