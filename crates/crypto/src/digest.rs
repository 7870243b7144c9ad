//! BLAKE2b (RFC 7693): a short digest of bytes.

use libsodium_sys as ffi;

/// The length of a [`digest`], in bytes.
pub const DIGEST_LEN: usize = 16;

/// A digest of bytes that need not be secret. Nobody can find two inputs with the same digest in fewer than about 2^64
/// attempts.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_LEN] {
    let mut out = [0; DIGEST_LEN];
    // SAFETY: both buffers have the given lengths, DIGEST_LEN is a valid length of an output, and there is no key. It
    // fails only for invalid lengths.
    unsafe {
        ffi::crypto_generichash(
            out.as_mut_ptr(),
            DIGEST_LEN,
            bytes.as_ptr(),
            bytes.len() as u64,
            std::ptr::null(),
            0,
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest must never change: it is stored. Of Python's hashlib.blake2b(digest_size=16).
    #[test]
    fn it_is_blake2b() {
        let hex = |bytes: &[u8]| digest(bytes).map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(hex(b""), "cae66941d9efbd404e4d88758ea67670");
        assert_eq!(hex(b"abc"), "cf4ab791c62b8d2b2109c90275287816");
    }
}
