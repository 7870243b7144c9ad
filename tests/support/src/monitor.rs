//! A socket's monitor and its events.

use libc::c_int;

use crate::api::zmq_socket_monitor;
use crate::consts::*;
use crate::errno::{self, Outcome};
use crate::{Context, Socket, Transport};

/// A version 1 event: number, value, endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub number: c_int,
    pub value: u32,
    pub endpoint: String,
}

pub struct Monitor {
    socket: Socket,
}

/// Starts a monitor on a raw endpoint; `None` stops it.
pub fn start(target: &Socket, endpoint: Option<&str>, events: c_int) -> Outcome<()> {
    let endpoint = endpoint.map(|text| std::ffi::CString::new(text).expect("no NUL"));
    let text = endpoint.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    // SAFETY: a C string or null.
    errno::check(unsafe { zmq_socket_monitor(target.raw(), text, events) }).map(|_| ())
}

impl Monitor {
    /// Watches `target` for the events of the mask.
    #[track_caller]
    pub fn of(ctx: &Context, target: &Socket, events: c_int) -> Monitor {
        let endpoint = Transport::Inproc.fresh();
        start(target, Some(&endpoint), events).expect("zmq_socket_monitor");
        let socket = ctx.socket(PAIR);
        socket.connect(&endpoint).expect("connect to the monitor");
        Monitor { socket }
    }

    /// The next event, whatever it is.
    #[track_caller]
    pub fn next(&self) -> Event {
        self.try_next().unwrap_or_else(|e| panic!("no event: {e:?}"))
    }

    pub fn try_next(&self) -> Outcome<Event> {
        let parts = self.socket.recv_parts(0)?;
        assert_eq!(parts.len(), 2, "an event has two frames");
        assert_eq!(parts[0].len(), 6, "the first frame is a u16 and a u32");
        Ok(Event {
            number: u16::from_ne_bytes([parts[0][0], parts[0][1]]) as c_int,
            value: u32::from_ne_bytes(parts[0][2..6].try_into().expect("4 bytes")),
            endpoint: String::from_utf8(parts[1].clone()).expect("text"),
        })
    }

    /// Waits for the next event with this number; skips the others.
    #[track_caller]
    pub fn wait(&self, number: c_int) -> Event {
        loop {
            let event = self.next();
            if event.number == number {
                return event;
            }
        }
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }
}
