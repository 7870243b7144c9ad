//! Wakes an event loop.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use pinnace_engine::Error;
use pinnace_sys::wake::WakeFd;

/// Coalesces rings: the loop wakes up once until the next `clear`.
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

    /// Called before shared state is checked again: a change made before a ring is visible then, and later rings wake
    /// the loop again.
    pub fn clear(&self) {
        self.wake.clear();
        self.rung.store(false, Ordering::SeqCst);
    }

    /// Returns true if it was rung since the last `clear`.
    pub fn is_rung(&self) -> bool {
        self.rung.load(Ordering::SeqCst)
    }

    /// The descriptor, which can be read after a ring.
    pub fn descriptor(&self) -> RawFd {
        self.wake.raw()
    }
}
