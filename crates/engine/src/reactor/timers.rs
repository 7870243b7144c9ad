//! Timers of the reactor: at most one per token.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Instant;

#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u64)>>,
    /// The time that counts for each token; other heap entries are stale.
    current: HashMap<u64, Instant>,
}

impl Timers {
    pub(super) fn set(&mut self, token: u64, at: Instant) {
        self.current.insert(token, at);
        self.heap.push(Reverse((at, token)));
    }

    pub(super) fn clear(&mut self, token: u64) {
        self.current.remove(&token);
    }

    /// The earliest time of any timer.
    pub(super) fn next(&mut self) -> Option<Instant> {
        while let Some(&Reverse((at, token))) = self.heap.peek() {
            if self.current.get(&token) == Some(&at) {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    /// The next token that is due; clears its timer.
    pub(super) fn due(&mut self, now: Instant) -> Option<u64> {
        while let Some(&Reverse((at, token))) = self.heap.peek() {
            if at > now {
                return None;
            }
            self.heap.pop();
            if self.current.get(&token) == Some(&at) {
                self.current.remove(&token);
                return Some(token);
            }
        }
        None
    }
}
