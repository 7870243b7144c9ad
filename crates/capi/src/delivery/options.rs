//! Options of a client.

use std::ffi::{c_char, c_int, c_void};

use parking_lot::Mutex;
use pinnace_engine::Error;
use pinnace_interface::{DeliveryOptions, KnownPeer};

use super::call_error::{CallError, delivery_call};
use crate::call_error::given;
pub(super) use crate::call_error::string;
use crate::certificate_files::{keys_of, keys_of_file, public_key, public_key_of_file};
use crate::registry::Registry;

pub(super) static OPTIONS: Registry<Mutex<DeliveryOptions>> = Registry::new();

pub(super) fn no_options(_: Error) -> CallError {
    CallError::new(libc::EFAULT, "not an options handle, or it was destroyed")
}

/// Creates the options of a client; NULL on an error.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_new(
    name: *const c_char,
    topic: *const c_char,
) -> *mut c_void {
    delivery_call(|| {
        // SAFETY: the caller's promise.
        let (name, topic) = unsafe { (string(name, "the name")?, string(topic, "the topic")?) };
        Ok(OPTIONS.insert(Mutex::new(DeliveryOptions::new(name, topic))))
    })
}

/// Sets one option, given as text.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_set(
    handle: *mut c_void,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { (given(key, "the option")?, given(value, "the value")?) };
        options.lock().set(key.to_bytes(), value.to_bytes())?;
        Ok(0)
    })
}

/// Adds a topic that the client listens on from its start.
///
/// # Safety
/// `topic` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_topic(handle: *mut c_void, topic: *const c_char) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let topic = unsafe { string(topic, "the topic") }?.to_owned();
        options.lock().topics.push(topic);
        Ok(0)
    })
}

/// Adds another client that is known in advance, with its topics.
///
/// # Safety
/// The strings must be null or C strings, `topics` null or point to `count` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_peer(
    handle: *mut c_void,
    name: *const c_char,
    endpoint: *const c_char,
    topics: *const *const c_char,
    count: usize,
) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let (name, endpoint) =
            unsafe { (string(name, "the peer's name")?, string(endpoint, "its endpoint")?) };
        if topics.is_null() && count > 0 {
            return Err(CallError::new(libc::EFAULT, "the topics are NULL"));
        }
        let mut known = Vec::new();
        for at in 0..count {
            // SAFETY: the caller's promise.
            known.push(unsafe { string(*topics.add(at), "a topic") }?.to_owned());
        }
        let peer = KnownPeer { name: name.to_owned(), endpoint: endpoint.to_owned(), topics: known };
        options.lock().peers.push(peer);
        Ok(0)
    })
}

/// Encrypts all of the client's traffic (CURVE) with the keys of a certificate (pinnace_cert_load).
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_options_curve(handle: *mut c_void, certificate: *mut c_void) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        let keys = keys_of(certificate)?;
        options.lock().curve = Some(keys);
        Ok(0)
    })
}

/// Adds the public key of another client, as 40 characters of Z85.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_trust(
    handle: *mut c_void,
    name: *const c_char,
    key: *const c_char,
) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let (name, key) = unsafe { (string(name, "the name")?, public_key(key)?) };
        options.lock().trusted.push((name.to_owned(), key));
        Ok(0)
    })
}

/// Encrypts all of the client's traffic (CURVE) with the keys of a certificate's file.
///
/// # Safety
/// `file` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_cert(handle: *mut c_void, file: *const c_char) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let keys = unsafe { keys_of_file(file) }?;
        options.lock().curve = Some(keys);
        Ok(0)
    })
}

/// Adds the public key of another client, from its certificate's file.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_trust_file(
    handle: *mut c_void,
    name: *const c_char,
    file: *const c_char,
) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let (name, key) = unsafe { (string(name, "the name")?, public_key_of_file(file)?) };
        options.lock().trusted.push((name.to_owned(), key));
        Ok(0)
    })
}

/// Destroys options. Clients started with them are unaffected.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_options_destroy(handle: *mut c_void) -> c_int {
    delivery_call(|| OPTIONS.remove(handle).map(|_| 0).map_err(no_options))
}
