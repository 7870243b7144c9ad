//! CURVE certificates as files, in CZMQ's form.
//!
//! C refers to certificates by checked handles. A function that fails sets errno, and stores a line of text for its
//! thread (`pinnace_cert_error`): the file, the line in it and the error.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt::Display;
use std::path::Path;

use parking_lot::Mutex;
use pinnace_cert::{Certificate, Error as CertError, KeyPair, SecretKey};
use pinnace_engine::{Error, Invalid, z85};
use pinnace_interface::errno;

use super::put_text;
use crate::arguments::{path, text};
use crate::curve::write_key;
use crate::guard::{Returned, guard_uncancelled};
use crate::handle::socket;
use crate::registry::Registry;

static CERTIFICATES: Registry<Mutex<Certificate>> = Registry::new();

/// libzmq's numbers of the options for our keys.
const CURVE_PUBLICKEY: i32 = 48;
const CURVE_SECRETKEY: i32 = 49;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// The error for a certificate error. Stores `what` and the error's text for the thread.
fn failed(what: impl Display, error: &CertError) -> Error {
    let words = CString::new(format!("{what}: {error}").replace('\0', "?")).unwrap_or_default();
    LAST_ERROR.with(|last| last.replace(words));
    Error::System(errno::of_certificate(error))
}

/// Runs `body` in `guard_uncancelled`. If `body` fails without an error text, stores the text of its errno.
pub(super) fn certificate_call<R: Returned>(body: impl FnOnce() -> Result<R, Error>) -> R {
    guard_uncancelled(|| {
        // Not available while the thread is exiting.
        let before = LAST_ERROR.try_with(RefCell::take).unwrap_or_default();
        let outcome = body();
        let _ = LAST_ERROR.try_with(|last| match &outcome {
            Ok(_) => drop(last.replace(before)),
            Err(error) if last.borrow().is_empty() => {
                last.replace(CString::new(error.to_string()).unwrap_or_default());
            }
            Err(_) => {}
        });
        outcome
    })
}

pub(super) fn publish(certificate: Certificate) -> *mut c_void {
    CERTIFICATES.insert(Mutex::new(certificate))
}

/// The keys of a certificate; None if it has no secret key.
pub(crate) fn keys(handle: *mut c_void) -> Result<Option<KeyPair>, Error> {
    Ok(CERTIFICATES.get(handle)?.lock().keys().cloned())
}

/// Passes a path to `work`. On an error, stores the file's name with the error text.
///
/// # Safety
/// `file` must be null or a C string.
pub(super) unsafe fn with_file<R>(
    file: *const c_char,
    work: impl FnOnce(&Path) -> Result<R, CertError>,
) -> Result<R, Error> {
    // SAFETY: the caller's promise.
    let file = unsafe { path(file) }?;
    work(file).map_err(|error| failed(file.display(), &error))
}

/// A certificate with these keys, as 40 characters of Z85 each. With both null, generates a key pair; with a null
/// secret, makes a public certificate. NULL on an error.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_cert_new(public: *const c_char, secret: *const c_char) -> *mut c_void {
    certificate_call(|| {
        if public.is_null() && secret.is_null() {
            return Certificate::generate().map(publish).map_err(|error| failed("a new certificate", &error));
        }
        // SAFETY: the caller's promise.
        let public =
            z85::decode_key(unsafe { text(public) }?.as_bytes()).ok_or(Error::Invalid(Invalid::Key))?;
        if secret.is_null() {
            return Ok(publish(Certificate::public(public)));
        }
        let mut key = SecretKey::zeroed();
        // SAFETY: the caller's promise.
        z85::decode_key_into(unsafe { text(secret) }?.as_bytes(), &mut key)
            .ok_or(Error::Invalid(Invalid::Key))?;
        let keys = KeyPair::from_secret(key);
        if keys.public != public {
            return Err(failed("a certificate from two keys", &CertError::WrongSecretKey));
        }
        Ok(publish(Certificate::from(keys)))
    })
}

/// Reads `FILE_secret` if it exists, else `FILE`; NULL on an error.
///
/// # Safety
/// `file` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_cert_load(file: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    certificate_call(|| unsafe { with_file(file, |path| Certificate::load(path)) }.map(publish))
}

/// Reads only the public key of one file; NULL on an error.
///
/// # Safety
/// `file` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_cert_load_public(file: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    certificate_call(|| unsafe { with_file(file, |path| Certificate::load_public(path)) }.map(publish))
}

