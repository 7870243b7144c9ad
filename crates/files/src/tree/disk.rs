//! Folders on this host's file systems.
//!
//! Every path is resolved below the folder's descriptor by openat2(2), which follows no link and leaves the folder
//! nowhere. Kernels and sandboxes without it get one openat(2) for each name, with O_NOFOLLOW.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    self, AtFlags, Dir, FallocateFlags, FileType, FlockOperation, Mode, OFlags, ResolveFlags, Stat, Timespec,
    Timestamps,
};
use rustix::io::Errno;

use super::holes::{self, Zeros};
use super::more;
use super::parts::link_name;
use super::watch::InotifyWatch;
use super::{
    Attributes, Directory, Folder, Hint, Kind, MoreAttributes, Names, Source, Tag, Target, TreePath, Watch,
};
use crate::error::{Code, FileError};

/// A folder of this host.
#[derive(Clone)]
pub struct DiskFolder {
    root: Arc<OwnedFd>,
    zeros: Zeros,
    /// Its path when it was opened, without links; inotify needs one.
    path: Option<PathBuf>,
}

impl DiskFolder {
    /// Opens a folder. `path` itself may lead over links.
    pub fn open(path: &Path) -> Result<DiskFolder, FileError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = Arc::new(fs::open(path, flags, Mode::empty())?);
        Ok(DiskFolder { root, zeros: Zeros::Written, path: path.canonicalize().ok() })
    }

    /// The directory of a path, and the name in it.
    fn parent<'a>(&self, path: &'a TreePath) -> Result<(OwnedFd, &'a [u8]), FileError> {
        let (parent, name) = path.split_last().ok_or(Errno::INVAL)?;
        let path = if parent.is_empty() { b"." } else { parent.as_bytes() };
        Ok((open_beneath(self.root.as_fd(), path, DIRECTORY)?, name))
    }
}

impl Folder for DiskFolder {
    fn directory(&self, path: &TreePath) -> Result<Box<dyn Directory>, FileError> {
        // A directory that was removed can still be opened by its descriptor, and is empty.
        if path.is_empty() && fs::fstat(&self.root)?.st_nlink == 0 {
            return Err(Errno::NOENT.into());
        }
        let path = if path.is_empty() { b"." } else { path.as_bytes() };
        Ok(Box::new(DiskDirectory(open_beneath(self.root.as_fd(), path, DIRECTORY)?, self.zeros)))
    }

    fn rename(&self, from: &TreePath, to: &TreePath) -> Result<(), FileError> {
        let ((from, name), (to, new_name)) = (self.parent(from)?, self.parent(to)?);
        Ok(fs::renameat(&from, name, &to, new_name)?)
    }

    fn link(&self, file: &TreePath, to: &TreePath) -> Result<(), FileError> {
        let ((from, name), (to, new_name)) = (self.parent(file)?, self.parent(to)?);
        let link = link_name(new_name);
        let make = || fs::linkat(&from, name, &to, &link[..], AtFlags::empty());
        match make() {
            Err(Errno::EXIST) => {
                fs::unlinkat(&to, &link[..], AtFlags::empty())?;
                make()?;
            }
            outcome => outcome?,
        }
        Ok(fs::renameat(&to, &link[..], &to, new_name)?)
    }

    fn with_holes(&self) -> Option<Arc<dyn Folder>> {
        Some(Arc::new(DiskFolder { zeros: Zeros::Holes, ..self.clone() }))
    }

    fn watch(&self, hint: Box<dyn Fn(Hint) + Send>) -> Result<Box<dyn Watch>, FileError> {
        let path =
            self.path.clone().ok_or_else(|| FileError::new(Code::Invalid, "the folder has no path"))?;
        Ok(Box::new(InotifyWatch::new(path, hint)?))
    }
}

/// The type of file systems in memory (statfs(2)).
const TMPFS_MAGIC: fs::FsWord = 0x0102_1994;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How a file or directory is opened for its attributes.
const ATTRIBUTES: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a path of several names below a directory.
fn open_beneath(root: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    match fs::openat2(&root, path, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM) => open_stepwise(root, path, flags),
        // EAGAIN: a rename elsewhere may have disturbed it.
        Err(Errno::AGAIN) => fs::openat2(&root, path, flags, Mode::empty(), resolve),
        outcome => outcome,
    }
}

