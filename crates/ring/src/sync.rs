//! The atomics, the mutex and the barriers that this crate is built on: the standard ones, or loom's when its model
//! checker runs the tests.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use pinnace_sys::barrier::{heaviest, heavy, is_asymmetric, light, weightless};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// Locks a mutex.
pub(crate) fn enter<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(not(loom))]
    return mutex.lock();
    #[cfg(loom)]
    return mutex.lock().unwrap();
}

/// Two full fences give what a light and a heavy barrier give together; likewise for `weightless` and `heaviest`.
#[cfg(loom)]
pub(crate) fn full() {
    fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub(crate) use self::{full as heavy, full as light, full as heaviest, full as weightless};

#[cfg(loom)]
pub(crate) fn is_asymmetric() -> bool {
    true
}

/// Puts its content on a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Line<T>(pub(crate) T);

/// Puts its content on cache lines of its own. Two of them, since the processor fetches lines in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Padded<T>(pub(crate) T);
