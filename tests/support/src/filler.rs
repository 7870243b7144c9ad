//! Bodies in which every byte can be checked, and ways to fill a pipe to its high-water mark.

use std::time::{Duration, Instant};

use crate::consts::*;
use crate::{Errno, Socket, deadline};

/// A body of `size` bytes that depends on `seed` and on the position.
pub fn body(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// A body that starts with its number.
pub fn numbered(number: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size.max(8)];
    renumber(&mut bytes, number);
    bytes
}

/// Writes another number into a body of the same size.
pub fn renumber(bytes: &mut [u8], number: u64) {
    bytes.fill((number % 251) as u8);
    bytes[..8].copy_from_slice(&number.to_le_bytes());
}

/// The number of a body made by [`numbered`]; panics if the body is torn.
#[track_caller]
pub fn number_of(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().expect("at least 8 bytes"));
    let filler = (number % 251) as u8;
    assert!(bytes[8..].iter().all(|byte| *byte == filler), "message {number} is torn");
    number
}

/// Sends numbered bodies from `first` on until the socket has accepted none for 200 ms; returns how many it accepted.
#[track_caller]
pub fn fill(socket: &Socket, first: u64, size: usize) -> u64 {
    let (mut count, mut since) = (0, Instant::now());
    // One buffer for all, because callers that measure memory must not see it grow.
    let mut bytes = vec![0; size.max(8)];
    loop {
        renumber(&mut bytes, first + count);
        match socket.send(&bytes, DONTWAIT) {
            Ok(_) => (count, since) = (count + 1, Instant::now()),
            // A separate wait, because PUB is always ready to send.
            Err(Errno(libc::EAGAIN)) if since.elapsed() < Duration::from_millis(200) => {
                deadline::pass(Duration::from_millis(5));
            }
            Err(Errno(libc::EAGAIN)) => return count,
            Err(error) => panic!("send: {error:?}"),
        }
        assert!(count < 10_000_000, "the socket takes messages without end");
    }
}

/// Receives numbered bodies `first..first + count` in order.
#[track_caller]
pub fn drain(socket: &Socket, first: u64, count: u64) {
    for number in first..first + count {
        assert_eq!(number_of(&socket.take()), number, "in order");
    }
}

/// Random numbers; the seed is printed, and the harness shows it if the test fails.
pub struct Chance(u64);

impl Chance {
    pub fn new() -> Chance {
        use std::hash::{BuildHasher, Hasher};
        let seed = std::hash::RandomState::new().build_hasher().finish() | 1;
        println!("seed {seed}");
        Chance(seed)
    }

    /// Numbers from a fixed seed.
    pub fn of(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

impl Default for Chance {
    fn default() -> Chance {
        Chance::new()
    }
}
