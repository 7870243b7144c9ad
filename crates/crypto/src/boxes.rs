//! NaCl boxes: XSalsa20 and Poly1305 with a shared key.

use libsodium_sys as ffi;

use crate::keys::{KEY_LEN, PublicKey, SecretKey};
use crate::secret::{Secret, SecretBytes};
use crate::{Forged, TAG_LEN, sodium};

/// Length of a box's nonce in bytes. A nonce must not be used twice with one key.
pub const NONCE_LEN: usize = 24;

/// A key that seals and opens boxes. Wiped on drop.
#[derive(Debug, Clone)]
pub struct BoxKey(pub(crate) Secret<KEY_LEN>);

impl BoxKey {
    /// The key that two key pairs share (crypto_box), computed from one side's secret key and the other side's
    /// public key. Takes some tens of microseconds.
    ///
    /// # Errors
    /// [`Forged`] if `theirs` is one of the few points of low order, which give the same key for every `ours`. No
    /// generated key is among them.
    pub fn shared(theirs: &PublicKey, ours: &SecretKey) -> Result<BoxKey, Forged> {
        sodium::start();
        let mut key = Secret::zeroed();
        // SAFETY: all three point to 32 bytes.
        match unsafe { ffi::crypto_box_beforenm(key.as_mut_ptr(), theirs.as_ptr(), ours.as_ptr()) } {
            0 => Ok(BoxKey(key)),
            _ => Err(Forged),
        }
    }

    /// The key of a single party (crypto_secretbox).
    pub fn symmetric(key: Secret<KEY_LEN>) -> BoxKey {
        sodium::start();
        BoxKey(key)
    }

    /// Seals `message`: a tag of 16 bytes, then the ciphertext with the length of the message.
    pub fn seal(&self, nonce: &[u8; NONCE_LEN], message: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; TAG_LEN + message.len()];
        // SAFETY: the lengths are those that the function expects. It fails only for lengths that no slice can
        // have.
        unsafe {
            ffi::crypto_secretbox_easy(
                sealed.as_mut_ptr(),
                message.as_ptr(),
                message.len() as u64,
                nonce.as_ptr(),
                self.0.as_ptr(),
            );
        }
        sealed
    }

    /// Opens a box.
    ///
    /// # Errors
    /// The box is too short, was made with another key or nonce, or was changed.
    pub fn open(&self, nonce: &[u8; NONCE_LEN], sealed: &[u8]) -> Result<SecretBytes, Forged> {
        let mut message = SecretBytes::zeroed(sealed.len().checked_sub(TAG_LEN).ok_or(Forged)?);
        // SAFETY: the lengths are those that the function expects.
        let result = unsafe {
            ffi::crypto_secretbox_open_easy(
                message.as_mut_ptr(),
                sealed.as_ptr(),
                sealed.len() as u64,
                nonce.as_ptr(),
                self.0.as_ptr(),
            )
        };
        if result == 0 { Ok(message) } else { Err(Forged) }
    }
}
