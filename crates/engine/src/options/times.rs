//! Times in the form of libzmq's options: milliseconds in an int, -1 for none.

use std::time::Duration;

pub(super) fn from_ms(ms: i32) -> Duration {
    Duration::from_millis(ms.max(0) as u64)
}

pub(super) fn ms(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

pub(super) fn limit(ms: i32) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

pub(super) fn ms_or_never(limit: Option<Duration>) -> i32 {
    limit.map_or(-1, ms)
}
