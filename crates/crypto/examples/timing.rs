//! Measures sealing and opening of a CURVE message, with our code and with libsodium's crypto_box_easy_afternm:
//! `cargo run --release -p pinnace-crypto --example timing`.
//!
//! Each figure is the best of several runs, in nanoseconds per message.

use std::hint::black_box;
use std::time::Instant;

use libsodium_sys as ffi;
use pinnace_crypto::{BoxKey, Secret, StreamKey, TAG_LEN};

const RUNS: u32 = 9;
const BYTES_A_RUN: usize = 16 << 20;
const KEY: [u8; 32] = [7; 32];

/// The best time of one call, in nanoseconds.
fn best(messages: usize, mut step: impl FnMut(u64)) -> f64 {
    let mut counter = 0;
    let mut run = || {
        let started = Instant::now();
        for _ in 0..messages {
            counter += 1;
            step(counter);
        }
        started.elapsed().as_nanos() as f64 / messages as f64
    };
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn nonce(counter: u64) -> [u8; 24] {
    let mut nonce = *b"CurveZMQMESSAGEC--------";
    nonce[16..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

fn measure(len: usize) {
    let messages = (BYTES_A_RUN / (len + 200)).max(10);
    let stream = StreamKey::new(&BoxKey::symmetric(Secret::copy_of(&KEY)), b"CurveZMQMESSAGEC");
    let body = vec![1; len];
    let mut out = Vec::new();
    let seal = best(messages, |counter| {
        out.clear();
        let _ = stream.seal(&counter.to_be_bytes(), &[0; 16], 0, black_box(&body), &mut out);
        black_box(&out);
    });

    // The copy restores the sealed bytes; its time is measured separately and subtracted.
    let mut work = out[32..].to_vec();
    let (sealed, tag) = (work.clone(), *out[16..].first_chunk().expect("a tag"));
    let last = (messages as u64 * u64::from(RUNS)).to_be_bytes();
    let copy = best(messages, |_| black_box(&mut work).copy_from_slice(black_box(&sealed)));
    let open = best(messages, |_| {
        work.copy_from_slice(black_box(&sealed));
        stream.open(&last, &tag, &mut work).expect("our own");
        black_box(&work);
    }) - copy;

    let message = vec![1; len + 1];
    let mut boxed = vec![0; TAG_LEN + message.len()];
    let easy_seal = best(messages, |counter| {
        let (nonce, len) = (nonce(counter), message.len() as u64);
        // SAFETY: the lengths are those of the buffers.
        unsafe {
            ffi::crypto_box_easy_afternm(
                boxed.as_mut_ptr(),
                black_box(&message).as_ptr(),
                len,
                nonce.as_ptr(),
                KEY.as_ptr(),
            )
        };
        black_box(&boxed);
    });
    let mut opened = vec![0; message.len()];
    let last = nonce(u64::from_be_bytes(last));
    let easy_open = best(messages, |_| {
        // SAFETY: as above.
        let result = unsafe {
            ffi::crypto_box_open_easy_afternm(
                opened.as_mut_ptr(),
                black_box(&boxed).as_ptr(),
                boxed.len() as u64,
                last.as_ptr(),
                KEY.as_ptr(),
            )
        };
        assert_eq!(result, 0);
        black_box(&opened);
    });
    println!("{len:>7} B   {seal:>9.0} {easy_seal:>9.0}   {open:>9.0} {easy_open:>9.0}");
}

fn main() {
    println!("                seal      easy        open      easy   (ns a message)");
    for len in [0, 64, 256, 1024, 16 * 1024, 100 * 1024] {
        measure(len);
    }
}
