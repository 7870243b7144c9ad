//! Messages: zmq_msg_init(3) and its family.
//!
//! A `zmq_msg_t` is a [`Message`]. Every function checks its kind first: an uninitialised or closed message is EFAULT.

mod block;
mod properties;
mod repr;
#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::{mem, ptr};

use pinnace_engine::pending_sleep::Turn;
use pinnace_engine::{Body, Error, Invalid, Socket, Uncancelled};

pub(crate) use repr::{Message, SHARE_MIN};

use crate::arguments::{Flags, bytes, int_size, text};
use crate::error::{errno, set_errno};
use crate::guard::{FrameCall, guard, guard_frame};
use crate::handle::socket;

const MORE: c_int = 1;
const SRCFD: c_int = 2;
const SHARED: c_int = 3;
/// The longest name of a group, in bytes (ZMQ_GROUP_MAX_LENGTH).
const GROUP_MAX: usize = 255;

/// The caller's function that frees the bytes of a message.
type FreeFn = unsafe extern "C" fn(data: *mut c_void, hint: *mut c_void);

/// Writes a message to uninitialised memory; old contents are not dropped.
///
/// # Safety
/// `at` must be null or valid for writes of a message.
unsafe fn init(at: *mut Message, message: Message) -> Result<c_int, Error> {
    if at.is_null() {
        return Err(Error::Fault);
    }
    // SAFETY: the caller's promise.
    unsafe { at.write(message) };
    Ok(0)
}

/// # Safety
/// `message` must be null or valid for writes of a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_init(message: *mut Message) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| unsafe { init(message, Message::empty()) })
}

/// A message of `size` bytes of unspecified content.
///
/// # Safety
/// `message` must be null or valid for writes of a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_init_size(message: *mut Message, size: usize) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| unsafe { init(message, Message::with_len(size)?) })
}

/// Frees the caller's bytes on drop.
struct Release {
    free: FreeFn,
    data: *mut c_void,
    hint: *mut c_void,
}

// SAFETY: zmq_msg_init_data(3) requires a function that may be called on any thread.
unsafe impl Send for Release {}
// SAFETY: a shared reference gives no access to anything.
unsafe impl Sync for Release {}

impl Drop for Release {
    fn drop(&mut self) {
        // Frames with destructors are below on the stack, so the thread must not be cancelled in here.
        let _uncancelled = Uncancelled::begin();
        // SAFETY: the caller of zmq_msg_init_data promised that it can be called once with these.
        unsafe { (self.free)(self.data, self.hint) }
    }
}

/// A message that refers to the caller's bytes. `free` is called when the last copy is closed; without it, the bytes
/// must stay valid for the rest of the process.
///
/// # Safety
/// `message` must be null or valid for writes of a message; `data` valid for reads of `size` bytes until `free` is
/// called for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_init_data(
    message: *mut Message,
    data: *mut c_void,
    size: usize,
    free: Option<FreeFn>,
    hint: *mut c_void,
) -> c_int {
    guard(|| {
        if message.is_null() || data.is_null() && size > 0 {
            return Err(Error::Fault);
        }
        if size > isize::MAX as usize {
            return Err(Error::NoMemory);
        }
        // Empty data needs a non-null address too.
        let bytes = if data.is_null() { ptr::dangling_mut() } else { data.cast::<u8>() };
        let of_callers = match free {
            None => Message::constant(bytes, size),
            Some(free) => {
                let owner = Box::new(Release { free, data, hint });
                // SAFETY: the caller's promise.
                Message::of_body(unsafe { Body::foreign(bytes, size, owner) })
            }
        };
        // SAFETY: the caller's promise.
        unsafe { init(message, of_callers) }
    })
}

