//! High-water marks: exact over inproc, bounded over wires, 0 for no limit.

use std::sync::atomic::{AtomicBool, Ordering};

use support::filler::{Chance, drain, fill, numbered};
use support::pinnace::SHARED_MEMORY;
use support::*;

over_transports!(
    never_stalls_while_marks_change,
    wakes_a_sender_when_its_mark_is_raised;
    wires stops_within_bounds, has_room_for_both_marks, has_no_mark_at_zero, passes_one_by_one,
    marks_each_peer_by_itself, follows_a_receivers_mark_while_connected
);

fn pipe(transport: Transport, ctx: &Context, send: i32, receive: i32) -> (Socket, Socket) {
    let (pull, push) = (ctx.socket(PULL).with(RCVHWM, receive), ctx.socket(PUSH).with(SNDHWM, send));
    transport.join(&pull, &push);
    (pull, push)
}

/// Over inproc exactly SNDHWM + RCVHWM messages fit. After they were read at least half as many fit, because the
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

/// As above if the connect came first, and if the sender binds.
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

/// Before the bind exactly SNDHWM messages fit into a connecting socket.
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

/// A receiver that does not read stops the sender at the high-water marks plus what the link and the kernel hold.
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

/// However little the kernel takes at once, both high-water marks fit: written messages do not count against the
/// sender's.
fn has_room_for_both_marks(transport: Transport) {
    const MARK: i32 = 500;
    const BOTH: u64 = 2 * MARK as u64;
    for (buffer, size) in [(4_096, 8), (4_096, 1_000), (4_096, 3_000), (4_096, 8_192), (65_536, 300)] {
        for memory in [0, 1] {
            let ctx = Context::new();
            let pull = ctx.socket(PULL).with(RCVHWM, MARK).with(RCVBUF, buffer);
            let push = ctx.socket(PUSH).with(SNDHWM, MARK).with(SNDBUF, buffer);
            for socket in [&pull, &push] {
                // libzmq has no such option.
                let _ = socket.set(SHARED_MEMORY, memory);
            }
            transport.join(&pull, &push);
            (0..BOTH).for_each(|n| push.put(numbered(n, size)));
            drain(&pull, 0, BOTH);
        }
    }
}

fn has_no_mark_at_zero(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = pipe(transport, &ctx, 0, 1);
    for n in 0..5_000 {
        push.send(numbered(n, 4_000), DONTWAIT).expect("no mark");
    }
    drain(&pull, 0, 5_000);
}

/// A high-water mark of 1 on both sides only slows the traffic down.
fn passes_one_by_one(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = pipe(transport, &ctx, 1, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..2_000).for_each(|n| push.put(numbered(n, 300))));
        drain(&pull, 0, 2_000);
    });
}

/// A peer at its high-water mark does not use up another peer's.
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
    // While the second peer's queue fills, the kernel may also take more for the first.
    let (mut of_one, mut of_two) = (Vec::new(), Vec::new());
    until("all have come", || {
        of_one.extend(one.recv(DONTWAIT));
        of_two.extend(two.recv(DONTWAIT));
        (of_one.len() + of_two.len()) as u64 == second
    });
    assert!(of_two.len() >= 10, "{} came to the second", of_two.len());
    let mut wanted = first..first + second;
    let (mut of_one, mut of_two) = (of_one.into_iter().peekable(), of_two.into_iter().peekable());
    assert!(wanted.all(|number| {
        let body = numbered(number, 50_000);
        of_one.next_if_eq(&body).or_else(|| of_two.next_if_eq(&body)).is_some()
    }));
}

/// High-water marks set later take effect at once, on either side and in either direction.
#[test]
fn follows_marks_over_inproc() {
    let ctx = Context::new();
    let (pull, push) = pipe(Transport::Inproc, &ctx, 1, 1);
    assert_eq!(fill(&push, 0, 8), 2);
    pull.set(RCVHWM, 5).expect("RCVHWM");
    assert_eq!(fill(&push, 2, 8), 4, "the receiver's mark is raised");
    push.set(SNDHWM, 10).expect("SNDHWM");
    assert_eq!(fill(&push, 6, 8), 9, "the sender's mark is raised");
    pull.set(RCVHWM, 1).expect("RCVHWM");
    push.set(SNDHWM, 2).expect("SNDHWM");
    assert_eq!(fill(&push, 15, 8), 0, "more is queued than the marks allow now");
    drain(&pull, 0, 13);
    assert_eq!(fill(&push, 15, 8), 1, "room again below the mark");
    drain(&pull, 13, 3);
    let again = fill(&push, 16, 8);
    assert!((2..=3).contains(&again), "{again} messages where 3 fit");
    drain(&pull, 16, again);
    pull.set(RCVHWM, 0).expect("RCVHWM");
    assert_eq!(pull.events(), 0);
    for n in 0..5_000 {
        push.send(numbered(n, 8), DONTWAIT).expect("no mark");
    }
    drain(&pull, 0, 5_000);
}

