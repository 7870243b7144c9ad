//! Detects forks: a forked child has our memory but none of our threads.
//!
//! Everything that was made before a fork belongs to the parent. [`generation`] tells the two apart: it has
//! another value in the child.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static WATCHED: Once = Once::new();

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Starts to count forks. Must be called before the first object that depends on it is made.
pub fn watch() {
    WATCHED.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which is allowed after a fork. If memory for the
        // handler is lacking, forks are not counted.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// The number of forks between the first process and this one.
#[inline(always)]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
