//! Memory of a queue and an intake: bounded by what was put in, and returned afterwards.

#[path = "ring/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::encode;
use common::peer::{Way, on_command, put};
use pinnace_ring::{INLINE_MAX, Intake, Limits, MORE, queue};
use proptest::prelude::*;

/// Counts the bytes that this thread has allocated and not freed.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn held() -> isize {
    HELD.get()
}

// SAFETY: delegates to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get() + layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get() + layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NO_LIMIT: Limits = Limits { messages: 0, ahead_bytes: 0 };
/// The segment in use and the one before, both of the largest size, and four spares.
const SEGMENTS: isize = 6 * 256 * 1024;

proptest! {
    #![proptest_config(common::config(64))]

    /// Nothing is read out. No frame is large enough to come from the pool, which all tests share.
    #[test]
    fn what_an_intake_holds_is_bounded_by_what_it_was_fed(
        frames in prop::collection::vec((0usize..INLINE_MAX, any::<bool>(), 0u8..4), 1..10),
        rounds in 1usize..20,
        piece in prop_oneof![1usize..40, 1usize..5000, 1usize..300_000],
        way in prop_oneof![Just(Way::Feed), Just(Way::Read)],
    ) {
        let mut round = Vec::new();
        for (len, more, kind) in &frames {
            let shorter = len >> (4 * kind.saturating_sub(1));
            let (flags, len) = if *kind == 0 { (4, *len) } else { (u8::from(*more), shorter) };
            encode(flags, &vec![b'D'; len], &mut round);
        }
        let before = held();
        let (tx, rx) = queue(NO_LIMIT);
        let mut intake = Intake::new(tx, INLINE_MAX as u64);
        let mut fed = 0;
        let most = if piece < 40 { 1 } else { rounds };
        for _ in 0..most {
            let mut at = 0;
            while at < round.len() {
                let bytes = put(&mut intake, &round[at..round.len().min(at + piece)], way);
                (at, fed) = (at + bytes, fed + bytes as isize);
                let _ = intake.parse(on_command).unwrap();
                let holds = held() - before;
                prop_assert!(holds <= 3 * fed + SEGMENTS / 2, "{holds} bytes for {fed}");
            }
        }
        drop(intake);
        drop(rx);
        prop_assert_eq!(held(), before);
    }
}

#[test]
fn commands_and_repeated_beginnings_hold_nothing() {
    let before = held();
    let (tx, _rx) = queue(NO_LIMIT);
    let mut intake = Intake::new(tx, 1000);
    let mut wire = Vec::new();
    encode(4, &[b'D'; 300], &mut wire);
    for _ in 0..10_000 {
        intake.feed(&wire).unwrap();
        assert!(intake.parse(on_command).is_ok());
    }
    let mut tx = intake.into_queue();
    for _ in 0..1000 {
        // A peer that disconnects within a message of many frames, and reconnects.
        let mut intake = Intake::new(tx, 1000);
        for _ in 0..5 {
            intake.feed(&[MORE, 200]).unwrap();
            intake.feed(&[0; 200]).unwrap();
            assert!(intake.parse(on_command).is_ok());
        }
        intake.feed(b"\0\x0acut").unwrap();
        assert!(intake.parse(on_command).is_ok());
        tx = intake.into_queue();
    }
    let holds = held() - before;
    assert!(holds < 20_000, "{holds} bytes");
}

#[test]
fn what_was_consumed_is_handed_back() {
    let before = held();
    let (mut tx, mut rx) = queue(NO_LIMIT);
    assert!(held() - before < 2000, "a queue costs {} bytes before its first message", held() - before);
    tx.push(0, b"first").unwrap();
    tx.commit();
    assert!(held() - before < 4000, "and {} with it", held() - before);
    for _ in 0..20_000 {
        tx.push(0, &[1; 1000]).unwrap();
        tx.commit_quietly();
    }
    let full = held() - before;
    assert!(full < 22 << 20, "{full} bytes for 20 MB");
    while rx.pop(|_| ()).is_some() {}
    assert!(held() - before <= SEGMENTS, "{} bytes for nothing", held() - before);
    assert!(tx.shrink(&mut rx));
    assert!(held() - before < 4000, "{} bytes for nothing, shrunk", held() - before);
    for _ in 0..1000 {
        // A queue that stays short does not grow.
        tx.push(0, &[1; 100]).unwrap();
        tx.commit_quietly();
        rx.pop(|_| ()).unwrap();
    }
    tx.push(0, b"one").unwrap();
    tx.commit_quietly();
    assert!(!tx.shrink(&mut rx), "there is something in it");
    rx.pop(|_| ()).unwrap();
    for _ in 0..10_000 {
        tx.push(0, &[1; 100]).unwrap();
        tx.commit_quietly();
        rx.pop(|_| ()).unwrap();
    }
    assert!(held() - before < 4000 + 2 * 2048, "{} bytes for one message", held() - before);
    drop((tx, rx));
    assert_eq!(held(), before);
}

/// Regression: each byte near a frame's end took a segment of its own, 16 MB for one frame of 32 KiB.
#[test]
fn a_frame_that_comes_in_byte_by_byte_takes_few_segments() {
    for len in [1500, 1990, 2000, 8343, INLINE_MAX] {
        let before = held();
        let (tx, _rx) = queue(NO_LIMIT);
        let mut intake = Intake::new(tx, INLINE_MAX as u64);
        let mut wire = Vec::with_capacity(len + 9);
        encode(0, &vec![1; len], &mut wire);
        for byte in &wire[..wire.len() - 1] {
            intake.feed(std::slice::from_ref(byte)).unwrap();
            assert!(intake.parse(on_command).is_ok());
        }
        let holds = held() - before - wire.capacity() as isize;
        assert!(holds < 3 * len as isize + 4096, "{holds} bytes for {len}");
    }
}
