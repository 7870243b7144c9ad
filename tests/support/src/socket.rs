//! A socket of the library under test.
//!
//! Each call of the C ABI has a method that returns an [`Outcome`]; `put`, `take`, `tx`, `rx` panic with the errno
//! instead.

use std::ffi::{CString, c_void};

use libc::c_int;

use crate::api::*;
use crate::consts::*;
use crate::deadline::PATIENCE_MS;
use crate::errno::{self, Errno, Outcome};
use crate::message::Message;

/// Closed without lingering when dropped; [`Socket::close`] keeps the linger that is set.
pub struct Socket {
    raw: *mut c_void,
}

// SAFETY: handing a socket to another thread needs a full fence, and Rust's ways to hand over a value contain one.
// The library under test promises sharing as well.
unsafe impl Send for Socket {}
unsafe impl Sync for Socket {}

impl Socket {
    pub fn from_raw(raw: *mut c_void) -> Socket {
        Socket { raw }
    }

    pub fn raw(&self) -> *mut c_void {
        self.raw
    }

    /// Gives every blocking call a deadline.
    #[track_caller]
    pub fn patient(self) -> Socket {
        self.with(RCVTIMEO, PATIENCE_MS).with(SNDTIMEO, PATIENCE_MS)
    }

    /// Sets an option while building.
    #[track_caller]
    pub fn with(self, option: c_int, value: c_int) -> Socket {
        self.set(option, value).unwrap_or_else(|e| panic!("option {option} = {value}: {e:?}"));
        self
    }

    /// Sets an option that docs/compatibility.md allows the library to leave to a later release. Returns false on
    /// ENOTSUP: there is nothing else to test then.
    #[track_caller]
    pub fn supports(&self, option: c_int, value: impl AsRef<[u8]>) -> bool {
        match self.set_bytes(option, value.as_ref()) {
            Ok(()) => true,
            Err(Errno(libc::ENOTSUP)) => false,
            Err(error) => panic!("option {option}: {error:?}"),
        }
    }

    /// Sets both high-water marks.
    #[track_caller]
    pub fn hwm(self, messages: c_int) -> Socket {
        self.with(SNDHWM, messages).with(RCVHWM, messages)
    }

    pub fn set(&self, option: c_int, value: c_int) -> Outcome<()> {
        self.set_bytes(option, &value.to_ne_bytes())
    }

    pub fn set_bytes(&self, option: c_int, value: &[u8]) -> Outcome<()> {
        // SAFETY: a readable value of that size.
        let rc = unsafe { zmq_setsockopt(self.raw, option, value.as_ptr().cast(), value.len()) };
        errno::check(rc).map(|_| ())
    }

    pub fn get(&self, option: c_int) -> Outcome<c_int> {
        let bytes = self.get_bytes(option, 4)?;
        Ok(c_int::from_ne_bytes(bytes.try_into().expect("an int has 4 bytes")))
    }

    /// Reads an option into a buffer of `room` bytes; returns the bytes that the library reports as written.
    pub fn get_bytes(&self, option: c_int, room: usize) -> Outcome<Vec<u8>> {
        let mut value = vec![0u8; room];
        let mut size = room;
        // SAFETY: a writable buffer of that size.
        let rc = unsafe { zmq_getsockopt(self.raw, option, value.as_mut_ptr().cast(), &mut size) };
        errno::check(rc)?;
        assert!(size <= room, "the library claims {size} bytes in {room}");
        value.truncate(size);
        Ok(value)
    }

    /// The endpoint of the last bind or connect.
    #[track_caller]
    pub fn endpoint(&self) -> String {
        let mut bytes = self.get_bytes(LAST_ENDPOINT, 512).expect("LAST_ENDPOINT");
        assert_eq!(bytes.pop(), Some(0), "the endpoint ends with a NUL, which is counted");
        String::from_utf8(bytes).expect("text")
    }

    /// The same bytes with the terminating NUL; they need not be UTF-8.
    #[track_caller]
    pub fn endpoint_bytes(&self) -> Vec<u8> {
        self.get_bytes(LAST_ENDPOINT, 200_000).expect("LAST_ENDPOINT")
    }

    pub fn bind(&self, endpoint: &str) -> Outcome<()> {
        self.by_endpoint(zmq_bind, endpoint)
    }

    pub fn connect(&self, endpoint: &str) -> Outcome<()> {
        self.by_endpoint(zmq_connect, endpoint)
    }

    pub fn unbind(&self, endpoint: &str) -> Outcome<()> {
        self.by_endpoint(zmq_unbind, endpoint)
    }

    pub fn disconnect(&self, endpoint: &str) -> Outcome<()> {
        self.by_endpoint(zmq_disconnect, endpoint)
    }

