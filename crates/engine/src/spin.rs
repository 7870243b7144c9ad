//! How long to spin before sleeping.
//!
//! Spinning pays if another thread is about to deliver what the caller waits for, and only if that thread has a core to
//! run on. After a success the next spin has the maximum length, after a failure it is shorter. After a series of waits
//! without spinning one spin is tried again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pinnace_sys::process;

/// Rounds of a spin, each twice as long as the one before: 127 pauses in all, some microseconds.
const ROUNDS_MAX: u32 = 7;
/// After failures, the number of waits without a spin before the next trial.
const REST: u32 = 32;

/// Spin statistics of one place where threads wait.
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
    /// The number of rounds to spin this time.
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

    /// A spin of `rounds` rounds found nothing.
    pub(crate) fn failed(&self, rounds: u32) {
        self.rounds.store(rounds.saturating_sub(2), Ordering::Relaxed);
    }
}

/// The value of ZMQ_BUSY_POLL for: never spin.
pub(crate) const NEVER: i32 = -1;
/// Descheduled for this long means that cores are scarce: stop spinning.
pub(crate) const CROWDED: Duration = Duration::from_micros(25);
/// How long to poll memory that a peer in another process writes: while that pays, ...
const PAYS: Duration = Duration::from_micros(40);
/// ... and in a trial of whether it pays, since the peer may have to be woken first.
const TRIAL: Duration = Duration::from_micros(120);
/// The most waits between two trials.
const RESTS_MAX: u32 = 2048;

/// Statistics of polling the memory of a socket's links.
#[derive(Default)]
pub(crate) struct MemorySpin {
    /// The number of coming waits that do not poll.
    rests: AtomicU32,
    /// Failed polls in a row.
    failures: AtomicU32,
}

impl MemorySpin {
    /// How long to poll this time. `set`: ZMQ_BUSY_POLL in microseconds; 0: decide by experience; negative: never.
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

    /// A poll found nothing: the waits between trials double.
    pub(crate) fn failed(&self) {
        let failures = self.failures.load(Ordering::Relaxed).saturating_add(1);
        self.failures.store(failures, Ordering::Relaxed);
        self.rests.store(RESTS_MAX.min(1 << failures.min(16)), Ordering::Relaxed);
    }
}

/// Whether another process can run at the same time as this one.
fn has_others() -> bool {
    static OTHERS: OnceLock<bool> = OnceLock::new();
    *OTHERS.get_or_init(|| process::processors() > 1)
}

/// Whether this process may run on one core only. Determined once: a later change of affinity costs some microseconds
/// per wait.
pub(crate) fn is_single_processor() -> bool {
    static SINGLE: OnceLock<bool> = OnceLock::new();
    *SINGLE.get_or_init(|| std::thread::available_parallelism().is_ok_and(|count| count.get() == 1))
}
