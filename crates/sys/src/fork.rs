//! Detects forks: a forked child has our memory but none of our threads.
//!
//! Everything that was made before a fork belongs to the parent. [`generation`] tells the two apart: it has
//! another value in the child. Descriptors whose lock must not outlive the parent are kept from it ([`Unshared`]).

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static WATCHED: Once = Once::new();

/// No descriptor.
const NONE: RawFd = -1;
/// The descriptors that are kept from children. If all entries are used, further descriptors are shared.
static UNSHARED: [AtomicI32; 256] = [const { AtomicI32::new(NONE) }; 256];

/// Runs in the child, where only async-signal-safe calls are allowed (fork(2), signal-safety(7)).
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    if UNSHARED.iter().all(|fd| fd.load(Ordering::Relaxed) == NONE) {
        return;
    }
    // SAFETY: system calls with a constant path, and with descriptors that are this process's own copies. The numbers
    // stay open, so that what the parent's values do with them here concerns no other file.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        for fd in UNSHARED.iter().map(|fd| fd.swap(NONE, Ordering::Relaxed)).filter(|fd| *fd != NONE) {
            libc::dup3(null, fd, libc::O_CLOEXEC);
        }
        libc::close(null);
    }
}

/// Starts to count forks. Must be called before the first object that depends on the count is created.
pub fn watch() {
    WATCHED.call_once(|| {
        // SAFETY: the handler makes only calls that are allowed after a fork. If memory for the handler is lacking,
        // forks are not counted.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// The number of forks between the first process and this one.
#[inline(always)]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Keeps a descriptor from children of fork(2), which otherwise share the open file, and with it a lock (flock(2)), for
/// as long as they live. A child finds /dev/null under its number. Drop it before the descriptor is closed.
pub struct Unshared {
    slot: usize,
    fd: RawFd,
}

impl Unshared {
    /// None: too many are kept already; children share this one.
    pub fn new(fd: &impl AsRawFd) -> Option<Unshared> {
        watch();
        let fd = fd.as_raw_fd();
        let take =
            |slot: &AtomicI32| slot.compare_exchange(NONE, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let slot = UNSHARED.iter().position(take)?;
        Some(Unshared { slot, fd })
    }
}

impl Drop for Unshared {
    fn drop(&mut self) {
        // In a child the slot may belong to another descriptor.
        let _ = UNSHARED[self.slot].compare_exchange(self.fd, NONE, Ordering::Relaxed, Ordering::Relaxed);
    }
}
