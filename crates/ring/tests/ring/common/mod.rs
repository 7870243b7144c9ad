//! Helpers of the ring's tests: counted bodies, and a kernel that takes a given number of bytes.
#![allow(dead_code)] // Each test binary uses a part.

pub mod peer;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pinnace_ring::{Body, Consumer, INLINE_MAX};
use proptest::prelude::*;

/// Makes bodies and counts those that are alive. Panics if one is freed twice.
#[derive(Clone, Default)]
pub struct Counted(Arc<AtomicUsize>);

struct Owner {
    bytes: Box<[u8]>,
    alive: Arc<AtomicUsize>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let before = self.alive.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "a body was freed twice");
        self.bytes.fill(0xdd);
    }
}

impl Counted {
    /// A body of `len` pattern bytes.
    pub fn body(&self, len: usize) -> Body {
        self.body_of(pattern(len, len as u64))
    }

    /// A body of `bytes`.
    pub fn body_of(&self, bytes: Vec<u8>) -> Body {
        self.0.fetch_add(1, Ordering::SeqCst);
        let mut owner = Owner { bytes: bytes.into_boxed_slice(), alive: self.0.clone() };
        let (ptr, len) = (owner.bytes.as_mut_ptr(), owner.bytes.len());
        // SAFETY: the owner keeps the bytes on the heap, at the same address, until it is dropped.
        unsafe { Body::foreign(ptr, len, Box::new(owner)) }
    }

    /// Bodies that are not freed yet.
    pub fn alive(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Bytes that differ from frame to frame.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

/// The number of cases: fewer under miri, where each is slow; as PROPTEST_CASES says, if set.
pub fn config(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = if cfg!(miri) { 4 } else { asked.unwrap_or(usual) };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Lengths of frames, mostly near the limits of the encoding, of segments and of copied bodies.
pub fn frame_size() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 0usize..20,
        4 => 250usize..260,
        4 => 20usize..700,
        2 => 1950usize..2060,
        1 => 4000usize..8300,
        1 => INLINE_MAX - 12..INLINE_MAX + 12,
    ]
}

/// Size on the wire of a frame with a body of `len` bytes.
pub fn wire_len(len: usize) -> usize {
    len + if len < 256 { 2 } else { 9 }
}

/// A frame as ZMTP 3 encodes it.
pub fn encode(flags: u8, data: &[u8], wire: &mut Vec<u8>) {
    if data.len() < 256 {
        wire.extend_from_slice(&[flags, data.len() as u8]);
    } else {
        wire.push(flags | 2);
        wire.extend_from_slice(&(data.len() as u64).to_be_bytes());
    }
    wire.extend_from_slice(data);
}

/// Pops all available frames.
pub fn drain(rx: &mut Consumer) -> Vec<(u8, Vec<u8>)> {
    std::iter::from_fn(|| rx.pop(|frame| (frame.flags(), frame.data().to_vec()))).collect()
}

/// One write to a kernel that takes `most` bytes; returns what it took.
pub fn write(rx: &mut Consumer, most: usize) -> Vec<u8> {
    let mut done = Vec::new();
    rx.write_with(&mut done, |slices, bytes| {
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        assert_eq!(all.len(), bytes);
        let taken = most.min(bytes);
        (taken, all[..taken].to_vec())
    })
    .unwrap_or_default()
}
