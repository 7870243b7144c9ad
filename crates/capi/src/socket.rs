//! Sockets: options, endpoints, and messages from and to plain memory: zmq_send(3), zmq_recv(3).

mod draft;

use std::ffi::{c_char, c_int, c_void};

use pinnace_engine::{Body, Error, Frame, Outgoing};

use crate::arguments::{Flags, bytes, bytes_mut, int_size, text};
use crate::guard::{NOT_YET, guard, guard_first, guard_uncancelled, guard_waiting};
use crate::handle::{retire, socket};
use crate::message::SHARE_MIN;

/// Closes the socket. What it has is still sent, as long as its linger time allows.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_close(handle: *mut c_void) -> c_int {
    guard_uncancelled(|| {
        let socket = socket(handle)?;
        match socket.close() {
            // Its context has closed it when the time was over (`pinnace_ctx_term`), or another thread just has.
            Ok(()) | Err(Error::NotSocket) => {}
            Err(error) => return Err(error),
        }
        // Of several calls one has closed it.
        if retire(handle, socket) { Ok(0) } else { Err(Error::NotSocket) }
    })
}

/// # Safety
/// `value` must be null, or good for reading `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_setsockopt(
    handle: *mut c_void,
    option: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let value = unsafe { bytes(value, len) };
        socket(handle)?.set_option(option, value?).map(|()| 0)
    })
}

/// Writes the value to the beginning of the `*len` bytes at `value`, zeros to the rest, and to `*len` how long it is.
///
/// # Safety
/// `len` must be null or point to the length of the memory at `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_getsockopt(
    handle: *mut c_void,
    option: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    guard(|| {
        let socket = socket(handle)?;
        if len.is_null() {
            return Err(Error::Fault);
        }
        // SAFETY: not null, and the caller's promise.
        let size = unsafe { len.read() };
        // SAFETY: the caller's promise.
        let room = unsafe { bytes_mut(value, size)? };
        let written = socket.get_option(option, room)?;
        // Programs for 2.x read an int as 64 bits. A length that no memory has is taken to mean "enough".
        if size == room.len() {
            room[written..].fill(0);
        }
        // SAFETY: as above.
        unsafe { len.write(written) };
        Ok(0)
    })
}

/// # Safety
/// `endpoint` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_bind(handle: *mut c_void, endpoint: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    guard_uncancelled(|| socket(handle)?.bind(unsafe { text(endpoint) }?).map(|()| 0))
}

/// # Safety
/// `endpoint` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_connect(handle: *mut c_void, endpoint: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    guard_uncancelled(|| socket(handle)?.connect(unsafe { text(endpoint) }?).map(|()| 0))
}

/// # Safety
/// `endpoint` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_unbind(handle: *mut c_void, endpoint: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    guard_uncancelled(|| socket(handle)?.unbind(unsafe { text(endpoint) }?).map(|()| 0))
}

/// # Safety
/// `endpoint` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_disconnect(handle: *mut c_void, endpoint: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    guard_uncancelled(|| socket(handle)?.disconnect(unsafe { text(endpoint) }?).map(|()| 0))
}

/// Publishes the socket's events as PAIR at an inproc endpoint; NULL ends that.
///
/// # Safety
/// `endpoint` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_socket_monitor(
    handle: *mut c_void,
    endpoint: *const c_char,
    events: c_int,
) -> c_int {
    const PAIR: c_int = 0;
    // SAFETY: the caller's promise.
    unsafe { zmq_socket_monitor_versioned(handle, endpoint, u64::from(events as u32), 1, PAIR) }
}

/// As `zmq_socket_monitor`, with messages of the first or the second form, from a PAIR, a PUB or a PUSH.
///
/// # Safety
/// `endpoint` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_socket_monitor_versioned(
    handle: *mut c_void,
    endpoint: *const c_char,
    events: u64,
    version: c_int,
    kind: c_int,
) -> c_int {
    guard_uncancelled(|| {
        let endpoint = match endpoint.is_null() {
            true => None,
            // SAFETY: the caller's promise.
            false => Some(unsafe { text(endpoint) }?),
        };
        socket(handle)?.monitor(endpoint, events, version, kind).map(|()| 0)
    })
}

/// Tells the monitor how many messages each pipe of the socket holds. EINVAL where it does not ask for
/// ZMQ_EVENT_PIPES_STATS, EAGAIN where there is no pipe.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_socket_monitor_pipes_stats(handle: *mut c_void) -> c_int {
    guard(|| socket(handle)?.tell_pipes().map(|()| 0))
}

