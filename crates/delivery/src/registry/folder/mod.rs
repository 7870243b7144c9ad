//! A registry in a directory shared by the processes of one host: one file per client.
//!
//! A client's file (`record`) is locked by its process while the client lives (`locks`). So a dead client disappears at
//! once, whatever killed it, and no clock is involved: the lease of an [`Entry`] is not used here. A claim creates a
//! new file, locks it, and renames it over the old one (rename(2)). A visible file is therefore complete, never
//! changes, and is locked from before it is visible until its client releases it. No other process ever locks it
//! exclusively, so readers (`entry`) do not block claims. The lock of `.lock` serializes claims, releases and clears.
//!
//! Guarantees: those of [`Registry`], also if a process is killed at any point. Not guaranteed: anything after a power
//! cut, when all clients are dead anyway; and use on a file system that other hosts share. A process forked from a
//! client's, which executes no other program, keeps the client's names until it ends as well.
//!
//! It uses one descriptor per name.

mod entry;
mod locks;
mod names;
mod record;
mod view;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pinnace_sys::signals::as_errors;

use super::members::check_name;
use super::{Entry, Id, LOCK_TIMEOUT, Member, Members, NO_ID, Registry, RegistryError};
use entry::FoundName;
use locks::lock_by;
pub use names::file_name;
use view::FolderView;

/// A process holds this file's lock while it changes the folder.
const LOCK: &str = ".lock";
/// A file not renamed to its place yet. There is at most one, because of the lock.
const NEW: &str = ".new";

/// A registry in a directory.
pub struct Folder {
    path: PathBuf,
    /// By name. Dropping the file frees the name.
    held: HashMap<String, HeldName>,
    view: FolderView,
}

struct HeldName {
    id: Id,
    inode: u64,
    /// Its handle holds the lock.
    _file: File,
}

/// The owner of a name, relative to the client that asks.
#[derive(PartialEq, Eq)]
enum Owner {
    /// The client itself; `lives` is false if the object that held the file was dropped.
    Me {
        lives: bool,
    },
    Another,
    Nobody,
}

impl Folder {
    /// Opens the directory, and creates it if it is missing.
    pub fn open(path: &Path) -> Result<Folder, RegistryError> {
        let path = std::path::absolute(path).map_err(|error| RegistryError::io(&error, path.display()))?;
        let folder = Folder { path, held: HashMap::new(), view: FolderView::default() };
        fs::create_dir_all(&folder.path).map_err(|error| folder.failed("making", &error))?;
        Ok(folder)
    }

    fn failed(&self, doing: &str, error: &io::Error) -> RegistryError {
        RegistryError::io(error, format_args!("{doing} {}", self.path.display()))
    }

    /// Locks the folder against changes by others, until the file is dropped. A folder that was removed is created
    /// again.
    fn lock(&self) -> Result<File, RegistryError> {
        let path = self.path.join(LOCK);
        let open = || OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = open().or_else(|error| match error.kind() {
            ErrorKind::NotFound => fs::create_dir_all(&self.path).and_then(|()| open()),
            _ => Err(error),
        });
        let file = file.map_err(|error| self.failed("locking", &error))?;
        lock_by(&file, Instant::now() + LOCK_TIMEOUT)?;
        Ok(file)
    }

    fn find(&self, name: &str) -> Result<Option<FoundName>, RegistryError> {
        entry::read(&self.path, &file_name(name)).map_err(|error| self.failed("reading", &error))
    }

    /// Puts a client's locked file in its place. The caller holds the folder's lock.
    fn put(&self, member: &Member, id: Id) -> io::Result<HeldName> {
        let new = self.path.join(NEW);
        // Left behind by a process that was killed.
        remove(&new)?;
        let mut file = OpenOptions::new().create_new(true).write(true).open(&new)?;
        // Cannot fail: no other process opens the file before the rename.
        file.try_lock()?;
        as_errors(|| file.write_all(&record::write(member, &id)))?;
        let inode = file.metadata()?.ino();
        fs::rename(&new, self.path.join(file_name(&member.name)))?;
        Ok(HeldName { id, inode, _file: file })
    }

    /// Returns true if the file that this object holds for the name is the one in its place.
    fn is_mine(&self, name: &str, id: &Id) -> Result<bool, RegistryError> {
        let Some(held) = self.held.get(name).filter(|held| held.id == *id) else { return Ok(false) };
        let there = entry::inode(&self.path.join(file_name(name)));
        Ok(there.map_err(|error| self.failed("reading", &error))? == Some(held.inode))
    }

