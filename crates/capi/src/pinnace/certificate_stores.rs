//! Stores of CURVE certificates: directories of certificate files, like CZMQ's zcertstore.

use std::ffi::{c_char, c_int, c_void};

use pinnace_cert::{PublicKey, Store};
use pinnace_engine::{Error, Invalid, z85};

use super::certificates::{certificate_call, publish, with_file};
use super::put_text;
use crate::arguments::bytes;
use crate::registry::Registry;

static STORES: Registry<Store> = Registry::new();

/// Parses a key of 32 bytes, or of 40 characters of Z85 with or without a NUL.
fn key_of(bytes: &[u8]) -> Result<PublicKey, Error> {
    if let Ok(key) = bytes.try_into() {
        return Ok(key);
    }
    z85::decode_key(bytes.strip_suffix(b"\0").unwrap_or(bytes)).ok_or(Error::Invalid(Invalid::Key))
}

/// Reads the public certificates in a directory and its subdirectories; NULL on an error.
///
/// # Safety
/// `directory` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_certstore_load(directory: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    certificate_call(|| {
        unsafe { with_file(directory, |path| Store::load(path)) }.map(|store| STORES.insert(store))
    })
}

/// The number of certificates, at most INT_MAX.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_certstore_size(handle: *mut c_void) -> c_int {
    certificate_call(|| Ok(c_int::try_from(STORES.get(handle)?.len()).unwrap_or(c_int::MAX)))
}

/// Returns the certificate with this public key (32 bytes, or 40 characters of Z85); NULL and ENOENT if there is none.
///
/// # Safety
/// `key` must be null or valid for reads of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_certstore_find(
    handle: *mut c_void,
    key: *const c_void,
    size: usize,
) -> *mut c_void {
    certificate_call(|| {
        let store = STORES.get(handle)?;
        // SAFETY: the caller's promise.
        let key = key_of(unsafe { bytes(key, size) }?)?;
        store.find(&key).cloned().map(publish).ok_or(Error::System(libc::ENOENT))
    })
}

/// Writes the name and the error of a file without a valid certificate, by its index among these files, as a C string.
/// `*size` receives its size with the NUL.
///
/// # Safety
/// `size` must be null or point to the number of bytes at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_certstore_refused(
    handle: *mut c_void,
    index: usize,
    buffer: *mut c_char,
    size: *mut usize,
) -> c_int {
    certificate_call(|| {
        let store = STORES.get(handle)?;
        let (path, error) = store.refused.get(index).ok_or(Error::System(libc::ENOENT))?;
        // SAFETY: the caller's promise.
        unsafe { put_text(&format!("{}: {error}", path.display()), buffer, size) }
    })
}

/// Destroys a store. Certificates found in it stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_certstore_destroy(handle: *mut c_void) -> c_int {
    certificate_call(|| STORES.remove(handle).map(|_| 0))
}
