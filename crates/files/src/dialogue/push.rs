//! Subscriptions of RFC 35, by clients that do not know the extensions: the files below a path, if they ask for them,
//! and then each file that changes.
//!
//! Directories and links are not sent, because the protocol has no form for them; the files in a new directory are. A
//! file that was moved is removed and created.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::cache::Cache;
use super::changes::{PathChange, Subscription, Told, Wake};
use super::details::Details;
use super::job::Step;
use super::mounts::{Mounts, Scope};
use super::pushed_file::{Pushed, PushedFile};
use super::walk::{Found, Walk};
use crate::error::{Code, FileError};
use crate::tree::parts::is_part;
use crate::tree::{Kind, Tag, TreePath};
use crate::wire::{Change, Cheezburger, Entries, Hash, Message};

/// The most subscriptions of a client.
const SUBSCRIPTIONS_MAX: usize = 64;

/// Paths that are looked up in one step.
const LOOKS: usize = 64;

/// The most files whose version a subscription remembers as sent.
const SENT_MAX: usize = 16 << 10;

/// The subscriptions of one client.
#[derive(Default)]
pub struct Pushes(VecDeque<Push>);

impl Pushes {
    /// Subscribes to a path and all below it, which may not exist yet. Errors: Invalid, it is no virtual path; Limit;
    /// its folder cannot be watched.
    pub fn subscribe(
        &mut self,
        path: &[u8],
        options: Hash<'_>,
        cache: Hash<'_>,
        mounts: &Mounts,
        wake: &Wake,
    ) -> Result<(), FileError> {
        let is_resync = options.get("RESYNC") == Some(b"1");
        for scope in mounts.scopes(path)? {
            if self.0.len() == SUBSCRIPTIONS_MAX {
                return Err(FileError::new(Code::Limit, "more than 64 subscriptions at once"));
            }
            let cache = if is_resync { Cache::read(path, cache) } else { Cache::default() };
            self.0.push_back(Push::new(scope, is_resync, cache, wake)?);
        }
        Ok(())
    }

    /// Does the next piece of work. The chunks of one file are consecutive: no other subscription sends before it ends.
    pub fn step(&mut self, sequence: u64, left: u64) -> Step {
        for _ in 0..self.0.len() {
            let Some(push) = self.0.front_mut() else { break };
            let step = push.step(sequence, left);
            if push.is_in_a_file() {
                return step;
            }
            self.0.rotate_left(1);
            if !matches!(step, Step::Nothing | Step::NoCredit) {
                return step;
            }
        }
        Step::Nothing
    }
}

/// A subscription, or the part of one that is in one mount. Paths are those of the mount's folder.
struct Push {
    scope: Scope,
    subscription: Arc<Subscription>,
    cache: Cache,
    /// The versions that were sent, by a digest of the path: a file may be found by a listing and by a change.
    sent: HashMap<[u8; 16], Tag>,
    /// What to do before the next change is taken.
    tasks: VecDeque<PushTask>,
    /// The listings that are under way, the last one first.
    listings: Vec<FileListing>,
    file: Option<PushedFile>,
}

enum PushTask {
    LookUp(TreePath),
    /// A path was moved here.
    LookUpMoved {
        from: TreePath,
        to: TreePath,
    },
    Send(TreePath),
    Remove(TreePath),
}

struct FileListing {
    walk: Walk,
    /// Of a directory that was moved: its path, and the one before.
    moved: Option<(TreePath, TreePath)>,
}

impl Push {
    fn new(scope: Scope, is_resync: bool, cache: Cache, wake: &Wake) -> Result<Push, FileError> {
        let changes = scope.mount.changes.as_ref();
        let changes = changes.ok_or_else(|| FileError::new(Code::Denied, "this folder is not watched"))?;
        let subscription = changes.subscribe(scope.base.clone(), wake.clone())?;
        let tasks = is_resync.then(|| PushTask::LookUp(scope.base.clone())).into_iter().collect();
        let (sent, listings, file) = Default::default();
        Ok(Push { scope, subscription, cache, sent, tasks, listings, file })
    }

    /// A file has begun and not ended.
    fn is_in_a_file(&self) -> bool {
        self.file.as_ref().is_some_and(PushedFile::has_begun)
    }

