//! Pacing: how many bytes may go now, so that a rate is not exceeded.
//!
//! Bytes become available at the rate, and are kept up to a burst of a tenth of a second.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use pinnace_stream::Pacer;
//!
//! let began = Instant::now();
//! let mut pacer = Pacer::new(1_000_000, began);
//! assert_eq!(pacer.take(5_000_000, began), 100_000);
//! assert_eq!(pacer.take(5_000_000, began), 0);
//! assert_eq!(pacer.next(), began + Duration::from_millis(10));
//! assert_eq!(pacer.take(5_000_000, began + Duration::from_millis(10)), 10_000);
//! ```

use std::time::{Duration, Instant};

/// A rate limit.
#[derive(Debug, Clone)]
pub struct Pacer {
    bytes_per_s: u64,
    /// When nothing would be available, if nothing more is taken.
    empty_at: Instant,
}

/// The most bytes that are kept, as the time in which they become available.
const BURST: Duration = Duration::from_millis(100);

/// The fewest bytes that are available, as the time in which they become so: else a caller that asks at every moment
/// gets a few at a time, and each message has a head.
const STEP: Duration = Duration::from_millis(10);

impl Pacer {
    /// A limit of at least one byte a second.
    pub fn new(bytes_per_s: u64, now: Instant) -> Pacer {
        Pacer { bytes_per_s: bytes_per_s.max(1), empty_at: now.checked_sub(BURST).unwrap_or(now) }
    }

    /// Takes the bytes that are available now, at most `wanted`.
    pub fn take(&mut self, wanted: u64, now: Instant) -> u64 {
        let taken = self.available(now).min(wanted);
        self.spend(taken, now);
        taken
    }

    /// How many bytes are available now: none, until those of a hundredth of a second are.
    pub fn available(&self, now: Instant) -> u64 {
        let time = now.saturating_duration_since(self.empty_at).min(BURST);
        if time < STEP {
            return 0;
        }
        // At most u64::MAX bytes a second for a tenth of a second.
        (u128::from(self.bytes_per_s) * time.as_nanos() / 1_000_000_000) as u64
    }

    /// Counts bytes that go now, perhaps more than are available: the next ones come later.
    pub fn spend(&mut self, bytes: u64, now: Instant) {
        let nanoseconds = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.bytes_per_s));
        let time = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        self.empty_at = self.empty_at.max(now.checked_sub(BURST).unwrap_or(now)) + time;
    }

    /// When some bytes are available, if nothing more is taken.
    pub fn next(&self) -> Instant {
        self.empty_at + STEP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_whatever_the_calls() {
        let (began, rate) = (Instant::now(), 1_234_567);
        for step in [1, 7, 50, 300] {
            let (mut pacer, mut taken) = (Pacer::new(rate, began), 0);
            for at in (0..=10_000).step_by(step) {
                let now = pacer.take(u64::MAX, began + Duration::from_millis(at));
                assert!(now == 0 || now >= rate / 100, "{now}");
                taken += now;
            }
            let most = rate * 10 + rate / 10;
            let least = if step <= 100 { rate * 99 / 10 } else { rate * 10 * 100 / step as u64 };
            assert!((least * 99 / 100..=most).contains(&taken), "{step}: {taken} of {most}");
        }
    }

    #[test]
    fn what_exceeds_the_rate_is_made_up_for() {
        let began = Instant::now();
        let mut pacer = Pacer::new(1000, began);
        pacer.spend(2100, began);
        assert_eq!(pacer.available(began + Duration::from_secs(2)), 0);
        assert_eq!(pacer.next(), began + Duration::from_secs(2) + STEP);
        assert_eq!(pacer.available(began + Duration::from_millis(2050)), 50);
        assert_eq!(pacer.available(began + Duration::from_secs(99)), 100, "no more than the burst");
    }
}
