//! High-water marks: exact over inproc, bounded over wires, 0 for none.

use support::filler::{drain, fill, numbered};
use support::*;

over_wires!(stops_within_bounds, has_no_mark_at_zero, passes_one_by_one, marks_each_peer_by_itself);

fn pipe(transport: Transport, ctx: &Context, send: i32, receive: i32) -> (Socket, Socket) {
    let (pull, push) = (ctx.socket(PULL).with(RCVHWM, receive), ctx.socket(PUSH).with(SNDHWM, send));
    transport.join(&pull, &push);
    (pull, push)
}

/// Over inproc exactly SNDHWM + RCVHWM messages fit; after they were read at least half as many, for the
/// sender may learn late what was read.
#[test]
fn is_exact_over_inproc() {
    for (send, receive) in [(1, 1), (1, 5), (7, 3), (100, 1), (1000, 1000)] {
        let ctx = Context::new();
        let (pull, push) = pipe(Transport::Inproc, &ctx, send, receive);
        let sum = (send + receive) as u64;
        assert_eq!(fill(&push, 0, 8), sum, "marks {send} and {receive}");
        drain(&pull, 0, sum);
        let again = fill(&push, sum, 8);
        assert!((sum / 2..=sum).contains(&again), "marks {send} and {receive}: {again}");
        drain(&pull, sum, again);
    }
}

/// The same when the connect came first, and when the sender is the one that binds.
#[test]
fn is_exact_over_inproc_whoever_comes_first() {
    let ctx = Context::new();
    let endpoint = Transport::Inproc.fresh();
    let (pull, push) = (ctx.socket(PULL).hwm(3), ctx.socket(PUSH).hwm(4));
    push.connect(&endpoint).expect("connect before bind");
    pull.bind(&endpoint).expect("bind");
    assert_eq!(fill(&push, 0, 8), 7);
    drain(&pull, 0, 7);
    let (pull, push) = (ctx.socket(PULL).hwm(5), ctx.socket(PUSH).hwm(6));
    Transport::Inproc.join(&push, &pull);
    assert_eq!(fill(&push, 0, 8), 11);
    drain(&pull, 0, 11);
}

#[test]
fn has_no_mark_over_inproc_when_one_side_is_zero() {
    for (send, receive) in [(0, 0), (0, 5), (5, 0)] {
        let ctx = Context::new();
        let (pull, push) = pipe(Transport::Inproc, &ctx, send, receive);
        for n in 0..20_000 {
            push.send(numbered(n, 8), DONTWAIT).expect("no mark");
        }
        drain(&pull, 0, 20_000);
    }
}

/// Before anybody listens exactly SNDHWM messages fit into a connecting socket.
#[test]
fn is_exact_before_the_connection() {
    within(60, || {
        for transport in Transport::WIRES {
            let ctx = Context::new();
            let push = ctx.socket(PUSH).with(SNDHWM, 6).with(RECONNECT_IVL, 10);
            let endpoint = transport.fresh();
            push.connect(&endpoint).expect("connect before bind");
            assert_eq!(fill(&push, 0, 8), 6);
            let pull = ctx.socket(PULL);
            pull.bind(&endpoint).expect("bind");
            drain(&pull, 0, 6);
        }
    });
}

/// With a receiver that does not read, a sender is stopped: the marks, and what the link and the kernel hold.
fn stops_within_bounds(transport: Transport) {
    const SIZE: usize = 100 * 1024;
    const SLACK: u64 = 2 * 1024 * 1024;
    let ctx = Context::new();
    let pull = ctx.socket(PULL).hwm(10).with(RCVBUF, 65_536);
    let push = ctx.socket(PUSH).hwm(10).with(SNDBUF, 65_536);
    transport.join(&pull, &push);
    let count = fill(&push, 0, SIZE);
    let most = 20 + SLACK / SIZE as u64;
    assert!((20..=most).contains(&count), "{count} messages, expected 20 to {most}");
    drain(&pull, 0, count);
}

fn has_no_mark_at_zero(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = pipe(transport, &ctx, 0, 1);
    for n in 0..5_000 {
        push.send(numbered(n, 4_000), DONTWAIT).expect("no mark");
    }
    drain(&pull, 0, 5_000);
}

/// A mark of 1 on both sides slows down and nothing else.
fn passes_one_by_one(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = pipe(transport, &ctx, 1, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..2_000).for_each(|n| push.put(numbered(n, 300))));
        drain(&pull, 0, 2_000);
    });
}

/// A peer at its mark does not use up another's.
fn marks_each_peer_by_itself(transport: Transport) {
    let ctx = Context::new();
    let push = ctx.socket(PUSH).hwm(5);
    let (one, two) = (ctx.socket(PULL).hwm(5), ctx.socket(PULL).hwm(5));
    transport.join(&one, &push);
    let first = fill(&push, 0, 50_000);
    transport.join(&two, &push);
    let second = fill(&push, first, 50_000);
    assert!(second >= 10, "the second peer has marks of its own: {second}");
    drain(&one, 0, first);
    drain(&two, first, second);
}
