//! X25519 keys.

use libsodium_sys as ffi;

use crate::random::NoRandomness;
use crate::secret::Secret;
use crate::sodium;

/// Length of every key in this crate in bytes.
pub const KEY_LEN: usize = 32;

/// A public key.
pub type PublicKey = [u8; KEY_LEN];

/// A secret key. Any 32 bytes are valid.
pub type SecretKey = Secret<KEY_LEN>;

/// A secret key and its public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The public key.
    pub public: PublicKey,
    /// The secret key.
    pub secret: SecretKey,
}

impl KeyPair {
    /// Generates a new pair.
    ///
    /// # Errors
    /// The kernel has no randomness.
    pub fn generate() -> Result<KeyPair, NoRandomness> {
        Ok(KeyPair::from_secret(SecretKey::random()?))
    }

    /// The pair of a secret key. Takes about ten microseconds.
    pub fn from_secret(secret: SecretKey) -> KeyPair {
        sodium::start();
        let mut public = [0; KEY_LEN];
        // SAFETY: both point to 32 bytes. The result is always 0, because the base point is not weak.
        unsafe { ffi::crypto_scalarmult_base(public.as_mut_ptr(), secret.as_ptr()) };
        KeyPair { public, secret }
    }
}
