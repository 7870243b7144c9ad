//! Frames on their way from a dialogue to the thread that has the socket.
//!
//! That thread only sends and receives, and the dialogue's thread reads, hashes and writes, so the two work at the same
//! time. Each side wakes the other one seldom: once for all frames that gather meanwhile.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pinnace_engine::Body;

use crate::dialogue::provider::Outlet;

/// The most octets that wait; a frame alone may have more.
const WAITING_MAX: usize = 4 << 20;

/// Frames that wait for one connection.
#[derive(Default)]
pub struct Outbox(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    frames: VecDeque<Body>,
    bytes: usize,
    /// The thread of the socket knows that there are frames.
    is_told: bool,
    /// The dialogue has found no room.
    is_full: bool,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the thread of the socket is to be told that there are frames. It is told once, until it finds
    /// none.
    pub fn is_to_be_told(&self) -> bool {
        let mut waiting = self.lock();
        !waiting.frames.is_empty() && !std::mem::replace(&mut waiting.is_told, true)
    }

    /// Takes the next frame. None: all are sent.
    pub fn pop(&self) -> Option<Body> {
        let mut waiting = self.lock();
        let frame = waiting.frames.pop_front();
        match &frame {
            Some(frame) => waiting.bytes -= frame.len(),
            None => waiting.is_told = false,
        }
        frame
    }

    /// Puts a frame back that the connection has no room for.
    pub fn put_back(&self, frame: Body) {
        let mut waiting = self.lock();
        waiting.bytes += frame.len();
        waiting.frames.push_front(frame);
    }

    /// Returns true if there is room again for a dialogue that has found none.
    pub fn is_freed(&self) -> bool {
        let mut waiting = self.lock();
        waiting.bytes <= WAITING_MAX / 2 && std::mem::take(&mut waiting.is_full)
    }
}

impl Outlet for Outbox {
    fn send(&self, frame: Body) -> Result<(), Body> {
        let mut waiting = self.lock();
        if !waiting.frames.is_empty() && waiting.bytes + frame.len() > WAITING_MAX {
            waiting.is_full = true;
            return Err(frame);
        }
        waiting.bytes += frame.len();
        waiting.frames.push_back(frame);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(len: usize) -> Body {
        vec![0; len].into()
    }

    #[test]
    fn a_full_one_refuses_until_half_is_sent() {
        let outbox = Outbox::default();
        assert!(!outbox.is_to_be_told());
        assert!(outbox.send(frame(WAITING_MAX + 1)).is_ok(), "alone");
        assert!(outbox.send(frame(1)).is_err());
        assert!(outbox.is_to_be_told() && !outbox.is_to_be_told());
        let first = outbox.pop().unwrap();
        outbox.put_back(first);
        assert!(!outbox.is_freed());
        assert!(outbox.pop().is_some());
        assert!(outbox.is_freed() && !outbox.is_freed());
        assert!(outbox.pop().is_none());
        assert!(outbox.send(frame(1)).is_ok() && outbox.is_to_be_told());
    }
}
