//! A client, and its options.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use parking_lot::Mutex;
use pinnace_cert::{KeyPair, PublicKey};
use pinnace_crypto::SecretBytes;
use pinnace_files::client::{Client, ClientBuilder};

use super::owned::{Objects, Owned};
use crate::call_error::{CallError, given, string, told_call};
use crate::settings::{
    DAY_MS, Key, Kind, Settings, TIME, keys_of, keys_of_file, public_key, public_key_of_file,
};

static OPTIONS: Objects<Mutex<ClientOptions>> = Objects::new("options of a client");
static CLIENTS: Objects<Client> = Objects::new("a client");

/// The options as set; they serve for any number of clients.
struct ClientOptions {
    endpoint: String,
    /// Those of KEYS.
    values: Settings,
    /// The client's keys, and the server's.
    curve: Option<(KeyPair, PublicKey)>,
    /// A user's name and password.
    password: Option<(String, SecretBytes)>,
}

/// All options, one per entry.
const KEYS: &[Key<ClientBuilder>] = &[
    Key("domain", Kind::Text, |builder, value| builder.domain(value.text())),
    Key("patience_ms", TIME, |builder, value| builder.patience(value.time())),
    Key("window_max", Kind::Number { least: 1 << 20, most: u64::MAX }, |builder, value| {
        builder.window_max(value.number())
    }),
    Key("chunk", Kind::Number { least: 1, most: 1 << 20 }, |builder, value| {
        builder.chunk(value.number() as u32)
    }),
    Key("limit_rate", Kind::Number { least: 0, most: u64::MAX }, |builder, value| match value.number() {
        0 => builder,
        rate => builder.limit_rate(rate),
    }),
    Key("part_age_ms", Kind::Number { least: 0, most: 3650 * DAY_MS }, |builder, value| {
        builder.part_age(value.time())
    }),
    Key("high_water_mark", Kind::Number { least: 0, most: i32::MAX as u64 }, |builder, value| {
        builder.high_water_mark(value.number() as u32)
    }),
];

impl ClientOptions {
    fn builder(&self) -> ClientBuilder {
        let mut builder = self.values.apply(KEYS, Client::builder(&self.endpoint));
        if let Some((own, server)) = &self.curve {
            builder = builder.curve(own, server);
        }
        if let Some((user, password)) = &self.password {
            // It was checked when it was set.
            builder = builder.password(user, std::str::from_utf8(password).unwrap_or_default());
        }
        builder
    }
}

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
        let endpoint = unsafe { string(endpoint, "the endpoint") }?.to_owned();
        let options = ClientOptions { endpoint, values: Settings::default(), curve: None, password: None };
        Ok(OPTIONS.insert(Mutex::new(options)))
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
        options.values.set(KEYS, key, value)
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
