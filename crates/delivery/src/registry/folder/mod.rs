//! A registry in a directory that the processes of one host share: one file a client.
//!
//! A client's file (`record`) is locked by its process for as long as the client lives (`locks`). So the dead leave at
//! once, whatever killed them, and no clock has a say: the lease of an [`Entry`] is not needed here. A claim makes a
//! new file, locks it, and puts it in the place of the old one (rename(2)); a file that can be seen is whole, never
//! changes, and is locked from before it can be seen until its client lets go. Nobody else ever locks it for itself,
//! so who reads (`look`) keeps nobody from claiming. Of two that claim at once, one waits: the lock of `.lock` is held
//! for as long as a claim, a release or a clearing takes.
//!
//! What it guarantees: what [`Registry`] does, also when a process is killed at any point. What it does not: anything
//! after a power cut, when all clients are gone anyway; and anything on a file system that other hosts share. A process
//! that was forked from a client's, and executes no other program, keeps the client's names until it ends as well.
//!
//! It holds one descriptor a name.

mod locks;
mod look;
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
use super::{Entry, Id, Members, PATIENCE, Registry, RegistryError};
use locks::lock_by;
pub use names::file_name;
use view::View;

/// Who changes the folder has this file's lock.
const LOCK: &str = ".lock";
/// A file that is not in its place yet. There is one at a time, as there is one lock.
const NEW: &str = ".new";

/// A registry in a directory.
pub struct Folder {
    path: PathBuf,
    /// By name. A file that is dropped is a name that is free.
    held: HashMap<String, Held>,
    view: View,
}

struct Held {
    id: Id,
    inode: u64,
    /// Its handle has the lock.
    _file: File,
}

/// Whose a name is, to the client that asks.
#[derive(PartialEq, Eq)]
enum Owner {
    /// Its own; dead if it is of an object that is gone.
    Me {
        lives: bool,
    },
    Another,
    Nobody,
}

impl Folder {
    /// Opens the directory, and makes it where it is missing.
    pub fn open(path: &Path) -> Result<Folder, RegistryError> {
        let path = std::path::absolute(path).map_err(|error| RegistryError::io(&error, path.display()))?;
        let folder = Folder { path, held: HashMap::new(), view: View::default() };
        fs::create_dir_all(&folder.path).map_err(|error| folder.failed("making", &error))?;
        Ok(folder)
    }

    fn failed(&self, doing: &str, error: &io::Error) -> RegistryError {
        RegistryError::io(error, format_args!("{doing} {}", self.path.display()))
    }

    /// Until the file is dropped, nobody else changes the folder.
    fn lock(&self) -> Result<File, RegistryError> {
        let path = self.path.join(LOCK);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(|error| self.failed("locking", &error))?;
        lock_by(&file, Instant::now() + PATIENCE)?;
        Ok(file)
    }

    fn look(&self, name: &str) -> Result<Option<look::Found>, RegistryError> {
        look::look(&self.path, &file_name(name)).map_err(|error| self.failed("reading", &error))
    }

    /// Puts the file of a client in its place, locked. The folder is.
    fn put(&self, me: &Entry) -> io::Result<Held> {
        let new = self.path.join(NEW);
        // Left behind by a process that was killed.
        remove(&new)?;
        let mut file = OpenOptions::new().create_new(true).write(true).open(&new)?;
        // Nobody else opens it before it has its name.
        file.try_lock()?;
        as_errors(|| file.write_all(&record::write(&me.to_member(), &me.id)))?;
        let inode = file.metadata()?.ino();
        fs::rename(&new, self.path.join(file_name(&me.name)))?;
        Ok(Held { id: me.id, inode, _file: file })
    }

    /// Whether the file that this object holds for the name is the one that is there.
    fn is_mine(&self, name: &str, id: &Id) -> Result<bool, RegistryError> {
        let Some(held) = self.held.get(name).filter(|held| held.id == *id) else { return Ok(false) };
        let there = look::inode(&self.path.join(file_name(name)));
        Ok(there.map_err(|error| self.failed("reading", &error))? == Some(held.inode))
    }

    /// Whose the name is. A file that makes no sense and is held is somebody's all the same.
    fn owner(&self, name: &str, id: &Id) -> Result<Owner, RegistryError> {
        if self.is_mine(name, id)? {
            return Ok(Owner::Me { lives: true });
        }
        Ok(match self.look(name)? {
            Some(found) if found.is_of(id) => Owner::Me { lives: found.held },
            Some(found) if found.held => Owner::Another,
            _ => Owner::Nobody,
        })
    }

    fn clear_in(&self, topic: &str) -> io::Result<usize> {
        let mut cleared = 0;
        for entry in fs::read_dir(&self.path)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if name.starts_with('.') {
                continue;
            }
            let found = look::look(&self.path, &name)?.filter(|found| !found.held);
            if found.and_then(|found| found.member).is_some_and(|member| member.listens_on(topic)) {
                remove(&self.path.join(name))?;
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
        let held = self.put(me).map_err(|error| self.failed("writing to", &error))?;
        // The lock of the file that was there before goes when the new one is in its place.
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
        check_name(name)?;
        let _locked = self.lock()?;
        match self.owner(name, id)? {
            Owner::Me { .. } => remove(&self.path.join(file_name(name)))
                .map_err(|error| self.failed("removing from", &error))?,
            Owner::Another => return Err(RegistryError::Lost),
            Owner::Nobody => {}
        }
        self.held.retain(|held, file| held != name || file.id != *id);
        Ok(())
    }

    fn members(&mut self) -> Result<Option<Members>, RegistryError> {
        let news = self.view.news(&self.path);
        news.map_err(|error| self.failed("reading", &error))
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
