//! The pause before a connecting endpoint's next attempt.
//!
//! The pause before attempt n is the reconnect interval (doubled each time up to its maximum, if one is set) plus a
//! random part of the interval, so that many clients do not reconnect all at once. After a refused handshake it is
//! doubled in any case, since the next one will most likely be refused, too.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::options::Options;

/// With ZMQ_RECONNECT_IVL of 0 the pauses grow from the first to the second of these, unless ZMQ_RECONNECT_IVL_MAX
/// is set. Without any pause, dialing an absent peer would take a whole processor.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);
/// The longest pause after refused handshakes, unless ZMQ_RECONNECT_IVL_MAX is set.
const LONGEST_REFUSED: Duration = Duration::from_secs(10);

/// The pause after so many failed attempts in a row; `refusals` of them, the last ones, were refused handshakes. None:
/// reconnecting is off.
pub(super) fn pause(options: &Options, mut failures: u32, refusals: u32) -> Option<Duration> {
    let (mut base, mut max) = (options.reconnect_ivl?, options.reconnect_ivl_max);
    if base.is_zero() {
        base = SHORTEST;
        max = if max.is_zero() { LONGEST } else { max };
    }
    if options.reconnect_ivl_max.is_zero() && refusals > 0 {
        (max, failures) = (LONGEST_REFUSED, refusals - 1);
    }
    let mut pause = base;
    if max > base {
        pause = base.saturating_mul(1u32.checked_shl(failures.min(20)).unwrap_or(1)).min(max);
    }
    Some(pause + base.mul_f64(random()))
}

/// A number in [0, 1) that differs from call to call.
fn random() -> f64 {
    let hash = RandomState::new().hash_one(());
    (hash >> 11) as f64 / (1u64 << 53) as f64
}
