//! A long link: a tcp proxy that delays each direction and limits its rate.
//!
//! A reader takes octets from one side as fast as the link sends them, and notes when they arrive at the far end; a
//! writer passes them on at that time. Between them the link holds what is under way in its delay, and a little more;
//! when it is full the reader does not read, so the sender sees back-pressure.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;

/// The most octets that are read at once: half a millisecond at 1 Gbit/s.
const CHUNK: usize = 64 << 10;
/// Octets that the link holds beside those in its delay: the queue of a router.
const QUEUE: usize = 1 << 20;

/// One direction.
struct Link {
    delay: Duration,
    bytes_per_s: f64,
    /// The most octets that it holds.
    capacity: usize,
    held: Mutex<Held>,
    changed: Condvar,
}

struct Held {
    /// Octets, and when they arrive.
    queue: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// When the last octet has left the sender's end.
    free_at: Instant,
    is_ended: bool,
}

impl Link {
    fn new(delay: Duration, bytes_per_s: f64) -> Link {
        let capacity = (bytes_per_s * delay.as_secs_f64()) as usize + QUEUE;
        let held = Held { queue: VecDeque::new(), bytes: 0, free_at: Instant::now(), is_ended: false };
        Link { delay, bytes_per_s, capacity, held: Mutex::new(held), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, chunk: Vec<u8>) {
        let full = |held: &mut Held| held.bytes > self.capacity;
        let mut held = self.changed.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        let takes = Duration::from_secs_f64(chunk.len() as f64 / self.bytes_per_s);
        held.free_at = held.free_at.max(Instant::now()) + takes;
        held.bytes += chunk.len();
        let arrives_at = held.free_at + self.delay;
        held.queue.push_back((arrives_at, chunk));
        self.changed.notify_all();
    }

    /// The next octets that arrive, at their time. None: the sender has ended.
    fn pop(&self) -> Option<Vec<u8>> {
        let empty = |held: &mut Held| held.queue.is_empty() && !held.is_ended;
        let mut held = self.changed.wait_while(self.lock(), empty).unwrap_or_else(PoisonError::into_inner);
        let (arrives_at, chunk) = held.queue.pop_front()?;
        drop(held);
        thread::sleep(arrives_at.saturating_duration_since(Instant::now()));
        self.lock().bytes -= chunk.len();
        self.changed.notify_all();
        Some(chunk)
    }

    fn end(&self) {
        self.lock().is_ended = true;
        self.changed.notify_all();
    }

    fn read_from(&self, mut from: TcpStream) {
        let mut chunk = vec![0; CHUNK];
        while let Ok(size @ 1..) = from.read(&mut chunk) {
            self.push(chunk[..size].to_vec());
        }
        self.end();
    }

    fn write_to(&self, mut to: TcpStream) {
        // After an error the rest is dropped, so that the reader does not wait for ever.
        let mut is_up = true;
        while let Some(chunk) = self.pop() {
            is_up = is_up && to.write_all(&chunk).is_ok();
        }
        // The peer may be gone already.
        let _ = to.shutdown(Shutdown::Write);
    }
}

/// Runs until it is killed.
pub fn main(at: &str, to: &str, delay_ms: u64, bytes_per_s: f64) -> Outcome {
    let listener = TcpListener::bind(at)?;
    loop {
        let (near, _) = listener.accept()?;
        let far = TcpStream::connect(to)?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        for (from, to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
            let link = Arc::new(Link::new(Duration::from_millis(delay_ms), bytes_per_s));
            let reader = link.clone();
            thread::spawn(move || reader.read_from(from));
            thread::spawn(move || link.write_to(to));
        }
    }
}
