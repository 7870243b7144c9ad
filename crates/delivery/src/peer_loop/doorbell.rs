//! Wakes the peer loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pinnace_engine::Error;
use pinnace_sys::wake::WakeFd;

/// Rings once until the peer loop has heard it.
pub struct Doorbell {
    pub wake: WakeFd,
    pub rung: AtomicBool,
    /// The peer loop waits for progress of the log.
    pub wants_disk: AtomicBool,
    /// Clients with inbox news.
    pub news: Mutex<Vec<u32>>,
}

impl Doorbell {
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            self.wake.signal();
        }
    }

    /// Called after progress of the log, or when it has failed.
    pub fn ring_where_wanted(&self, failed: bool) {
        if failed || self.wants_disk.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    pub fn ring_for(&self, client: u32) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        self.ring();
    }

    pub fn new() -> Result<Doorbell, Error> {
        let wake = WakeFd::new().map_err(Error::from)?;
        Ok(Doorbell {
            wake,
            rung: AtomicBool::new(false),
            wants_disk: AtomicBool::new(true),
            news: Mutex::default(),
        })
    }
}
