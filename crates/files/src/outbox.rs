//! Frames on their way from a dialogue to the thread that has the socket.
//!
//! That thread only sends and receives, and the dialogue's thread reads, hashes and writes, so the two work at the same
//! time. Each side wakes the other one seldom: once for all frames that gather meanwhile.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinnace_engine::Body;

use crate::dialogue::provider::Outlet;

/// The most octets that wait; a frame alone may have more.
const WAITING_MAX: usize = 4 << 20;
/// The most octets that wait for all connections of a server. Each may have one frame beyond it.
const ALL_WAITING_MAX: usize = 64 << 20;

/// Frames that wait for one connection.
#[derive(Default)]
pub struct Outbox {
    waiting: Mutex<Waiting>,
    /// The octets that wait for all connections.
    all: Arc<AtomicUsize>,
}

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
    /// One of several, whose octets are counted together.
    pub fn one_of(all: &Arc<AtomicUsize>) -> Outbox {
        Outbox { waiting: Mutex::default(), all: all.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, waiting: &mut Waiting, len: usize) {
        waiting.bytes += len;
        self.all.fetch_add(len, Ordering::Relaxed);
    }

    fn subtract(&self, waiting: &mut Waiting, len: usize) {
        waiting.bytes -= len;
        self.all.fetch_sub(len, Ordering::Relaxed);
    }

    fn is_full(&self, waiting: &Waiting, len: usize) -> bool {
        let all = self.all.load(Ordering::Relaxed);
        !waiting.frames.is_empty() && (waiting.bytes + len > WAITING_MAX || all + len > ALL_WAITING_MAX)
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
            Some(frame) => self.subtract(&mut waiting, frame.len()),
            None => waiting.is_told = false,
        }
        frame
    }

    /// Puts a frame back that the connection has no room for.
    pub fn put_back(&self, frame: Body) {
        let mut waiting = self.lock();
        self.add(&mut waiting, frame.len());
        waiting.frames.push_front(frame);
    }

    /// Drops all that waits.
    pub fn clear(&self) {
        let mut waiting = self.lock();
        let bytes = waiting.bytes;
        self.subtract(&mut waiting, bytes);
        waiting.frames.clear();
        waiting.is_full = false;
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
        if self.is_full(&waiting, frame.len()) {
            waiting.is_full = true;
            return Err(frame);
        }
        self.add(&mut waiting, frame.len());
        waiting.frames.push_back(frame);
        Ok(())
    }

    fn has_room(&self, len: usize) -> bool {
        let mut waiting = self.lock();
        waiting.is_full |= self.is_full(&waiting, len);
        !waiting.is_full
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let bytes = self.lock().bytes;
        self.all.fetch_sub(bytes, Ordering::Relaxed);
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

    #[test]
    fn those_of_a_server_share_its_room() {
        let all = Arc::default();
        let [one, other] = [(); 2].map(|()| Outbox::one_of(&all));
        all.fetch_add(ALL_WAITING_MAX - 10, Ordering::Relaxed);
        assert!(one.has_room(10) && one.send(frame(10)).is_ok());
        assert!(other.has_room(5) && other.send(frame(5)).is_ok(), "one frame each");
        assert!(!other.has_room(5) && other.send(frame(5)).is_err());
        drop(one);
        assert!(other.pop().is_some() && other.is_freed());
        assert!(other.send(frame(5)).is_ok() && other.send(frame(5)).is_ok());
        drop(other);
        assert_eq!(all.load(Ordering::Relaxed), ALL_WAITING_MAX - 10);
    }
}
