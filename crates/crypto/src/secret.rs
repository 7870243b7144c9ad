//! Bytes that are wiped on drop, compared in constant time and never printed.
//!
//! Both types keep their bytes on the heap, so moving a value moves a pointer and leaves no copy behind.

use std::fmt;
use std::ops::{Deref, DerefMut};

use libsodium_sys as ffi;

use crate::random::{NoRandomness, random};

/// A secret of a fixed length: a key, or the randomness for keys.
pub struct Secret<const N: usize>(Box<[u8; N]>);

impl<const N: usize> Secret<N> {
    /// A secret of zeros, to be filled.
    pub fn zeroed() -> Secret<N> {
        Secret(Box::new([0; N]))
    }

    /// A copy of these bytes.
    pub fn copy_of(bytes: &[u8; N]) -> Secret<N> {
        let mut secret = Secret::zeroed();
        secret.copy_from_slice(bytes);
        secret
    }

    /// A secret of random bytes.
    ///
    /// # Errors
    /// The kernel has no randomness.
    pub fn random() -> Result<Secret<N>, NoRandomness> {
        let mut secret = Secret::zeroed();
        random(&mut *secret)?;
        Ok(secret)
    }
}

impl<const N: usize> Deref for Secret<N> {
    type Target = [u8; N];

    fn deref(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> DerefMut for Secret<N> {
    fn deref_mut(&mut self) -> &mut [u8; N] {
        &mut self.0
    }
}

impl<const N: usize> Drop for Secret<N> {
    fn drop(&mut self) {
        wipe(&mut *self.0);
    }
}

impl<const N: usize> Clone for Secret<N> {
    fn clone(&self) -> Secret<N> {
        Secret::copy_of(self)
    }
}

impl<const N: usize> PartialEq for Secret<N> {
    fn eq(&self, other: &Secret<N>) -> bool {
        equal(&**self, &**other)
    }
}

impl<const N: usize> Eq for Secret<N> {}

impl<const N: usize> fmt::Debug for Secret<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret<{N}>")
    }
}

/// Secret bytes of any length: a password, or a buffer that may hold one.
#[derive(Default)]
pub struct SecretBytes(Vec<u8>);

impl SecretBytes {
    /// Empty.
    pub const fn new() -> SecretBytes {
        SecretBytes(Vec::new())
    }

    /// `len` zeros, to be filled.
    pub fn zeroed(len: usize) -> SecretBytes {
        SecretBytes(vec![0; len])
    }

    /// Appends bytes. If the buffer has to grow, the bytes move to a larger one and the old one is wiped.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        if self.0.capacity() - self.0.len() < bytes.len() {
            let mut larger = Vec::with_capacity((self.0.len() + bytes.len()).max(self.0.capacity() * 2));
            larger.extend_from_slice(&self.0);
            wipe(&mut self.0);
            self.0 = larger;
        }
        self.0.extend_from_slice(bytes);
    }

    /// Appends the bytes of a vector, for writers that need a `Vec`, and wipes the vector.
    pub fn take_from(&mut self, bytes: &mut Vec<u8>) {
        self.extend_from_slice(bytes);
        wipe(bytes);
        bytes.clear();
    }

    /// Wipes all bytes, and keeps the memory.
    pub fn clear(&mut self) {
        wipe(&mut self.0);
        self.0.clear();
    }
}

impl From<&[u8]> for SecretBytes {
    fn from(bytes: &[u8]) -> SecretBytes {
        SecretBytes(bytes.to_vec())
    }
}

impl Deref for SecretBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for SecretBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for SecretBytes {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl Clone for SecretBytes {
    fn clone(&self) -> SecretBytes {
        SecretBytes::from(&**self)
    }
}

impl PartialEq for SecretBytes {
    fn eq(&self, other: &SecretBytes) -> bool {
        equal(self, other)
    }
}

impl Eq for SecretBytes {}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretBytes({} bytes)", self.len())
    }
}

/// Compares two byte strings in a time that depends only on their lengths.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    // SAFETY: both slices have this length; with length 0 nothing is read.
    a.len() == b.len() && unsafe { ffi::sodium_memcmp(a.as_ptr().cast(), b.as_ptr().cast(), a.len()) == 0 }
}

/// Overwrites with zeros; the compiler cannot optimize the writes away.
pub(crate) fn wipe(bytes: &mut [u8]) {
    // SAFETY: the slice is writable.
    unsafe { ffi::sodium_memzero(bytes.as_mut_ptr().cast(), bytes.len()) }
}
