//! Waiting for a change behind a lock, which costs nothing where nobody waits.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Instant;

/// How long somebody waits.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// None: for ever.
    pub until: Option<Instant>,
    /// Or until this is set. Who sets it tells the signal, with the lock held in between.
    pub called_off: Option<&'a AtomicBool>,
}

impl Patience<'_> {
    /// It ends no later than at a time, where there is one.
    pub fn until(self, other: Option<Instant>) -> Self {
        Patience { until: self.until.into_iter().chain(other).min(), ..self }
    }

    pub fn is_over(&self) -> bool {
        self.called_off.is_some_and(|called_off| called_off.load(Ordering::Relaxed))
            || self.until.is_some_and(|until| until <= Instant::now())
    }
}

impl From<Option<Instant>> for Patience<'_> {
    fn from(until: Option<Instant>) -> Self {
        Patience { until, called_off: None }
    }
}

/// A condition variable that knows whether anybody waits. All who wait hold the same lock.
#[derive(Default)]
pub struct Signal {
    changed: Condvar,
    /// Changed under the lock. Who made a change under it, and looks here after, sees all who have not seen that.
    waiting: AtomicUsize,
}

impl Signal {
    /// Lets go of the lock until there was a change, or patience is at its end, or for no reason. None: it was.
    pub fn wait<'a, 'p, T>(
        &self,
        guard: MutexGuard<'a, T>,
        patience: impl Into<Patience<'p>>,
    ) -> Option<MutexGuard<'a, T>> {
        let patience = patience.into();
        if patience.is_over() {
            return None;
        }
        let time = patience.until.map(|until| until.saturating_duration_since(Instant::now()));
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
