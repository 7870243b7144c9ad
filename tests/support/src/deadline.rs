//! Waiting without sleeping: for a condition, or for a whole test, each with a deadline.

use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long the tests wait for an event that must come. Long, because the machine may be busy; a passing test does
/// not wait for it.
pub const PATIENCE_MS: i32 = 20_000;

/// How long the tests wait to show that no event comes.
pub const ABSENCE_MS: i32 = 150;

/// How long one test may take; the long forms take longer.
pub fn test_limit_s() -> u64 {
    if crate::child::long() { 1_200 } else { 60 }
}

/// Runs a test's body on its own thread; panics if it takes longer than `seconds`.
#[track_caller]
pub fn within<T: Send + 'static>(seconds: u64, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let value = body();
        let _ = done.send(());
        value
    });
    if let Err(mpsc::RecvTimeoutError::Timeout) = wait.recv_timeout(Duration::from_secs(seconds)) {
        panic!("not done within {seconds} s");
    }
    match thread.join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Polls `condition` until it holds; panics after [`PATIENCE_MS`].
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    until_some(what, || condition().then_some(()));
}

/// As [`until`], for a condition that yields a value.
#[track_caller]
pub fn until_some<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < Duration::from_millis(PATIENCE_MS as u64), "in vain: {what}");
        std::thread::yield_now();
    }
}

/// Lets time pass where time itself is under test (idle costs, timers that must not fire): poll(2) with no
/// descriptors.
pub fn pass(interval: Duration) {
    // SAFETY: no descriptors, only the timeout.
    unsafe { libc::poll(std::ptr::null_mut(), 0, interval.as_millis() as i32) };
}
