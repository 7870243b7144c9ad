//! Reads one client's file: its content, and whether its client lives.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::locks::is_held;
use super::record;
use crate::registry::{Id, Member};

/// A file this old has a modification time that no later change can have: the granularity of file systems' timestamps
/// is a second at the coarsest.
const STABLE_AFTER: Duration = Duration::from_secs(1);
/// If a file was replaced this often while it was read, its client lives.
const LOOKS: usize = 8;

/// Tells a file from its replacement. Inode numbers are reused, so it includes the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    bytes: u64,
    modified_s: i64,
    modified_ns: i64,
}

/// A client's file as read.
#[derive(Debug, Clone)]
pub struct FoundName {
    pub stamp: Stamp,
    /// The stamp is certain: no later file can have the same.
    pub stable: bool,
    /// A process holds its lock. Once the lock is released it is never taken again: a claim creates a new file.
    pub held: bool,
    /// None: the content is invalid.
    pub member: Option<Arc<Member>>,
}

impl Stamp {
    pub fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_s: metadata.mtime(),
            modified_ns: metadata.mtime_nsec(),
        }
    }
}

impl FoundName {
    /// The client, if it lives.
    pub fn shown(&self) -> Option<&Arc<Member>> {
        self.member.as_ref().filter(|_| self.held)
    }

    /// Returns true if the client is away, and listens on nothing.
    pub fn has_left(&self) -> bool {
        self.away().is_some_and(|member| Member::clone(member).once_away().topics.is_empty())
    }

    /// Returns true if the file was written at least `age` ago.
    pub fn is_older_than(&self, age: Duration) -> bool {
        let modified = u64::try_from(self.stamp.modified_s).unwrap_or(0);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_secs().saturating_sub(modified) >= age.as_secs()
    }

    /// The client, if it has died.
    pub fn away(&self) -> Option<&Arc<Member>> {
        self.member.as_ref().filter(|_| !self.held)
    }

    /// Returns true if the file belongs to the client with this id.
    pub fn is_of(&self, id: &Id) -> bool {
        self.member.as_ref().is_some_and(|member| member.id.as_ref() == Some(id))
    }
}

/// Returns true if a change now would give the file another time than `modified`.
pub fn is_stable(modified: SystemTime) -> bool {
    // An error: the time is in the future, so nothing is certain.
    SystemTime::now().duration_since(modified).is_ok_and(|age| age >= STABLE_AFTER)
}

/// Reads the file of that name in a folder. None: there is none.
pub fn read(folder: &Path, file_name: &str) -> io::Result<Option<FoundName>> {
    let path = folder.join(file_name);
    for left in (0..LOOKS).rev() {
        let Some((file, metadata)) = open(&path)? else { return Ok(None) };
        let stable = is_stable(metadata.modified()?);
        let mut held = is_held(&file)?;
        // A client that claims again replaces the file before it unlocks the old one.
        if !held && inode(&path)? != Some(metadata.ino()) {
            if left > 0 {
                continue;
            }
            held = true;
        }
        let stamp = Stamp::of(&metadata);
        let mut bytes = Vec::new();
        file.take(record::BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        let member = record::read(file_name, &bytes).map(Arc::new);
        return Ok(Some(FoundName { stamp, stable, held, member }));
    }
    Ok(None)
}

/// Returns whether a file that was locked still is. None: the file was replaced or removed.
pub fn read_again(folder: &Path, file_name: &str, stamp: Stamp) -> io::Result<Option<bool>> {
    let path = folder.join(file_name);
    let Some((file, metadata)) = open(&path)? else { return Ok(None) };
    if Stamp::of(&metadata) != stamp {
        return Ok(None);
    }
    let held = is_held(&file)?;
    Ok((held || inode(&path)? == Some(metadata.ino())).then_some(held))
}

/// None: there is no file, or it is not a regular one. Opening a FIFO would block.
fn open(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    let opened = fs::symlink_metadata(path).and_then(|metadata| match metadata.is_file() {
        true => File::open(path).map(Some),
        false => Ok(None),
    });
    match opened {
        Ok(Some(file)) => file.metadata().map(|metadata| Some((file, metadata))),
        Ok(None) => Ok(None),
        // A file that we may not read is ignored.
        Err(error) if [ErrorKind::NotFound, ErrorKind::PermissionDenied].contains(&error.kind()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The inode at a path.
pub fn inode(path: &Path) -> io::Result<Option<u64>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
