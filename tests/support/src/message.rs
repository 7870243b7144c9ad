//! A `zmq_msg_t` with an owner.

use std::ffi::c_void;

use libc::c_int;

use crate::api::*;
use crate::errno::{self, Outcome};

/// Closed when dropped. It may be closed before; the library then refuses the second close.
pub struct Message {
    pub raw: RawMsg,
}

// SAFETY: a message belongs to its holder, on any thread.
unsafe impl Send for Message {}

impl Default for Message {
    fn default() -> Message {
        Message::new()
    }
}

impl Message {
    pub fn new() -> Message {
        let mut raw = RawMsg::zeroed();
        // SAFETY: 64 bytes of ours.
        assert_eq!(unsafe { zmq_msg_init(&mut raw) }, 0);
        Message { raw }
    }

    /// By `zmq_msg_init_size`, then filled with `data`.
    pub fn of(data: &[u8]) -> Message {
        let mut raw = RawMsg::zeroed();
        // SAFETY: 64 bytes of ours; the body has room for `data`.
        unsafe {
            assert_eq!(zmq_msg_init_size(&mut raw, data.len()), 0);
            std::ptr::copy_nonoverlapping(data.as_ptr(), zmq_msg_data(&mut raw).cast(), data.len());
        }
        Message { raw }
    }

    /// By `zmq_msg_init_data`: the library calls `free(data, hint)` when it is done.
    /// # Safety
    /// As in C.
    pub unsafe fn lent(data: *mut c_void, size: usize, free: Option<FreeFn>, hint: *mut c_void) -> Message {
        let mut raw = RawMsg::zeroed();
        // SAFETY: guaranteed by the caller.
        assert_eq!(unsafe { zmq_msg_init_data(&mut raw, data, size, free, hint) }, 0);
        Message { raw }
    }

    pub fn size(&mut self) -> usize {
        // SAFETY: an initialised message.
        unsafe { zmq_msg_size(&mut self.raw) }
    }

    pub fn more(&mut self) -> bool {
        // SAFETY: an initialised message.
        unsafe { zmq_msg_more(&mut self.raw) == 1 }
    }

    pub fn data(&mut self) -> *mut u8 {
        // SAFETY: an initialised message.
        unsafe { zmq_msg_data(&mut self.raw).cast() }
    }

    pub fn bytes(&mut self) -> &[u8] {
        let (data, size) = (self.data(), self.size());
        if size == 0 {
            return &[];
        }
        // SAFETY: the library says that `size` bytes lie there.
        unsafe { std::slice::from_raw_parts(data, size) }
    }

    pub fn close(&mut self) -> Outcome<()> {
        // SAFETY: 64 bytes of ours, whatever their state.
        errno::check(unsafe { zmq_msg_close(&mut self.raw) }).map(|_| ())
    }

    pub fn copy_from(&mut self, from: &mut Message) -> Outcome<()> {
        // SAFETY: two messages.
        errno::check(unsafe { zmq_msg_copy(&mut self.raw, &mut from.raw) }).map(|_| ())
    }

    pub fn move_from(&mut self, from: &mut Message) -> Outcome<()> {
        // SAFETY: two messages.
        errno::check(unsafe { zmq_msg_move(&mut self.raw, &mut from.raw) }).map(|_| ())
    }

    pub fn property(&mut self, name: &std::ffi::CStr) -> Option<String> {
        // SAFETY: an initialised message and a C string; the answer lives as long as the message.
        unsafe {
            let text = zmq_msg_gets(&mut self.raw, name.as_ptr());
            (!text.is_null()).then(|| std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    pub fn send(&mut self, socket: &crate::Socket, flags: c_int) -> Outcome<usize> {
        // SAFETY: a message and a handle of ours.
        errno::check(unsafe { zmq_msg_send(&mut self.raw, socket.raw(), flags) }).map(|n| n as usize)
    }

    pub fn recv(&mut self, socket: &crate::Socket, flags: c_int) -> Outcome<usize> {
        // SAFETY: a message and a handle of ours.
        errno::check(unsafe { zmq_msg_recv(&mut self.raw, socket.raw(), flags) }).map(|n| n as usize)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: 64 bytes of ours; a closed message answers EFAULT, which is fine here.
        unsafe { zmq_msg_close(&mut self.raw) };
    }
}
