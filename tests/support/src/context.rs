//! A context of the library under test.

use std::ffi::c_void;

use libc::c_int;

use crate::api::*;
use crate::errno::{self, Outcome};
use crate::socket::Socket;

/// Terminated when dropped. Sockets must be dropped first, as Rust does for locals declared after it.
pub struct Context {
    raw: *mut c_void,
}

// SAFETY: a context may be used from any thread.
unsafe impl Send for Context {}
unsafe impl Sync for Context {}

impl Default for Context {
    fn default() -> Context {
        Context::new()
    }
}

impl Context {
    pub fn new() -> Context {
        // SAFETY: no arguments.
        let raw = unsafe { zmq_ctx_new() };
        assert!(!raw.is_null(), "zmq_ctx_new");
        Context { raw }
    }

    /// A socket with blocking calls that end after [`crate::deadline::PATIENCE_MS`].
    #[track_caller]
    pub fn socket(&self, kind: c_int) -> Socket {
        self.try_socket(kind).expect("zmq_socket")
    }

    pub fn try_socket(&self, kind: c_int) -> Outcome<Socket> {
        self.try_bare_socket(kind).map(Socket::patient)
    }

    /// A socket with the library's default timeouts: its calls may block forever.
    #[track_caller]
    pub fn bare_socket(&self, kind: c_int) -> Socket {
        self.try_bare_socket(kind).expect("zmq_socket")
    }

    pub fn try_bare_socket(&self, kind: c_int) -> Outcome<Socket> {
        // SAFETY: the handle is ours; a bad kind is the library's to refuse.
        let raw = unsafe { zmq_socket(self.raw, kind) };
        if raw.is_null() { Err(errno::last()) } else { Ok(Socket::from_raw(raw)) }
    }

    pub fn set(&self, option: c_int, value: c_int) -> Outcome<()> {
        // SAFETY: the handle is ours.
        errno::check(unsafe { zmq_ctx_set(self.raw, option, value) }).map(|_| ())
    }

    pub fn get(&self, option: c_int) -> Outcome<c_int> {
        // SAFETY: the handle is ours.
        errno::check(unsafe { zmq_ctx_get(self.raw, option) })
    }

    pub fn shutdown(&self) -> Outcome<()> {
        // SAFETY: the handle is ours.
        errno::check(unsafe { zmq_ctx_shutdown(self.raw) }).map(|_| ())
    }

    /// Terminates the context; blocks as the C function does.
    pub fn term(self) -> Outcome<()> {
        let outcome = self.try_term();
        std::mem::forget(self);
        outcome
    }

    /// As `term`, but keeps the handle: after EINTR the caller must terminate again.
    pub fn try_term(&self) -> Outcome<()> {
        // SAFETY: the handle is ours; later calls on it after a success must return an error.
        errno::check(unsafe { zmq_ctx_term(self.raw) }).map(|_| ())
    }

    pub fn raw(&self) -> *mut c_void {
        self.raw
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // A test that panicked may have leaked sockets into other threads: do not wait for them.
        if !std::thread::panicking() {
            // SAFETY: the handle is ours and not used again.
            while unsafe { zmq_ctx_term(self.raw) } == -1 && errno::last().0 == libc::EINTR {}
        }
    }
}
