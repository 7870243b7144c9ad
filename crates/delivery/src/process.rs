//! What a process has one of.

use std::sync::{Mutex, PoisonError};

/// A child of fork(2) begins with none of its own: the threads behind the parent's are not in it.
pub struct PerProcess<T>(Mutex<Option<(u32, T)>>);

impl<T: Default> PerProcess<T> {
    pub const fn new() -> PerProcess<T> {
        PerProcess(Mutex::new(None))
    }

    /// Does something with this process's, alone.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some(parents) = own.take_if(|(other, _)| *other != process) {
            // To end what is the parent's would wait for threads that are not here.
            std::mem::forget(parents);
        }
        work(&mut own.get_or_insert_with(|| (process, T::default())).1)
    }
}
