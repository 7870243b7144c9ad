//! What a message carries beside its body: its id, content type, trace context, ordering key and headers.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use pinnace_delivery::Delivery;

use super::c_text;
use super::call_error::CallError;
use super::options::string;
use super::receive::{Held, look};
use crate::arguments::bytes;

/// pinnace_header_t.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HeaderEntry {
    key: *const c_char,
    value: *const c_void,
    size: usize,
}

/// The texts of a delivery, as C strings.
#[derive(Default)]
pub(super) struct Texts {
    id: OnceLock<CString>,
    content_type: OnceLock<CString>,
    traceparent: OnceLock<CString>,
    tracestate: OnceLock<CString>,
    ordering_key: OnceLock<CString>,
    keys: OnceLock<Vec<CString>>,
}

/// The headers of a message to send.
///
/// # Safety
/// `from` must be null or point to `count` headers with a key that is null or a C string, and a value that is null or
/// valid for reads of its size, for as long as the result is used.
pub(super) unsafe fn read_headers<'a>(
    from: *const HeaderEntry,
    count: usize,
) -> Result<Vec<(&'a str, &'a [u8])>, CallError> {
    if from.is_null() && count > 0 {
        return Err(CallError::new(libc::EFAULT, "the headers are NULL"));
    }
    let mut headers = Vec::new();
    for at in 0..count {
        // SAFETY: the caller's promise.
        let HeaderEntry { key, value, size } = unsafe { *from.add(at) };
        // SAFETY: as above.
        let (key, value) = unsafe { (string(key, "the key of a header")?, bytes(value, size)) };
        let value = value.map_err(|error| {
            CallError::new(error.errno(), format!("the value of the header {key} is NULL or too large"))
        })?;
        headers.push((key, value));
    }
    Ok(headers)
}

/// A text of a delivery; ENOENT: it has none.
fn text(
    handle: *mut c_void,
    name: &'static str,
    find: impl FnOnce(&Delivery) -> Option<&str>,
    place: impl FnOnce(&Texts) -> &OnceLock<CString>,
) -> *const c_char {
    look(handle, |held, delivery| {
        let found = find(delivery);
        let found =
            found.ok_or_else(|| CallError::new(libc::ENOENT, format!("the message has no {name}")))?;
        Ok(place(&held.texts).get_or_init(|| c_text(found)).as_ptr())
    })
}

/// The id of the message; NULL: it has none.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_id(handle: *mut c_void) -> *const c_char {
    text(handle, "id", Delivery::id, |texts| &texts.id)
}

/// The content type of its body; NULL: it has none.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_content_type(handle: *mut c_void) -> *const c_char {
    text(handle, "content type", Delivery::content_type, |texts| &texts.content_type)
}

/// `traceparent` of W3C Trace Context; NULL: it has none.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_traceparent(handle: *mut c_void) -> *const c_char {
    text(handle, "traceparent", Delivery::traceparent, |texts| &texts.traceparent)
}

/// `tracestate` of W3C Trace Context; NULL: it has none.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_tracestate(handle: *mut c_void) -> *const c_char {
    text(handle, "tracestate", Delivery::tracestate, |texts| &texts.tracestate)
}

/// The ordering key; NULL: it has none.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_ordering_key(handle: *mut c_void) -> *const c_char {
    text(handle, "ordering key", Delivery::ordering_key, |texts| &texts.ordering_key)
}

/// The number of its headers.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_delivery_headers(handle: *mut c_void) -> usize {
    look(handle, |_, delivery| Ok(delivery.headers().count()))
}

/// Writes one header, found by `is_wanted`.
///
/// # Safety
/// `header` must be null or valid for writes of a header.
unsafe fn write_header(
    handle: *mut c_void,
    header: *mut HeaderEntry,
    is_wanted: impl Fn(usize, &str) -> bool,
) -> c_int {
    look(handle, |held, delivery| {
        if header.is_null() {
            return Err(CallError::new(libc::EFAULT, "the header pointer is NULL"));
        }
        let mut all = delivery.headers().enumerate();
        let (at, (_, value)) = all
            .find(|(at, (key, _))| is_wanted(*at, key))
            .ok_or_else(|| CallError::new(libc::ENOENT, "the message has no such header"))?;
        let key = keys(held, delivery)[at].as_ptr();
        // SAFETY: not null, and the caller's promise.
        unsafe { header.write(HeaderEntry { key, value: value.as_ptr().cast(), size: value.len() }) };
        Ok(0)
    })
}

fn keys<'a>(held: &'a Held, delivery: &Delivery) -> &'a [CString] {
    held.texts.keys.get_or_init(|| delivery.headers().map(|(key, _)| c_text(key)).collect())
}

/// Writes the header of an index.
///
/// # Safety
/// `header` must be null or valid for writes of a header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_delivery_header_at(
    handle: *mut c_void,
    index: usize,
    header: *mut HeaderEntry,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { write_header(handle, header, |at, _| at == index) }
}

/// Writes the header of a key.
///
/// # Safety
/// `key` must be null or a C string, `header` null or valid for writes of a header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_delivery_header(
    handle: *mut c_void,
    key: *const c_char,
    header: *mut HeaderEntry,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { string(key, "the key") } {
        // SAFETY: as above.
        Ok(wanted) => unsafe { write_header(handle, header, |_, key| key == wanted) },
        Err(error) => look(handle, |_, _| Err(error)),
    }
}
