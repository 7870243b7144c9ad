//! Passing messages on between two sockets: zmq_proxy(3).
//!
//! Messages are passed on whole. A direction whose receiver has no room keeps the first frame of one message,
//! waits for room, and takes nothing more; the other direction goes on.

use std::ffi::{c_int, c_void};

use pinnace_engine::{Error, PollItem, Socket, Source, poll};
use smallvec::SmallVec;

use crate::guard::guard;
use crate::handle::socket;
use crate::message::Message;

const POLLIN: i16 = 1;
const POLLOUT: i16 = 2;

/// Messages that one direction passes on before the other has its turn.
const BURST: usize = 1000;

/// Passes messages on in both directions, and a copy of each to `capture` unless that is NULL, until the
/// context ends (ETERM).
#[unsafe(no_mangle)]
pub extern "C" fn zmq_proxy(frontend: *mut c_void, backend: *mut c_void, capture: *mut c_void) -> c_int {
    guard(|| {
        if frontend.is_null() || backend.is_null() {
            return Err(Error::Fault);
        }
        let (front, back) = (socket(frontend)?, socket(backend)?);
        let capture = if capture.is_null() { None } else { Some(socket(capture)?) };
        let mut directions: SmallVec<[Direction; 2]> = SmallVec::new();
        directions.push(Direction { from: front, to: back, capture, under_way: None });
        if frontend != backend {
            directions.push(Direction { from: back, to: front, capture, under_way: None });
        }
        loop {
            turn(&mut directions)?;
        }
    })
}

/// Not there yet: ENOTSUP.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_proxy_steerable(
    _frontend: *mut c_void,
    _backend: *mut c_void,
    _capture: *mut c_void,
    _control: *mut c_void,
) -> c_int {
    guard(|| Err(Error::NotSupported))
}

/// Waits for what each direction needs, and passes on.
fn turn(directions: &mut [Direction]) -> Result<(), Error> {
    let mut items: SmallVec<[PollItem<'_>; 2]> = directions.iter().map(Direction::needs).collect();
    poll(&mut items, None)?;
    for (direction, item) in directions.iter_mut().zip(&items) {
        if item.revents != 0 {
            direction.pass()?;
        }
    }
    Ok(())
}

struct Direction {
    from: Socket,
    to: Socket,
    capture: Option<Socket>,
    under_way: Option<Message>,
}

impl Direction {
    fn needs(&self) -> PollItem<'static> {
        let (socket, events) = match self.under_way {
            None => (self.from, POLLIN),
            Some(_) => (self.to, POLLOUT),
        };
        PollItem { source: Source::Socket(socket), events, revents: 0 }
    }

    /// Passes on until one side would have to wait, or it is the other direction's turn.
    fn pass(&mut self) -> Result<(), Error> {
        for _ in 0..BURST {
            let first = match self.under_way.take() {
                Some(first) => Ok(first),
                None => Message::receive(self.from, false),
            };
            let first = match first {
                Err(Error::WouldBlock) => return Ok(()),
                first => first?,
            };
            match self.to.send(first.outgoing(), first.more(), false) {
                Ok(()) => self.rest(first)?,
                Err(Error::WouldBlock) => {
                    self.under_way = Some(first);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The first frame was taken: the others are there, and have room.
    fn rest(&self, first: Message) -> Result<(), Error> {
        let mut frame = first;
        loop {
            if let Some(capture) = self.capture {
                capture.send(frame.outgoing(), frame.more(), true)?;
            }
            if !frame.more() {
                return Ok(());
            }
            frame = Message::receive(self.from, true)?;
            self.to.send(frame.outgoing(), frame.more(), true)?;
        }
    }
}

#[cfg(test)]
mod tests;
