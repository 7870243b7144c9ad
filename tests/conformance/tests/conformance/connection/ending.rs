//! Termination of a context within a time: it keeps the limit, and its report of leftovers adds up.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use support::peer::{RawListener, RawPeer};
use support::pinnace::{EXPIRED, Leftover, REASONS, UNREAD};
use support::*;

const EMPTY: Leftover =
    Leftover { size: size_of::<Leftover>(), messages: 0, bytes: 0, lost: [0; REASONS], open_sockets: 0 };

over_transports!(
    all_that_is_delivered_leaves_nothing,
    a_socket_that_its_thread_keeps_is_closed;
    wires what_a_peer_does_not_read_is_left, what_nobody_connects_for_is_left,
);

/// The number of whole messages in what a peer has read, and their bytes.
fn whole(mut bytes: &[u8]) -> (u64, u64) {
    let (mut messages, mut sum) = (0, 0);
    while let Some((&flags, rest)) = bytes.split_first() {
        let header = if flags & 2 == 0 { 2 } else { 9 };
        let size = match header {
            2 => rest.first().map(|&size| u64::from(size)),
            _ => rest.get(..8).map(|size| u64::from_be_bytes(size.try_into().expect("eight bytes"))),
        };
        let Some(frame) = size.map(|size| header + size).filter(|&frame| frame <= bytes.len() as u64) else {
            break;
        };
        (messages, sum) = (messages + 1, sum + frame);
        bytes = &bytes[frame as usize..];
    }
    (messages, sum)
}

/// A peer that shakes hands and then reads nothing.
fn deaf(listener: &RawListener) -> RawPeer {
    let mut peer = listener.accept();
    peer.handshake(1, "PULL");
    peer
}

fn what_a_peer_does_not_read_is_left(transport: Transport) {
    for body in [20, 3_000, 200_000] {
        let ctx = Context::new();
        let push = ctx.socket(PUSH).hwm(0).with(LINGER, -1);
        let listener = RawListener::bind(transport);
        push.connect(&listener.endpoint()).expect("connect");
        let mut peer = deaf(&listener);
        // More than the kernels of both sides hold.
        let count = 40_000_000 / body as u64;
        for _ in 0..count {
            push.put(vec![7; body]);
        }
        push.close().expect("close");
        let before = Instant::now();
        let left = ctx.term_within(200).expect("an end");
        assert!((200..5_000).contains(&before.elapsed().as_millis()), "{:?}", before.elapsed());
        let (messages, bytes) = whole(&peer.expect_end());
        let header = if body > 255 { 9 } else { 2 };
        assert!(messages > 0 && left.messages > 0, "{messages} {left:?}");
        assert_eq!(messages + left.messages, count, "{body} bytes over {transport:?}");
        assert_eq!(bytes + left.bytes, count * (body as u64 + header), "{body} bytes over {transport:?}");
        assert_eq!(
            (left.lost[EXPIRED], left.lost.iter().sum(), left.open_sockets),
            (left.messages, left.messages, 0)
        );
    }
}

fn what_nobody_connects_for_is_left(transport: Transport) {
    let ctx = Context::new();
    let (closed, open) = (ctx.socket(PUSH).with(LINGER, -1), ctx.socket(DEALER).with(LINGER, -1));
    for socket in [&closed, &open] {
        socket.connect(&transport.fresh()).expect("connect to nobody");
        (0..10).for_each(|_| socket.tx(&["two", "frames"]));
    }
    closed.close().expect("close");
    let left = ctx.term_within(50).expect("an end");
    assert_eq!((left.messages, left.bytes, left.lost[EXPIRED]), (20, 20 * (5 + 8), 20));
    assert_eq!(left.open_sockets, 1);
}

fn all_that_is_delivered_leaves_nothing(transport: Transport) {
    const COUNT: u64 = 10_000;
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    push.set(LINGER, -1).expect("LINGER");
    let receiver = std::thread::spawn(move || {
        (0..COUNT).for_each(|_| drop(pull.take()));
        pull.close().expect("close");
    });
    for _ in 0..COUNT {
        push.put("delivered");
    }
    push.close().expect("close");
    receiver.join().expect("all came");
    let before = Instant::now();
    assert_eq!(ctx.term_within(60_000), Ok(EMPTY));
    assert!(before.elapsed() < Duration::from_secs(20), "it waits for nothing");
}

