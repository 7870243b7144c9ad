//! Time and randomness. In a simulation both come from its seed.

use std::io;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock, for waiting.
pub fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    Instant::now()
}

/// The wall clock, in milliseconds since 1970: for what other hosts see.
pub fn now_ms() -> u64 {
    #[cfg(test)]
    if let Some(now_ms) = simulated::now_ms() {
        return now_ms;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// N random bytes.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    #[cfg(test)]
    if let Some(bytes) = simulated::random() {
        return Ok(bytes);
    }
    Ok(pinnace_sys::random::bytes()?)
}

/// The credit window of a connection and the permitted overdraft, in bytes; a simulation substitutes its own.
pub fn credit_limits(window: u64, overdraft: u64) -> (u64, u64) {
    #[cfg(test)]
    if let Some(window) = simulated::window() {
        return (window, simulated::OVERDRAFT);
    }
    (window, overdraft)
}

/// The most ranges of a set in one frame or record; a simulation substitutes its own.
pub fn ranges_limit(most: usize) -> usize {
    #[cfg(test)]
    if let Some(limit) = simulated::ranges_limit() {
        return limit.min(most);
    }
    most
}

/// The most bytes of a part of a message; a simulation substitutes its own.
pub fn part_limit(most: usize) -> usize {
    #[cfg(test)]
    if let Some(limit) = simulated::part_limit() {
        return limit.min(most);
    }
    most
}

/// The environment of a simulation, which runs on one thread.
#[cfg(test)]
pub mod simulated {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    /// The time of day when a simulation begins, in milliseconds since 1970.
    const START_UNIX_MS: u64 = 1_800_000_000_000;

    #[derive(Clone, Copy)]
    struct Simulated {
        began: Instant,
        elapsed: Duration,
        /// The wall-clock offset of the process that takes a step.
        skew_ms: i64,
        random: u64,
        window: u64,
        ranges_limit: usize,
        part_limit: usize,
    }

    /// How far a window may be exceeded: by a message, or by a run of messages that are held in memory.
    pub const OVERDRAFT: u64 = 100_000;

    thread_local! {
        static CURRENT: Cell<Option<Simulated>> = const { Cell::new(None) };
    }

    /// Begins a simulation on this thread, which lasts until the value is dropped.
    pub struct Simulation(());

    impl Simulation {
        pub fn begin(seed: u64) -> Simulation {
            let began = Instant::now();
            CURRENT.set(Some(Simulated {
                began,
                elapsed: Duration::ZERO,
                skew_ms: 0,
                random: seed,
                window: u64::MAX,
                ranges_limit: usize::MAX,
                part_limit: usize::MAX,
            }));
            Simulation(())
        }
    }

    impl Drop for Simulation {
        fn drop(&mut self) {
            CURRENT.set(None);
        }
    }

    fn with_state<R>(change: impl FnOnce(&mut Simulated) -> R) -> Option<R> {
        let mut this = CURRENT.get()?;
        let changed = change(&mut this);
        CURRENT.set(Some(this));
        Some(changed)
    }

    pub fn now() -> Option<Instant> {
        CURRENT.get().map(|this| this.began + this.elapsed)
    }

    pub fn now_ms() -> Option<u64> {
        CURRENT
            .get()
            .map(|this| (START_UNIX_MS + this.elapsed.as_millis() as u64).saturating_add_signed(this.skew_ms))
    }

    /// The time since the simulation began.
    pub fn elapsed() -> Duration {
        CURRENT.get().map_or(Duration::ZERO, |this| this.elapsed)
    }

    pub fn since_begin(at: Instant) -> Duration {
        CURRENT.get().map_or(Duration::ZERO, |this| at.saturating_duration_since(this.began))
    }

    pub fn advance_to(elapsed: Duration) {
        with_state(|this| this.elapsed = this.elapsed.max(elapsed));
    }

    pub fn set_skew_ms(skew_ms: i64) {
        with_state(|this| this.skew_ms = skew_ms);
    }

    pub fn window() -> Option<u64> {
        CURRENT.get().map(|this| this.window)
    }

    pub fn set_window(window: u64) {
        with_state(|this| this.window = window);
    }

    pub fn ranges_limit() -> Option<usize> {
        CURRENT.get().map(|this| this.ranges_limit)
    }

    pub fn set_ranges_limit(limit: usize) {
        with_state(|this| this.ranges_limit = limit);
    }

    pub fn part_limit() -> Option<usize> {
        CURRENT.get().map(|this| this.part_limit)
    }

    pub fn set_part_limit(limit: usize) {
        with_state(|this| this.part_limit = limit);
    }

    pub fn random<const N: usize>() -> Option<[u8; N]> {
        with_state(|this| std::array::from_fn(|_| next(&mut this.random) as u8))
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(bound: u64) -> u64 {
        with_state(|this| next(&mut this.random) % bound).unwrap_or(0)
    }

    /// splitmix64.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