    fn by_endpoint(
        &self,
        call: unsafe fn(*mut c_void, *const libc::c_char) -> c_int,
        endpoint: &str,
    ) -> Outcome<()> {
        let endpoint = CString::new(endpoint).expect("no NUL");
        // SAFETY: a C string that outlives the call.
        errno::check(unsafe { call(self.raw, endpoint.as_ptr()) }).map(|_| ())
    }

    pub fn send(&self, data: impl AsRef<[u8]>, flags: c_int) -> Outcome<usize> {
        let data = data.as_ref();
        // SAFETY: a readable buffer of that size.
        let rc = unsafe { zmq_send(self.raw, data.as_ptr().cast(), data.len(), flags) };
        errno::check(rc).map(|n| n as usize)
    }

    /// `zmq_recv` into a buffer: returns the message's size, which may exceed the buffer's.
    pub fn recv_into(&self, buffer: &mut [u8], flags: c_int) -> Outcome<usize> {
        // SAFETY: a writable buffer of that size.
        let rc = unsafe { zmq_recv(self.raw, buffer.as_mut_ptr().cast(), buffer.len(), flags) };
        errno::check(rc).map(|n| n as usize)
    }

    /// Receives one part of any size.
    pub fn recv(&self, flags: c_int) -> Outcome<Vec<u8>> {
        let mut message = Message::new();
        let size = message.recv(self, flags)?;
        assert_eq!(size, message.size(), "the result of the receive is the message's size");
        Ok(message.bytes().to_vec())
    }

    /// Receives all parts of a message. Checks that the message's flag and `RCVMORE` agree.
    pub fn recv_parts(&self, flags: c_int) -> Outcome<Vec<Vec<u8>>> {
        let mut parts = Vec::new();
        loop {
            let mut message = Message::new();
            message.recv(self, flags)?;
            parts.push(message.bytes().to_vec());
            let more = message.more();
            assert_eq!(self.get(RCVMORE), Ok(more as c_int), "RCVMORE says what the message says");
            if !more {
                return Ok(parts);
            }
        }
    }

    pub fn send_parts<T: AsRef<[u8]>>(&self, parts: &[T], flags: c_int) -> Outcome<()> {
        for (i, part) in parts.iter().enumerate() {
            let more = if i + 1 < parts.len() { SNDMORE } else { 0 };
            self.send(part, flags | more)?;
        }
        Ok(())
    }

    /// Sends a message of one part.
    #[track_caller]
    pub fn put(&self, data: impl AsRef<[u8]>) {
        let data = data.as_ref();
        assert_eq!(self.send(data, 0), Ok(data.len()));
    }

    /// Receives a message of one part.
    #[track_caller]
    pub fn take(&self) -> Vec<u8> {
        let data = self.recv(0).unwrap_or_else(|e| panic!("no message: {e:?}"));
        assert_eq!(self.get(RCVMORE), Ok(0), "a message of one part");
        data
    }

    /// Receives a message of one part, as text.
    #[track_caller]
    pub fn take_text(&self) -> String {
        String::from_utf8(self.take()).expect("text")
    }

    /// Sends a message of several parts.
    #[track_caller]
    pub fn tx<T: AsRef<[u8]>>(&self, parts: &[T]) {
        self.send_parts(parts, 0).unwrap_or_else(|e| panic!("not sent: {e:?}"));
    }

    /// Receives a message of several parts.
    #[track_caller]
    pub fn rx(&self) -> Vec<Vec<u8>> {
        self.recv_parts(0).unwrap_or_else(|e| panic!("no message: {e:?}"))
    }

    /// Asserts that the next message consists of exactly these parts.
    #[track_caller]
    pub fn expect<T: AsRef<[u8]>>(&self, parts: &[T]) {
        let wanted: Vec<&[u8]> = parts.iter().map(|part| part.as_ref()).collect();
        assert_eq!(self.rx(), wanted);
    }

    /// Asserts that no message arrives for a short while.
    #[track_caller]
    pub fn expect_nothing(&self) {
        let before = self.get(RCVTIMEO).expect("RCVTIMEO");
        self.set(RCVTIMEO, crate::deadline::ABSENCE_MS).expect("RCVTIMEO");
        assert_eq!(self.recv_parts(0), Err(Errno(libc::EAGAIN)));
        self.set(RCVTIMEO, before).expect("RCVTIMEO");
    }

    /// The mask of `ZMQ_EVENTS`.
    #[track_caller]
    pub fn events(&self) -> c_int {
        self.get(EVENTS).expect("EVENTS")
    }

    /// Closes with the linger that is set.
    pub fn close(self) -> Outcome<()> {
        let raw = self.raw;
        std::mem::forget(self);
        // SAFETY: the handle is ours and not used again.
        errno::check(unsafe { zmq_close(raw) }).map(|_| ())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = self.set(LINGER, 0);
        // SAFETY: the handle is ours and not used again.
        unsafe { zmq_close(self.raw) };
    }
}
