//! Z85: encodes four bytes as five characters (RFC 32): zmq_z85_encode(3), zmq_z85_decode(3).

use std::ffi::{CStr, c_char};

use pinnace_engine::{Error, Invalid, z85};

use crate::arguments::bytes;
use crate::guard::guard;

/// Writes `size` bytes (a multiple of 4) as text and a NUL to `to`; returns `to`, or NULL.
///
/// # Safety
/// `data` must be null or valid for reads of `size` bytes, `to` null or valid for writes of `size * 5 / 4 + 1` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_z85_encode(to: *mut c_char, data: *const u8, size: usize) -> *mut c_char {
    guard(|| {
        if !size.is_multiple_of(4) {
            return Err(Error::Invalid(Invalid::Z85));
        }
        // SAFETY: the caller's promise.
        let (groups, _) = unsafe { bytes(data.cast(), size) }?.as_chunks::<4>();
        if to.is_null() {
            return Err(Error::Fault);
        }
        for (index, &group) in groups.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { to.add(index * 5).cast::<[u8; 5]>().write_unaligned(z85::encode(group)) };
        }
        // SAFETY: as above.
        unsafe { to.add(groups.len() * 5).write(0) };
        Ok(to)
    })
}

/// Decodes `text` (a multiple of 5 characters, at least 5) to `to`; returns `to`, or NULL.
///
/// # Safety
/// `text` must be null or a C string, `to` null or valid for writes of four bytes per five characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_z85_decode(to: *mut u8, text: *const c_char) -> *mut u8 {
    guard(|| {
        if to.is_null() || text.is_null() {
            return Err(Error::Fault);
        }
        // SAFETY: the caller's promise.
        let (groups, rest) = unsafe { CStr::from_ptr(text) }.to_bytes().as_chunks::<5>();
        if groups.is_empty() || !rest.is_empty() {
            return Err(Error::Invalid(Invalid::Z85));
        }
        for (index, &group) in groups.iter().enumerate() {
            let bytes = z85::decode(group).ok_or(Error::Invalid(Invalid::Z85))?;
            // SAFETY: the caller's promise.
            unsafe { to.add(index * 4).cast::<[u8; 4]>().write_unaligned(bytes) };
        }
        Ok(to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::errno;
    use std::ptr::{null, null_mut};

    /// RFC 32, "Test Cases".
    const BYTES: [u8; 8] = [0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B];
    const TEXT: &CStr = c"HelloWorld";

    #[test]
    fn the_rfcs_vector_both_ways() {
        let (mut text, mut bytes) = ([1_u8; 11], [0; 8]);
        // SAFETY: room for both.
        unsafe {
            let at = text.as_mut_ptr().cast();
            assert_eq!(zmq_z85_encode(at, BYTES.as_ptr(), 8), at);
            assert_eq!(CStr::from_ptr(at), TEXT);
            assert_eq!(zmq_z85_decode(bytes.as_mut_ptr(), TEXT.as_ptr()), bytes.as_mut_ptr());
        }
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn wrong_lengths_and_nulls_are_refused() {
        let mut room = [0_u8; 32];
        let at = room.as_mut_ptr();
        // SAFETY: enough room, C strings, and nulls.
        unsafe {
            assert!(zmq_z85_encode(at.cast(), BYTES.as_ptr(), 7).is_null());
            assert_eq!(errno(), libc::EINVAL);
            assert!(zmq_z85_encode(null_mut(), BYTES.as_ptr(), 8).is_null());
            assert_eq!(errno(), libc::EFAULT);
            assert_eq!(zmq_z85_encode(at.cast(), null(), 0), at.cast());
            for text in [c"", c"Hell", c"HelloW", c"Hello\n"] {
                assert!(zmq_z85_decode(at, text.as_ptr()).is_null());
                assert_eq!(errno(), libc::EINVAL);
            }
            assert!(zmq_z85_decode(at, null()).is_null());
            assert_eq!(errno(), libc::EFAULT);
        }
    }
}
