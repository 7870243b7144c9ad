//! A thread that waits for a peer's writes to shared memory is woken, in each of the possible ways, and also by every
//! other event. A peer that wakes it endlessly for nothing loses its connection.

use support::deadline::until_some;
use support::memory::{ARMED, AT_BELL, BELL, SENT, TAKEN, sharing, sharing_both};
use support::*;

/// Waits several times: a socket has no doorbell after its first wait.
fn has_waited(socket: &Socket) {
    let patience = socket.get(RCVTIMEO).expect("the option");
    socket.set(RCVTIMEO, 1).expect("the option");
    (0..5).for_each(|_| assert_eq!(socket.recv(0), Err(Errno(libc::EAGAIN))));
    socket.set(RCVTIMEO, patience).expect("the option");
}

/// The kernel then holds few of the bytes that wake the peer.
#[test]
fn with_the_smallest_buffers_who_sleeps_is_woken() {
    let ctx = Context::new();
    let small = |kind| ctx.socket(kind).with(SNDBUF, 1).with(BUSY_POLL, -1);
    let (push, pull) = (small(PUSH), small(PULL));
    Transport::Ipc.join(&pull, &push);
    std::thread::scope(|scope| {
        let (told, received) = std::sync::mpsc::channel();
        let pull = &pull;
        scope.spawn(move || {
            for number in 0..3_000 {
                assert_eq!(pull.take(), filler::body(number, 8));
                told.send(number).expect("the sender waits");
            }
        });
        for number in 0..3_000 {
            push.put(filler::body(number, 8));
            assert_eq!(received.recv(), Ok(number));
        }
    });
    // And a sender that waits for room, repeatedly.
    std::thread::scope(|scope| {
        scope.spawn(|| (0..40).for_each(|number| push.put(filler::body(number, 3 << 20))));
        (0..40).for_each(|number| assert!(pull.take() == filler::body(number, 3 << 20), "{number}"));
    });
}

#[test]
fn who_floods_the_socket_loses_the_connection() {
    let ctx = Context::new();
    // It sleeps until it is woken for each message.
    let pull = ctx.socket(PULL).with(BUSY_POLL, -1).with(RCVTIMEO, 50);
    let (mut peer, memory) = sharing(&pull, "PUSH");
    // More wake bytes than are allowed, and fewer than the socket holds: detected after some wake-ups.
    let (message, rounds) = (wire::message(&[b"one"]), 64);
    memory.write(&message.repeat(rounds));
    peer.send(&[b'!'; 64 * 1024]);
    for round in 1..=rounds {
        memory.set(SENT, (round * message.len()) as u64);
        let is_cut_off = peer.try_send(b"!").is_err();
        let _ = pull.recv(0); // Fails once the connection has ended.
        if is_cut_off {
            break;
        }
    }
    // The connection stays until what the peer has sent was received.
    until("it is gone", || pull.recv(DONTWAIT).is_err() && pull.peers().is_empty());
}

/// The caller has poll ownership, and spins on the memory for ten seconds unless another event arrives.
#[test]
fn who_looks_for_long_does_what_else_there_is() {
    let ctx = Context::new();
    let (busy, other) = (ctx.socket(DEALER).with(BUSY_POLL, 10_000_000), ctx.socket(DEALER));
    Transport::Ipc.join(&other, &busy);
    let soon = |began: std::time::Instant| began.elapsed() < std::time::Duration::from_secs(8);
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            other.take(); // Larger than the memory between the two.
            other.put("an answer");
        });
        busy.put(filler::body(1, 20 << 20));
        busy.expect(&["an answer"]);
    });
    assert!(soon(began), "{:?}", began.elapsed());
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            until("it looks", || began.elapsed() > std::time::Duration::from_millis(50));
            ctx.shutdown().expect("shut down");
        });
        assert_eq!(busy.recv(0), Err(Errno(ETERM)));
    });
    assert!(soon(began), "{:?}", began.elapsed());
}

