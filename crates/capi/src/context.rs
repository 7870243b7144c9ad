//! Contexts: zmq_ctx_new(3), zmq_ctx_set(3), zmq_ctx_get(3), zmq_ctx_shutdown(3), zmq_ctx_term(3).

use std::ffi::{c_int, c_void};

use pinnace_engine::{Context, Error};

use crate::arguments::{self, bytes, bytes_mut};
use crate::guard::{guard, guard_uncancelled, guard_waiting};
use crate::handle;

/// The context, unless it was made before a fork: a forked child can only terminate its parent's context.
pub(crate) fn own(context: *mut c_void) -> Result<Context, Error> {
    handle::context(context)?.ok_or(Error::Fault)
}

/// A new context, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_ctx_new() -> *mut c_void {
    guard(|| handle::publish_context(Context::new()?))
}

/// Terminates the context: waits until its sockets are closed and have sent their messages, as far as their linger
/// times allow.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn zmq_ctx_term(context: *mut c_void) -> c_int {
    guard_waiting(move |turn| {
        if let Some(own) = handle::context(context)? {
            own.terminate_by(None, Some(turn))?;
            handle::retire_context(context);
        }
        Ok(0)
    })
}

/// Makes every call on the context's sockets except zmq_close return ETERM.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_ctx_shutdown(context: *mut c_void) -> c_int {
    guard(|| {
        if let Some(own) = handle::context(context)? {
            own.shutdown()?;
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn zmq_ctx_set(context: *mut c_void, option: c_int, value: c_int) -> c_int {
    guard(|| own(context)?.set(option, value).map(|()| 0))
}

#[unsafe(no_mangle)]
pub extern "C" fn zmq_ctx_get(context: *mut c_void, option: c_int) -> c_int {
    guard(|| own(context)?.get(option))
}

/// As `zmq_ctx_set`, for a value of any length.
///
/// # Safety
/// `value` must be null or valid for reads of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_ctx_set_ext(
    context: *mut c_void,
    option: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    guard(|| {
        let own = own(context)?;
        // SAFETY: the caller's promise.
        own.set_bytes(option, unsafe { bytes(value, len) }?).map(|()| 0)
    })
}

/// As `zmq_ctx_get`, into the `*len` bytes at `value`; writes the value's length to `*len`.
///
/// # Safety
/// `len` must be null or point to the length of the memory at `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_ctx_get_ext(
    context: *mut c_void,
    option: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    guard(|| {
        let own = own(context)?;
        // SAFETY: the caller's promise.
        let len = unsafe { len.as_mut() }.ok_or(Error::Fault)?;
        // SAFETY: as above.
        *len = own.get_bytes(option, unsafe { bytes_mut(value, *len) }?)?;
        Ok(0)
    })
}

/// A new socket of the context, or NULL.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_socket(context: *mut c_void, socket_type: c_int) -> *mut c_void {
    guard_uncancelled(|| handle::publish(own(context)?.socket(arguments::socket_type(socket_type)?)?))
}
