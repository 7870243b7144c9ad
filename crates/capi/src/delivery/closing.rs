//! Lets `pinnace_client_close` wait until other threads have left a closed client.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

/// Clients that are closed but have not ended, by handle.
static CLOSING: Mutex<BTreeMap<usize, Arc<Closed>>> = Mutex::new(BTreeMap::new());

/// Whether a client has ended, with a condition variable to wait for it.
#[derive(Default)]
pub(super) struct Closed {
    has: Mutex<bool>,
    changed: Condvar,
}

impl Closed {
    pub(super) fn wait(&self) {
        self.changed.wait_while(&mut self.has.lock(), |has| !*has);
    }
}

/// The last field of a client: dropping it marks the client as ended.
#[derive(Default)]
pub(super) struct CloseMark {
    /// The client's handle and what its closers wait on; set by `begin`.
    of: OnceLock<(usize, Arc<Closed>)>,
}

impl CloseMark {
    /// Registers the client of this handle as closing, and returns the object to wait on.
    pub(super) fn begin(&self, handle: *mut c_void) -> Arc<Closed> {
        let (handle, ended) = self.of.get_or_init(|| (handle.addr(), Arc::default()));
        CLOSING.lock().insert(*handle, ended.clone());
        ended.clone()
    }
}

impl Drop for CloseMark {
    fn drop(&mut self) {
        let Some((handle, ended)) = self.of.get() else { return };
        CLOSING.lock().remove(handle);
        *ended.has.lock() = true;
        ended.changed.notify_all();
    }
}

/// The object to wait on, if this client is closed but has not ended.
pub(super) fn of(handle: *mut c_void) -> Option<Arc<Closed>> {
    CLOSING.lock().get(&handle.addr()).cloned()
}
