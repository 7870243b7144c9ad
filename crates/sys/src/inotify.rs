//! Notifications of changes in directories (inotify(7)).

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use crate::Errno;

/// Space for the notifications of one read.
const BUFFER: usize = 16 << 10;

/// Watched directories.
pub struct Inotify(OwnedFd);

/// A change in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// In the directory with this number: the name of the entry, unless the directory itself is concerned.
    In(i32, Option<OsString>),
    /// Notifications were lost: anything may have changed.
    Overflow,
}

impl Inotify {
    /// Errors: EMFILE, this user has too many.
    pub fn new() -> Result<Inotify, Errno> {
        inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map(Inotify)
    }

    /// Watches for entries that are added or removed. Returns the directory's number. Errors: ENOTDIR; ENOSPC, this
    /// user watches too many directories.
    pub fn watch_entries(&self, dir: &Path) -> Result<i32, Errno> {
        let added = WatchFlags::CREATE | WatchFlags::MOVED_TO;
        self.watch(dir, added | WatchFlags::DELETE | WatchFlags::MOVED_FROM)
    }

    /// Watches for files that were open for writing and are closed. Returns the directory's number. Errors: as
    /// `watch_entries`.
    pub fn watch_closed_files(&self, dir: &Path) -> Result<i32, Errno> {
        self.watch(dir, WatchFlags::CLOSE_WRITE)
    }

    fn watch(&self, dir: &Path, events: WatchFlags) -> Result<i32, Errno> {
        inotify::add_watch(&self.0, dir, events | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW)
    }

    /// Ends a watch; that of a removed directory has ended already.
    pub fn unwatch(&self, number: i32) {
        let _ = inotify::remove_watch(&self.0, number);
    }

    /// The changes since the last call. It does not block.
    pub fn changes(&self) -> Result<Vec<Change>, Errno> {
        let (mut buffer, mut changes) = ([MaybeUninit::uninit(); BUFFER], Vec::new());
        let mut reader = inotify::Reader::new(self.0.as_fd(), &mut buffer);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    changes.push(Change::Overflow)
                }
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
                    changes.push(Change::In(event.wd(), name));
                }
                Err(Errno::WOULDBLOCK) => return Ok(changes),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Inotify {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_by_directory() {
        let folder = std::env::temp_dir().join(format!("pinnace-inotify-{}", std::process::id()));
        let inner = folder.join("inner");
        std::fs::create_dir_all(&inner).unwrap();
        let inotify = Inotify::new().unwrap();
        let (outer, written) =
            (inotify.watch_entries(&folder).unwrap(), inotify.watch_closed_files(&inner).unwrap());
        assert_eq!(inotify.changes(), Ok(Vec::new()), "it does not block");
        std::fs::create_dir(folder.join("new")).unwrap();
        let file = std::fs::File::create(inner.join("file")).unwrap();
        let name = |name: &str| Some(OsString::from(name));
        assert_eq!(inotify.changes(), Ok(vec![Change::In(outer, name("new"))]));
        drop(file);
        drop(std::fs::File::open(inner.join("file")).unwrap());
        assert_eq!(inotify.changes(), Ok(vec![Change::In(written, name("file"))]));
        assert_eq!(inotify.watch_entries(&inner.join("file")), Err(Errno::NOTDIR));
        inotify.unwatch(written);
        inotify.unwatch(written);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
