//! File locks (flock(2)), which end with their process however it ends.
//!
//! A lock belongs to an open file description: two that one process opened can be locked separately, and a forked child
//! keeps its parent's lock. An executed program does not: the standard library opens files with O_CLOEXEC.

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant};

use crate::registry::RegistryError;

/// Between two attempts. The holder of such a lock writes one small file.
const PAUSE: Duration = Duration::from_millis(1);

/// Locks a file exclusively. Error: Busy, at the deadline.
pub fn lock_by(file: &File, deadline: Instant) -> Result<(), RegistryError> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Err(RegistryError::Busy),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => return Err(RegistryError::io(&error, "locking")),
        }
    }
}

/// Returns true if a process holds the file's exclusive lock. It is probed with a shared lock, which concurrent probes
/// do not block; that lock ends with the file's handle.
pub fn is_held(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
