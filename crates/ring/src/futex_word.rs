//! A futex word: the kernel's futex, or under loom a model of it that loom can follow.
//!
//! `wait` sleeps only while the word has the given value: no `wake_all` is lost between the check and the
//! sleep.

use std::time::Instant;

pub(crate) use pinnace_sys::futex::{Among, Waited};

use crate::sync::{AtomicU32, Ordering};

#[derive(Default)]
pub(crate) struct FutexWord {
    value: AtomicU32,
    #[cfg(loom)]
    sleepers: (loom::sync::Mutex<u32>, loom::sync::Condvar),
}

impl FutexWord {
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

    /// Changes the value.
    pub(crate) fn bump(&self) {
        self.value.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(not(loom))]
impl FutexWord {
    pub(crate) fn atomic(&self) -> &AtomicU32 {
        &self.value
    }

    pub(crate) fn wait(&self, value: u32, deadline: Option<Instant>, among: Among) -> Waited {
        pinnace_sys::futex::wait(&self.value, value, deadline, among)
    }

    pub(crate) fn wake_all(&self, among: Among) {
        pinnace_sys::futex::wake_all(&self.value, among);
    }

    /// Returns false if no thread is asleep.
    pub(crate) fn wake_one(&self, among: Among) -> bool {
        pinnace_sys::futex::wake_one(&self.value, among)
    }
}

/// The kernel checks the word and queues the sleeper under a lock of its own, which a wake-up takes too. loom
/// has no time.
#[cfg(loom)]
impl FutexWord {
    pub(crate) fn wait(&self, value: u32, _deadline: Option<Instant>, _among: Among) -> Waited {
        let mut asleep = self.sleepers.0.lock().unwrap();
        if self.load() == value {
            *asleep += 1;
            drop(self.sleepers.1.wait(asleep).unwrap());
        }
        Waited::Changed
    }

    pub(crate) fn wake_all(&self, _among: Among) {
        *self.sleepers.0.lock().unwrap() = 0;
        self.sleepers.1.notify_all();
    }

    pub(crate) fn wake_one(&self, _among: Among) -> bool {
        let mut asleep = self.sleepers.0.lock().unwrap();
        let woken = (*asleep).min(1);
        *asleep -= woken;
        self.sleepers.1.notify_one();
        woken == 1
    }
}