/// Sends the message and empties it. On an error the message is unchanged.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_msg_send(
    message: *mut Message,
    handle: *mut c_void,
    flags: c_int,
) -> c_int {
    guard_frame(|| {
        let socket = socket(handle)?;
        // SAFETY: the caller's promise.
        let sent = unsafe { Message::at(message) }?;
        let flags = Flags::read(flags)?;
        match sent.send_and_empty(socket, flags.more, flags.deferred(Turn::FIRST)) {
            Ok(size) => Ok(int_size(size)),
            Err(error) => return_or_defer(send_turn, socket, message, flags, error),
        }
    })
}

/// # Safety
/// As for `zmq_msg_send`.
unsafe fn send_turn(call: FrameCall, turn: Turn) -> Result<c_int, Error> {
    // SAFETY: the caller's promise.
    let message = unsafe { Message::at(call.data.cast()) }?;
    message.send_and_empty(call.socket, call.flags.more, call.flags.deferred(turn)).map(int_size)
}

/// Receives a frame. The old content of the message is closed, even if there was no frame to receive (EAGAIN, EINTR).
/// After other errors the message is unchanged.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn zmq_msg_recv(
    message: *mut Message,
    handle: *mut c_void,
    flags: c_int,
) -> c_int {
    let received = guard_frame(|| {
        let socket = socket(handle)?;
        // SAFETY: the caller's promise.
        let place = unsafe { Message::at(message) }?;
        let flags = Flags::read(flags)?;
        match Message::receive(socket, flags.deferred(Turn::FIRST)) {
            Ok(received) => {
                *place = received;
                Ok(int_size(place.len()))
            }
            Err(error) => return_or_defer(recv_turn, socket, message, flags, error),
        }
    });
    if received < 0 {
        // SAFETY: the caller's promise.
        unsafe { Message::close_old_content(message) };
    }
    received
}

/// # Safety
/// As for `zmq_msg_recv`.
unsafe fn recv_turn(call: FrameCall, turn: Turn) -> Result<c_int, Error> {
    // SAFETY: the caller's promise.
    let message = unsafe { Message::at(call.data.cast()) }?;
    *message = Message::receive(call.socket, call.flags.deferred(turn))?;
    Ok(int_size(message.len()))
}

/// Returns the `error` of a call's first turn (first run). If it is Deferred, `guard_frame` calls `turn` after the
/// sleep.
#[cold]
#[inline(never)]
fn return_or_defer(
    turn: unsafe fn(FrameCall, Turn) -> Result<c_int, Error>,
    socket: Socket,
    message: *mut Message,
    flags: Flags,
    error: Error,
) -> Result<c_int, Error> {
    FrameCall { turn, socket, data: message.cast(), len: 0, flags }.deferred(Err(error))
}

impl Message {
    /// Closes the old content after a receive that found no frame, as libzmq does.
    ///
    /// # Safety
    /// As for `zmq_msg_recv`.
    #[cold]
    unsafe fn close_old_content(message: *mut Message) {
        let failure = errno();
        if failure == libc::EAGAIN || failure == libc::EINTR {
            guard(|| {
                // SAFETY: the caller's promise.
                *unsafe { Message::at(message) }? = Message::empty();
                Ok(())
            });
            set_errno(failure);
        }
    }
}

/// Frees the content of the message. A second close is EFAULT.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_close(message: *mut Message) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { Message::at(message) }?.close();
        Ok(0)
    })
}

/// Closes the content of `to` and moves `from` there; `from` is empty afterwards.
///
/// # Safety
/// Both must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_move(to: *mut Message, from: *mut Message) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let moved = mem::replace(unsafe { Message::at(from) }?, Message::empty());
        // SAFETY: as above; the first reference is no longer used, so both may be the same.
        match unsafe { Message::at(to) } {
            Ok(to) => *to = moved,
            Err(error) => {
                // SAFETY: checked to be a message above.
                *unsafe { Message::at(from) }? = moved;
                return Err(error);
            }
        }
        Ok(0)
    })
}

/// Closes the content of `to` and makes it share the content of `from`.
///
/// # Safety
/// Both must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_copy(to: *mut Message, from: *mut Message) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let copy = unsafe { Message::at(from) }?.share();
        // SAFETY: as above; the first reference is no longer used, so both may be the same.
        *unsafe { Message::at(to) }? = copy;
        Ok(0)
    })
}