/// As above if the connect came first: high-water marks set before the bind, and after it.
#[test]
fn follows_marks_over_inproc_whoever_comes_first() {
    let ctx = Context::new();
    let endpoint = Transport::Inproc.fresh();
    let (pull, push) = (ctx.socket(PULL).hwm(1), ctx.socket(PUSH).hwm(1));
    push.connect(&endpoint).expect("connect before bind");
    push.set(SNDHWM, 4).expect("SNDHWM");
    assert_eq!(fill(&push, 0, 8), 4);
    pull.set(RCVHWM, 3).expect("RCVHWM");
    pull.bind(&endpoint).expect("bind");
    assert_eq!(fill(&push, 4, 8), 3);
    pull.set(RCVHWM, 6).expect("RCVHWM");
    assert_eq!(fill(&push, 7, 8), 3);
    drain(&pull, 0, 10);
}

/// An established connection accepts more when its receiver's high-water mark is raised, and less when it is lowered,
/// even below the queue's length. A later connection uses the mark of that time.
fn follows_a_receivers_mark_while_connected(transport: Transport) {
    const SIZE: usize = 100 * 1024;
    /// What the link and the kernel may hold in addition.
    const SLACK: u64 = 2 * 1024 * 1024 / SIZE as u64;
    let ctx = Context::new();
    let pull = ctx.socket(PULL).with(RCVHWM, 10).with(RCVBUF, 65_536);
    let push = ctx.socket(PUSH).with(SNDHWM, 1).with(SNDBUF, 65_536);
    let endpoint = transport.join(&pull, &push);
    let first = fill(&push, 0, SIZE);
    assert!((11..=11 + SLACK).contains(&first), "{first} messages");
    pull.set(RCVHWM, 100).expect("RCVHWM");
    let more = fill(&push, first, SIZE);
    assert!((85..=95).contains(&more), "{more} more where 90 more fit");
    pull.set(RCVHWM, 2).expect("RCVHWM");
    drain(&pull, 0, first + more);
    let last = fill(&push, first + more, SIZE);
    assert!((3..=3 + SLACK).contains(&last), "{last} messages");
    drain(&pull, first + more, last);
    let late = ctx.socket(PUSH).with(SNDHWM, 1).with(SNDBUF, 65_536);
    late.connect(&endpoint).expect("connect");
    let there = fill(&late, 0, SIZE);
    assert!((3..=3 + SLACK).contains(&there), "{there} messages of a late sender");
    drain(&pull, 0, there);
}

/// All messages arrive, whatever the high-water marks are set to meanwhile.
fn never_stalls_while_marks_change(transport: Transport) {
    const MARKS: [i32; 8] = [1, 2, 3, 10, 100, 1000, 5000, 0];
    const COUNT: u64 = 100_000;
    let ctx = Context::new();
    let (pull, push) = pipe(transport, &ctx, 1000, 1000);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..COUNT).for_each(|n| push.put(numbered(n, 40))));
        scope.spawn(|| {
            let mut chance = Chance::new();
            while !done.load(Ordering::Relaxed) {
                let mark = MARKS[chance.below(8) as usize];
                let (socket, option) = if chance.below(2) == 0 { (&push, SNDHWM) } else { (&pull, RCVHWM) };
                socket.set(option, mark).expect("a mark");
                for _ in 0..chance.below(200) {
                    std::thread::yield_now();
                }
            }
        });
        drain(&pull, 0, COUNT);
        done.store(true, Ordering::Relaxed);
    });
}

/// A sender that sleeps at its high-water mark continues when the mark is raised, though nothing was received.
fn wakes_a_sender_when_its_mark_is_raised(transport: Transport) {
    let ctx = Context::new();
    let push = ctx.socket(PUSH).with(SNDHWM, 1);
    push.connect(&transport.fresh()).expect("connect to nobody");
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| (0..5).for_each(|n| push.put(numbered(n, 8))));
        until("the mark is reached", || push.events() & POLLOUT == 0);
        push.set(SNDHWM, 5).expect("SNDHWM");
        sender.join().expect("all five are sent");
    });
}
