//! Wakes the peer loop, and says why.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Rings once until the peer loop has heard it.
pub struct Doorbell {
    wake: Arc<pinnace_eventloop::Doorbell>,
    /// The peer loop waits for progress of the log.
    pub wants_disk: AtomicBool,
    /// Clients with inbox news.
    pub news: Mutex<Vec<u32>>,
    /// How often the peer loop has worked.
    #[cfg(test)]
    pub turns: std::sync::atomic::AtomicU64,
}

impl Doorbell {
    pub fn new(wake: Arc<pinnace_eventloop::Doorbell>) -> Doorbell {
        Doorbell {
            wake,
            wants_disk: AtomicBool::new(true),
            news: Mutex::default(),
            #[cfg(test)]
            turns: Default::default(),
        }
    }

    pub fn ring(&self) {
        self.wake.ring();
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

    #[cfg(test)]
    pub fn clear(&self) {
        self.wake.clear();
    }

    #[cfg(test)]
    pub fn is_rung(&self) -> bool {
        self.wake.is_rung()
    }
}
