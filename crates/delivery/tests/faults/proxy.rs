//! A proxy that simulates a faulty network until it is told to behave: it delays, cuts connections at any byte, repeats
//! data, closes one direction, or stalls it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::checker::next;

/// What is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// Whole ZMTP frames, on connections without CURVE.
    Frames,
    /// Any bytes, on connections protected by CURVE.
    Bytes,
}

impl Repeats {
    /// How often. Repeated bytes end a connection, which must live long enough to carry a part of a large message.
    fn per_mille(self) -> u64 {
        match self {
            Repeats::Frames => 50,
            Repeats::Bytes => 10,
        }
    }
}

#[derive(Default)]
pub struct Tally {
    pub connections: AtomicU32,
    pub cuts: AtomicU32,
    pub delays: AtomicU32,
    pub repeats: AtomicU32,
    pub halves: AtomicU32,
    pub stalls: AtomicU32,
}

pub struct Proxy {
    pub endpoint: String,
    way: Arc<Way>,
}

struct Way {
    to: String,
    repeats: Repeats,
    tally: Tally,
    random: AtomicU64,
    behaves: AtomicBool,
    /// For threads that wait in `dawdle`.
    lock: Mutex<()>,
    better: Condvar,
}

impl Proxy {
    /// Between connecting clients and a TCP endpoint.
    pub fn start(to: &str, repeats: Repeats) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
        let way = Arc::new(Way {
            to: to.trim_start_matches("tcp://").to_owned(),
            repeats,
            tally: Tally::default(),
            random: AtomicU64::new(0x0dd_ba11),
            behaves: AtomicBool::new(false),
            lock: Mutex::default(),
            better: Condvar::new(),
        });
        let weak = Arc::downgrade(&way);
        std::thread::spawn(move || {
            while let (Ok((from, _)), Some(way)) = (listener.accept(), weak.upgrade()) {
                way.tally.connections.fetch_add(1, Relaxed);
                let Ok(to) = TcpStream::connect(&way.to) else { continue };
                let back = (to.try_clone().unwrap(), from.try_clone().unwrap());
                let other = way.clone();
                std::thread::spawn(move || way.pass(from, to));
                std::thread::spawn(move || other.pass(back.0, back.1));
            }
        });
        Proxy { endpoint, way }
    }

    /// Forwards everything unchanged from now on.
    pub fn behave(&self) {
        let _locked = self.way.lock.lock().unwrap();
        self.way.behaves.store(true, Relaxed);
        self.way.better.notify_all();
    }

    pub fn tally(&self) -> &Tally {
        &self.way.tally
    }
}

impl Tally {
    pub fn text(&self) -> String {
        let of = |count: &AtomicU32| count.load(Relaxed);
        format!(
            "{} connections, {} cut, {} closed by half, {} stalled, {} delays, {} repeats",
            of(&self.connections),
            of(&self.cuts),
            of(&self.halves),
            of(&self.stalls),
            of(&self.delays),
            of(&self.repeats)
        )
    }

    /// The count of the rarest fault.
    pub fn least(&self) -> u32 {
        let all = [&self.cuts, &self.delays, &self.repeats, &self.halves, &self.stalls];
        all.into_iter().map(|count| count.load(Relaxed)).min().unwrap()
    }
}

impl Way {
    fn roll(&self) -> u64 {
        let mut state = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed) | 1;
        next(&mut state);
        next(&mut state);
        next(&mut state)
    }

    /// Waits, unless the proxy behaves.
    fn dawdle(&self, time: Duration) {
        let (until, mut locked) = (Instant::now() + time, self.lock.lock().unwrap());
        while !self.behaves.load(Relaxed) && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            locked = self.better.wait_timeout(locked, left).unwrap().0;
        }
    }

    /// Forwards one direction until it ends.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let (mut buffer, mut frames, mut deaf) = (vec![0; 16 << 10], Frames::default(), false);
        loop {
            let most = 1 + self.roll() as usize % buffer.len();
            let count = match from.read(&mut buffer[..most]) {
                Ok(count @ 1..) => count,
                _ => break,
            };
            let bytes = &buffer[..count];
            let dice = if self.behaves.load(Relaxed) { u64::MAX } else { self.roll() % 2000 };
            let count = |tally: &AtomicU32| tally.fetch_add(1, Relaxed);
            match dice {
                0..8 => {
                    count(&self.tally.cuts);
                    let _ = to.write_all(&bytes[..self.roll() as usize % bytes.len()]);
                    break;
                }
                8..12 => {
                    count(&self.tally.halves);
                    let _ = to.shutdown(Shutdown::Write);
                    deaf = true;
                }
                12..16 => {
                    count(&self.tally.stalls);
                    self.dawdle(Duration::from_millis(self.roll() % 2500));
                }
                16..60 => {
                    count(&self.tally.delays);
                    self.dawdle(Duration::from_micros(self.roll() % 20_000));
                }
                _ => {}
            }
            if deaf {
                continue;
            }
            let repeats = (60..60 + self.repeats.per_mille() * 2).contains(&dice);
            let written = match self.repeats {
                Repeats::Bytes if repeats => {
                    count(&self.tally.repeats);
                    to.write_all(bytes)
                        .and_then(|()| to.write_all(&bytes[self.roll() as usize % bytes.len()..]))
                }
                Repeats::Bytes => to.write_all(bytes),
                Repeats::Frames => frames.pass(bytes, repeats, &mut to, || {
                    count(&self.tally.repeats);
                }),
            };
            if written.is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

/// Tracks the ends of ZMTP frames.
#[derive(Default)]
struct Frames {
    /// The received bytes of the greeting, then of the current frame.
    bytes: Vec<u8>,
    greeted: bool,
}

impl Frames {
    /// Forwards bytes. If `repeats` is set, repeats the next message frame that ends in them.
    fn pass(
        &mut self,
        bytes: &[u8],
        mut repeats: bool,
        to: &mut TcpStream,
        mut count: impl FnMut(),
    ) -> std::io::Result<()> {
        const COMMAND: u8 = 4;
        let mut rest = bytes;
        while !rest.is_empty() {
            let missing = self.missing();
            let (now, later) = rest.split_at(missing.min(rest.len()));
            self.bytes.extend_from_slice(now);
            rest = later;
            to.write_all(now)?;
            if self.missing() > 0 {
                continue;
            }
            if repeats && self.greeted && self.bytes[0] & COMMAND == 0 {
                count();
                to.write_all(&self.bytes)?;
                repeats = false;
            }
            self.greeted = true;
            self.bytes.clear();
        }
        Ok(())
    }

    /// How many bytes are missing until the length is known or the frame is complete.
    fn missing(&self) -> usize {
        const LONG: u8 = 2;
        let have = self.bytes.len();
        if !self.greeted {
            return 64 - have;
        }
        let Some(flags) = self.bytes.first() else { return 1 };
        let head = if flags & LONG == 0 { 2 } else { 9 };
        let Some(len) = self.bytes.get(1..head) else { return head - have };
        let len = len.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
        head + len - have
    }
}
