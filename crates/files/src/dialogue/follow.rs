//! A request that follows a path: it lists the names below the path, and then tells each change.

use std::sync::Arc;

use super::changes::{PathChange, Subscription, Told};
use super::details::{Details, SharedFiles};
use super::walk::{Found, Walk, put};
use crate::error::{Code, FileError};
use crate::tree::parts::is_part;
use crate::tree::{Folder, Kind, TreePath};

/// A path that is followed.
pub struct Follow {
    folder: Arc<dyn Folder>,
    subscription: Arc<Subscription>,
    details: Details,
    listing: ListingStep,
    /// The names of a move, whose present state is to be told.
    moved: Vec<TreePath>,
    /// The subscriber knows that the path does not exist.
    has_told_gone: bool,
}

/// What is listed.
enum ListingStep {
    /// A directory with all below it: the path at first and after changes were lost, and each directory that is new at
    /// its place.
    ToBegin(TreePath),
    /// Its name, and the walk. None: there is no such directory.
    UnderWay(Vec<u8>, Option<Walk>),
    /// A file whose digest is computed.
    OfFile(Walk),
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
        let listing = ListingStep::ToBegin(subscription.base().clone());
        Follow { folder, subscription, details, listing, moved: Vec::new(), has_told_gone: false }
    }

    /// The next step begins: digests may be computed.
    pub fn begin_step(&mut self) {
        if let ListingStep::UnderWay(_, Some(walk)) | ListingStep::OfFile(walk) = &mut self.listing {
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
                Told::Lost => self.listing = ListingStep::ToBegin(self.subscription.base().clone()),
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
        match std::mem::replace(&mut self.listing, ListingStep::Over) {
            ListingStep::Over => None,
            ListingStep::ToBegin(path) => {
                let name = self.name_of(&path);
                let (walk, told) = match self.walk_below(&path) {
                    Ok(walk) => {
                        self.has_told_gone = false;
                        (Some(walk), Followed::Begin(name.clone()))
                    }
                    // It does not exist yet, or no longer.
                    Err(error) if error.code == Code::NotFound => {
                        self.has_told_gone = true;
                        (None, Followed::Begin(name.clone()))
                    }
                    Err(error) => (None, Followed::Found(Found::Failed(name.clone(), error))),
                };
                self.listing = ListingStep::UnderWay(name, walk);
                Some(told)
            }
            ListingStep::UnderWay(name, walk) => {
                if let Some(mut walk) = walk {
                    let found = walk.next(into);
                    if !matches!(found, Found::Nothing) {
                        self.listing = ListingStep::UnderWay(name, Some(walk));
                        return Some(Followed::Found(found));
                    }
                }
                Some(Followed::Listed(name))
            }
            ListingStep::OfFile(mut walk) => match walk.next(into) {
                Found::Nothing => None,
                found => {
                    self.listing = ListingStep::OfFile(walk);
                    Some(Followed::Found(found))
                }
            },
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
                return self.tell_gone();
            }
            self.listing = ListingStep::ToBegin(path.clone());
            return None;
        }
        let name = self.name_of(path);
        if name.split(|octet| *octet == b'/').any(is_part) {
            return None;
        }
        match self.put(path, &name, into) {
            Ok(true) => Some(Followed::Found(Found::Entry)),
            Ok(false) => None,
            Err(error) => match error.code {
                // Of a path that is gone itself, the copy keeps all.
                Code::NotFound if self.is_gone() => self.tell_gone(),
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

    /// Tells once that the path is gone, until it is there again.
    fn tell_gone(&mut self) -> Option<Followed> {
        let is_news = !std::mem::replace(&mut self.has_told_gone, true);
        is_news.then(|| Followed::Gone(Vec::new()))
    }

    /// Adds the entry of a path. False: its digest is needed first.
    fn put(&mut self, path: &TreePath, name: &[u8], into: &mut Vec<u8>) -> Result<bool, FileError> {
        let Some((parent, last)) = path.split_last() else { return Ok(false) };
        let directory = self.folder.directory(&parent)?;
        if self.details.digests && directory.attributes(last)?.kind == Kind::File {
            self.listing = ListingStep::OfFile(Walk::of_one(directory, last, name, self.details));
            return Ok(false);
        }
        let (names, shared) = ((last, name), &mut SharedFiles::default());
        if put(into, &*directory, names, self.details, shared, None)? == Kind::Directory {
            self.listing = ListingStep::ToBegin(path.clone());
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::changes::Changes;
    use crate::tree::disk::DiskFolder;
    use crate::wire::Entries;

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
            let names = [&b"file"[..], b"other", b""].map(|name| PathChange::At(base.join(name).unwrap()));
            changes.tell(Some(&names));
            std::fs::remove_dir_all(root).unwrap();
            assert!(matches!(follow.next(&mut entries), Followed::Gone(name) if name.is_empty()));
            assert!(matches!(follow.next(&mut entries), Followed::Found(Found::Nothing)), "it is told once");
        }
    }

    #[test]
    fn the_digest_of_a_large_file_takes_several_steps() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Arc::new(DiskFolder::open(dir.path()).unwrap());
        let changes = Changes::new(Box::new(|| Ok(())));
        let subscription = changes.subscribe(TreePath::default(), Arc::new(|| {})).unwrap();
        let details = Details { digests: true, ..Details::default() };
        let mut follow = Follow::new(folder, subscription, details);
        let mut entries = Vec::new();
        while !matches!(follow.next(&mut entries), Followed::Found(Found::Nothing)) {}
        let octets = vec![7; 20 << 20];
        std::fs::write(dir.path().join("file"), &octets).unwrap();
        changes.tell(Some(&[PathChange::At(TreePath::parse(b"file").unwrap())]));
        let mut steps = 0;
        loop {
            follow.begin_step();
            steps += 1;
            match follow.next(&mut entries) {
                Followed::Found(Found::Working) => {}
                Followed::Found(Found::Entry) => break,
                _ => panic!("neither the entry nor work"),
            }
        }
        assert!(steps > 4, "{steps}");
        let entry = Entries::of_list(&entries).next().unwrap().unwrap();
        assert_eq!((entry.name, entry.target), (&b"file"[..], &blake3::hash(&octets).as_bytes()[..]));
        assert!(matches!(follow.next(&mut entries), Followed::Found(Found::Nothing)));
    }
}