    /// The owner of the name. An invalid file that is locked still has an owner.
    fn owner(&self, name: &str, id: &Id) -> Result<Owner, RegistryError> {
        if self.is_mine(name, id)? {
            return Ok(Owner::Me { lives: true });
        }
        Ok(match self.find(name)? {
            Some(found) if found.is_of(id) => Owner::Me { lives: found.held },
            Some(found) if found.held => Owner::Another,
            _ => Owner::Nobody,
        })
    }

    /// Replaces a client's file by that of a client that is away. The caller holds the folder's lock.
    fn leave(&self, name: &str, keeps_topics: bool) -> io::Result<()> {
        match entry::read(&self.path, &file_name(name))?.and_then(|found| found.member) {
            Some(member) => {
                let mut member = Member::clone(&member);
                member.topics.retain(|_| keeps_topics);
                self.put(&member, NO_ID).map(drop)
            }
            None => remove(&self.path.join(file_name(name))),
        }
    }

    fn give_back(&mut self, name: &str, id: &Id, keeps_topics: bool) -> Result<(), RegistryError> {
        check_name(name)?;
        let _locked = self.lock()?;
        match self.owner(name, id)? {
            Owner::Me { .. } => {
                self.leave(name, keeps_topics).map_err(|error| self.failed("writing to", &error))?;
            }
            Owner::Another => return Err(RegistryError::Lost),
            Owner::Nobody => {}
        }
        self.held.retain(|held, file| held != name || file.id != *id);
        Ok(())
    }

    /// Removes the files of clients that left long ago. One whose subscriptions lasted only while it lived, and which
    /// may have died a moment ago, is shown as left from now on.
    fn remove_old(&self, left: &[String]) -> Result<(), RegistryError> {
        if left.is_empty() {
            return Ok(());
        }
        let _locked = self.lock()?;
        for name in left {
            let removed =
                entry::read(&self.path, name).and_then(|found| match found.filter(FoundName::has_left) {
                    Some(FoundName { member: Some(member), .. }) if !member.topics.is_empty() => {
                        self.leave(&member.name, false)
                    }
                    Some(_) => remove(&self.path.join(name)),
                    None => Ok(()),
                });
            removed.map_err(|error| self.failed("removing from", &error))?;
        }
        Ok(())
    }

    fn clear_in(&self, topic: &str) -> io::Result<usize> {
        let mut cleared = 0;
        for entry in fs::read_dir(&self.path)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if name.starts_with('.') {
                continue;
            }
            let found = entry::read(&self.path, &name)?.filter(|found| !found.held);
            let member = found.and_then(|found| found.member).filter(|member| member.listens_on(topic));
            if let Some(mut member) = member.map(|member| Member::clone(&member)) {
                member.topics.retain(|other| other != topic);
                self.put(&member, NO_ID)?;
                cleared += 1;
            }
        }
        Ok(cleared)
    }
}

impl Registry for Folder {
    fn claim(&mut self, me: &Entry) -> Result<(), RegistryError> {
        me.check()?;
        let _locked = self.lock()?;
        if self.owner(&me.name, &me.id)? == Owner::Another {
            return Err(RegistryError::NameTaken);
        }
        let held = self.put(&me.to_member(), me.id).map_err(|error| self.failed("writing to", &error))?;
        // Dropping the old file releases its lock, after the new file is in its place.
        self.held.insert(me.name.clone(), held);
        Ok(())
    }

    fn renew(&mut self, name: &str, id: &Id) -> Result<(), RegistryError> {
        check_name(name)?;
        match self.owner(name, id)? {
            Owner::Me { lives: true } => Ok(()),
            _ => Err(RegistryError::Lost),
        }
    }

    fn release(&mut self, name: &str, id: &Id) -> Result<(), RegistryError> {
        self.give_back(name, id, false)
    }

    fn detach(&mut self, name: &str, id: &Id) -> Result<(), RegistryError> {
        self.give_back(name, id, true)
    }

    fn members(&mut self) -> Result<Option<Members>, RegistryError> {
        let news = self.view.news(&self.path);
        let news = news.map_err(|error| self.failed("reading", &error))?;
        if news.is_some() {
            // Members are known even if the folder cannot be written to.
            let _ = self.remove_old(&self.view.left_long_ago());
        }
        Ok(news)
    }

    fn clear(&mut self, topic: &str) -> Result<usize, RegistryError> {
        let _locked = self.lock()?;
        self.clear_in(topic).map_err(|error| self.failed("clearing", &error))
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
