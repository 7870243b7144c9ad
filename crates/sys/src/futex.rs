//! Sleeping on a word of memory (futex(2)), between the threads of one process.

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;

use crate::poll::timespec;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The word is another, or somebody woke us: look again.
    Changed,
    TimedOut,
    /// A signal was handled (EINTR).
    Interrupted,
}

/// In place of no time-out: 34 years. Without one the kernel goes on by itself after a handler that was installed
/// with SA_RESTART (signal(7)), and the caller would not hear of the signal.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// Sleeps while `word` is `value`, until woken or until the deadline.
pub fn wait(word: &AtomicU32, value: u32, deadline: Option<Instant>) -> Waited {
    let timeout = deadline.map_or(FOR_EVER, |deadline| deadline.saturating_duration_since(Instant::now()));
    match futex::wait(word, futex::Flags::PRIVATE, value, Some(&timespec(timeout))) {
        Err(Errno::TIMEDOUT) => Waited::TimedOut,
        Err(Errno::INTR) => Waited::Interrupted,
        _ => Waited::Changed,
    }
}

/// Wakes all who sleep on `word`.
pub fn wake_all(word: &AtomicU32) {
    // It fails only for an address that is none, which a reference is not.
    let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
}