/// Waiting threads get an error, and have time to close their sockets.
#[test]
fn a_socket_that_its_thread_closes_in_time_is_not_open() {
    within(60, || {
        let ctx = Context::new();
        let pull = ctx.bare_socket(PULL);
        pull.bind("inproc://closed-in-time").expect("bind");
        let thread = std::thread::spawn(move || {
            assert_eq!(pull.recv(0), Err(Errno(ETERM)));
            pull.close().expect("close");
        });
        let left = ctx.term_within(-1).expect("an end");
        thread.join().expect("closed");
        assert_eq!(left, EMPTY);
    });
}

fn a_socket_that_its_thread_keeps_is_closed(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.bare_socket(PULL), ctx.socket(PUSH).with(LINGER, -1));
    transport.join(&pull, &push);
    (0..5).for_each(|_| push.put("not received"));
    until("it is at the receiver", || pull.stats().received.queued == 5);
    push.close().expect("close");
    let (said, heard) = channel();
    let (done, end) = channel::<()>();
    let thread = std::thread::spawn(move || {
        (0..5).for_each(|_| drop(pull.recv(DONTWAIT)));
        said.send(pull.recv(0)).expect("the test listens");
        end.recv().expect("the context has ended");
        // Its calls fail with ENOTSOCK, and the owner may still close it once.
        assert_eq!(pull.recv(0), Err(Errno(libc::ENOTSOCK)));
        assert_eq!(pull.send("x", 0), Err(Errno(libc::ENOTSOCK)));
        let raw = pull.raw();
        pull.close().expect("its owner's close");
        assert_eq!(Socket::from_raw(raw).close(), Err(Errno(libc::ENOTSOCK)));
    });
    let left = ctx.term_within(100).expect("an end");
    done.send(()).expect("the thread listens");
    let refused = heard.recv().expect("the thread was woken");
    assert!(matches!(refused, Err(Errno(ETERM | libc::ENOTSOCK))), "{refused:?}");
    thread.join().expect("no panic");
    assert_eq!(left.open_sockets, 1);
    // Some may have been received before the shutdown; the others are unread, over every transport.
    assert_eq!((left.messages, left.lost.iter().sum::<u64>()), (0, left.lost[UNREAD]));
}

#[test]
fn unread_messages_are_told_apart_from_unsent_ones() {
    let ctx = Context::new();
    let (pull, push) = Transport::Inproc.pair(&ctx, PULL, PUSH);
    (0..7).for_each(|_| push.put("x"));
    push.close().expect("close");
    let left = ctx.term_within(0).expect("an end");
    assert_eq!((left.messages, left.lost[UNREAD], left.lost.iter().sum()), (0, 7, 7));
    assert_eq!(left.open_sockets, 1);
    pull.close().expect("its owner's close");
}

#[test]
fn no_time_at_all_is_enough() {
    within(60, || {
        let ctx = Context::new();
        let push = ctx.socket(PUSH).with(LINGER, -1);
        push.connect(&Transport::Tcp.fresh()).expect("connect to nobody");
        push.put("lost");
        push.close().expect("close");
        let before = Instant::now();
        let left = ctx.term_within(0).expect("an end");
        assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
        assert_eq!((left.messages, left.bytes), (1, 6));
        assert_eq!(Context::new().term_within(0), Ok(EMPTY), "nothing was ever in it");
    });
}

#[test]
fn the_second_call_finds_no_context() {
    let ctx = Context::new();
    let push = ctx.socket(PUSH);
    let mut left = Leftover { size: 4, ..EMPTY };
    assert_eq!(ctx.try_term_within(0, Some(&mut left)), Err(Errno(libc::EINVAL)));
    push.set(LINGER, 0).expect("nothing has ended");
    push.close().expect("close");
    assert_eq!(ctx.try_term_within(0, None), Ok(()));
    assert_eq!(ctx.try_term_within(0, None), Err(Errno(libc::EFAULT)));
    assert_eq!(ctx.term(), Err(Errno(libc::EFAULT)));
}

/// An older program has a shorter struct: no more is written than its size.
#[test]
fn a_shorter_struct_gets_what_it_has_room_for() {
    let ctx = Context::new();
    let push = ctx.socket(PUSH);
    push.connect(&Transport::Tcp.fresh()).expect("connect to nobody");
    push.put("lost");
    push.close().expect("close");
    let mut left = Leftover { size: 16, bytes: 77, ..EMPTY };
    ctx.try_term_within(0, Some(&mut left)).expect("an end");
    std::mem::forget(ctx);
    assert_eq!((left.messages, left.bytes), (1, 77));
}
