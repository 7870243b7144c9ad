//! Statistics of a client, as JSON and in Prometheus' text format, and where they are served.

use std::ffi::{c_char, c_int, c_void};

use super::call_error::{CallError, delivery_call};
use super::open;
use crate::pinnace::put_text;

/// The client's statistics as JSON.
///
/// # Safety
/// `size` must be null or point to the number of bytes at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_statistics_json(
    handle: *mut c_void,
    buffer: *mut c_char,
    size: *mut usize,
) -> c_int {
    delivery_call(|| {
        let text = open(handle)?.client().statistics().to_json();
        // SAFETY: the caller's promise.
        Ok(unsafe { put_text(&text, buffer, size) }?)
    })
}

/// The client's statistics in Prometheus' text format.
///
/// # Safety
/// `size` must be null or point to the number of bytes at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_statistics_prometheus(
    handle: *mut c_void,
    buffer: *mut c_char,
    size: *mut usize,
) -> c_int {
    delivery_call(|| {
        let text = open(handle)?.client().statistics().to_prometheus();
        // SAFETY: the caller's promise.
        Ok(unsafe { put_text(&text, buffer, size) }?)
    })
}

/// Where the client serves its statistics, as ADDRESS:PORT.
///
/// # Safety
/// `size` must be null or point to the number of bytes at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_metrics_address(
    handle: *mut c_void,
    buffer: *mut c_char,
    size: *mut usize,
) -> c_int {
    delivery_call(|| {
        let address = open(handle)?.client().metrics_address();
        let address =
            address.ok_or_else(|| CallError::new(libc::ENOENT, "the client serves no statistics"))?;
        // SAFETY: the caller's promise.
        Ok(unsafe { put_text(&address.to_string(), buffer, size) }?)
    })
}
