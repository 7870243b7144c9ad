//! Registry of rarely used C objects. A handle is a number, not an address, and is unique in the process across all
//! registries; it is never reused.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use pinnace_engine::Error;

/// The next handle. Odd, so that it is never the address of an aligned object. Not below 4096: Go's runtime aborts the
/// process if it finds such a pointer on a stack.
static NEXT: AtomicUsize = AtomicUsize::new(4097);

pub(crate) struct Registry<T> {
    things: Mutex<BTreeMap<usize, Arc<T>>>,
}

impl<T> Registry<T> {
    pub(crate) const fn new() -> Registry<T> {
        Registry { things: Mutex::new(BTreeMap::new()) }
    }

    pub(crate) fn insert(&self, thing: T) -> *mut c_void {
        let handle = NEXT.fetch_add(2, Ordering::Relaxed);
        self.things.lock().insert(handle, Arc::new(thing));
        ptr::without_provenance_mut(handle)
    }

    pub(crate) fn get(&self, handle: *mut c_void) -> Result<Arc<T>, Error> {
        self.things.lock().get(&handle.addr()).cloned().ok_or(Error::Fault)
    }

    pub(crate) fn remove(&self, handle: *mut c_void) -> Result<Arc<T>, Error> {
        self.things.lock().remove(&handle.addr()).ok_or(Error::Fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_lives_once() {
        let registry = Registry::new();
        let handle = registry.insert(5);
        assert_eq!(registry.get(handle).as_deref(), Ok(&5));
        assert_eq!(registry.remove(handle).as_deref(), Ok(&5));
        assert_eq!(registry.get(handle), Err(Error::Fault));
        assert_eq!(registry.remove(handle), Err(Error::Fault));
        assert_ne!(registry.insert(6), handle);
        assert_eq!(registry.get(ptr::null_mut()), Err(Error::Fault));
        let others = Registry::new();
        let other = others.insert("of another kind");
        assert_eq!(registry.get(other), Err(Error::Fault));
    }
}
