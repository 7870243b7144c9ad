//! A folder with one file, which has no name on the disk: what a program reads from elsewhere, to be uploaded.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;

use super::disk::DiskFile;
use super::{Attributes, Directory, Folder, Names, Source, TreePath};
use crate::error::{Code, FileError};

/// The folder.
#[derive(Clone)]
pub struct Spool {
    file: Arc<OwnedFd>,
    name: Vec<u8>,
}

impl Spool {
    /// Reads to the end, and writes it to a file in `directory` that nobody can open by a name. Its permissions are
    /// those of a new file, and its time is now. `name`: the file's in the folder. Errors: those of reading and
    /// writing.
    pub fn fill(directory: &Path, name: &[u8], from: &mut impl Read) -> io::Result<Spool> {
        let mut file = File::from(unnamed(directory)?);
        io::copy(from, &mut file)?;
        Ok(Spool { file: Arc::new(file.into()), name: name.to_vec() })
    }

    fn checked(&self, name: &[u8]) -> Result<(Box<dyn Source>, Attributes), FileError> {
        match name == self.name {
            true => DiskFile::checked(self.file.as_fd().try_clone_to_owned().map_err(|_| Errno::MFILE)?),
            false => Err(nothing()),
        }
    }
}

/// Creates a file without a name.
fn unnamed(directory: &Path) -> io::Result<OwnedFd> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::from_raw_mode(0o644));
    match fs::open(directory, flags | OFlags::TMPFILE, mode) {
        // The file system has no files without a name: it loses its name at once.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let at = fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".pinnace-{}-{number}", std::process::id());
            let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let file = fs::openat(&at, &name, flags, mode)?;
            fs::unlinkat(&at, &name, fs::AtFlags::empty())?;
            Ok(file)
        }
        outcome => Ok(outcome?),
    }
}

fn nothing() -> FileError {
    FileError::new(Code::NotFound, "only one file is offered")
}

impl Folder for Spool {
    fn directory(&self, path: &TreePath) -> Result<Box<dyn Directory>, FileError> {
        if path.is_empty() { Ok(Box::new(self.clone())) } else { Err(nothing()) }
    }
}

impl Directory for Spool {
    fn names(&self) -> Result<Names, FileError> {
        Ok(Box::new(std::iter::once(Ok(self.name.clone()))))
    }

    fn attributes(&self, name: &[u8]) -> Result<Attributes, FileError> {
        Ok(self.checked(name)?.1)
    }

    fn directory(&self, _: &[u8]) -> Result<Box<dyn Directory>, FileError> {
        Err(nothing())
    }

    fn open(&self, name: &[u8]) -> Result<(Box<dyn Source>, Attributes), FileError> {
        self.checked(name)
    }

    fn read_link(&self, _: &[u8]) -> Result<Vec<u8>, FileError> {
        Err(nothing())
    }
}
