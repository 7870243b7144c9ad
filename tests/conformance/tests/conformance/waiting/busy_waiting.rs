//! Over ipc a waiting caller spins on the memory for a while, and its peer sends no wake-up. Whatever the caller does
//! afterwards, it misses nothing.

use std::time::{Duration, Instant};

use support::deadline::PATIENCE_MS;
use support::poller::Poller;
use support::process::thread_time;
use support::*;

/// A pair; the first socket has just received while spinning, for up to `busy_us`.
fn just_received(ctx: &Context, busy_us: i32) -> (Socket, Socket) {
    let (one, other) = (ctx.socket(PAIR), ctx.socket(PAIR));
    one.set(BUSY_POLL, busy_us).expect("BUSY_POLL");
    other.set(HEARTBEAT_IVL, 50).expect("HEARTBEAT_IVL");
    other.set(HEARTBEAT_TIMEOUT, 500).expect("HEARTBEAT_TIMEOUT");
    Transport::Ipc.join(&one, &other);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..100 {
                other.put(number.to_string());
                assert_eq!(other.take_text(), number.to_string());
            }
        });
        for number in 0..100 {
            assert_eq!(one.take_text(), number.to_string());
            one.put(number.to_string());
        }
    });
    (one, other)
}

/// A way to check the socket; returns true if it sees a message.
type Look = fn(&Socket) -> bool;

fn with_a_poller(socket: &Socket) -> bool {
    let poller = Poller::new().expect("a poller");
    poller.add(socket, 1, POLLIN).expect("a socket");
    poller.wait(PATIENCE_MS.into()) == Ok((1, POLLIN))
}

const LOOKS: [(&str, Look); 6] = [
    ("zmq_poll", |socket| poll::ready(socket, POLLIN, PATIENCE_MS.into()) == POLLIN),
    ("ZMQ_EVENTS", |socket| {
        until("an event", || socket.events() & POLLIN != 0);
        true
    }),
    ("ZMQ_DONTWAIT", |socket| {
        until("a message", || socket.recv(DONTWAIT).is_ok());
        true
    }),
    ("ZMQ_FD", |socket| {
        let fd = socket.get(FD).expect("FD");
        until("an event", || poll::fd_readable(fd, PATIENCE_MS) && socket.events() & POLLIN != 0);
        true
    }),
    ("a poller", with_a_poller),
    ("zmq_recv", |socket| socket.recv(0).is_ok()),
];

#[test]
fn nothing_is_missed_by_who_looks_in_another_way_next() {
    let ctx = Context::new();
    for busy_us in [2000, 0, -1] {
        for (name, look) in LOOKS {
            let (one, other) = just_received(&ctx, busy_us);
            other.put("next");
            assert!(look(&one), "{name}, {busy_us}");
            // And by a caller that already waits.
            let (one, other) = just_received(&ctx, busy_us);
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(look(&one), "{name}, {busy_us}"));
                deadline::pass(Duration::from_millis(5));
                other.put("next");
            });
        }
    }
}

#[test]
fn a_peer_is_answered_while_nobody_looks() {
    let ctx = Context::new();
    let (one, other) = just_received(&ctx, 2000);
    // If no thread read the PINGs, the connection would end after half a second.
    deadline::pass(Duration::from_millis(1500));
    for socket in [&one, &other] {
        let peers = socket.peers();
        assert_eq!(peers.len(), 1);
        assert_eq!(peers[0].reconnects, 0, "no connection was lost");
    }
    other.put("still there");
    assert_eq!(one.take_text(), "still there");
}

#[test]
fn a_deadline_is_kept_and_waiting_in_vain_costs_little() {
    let ctx = Context::new();
    let (one, _other) = just_received(&ctx, 0);
    one.set(RCVTIMEO, 100).expect("RCVTIMEO");
    let (began, before) = (Instant::now(), thread_time());
    for _ in 0..10 {
        assert_eq!(one.recv(0), Err(Errno(libc::EAGAIN)));
    }
    assert!(began.elapsed() >= Duration::from_secs(1));
    let used = thread_time() - before;
    assert!(used < Duration::from_millis(100), "{used:?} for a second of waiting");
    let (one, _other) = just_received(&ctx, 50_000);
    one.set(RCVTIMEO, 10).expect("RCVTIMEO");
    let before = thread_time();
    assert_eq!(one.recv(0), Err(Errno(libc::EAGAIN)));
    assert!(thread_time() - before < Duration::from_millis(40), "not as long as it might look");
}
