//! `kill -9` of either end of shared memory, at any moment: nothing hangs, no message is torn, and all resources are
//! released. The test counts those of its whole process.

use support::child::{self, Child, long};
use support::filler::{Chance, number_of, numbered};
use support::memory::way;
use support::process::{descriptors, mappings_of};
use support::*;

support::alone!(either_end_may_be_killed_at_any_moment; roles streamer, collector);

fn kills() -> u64 {
    if long() { 1_000 } else { 40 }
}

/// Sizes for the ring, for the arena, and too large for either.
fn body_of(number: u64) -> Vec<u8> {
    const SIZES: [usize; 5] = [8, 200, 5_000, 60_000, 300_000];
    let size = if number.is_multiple_of(50) { 3_000_000 } else { SIZES[number as usize % SIZES.len()] };
    numbered(number, size)
}

/// Sends forever.
fn streamer(args: &[String]) {
    let ctx = Context::new();
    let push = ctx.bare_socket(PUSH);
    push.connect(&args[0]).expect("connect");
    for number in 0.. {
        push.put(body_of(number));
    }
}

/// Receives forever, and checks each message.
fn collector(args: &[String]) {
    let ctx = Context::new();
    let pull = ctx.bare_socket(PULL);
    pull.connect(&args[0]).expect("connect");
    let (mut last, mut room) = (None, vec![0; 3_000_000]);
    loop {
        let size = pull.recv_into(&mut room, 0).expect("a message");
        let number = number_of(&room[..size]);
        if last.is_some_and(|last| number <= last) {
            child::say(format!("{number} behind {last:?}"));
        }
        last = Some(number);
    }
}

/// Waits until this process maps no connection memory and has at most `most` descriptors; returns their number. A
/// connection's descriptor may be closed after its memory is unmapped, so a later count may be lower.
#[track_caller]
fn given_back(most: usize) -> usize {
    deadline::until_some("all is given back", || {
        let count = descriptors(std::process::id());
        (mappings_of("/memfd:pinnace") == 0 && count <= most).then_some(count)
    })
}

/// Receives whole messages in order until the killed sender's connection is gone.
fn drain(pull: &Socket, mut next: u64) {
    until("the killed one is gone", || {
        while let Ok(body) = pull.recv(DONTWAIT) {
            assert_eq!(number_of(&body), next, "in order, none missing");
            next += 1;
        }
        pull.peers().is_empty()
    });
}

fn either_end_may_be_killed_at_any_moment() {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH).with(LINGER, 0));
    let (way_in, way_out) = (Transport::Ipc.bind(&pull), Transport::Ipc.bind(&push));
    let mut descriptors = usize::MAX;
    let mut chance = Chance::new();
    let (mut sent, mut switched_runs) = (0, 0);
    for run in 0..kills() {
        let messages = chance.below(200);
        if run % 2 == 0 {
            let mut child = Child::start("streamer", &[&way_in]);
            for number in 0..messages {
                assert_eq!(number_of(&pull.take()), number);
            }
            child.kill();
            drain(&pull, messages);
        } else {
            let mut child = Child::start("collector", &[&way_out]);
            for _ in 0..messages {
                push.put(body_of(sent));
                sent += 1;
            }
            switched_runs += usize::from(way(&push).0 == "memory");
            child.kill();
            until("the killed one is gone", || push.peers().is_empty());
        }
        // Resources that a socket acquires once and keeps (poll sets) exist after some runs of each kind.
        if run % 20 == 19 {
            descriptors = given_back(descriptors);
        }
    }
    given_back(descriptors);
    assert!(switched_runs > 0, "some had switched to memory");
}
