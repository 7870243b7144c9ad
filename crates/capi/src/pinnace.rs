//! Pinnace's extensions to libzmq's API: pinnace.h.

mod certificate_stores;
pub(crate) mod certificates;
mod contexts;
mod peers;
mod stats;

use std::ffi::{c_char, c_int, c_long, c_short, c_void};
use std::time::{Duration, Instant};

use pinnace_engine::{Error, Invalid, Outgoing};
use smallvec::SmallVec;

use crate::arguments::{Flags, bytes, bytes_mut, int_size};
use crate::guard::guard;
use crate::handle::socket;

/// Converts milliseconds; a negative value means no limit.
pub(crate) fn timeout(ms: c_long) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// The deadline of a wait; None: no limit.
pub(crate) fn deadline(ms: c_long) -> Option<Instant> {
    timeout(ms).and_then(|time| Instant::now().checked_add(time))
}

/// Writes a text and a NUL if they fit, else fails with ENOBUFS. `*size` receives the size of both in either case.
///
/// # Safety
/// `size` must be null or point to the number of bytes at `buffer`.
pub(crate) unsafe fn put_text(text: &str, buffer: *mut c_char, size: *mut usize) -> Result<c_int, Error> {
    if size.is_null() {
        return Err(Error::Fault);
    }
    // SAFETY: not null, and the caller's promise.
    let room = unsafe { bytes_mut(buffer.cast(), size.read()) }?;
    // SAFETY: as above.
    unsafe { size.write(text.len() + 1) };
    let room = room.get_mut(..=text.len()).ok_or(Error::System(libc::ENOBUFS))?;
    room[..text.len()].copy_from_slice(text.as_bytes());
    room[text.len()] = 0;
    Ok(0)
}

/// A level-triggered descriptor: readable exactly while the socket is ready for one of `events` (ZMQ_POLLIN,
/// ZMQ_POLLOUT). It is closed with the socket.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_fd(handle: *mut c_void, events: c_short) -> c_int {
    guard(|| socket(handle)?.level_descriptor(events))
}

/// A frame of a message, laid out like iovec(3type).
#[repr(C)]
pub struct Part {
    data: *const c_void,
    size: usize,
}

/// Messages of up to this many frames are sent without an allocation.
const FEW: usize = 16;

/// Sends a whole message, all its frames or none; returns its size in bytes, at most INT_MAX. Messages of other threads
/// never interleave with it.
///
/// # Safety
/// `parts` must be null or point to `count` parts, each valid for reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_send_parts(
    handle: *mut c_void,
    parts: *const Part,
    count: usize,
    flags: c_int,
) -> c_int {
    guard(|| {
        let socket = socket(handle)?;
        let flags = Flags::read(flags)?;
        if flags.more || count == 0 || count > isize::MAX as usize / size_of::<Part>() {
            return Err(Error::Invalid(Invalid::Count));
        }
        if parts.is_null() {
            return Err(Error::Fault);
        }
        let mut frames: SmallVec<[Outgoing<'_>; FEW]> = SmallVec::new();
        frames.try_reserve(count).map_err(|_| Error::NoMemory)?;
        let mut size = 0_usize;
        // SAFETY: the caller's promise.
        for part in unsafe { std::slice::from_raw_parts(parts, count) } {
            // SAFETY: the caller's promise.
            frames.push(Outgoing::Bytes(unsafe { bytes(part.data, part.size) }?));
            size = size.saturating_add(part.size);
        }
        socket.send_message(&mut frames, flags.wait)?;
        Ok(int_size(size))
    })
}
