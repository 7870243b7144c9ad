//! Removes here what the source does not have.

use std::collections::HashMap;

use super::selection::Filter;
use crate::error::{Code, FileError};
use crate::rules::Deletion;
use crate::tree::{Directory, Folder, Kind, TreePath, is_part};

/// Collects the names of the source, and removes the others.
pub struct Mirror {
    deletion: Deletion,
    listing: Option<ListedNames>,
    /// What was in the way of files and directories of this listing, and was removed.
    cleared: u64,
}

/// A listing of a directory that is under way.
struct ListedNames {
    base: TreePath,
    /// As digests; true: a directory.
    names: HashMap<[u8; 16], bool>,
    /// Names are missing.
    is_incomplete: bool,
}

impl Mirror {
    pub fn new(deletion: Deletion) -> Mirror {
        Mirror { deletion, listing: None, cleared: 0 }
    }

    /// The source lists a directory.
    pub fn begin(&mut self, base: TreePath) {
        self.listing = Some(ListedNames { base, names: HashMap::new(), is_incomplete: false });
        self.cleared = 0;
    }

    /// The source has a path.
    pub fn add(&mut self, path: &TreePath, is_directory: bool) {
        if let Some(listing) = &mut self.listing {
            listing.names.insert(path.digest(), is_directory);
        }
    }

    /// A path failed. Unless it is a file that is listed, it is not known what the source has: of a directory, what is
    /// in it.
    pub fn miss(&mut self, path: &TreePath) {
        if let Some(listing) = &mut self.listing {
            listing.is_incomplete |=
                listing.names.get(&path.digest()).is_none_or(|is_directory| *is_directory);
        }
    }

    /// After a listing: removes what it did not have, and reports each path. Errors: the listing is not complete, or is
    /// empty; more would be removed than is allowed; those of the file system.
    pub fn remove_unlisted(
        &mut self,
        folder: &dyn Folder,
        filter: &Filter,
        is_dry: bool,
        mut removed: impl FnMut(&TreePath),
    ) -> Result<(), FileError> {
        let refused = |code, text: &str| Err(FileError::new(code, format!("nothing was removed: {text}")));
        let Some(ListedNames { base, names, is_incomplete }) = self.listing.take() else { return Ok(()) };
        if is_incomplete {
            return refused(Code::Invalid, "the listing of the source is not complete");
        }
        let mut search = Search::new(filter, &names);
        search.count = self.cleared;
        match folder.directory(&base) {
            Ok(directory) => search.find(&*directory, &base)?,
            // Something else has taken its place since.
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        let Search { unlisted, count, .. } = search;
        if base.is_empty() && names.is_empty() && !unlisted.is_empty() && !self.deletion.force {
            return refused(Code::Denied, "the source is empty");
        }
        if let Some(most) = self.deletion.most.filter(|most| count > *most) {
            let text =
                format!("{count} files and directories are not at the source, and {most} may be removed");
            return refused(Code::Limit, &text);
        }
        for path in unlisted {
            if is_dry || remove(folder, filter, &path)? {
                removed(&path);
            }
        }
        Ok(())
    }

    /// Removes a directory where the source has something else, or the other way round. Errors: Denied, there are names
    /// that the rules leave out; Limit, more would be removed than is allowed. Then it is left as it is.
    pub fn clear(&mut self, folder: &dyn Folder, filter: &Filter, path: &TreePath) -> Result<(), FileError> {
        let none = HashMap::new();
        let mut search = Search::new(filter, &none);
        search.count = self.cleared + 1;
        if let Ok(directory) = folder.directory(path) {
            search.find(&*directory, path)?;
        }
        if search.is_filtered || filter.excludes(path, true) {
            return Err(FileError::new(
                Code::Denied,
                "what is in the way has names that the rules leave out",
            ));
        }
        if let Some(most) = self.deletion.most.filter(|most| search.count > *most) {
            let text = format!("what is in the way has too many names: {most} may be removed");
            return Err(FileError::new(Code::Limit, text));
        }
        self.cleared = search.count;
        remove(folder, filter, path).map(|_| ())
    }
}

/// A search for names that the source does not have.
struct Search<'a> {
    filter: &'a Filter,
    names: &'a HashMap<[u8; 16], bool>,
    /// Of a directory that is not listed, it alone.
    unlisted: Vec<TreePath>,
    /// Of a directory that is not listed, with all below it.
    count: u64,
    /// There are names that the rules leave out.
    is_filtered: bool,
}

impl<'a> Search<'a> {
    fn new(filter: &'a Filter, names: &'a HashMap<[u8; 16], bool>) -> Search<'a> {
        Search { filter, names, unlisted: Vec::new(), count: 0, is_filtered: false }
    }

    fn find(&mut self, directory: &dyn Directory, path: &TreePath) -> Result<(), FileError> {
        for name in directory.names()? {
            let name = name?;
            let below = path.join(&name)?;
            let attributes = match directory.attributes(&name) {
                Ok(attributes) => attributes,
                // What is neither a file nor a directory nor a link is not removed.
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(error),
            };
            let is_directory = attributes.kind == Kind::Directory;
            if self.filter.excludes(&below, is_directory) {
                self.is_filtered = true;
                continue;
            }
            if is_part(&name) {
                continue;
            }
            let is_listed = self.names.contains_key(&below.digest());
            self.count += u64::from(!is_listed);
            if is_directory {
                let found = self.unlisted.len();
                self.find(&*directory.directory(&name)?, &below)?;
                if !is_listed {
                    self.unlisted.truncate(found);
                }
            }
            if !is_listed {
                self.unlisted.push(below);
            }
        }
        Ok(())
    }
}

/// Returns true if there is no such name, or something that transfers leave alone.
fn is_gone(error: &FileError) -> bool {
    matches!(error.code, Code::NotFound | Code::NotPlain)
}

/// Removes a path with all below it, except names that the rules leave out. Returns true if the path is gone.
pub fn remove(folder: &dyn Folder, filter: &Filter, path: &TreePath) -> Result<bool, FileError> {
    let Some((parent, name)) = path.split_last() else {
        return Err(FileError::new(Code::Denied, "the folder itself is not removed"));
    };
    let removed =
        folder.directory(&parent).and_then(|directory| remove_tree(&*directory, filter, path, name));
    match removed {
        Err(error) if error.code == Code::NotFound => Ok(false),
        outcome => outcome,
    }
}

fn remove_tree(
    directory: &dyn Directory,
    filter: &Filter,
    path: &TreePath,
    name: &[u8],
) -> Result<bool, FileError> {
    let is_directory = directory.attributes(name)?.kind == Kind::Directory;
    if filter.excludes(path, is_directory) {
        return Ok(false);
    }
    if !is_directory {
        return directory.remove_file(name).map(|()| true);
    }
    let (below, mut is_empty) = (directory.directory(name)?, true);
    for name in below.names()? {
        let name = name?;
        is_empty &= remove_tree(&*below, filter, &path.join(&name)?, &name)?;
    }
    if is_empty {
        directory.remove_directory(name)?;
    }
    Ok(is_empty)
}
