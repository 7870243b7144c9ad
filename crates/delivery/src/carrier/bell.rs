//! What wakes the carrier.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pinnace_engine::Error;
use pinnace_sys::wake::WakeFd;

/// Rings until it is heard.
pub struct Bell {
    pub wake: WakeFd,
    pub rung: AtomicBool,
    /// The carrier waits for what is on its way to the disk.
    pub wants_disk: AtomicBool,
    /// Clients whose inboxes have news.
    pub news: Mutex<Vec<u32>>,
}

impl Bell {
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            self.wake.signal();
        }
    }

    /// More is on the disk, or the log has failed.
    pub fn ring_where_wanted(&self, failed: bool) {
        if failed || self.wants_disk.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    pub fn ring_for(&self, client: u32) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        self.ring();
    }

    pub fn new() -> Result<Bell, Error> {
        let wake = WakeFd::new().map_err(Error::from)?;
        Ok(Bell {
            wake,
            rung: AtomicBool::new(false),
            wants_disk: AtomicBool::new(true),
            news: Mutex::default(),
        })
    }
}