fn open_stepwise(root: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut names = path.split(|octet| *octet == b'/');
    let last = names.next_back().unwrap_or(b".");
    let mut at = rustix::io::fcntl_dupfd_cloexec(root, 0)?;
    for name in names {
        at = fs::openat(
            &at,
            name,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
    }
    fs::openat(&at, last, flags | OFlags::NOFOLLOW, Mode::empty())
}

struct DiskDirectory(OwnedFd, Zeros);

fn attributes_of(stat: &Stat) -> Result<Attributes, FileError> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => return Err(FileError::new(Code::NotPlain, "not a regular file, directory or symbolic link")),
    };
    let size = if kind == Kind::File { stat.st_size as u64 } else { 0 };
    let nanoseconds =
        |seconds: i64, part: u64| seconds.saturating_mul(1_000_000_000).saturating_add(part as i64);
    let mtime_ns = nanoseconds(stat.st_mtime, stat.st_mtime_nsec);
    let ctime_ns = nanoseconds(stat.st_ctime, stat.st_ctime_nsec);
    let identity = [stat.st_dev, stat.st_ino, stat.st_size as u64, mtime_ns as u64, ctime_ns as u64];
    let mut tag = Tag::default();
    let octets: Vec<u8> = identity.iter().flat_map(|part| part.to_ne_bytes()).collect();
    tag.copy_from_slice(&blake3::hash(&octets).as_bytes()[..16]);
    let shared = (kind == Kind::File && stat.st_nlink > 1).then_some((stat.st_dev, stat.st_ino));
    Ok(Attributes {
        kind,
        size,
        mtime_ns,
        ctime_ns,
        mode: stat.st_mode & 0o7777,
        tag,
        shared,
        owner: (stat.st_uid, stat.st_gid),
    })
}

impl Directory for DiskDirectory {
    fn names(&self) -> Result<Names, FileError> {
        let entries = Dir::read_from(&self.0)?;
        Ok(Box::new(entries.filter_map(|entry| match entry {
            Ok(entry) => {
                let name = entry.file_name().to_bytes();
                (name != b"." && name != b"..").then(|| Ok(name.to_vec()))
            }
            Err(errno) => Some(Err(errno.into())),
        })))
    }

    fn attributes(&self, name: &[u8]) -> Result<Attributes, FileError> {
        attributes_of(&fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn directory(&self, name: &[u8]) -> Result<Box<dyn Directory>, FileError> {
        Ok(Box::new(DiskDirectory(open_beneath(&self.0, name, DIRECTORY)?, self.1)))
    }

    fn open(&self, name: &[u8]) -> Result<(Box<dyn Source>, Attributes), FileError> {
        // A device is not opened: that alone may have an effect.
        let found = self.attributes(name)?;
        if found.kind != Kind::File {
            return Err(FileError::new(Code::NotPlain, "not a regular file"));
        }
        // O_NONBLOCK: a pipe that has taken its place is not waited for.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        DiskFile::checked(fs::openat(&self.0, name, flags, Mode::empty())?)
    }

    fn xattrs(&self, name: &[u8]) -> Result<Vec<u8>, FileError> {
        more::xattrs_of(&open_beneath(&self.0, name, ATTRIBUTES)?)
    }

    fn set_more(&self, name: &[u8], more: &MoreAttributes) -> Result<(), FileError> {
        let known = self.attributes(name)?;
        match (known.kind, more.owner) {
            (Kind::Link, Some(owner)) if owner != known.owner => {
                more::set_owner_of_link(&self.0, name, owner)
            }
            (Kind::Link, _) => Ok(()),
            _ => more::set(&open_beneath(&self.0, name, ATTRIBUTES)?, more),
        }
    }

    fn read_link(&self, name: &[u8]) -> Result<Vec<u8>, FileError> {
        Ok(fs::readlinkat(&self.0, name, Vec::new())?.into_bytes())
    }

    fn make_directory(&self, name: &[u8], mode: u32) -> Result<(), FileError> {
        Ok(fs::mkdirat(&self.0, name, Mode::from_raw_mode(mode | 0o700))?)
    }

    fn make_link(&self, name: &[u8], target: &[u8]) -> Result<(), FileError> {
        match fs::symlinkat(target, &self.0, name) {
            Err(Errno::EXIST) if self.attributes(name)?.kind != Kind::Directory => {
                fs::unlinkat(&self.0, name, AtFlags::empty())?;
                Ok(fs::symlinkat(target, &self.0, name)?)
            }
            outcome => Ok(outcome?),
        }
    }

    fn set_link_time(&self, name: &[u8], mtime_ns: i64) -> Result<(), FileError> {
        match fs::utimensat(&self.0, name, &modified_at(mtime_ns), AtFlags::SYMLINK_NOFOLLOW) {
            // The file system keeps no time of links.
            Err(Errno::OPNOTSUPP) => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    fn create(&self, name: &[u8]) -> Result<Box<dyn Target>, FileError> {
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let file = DiskFile(fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o600))?, self.1);
        match file.attributes()?.kind {
            Kind::File => Ok(Box::new(file)),
            _ => Err(FileError::new(Code::NotPlain, "not a regular file")),
        }
    }

    fn create_new(&self, name: &[u8]) -> Result<Option<Box<dyn Target>>, FileError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o600)) {
            Ok(file) => Ok(Some(Box::new(DiskFile(file, self.1)))),
            Err(Errno::EXIST) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), FileError> {
        Ok(fs::renameat(&self.0, from, &self.0, to)?)
    }

