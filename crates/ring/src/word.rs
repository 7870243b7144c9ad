//! A word of memory that threads sleep on: the kernel's futex, and under loom what loom can follow.
//!
//! `wait` sleeps only while the word is the given value: no `wake_all` falls between the look and the sleep.

use std::time::Instant;

pub(crate) use pinnace_sys::futex::Waited;

use crate::sync::{AtomicU32, Ordering};

#[derive(Default)]
pub(crate) struct Word {
    value: AtomicU32,
    #[cfg(loom)]
    sleepers: (loom::sync::Mutex<()>, loom::sync::Condvar),
}

impl Word {
    #[inline]
    pub(crate) fn load(&self) -> u32 {
        self.value.load(Ordering::SeqCst)
    }

    #[inline(always)]
    pub(crate) fn load_relaxed(&self) -> u32 {
        self.value.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn load_acquire(&self) -> u32 {
        self.value.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn store(&self, value: u32, order: Ordering) {
        self.value.store(value, order);
    }

    /// Makes it another.
    pub(crate) fn bump(&self) {
        self.value.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(not(loom))]
impl Word {
    pub(crate) fn wait(&self, value: u32, deadline: Option<Instant>) -> Waited {
        pinnace_sys::futex::wait(&self.value, value, deadline)
    }

    pub(crate) fn wake_all(&self) {
        pinnace_sys::futex::wake_all(&self.value);
    }
}

/// The kernel looks and queues the sleeper under a lock of its own, and takes it to wake; loom knows no time.
#[cfg(loom)]
impl Word {
    pub(crate) fn wait(&self, value: u32, _deadline: Option<Instant>) -> Waited {
        let asleep = self.sleepers.0.lock().unwrap();
        if self.load() == value {
            drop(self.sleepers.1.wait(asleep).unwrap());
        }
        Waited::Changed
    }

    pub(crate) fn wake_all(&self) {
        let _asleep = self.sleepers.0.lock().unwrap();
        self.sleepers.1.notify_all();
    }
}
