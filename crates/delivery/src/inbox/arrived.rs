//! Received frames, and the messages in them.

use std::sync::Arc;
use std::time::Instant;

use pinnace_engine::{Body, prefetch};

use super::Origin;
use crate::wire::{COST, FrameEntry};

/// Bytes of the next body that are prefetched. Once the program reads them, the processor prefetches the rest itself.
const PREFETCHED: usize = 128;

/// A received frame.
pub struct Frame {
    pub bytes: Body,
    pub origin: Arc<Origin>,
    /// Present if it is of a shared stream.
    pub place: Option<FramePlace>,
}

/// The place of a frame in a shared stream.
#[derive(Debug, Clone, Copy)]
pub struct FramePlace {
    pub generation: u64,
    pub index: u64,
    pub arrived: Instant,
}

/// A message of a frame, or a part of one.
#[derive(Clone)]
pub struct Arrived {
    pub frame: Arc<Frame>,
    pub(super) at: usize,
    pub(super) len: usize,
    /// The number after the previous message's, and its own number.
    pub first: u64,
    pub seq: u64,
    pub accepted_ms: u64,
    pub ttl_ms: Option<u64>,
    pub flags: u8,
}

impl Arrived {
    pub(super) fn new(frame: &Arc<Frame>, entry: &FrameEntry<'_>, first: u64) -> Arrived {
        Arrived {
            frame: frame.clone(),
            at: entry.body.as_ptr() as usize - frame.bytes.as_ptr() as usize,
            len: entry.body.len(),
            first,
            seq: entry.seq,
            accepted_ms: entry.accepted_ms,
            ttl_ms: entry.ttl_ms,
            flags: entry.flags,
        }
    }

    /// Returns true if its time to live is over. `now_ms` is called only if it has one.
    pub fn is_expired(&self, now_ms: impl Fn() -> u64) -> bool {
        self.ttl_ms.is_some_and(|ttl_ms| self.accepted_ms.saturating_add(ttl_ms) <= now_ms())
    }

    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The credit that it costs until it is handled.
    pub fn cost(&self) -> u64 {
        COST + self.len as u64
    }

    /// Prefetches the beginning of its body, which another thread has written.
    pub fn prefetch(&self) {
        prefetch(self.body().as_ptr(), self.len.min(PREFETCHED));
    }

    pub fn body(&self) -> &[u8] {
        &self.frame.bytes[self.at..self.at + self.len]
    }
}
