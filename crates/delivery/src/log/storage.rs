//! Where a log keeps its files: a directory, or a test's replacement.
//!
//! The log relies on this: a file that [`Storage::create`] returned survives a power cut, with all its zeros; bytes
//! written before a successful [`File::sync`] survive a power cut; after a failed sync nothing is known. Files are
//! identified by name, and no two logs share a storage.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pinnace_sys::fork::Unshared;
use pinnace_sys::signals::as_errors;

/// A directory of files, for one log at a time.
pub trait Storage: Send + Sync {
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;
    /// Creates a file of `bytes` zeros, with its space allocated on the disk. Errors: AlreadyExists.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn File>>;
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// One file. Thread-safe.
pub trait File: Send + Sync {
    fn bytes(&self) -> io::Result<u64>;
    /// Fills `into` from the offset `at`. Errors: UnexpectedEof, the file ends earlier.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()>;
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Brings everything written to the disk (fdatasync(2)). Errors: NotFound, the file was removed meanwhile, and what
    /// is in it ends with this process.
    fn sync(&self) -> io::Result<()>;
}

/// A directory of the file system, locked (flock(2)) during the lifetime of this value.
pub struct Directory {
    path: PathBuf,
    /// A child of fork(2) would keep the lock; dropped before the lock.
    _unshared: Option<Unshared>,
    _lock: fs::File,
}

/// The suffix of the log's file names; other files are ignored.
pub const ENDING: &str = ".log";
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Only this user may read and change a store: it holds what was sent.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

impl Directory {
    /// Creates a directory for this user alone, if it is missing.
    pub fn make(path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
    }

    /// Creates the directory if it is missing. Errors: WouldBlock, another process has it open.
    pub fn open(path: &Path) -> io::Result<Directory> {
        Directory::make(path)?;
        // Lock the directory itself: a lock file could be removed.
        let lock = fs::File::open(path)?;
        let unshared = Unshared::new(&lock);
        match lock.try_lock() {
            Ok(()) => {
                let directory = Directory { path: path.to_owned(), _unshared: unshared, _lock: lock };
                // The directory, and files that an earlier process created, may not be on the disk yet.
                directory.sync_names()?;
                if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                    fs::File::open(parent)?.sync_all()?;
                }
                Ok(directory)
            }
            Err(fs::TryLockError::WouldBlock) => {
                Err(io::Error::new(ErrorKind::WouldBlock, format!("{} is in use", path.display())))
            }
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Makes created and removed names durable.
    fn sync_names(&self) -> io::Result<()> {
        fs::File::open(&self.path)?.sync_all()
    }
}

impl Storage for Directory {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            match entry?.file_name().into_string() {
                Ok(name) if name.ends_with(ENDING) => names.push(name),
                _ => {}
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = OpenOptions::new().read(true).write(true).open(self.path.join(name))?;
        if file.metadata()?.permissions().mode() & !FILE_MODE & 0o777 != 0 {
            // An earlier version made it. Without success it stays as it was: the file belongs to another user.
            let _ = file.set_permissions(fs::Permissions::from_mode(FILE_MODE));
        }
        Ok(Box::new(file))
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn File>> {
        let path = self.path.join(name);
        let file = OpenOptions::new().create_new(true).read(true).write(true).mode(FILE_MODE).open(&path)?;
        let made = fill(&file, bytes).and_then(|()| file.sync_all()).and_then(|()| self.sync_names());
        if let Err(error) = made {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(Box::new(file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))?;
        self.sync_names()
    }
}

fn fill(file: &impl File, bytes: u64) -> io::Result<()> {
    let mut at = 0;
    while at < bytes {
        let run = (bytes - at).min(ZEROS.len() as u64);
        file.write_at(&ZEROS[..run as usize], at)?;
        at += run;
    }
    Ok(())
}

impl File for fs::File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(into, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        as_errors(|| self.write_all_at(bytes, at))
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()?;
        match pinnace_sys::files::link_count(self)? {
            0 => Err(io::Error::new(ErrorKind::NotFound, "the store's files were removed")),
            _ => Ok(()),
        }
    }
}
