//! The end of a client that was closed while others were in it: when it came, for those who wait for it.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

/// Clients that were closed and have not ended, by their handles.
static ENDING: Mutex<BTreeMap<usize, Arc<Ended>>> = Mutex::new(BTreeMap::new());

/// Whether a client has ended.
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

/// The last part of a client: it has ended when this is dropped.
#[derive(Default)]
pub(super) struct End {
    /// Its handle, once it was closed.
    of: OnceLock<(usize, Arc<Ended>)>,
}

impl End {
    /// The client of this handle is being closed. Returns what to wait for.
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

/// What to wait for, where a client was closed and has not ended.
pub(super) fn of(handle: *mut c_void) -> Option<Arc<Ended>> {
    ENDING.lock().get(&handle.addr()).cloned()
}