/// The address of the bytes, or NULL.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_data(message: *mut Message) -> *mut c_void {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { Message::at(message) }?.as_ptr().cast()))
}

/// The number of bytes.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_size(message: *const Message) -> usize {
    // SAFETY: the caller's promise; nothing is written.
    guard(|| Ok(unsafe { Message::at_const(message) }?.len()))
}

/// Returns 1 if more frames of the same message follow, else 0.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_more(message: *const Message) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { zmq_msg_get(message, MORE) }.max(0)
}

/// An integer property.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_get(message: *const Message, property: c_int) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let message = unsafe { Message::at_const(message) }?;
        match property {
            MORE => Ok(c_int::from(message.more())),
            SHARED => Ok(c_int::from(message.is_shared())),
            SRCFD => {
                let descriptor = message.about().and_then(|about| about.get("__fd"));
                let number = descriptor.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
                Ok(number.unwrap_or(-1))
            }
            _ => Err(Error::Invalid(Invalid::Property)),
        }
    })
}

/// Always fails: no property can be set.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_set(message: *mut Message, _property: c_int, _value: c_int) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| unsafe { Message::at_const(message) }.and(Err(Error::Invalid(Invalid::Property))))
}

/// A string property of the sending peer: "Socket-Type", "Routing-Id" (also "Identity"), "Peer-Address", "User-Id", and
/// any others that the peer or a ZAP handler has set. It is valid until the message is closed, sent or received into.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`, `property` be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_gets(message: *const Message, property: *const c_char) -> *const c_char {
    guard(|| {
        // SAFETY: the caller's promise.
        let (message, name) = unsafe { (Message::at_const(message)?, text(property)?) };
        let value = message.about().and_then(|about| about.with_nul(name));
        value.map(|value| value.as_ptr().cast()).ok_or(Error::Invalid(Invalid::Property))
    })
}

/// The routing id of the peer that sent the message (SERVER, PEER); 0 if none.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_routing_id(message: *mut Message) -> u32 {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { Message::at_const(message) }?.routing_id()))
}

/// Sets the peer that the message is sent to (SERVER, PEER). 0 is EINVAL.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_set_routing_id(message: *mut Message, routing_id: u32) -> c_int {
    guard(|| {
        if routing_id == 0 {
            return Err(Error::Invalid(Invalid::RoutingId));
        }
        // SAFETY: the caller's promise.
        unsafe { Message::at(message) }?.set_routing_id(routing_id);
        Ok(0)
    })
}

/// The group that the message was received for (DISH) or is sent to (RADIO); "" if none. It is valid as long as the
/// message keeps it.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_group(message: *mut Message) -> *const c_char {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { Message::at_const(message) }?.group().as_ptr()))
}

/// Sets the group that the message is sent to (RADIO). A name of more than 255 bytes is EINVAL.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`, `group` be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_set_group(message: *mut Message, group: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let message = unsafe { Message::at(message) }?;
        if group.is_null() {
            return Err(Error::Fault);
        }
        // SAFETY: the caller's promise; it is not null.
        let group = unsafe { CStr::from_ptr(group) };
        if group.count_bytes() > GROUP_MAX {
            return Err(Error::Invalid(Invalid::Group));
        }
        message.set_group(group.to_owned());
        Ok(0)
    })
}

/// A message with a copy of the `size` bytes at `data`.
///
/// # Safety
/// `message` must be null or valid for writes of a message, `data` be null or valid for reads of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_init_buffer(
    message: *mut Message,
    data: *const c_void,
    size: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, size) }?;
        let mut copy = Message::with_len(size)?;
        // SAFETY: a message of our own with this many bytes.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), copy.as_ptr(), size) };
        // SAFETY: the caller's promise.
        unsafe { init(message, copy) }
    })
}