    fn remove_file(&self, name: &[u8]) -> Result<(), FileError> {
        Ok(fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    fn remove_directory(&self, name: &[u8]) -> Result<(), FileError> {
        Ok(fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    fn set_attributes(&self, name: &[u8], mtime_ns: i64, mode: u32) -> Result<(), FileError> {
        let at = open_beneath(&self.0, name, ATTRIBUTES)?;
        DiskFile(at, self.1).set_attributes(mtime_ns, mode)
    }

    fn sync(&self) -> Result<(), FileError> {
        Ok(fs::fsync(&self.0)?)
    }
}

/// A time of modification, with the time of access as it is.
fn modified_at(mtime_ns: i64) -> Timestamps {
    let last_access = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT as _ };
    let last_modification = Timespec {
        tv_sec: mtime_ns.div_euclid(1_000_000_000) as _,
        tv_nsec: mtime_ns.rem_euclid(1_000_000_000) as _,
    };
    Timestamps { last_access, last_modification }
}

/// Writes octets at an offset.
pub(super) fn write_all(file: &OwnedFd, mut offset: u64, mut octets: &[u8]) -> Result<(), FileError> {
    while !octets.is_empty() {
        match rustix::io::pwrite(file, octets, offset) {
            Ok(written) => (offset, octets) = (offset + written as u64, &octets[written..]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// An open file.
pub(super) struct DiskFile(OwnedFd, Zeros);

impl DiskFile {
    /// Error: NotPlain if it is no regular file.
    pub(super) fn checked(file: OwnedFd) -> Result<(Box<dyn Source>, Attributes), FileError> {
        let file = DiskFile(file, Zeros::Written);
        let attributes = file.attributes()?;
        match attributes.kind {
            Kind::File => Ok((Box::new(file), attributes)),
            _ => Err(FileError::new(Code::NotPlain, "not a regular file")),
        }
    }
}

impl Source for DiskFile {
    fn attributes(&self) -> Result<Attributes, FileError> {
        attributes_of(&fs::fstat(&self.0)?)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, FileError> {
        let mut done = 0;
        while done < into.len() {
            match rustix::io::pread(&self.0, &mut into[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(done)
    }

    fn xattrs(&self) -> Result<Vec<u8>, FileError> {
        more::xattrs_of(&self.0)
    }

    fn next_hole(&self, offset: u64) -> Result<Option<(u64, u64)>, FileError> {
        holes::next(&self.0, offset)
    }
}

impl Target for DiskFile {
    fn allocate(&self, size: u64) -> Result<(), FileError> {
        if self.1 == Zeros::Holes {
            // Holes at the end are read as zeros from now on.
            return self.set_len(size);
        }
        let has = fs::fstat(&self.0)?.st_blocks.max(0) as u64 * 512;
        if size <= has {
            return Ok(());
        }
        let known = fs::fstatvfs(&self.0)?;
        if size - has > known.f_bavail.saturating_mul(known.f_frsize) {
            return Err(Errno::NOSPC.into());
        }
        // In memory, to reserve pages takes as long as to write them.
        if fs::fstatfs(&self.0)?.f_type == TMPFS_MAGIC {
            return Ok(());
        }
        match fs::fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, size) {
            // The file system cannot reserve room.
            Err(Errno::OPNOTSUPP) => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    fn write(&self, offset: u64, octets: &[u8]) -> Result<(), FileError> {
        match self.1 {
            Zeros::Written => write_all(&self.0, offset, octets),
            Zeros::Holes => holes::write(&self.0, offset, octets),
        }
    }

    fn set_len(&self, size: u64) -> Result<(), FileError> {
        Ok(fs::ftruncate(&self.0, size)?)
    }

    fn set_attributes(&self, mtime_ns: i64, mode: u32) -> Result<(), FileError> {
        fs::fchmod(&self.0, Mode::from_raw_mode(mode & 0o7777))?;
        Ok(fs::futimens(&self.0, &modified_at(mtime_ns))?)
    }

    fn set_more(&self, more: &MoreAttributes) -> Result<(), FileError> {
        more::set(&self.0, more)
    }

    fn sync(&self) -> Result<(), FileError> {
        Ok(fs::fdatasync(&self.0)?)
    }

    fn try_lock(&self) -> Result<bool, FileError> {
        match fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(false),
            outcome => Ok(outcome.map(|()| true)?),
        }
    }
}
