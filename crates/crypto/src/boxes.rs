//! NaCl's boxes: XSalsa20 and Poly1305, with a key that two parties share.

use libsodium_sys as ffi;

use crate::keys::{KEY_LEN, PublicKey, SecretKey};
use crate::secret::{Secret, SecretBytes};
use crate::{Forged, TAG_LEN, sodium};

/// The length of a box's nonce, in bytes. Two boxes of one key never have the same.
pub const NONCE_LEN: usize = 24;

/// A key that seals and opens boxes. It is wiped when it is dropped.
#[derive(Debug, Clone)]
pub struct BoxKey(pub(crate) Secret<KEY_LEN>);

impl BoxKey {
    /// The key that two key pairs share (crypto_box): from either side's secret key and the other's public one.
    /// Takes some tens of microseconds.
    ///
    /// # Errors
    /// `theirs` is one of the few points that give the same key whatever `ours` is: no honest key is.
    pub fn shared(theirs: &PublicKey, ours: &SecretKey) -> Result<BoxKey, Forged> {
        sodium::start();
        let mut key = Secret::zeroed();
        // SAFETY: all three have 32 bytes.
        match unsafe { ffi::crypto_box_beforenm(key.as_mut_ptr(), theirs.as_ptr(), ours.as_ptr()) } {
            0 => Ok(BoxKey(key)),
            _ => Err(Forged),
        }
    }

    /// A key that one party keeps for itself (crypto_secretbox).
    pub fn symmetric(key: Secret<KEY_LEN>) -> BoxKey {
        sodium::start();
        BoxKey(key)
    }

    /// Puts `message` into a box: a tag of 16 bytes, then as many bytes as the message has.
    pub fn seal(&self, nonce: &[u8; NONCE_LEN], message: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; TAG_LEN + message.len()];
        // SAFETY: the lengths are those that the function expects. It fails for lengths alone that no slice has.
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

    /// Takes the message out of a box.
    ///
    /// # Errors
    /// The box is too short, of another key or nonce, or was changed.
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
