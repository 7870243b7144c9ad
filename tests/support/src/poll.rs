//! `zmq_poll` over sockets and raw descriptors.

use std::os::fd::RawFd;

use libc::{c_int, c_long, c_short};

use crate::api::{PollItem, zmq_poll};
use crate::errno::{self, Outcome};
use crate::socket::Socket;

pub fn socket_item(socket: &Socket, events: c_int) -> PollItem {
    PollItem { socket: socket.raw(), fd: -1, events: events as c_short, revents: 0 }
}

pub fn fd_item(fd: RawFd, events: c_int) -> PollItem {
    PollItem { socket: std::ptr::null_mut(), fd, events: events as c_short, revents: 0 }
}

/// Polls; returns how many items are ready and sets their `revents`.
pub fn poll(items: &mut [PollItem], timeout_ms: c_long) -> Outcome<c_int> {
    // SAFETY: items of ours.
    errno::check(unsafe { zmq_poll(items.as_mut_ptr(), items.len() as c_int, timeout_ms) })
}

/// Polls one socket; returns the events that are ready.
#[track_caller]
pub fn ready(socket: &Socket, events: c_int, timeout_ms: c_long) -> c_int {
    let mut items = [socket_item(socket, events)];
    let count = poll(&mut items, timeout_ms).expect("zmq_poll");
    assert_eq!(count, (items[0].revents != 0) as c_int, "the result counts the items with events");
    items[0].revents as c_int
}

/// Returns true if a plain descriptor is or becomes readable within the time.
pub fn fd_readable(fd: RawFd, timeout_ms: c_int) -> bool {
    let mut item = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd of ours.
    unsafe { libc::poll(&mut item, 1, timeout_ms) == 1 }
}