    fn step(&mut self, sequence: u64, left: u64) -> Step {
        for _ in 0..LOOKS {
            if let Some(file) = self.file.take() {
                match self.go_on(file, sequence, left) {
                    Some(step) => return step,
                    None => continue,
                }
            }
            if let Some(task) = self.tasks.pop_front() {
                if let Some(removed) = self.run(task) {
                    return self.removal(&removed, sequence);
                }
            } else if !self.list() {
                match self.subscription.take() {
                    Told::Nothing => {
                        // The cache is about what was there at the beginning.
                        self.cache = Cache::default();
                        return Step::Nothing;
                    }
                    Told::Lost => self.tasks.push_back(PushTask::LookUp(self.scope.base.clone())),
                    Told::PathChange(PathChange::At(path)) => self.tasks.push_back(PushTask::LookUp(path)),
                    Told::PathChange(PathChange::Moved { from, to }) => {
                        self.tasks.push_back(PushTask::LookUp(from.clone()));
                        self.tasks.push_back(PushTask::LookUpMoved { from, to });
                    }
                }
            }
        }
        Step::Working
    }

    /// Sends or hashes the next piece of a file. None: there is something else to do.
    fn go_on(&mut self, mut file: PushedFile, sequence: u64, left: u64) -> Option<Step> {
        match file.step(sequence, left) {
            Pushed::Going(Step::NoCredit) if !file.has_begun() => {
                // It is not kept open until there is credit.
                self.tasks.push_front(PushTask::Send(file.path));
                Some(Step::NoCredit)
            }
            Pushed::Going(step) => {
                self.file = Some(file);
                Some(step)
            }
            Pushed::Ended(step, tag) => {
                tag.into_iter().for_each(|tag| self.remember(&file.path, tag));
                Some(step)
            }
            Pushed::Broken(step) => {
                self.tasks.push_front(PushTask::Remove(file.path));
                Some(step)
            }
            Pushed::Same(tag) => {
                self.remember(&file.path, tag);
                None
            }
            Pushed::Changed => {
                let (path, end) = (file.path.clone(), file.end(sequence));
                let has_begun = file.has_begun();
                match self.scope.mount.folder.open(&path).and_then(|source| file.begin_again(source)) {
                    Ok(file) => {
                        self.file = Some(file);
                        None
                    }
                    // It is gone, which is told after it has ended.
                    Err(_) => {
                        self.tasks.push_front(PushTask::LookUp(path));
                        has_begun.then_some(end)
                    }
                }
            }
        }
    }

    /// Returns a path that the subscriber is to remove.
    fn run(&mut self, task: PushTask) -> Option<TreePath> {
        match task {
            PushTask::LookUp(path) => self.look_up(path, None),
            PushTask::LookUpMoved { from, to } => self.look_up(to, Some(from)),
            PushTask::Send(path) => {
                self.begin(path);
                None
            }
            PushTask::Remove(path) => Some(path),
        }
    }

    /// Finds out what a path is now. Returns it if it is no file any more.
    fn look_up(&mut self, path: TreePath, from: Option<TreePath>) -> Option<TreePath> {
        let below = path.relative_to(&self.scope.base);
        if self.scope.hides(&path) || below.split(|octet| *octet == b'/').any(is_part) {
            return None;
        }
        match self.scope.mount.folder.kind(&path) {
            Ok(Kind::File) => self.begin(path),
            Ok(Kind::Directory) => self.begin_listing(path, from),
            Ok(Kind::Link) => return Some(path),
            Err(error) if matches!(error.code, Code::NotFound | Code::NotPlain) => return Some(path),
            // It cannot be read, which the protocol cannot tell.
            Err(_) => {}
        }
        None
    }

    fn begin_listing(&mut self, path: TreePath, from: Option<TreePath>) {
        let directory = self.scope.mount.folder.directory(&path);
        if let Ok(walk) =
            directory.and_then(|directory| Walk::new(directory, path.as_bytes(), Details::default()))
        {
            self.listings.push(FileListing { walk, moved: from.map(|from| (path, from)) });
        }
    }