/// Reads both keys of one file; NULL on an error.
///
/// # Safety
/// `file` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_cert_load_secret(file: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    certificate_call(|| unsafe { with_file(file, |path| Certificate::load_secret(path)) }.map(publish))
}

/// Writes `FILE` and `FILE_secret`.
///
/// # Safety
/// `file` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_cert_save(handle: *mut c_void, file: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    certificate_call(|| unsafe { save(handle, file, |certificate, path| certificate.save(path)) })
}

/// Writes the public certificate to one file.
///
/// # Safety
/// `file` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_cert_save_public(handle: *mut c_void, file: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    certificate_call(|| unsafe { save(handle, file, |certificate, path| certificate.save_public(path)) })
}

/// Writes the secret certificate to one file.
///
/// # Safety
/// `file` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_cert_save_secret(handle: *mut c_void, file: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    certificate_call(|| unsafe { save(handle, file, |certificate, path| certificate.save_secret(path)) })
}

/// # Safety
/// `file` must be null or a C string.
unsafe fn save(
    handle: *mut c_void,
    file: *const c_char,
    write: impl FnOnce(&Certificate, &Path) -> Result<(), CertError>,
) -> Result<c_int, Error> {
    let certificate = CERTIFICATES.get(handle)?;
    // Written from a copy, so that a slow disk does not block other calls on the certificate.
    let certificate = certificate.lock().clone();
    // SAFETY: the caller's promise.
    unsafe { with_file(file, |path| write(&certificate, path)) }?;
    Ok(0)
}

/// Writes the keys as 40 characters and a NUL each; a key with a null pointer is skipped.
///
/// # Safety
/// Both must be null or valid for writes of 41 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_cert_keys(
    handle: *mut c_void,
    public: *mut c_char,
    secret: *mut c_char,
) -> c_int {
    certificate_call(|| {
        let certificate = CERTIFICATES.get(handle)?;
        let certificate = certificate.lock();
        if !secret.is_null() {
            let keys =
                certificate.keys().ok_or_else(|| failed("reading the keys", &CertError::NoSecretKey))?;
            // SAFETY: the caller's promise; it is not null.
            unsafe { write_key(secret, &keys.secret) };
        }
        if !public.is_null() {
            // SAFETY: as above.
            unsafe { write_key(public, certificate.public_key()) };
        }
        Ok(0)
    })
}

/// Sets a socket's CURVE keys.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_cert_apply(handle: *mut c_void, to: *mut c_void) -> c_int {
    certificate_call(|| {
        let certificate = CERTIFICATES.get(handle)?;
        let certificate = certificate.lock();
        let socket = socket(to)?;
        let keys = certificate.keys().ok_or_else(|| failed("reading the keys", &CertError::NoSecretKey))?;
        socket.set_option(CURVE_SECRETKEY, &*keys.secret)?;
        socket.set_option(CURVE_PUBLICKEY, &keys.public)?;
        Ok(0)
    })
}

/// Writes the owner's metadata under a name, as a C string; `*size` receives its size with the NUL.
///
/// # Safety
/// `name` must be null or a C string, `size` be null or point to the number of bytes at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_cert_meta(
    handle: *mut c_void,
    name: *const c_char,
    buffer: *mut c_char,
    size: *mut usize,
) -> c_int {
    certificate_call(|| {
        let certificate = CERTIFICATES.get(handle)?;
        let certificate = certificate.lock();
        // SAFETY: the caller's promise.
        let value = certificate.metadata(unsafe { text(name) }?);
        let value = value.ok_or(Error::System(libc::ENOENT))?;
        // SAFETY: as above.
        unsafe { put_text(value, buffer, size) }
    })
}

/// Sets metadata about the owner.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_cert_set_meta(
    handle: *mut c_void,
    name: *const c_char,
    value: *const c_char,
) -> c_int {
    certificate_call(|| {
        let certificate = CERTIFICATES.get(handle)?;
        // SAFETY: the caller's promise.
        let (name, value) = unsafe { (text(name)?, text(value)?) };
        certificate.lock().set_metadata(name, value).map_err(|error| failed(name, &error))?;
        Ok(0)
    })
}

/// Destroys a certificate, and wipes its secret key.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_cert_destroy(handle: *mut c_void) -> c_int {
    certificate_call(|| CERTIFICATES.remove(handle).map(|_| 0))
}

/// The text of this thread's last failure of a certificate function; empty before the first. Valid until the thread's
/// next failure.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_cert_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
