//! What libzmq's draft socket types need besides the stable functions.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::c_int;

use crate::consts::POLLIN;
use crate::errno::{self, Outcome};
use crate::poll::ready;
use crate::{Message, Socket, api, deadline};

fn text(text: &str) -> CString {
    CString::new(text).expect("no NUL")
}

impl Socket {
    pub fn join_group(&self, group: &str) -> Outcome<()> {
        // SAFETY: a C string that outlives the call.
        errno::check(unsafe { api::zmq_join(self.raw(), text(group).as_ptr()) }).map(|_| ())
    }

    pub fn leave_group(&self, group: &str) -> Outcome<()> {
        // SAFETY: a C string that outlives the call.
        errno::check(unsafe { api::zmq_leave(self.raw(), text(group).as_ptr()) }).map(|_| ())
    }

    /// Connects; returns the routing id of the peer.
    pub fn connect_peer(&self, endpoint: &str) -> Outcome<u32> {
        // SAFETY: a C string that outlives the call.
        match unsafe { api::zmq_connect_peer(self.raw(), text(endpoint).as_ptr()) } {
            0 => Err(errno::last()),
            routing_id => Ok(routing_id),
        }
    }

    pub fn disconnect_peer(&self, routing_id: u32) -> Outcome<()> {
        // SAFETY: a handle, good or not, is the library's to judge.
        errno::check(unsafe { api::zmq_disconnect_peer(self.raw(), routing_id) }).map(|_| ())
    }

    /// Sends to the peer with this routing id.
    pub fn send_to(&self, routing_id: u32, data: impl AsRef<[u8]>, flags: c_int) -> Outcome<usize> {
        let mut message = Message::of(data.as_ref());
        message.set_routing_id(routing_id)?;
        message.send(self, flags)
    }

    /// Receives a message of one part, and its sender's routing id.
    #[track_caller]
    pub fn take_from(&self) -> (u32, Vec<u8>) {
        let mut message = Message::new();
        message.recv(self, 0).unwrap_or_else(|error| panic!("no message: {error:?}"));
        assert!(!message.more(), "a message of one part");
        (message.routing_id(), message.bytes().to_vec())
    }

    /// Sends to a group.
    pub fn send_group(&self, group: &str, data: impl AsRef<[u8]>, flags: c_int) -> Outcome<usize> {
        let mut message = Message::of(data.as_ref());
        message.set_group(group)?;
        message.send(self, flags)
    }

    /// Receives a message of one part, and its group.
    #[track_caller]
    pub fn take_group(&self) -> (String, Vec<u8>) {
        let mut message = Message::new();
        message.recv(self, 0).unwrap_or_else(|error| panic!("no message: {error:?}"));
        assert!(!message.more(), "a message of one part");
        (message.group(), message.bytes().to_vec())
    }
}

impl Message {
    pub fn set_routing_id(&mut self, routing_id: u32) -> Outcome<()> {
        // SAFETY: an initialised message.
        errno::check(unsafe { api::zmq_msg_set_routing_id(&mut self.raw, routing_id) }).map(|_| ())
    }

    pub fn routing_id(&mut self) -> u32 {
        // SAFETY: an initialised message.
        unsafe { api::zmq_msg_routing_id(&mut self.raw) }
    }

    pub fn set_group(&mut self, group: &str) -> Outcome<()> {
        // SAFETY: an initialised message and a C string.
        errno::check(unsafe { api::zmq_msg_set_group(&mut self.raw, text(group).as_ptr()) }).map(|_| ())
    }

    pub fn group(&mut self) -> String {
        // SAFETY: an initialised message; the answer is a C string that lives as long.
        unsafe { CStr::from_ptr(api::zmq_msg_group(&mut self.raw)) }.to_string_lossy().into_owned()
    }
}

/// Sends to a unique group until the DISH has seen that its joins and leaves so far are in effect at this RADIO. The
/// DISH drops other messages that it receives meanwhile.
#[track_caller]
pub fn settle(radio: &Socket, dish: &Socket) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let group = format!("~settle-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    dish.join_group(&group).expect("join");
    let mut sent = 0u64;
    deadline::until("the group arrives", || {
        sent += 1;
        radio.send_group(&group, sent.to_le_bytes(), 0).expect("send");
        ready(dish, POLLIN, 10) != 0 && dish.take_group().0 == group
    });
    // Later probes are still under way: read up to the last.
    sent += 1;
    radio.send_group(&group, sent.to_le_bytes(), 0).expect("send");
    while dish.take() != sent.to_le_bytes() {}
    dish.leave_group(&group).expect("leave");
}
