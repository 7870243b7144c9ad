//! A client, and its options.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use parking_lot::Mutex;
use pinnace_crypto::SecretBytes;
use pinnace_files::client::Client;
use pinnace_interface::ClientOptions;

use super::owned::{Objects, Owned};
use crate::call_error::{CallError, given, string, told_call};
use crate::certificate_files::{keys_of, keys_of_file, public_key, public_key_of_file};

static OPTIONS: Objects<Mutex<ClientOptions>> = Objects::new("options of a client");
static CLIENTS: Objects<Client> = Objects::new("a client");

/// The client of a handle.
pub(super) fn client(handle: *mut c_void) -> Result<Arc<Owned<Client>>, CallError> {
    CLIENTS.get(handle)
}

fn change(handle: *mut c_void, change: impl FnOnce(&mut ClientOptions) -> Result<(), CallError>) -> c_int {
    told_call(|| {
        change(&mut OPTIONS.get(handle)?.lock())?;
        Ok(0)
    })
}

/// Creates the options of a client; NULL on an error.
///
/// # Safety
/// `endpoint` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_client_options_new(endpoint: *const c_char) -> *mut c_void {
    told_call(|| {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { string(endpoint, "the endpoint") }?;
        Ok(OPTIONS.insert(Mutex::new(ClientOptions::new(endpoint))))
    })
}

/// Sets one option, given as text.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_client_options_set(
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

/// Encrypts the connection (CURVE) with the keys of a certificate (pinnace_cert_load), to a server's public key.
///
/// # Safety
/// `server_key` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_client_options_curve(
    handle: *mut c_void,
    certificate: *mut c_void,
    server_key: *const c_char,
) -> c_int {
    change(handle, |options| {
        // SAFETY: the caller's promise.
        options.curve = Some((keys_of(certificate)?, unsafe { public_key(server_key) }?));
        Ok(())
    })
}

/// Encrypts the connection (CURVE) with the keys of a certificate's file, to the key of a server's certificate.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_client_options_cert(
    handle: *mut c_void,
    file: *const c_char,
    server_file: *const c_char,
) -> c_int {
    change(handle, |options| {
        // SAFETY: the caller's promise.
        let (own, server) = unsafe { (keys_of_file(file)?, public_key_of_file(server_file)?) };
        options.curve = Some((own, server));
        Ok(())
    })
}

/// Gives a user's name and password.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_client_options_password(
    handle: *mut c_void,
    user: *const c_char,
    password: *const c_char,
) -> c_int {
    change(handle, |options| {
        // SAFETY: the caller's promise.
        let (user, password) = unsafe { (string(user, "the user")?, string(password, "the password")?) };
        options.password = Some((user.to_owned(), SecretBytes::from(password.as_bytes())));
        Ok(())
    })
}

/// Destroys options. Clients connected with them are unaffected.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_client_options_destroy(handle: *mut c_void) -> c_int {
    told_call(|| OPTIONS.remove(handle).map(|_| 0))
}

/// Connects a client, in the background; NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_client_connect(options: *const c_void) -> *mut c_void {
    told_call(|| {
        let builder = OPTIONS.get(options)?.lock().builder();
        Ok(CLIENTS.insert(builder.connect()?))
    })
}

/// Releases a client. Its transfers keep the connection.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_client_close(handle: *mut c_void) -> c_int {
    told_call(|| CLIENTS.remove(handle).map(|_| 0))
}
