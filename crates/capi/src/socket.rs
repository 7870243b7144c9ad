//! Sockets: options, endpoints, and messages from and to plain memory: zmq_send(3), zmq_recv(3).

mod draft;

use std::ffi::{c_char, c_int, c_void};

use pinnace_engine::pending_sleep::Turn;
use pinnace_engine::{Body, Error, Frame, Invalid, Outgoing, Socket, SocketType};

use crate::arguments::{Flags, bytes, bytes_mut, int_size, socket_type, text};
use crate::guard::{FrameCall, guard, guard_frame, guard_uncancelled};
use crate::handle::{retire, socket};
use crate::message::SHARE_MIN;

/// Closes the socket. Queued messages are still sent, as long as its linger time allows.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_close(handle: *mut c_void) -> c_int {
    guard_uncancelled(|| {
        let socket = socket(handle)?;
        match socket.close() {
            // The context closed it at its deadline (`pinnace_ctx_term`), or another thread has closed it meanwhile.
            Ok(()) | Err(Error::NotSocket) => {}
            Err(error) => return Err(error),
        }
        // Only one of several concurrent calls succeeds.
        if retire(handle, socket) { Ok(0) } else { Err(Error::NotSocket) }
    })
}

/// # Safety
/// `value` must be null, or valid for reads of `len` bytes.
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

/// Writes the value to the start of the `*len` bytes at `value`, zeros to the rest, and the value's length to `*len`.
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
        // Programs written for libzmq 2.x read an int option as 64 bits, so fill the rest with zeros. A length beyond
        // isize::MAX means "enough": nothing is filled then.
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

/// Publishes the socket's events through a PAIR at an inproc endpoint; NULL stops that.
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

/// As `zmq_socket_monitor`, with messages of version 1 or 2, through a PAIR, a PUB or a PUSH.
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
        // A call that stops the monitor needs no type.
        let socket_type = if endpoint.is_some() { socket_type(kind)? } else { SocketType::Pair };
        socket(handle)?.monitor(endpoint, events, version, socket_type).map(|()| 0)
    })
}

/// Reports to the monitor how many messages each pipe of the socket holds. EINVAL if the monitor does not request
/// ZMQ_EVENT_PIPES_STATS, EAGAIN if there is no pipe.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_socket_monitor_pipes_stats(handle: *mut c_void) -> c_int {
    guard(|| socket(handle)?.tell_pipes().map(|()| 0))
}

/// ZMQ_POLLIN and ZMQ_POLLOUT for one peer of a ROUTER.
///
/// # Safety
/// `id` must be null or valid for reads of `len` bytes.
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
/// `data` must be null or valid for reads of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_send(
    handle: *mut c_void,
    data: *const c_void,
    len: usize,
    given: c_int,
) -> c_int {
    guard_frame(|| {
        let socket = socket(handle)?;
        let flags = Flags::read(given)?;
        // SAFETY: the caller's promise.
        let mut frame = Outgoing::Bytes(unsafe { bytes(data, len) }?);
        match socket.send_now(&mut frame, flags.more, flags.wait) {
            Some(Ok(())) => Ok(int_size(len)),
            None => send_later(socket, &mut frame, given, false),
            Some(Err(Error::WouldBlock)) => send_later(socket, &mut frame, given, true),
            Some(Err(error)) => Err(error),
        }
    })
}

/// Sends a frame that `send_now` could not send: the first turn of zmq_send.
#[cold]
#[inline(never)]
fn send_later(socket: Socket, frame: &mut Outgoing<'_>, flags: c_int, tried: bool) -> Result<c_int, Error> {
    let flags = Flags::read(flags)?;
    let Outgoing::Bytes(bytes) = *frame else { return Err(Error::Invalid(Invalid::Flags)) };
    let (data, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len());
    let sent = socket.send_later(frame, flags.more, flags.deferred(Turn::FIRST), tried);
    FrameCall { turn: send_turn, socket, data, len, flags }.deferred(sent.map(|()| int_size(len)))
}

/// # Safety
/// As for `zmq_send`.
unsafe fn send_turn(call: FrameCall, turn: Turn) -> Result<c_int, Error> {
    // SAFETY: the caller's promise.
    let mut frame = Outgoing::Bytes(unsafe { bytes(call.data, call.len) }?);
    call.socket.send_later(&mut frame, call.flags.more, call.flags.deferred(turn), false)?;
    Ok(int_size(call.len))
}

