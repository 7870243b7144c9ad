//! Keys of X25519, and where randomness comes from.

use std::fmt;

use libsodium_sys as ffi;

use crate::secret::Secret;
use crate::sodium;

/// The length of every key here, in bytes.
pub const KEY_LEN: usize = 32;

/// A key that everybody may know.
pub type PublicKey = [u8; KEY_LEN];

/// A key that its owner alone knows. Any 32 bytes are one.
pub type SecretKey = Secret<KEY_LEN>;

/// The kernel gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRandomness;

impl std::error::Error for NoRandomness {}

impl fmt::Display for NoRandomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system has no random bytes")
    }
}

/// Fills `out` with bytes that nobody can guess. After a fork, parent and child get different ones.
///
/// # Errors
/// The kernel has none; `out` may have been written in part.
pub fn random(out: &mut [u8]) -> Result<(), NoRandomness> {
    getrandom::fill(out).map_err(|_| NoRandomness)
}

/// A secret key and the public one that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// For everybody.
    pub public: PublicKey,
    /// For its owner.
    pub secret: SecretKey,
}

impl KeyPair {
    /// A new pair.
    ///
    /// # Errors
    /// The kernel has no randomness.
    pub fn generate() -> Result<KeyPair, NoRandomness> {
        Ok(KeyPair::from_secret(SecretKey::random()?))
    }

    /// The pair that belongs to a secret key. Takes some ten microseconds.
    pub fn from_secret(secret: SecretKey) -> KeyPair {
        sodium::start();
        let mut public = [0; KEY_LEN];
        // SAFETY: both have 32 bytes. The result is always 0: the base point is not weak.
        unsafe { ffi::crypto_scalarmult_base(public.as_mut_ptr(), secret.as_ptr()) };
        KeyPair { public, secret }
    }
}
