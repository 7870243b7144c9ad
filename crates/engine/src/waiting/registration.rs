//! A socket's registration with a poller, and the sleep of a caller in a poller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use pinnace_sys::AsFd;
use pinnace_sys::poll::{POLLIN as READABLE, Polled};
use pinnace_sys::sleep::{Sleep, Slept};
use pinnace_sys::wake::WakeFd;

use super::pending_sleep;
use crate::error::Error;

/// The part of a poller that reporting sockets use.
pub(crate) struct PollerShared {
    pub(crate) set: pinnace_sys::poll::Poller,
    pub(crate) wake: WakeFd,
    /// Tokens of the entries to examine, in order.
    pub(crate) to_examine: Mutex<Vec<u64>>,
    pub(crate) asleep: AtomicU32,
    /// The application watches the epoll descriptor by itself (`Poller::descriptor`).
    pub(crate) fd_is_watched: AtomicBool,
    pub(crate) ended: AtomicBool,
}

/// A socket's reference to a poller that it is registered with.
pub(crate) struct PollerRegistration {
    pub(crate) shared: Arc<PollerShared>,
    pub(crate) token: u64,
    /// The entry is on the list of entries to examine.
    pub(crate) is_listed: AtomicBool,
}

impl PollerShared {
    /// Wakes the other waiting threads.
    pub(crate) fn wake_others(&self) {
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.wake.signal();
        }
    }
}

/// The prepared sleep of a caller in a poller.
pub(crate) struct PollerSleep {
    shared: Arc<PollerShared>,
    pub(crate) sleep: Sleep,
}

impl PollerSleep {
    /// From now on a report wakes this caller.
    pub(crate) fn begin(shared: &Arc<PollerShared>, deadline: Option<Instant>) -> PollerSleep {
        shared.asleep.fetch_add(1, Ordering::SeqCst);
        let set = Polled { fd: shared.set.as_fd(), events: READABLE, revents: 0 };
        PollerSleep { shared: shared.clone(), sleep: Sleep::on_descriptors(&[set], deadline, None) }
    }

    pub(crate) fn end(self, slept: Slept) -> Result<(), Error> {
        if slept == Slept::TimedOut { Ok(()) } else { pending_sleep::outcome(slept) }
    }
}

impl Drop for PollerSleep {
    fn drop(&mut self) {
        self.shared.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PollerRegistration {
    /// Reports that something may have changed.
    pub(crate) fn tell(&self) {
        if !self.is_listed.load(Ordering::SeqCst) && !self.is_listed.swap(true, Ordering::SeqCst) {
            self.shared.to_examine.lock().push(self.token);
            if self.shared.asleep.load(Ordering::SeqCst) > 0
                || self.shared.fd_is_watched.load(Ordering::SeqCst)
            {
                self.shared.wake.signal();
            }
        }
    }
}