    /// Takes the next name of a listing. False: there is none.
    fn list(&mut self) -> bool {
        let Some(listing) = self.listings.last_mut() else { return false };
        let mut entry = Vec::new();
        if let Found::Nothing = listing.walk.next(&mut entry) {
            self.listings.pop();
            return true;
        }
        let path = match Entries::of_list(&entry).next() {
            Some(Ok(entry)) if entry.kind == Kind::File => TreePath::parse(entry.name),
            _ => return true,
        };
        if let Ok(path) = path
            && !self.scope.hides(&path)
        {
            let before = listing.moved.as_ref().map(|(to, from)| from.join(path.relative_to(to)));
            self.tasks.extend(before.and_then(Result::ok).map(PushTask::Remove));
            self.tasks.push_back(PushTask::Send(path));
        }
        true
    }

    /// Begins to send a file. What cannot be opened is left out.
    fn begin(&mut self, path: TreePath) {
        let Ok(source) = self.scope.mount.folder.open(&path) else { return };
        let filename = self.scope.filename_of(&path);
        let known = self.cache.take(&filename);
        if let Ok(file) = PushedFile::new(path, filename, source, known)
            && self.sent.get(&file.path.digest()) != Some(&file.tag())
        {
            self.file = Some(file);
        }
    }

    /// The subscriber has a version of a file.
    fn remember(&mut self, path: &TreePath, tag: Tag) {
        if self.sent.len() == SENT_MAX {
            self.sent.clear();
        }
        self.sent.insert(path.digest(), tag);
    }

    fn removal(&mut self, path: &TreePath, sequence: u64) -> Step {
        if self.sent.remove(&path.digest()).is_none() {
            // It may be a directory, whose files are gone with it.
            self.sent.clear();
        }
        let filename = self.scope.filename_of(path);
        let burger = Cheezburger::new(sequence, &filename, Hash::EMPTY);
        let burger = Cheezburger { operation: Change::Delete, ..burger };
        Step::Content(Message::Cheezburger(burger).to_frame().into(), 0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::dialogue::changes::Changes;
    use crate::tree::disk::DiskFolder;

    /// Subscribes to all of a folder, of which the test tells the changes.
    fn subscribed(to: &Path) -> (Arc<Changes>, Pushes) {
        let changes = Arc::new(Changes::new(Box::new(|| Ok(()))));
        let (mut mounts, mut pushes) = (Mounts::default(), Pushes::default());
        mounts.add(b"/", Arc::new(DiskFolder::open(to).unwrap()), false).unwrap();
        mounts.watch(|_| changes.clone());
        let wake: Wake = Arc::new(|| {});
        pushes.subscribe(b"/", Hash::EMPTY, Hash::EMPTY, &mounts, &wake).unwrap();
        (changes, pushes)
    }

    /// The next chunk: its path, offset, end and content.
    fn next(pushes: &mut Pushes, left: u64) -> Option<(String, u64, bool, Vec<u8>)> {
        loop {
            match pushes.step(1, left) {
                Step::Working => {}
                Step::Content(frame, cost) => {
                    let Ok(Message::Cheezburger(burger)) = Message::read(&frame) else { panic!("no chunk") };
                    assert!(burger.chunk.len() as u64 == cost && cost <= left);
                    let name = String::from_utf8(burger.filename.to_vec()).unwrap();
                    return Some((name, burger.offset, burger.eof, burger.chunk.to_vec()));
                }
                _ => return None,
            }
        }
    }

    #[test]
    fn after_lost_changes_come_the_versions_that_were_not_sent() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        fs::write(&file, "one").unwrap();
        let (changes, mut pushes) = subscribed(dir.path());
        assert_eq!(next(&mut pushes, 9), None);
        for content in ["one", "another"] {
            fs::write(&file, content).unwrap();
            changes.tell(None);
            let chunk = ("/a".to_owned(), 0, false, content.as_bytes().to_vec());
            assert_eq!(next(&mut pushes, 9), Some(chunk));
            let end = ("/a".to_owned(), content.len() as u64, true, Vec::new());
            assert_eq!(next(&mut pushes, 9), Some(end));
            changes.tell(None);
            assert_eq!(next(&mut pushes, 9), None);
        }
    }

    #[test]
    fn a_file_that_changes_all_the_time_ends() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        fs::write(&file, "1234").unwrap();
        let (changes, mut pushes) = subscribed(dir.path());
        changes.tell(None);
        let mut offsets = Vec::new();
        for octets in 5..100 {
            let (_, offset, is_end, _) = next(&mut pushes, 1).unwrap();
            offsets.push(offset);
            if is_end {
                break;
            }
            fs::write(&file, vec![b'x'; octets]).unwrap();
        }
        assert_eq!(offsets, [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
