//! The source of randomness: the kernel.

use std::fmt;

/// The kernel gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRandomness;

impl std::error::Error for NoRandomness {}

impl fmt::Display for NoRandomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system has no random bytes")
    }
}

/// Fills `out` with unpredictable bytes. After a fork, parent and child get different bytes.
///
/// # Errors
/// The kernel has none; `out` may be partly written.
pub fn random(out: &mut [u8]) -> Result<(), NoRandomness> {
    getrandom::fill(out).map_err(|_| NoRandomness)
}
