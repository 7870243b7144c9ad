//! Locks of files (flock(2)), which end with their process however it ends.
//!
//! A lock is its open file's: of two that one process opened each can have its own, and a child that was forked keeps
//! what its parent held. Programs that are executed do not: the standard library opens with O_CLOEXEC.

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant};

use crate::registry::RegistryError;

/// Between two attempts. Who holds such a lock writes one small file.
const PAUSE: Duration = Duration::from_millis(1);

/// Locks a file for oneself. Error: Busy, at the deadline.
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

/// Whether somebody has a file for itself. Asked by a shared lock, which those that ask at the same time do not mind;
/// it ends with the file's handle.
pub fn is_held(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
