//! Messages: zmq_msg_init(3) and its family.
//!
//! A `zmq_msg_t` is a [`Message`]. Every function looks at its kind first: one that was never initialised, or
//! is closed, is EFAULT.

mod block;
mod repr;
#[cfg(test)]
mod tests;

use std::ffi::{c_char, c_int, c_void};
use std::{mem, ptr};

use pinnace_engine::{Body, Error};

pub(crate) use repr::{Message, SHARE_MIN};

use crate::arguments::{Flags, int_size};
use crate::guard::guard;
use crate::handle::socket;

const MORE: c_int = 1;
const SRCFD: c_int = 2;
const SHARED: c_int = 3;

/// The caller's function that frees the bytes of a message.
type FreeFn = unsafe extern "C" fn(data: *mut c_void, hint: *mut c_void);

/// Puts a message where there is none; what lies there is not looked at.
///
/// # Safety
/// `at` must be null or good for writing a message.
unsafe fn init(at: *mut Message, message: Message) -> Result<c_int, Error> {
    if at.is_null() {
        return Err(Error::Fault);
    }
    // SAFETY: the caller's promise.
    unsafe { at.write(message) };
    Ok(0)
}

/// # Safety
/// `message` must be null or good for writing a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_init(message: *mut Message) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| unsafe { init(message, Message::empty()) })
}

/// A message of `size` bytes of any content.
///
/// # Safety
/// `message` must be null or good for writing a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_init_size(message: *mut Message, size: usize) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| unsafe { init(message, Message::with_len(size)?) })
}

/// Frees the caller's bytes when it is dropped.
struct Release {
    free: FreeFn,
    data: *mut c_void,
    hint: *mut c_void,
}

// SAFETY: zmq_msg_init_data(3) asks for a function that may be called on any thread.
unsafe impl Send for Release {}
// SAFETY: nothing can be done with a shared reference to it.
unsafe impl Sync for Release {}

impl Drop for Release {
    fn drop(&mut self) {
        // SAFETY: the caller of zmq_msg_init_data promised that it can be called once with these.
        unsafe { (self.free)(self.data, self.hint) }
    }
}

/// A message of the caller's own bytes, which `free` frees when the last copy is gone; without it they must
/// stay for good.
///
/// # Safety
/// `message` must be null or good for writing a message; `data` good for reading `size` bytes until `free` is
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
        // Even no bytes have an address that is not null.
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

/// Sends the message; it is empty afterwards. Where that fails it is what it was.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_send(message: *mut Message, handle: *mut c_void, flags: c_int) -> c_int {
    guard(|| {
        let socket = socket(handle)?;
        // SAFETY: the caller's promise.
        let message = unsafe { Message::at(message) }?;
        let flags = Flags::read(flags)?;
        socket.send(message.outgoing(), flags.more, flags.wait)?;
        let size = message.len();
        // Frees what the engine has not kept, with no lock held.
        *message = Message::empty();
        Ok(int_size(size))
    })
}

/// Receives a frame; what the message held before is closed. Where that fails it is what it was.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_recv(message: *mut Message, handle: *mut c_void, flags: c_int) -> c_int {
    guard(|| {
        let socket = socket(handle)?;
        // SAFETY: the caller's promise.
        let message = unsafe { Message::at(message) }?;
        *message = Message::receive(socket, Flags::read(flags)?.wait)?;
        Ok(int_size(message.len()))
    })
}

/// Frees what the message holds. A second time is EFAULT.
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

/// Closes what `to` holds and moves `from` there, which is empty afterwards.
///
/// # Safety
/// Both must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_move(to: *mut Message, from: *mut Message) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let moved = mem::replace(unsafe { Message::at(from) }?, Message::empty());
        // SAFETY: as above; the first reference is used no more, so both may be the same.
        match unsafe { Message::at(to) } {
            Ok(to) => *to = moved,
            Err(error) => {
                // SAFETY: it was a message a moment ago.
                *unsafe { Message::at(from) }? = moved;
                return Err(error);
            }
        }
        Ok(0)
    })
}

/// Closes what `to` holds and makes it another holder of what `from` holds.
///
/// # Safety
/// Both must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_copy(to: *mut Message, from: *mut Message) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let copy = unsafe { Message::at(from) }?.share();
        // SAFETY: as above; the first reference is used no more, so both may be the same.
        *unsafe { Message::at(to) }? = copy;
        Ok(0)
    })
}

/// Where the bytes are, or NULL.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_data(message: *mut Message) -> *mut c_void {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { Message::at(message) }?.as_ptr().cast()))
}

/// How many bytes there are.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_size(message: *const Message) -> usize {
    // SAFETY: the caller's promise; nothing is written.
    guard(|| Ok(unsafe { Message::at_const(message) }?.len()))
}

/// 1 where more frames of the same message follow; 0 otherwise.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_more(message: *const Message) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { zmq_msg_get(message, MORE) }.max(0)
}

/// A property that is a number.
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
            // The descriptor it came by is not carried.
            SRCFD => Ok(-1),
            _ => Err(Error::Invalid),
        }
    })
}

/// No property can be set.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_set(message: *mut Message, _property: c_int, _value: c_int) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| unsafe { Message::at_const(message) }.and(Err(Error::Invalid)))
}

/// A property that is a text: none is carried yet.
///
/// # Safety
/// `message` must be null or point to a `zmq_msg_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zmq_msg_gets(message: *const Message, property: *const c_char) -> *const c_char {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { Message::at_const(message) }?;
        Err(if property.is_null() { Error::Fault } else { Error::Invalid })
    })
}
