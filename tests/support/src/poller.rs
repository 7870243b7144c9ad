//! `zmq_poller_*`, draft functions that a stable build of libzmq lacks.

use std::ffi::c_void;
use std::os::fd::RawFd;

use libc::{c_int, c_long};

use crate::api::*;
use crate::errno::{self, Outcome};
use crate::socket::Socket;

pub struct Poller(*mut c_void);

// SAFETY: pollers of the library under test may be used from any thread.
unsafe impl Send for Poller {}
unsafe impl Sync for Poller {}

pub const NO_EVENT: PollerEvent =
    PollerEvent { socket: std::ptr::null_mut(), fd: -1, user_data: std::ptr::null_mut(), events: 0 };

fn done(rc: c_int) -> Outcome<()> {
    errno::check(rc).map(|rc| assert_eq!(rc, 0))
}

/// A number as the user pointer of a registration.
fn user(number: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(number)
}

// The functions below pass live handles, or handles that the library has to refuse.
impl Poller {
    /// `None` if the library has no pollers.
    pub fn new() -> Option<Poller> {
        if !exports("zmq_poller_new") {
            return None;
        }
        // SAFETY: no arguments.
        let raw = unsafe { zmq_poller_new() };
        assert!(!raw.is_null(), "zmq_poller_new");
        Some(Poller(raw))
    }

    pub fn raw(&self) -> *mut c_void {
        self.0
    }

    pub fn size(&self) -> Outcome<c_int> {
        // SAFETY: as above.
        errno::check(unsafe { zmq_poller_size(self.0) })
    }

    pub fn add(&self, socket: &Socket, number: usize, events: c_int) -> Outcome<()> {
        // SAFETY: as above.
        done(unsafe { zmq_poller_add(self.0, socket.raw(), user(number), events as i16) })
    }

    pub fn modify(&self, socket: &Socket, events: c_int) -> Outcome<()> {
        // SAFETY: as above.
        done(unsafe { zmq_poller_modify(self.0, socket.raw(), events as i16) })
    }

    pub fn remove(&self, socket: &Socket) -> Outcome<()> {
        // SAFETY: as above.
        done(unsafe { zmq_poller_remove(self.0, socket.raw()) })
    }

    pub fn add_fd(&self, fd: RawFd, number: usize, events: c_int) -> Outcome<()> {
        // SAFETY: as above.
        done(unsafe { zmq_poller_add_fd(self.0, fd, user(number), events as i16) })
    }

    pub fn modify_fd(&self, fd: RawFd, events: c_int) -> Outcome<()> {
        // SAFETY: as above.
        done(unsafe { zmq_poller_modify_fd(self.0, fd, events as i16) })
    }

    pub fn remove_fd(&self, fd: RawFd) -> Outcome<()> {
        // SAFETY: as above.
        done(unsafe { zmq_poller_remove_fd(self.0, fd) })
    }

    /// The number of the ready registration, and its events. Checks that a failure clears the event.
    pub fn wait(&self, timeout_ms: c_long) -> Outcome<(usize, c_int)> {
        let mut event = PollerEvent { events: 77, ..NO_EVENT };
        // SAFETY: one event to write to.
        let outcome = done(unsafe { zmq_poller_wait(self.0, &mut event, timeout_ms) });
        if outcome.is_err() {
            assert_eq!(event, NO_EVENT);
        }
        outcome.map(|()| (event.user_data.addr(), event.events.into()))
    }

    /// As `wait`, for at most `max` at once.
    pub fn wait_all(&self, max: usize, timeout_ms: c_long) -> Outcome<Vec<(usize, c_int)>> {
        let events = self.wait_events(max, timeout_ms)?;
        Ok(events.iter().map(|event| (event.user_data.addr(), event.events.into())).collect())
    }

    pub fn wait_events(&self, max: usize, timeout_ms: c_long) -> Outcome<Vec<PollerEvent>> {
        let mut events = vec![NO_EVENT; max];
        // SAFETY: room for `max` events.
        let count = unsafe { zmq_poller_wait_all(self.0, events.as_mut_ptr(), max as c_int, timeout_ms) };
        events.truncate(errno::check(count)? as usize);
        Ok(events)
    }

    pub fn fd(&self) -> Outcome<RawFd> {
        let mut fd = -1;
        // SAFETY: a writable descriptor.
        done(unsafe { zmq_poller_fd(self.0, &mut fd) }).map(|()| fd)
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and not used again.
        assert_eq!(unsafe { zmq_poller_destroy(&mut self.0) }, 0);
        assert!(self.0.is_null(), "the pointer is cleared");
    }
}
