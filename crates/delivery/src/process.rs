//! Values that exist once per process.

use std::sync::{Mutex, PoisonError};

/// A child of fork(2) starts with an empty value: the threads behind the parent's value do not exist in the child.
pub struct PerProcess<T>(Mutex<Option<(u32, T)>>);

impl<T: Default> PerProcess<T> {
    pub const fn new() -> PerProcess<T> {
        PerProcess(Mutex::new(None))
    }

    /// Runs `work` with this process's value, under the lock.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some(parents) = own.take_if(|(other, _)| *other != process) {
            // Dropping the parent's value would wait for threads that do not exist here.
            std::mem::forget(parents);
        }
        work(&mut own.get_or_insert_with(|| (process, T::default())).1)
    }
}
