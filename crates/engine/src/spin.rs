//! How long it pays to look again and again before sleeping.
//!
//! Looking pays where another thread is about to bring what is waited for, and only if that thread has a
//! processor to run on. Each success makes the next look longer, each failure shorter; now and then a look is
//! tried all the same.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pinnace_sys::process;

/// Rounds of a look, each twice as long as the one before: 127 pauses in all, some microseconds.
const ROUNDS_MAX: u32 = 7;
/// Waits that do not look, after looking has failed, until one does again.
const REST: u32 = 32;

/// What is known of one place where threads wait.
pub(crate) struct Spin {
    rounds: AtomicU32,
    rested: AtomicU32,
}

impl Default for Spin {
    fn default() -> Spin {
        Spin { rounds: AtomicU32::new(ROUNDS_MAX), rested: AtomicU32::new(0) }
    }
}

impl Spin {
    /// How many rounds to look this time.
    pub(crate) fn rounds(&self) -> u32 {
        if is_single_processor() {
            return 0;
        }
        let rounds = self.rounds.load(Ordering::Relaxed);
        if rounds == 0 && self.rested.fetch_add(1, Ordering::Relaxed) >= REST {
            self.rested.store(0, Ordering::Relaxed);
            return ROUNDS_MAX;
        }
        rounds
    }

    pub(crate) fn paid(&self) {
        self.rounds.store(ROUNDS_MAX, Ordering::Relaxed);
    }

    /// A look of so many rounds found nothing.
    pub(crate) fn failed(&self, rounds: u32) {
        self.rounds.store(rounds.saturating_sub(2), Ordering::Relaxed);
    }
}

/// ZMQ_BUSY_POLL says: never.
pub(crate) const NEVER: i32 = -1;
/// Who is off its processor for so long has to share it.
pub(crate) const CROWDED: Duration = Duration::from_micros(25);
/// How long to look after memory that a peer in another process writes: while that pays, ...
const PAYS: Duration = Duration::from_micros(40);
/// ... and to find out whether it does: the peer may have to be woken first.
const TRIAL: Duration = Duration::from_micros(120);
/// Waits between two trials at most.
const RESTS_MAX: u32 = 2048;

/// What is known of looking after the memory of a socket's links.
#[derive(Default)]
pub(crate) struct Watchful {
    /// Waits that do not look, from now on.
    rests: AtomicU32,
    /// Looks in a row that have failed.
    failures: AtomicU32,
}

impl Watchful {
    /// How long to look this time, where ZMQ_BUSY_POLL is `set`: in microseconds, 0 for what experience says.
    pub(crate) fn limit(&self, set: i32) -> Duration {
        if set != 0 {
            return Duration::from_micros(u64::try_from(set).unwrap_or(0));
        }
        if !has_others() {
            return Duration::ZERO;
        }
        if self.failures.load(Ordering::Relaxed) == 0 {
            return PAYS;
        }
        let rests = self.rests.load(Ordering::Relaxed);
        if rests > 0 {
            self.rests.store(rests - 1, Ordering::Relaxed);
            return Duration::ZERO;
        }
        TRIAL
    }

    pub(crate) fn paid(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// A look found nothing: the next ones come more and more seldom.
    pub(crate) fn failed(&self) {
        let failures = self.failures.load(Ordering::Relaxed).saturating_add(1);
        self.failures.store(failures, Ordering::Relaxed);
        self.rests.store(RESTS_MAX.min(1 << failures.min(16)), Ordering::Relaxed);
    }
}

/// Whether another process can run while this one does.
fn has_others() -> bool {
    static OTHERS: OnceLock<bool> = OnceLock::new();
    *OTHERS.get_or_init(|| process::processors() > 1)
}

/// Whether this process may run on one processor only. Asked once: an affinity that changes later costs some
/// microseconds.
pub(crate) fn is_single_processor() -> bool {
    static SINGLE: OnceLock<bool> = OnceLock::new();
    *SINGLE.get_or_init(|| std::thread::available_parallelism().is_ok_and(|count| count.get() == 1))
}
