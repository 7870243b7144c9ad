//! What a fork does to us: the child has our memory but none of our threads.
//!
//! Everything that was made before a fork is the parent's. [`generation`] tells the two apart: it is another
//! number in the child.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static WATCHED: Once = Once::new();

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Begins to count forks. Called once before the first object that has to know is made.
pub fn watch() {
    WATCHED.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which is allowed after a fork. Out of memory leaves
        // forks uncounted.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// How many forks lie between the first process and this one.
#[inline(always)]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
