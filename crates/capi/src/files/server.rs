//! A server, and its options.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use parking_lot::Mutex;
use pinnace_crypto::SecretBytes;
use pinnace_files::access::Right;
use pinnace_files::server::Server;
use pinnace_interface::{Folder, ServerOptions};

use super::owned::Objects;
use crate::call_error::{CallError, c_text, given, string, told_call};
use crate::certificate_files::{keys_of, keys_of_file, public_key, public_key_of_file};

static OPTIONS: Objects<Mutex<ServerOptions>> = Objects::new("options of a server");
static SERVERS: Objects<Running> = Objects::new("a server");

struct Running {
    server: Server,
    endpoints: Vec<CString>,
}

fn change(handle: *mut c_void, change: impl FnOnce(&mut ServerOptions) -> Result<(), CallError>) -> c_int {
    told_call(|| {
        change(&mut OPTIONS.get(handle)?.lock())?;
        Ok(0)
    })
}

/// Creates the options of a server; NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_server_options_new() -> *mut c_void {
    told_call(|| Ok(OPTIONS.insert(Mutex::default())))
}

/// Sets one option, given as text.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_server_options_set(
    handle: *mut c_void,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    change(handle, |options| {
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { (given(key, "the option")?, given(value, "the value")?) };
        Ok(options.set(key.to_bytes(), value.to_bytes())?)
    })
}

/// Serves a folder below a virtual path.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_server_options_folder(
    handle: *mut c_void,
    alias: *const c_char,
    path: *const c_char,
    writable: c_int,
) -> c_int {
    change(handle, |options| {
        // SAFETY: the caller's promise.
        let (alias, path) = unsafe { (string(alias, "the alias")?, given(path, "the path")?) };
        let path = PathBuf::from(OsStr::from_bytes(path.to_bytes()));
        options.folders.push(Folder { alias: alias.to_owned(), path, is_writable: writable != 0 });
        Ok(())
    })
}

/// Listens at an endpoint.
///
/// # Safety
/// `endpoint` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_server_options_bind(
    handle: *mut c_void,
    endpoint: *const c_char,
) -> c_int {
    change(handle, |options| {
        // SAFETY: the caller's promise.
        options.endpoints.push(unsafe { string(endpoint, "the endpoint") }?.to_owned());
        Ok(())
    })
}

/// Encrypts all connections (CURVE) with the keys of a certificate (pinnace_cert_load).
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_server_options_curve(handle: *mut c_void, certificate: *mut c_void) -> c_int {
    change(handle, |options| {
        options.curve = Some(keys_of(certificate)?);
        Ok(())
    })
}

/// Encrypts all connections (CURVE) with the keys of a certificate's file.
///
/// # Safety
/// `file` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_server_options_cert(
    handle: *mut c_void,
    file: *const c_char,
) -> c_int {
    change(handle, |options| {
        // SAFETY: the caller's promise.
        options.curve = Some(unsafe { keys_of_file(file) }?);
        Ok(())
    })
}

/// Admits a user by a public key, as 40 characters of Z85.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_server_options_user(
    handle: *mut c_void,
    name: *const c_char,
    key: *const c_char,
) -> c_int {
    change(handle, |options| {
        // SAFETY: the caller's promise.
        let (name, key) = unsafe { (string(name, "the name")?, public_key(key)?) };
        options.keys.push((name.to_owned(), key));
        Ok(())
    })
}

/// Admits a user by the public key in its certificate's file.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_server_options_user_file(
    handle: *mut c_void,
    name: *const c_char,
    file: *const c_char,
) -> c_int {
    change(handle, |options| {
        // SAFETY: the caller's promise.
        let (name, key) = unsafe { (string(name, "the name")?, public_key_of_file(file)?) };
        options.keys.push((name.to_owned(), key));
        Ok(())
    })
}

/// Admits a user by a password.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_server_options_password(
    handle: *mut c_void,
    name: *const c_char,
    password: *const c_char,
) -> c_int {
    change(handle, |options| {
        // SAFETY: the caller's promise.
        let (name, password) = unsafe { (string(name, "the name")?, string(password, "the password")?) };
        options.passwords.push((name.to_owned(), SecretBytes::from(password.as_bytes())));
        Ok(())
    })
}

/// Gives a user a right to a virtual path and all below it.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_server_options_grant(
    handle: *mut c_void,
    user: *const c_char,
    path: *const c_char,
    right: c_int,
) -> c_int {
    change(handle, |options| {
        // SAFETY: the caller's promise.
        let (user, path) = unsafe { (string(user, "the user")?, string(path, "the path")?) };
        let right = match right {
            0 => Right::Read,
            1 => Right::Write,
            _ => return Err(CallError::new(libc::EINVAL, "not a right")),
        };
        options.grants.push((user.to_owned(), path.to_owned(), right));
        Ok(())
    })
}

/// Destroys options. Servers started with them are unaffected.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_server_options_destroy(handle: *mut c_void) -> c_int {
    told_call(|| OPTIONS.remove(handle).map(|_| 0))
}

/// Starts a server; NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_server_start(options: *const c_void) -> *mut c_void {
    told_call(|| {
        let builder = OPTIONS.get(options)?.lock().builder()?;
        let server = builder.start()?;
        let endpoints = server.endpoints().iter().map(|endpoint| c_text(endpoint)).collect();
        Ok(SERVERS.insert(Running { server, endpoints }))
    })
}

/// An endpoint of the server, valid until it is closed; NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_server_endpoint(handle: *mut c_void, index: usize) -> *const c_char {
    told_call(|| {
        let running = SERVERS.get(handle)?;
        let endpoint = running.endpoints.get(index);
        endpoint.map(|text| text.as_ptr()).ok_or_else(|| CallError::new(libc::ENOENT, "no such endpoint"))
    })
}

/// Writes how many octets of content were sent to all clients.
///
/// # Safety
/// `bytes` must be null or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_server_sent(handle: *mut c_void, bytes: *mut u64) -> c_int {
    told_call(|| {
        let running = SERVERS.get(handle)?;
        if bytes.is_null() {
            return Err(CallError::new(libc::EFAULT, "the pointer for the number is NULL"));
        }
        // SAFETY: not null, and the caller's promise.
        unsafe { bytes.write(running.server.sent_bytes()) };
        Ok(0)
    })
}

/// Ends a server.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_server_close(handle: *mut c_void) -> c_int {
    told_call(|| SERVERS.remove(handle).map(|_| 0))
}
