//! Folders of files, seen from a root that no path leaves.
//!
//! The traits are what transfers need of a file system; [`disk`] is the kernel's.

pub mod discard;
pub mod disk;
mod holes;
mod more;
pub mod parts;
mod path;
pub mod single;
pub mod spool;
mod watch;

pub use more::XATTRS_MAX;
pub use path::{DEPTH_MAX, TreePath};

use std::sync::Arc;

use crate::error::{Code, FileError};
pub use crate::wire::{Kind, MoreAttributes, Owner};

/// What is known of a name without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    pub kind: Kind,
    /// Octets of a file; 0 for others.
    pub size: u64,
    pub mtime_ns: i64,
    /// When its content or attributes were changed last (st_ctime).
    pub ctime_ns: i64,
    /// Permission bits.
    pub mode: u32,
    /// Differs if the file was changed or replaced; is the same for all names of a file.
    pub tag: Tag,
    /// Of a file with several names: its device and inode.
    pub shared: Option<(u64, u64)>,
    pub owner: Owner,
}

/// Names the version of a file on its host.
pub type Tag = [u8; 16];

/// A directory below a folder, or the folder itself. One that is offered for reading only has the default methods.
pub trait Directory: Send {
    /// The names in it, without `.` and `..`, in no order.
    fn names(&self) -> Result<Names, FileError>;

    /// Of a name, which may be a link. Error: NotPlain for devices, pipes and sockets.
    fn attributes(&self, name: &[u8]) -> Result<Attributes, FileError>;

    /// Error: NotPlain if it is a link.
    fn directory(&self, name: &[u8]) -> Result<Box<dyn Directory>, FileError>;

    /// Opens a file for reading, and tells what it is. Error: NotPlain if it is no regular file.
    fn open(&self, name: &[u8]) -> Result<(Box<dyn Source>, Attributes), FileError>;

    /// The extended attributes of a file or directory, encoded. Error: Limit.
    fn xattrs(&self, _name: &[u8]) -> Result<Vec<u8>, FileError> {
        Ok(Vec::new())
    }

    /// Gives a name attributes as far as they differ; a symbolic link has no extended ones. Error: Denied.
    fn set_more(&self, _name: &[u8], _more: &MoreAttributes) -> Result<(), FileError> {
        read_only()
    }

    /// Where a link leads.
    fn read_link(&self, name: &[u8]) -> Result<Vec<u8>, FileError>;

    fn make_directory(&self, _name: &[u8], _mode: u32) -> Result<(), FileError> {
        read_only()
    }

    /// Makes a symbolic link; one of the same name is replaced.
    fn make_link(&self, _name: &[u8], _target: &[u8]) -> Result<(), FileError> {
        read_only()
    }

    /// Sets the time of a symbolic link, where links have one.
    fn set_link_time(&self, _name: &[u8], _mtime_ns: i64) -> Result<(), FileError> {
        Ok(())
    }

    /// Opens a file for reading and writing, and creates it if needed.
    fn create(&self, _name: &[u8]) -> Result<Box<dyn Target>, FileError> {
        read_only()
    }

