//! When messages that failed are delivered again.

use std::time::Duration;

use crate::environment::random;

/// How to retry messages that failed.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// The pause before the second delivery; each later pause is twice the previous, up to `most`.
    pub first: Duration,
    pub most: Duration,
    /// The number of deliveries after which a message is given up; None: no limit.
    pub deliveries: Option<u32>,
    /// How long a handler may take; None: no limit.
    pub within: Option<Duration>,
    /// Later messages pass one that failed while it waits.
    pub skips: bool,
}

impl Retry {
    /// The pause after `deliveries` deliveries, randomized by a quarter, so that not all messages retry at once.
    pub(super) fn wait(&self, deliveries: u32) -> Duration {
        let doubled = self.first.saturating_mul(1 << (deliveries - 1).min(20)).min(self.most);
        let bytes = random::<2>().unwrap_or_default();
        doubled.mul_f64(0.75 + 0.5 * f64::from(u16::from_le_bytes(bytes)) / 65_536.0)
    }
}
