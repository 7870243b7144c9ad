//! A guard file keeps earlier builds from opening a log with records that they would lose or damage.
//!
//! Earlier builds look for no version of a log. But to them a file with the name and the size of a segment, that begins
//! with neither a header nor zeros, is damage: they open nothing, change nothing, and their error has the file's name,
//! which says what is needed. This build knows such a file by its first bytes.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::queue::Queue;
use super::segment::MIN_BYTES;
use super::storage::{ENDING, Storage};
use super::{Log, LogError, Shared, locked};

const MAGIC: [u8; 8] = *b"PINGUARD";
/// Follows the magic, little-endian. A guard of a higher version is damage to this build, too.
const VERSION: u64 = 1;
const NAME: &str = "needs-a-later-version-of-pinnace";

/// Returns true if a file that begins with these bytes is a guard that this build may pass.
pub fn is_guard(start: &[u8]) -> bool {
    let version = start.get(8..16).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    start.starts_with(&MAGIC) && version.is_some_and(|version| version <= VERSION)
}

/// Creates a guard file. An earlier build may have taken a file of its name, whose creation was interrupted, for a
/// segment.
fn create(storage: &dyn Storage) -> io::Result<String> {
    let names = (2..).map(|number| format!("{NAME}-{number}{ENDING}"));
    for name in std::iter::once(format!("{NAME}{ENDING}")).chain(names) {
        match storage.create(&name, MIN_BYTES) {
            Ok(file) => {
                file.write_at(&[MAGIC, VERSION.to_le_bytes()].concat(), 0)?;
                return file.sync().map(|()| name);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// The guard files of a log.
pub struct Guard {
    names: Mutex<Vec<String>>,
    /// There are some.
    is_there: AtomicBool,
    /// They are removed when the log is closed.
    ends: AtomicBool,
}

impl Guard {
    /// The guard files that recovery found.
    pub fn found(names: Vec<String>, queue: &mut Queue) -> Guard {
        queue.guard_bytes = names.len() as u64 * MIN_BYTES;
        let (is_there, ends) = (AtomicBool::new(!names.is_empty()), AtomicBool::new(false));
        Guard { names: Mutex::new(names), is_there, ends }
    }
}

impl Log {
    /// Returns true if earlier builds do not open the log.
    pub fn is_guarded(&self) -> bool {
        self.shared.guard.is_there.load(Ordering::Acquire)
    }

    /// Creates the guard file, unless there is one. It is on the disk when this returns. Errors: NoRoom, Io.
    pub fn guard(&self) -> Result<(), LogError> {
        let Shared { guard, storage, queue, .. } = &*self.shared;
        // Only callers that need the guard take this lock.
        let mut names = guard.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.is_empty() {
            let created = create(&**storage).map_err(|error| match error.kind() {
                kind @ (ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => LogError::NoRoom(Some(kind)),
                kind => LogError::Io(kind),
            });
            names.push(created?);
            locked(queue).guard_bytes = MIN_BYTES;
        }
        guard.is_there.store(true, Ordering::Release);
        Ok(())
    }

    /// Has the guard file removed when the log is closed with all records on the disk.
    pub fn remove_guard_at_end(&self) {
        self.shared.guard.ends.store(true, Ordering::Relaxed);
    }

    pub(super) fn end_guard(&self) {
        if self.shared.guard.ends.load(Ordering::Relaxed) && locked(&self.shared.queue).failed.is_none() {
            self.remove_guard();
        }
    }

    /// Removes the guard file. One that cannot be removed is found by the next opening.
    pub fn remove_guard(&self) {
        let Shared { guard, storage, queue, .. } = &*self.shared;
        let mut names = guard.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|name| storage.remove(name).is_err());
        guard.is_there.store(!names.is_empty(), Ordering::Release);
        locked(queue).guard_bytes = names.len() as u64 * MIN_BYTES;
    }
}
