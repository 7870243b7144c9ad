//! Boxes for a stream of messages, without a copy or an allocation of their own.
//!
//! XSalsa20 makes a key for Salsa20 from its own key and the nonce's first 16 bytes (HSalsa20), and goes on with the
//! last 8. Where those 16 bytes never change, as in CURVE's traffic, that key is made once: a box here is the
//! same, byte for byte, as one of [`BoxKey`] with the whole nonce, for about two thirds of the work when small.
//!
//! Salsa20's first 32 bytes are the key of Poly1305; the message is encrypted with those that follow.

use std::collections::TryReserveError;

use libsodium_sys as ffi;

use crate::keys::KEY_LEN;
use crate::secret::{Secret, wipe};
use crate::{BoxKey, Forged, TAG_LEN};

/// How many bytes of key stream Poly1305 gets.
const ONE_TIME_KEY: usize = 32;
/// How many bytes Salsa20 makes at a time.
const BLOCK: usize = 64;
/// The key stream in front of the message: what of `head` and tag has to be overwritten.
const HEAD_LEN: usize = ONE_TIME_KEY - TAG_LEN;

/// A key for boxes whose nonces have the same first 16 bytes.
#[derive(Debug, Clone)]
pub struct StreamKey(Secret<KEY_LEN>);

impl StreamKey {
    /// From the key of the boxes and what all their nonces begin with.
    pub fn new(key: &BoxKey, nonce_head: &[u8; 16]) -> StreamKey {
        let mut subkey = Secret::zeroed();
        // SAFETY: the result and the key have 32 bytes, the nonce's head 16; no constant means the usual one.
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

    /// Appends `head` as it is, then the box of `first` and `rest`: a tag and as many bytes as they have. `head`
    /// is not part of the box.
    ///
    /// # Errors
    /// There is no memory; `out` is as it was.
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
        // The place of head and tag holds zeros at first: encrypted, they are the key of the tag.
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

    /// Opens the box that consists of `tag` and `ciphertext`; then the message stands where the latter stood.
    ///
    /// # Errors
    /// The box is of another key or nonce, or was changed; `ciphertext` is as it was.
    pub fn open(
        &self,
        nonce_tail: &[u8; 8],
        tag: &[u8; TAG_LEN],
        ciphertext: &mut [u8],
    ) -> Result<(), Forged> {
        let mut block = Block([0; BLOCK]);
        xor(&mut block.0, nonce_tail, 0, &self.0);
        let (key, stream) = block.0.split_at(ONE_TIME_KEY);
        // SAFETY: the tag has 16 bytes, the key 32, and the message the length that is given.
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

/// What opens one box: the key of its tag, and what its first bytes are encrypted with. It stays on the stack, where an
/// allocation for each message would cost more than the rest, and is wiped there.
struct Block([u8; BLOCK]);

impl Drop for Block {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Salsa20's key stream from this block on, added to `bytes`.
fn xor(bytes: &mut [u8], nonce: &[u8; 8], first_block: u64, key: &Secret<KEY_LEN>) {
    let at = bytes.as_mut_ptr();
    // SAFETY: nonce and key have 8 and 32 bytes; source and target may be the same, as the function allows.
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
