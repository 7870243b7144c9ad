//! How long it pays to look again and again before sleeping.
//!
//! Looking pays where another thread is about to bring what is waited for, and only if that thread has a
//! processor to run on. Each success makes the next look longer, each failure shorter; now and then a look is
//! tried all the same.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// Whether this process may run on one processor only. Asked once: an affinity that changes later costs some
/// microseconds.
pub(crate) fn is_single_processor() -> bool {
    static SINGLE: OnceLock<bool> = OnceLock::new();
    *SINGLE.get_or_init(|| std::thread::available_parallelism().is_ok_and(|count| count.get() == 1))
}
