//! Watches a folder of this host by inotify(7).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode, CreateKind, EventKind, Flag, ModifyKind, RenameMode};
use notify::{Config, ErrorKind, Event, RecommendedWatcher, RecursiveMode, Watcher};

use super::{Hint, TreePath, Watch};
use crate::error::{Code, FileError};

/// A watch on a directory and all below it.
pub struct InotifyWatch {
    watcher: RecommendedWatcher,
    root: PathBuf,
}

impl InotifyWatch {
    /// Watches a directory. It calls `hint` on a thread of its own.
    pub fn new(root: PathBuf, hint: Box<dyn Fn(Hint) + Send>) -> Result<InotifyWatch, FileError> {
        let below = root.clone();
        let handler = move |event: notify::Result<Event>| match event {
            Ok(event) => hints_of(&event, &below, &*hint),
            // The limit of watches is reached, or inotify failed.
            Err(_) => hint(Hint::Blind),
        };
        let config = Config::default().with_follow_symlinks(false);
        let mut watcher = RecommendedWatcher::new(handler, config).map_err(error_of)?;
        watcher.watch(&root, RecursiveMode::Recursive).map_err(error_of)?;
        Ok(InotifyWatch { watcher, root })
    }
}

impl Watch for InotifyWatch {
    fn cover(&mut self, directory: &TreePath) -> Result<(), FileError> {
        let path = self.root.join(std::ffi::OsStr::from_bytes(directory.as_bytes()));
        self.watcher.watch(&path, RecursiveMode::Recursive).map_err(error_of)
    }
}

fn error_of(error: notify::Error) -> FileError {
    match error.kind {
        ErrorKind::MaxFilesWatch => FileError::new(Code::Limit, "the system watches no more directories"),
        ErrorKind::PathNotFound => FileError::new(Code::NotFound, "the directory is gone"),
        ErrorKind::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
            FileError::new(Code::NotFound, "the directory is gone")
        }
        _ => FileError::new(Code::Disk, error.to_string()),
    }
}

fn hints_of(event: &Event, root: &Path, hint: &dyn Fn(Hint)) {
    if event.flag() == Some(Flag::Rescan) {
        return hint(Hint::Lost);
    }
    let paths: Vec<TreePath> = event.paths.iter().filter_map(|path| below(root, path)).collect();
    match (event.kind, &paths[..]) {
        (EventKind::Modify(ModifyKind::Name(RenameMode::Both)), [from, to]) => {
            hint(Hint::Moved { from: from.clone(), to: to.clone() });
        }
        (EventKind::Modify(ModifyKind::Name(_)), [path]) => hint(Hint::Named(path.clone())),
        (EventKind::Remove(_), [path]) => hint(Hint::Settled(path.clone())),
        (EventKind::Access(AccessKind::Close(AccessMode::Write)), [path]) => {
            hint(Hint::Settled(path.clone()));
        }
        (EventKind::Create(CreateKind::Folder), [path]) => hint(Hint::Directory(path.clone())),
        (EventKind::Create(_) | EventKind::Modify(_), [path]) => hint(Hint::Written(path.clone())),
        _ => {}
    }
}

/// The path below the root. None: it is no path that a folder may have.
fn below(root: &Path, path: &Path) -> Option<TreePath> {
    TreePath::parse(path.strip_prefix(root).ok()?.as_os_str().as_bytes()).ok()
}
