//! Objects that belong to the process that made them: a forked child has none of their threads.

use std::ffi::c_void;
use std::ops::Deref;
use std::sync::Arc;

use pinnace_sys::fork;

use crate::call_error::CallError;
use crate::registry::Registry;

/// The objects of one kind.
pub(super) struct Objects<T> {
    registry: Registry<Owned<T>>,
    /// What they are, in error messages.
    what: &'static str,
}

/// An object, held by its handle and by each call in progress.
pub(super) struct Owned<T> {
    thing: T,
    /// The fork generation of its process.
    fork: u32,
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.thing
    }
}

impl<T> Objects<T> {
    pub(super) const fn new(what: &'static str) -> Objects<T> {
        Objects { registry: Registry::new(), what }
    }

    pub(super) fn insert(&self, thing: T) -> *mut c_void {
        fork::watch();
        self.registry.insert(Owned { thing, fork: fork::generation() })
    }

    pub(super) fn get(&self, handle: *const c_void) -> Result<Arc<Owned<T>>, CallError> {
        let owned = self.registry.get(handle.cast_mut()).map_err(|_| self.no_handle())?;
        match owned.fork == fork::generation() {
            true => Ok(owned),
            false => {
                Err(CallError::new(libc::EFAULT, format!("{} belongs to the parent process", self.what)))
            }
        }
    }

    /// Ends a handle. None: the object belongs to the parent process, which ends it.
    pub(super) fn remove(&self, handle: *mut c_void) -> Result<Option<Arc<Owned<T>>>, CallError> {
        let owned = self.registry.remove(handle).map_err(|_| self.no_handle())?;
        if owned.fork == fork::generation() {
            return Ok(Some(owned));
        }
        std::mem::forget(owned);
        Ok(None)
    }

    fn no_handle(&self) -> CallError {
        CallError::new(libc::EFAULT, format!("not the handle of {}, or it was released", self.what))
    }
}
