//! Calls specific to sockets of libzmq's draft API: zmq_join(3), zmq_connect_peer(3).

use std::ffi::{CStr, c_char, c_int, c_void};

use pinnace_engine::Error;

use crate::arguments::text;
use crate::guard::guard;
use crate::handle::socket;

/// Joins a DISH to a group of at most 255 bytes. EINVAL if it is longer or already joined.
///
/// # Safety
/// `group` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_join(handle: *mut c_void, group: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| unsafe { join(handle, group, true) })
}

/// Removes a DISH from a group. EINVAL if it is not joined.
///
/// # Safety
/// `group` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_leave(handle: *mut c_void, group: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| unsafe { join(handle, group, false) })
}

/// # Safety
/// `group` must be null or a C string.
unsafe fn join(handle: *mut c_void, group: *const c_char, on: bool) -> Result<c_int, Error> {
    let socket = socket(handle)?;
    if group.is_null() {
        return Err(Error::Fault);
    }
    // SAFETY: the caller's promise; it is not null.
    socket.join(unsafe { CStr::from_ptr(group) }.to_bytes(), on)?;
    Ok(0)
}

/// Connects a PEER; returns the routing id of the peer at the other end, 0 on an error.
///
/// # Safety
/// `endpoint` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_connect_peer(handle: *mut c_void, endpoint: *const c_char) -> u32 {
    // SAFETY: the caller's promise.
    guard(|| socket(handle)?.connect_peer(unsafe { text(endpoint) }?))
}

/// Closes the connection of a SERVER or PEER to one peer.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_disconnect_peer(handle: *mut c_void, routing_id: u32) -> c_int {
    guard(|| socket(handle)?.disconnect_peer(routing_id).map(|()| 0))
}
