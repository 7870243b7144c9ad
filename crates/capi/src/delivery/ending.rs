//! Lets `pinnace_client_close` wait until other threads have left a closed client.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

/// Clients that are closed but have not ended, by handle.
static ENDING: Mutex<BTreeMap<usize, Arc<Ended>>> = Mutex::new(BTreeMap::new());

/// Whether a client has ended, with a condition variable to wait for it.
#[derive(Default)]
pub(super) struct Ended {
    has: Mutex<bool>,
    told: Condvar,
}

impl Ended {
    pub(super) fn wait(&self) {
        self.told.wait_while(&mut self.has.lock(), |has| !*has);
    }
}

/// The last field of a client: dropping it marks the client as ended.
#[derive(Default)]
pub(super) struct End {
    /// The client's handle and what its closers wait on; set by `begin`.
    of: OnceLock<(usize, Arc<Ended>)>,
}

impl End {
    /// Registers the client of this handle as closing, and returns the object to wait on.
    pub(super) fn begin(&self, handle: *mut c_void) -> Arc<Ended> {
        let (handle, ended) = self.of.get_or_init(|| (handle.addr(), Arc::default()));
        ENDING.lock().insert(*handle, ended.clone());
        ended.clone()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let Some((handle, ended)) = self.of.get() else { return };
        ENDING.lock().remove(handle);
        *ended.has.lock() = true;
        ended.told.notify_all();
    }
}

/// The object to wait on, if this client is closed but has not ended.
pub(super) fn of(handle: *mut c_void) -> Option<Arc<Ended>> {
    ENDING.lock().get(&handle.addr()).cloned()
}