/// As `zmq_send`, but large data are sent by reference, not copied.
///
/// # Safety
/// `data` must be null or valid for reads of `len` bytes until the process ends.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_send_const(
    handle: *mut c_void,
    data: *const c_void,
    len: usize,
    flags: c_int,
) -> c_int {
    guard_frame(|| {
        let (socket, flags) = (socket(handle)?, Flags::read(flags)?);
        let call = FrameCall { turn: send_const_turn, socket, data: data.cast_mut(), len, flags };
        // SAFETY: the caller's promise.
        call.deferred(unsafe { send_const_turn(call, Turn::FIRST) })
    })
}

/// # Safety
/// As for `zmq_send_const`.
unsafe fn send_const_turn(call: FrameCall, turn: Turn) -> Result<c_int, Error> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { bytes(call.data, call.len) }?;
    let frame = match call.len < SHARE_MIN {
        true => Outgoing::Bytes(bytes),
        // SAFETY: the caller's promise: the bytes stay valid and need no freeing.
        false => Outgoing::Body(unsafe { Body::foreign(call.data.cast(), call.len, Box::new(())) }),
    };
    call.socket.send(frame, call.flags.more, call.flags.deferred(turn))?;
    Ok(int_size(call.len))
}

/// Receives a frame into the `len` bytes at `data`; returns its full size, even if it was truncated.
///
/// # Safety
/// `data` must be null or valid for writes of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_recv(
    handle: *mut c_void,
    data: *mut c_void,
    len: usize,
    given: c_int,
) -> c_int {
    guard_frame(|| {
        let socket = socket(handle)?;
        Flags::read(given)?;
        // SAFETY: the caller's promise.
        let mut place = Place::new(unsafe { bytes_mut(data, len) }?);
        match socket.recv_now(&mut |frame| place.fill(frame)) {
            Some(Ok(_)) => Ok(int_size(place.size)),
            None => recv_later(socket, &mut place, given, false),
            Some(Err(Error::WouldBlock)) => recv_later(socket, &mut place, given, true),
            Some(Err(error)) => Err(error),
        }
    })
}

/// Receives a frame that `recv_now` did not find: the first turn of zmq_recv.
#[cold]
#[inline(never)]
fn recv_later(socket: Socket, place: &mut Place<'_>, flags: c_int, tried: bool) -> Result<c_int, Error> {
    let flags = Flags::read(flags)?;
    let (data, len) = (place.room.as_mut_ptr().cast(), place.room.len());
    let received = socket.recv_later(flags.deferred(Turn::FIRST), tried, &mut |frame| place.fill(frame));
    FrameCall { turn: recv_turn, socket, data, len, flags }.deferred(received.map(|_| int_size(place.size)))
}

/// # Safety
/// As for `zmq_recv`.
unsafe fn recv_turn(call: FrameCall, turn: Turn) -> Result<c_int, Error> {
    // SAFETY: the caller's promise.
    let mut place = Place::new(unsafe { bytes_mut(call.data, call.len) }?);
    call.socket.recv_later(call.flags.deferred(turn), false, &mut |frame| place.fill(frame))?;
    Ok(int_size(place.size))
}

/// The caller's buffer, and the state of the received frame.
struct Place<'a> {
    room: &'a mut [u8],
    /// The size of the frame in bytes, which may be more than the buffer holds.
    size: usize,
    /// Kept until the engine has unlocked the socket, since dropping it may call the application's free function.
    body: Option<Body>,
}

impl Place<'_> {
    fn new(room: &mut [u8]) -> Place<'_> {
        Place { room, size: 0, body: None }
    }

    #[inline(always)]
    fn fill(&mut self, frame: Frame<'_>) {
        match frame {
            Frame::Bytes { .. } => self.size = frame.copy_to(self.room),
            Frame::Body { .. } => self.take(frame),
        }
    }

    /// Not inlined, so that `fill` saves no registers for small frames.
    #[inline(never)]
    fn take(&mut self, frame: Frame<'_>) {
        self.size = frame.copy_to(self.room);
        if let Frame::Body { body, .. } = frame {
            self.body = body.take();
        }
    }
}

#[cfg(test)]
mod tests;
