//! Sleeping on a futex word (futex(2)), between the threads of one process or of several.

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;

use crate::poll::timespec;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The word has changed, or we were woken: check again.
    Changed,
    TimedOut,
    /// A signal was handled (EINTR).
    Interrupted,
}

/// Which threads use a futex word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// Threads of one process (FUTEX_PRIVATE_FLAG).
    Threads,
    /// Processes that share the memory. A process with a read-only mapping can wake, too.
    Processes,
}

impl Among {
    fn flags(self) -> futex::Flags {
        match self {
            Among::Threads => futex::Flags::PRIVATE,
            Among::Processes => futex::Flags::empty(),
        }
    }
}

/// Used as the time-out where there is no deadline: 34 years. Without a time-out the kernel resumes the wait
/// after a handler that was installed with SA_RESTART (signal(7)), and the caller would miss the signal.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// Sleeps while `word` is `value`, until woken or until the deadline.
pub fn wait(word: &AtomicU32, value: u32, deadline: Option<Instant>, among: Among) -> Waited {
    let timeout = deadline.map_or(FOR_EVER, |deadline| deadline.saturating_duration_since(Instant::now()));
    match futex::wait(word, among.flags(), value, Some(&timespec(timeout))) {
        Err(Errno::TIMEDOUT) => Waited::TimedOut,
        Err(Errno::INTR) => Waited::Interrupted,
        _ => Waited::Changed,
    }
}

/// Wakes all sleepers on `word`.
pub fn wake_all(word: &AtomicU32, among: Among) {
    // It fails only for an invalid address, which a reference is not.
    let _ = futex::wake(word, among.flags(), i32::MAX as u32);
}

/// Wakes one sleeper on `word`. Returns false if there is none.
pub fn wake_one(word: &AtomicU32, among: Among) -> bool {
    futex::wake(word, among.flags(), 1).is_ok_and(|woken| woken > 0)
}
