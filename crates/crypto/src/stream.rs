//! Boxes for a stream of messages, without extra copies or allocations.
//!
//! XSalsa20 derives a key for Salsa20 from its own key and the nonce's first 16 bytes (HSalsa20), and continues
//! with the last 8. If those 16 bytes never change, as in CURVE's traffic, the key can be derived once. A box of
//! this module is byte-identical to one of [`BoxKey`] with the whole nonce, at about two thirds of the cost for
//! small messages.
//!
//! The first 32 bytes of Salsa20's key stream are the Poly1305 key; the message is encrypted with the following
//! bytes.

use std::collections::TryReserveError;

use libsodium_sys as ffi;

use crate::keys::KEY_LEN;
use crate::secret::{Secret, wipe};
use crate::{BoxKey, Forged, TAG_LEN};

/// Bytes of key stream that form the Poly1305 key.
const ONE_TIME_KEY: usize = 32;
/// Block size of Salsa20 in bytes.
const BLOCK: usize = 64;
/// Length of `head` (bytes in the clear before the box). Head and tag together have the length of the Poly1305 key,
/// whose place they take.
const HEAD_LEN: usize = ONE_TIME_KEY - TAG_LEN;

/// A key for boxes with nonces that share their first 16 bytes.
#[derive(Debug, Clone)]
pub struct StreamKey(Secret<KEY_LEN>);

impl StreamKey {
    /// From the boxes' key and the common first 16 bytes of their nonces.
    pub fn new(key: &BoxKey, nonce_head: &[u8; 16]) -> StreamKey {
        let mut subkey = Secret::zeroed();
        // SAFETY: result and key have 32 bytes, the nonce's head 16; a null constant selects the default.
        unsafe {
            ffi::crypto_core_hsalsa20(
                subkey.as_mut_ptr(),
                nonce_head.as_ptr(),
                key.0.as_ptr(),
                std::ptr::null(),
            )
        };
        StreamKey(subkey)
    }

    /// Appends `head` in the clear, then the box of `first` and `rest`: a tag, then the ciphertext of the same
    /// length. `head` is not authenticated.
    ///
    /// # Errors
    /// Out of memory; `out` is unchanged.
    pub fn seal(
        &self,
        nonce_tail: &[u8; 8],
        head: &[u8; HEAD_LEN],
        first: u8,
        rest: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TryReserveError> {
        let (start, len) = (out.len(), ONE_TIME_KEY + 1 + rest.len());
        out.try_reserve(len)?;
        // Zeros where head and tag will be: the cipher turns them into the Poly1305 key.
        out.extend_from_slice(&[0; ONE_TIME_KEY]);
        out.push(first);
        out.extend_from_slice(rest);
        let sealed = &mut out[start..];
        xor(sealed, nonce_tail, 0, &self.0);
        let (key, ciphertext) = sealed.split_first_chunk_mut::<ONE_TIME_KEY>().expect("it was just appended");
        let tag = tag(ciphertext, key);
        key[..HEAD_LEN].copy_from_slice(head);
        key[HEAD_LEN..].copy_from_slice(&tag);
        Ok(())
    }

    /// Opens the box of `tag` and `ciphertext`; the message replaces the ciphertext in place.
    ///
    /// # Errors
    /// The box was made with another key or nonce, or was changed; `ciphertext` is unchanged.
    pub fn open(
        &self,
        nonce_tail: &[u8; 8],
        tag: &[u8; TAG_LEN],
        ciphertext: &mut [u8],
    ) -> Result<(), Forged> {
        let mut block = Block([0; BLOCK]);
        xor(&mut block.0, nonce_tail, 0, &self.0);
        let (key, stream) = block.0.split_at(ONE_TIME_KEY);
        // SAFETY: the tag has 16 bytes, the key 32, and the message the length that is passed.
        let genuine = unsafe {
            ffi::crypto_onetimeauth_poly1305_verify(
                tag.as_ptr(),
                ciphertext.as_ptr(),
                ciphertext.len() as u64,
                key.as_ptr(),
            )
        };
        if genuine != 0 {
            return Err(Forged);
        }
        let (head, rest) = ciphertext.split_at_mut(ciphertext.len().min(BLOCK - ONE_TIME_KEY));
        for (byte, key) in head.iter_mut().zip(stream) {
            *byte ^= key;
        }
        xor(rest, nonce_tail, 1, &self.0);
        Ok(())
    }
}

/// The first key stream block of one box: the Poly1305 key, and the key stream for the message's first bytes. Kept
/// on the stack, because an allocation for each message would cost more than all the rest, and wiped on drop.
struct Block([u8; BLOCK]);

impl Drop for Block {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// XORs `bytes` with Salsa20's key stream, starting at `first_block`.
fn xor(bytes: &mut [u8], nonce: &[u8; 8], first_block: u64, key: &Secret<KEY_LEN>) {
    let at = bytes.as_mut_ptr();
    // SAFETY: nonce and key have 8 and 32 bytes; source and target may be the same for this function.
    unsafe {
        ffi::crypto_stream_salsa20_xor_ic(
            at,
            at,
            bytes.len() as u64,
            nonce.as_ptr(),
            first_block,
            key.as_ptr(),
        )
    };
}

fn tag(ciphertext: &[u8], key: &[u8; ONE_TIME_KEY]) -> [u8; TAG_LEN] {
    let mut tag = [0; TAG_LEN];
    // SAFETY: the tag has 16 bytes, the key 32, and the message the length that is given.
    unsafe {
        ffi::crypto_onetimeauth_poly1305(
            tag.as_mut_ptr(),
            ciphertext.as_ptr(),
            ciphertext.len() as u64,
            key.as_ptr(),
        )
    };
    tag
}
