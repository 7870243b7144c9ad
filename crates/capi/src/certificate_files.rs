//! Keys of CURVE as C gives them: as text, as a certificate, or as a certificate's file.

use std::ffi::{OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pinnace_cert::{Certificate, Error as CertError, KeyPair, PublicKey};
use pinnace_engine::z85;
use pinnace_interface::errno;

use crate::call_error::{CallError, given, string};
use crate::pinnace::certificates;

/// A public key, from 40 characters of Z85.
///
/// # Safety
/// `key` must be null or a C string.
pub(crate) unsafe fn public_key(key: *const c_char) -> Result<PublicKey, CallError> {
    // SAFETY: the caller's promise.
    z85::decode_key(unsafe { string(key, "the key") }?.as_bytes())
        .ok_or_else(|| CallError::new(libc::EINVAL, "a key must be 40 characters of Z85"))
}

/// Reads a certificate's file.
///
/// # Safety
/// `file` must be null or a C string.
unsafe fn read_cert(
    file: *const c_char,
    load: impl FnOnce(&Path) -> Result<Certificate, CertError>,
) -> Result<Certificate, CallError> {
    // SAFETY: the caller's promise.
    let path = Path::new(OsStr::from_bytes(unsafe { given(file, "the file") }?.to_bytes()));
    load(path).map_err(|error| {
        CallError::new(errno::of_certificate(&error), format!("{}: {error}", path.display()))
    })
}

/// The keys in a certificate's file.
///
/// # Safety
/// `file` must be null or a C string.
pub(crate) unsafe fn keys_of_file(file: *const c_char) -> Result<KeyPair, CallError> {
    // SAFETY: the caller's promise.
    let certificate = unsafe { read_cert(file, |path| Certificate::load_own(path)) }?;
    certificate.keys().cloned().ok_or_else(no_secret)
}

/// The public key in a certificate's file.
///
/// # Safety
/// `file` must be null or a C string.
pub(crate) unsafe fn public_key_of_file(file: *const c_char) -> Result<PublicKey, CallError> {
    // SAFETY: the caller's promise.
    Ok(*unsafe { read_cert(file, |path| Certificate::load_public(path)) }?.public_key())
}

/// The keys of a certificate that C has loaded.
pub(crate) fn keys_of(certificate: *mut c_void) -> Result<KeyPair, CallError> {
    certificates::keys(certificate)?.ok_or_else(no_secret)
}

fn no_secret() -> CallError {
    CallError::new(libc::ENOKEY, "the certificate has no secret key")
}
