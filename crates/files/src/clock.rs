//! The time, which the simulator sets.

use std::time::{Duration, Instant};

/// Longer times of a program count as this one, which can be added to any point in time: 100 years.
pub const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[cfg(not(test))]
pub fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
pub fn now() -> Instant {
    simulated::now().unwrap_or_else(Instant::now)
}

#[cfg(test)]
pub mod simulated {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local! {
        static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    /// This thread has a time of its own until this is dropped.
    pub struct Simulated(Instant);

    impl Simulated {
        pub fn begin() -> Simulated {
            let began = Instant::now();
            NOW.set(Some(began));
            Simulated(began)
        }

        pub fn elapsed(&self) -> Duration {
            NOW.get().map_or(Duration::ZERO, |now| now - self.0)
        }

        pub fn advance_to(&self, elapsed: Duration) {
            NOW.set(NOW.get().map(|now| now.max(self.0 + elapsed)));
        }
    }

    impl Drop for Simulated {
        fn drop(&mut self) {
            NOW.set(None);
        }
    }

    pub fn now() -> Option<Instant> {
        NOW.get()
    }
}
