//! The atomics this room is built on: the standard library's, or loom's when its model checker runs the
//! tests.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// Stands between a sequentially consistent write and the read that must not pass it. Such accesses need
/// nothing more; loom takes them for release and acquire, and only its fences for what they are.
#[inline(always)]
pub(crate) fn in_one_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Keeps what it holds on cache lines of its own. Two lines, since the processor fetches them in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Padded<T>(pub(crate) T);
