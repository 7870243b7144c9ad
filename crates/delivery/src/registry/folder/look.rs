//! One look at a client's file: what it says, and whether its client lives.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::locks::is_held;
use super::record;
use crate::registry::{Id, Member};

/// What was changed so long ago has a time that no later change can have: file systems count in steps, of a second at
/// the coarsest.
const SETTLED: Duration = Duration::from_secs(1);
/// A file that was replaced so often while it was looked at is that of somebody who lives.
const LOOKS: usize = 8;

/// Tells a file from what replaces it. Numbers of inodes are used again, so it takes the time as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    bytes: u64,
    modified_s: i64,
    modified_ns: i64,
}

/// What a look found.
#[derive(Debug, Clone)]
pub struct Found {
    pub stamp: Stamp,
    /// The stamp is beyond doubt: no later file has the same.
    pub settled: bool,
    /// Somebody holds its lock. Once nobody does, nobody ever will: a claim makes a file of its own.
    pub held: bool,
    /// None: it makes no sense.
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

impl Found {
    /// The client, if it lives.
    pub fn shown(&self) -> Option<&Arc<Member>> {
        self.member.as_ref().filter(|_| self.held)
    }

    /// The client, if it has died.
    pub fn away(&self) -> Option<&Arc<Member>> {
        self.member.as_ref().filter(|_| !self.held)
    }

    /// Whether it says that it is this client's.
    pub fn is_of(&self, id: &Id) -> bool {
        self.member.as_ref().is_some_and(|member| member.id.as_ref() == Some(id))
    }
}

/// Whether what was changed at that time would have another time if it was changed again now.
pub fn is_settled(modified: SystemTime) -> bool {
    // An error: the time is ahead of ours, of which nothing follows.
    SystemTime::now().duration_since(modified).is_ok_and(|age| age >= SETTLED)
}

/// Looks at the file of that name in a folder. None: there is none.
pub fn look(folder: &Path, file_name: &str) -> io::Result<Option<Found>> {
    let path = folder.join(file_name);
    for left in (0..LOOKS).rev() {
        let Some((file, metadata)) = open(&path)? else { return Ok(None) };
        let settled = is_settled(metadata.modified()?);
        let mut held = is_held(&file)?;
        // Who claims anew replaces the file first, and lets go of the old one then.
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
        return Ok(Some(Found { stamp, settled, held, member }));
    }
    Ok(None)
}

/// Whether a file, which was held, still is. None: another file has its place, or none.
pub fn look_again(folder: &Path, file_name: &str, stamp: Stamp) -> io::Result<Option<bool>> {
    let path = folder.join(file_name);
    let Some((file, metadata)) = open(&path)? else { return Ok(None) };
    if Stamp::of(&metadata) != stamp {
        return Ok(None);
    }
    let held = is_held(&file)?;
    Ok((held || inode(&path)? == Some(metadata.ino())).then_some(held))
}

/// None: there is none, or what is there is no plain file. Opening a pipe would wait for its other end.
fn open(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    let opened = fs::symlink_metadata(path).and_then(|metadata| match metadata.is_file() {
        true => File::open(path).map(Some),
        false => Ok(None),
    });
    match opened {
        Ok(Some(file)) => file.metadata().map(|metadata| Some((file, metadata))),
        Ok(None) => Ok(None),
        // Not ours to read: as if it made no sense.
        Err(error) if [ErrorKind::NotFound, ErrorKind::PermissionDenied].contains(&error.kind()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Which file is there now.
pub fn inode(path: &Path) -> io::Result<Option<u64>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
