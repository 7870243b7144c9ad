//! CURVE keys: zmq_curve_keypair(3), zmq_curve_public(3).

use std::ffi::{CStr, c_char, c_int};

use pinnace_engine::{Error, Invalid, KeyPair, Secret, SecretKey, z85};

use crate::guard::guard;

/// Writes a new key pair, each key as 40 characters of Z85 and a NUL.
///
/// # Safety
/// Both must be null or valid for writes of 41 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_curve_keypair(public: *mut c_char, secret: *mut c_char) -> c_int {
    guard(|| {
        if public.is_null() || secret.is_null() {
            return Err(Error::Fault);
        }
        let pair = KeyPair::generate().map_err(|_| Error::System(libc::EAGAIN))?;
        // SAFETY: the caller's promise; they are not null.
        unsafe {
            write_key(public, &pair.public);
            write_key(secret, &pair.secret);
        }
        Ok(0)
    })
}

/// Writes the public key that belongs to a secret key; both are 40 characters of Z85 and a NUL.
///
/// # Safety
/// `public` must be null or valid for writes of 41 bytes, `secret` be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_curve_public(public: *mut c_char, secret: *const c_char) -> c_int {
    guard(|| {
        if public.is_null() || secret.is_null() {
            return Err(Error::Fault);
        }
        // SAFETY: the caller's promise; it is not null.
        let text = unsafe { CStr::from_ptr(secret) }.to_bytes();
        let mut key = SecretKey::zeroed();
        z85::decode_key_into(text, &mut key).ok_or(Error::Invalid(Invalid::Key))?;
        let pair = KeyPair::from_secret(key);
        // SAFETY: the caller's promise.
        unsafe { write_key(public, &pair.public) };
        Ok(0)
    })
}

/// Writes a key as 40 characters of Z85 and a NUL.
///
/// # Safety
/// `to` must be valid for writes of 41 bytes.
pub(crate) unsafe fn write_key(to: *mut c_char, key: &[u8; 32]) {
    let mut text = Secret::zeroed();
    z85::encode_key_into(key, &mut text);
    // SAFETY: the caller's promise.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), z85::KEY_TEXT);
        to.add(z85::KEY_TEXT).write(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::errno;
    use std::ptr::null_mut;

    #[test]
    fn pairs_belong_together() {
        let (mut public, mut secret, mut again) = ([1 as c_char; 41], [1 as c_char; 41], [1 as c_char; 41]);
        // SAFETY: room for 41 bytes each.
        unsafe {
            assert_eq!(zmq_curve_keypair(public.as_mut_ptr(), secret.as_mut_ptr()), 0);
            assert_eq!(zmq_curve_public(again.as_mut_ptr(), secret.as_ptr()), 0);
        }
        assert_eq!((public, public[40], secret[40]), (again, 0, 0));
        assert_ne!(public, secret);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let mut room = [0 as c_char; 41];
        // SAFETY: null, room for 41 bytes, and C strings.
        unsafe {
            assert_eq!(zmq_curve_keypair(null_mut(), room.as_mut_ptr()), -1);
            assert_eq!(errno(), libc::EFAULT);
            assert_eq!(zmq_curve_public(room.as_mut_ptr(), null_mut()), -1);
            assert_eq!(errno(), libc::EFAULT);
            for text in [c"", c"short", c"#########################################"] {
                assert_eq!(zmq_curve_public(room.as_mut_ptr(), text.as_ptr()), -1);
                assert_eq!(errno(), libc::EINVAL);
            }
        }
    }
}
