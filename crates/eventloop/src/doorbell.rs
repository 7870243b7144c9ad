//! Wakes an event loop.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use pinnace_engine::Error;
use pinnace_sys::wake::WakeFd;

/// Wakes the loop once, however often it is rung before the loop has noticed.
pub struct Doorbell {
    wake: WakeFd,
    rung: AtomicBool,
}

impl Doorbell {
    pub fn new() -> Result<Doorbell, Error> {
        Ok(Doorbell { wake: WakeFd::new().map_err(Error::from)?, rung: AtomicBool::new(false) })
    }

    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            self.wake.signal();
        }
    }

    /// Returns true if it was rung since the last call.
    pub fn clear(&self) -> bool {
        self.wake.clear();
        self.rung.swap(false, Ordering::SeqCst)
    }

    /// The descriptor, which can be read after a ring.
    pub fn descriptor(&self) -> RawFd {
        self.wake.raw()
    }
}
