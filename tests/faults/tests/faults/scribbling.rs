//! A peer that shares memory and writes anything there while the library reads and writes: it can lose its own
//! connection, and no other peer is affected.

use std::sync::atomic::{AtomicBool, Ordering};

use support::child::long;
use support::filler::{Chance, body};
use support::memory::{ARENA, HEAD, Memory, REPAID, RING, SENT, TAKEN, loan, sharing};
use support::*;

fn peers() -> u64 {
    if long() { 5_000 } else { 100 }
}

/// Numbers near the right one, and far from it.
fn some_number(chance: &mut Chance, right: u64) -> u64 {
    match chance.below(6) {
        0 => u64::MAX - chance.below(3),
        1 => chance.below(1 << 40),
        2 => right.saturating_sub(chance.below(64)),
        3 => right + RING as u64 + chance.below(3),
        _ => right + chance.below(4096),
    }
}

/// A loan that may be valid.
fn some_loan(chance: &mut Chance) -> Vec<u8> {
    let position = chance.below(2 * ARENA as u64);
    let len = if chance.below(4) == 0 { some_number(chance, ARENA as u64) } else { chance.below(9000) };
    loan(chance.below(8) as u8, position, len)
}

/// Bytes that mostly begin like frames.
fn scribble(memory: &Memory, chance: &mut Chance) {
    let mut bytes = Vec::new();
    for _ in 0..chance.below(40) {
        let data = chance.bytes(3);
        match chance.below(6) {
            5 => bytes.extend(some_loan(chance)),
            0 => bytes.extend(wire::message(&[&data])),
            1 => bytes.extend(wire::message(&[&data, &data])),
            2 => bytes.extend(wire::long_header(2, chance.below(1 << 20))),
            3 => bytes.extend(wire::command("PING", &data)),
            _ => bytes.extend(data),
        }
    }
    memory.write(&bytes);
}

#[test]
fn a_peer_that_scribbles_costs_nobody_else_anything() {
    let ctx = Context::new();
    let (one, other) = (ctx.socket(PAIR), ctx.socket(PAIR));
    Transport::Ipc.join(&one, &other);
    let mut chance = Chance::new();
    for number in 0..peers() {
        let dealer = ctx.socket(DEALER).hwm(100).with(LINGER, 0);
        let (mut peer, memory) = sharing(&dealer, "DEALER");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (bytes, memory, over) = (chance.bytes(64), &memory, &over);
            scope.spawn(move || {
                // Changes the bytes while the library reads them.
                for &at in bytes.iter().cycle() {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    memory.set(HEAD + 8 * at as usize, u64::from(at) * 0x0101_0101_0101);
                    memory.set(HEAD + RING + 1024 * at as usize, u64::from(at) * 0x0101_0101_0101);
                    std::thread::yield_now();
                }
            });
            let mut sent = 0;
            for _ in 0..1 + chance.below(20) {
                scribble(memory, &mut chance);
                sent = some_number(&mut chance, sent);
                memory.set(SENT, sent);
                if chance.below(3) == 0 {
                    memory.set(TAKEN, some_number(&mut chance, 0));
                }
                if chance.below(3) == 0 {
                    memory.set(REPAID, some_number(&mut chance, 0));
                }
                if peer.try_send(b"!").is_err() {
                    break;
                }
                while dealer.recv_parts(DONTWAIT).is_ok() {}
                let _ = dealer.send(body(number, 1 + chance.below(100_000) as usize), DONTWAIT);
            }
            over.store(true, Ordering::Relaxed);
        });
        let text = format!("well after {number}");
        one.put(&text);
        assert_eq!(other.take_text(), text);
    }
}
