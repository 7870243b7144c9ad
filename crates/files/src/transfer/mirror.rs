//! Removes here what the source does not have.

use std::collections::HashMap;

use super::selection::{Filter, Selection};
use crate::error::{Code, FileError};
use crate::tree::parts::is_part;
use crate::tree::{Directory, Folder, Kind, TreePath};

/// Collects the names of the source, and removes the others.
#[derive(Default)]
pub struct Mirror {
    listing: Option<ListedNames>,
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
    /// The source lists a directory.
    pub fn begin(&mut self, base: TreePath) {
        self.listing = Some(ListedNames { base, names: HashMap::new(), is_incomplete: false });
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
    /// empty; more would be removed than is allowed, which a dry run reports nevertheless; those of the file system.
    pub fn remove_unlisted(
        &mut self,
        folder: &dyn Folder,
        selection: &Selection,
        mut removed: impl FnMut(&TreePath),
    ) -> Result<(), FileError> {
        let (filter, rules) = (&selection.filter, &selection.rules);
        let Some(ListedNames { base, names, is_incomplete }) = self.listing.take() else { return Ok(()) };
        if is_incomplete {
            return Err(selection.refused(Code::Invalid, "the listing of the source is not complete"));
        }
        let mut search = Search::new(filter, &names);
        match folder.directory(&base) {
            Ok(directory) => search.find(&*directory, &base)?,
            // Something else has taken its place since.
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        let Search { unlisted, count, .. } = search;
        let is_forced = rules.deletion.is_some_and(|deletion| deletion.force);
        if base.is_empty() && names.is_empty() && !unlisted.is_empty() && !is_forced {
            return Err(selection.refused(Code::Denied, "the source is empty"));
        }
        let allowed = selection.count_removals(count);
        if rules.dry_run {
            unlisted.iter().for_each(removed);
            return allowed;
        }
        allowed?;
        for path in unlisted {
            if remove_uncounted(folder, filter, &path)? {
                removed(&path);
            }
        }
        Ok(())
    }
}

/// Something here has the name of the source's directory, or a directory here that of something else.
pub fn in_the_way(own: Kind, new: Kind) -> FileError {
    let word = |kind| match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "link",
    };
    FileError::new(Code::Denied, format!("a {} is in the way of a {}", word(own), word(new)))
}

/// Removes a directory where the source has something else (`new`), or the other way round; in a dry run it stays.
/// Errors: Denied, the rules remove nothing, or leave out names that are in the way; Limit, more would be removed than
/// is allowed. Then it is left as it is.
pub fn make_way(
    folder: &dyn Folder,
    selection: &Selection,
    path: &TreePath,
    new: Kind,
) -> Result<(), FileError> {
    // What cannot be looked up shows when the name is made.
    let Ok(own) = folder.kind(path) else { return Ok(()) };
    if (own == Kind::Directory) == (new == Kind::Directory) {
        return Ok(());
    }
    if selection.rules.deletion.is_none() {
        return Err(in_the_way(own, new));
    }
    let (count, is_filtered) = count_below(folder, &selection.filter, path)?;
    if is_filtered || selection.filter.excludes(path, true) {
        return Err(FileError::new(Code::Denied, "what is in the way has names that the rules leave out"));
    }
    let limited = |error: FileError| FileError::new(error.code, format!("{}; {error}", in_the_way(own, new)));
    selection.count_removals(count).map_err(limited)?;
    match selection.rules.dry_run {
        true => Ok(()),
        false => remove_uncounted(folder, &selection.filter, path).map(|_| ()),
    }
}

/// Counts a path and all below it that the rules do not leave out. True: there are names that they do.
fn count_below(folder: &dyn Folder, filter: &Filter, path: &TreePath) -> Result<(u64, bool), FileError> {
    let none = HashMap::new();
    let mut search = Search::new(filter, &none);
    if let Ok(directory) = folder.directory(path) {
        search.find(&*directory, path)?;
    }
    Ok((search.count + 1, search.is_filtered))
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

/// Removes a path with all below it, except names that the rules leave out. Returns true if the path is gone. In a dry
/// run it stays, and the result is what it would be. Errors: Limit, more would be removed than is allowed; those of the
/// file system.
pub fn remove(folder: &dyn Folder, selection: &Selection, path: &TreePath) -> Result<bool, FileError> {
    let filter = &selection.filter;
    let kind = match folder.kind(path) {
        Ok(kind) => kind,
        Err(error) if error.code == Code::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if filter.excludes(path, kind == Kind::Directory) {
        return Ok(false);
    }
    let (count, is_filtered) = count_below(folder, filter, path)?;
    // A directory that keeps names stays.
    selection.count_removals(count - u64::from(is_filtered))?;
    match selection.rules.dry_run {
        true => Ok(!is_filtered),
        false => remove_uncounted(folder, filter, path),
    }
}

fn remove_uncounted(folder: &dyn Folder, filter: &Filter, path: &TreePath) -> Result<bool, FileError> {
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
