//! Contexts: a limit in bytes, lost messages, and termination with a deadline.

use std::ffi::{c_int, c_long, c_void};

use pinnace_engine::{Error, Leftover};

use super::stats::{ByReason, by_reason};
use super::timeout;
use crate::arguments::SizedStruct;
use crate::context::own;
use crate::guard::{guard, guard_uncancelled};
use crate::handle;

/// Limits the bytes that all queues of a context hold together; 0 is no limit.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_ctx_set_max_bytes(context: *mut c_void, max_bytes: u64) -> c_int {
    guard(|| {
        own(context)?.set_max_bytes(max_bytes);
        Ok(0)
    })
}

/// Writes how many bytes count towards that limit now.
///
/// # Safety
/// `held` must be null or point to a u64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_ctx_held_bytes(context: *mut c_void, held: *mut u64) -> c_int {
    guard(|| {
        let context = own(context)?;
        if held.is_null() {
            return Err(Error::Fault);
        }
        // SAFETY: not null, and the caller's promise.
        unsafe { held.write(context.held_bytes()) };
        Ok(0)
    })
}

/// Writes the numbers of messages that closed sockets of a context have lost, by reason; `lost` has PINNACE_REASONS
/// elements.
///
/// # Safety
/// `lost` must be null or point to an array of PINNACE_REASONS u64s.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_ctx_lost(context: *mut c_void, lost: *mut ByReason) -> c_int {
    guard(|| {
        let drops = own(context)?.drops_of_closed();
        if lost.is_null() {
            return Err(Error::Fault);
        }
        // SAFETY: not null, and the caller's promise.
        unsafe { lost.write_unaligned(by_reason(&drops)) };
        Ok(0)
    })
}

/// pinnace_leftover_t. Later versions append members.
#[repr(C)]
pub struct LeftoverT {
    size: usize,
    messages: u64,
    bytes: u64,
    lost: ByReason,
    open_sockets: u64,
}

impl From<Leftover> for LeftoverT {
    fn from(Leftover { messages, bytes, lost, open_sockets }: Leftover) -> LeftoverT {
        let lost = by_reason(&lost);
        LeftoverT { size: size_of::<LeftoverT>(), messages, bytes, lost, open_sockets }
    }
}

/// Terminates a context as zmq_ctx_term does, but after `timeout_ms` closes open sockets and discards unsent messages.
/// Writes what was left to `left`, unless it is null.
///
/// # Safety
/// `left` must be null or point to as many bytes as its first member specifies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_ctx_term(
    context: *mut c_void,
    timeout_ms: c_long,
    left: *mut LeftoverT,
) -> c_int {
    guard_uncancelled(|| {
        let own = handle::context(context)?;
        // SAFETY: the caller's promise.
        let left = if left.is_null() { None } else { Some(unsafe { SizedStruct::at(left) }?) };
        let mut found = Leftover::default();
        if let Some(own) = own {
            found = own.terminate_within(timeout(timeout_ms))?;
            handle::retire_context(context);
        }
        if let Some(left) = left {
            left.write(&found.into());
        }
        Ok(0)
    })
}
