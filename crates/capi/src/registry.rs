//! Things that C knows by a handle and calls seldom: the handle is a number, never an address.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;
use pinnace_engine::Error;

pub(crate) struct Registry<T> {
    held: Mutex<Held<T>>,
}

struct Held<T> {
    last: usize,
    things: BTreeMap<usize, Arc<T>>,
}

impl<T> Registry<T> {
    pub(crate) const fn new() -> Registry<T> {
        Registry { held: Mutex::new(Held { last: 1, things: BTreeMap::new() }) }
    }

    pub(crate) fn insert(&self, thing: T) -> *mut c_void {
        let mut held = self.held.lock();
        // Odd numbers: no object lies there.
        held.last += 2;
        let handle = held.last;
        held.things.insert(handle, Arc::new(thing));
        ptr::without_provenance_mut(handle)
    }

    pub(crate) fn get(&self, handle: *mut c_void) -> Result<Arc<T>, Error> {
        self.held.lock().things.get(&handle.addr()).cloned().ok_or(Error::Fault)
    }

    pub(crate) fn remove(&self, handle: *mut c_void) -> Result<Arc<T>, Error> {
        self.held.lock().things.remove(&handle.addr()).ok_or(Error::Fault)
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
    }
}