#[test]
fn who_sleeps_is_woken_by_its_bell_or_by_the_socket_or_by_other_news() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL).with(BUSY_POLL, -1); // It does not spin before it sleeps.
    let (mut peer, memory, theirs) = sharing_both(&pull, "PUSH");
    has_waited(&pull);
    let (first, all) =
        (wire::message(&[b"one"]), [wire::message(&[b"one"]), wire::message(&[b"two"])].concat());
    memory.write(&all);
    let mut wait_before = theirs.get(ARMED);
    let mut receives = |what: &'static str, then: &mut dyn FnMut()| {
        std::thread::scope(|scope| {
            scope.spawn(|| pull.expect(&[what]));
            let armed = || theirs.get(ARMED);
            until("it sleeps", || armed() & AT_BELL == AT_BELL && armed() != wait_before);
            wait_before = armed();
            then();
        });
    };
    receives("one", &mut || {
        memory.set(SENT, first.len() as u64);
        until("it is woken", || theirs.wake(BELL));
    });
    receives("two", &mut || {
        memory.set(SENT, all.len() as u64);
        peer.send(b"!"); // As a peer does that found no sleeper.
    });
    let mut next = None;
    receives("three", &mut || {
        peer.hang_up();
        let push = ctx.socket(PUSH);
        push.connect(&pull.endpoint()).expect("connect");
        push.put("three");
        next = Some(push);
    });
    assert_eq!(peer.expect_end(), b"", "nothing was written to it");
}

#[test]
fn who_is_not_asleep_at_its_bell_yet_is_told_by_the_socket() {
    let ctx = Context::new();
    let push = ctx.socket(PUSH);
    let (mut peer, memory, theirs) = sharing_both(&push, "PULL");
    for wait in 1..=3 {
        memory.set(ARMED, wait << 2 | u64::from(AT_BELL));
        push.put("a message");
        assert_eq!(peer.read(1).len(), 1);
        let sent = wait as u32 * wire::message(&[b"a message"]).len() as u32;
        assert_eq!(theirs.get(SENT), sent, "it is there before that");
        memory.set(TAKEN, sent.into());
    }
}

/// The I/O thread has read the half, and has no whole message yet to wake the caller for.
#[test]
fn who_sleeps_by_its_bell_over_half_a_message_is_woken_for_the_rest() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL).with(BUSY_POLL, -1);
    let (mut peer, memory, theirs) = sharing_both(&pull, "PUSH");
    has_waited(&pull);
    let message = wire::message(&[b"in two halves"]);
    memory.write(&message);
    let armed = || theirs.get(ARMED);
    std::thread::scope(|scope| {
        scope.spawn(|| pull.expect(&["in two halves"]));
        until("it sleeps", || armed() & AT_BELL == AT_BELL);
        let asleep = armed();
        memory.set(SENT, message.len() as u64 / 2);
        peer.send(b"!"); // As a peer does that found no sleeper.
        until("the socket is to be rung for more", || armed() != asleep && armed() & AT_BELL == 1);
        memory.set(SENT, message.len() as u64);
        peer.send(b"!");
    });
}

#[test]
fn who_has_slept_by_its_bell_in_vain_is_told_by_the_socket_afterwards() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL).with(BUSY_POLL, -1);
    let (mut peer, memory, theirs) = sharing_both(&pull, "PUSH");
    has_waited(&pull);
    let message = wire::message(&[b"one"]);
    memory.write(&message.repeat(2));
    let at_bell = || Some(theirs.get(ARMED)).filter(|armed| armed & AT_BELL == AT_BELL);
    let mut wait = None;
    std::thread::scope(|scope| {
        scope.spawn(|| pull.expect(&["one"]));
        wait = Some(until_some("it sleeps", at_bell));
        memory.set(SENT, message.len() as u64);
        until("it is woken", || theirs.wake(BELL));
    });
    pull.set(RCVTIMEO, 200).expect("the option");
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(pull.recv(0), Err(Errno(libc::EAGAIN))));
        until_some("it sleeps again", || at_bell().filter(|armed| Some(*armed) != wait));
        assert_eq!(pull.events(), 0); // Meanwhile another thread asks the peer to wake through the socket.
    });
    until("the socket is to be rung", || theirs.get(ARMED) & AT_BELL == 1);
    memory.set(SENT, 2 * message.len() as u64);
    peer.send(b"!");
    until("it is readable", || pull.events() == POLLIN);
    pull.expect(&["one"]);
}