/// ZMQ_POLLIN and ZMQ_POLLOUT of one peer of a ROUTER.
///
/// # Safety
/// `id` must be null or good for reading `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_socket_get_peer_state(
    handle: *mut c_void,
    id: *const c_void,
    len: usize,
) -> c_int {
    guard(|| {
        let socket = socket(handle)?;
        // SAFETY: the caller's promise.
        socket.peer_state(unsafe { bytes(id, len) }?).map(c_int::from)
    })
}

/// Sends a copy of the `len` bytes at `data`; returns `len`, at most INT_MAX.
///
/// # Safety
/// `data` must be null or good for reading `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_send(
    handle: *mut c_void,
    data: *const c_void,
    len: usize,
    given: c_int,
) -> c_int {
    let sent = guard_first(|| {
        let socket = socket(handle)?;
        let flags = Flags::read(given)?;
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, len) }?;
        socket.send_now(&mut Outgoing::Bytes(data), flags.more, flags.wait)?;
        Ok(int_size(len))
    });
    if sent != NOT_YET {
        return sent;
    }
    // SAFETY: the caller's promise.
    unsafe { send_with_waiting(handle, data, len, given) }
}

/// # Safety
/// As for `zmq_send`.
#[cold]
#[inline(never)]
unsafe fn send_with_waiting(handle: *mut c_void, data: *const c_void, len: usize, given: c_int) -> c_int {
    guard_waiting(move |turn| {
        let socket = socket(handle)?;
        let flags = Flags::read(given)?;
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, len) }?;
        socket.send_later(Outgoing::Bytes(data), flags.more, flags.deferred(turn))?;
        Ok(int_size(len))
    })
}

/// As `zmq_send`, without a copy where that pays.
///
/// # Safety
/// `data` must be null or good for reading `len` bytes until the process ends.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_send_const(
    handle: *mut c_void,
    data: *const c_void,
    len: usize,
    flags: c_int,
) -> c_int {
    guard_waiting(move |turn| {
        let socket = socket(handle)?;
        let flags = Flags::read(flags)?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { bytes(data, len) }?;
        let frame = match len < SHARE_MIN {
            true => Outgoing::Bytes(bytes),
            // SAFETY: the caller's promise: the bytes stay, and nobody has to free them.
            false => Outgoing::Body(unsafe { Body::foreign(data.cast_mut().cast(), len, Box::new(())) }),
        };
        socket.send(frame, flags.more, flags.deferred(turn))?;
        Ok(int_size(len))
    })
}

/// Receives a frame into the `len` bytes at `data`; returns its full size, even where that is more than fits.
///
/// # Safety
/// `data` must be null or good for writing `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_recv(
    handle: *mut c_void,
    data: *mut c_void,
    len: usize,
    given: c_int,
) -> c_int {
    let received = guard_first(|| {
        let socket = socket(handle)?;
        Flags::read(given)?;
        // SAFETY: the caller's promise.
        let room = unsafe { bytes_mut(data, len) }?;
        let (mut size, mut body) = (0, None);
        socket.recv_now(&mut |frame| copy(frame, room, &mut size, &mut body))?;
        Ok(int_size(size))
    });
    if received != NOT_YET {
        return received;
    }
    // SAFETY: the caller's promise.
    unsafe { recv_with_waiting(handle, data, len, given) }
}

/// # Safety
/// As for `zmq_recv`.
#[cold]
#[inline(never)]
unsafe fn recv_with_waiting(handle: *mut c_void, data: *mut c_void, len: usize, given: c_int) -> c_int {
    guard_waiting(move |turn| {
        let socket = socket(handle)?;
        let flags = Flags::read(given)?;
        // SAFETY: the caller's promise.
        let room = unsafe { bytes_mut(data, len) }?;
        let (mut size, mut body) = (0, None);
        socket.recv_later(flags.deferred(turn), &mut |frame| copy(frame, room, &mut size, &mut body))?;
        Ok(int_size(size))
    })
}

/// Copies a frame out, and says its size. The body is not dropped here: it may call a free function, and the socket is
/// locked.
#[inline(always)]
fn copy(frame: Frame<'_>, room: &mut [u8], size: &mut usize, body: &mut Option<Body>) {
    *size = frame.copy_to(room);
    if let Frame::Body { body: whole, .. } = frame {
        *body = whole.take();
    }
}

#[cfg(test)]
mod tests;
