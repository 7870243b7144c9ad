//! The atomics, the mutex and the barriers this room is built on: the ordinary ones, or loom's when its model checker
//! runs the tests.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use pinnace_sys::barrier::{heavy, is_lopsided, light, settle, weightless};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// Opens a mutex and goes in.
pub(crate) fn enter<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(not(loom))]
    return mutex.lock();
    #[cfg(loom)]
    return mutex.lock().unwrap();
}

/// What a light and a heavy barrier promise together, two fences do; and so for the other pair.
#[cfg(loom)]
pub(crate) fn full() {
    fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub(crate) use self::{full as heavy, full as light, full as settle, full as weightless};

#[cfg(loom)]
pub(crate) fn is_lopsided() -> bool {
    true
}

/// Keeps what it holds on a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct Line<T>(pub(crate) T);

/// Keeps what it holds on cache lines of its own. Two lines, since the processor fetches them in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Padded<T>(pub(crate) T);