    /// Returns true if an open file has this name.
    fn is_named(&self, name: &[u8], file: &dyn Target) -> Result<bool, FileError> {
        match self.attributes(name) {
            Ok(named) => Ok(named.tag == file.attributes()?.tag),
            Err(error) if error.code == Code::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates a file for writing. None: the name is taken.
    fn create_new(&self, _name: &[u8]) -> Result<Option<Box<dyn Target>>, FileError> {
        read_only()
    }

    /// Gives a file another name, and replaces the file that had it.
    fn rename(&self, _from: &[u8], _to: &[u8]) -> Result<(), FileError> {
        read_only()
    }

    fn remove_file(&self, _name: &[u8]) -> Result<(), FileError> {
        read_only()
    }

    /// Error: if it is not empty.
    fn remove_directory(&self, _name: &[u8]) -> Result<(), FileError> {
        read_only()
    }

    fn set_attributes(&self, _name: &[u8], _mtime_ns: i64, _mode: u32) -> Result<(), FileError> {
        read_only()
    }

    /// Returns once the names are on the disk.
    fn sync(&self) -> Result<(), FileError> {
        Ok(())
    }
}

fn read_only<T>() -> Result<T, FileError> {
    Err(FileError::new(Code::Denied, "it is only offered for reading"))
}

/// The names of a directory, one by one.
pub type Names = Box<dyn Iterator<Item = Result<Vec<u8>, FileError>> + Send>;

/// A file that is read.
pub trait Source: Send {
    fn attributes(&self) -> Result<Attributes, FileError>;

    /// Reads octets from `offset` on, and returns how many; fewer than there is room for only at the end of the file.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, FileError>;

    /// Its extended attributes, encoded. Error: Limit.
    fn xattrs(&self) -> Result<Vec<u8>, FileError> {
        Ok(Vec::new())
    }

    /// The next hole from `offset` on: its first octet, and its end. None: nothing is known of holes there.
    fn next_hole(&self, _offset: u64) -> Result<Option<(u64, u64)>, FileError> {
        Ok(None)
    }
}

/// A file that is written.
pub trait Target: Source {
    /// Reserves room on the disk, where that can be done before writing; elsewhere checks that there is enough. Error:
    /// NoRoom.
    fn allocate(&self, size: u64) -> Result<(), FileError>;

    fn write(&self, offset: u64, octets: &[u8]) -> Result<(), FileError>;

    fn set_len(&self, size: u64) -> Result<(), FileError>;

    fn set_attributes(&self, mtime_ns: i64, mode: u32) -> Result<(), FileError>;

    /// Gives it attributes as far as they differ. Error: Denied.
    fn set_more(&self, more: &MoreAttributes) -> Result<(), FileError>;

    /// Returns once its octets are on the disk (fdatasync(2)).
    fn sync(&self) -> Result<(), FileError>;

    /// Locks it for this open file. False: another one has it locked.
    fn try_lock(&self) -> Result<bool, FileError>;
}

/// A folder, as a mount or an inbox has it.
pub trait Folder: Send + Sync {
    /// A directory below it; its root for an empty path. No part of the path may be a link.
    fn directory(&self, path: &TreePath) -> Result<Box<dyn Directory>, FileError>;

    /// Gives a file or directory another path, and replaces the file that had it.
    fn rename(&self, _from: &TreePath, _to: &TreePath) -> Result<(), FileError> {
        read_only()
    }

    /// Gives a file another name too, and replaces the file that had it.
    fn link(&self, _file: &TreePath, _to: &TreePath) -> Result<(), FileError> {
        read_only()
    }

    /// The same folder, where zeros that are written become holes. None: it has none.
    fn with_holes(&self) -> Option<Arc<dyn Folder>> {
        None
    }

    /// Watches the folder, and calls `hint` for each change until the watch is dropped. Error: Limit, the system
    /// watches no more directories; Invalid, this folder cannot be watched.
    fn watch(&self, _hint: Box<dyn Fn(Hint) + Send>) -> Result<Box<dyn Watch>, FileError> {
        Err(FileError::new(Code::Invalid, "this folder cannot be watched"))
    }
}

impl dyn Folder + '_ {
    /// Opens a file below the folder.
    pub fn open(&self, path: &TreePath) -> Result<Box<dyn Source>, FileError> {
        let (parent, name) =
            path.split_last().ok_or_else(|| FileError::new(Code::NotPlain, "a directory"))?;
        Ok(self.directory(&parent)?.open(name)?.0)
    }

    /// The kind of a path below the folder, or of the folder itself.
    pub fn kind(&self, path: &TreePath) -> Result<Kind, FileError> {
        match path.split_last() {
            Some((parent, name)) => Ok(self.directory(&parent)?.attributes(name)?.kind),
            None => Ok(Kind::Directory),
        }
    }
}

/// A hint that a path has changed. What it is now is to be looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// A file was created or written, and may be written further.
    Written(TreePath),
    /// A writer has closed a file, or a name was removed.
    Settled(TreePath),
    /// A directory is new here. What is in it is not watched before `Watch::cover`.
    Directory(TreePath),
    /// A name was moved away or here. If both names are in the folder, `Moved` follows.
    Named(TreePath),
    Moved {
        from: TreePath,
        to: TreePath,
    },
    /// Any path may have changed.
    Lost,
    /// As `Lost`, and further hints will be missing.
    Blind,
}

/// A folder that is watched.
pub trait Watch: Send {
    /// Returns when a new directory, with all below it, is watched too.
    fn cover(&mut self, directory: &TreePath) -> Result<(), FileError>;
}
