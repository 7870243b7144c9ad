//! Shared memory is created for connections that last, and freed when they are idle. Each test measures its whole
//! process.

use std::time::Duration;

use support::memory::{accepting, connected, switched};
use support::process::{mappings_of, resident_of};
use support::*;

const MEMFD: &str = "/memfd:pinnace";

support::alone!(
    a_connection_that_asks_once_makes_no_memory,
    an_idle_connection_gives_its_memory_back,
    a_sender_that_is_not_rung_yet_sleeps,
    a_close_that_waits_for_its_peer_sleeps
);

fn a_connection_that_asks_once_makes_no_memory() {
    let ctx = Context::new();
    let rep = ctx.socket(REP);
    let endpoint = Transport::Ipc.bind(&rep);
    let mut kept = Vec::new();
    for number in 0..100 {
        let req = ctx.socket(REQ).with(LINGER, 0);
        req.connect(&endpoint).expect("connect");
        req.put(filler::numbered(number, 100));
        rep.put(rep.take());
        assert_eq!(filler::number_of(&req.take()), number);
        assert_eq!(mappings_of(MEMFD), 0, "after {number}");
        if number % 2 == 0 {
            kept.push(req);
        }
    }
    // One that continues to send requests gets its memory: two mappings, at either end.
    let req = &kept[0];
    for number in 0..100 {
        req.put(filler::numbered(number, 100));
        rep.put(rep.take());
        req.take();
    }
    switched(req);
    until("both ends have it", || mappings_of(MEMFD) == 4);
    drop((kept, rep));
    until("it is given back", || mappings_of(MEMFD) == 0);
}

fn an_idle_connection_gives_its_memory_back() {
    let ctx = Context::new();
    let (push, pull) = (ctx.socket(PUSH), ctx.socket(PULL));
    Transport::Ipc.join(&pull, &push);
    for size in [100_000, 20_000, 1_000] {
        for _ in 0..3 {
            // More than the ring and the arena hold, so that all their pages are touched.
            let count = 8_000_000 / size;
            std::thread::scope(|scope| {
                scope.spawn(|| (0..count as u64).for_each(|number| push.put(filler::numbered(number, size))));
                filler::drain(&pull, 0, count as u64);
            });
        }
        let touched = resident_of(MEMFD);
        assert!(touched > 1_000_000, "{touched} bytes are in use while {size} bytes a message stream");
        until("it is given back", || resident_of(MEMFD) < 100_000);
    }
    push.put("still of use");
    pull.expect(&["still of use"]);
}

/// The processor time that this process uses in a second.
fn busy() -> Duration {
    let before = process::cpu_time(process::own());
    deadline::pass(Duration::from_secs(1));
    process::cpu_time(process::own()) - before
}

const IDLE: Duration = Duration::from_millis(50);

/// A peer that has accepted the memory, and then neither announces that it reads there nor takes anything, costs no
/// processor time.
fn a_sender_that_is_not_rung_yet_sleeps() {
    let ctx = Context::new();
    let push = ctx.socket(PUSH).hwm(10).with(LINGER, 1_500);
    let (peer, memory, _theirs) = accepting(&push, "PULL");
    let body = filler::body(1, 100_000);
    until("there is no room", || push.send(&body, DONTWAIT) == Err(Errno(libc::EAGAIN)));
    let open = busy();
    assert!(open < IDLE, "open: {open:?}");
    push.close().expect("close");
    let closing = busy();
    assert!(closing < IDLE, "closing: {closing:?}");
    drop((peer, memory));
}

/// Messages that arrive while a connection closes do not count towards offering memory.
fn a_close_that_waits_for_its_peer_sleeps() {
    let ctx = Context::new();
    let dealer = ctx.socket(DEALER).with(RCVHWM, 1).with(LINGER, 1_500);
    let mut peer = connected(&dealer, "DEALER");
    peer.send(&wire::message(&[b"first"]));
    assert_eq!(dealer.take_text(), "first");
    let body = filler::body(1, 8_000);
    (0..15).for_each(|_| peer.send(&wire::message(&[&body])));
    dealer.put(&body); // The peer reads nothing.
    dealer.close().expect("close");
    let closing = busy();
    assert!(closing < IDLE, "{closing:?}");
    drop(peer);
}
