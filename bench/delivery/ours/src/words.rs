//! Command-line words, clocks, and output.

use pinnace::delivery::Durability;
use rustix::time::{ClockId, clock_gettime};

pub fn word(name: &str) -> Option<String> {
    std::env::args().find_map(|word| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

pub fn text(name: &str) -> Result<String, String> {
    word(name).ok_or_else(|| format!("{name}= is missing"))
}

pub fn number(name: &str) -> Result<u64, String> {
    text(name)?.parse().map_err(|error| format!("{name}: {error}"))
}

pub fn yes(name: &str) -> bool {
    word(name).as_deref() == Some("yes")
}

pub fn mode() -> Result<Durability, String> {
    match text("mode")?.as_str() {
        "sync" => Ok(Durability::Sync),
        "interval" => Ok(Durability::Interval),
        "memory" => Ok(Durability::Memory),
        mode => Err(format!("there is no mode {mode}")),
    }
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub fn now_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// CPU time of all threads of this process.
pub fn cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

pub fn join(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}
