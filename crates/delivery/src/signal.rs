//! A condition variable for changes behind a lock, which costs nothing while no thread waits.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Instant;

use crate::environment::now;

/// How long a call may wait.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// None: without limit.
    pub until: Option<Instant>,
    /// Ends the wait when set. The thread that sets it must then acquire and release the lock, and call `Signal::tell`.
    pub called_off: Option<&'a AtomicBool>,
}

impl Patience<'_> {
    /// The same, ending at `other` at the latest, if there is one.
    pub fn until(self, other: Option<Instant>) -> Self {
        Patience { until: self.until.into_iter().chain(other).min(), ..self }
    }

    pub fn is_over(&self) -> bool {
        self.called_off.is_some_and(|called_off| called_off.load(Ordering::Relaxed))
            || self.until.is_some_and(|until| until <= now())
    }
}

impl From<Option<Instant>> for Patience<'_> {
    fn from(until: Option<Instant>) -> Self {
        Patience { until, called_off: None }
    }
}

/// A condition variable that counts its waiting threads. All of them must hold the same lock.
#[derive(Default)]
pub struct Signal {
    changed: Condvar,
    /// Changed only under the lock. A thread that makes a change under the lock and loads this afterwards sees every
    /// thread that has not seen the change.
    waiting: AtomicUsize,
}

impl Signal {
    /// Releases the lock until a change, the end of `patience`, or a spurious wake-up. None: `patience` has ended, and
    /// the lock is released.
    pub fn wait<'a, 'p, T>(
        &self,
        guard: MutexGuard<'a, T>,
        patience: impl Into<Patience<'p>>,
    ) -> Option<MutexGuard<'a, T>> {
        let patience = patience.into();
        if patience.is_over() {
            return None;
        }
        let time = patience.until.map(|until| until.saturating_duration_since(now()));
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = match time {
            None => self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(time) => self.changed.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0,
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(guard)
    }

    /// Wakes all waiting threads.
    pub fn tell(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }
}
