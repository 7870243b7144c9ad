//! Z85: bytes as text, four to five (RFC 32): zmq_z85_encode(3), zmq_z85_decode(3).

use std::ffi::{CStr, c_char};

use pinnace_engine::Error;

use crate::arguments::bytes;
use crate::guard::guard;

/// The digits, by their value (RFC 32).
const DIGITS: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// The values, by their digit; 255: no digit.
const VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut value = 0;
    while value < DIGITS.len() {
        values[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

fn encode(group: [u8; 4]) -> [u8; 5] {
    let mut number = u32::from_be_bytes(group);
    let mut text = [0; 5];
    for digit in text.iter_mut().rev() {
        *digit = DIGITS[(number % 85) as usize];
        number /= 85;
    }
    text
}

/// None where a character is no digit, or the number is above 32 bits.
fn decode(text: [u8; 5]) -> Option<[u8; 4]> {
    let mut number = 0_u64;
    for digit in text {
        let value = VALUES[usize::from(digit)];
        if value == 255 {
            return None;
        }
        number = number * 85 + u64::from(value);
    }
    u32::try_from(number).ok().map(u32::to_be_bytes)
}

/// Writes `size` bytes (a multiple of 4) as text and a NUL to `to`; returns `to`, or NULL.
///
/// # Safety
/// `data` must be null or good for reading `size` bytes, `to` null or good for writing `size * 5 / 4 + 1`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_z85_encode(to: *mut c_char, data: *const u8, size: usize) -> *mut c_char {
    guard(|| {
        // SAFETY: the caller's promise.
        let (groups, rest) = unsafe { bytes(data.cast(), size) }?.as_chunks::<4>();
        if to.is_null() {
            return Err(Error::Fault);
        }
        if !rest.is_empty() {
            return Err(Error::Invalid);
        }
        for (index, &group) in groups.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { to.add(index * 5).cast::<[u8; 5]>().write_unaligned(encode(group)) };
        }
        // SAFETY: as above.
        unsafe { to.add(groups.len() * 5).write(0) };
        Ok(to)
    })
}

/// Writes the bytes that `text` (a multiple of 5 characters, 5 at least) stands for to `to`; returns `to`, or
/// NULL.
///
/// # Safety
/// `text` must be null or a C string, `to` null or good for writing four bytes for five characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_z85_decode(to: *mut u8, text: *const c_char) -> *mut u8 {
    guard(|| {
        if to.is_null() || text.is_null() {
            return Err(Error::Fault);
        }
        // SAFETY: the caller's promise.
        let (groups, rest) = unsafe { CStr::from_ptr(text) }.to_bytes().as_chunks::<5>();
        if groups.is_empty() || !rest.is_empty() {
            return Err(Error::Invalid);
        }
        for (index, &group) in groups.iter().enumerate() {
            let bytes = decode(group).ok_or(Error::Invalid)?;
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
    fn every_digit_and_both_ends() {
        for group in [[0; 4], [255; 4], [1, 2, 3, 4]] {
            assert_eq!(decode(encode(group)), Some(group));
        }
        assert_eq!(encode([0; 4]), *b"00000");
        assert_eq!(encode([255; 4]), *b"%nSc0");
        assert_eq!(decode(*b"%nSc1"), None, "above 32 bits");
        assert_eq!(decode(*b"#####"), None);
        assert_eq!(decode(*b"ab,de"), None, "no digit");
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
