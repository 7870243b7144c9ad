//! Peers: disconnected by number, and waited for.

use std::ffi::{c_int, c_long, c_void};

use super::timeout;
use crate::arguments::bytes;
use crate::guard::guard;
use crate::handle::socket;

/// Disconnects a peer, by its number in the statistics. EHOSTUNREACH: no such peer, or no connection to it.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_kick(handle: *mut c_void, peer: u64) -> c_int {
    guard(|| socket(handle)?.kick(peer).map(|()| 0))
}

/// Waits until `count` peers are connected. EAGAIN: not within `timeout_ms`.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_wait_peers(handle: *mut c_void, count: usize, timeout_ms: c_long) -> c_int {
    guard(|| socket(handle)?.wait_peers(count, timeout(timeout_ms)).map(|()| 0))
}

/// Waits until `count` peers of a PUB or XPUB subscribe to messages that begin with the `size` bytes at `topic`.
///
/// # Safety
/// `topic` must be null or valid for reads of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_wait_subscribers(
    handle: *mut c_void,
    topic: *const c_void,
    size: usize,
    count: usize,
    timeout_ms: c_long,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let topic = unsafe { bytes(topic, size) }?;
        socket(handle)?.wait_subscribers(topic, count, timeout(timeout_ms)).map(|()| 0)
    })
}

/// Waits until at least one publisher is connected and every connected one has all subscriptions of this SUB or XSUB.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_wait_subscribed(handle: *mut c_void, timeout_ms: c_long) -> c_int {
    guard(|| socket(handle)?.wait_subscribed(timeout(timeout_ms)).map(|()| 0))
}

/// Waits until `count` peers have connected and disconnected again and all their messages were received.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_wait_ended(handle: *mut c_void, count: u64, timeout_ms: c_long) -> c_int {
    guard(|| socket(handle)?.wait_ended(count, timeout(timeout_ms)).map(|()| 0))
}
