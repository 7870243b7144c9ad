//! Waiting for a change behind a lock, which costs nothing where nobody waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Instant;

/// A condition variable that knows whether anybody waits. All who wait hold the same lock.
#[derive(Default)]
pub struct Signal {
    changed: Condvar,
    /// Changed under the lock. Who made a change under it, and looks here after, sees all who have not seen that.
    waiting: AtomicUsize,
}

impl Signal {
    /// Lets go of the lock until there was a change, or the time has come, or for no reason. None: it had come.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>, until: Option<Instant>) -> Option<MutexGuard<'a, T>> {
        let time = until.map(|until| until.saturating_duration_since(Instant::now()));
        if time.is_some_and(|time| time.is_zero()) {
            return None;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = match time {
            None => self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(time) => self.changed.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0,
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(guard)
    }

    /// Wakes all who wait.
    pub fn tell(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }
}
