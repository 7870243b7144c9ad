//! A request that follows a path: it lists the names below the path, and then tells each change.

use std::sync::Arc;

use super::changes::{PathChange, Subscription, Told};
use super::details::{Details, SharedFiles};
use super::walk::{Found, Walk, put};
use crate::error::{Code, FileError};
use crate::transfer::digest::digest_of;
use crate::tree::parts::is_part;
use crate::tree::{Folder, Kind, TreePath};

/// A path that is followed.
pub struct Follow {
    folder: Arc<dyn Folder>,
    subscription: Arc<Subscription>,
    details: Details,
    listing: DirectoryListing,
    /// The names of a move, whose present state is to be told.
    moved: Vec<TreePath>,
}

/// A directory that is listed with all below it: the path at first and after changes were lost, and each directory that
/// is new at its place.
enum DirectoryListing {
    ToBegin(TreePath),
    /// Its name, and the walk. None: there is no such directory.
    UnderWay(Vec<u8>, Option<Walk>),
    Over,
}

/// What there is to tell. Names are relative to the path.
pub enum Followed {
    /// The listing of a directory begins.
    Begin(Vec<u8>),
    Found(Found),
    /// The listing of a directory is complete.
    Listed(Vec<u8>),
    Gone(Vec<u8>),
    Moved {
        from: Vec<u8>,
        to: Vec<u8>,
    },
}

impl Follow {
    pub fn new(folder: Arc<dyn Folder>, subscription: Arc<Subscription>, details: Details) -> Follow {
        let listing = DirectoryListing::ToBegin(subscription.base().clone());
        Follow { folder, subscription, details, listing, moved: Vec::new() }
    }

    /// The next step begins: digests may be computed.
    pub fn begin_step(&mut self) {
        if let DirectoryListing::UnderWay(_, Some(walk)) = &mut self.listing {
            walk.begin_step();
        }
    }

    /// What to tell next; an entry is appended.
    pub fn next(&mut self, into: &mut Vec<u8>) -> Followed {
        loop {
            if let Some(told) = self.list(into) {
                return told;
            }
            let change = match self.moved.pop() {
                Some(path) => Told::PathChange(PathChange::At(path)),
                None => self.subscription.take(),
            };
            match change {
                Told::Nothing => return Followed::Found(Found::Nothing),
                Told::Lost => self.listing = DirectoryListing::ToBegin(self.subscription.base().clone()),
                Told::PathChange(PathChange::Moved { from, to }) => {
                    let names = [&from, &to].map(|path| self.name_of(path));
                    self.moved = vec![to, from];
                    let [from, to] = names;
                    return Followed::Moved { from, to };
                }
                Told::PathChange(PathChange::At(path)) => {
                    if let Some(told) = self.look_up(&path, into) {
                        return told;
                    }
                }
            }
        }
    }

    /// Goes on with the listing. None: there is none.
    fn list(&mut self, into: &mut Vec<u8>) -> Option<Followed> {
        match std::mem::replace(&mut self.listing, DirectoryListing::Over) {
            DirectoryListing::Over => None,
            DirectoryListing::ToBegin(path) => {
                let name = self.name_of(&path);
                let (walk, told) = match self.walk_below(&path) {
                    Ok(walk) => (Some(walk), Followed::Begin(name.clone())),
                    // It does not exist yet, or no longer.
                    Err(error) if error.code == Code::NotFound => (None, Followed::Begin(name.clone())),
                    Err(error) => (None, Followed::Found(Found::Failed(name.clone(), error))),
                };
                self.listing = DirectoryListing::UnderWay(name, walk);
                Some(told)
            }
            DirectoryListing::UnderWay(name, walk) => {
                if let Some(mut walk) = walk {
                    let found = walk.next(into);
                    if !matches!(found, Found::Nothing) {
                        self.listing = DirectoryListing::UnderWay(name, Some(walk));
                        return Some(Followed::Found(found));
                    }
                }
                Some(Followed::Listed(name))
            }
        }
    }

    fn walk_below(&self, path: &TreePath) -> Result<Walk, FileError> {
        Walk::new(self.folder.directory(path)?, &self.name_of(path), self.details)
    }

    fn name_of(&self, path: &TreePath) -> Vec<u8> {
        path.relative_to(self.subscription.base()).to_vec()
    }

    /// Tells what a path is now. None: nothing that may be told.
    fn look_up(&mut self, path: &TreePath, into: &mut Vec<u8>) -> Option<Followed> {
        if path == self.subscription.base() {
            if self.is_gone() {
                return Some(Followed::Gone(Vec::new()));
            }
            self.listing = DirectoryListing::ToBegin(path.clone());
            return None;
        }
        let name = self.name_of(path);
        if name.split(|octet| *octet == b'/').any(is_part) {
            return None;
        }
        match self.put(path, &name, into) {
            Ok(()) => Some(Followed::Found(Found::Entry)),
            Err(error) => match error.code {
                // Of a path that is gone itself, the copy keeps all.
                Code::NotFound if self.is_gone() => Some(Followed::Gone(Vec::new())),
                Code::NotFound => Some(Followed::Gone(name)),
                // A device, a pipe, or a path that leads over a link now.
                Code::NotPlain => None,
                _ => Some(Followed::Found(Found::Failed(name, error))),
            },
        }
    }

    /// Returns true if the followed path does not exist.
    fn is_gone(&self) -> bool {
        matches!(self.folder.directory(self.subscription.base()), Err(error) if error.code == Code::NotFound)
    }

    fn put(&mut self, path: &TreePath, name: &[u8], into: &mut Vec<u8>) -> Result<(), FileError> {
        let Some((parent, last)) = path.split_last() else { return Ok(()) };
        let directory = self.folder.directory(&parent)?;
        let digest = match self.details.digests && directory.attributes(last)?.kind == Kind::File {
            true => Some(digest_of(&*directory.open(last)?.0)?),
            false => None,
        };
        let (names, shared) = ((last, name), &mut SharedFiles::default());
        if put(into, &*directory, names, self.details, shared, digest)? == Kind::Directory {
            self.listing = DirectoryListing::ToBegin(path.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::changes::Changes;
    use crate::tree::disk::DiskFolder;

    #[test]
    fn what_goes_with_the_path_is_not_told_one_by_one() {
        for base in ["", "sub"] {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("root");
            std::fs::create_dir_all(root.join(base)).unwrap();
            std::fs::write(root.join(base).join("file"), "").unwrap();
            let folder = Arc::new(DiskFolder::open(&root).unwrap());
            let changes = Changes::new(Box::new(|| Ok(())));
            let base = TreePath::parse(base.as_bytes()).unwrap();
            let subscription = changes.subscribe(base.clone(), Arc::new(|| {})).unwrap();
            let mut follow = Follow::new(folder, subscription, Details::default());
            let mut entries = Vec::new();
            while !matches!(follow.next(&mut entries), Followed::Found(Found::Nothing)) {}
            changes.tell(Some(&[PathChange::At(base.join(b"file").unwrap())]));
            std::fs::remove_dir_all(root).unwrap();
            assert!(matches!(follow.next(&mut entries), Followed::Gone(name) if name.is_empty()));
        }
    }
}
