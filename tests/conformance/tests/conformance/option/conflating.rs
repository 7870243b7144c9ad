//! CONFLATE: only the newest message in the queue is kept.

use support::child;
use support::filler::{number_of, numbered};
use support::peer::{RawListener, RawPeer};
use support::pinnace::CONFLATED;
use support::*;

support::roles!(send_past_a_stalled_peer);

over_transports!(
    keeps_the_newest_for_a_late_receiver,
    conflates_dealers_both_ways,
    publishes_the_newest,
    keeps_what_one_brought_who_has_left,
    counts_what_it_replaces;
    wires
    keeps_the_newest_for_a_peer_that_comes_late,
    never_waits_for_a_stalled_peer,
);

/// Receives until `last`; checks that the numbers increase. Returns how many arrived.
#[track_caller]
fn take_until(socket: &Socket, last: u64) -> usize {
    let (mut count, mut next) = (0, 0);
    while next <= last {
        let number = number_of(&socket.take());
        assert!(number >= next, "{number} came after {next}");
        (count, next) = (count + 1, number + 1);
    }
    count
}

fn keeps_the_newest_for_a_late_receiver(transport: Transport) {
    let ctx = Context::new();
    let (push, pull) = (ctx.socket(PUSH).with(CONFLATE, 1), ctx.socket(PULL).with(CONFLATE, 1));
    transport.join(&pull, &push);
    for n in 0..10_000 {
        push.put(numbered(n, 100));
    }
    let count = take_until(&pull, 9_999);
    assert!(count < 5_000, "nothing was conflated: {count}");
    pull.expect_nothing();
}

/// One message waits for the connection.
fn keeps_the_newest_for_a_peer_that_comes_late(transport: Transport) {
    let ctx = Context::new();
    let push = ctx.socket(PUSH).with(CONFLATE, 1).with(RECONNECT_IVL, 10).hwm(5);
    let endpoint = transport.fresh();
    push.connect(&endpoint).expect("connect");
    for n in 0..1_000 {
        push.put(numbered(n, 100));
    }
    let pull = ctx.socket(PULL);
    pull.bind(&endpoint).expect("bind");
    assert_eq!(number_of(&pull.take()), 999);
    pull.expect_nothing();
    push.put(numbered(1_000, 100));
    assert_eq!(number_of(&pull.take()), 1_000);
}

fn conflates_dealers_both_ways(transport: Transport) {
    let ctx = Context::new();
    let (a, b) = (ctx.socket(DEALER).with(CONFLATE, 1), ctx.socket(DEALER).with(CONFLATE, 1));
    transport.join(&a, &b);
    for (from, to) in [(&a, &b), (&b, &a)] {
        for n in 0..2_000 {
            from.put(numbered(n, 100));
        }
        assert!(take_until(to, 1_999) < 2_000, "nothing was conflated");
    }
}

fn publishes_the_newest(transport: Transport) {
    let ctx = Context::new();
    let publisher = ctx.socket(XPUB);
    let sub = ctx.socket(SUB).with(CONFLATE, 1);
    let endpoint = transport.bind(&publisher);
    sub.set_bytes(SUBSCRIBE, b"").expect("SUBSCRIBE");
    sub.connect(&endpoint).expect("connect");
    publisher.expect(&["\x01"]);
    for n in 0..2_000 {
        publisher.put(numbered(n, 100));
        if n % 100 == 0 {
            poll::ready(&publisher, POLLIN, 1);
        }
    }
    assert!(take_until(&sub, 1_999) < 2_000, "nothing was conflated");
}

/// A message that a peer sent between two calls is kept although the peer has left.
fn keeps_what_one_brought_who_has_left(transport: Transport) {
    let (ctx, theirs) = (Context::new(), Context::new());
    let pull = ctx.socket(PULL).with(CONFLATE, 1);
    let gone = Monitor::of(&ctx, &pull, EVENT_DISCONNECTED);
    let endpoint = transport.bind(&pull);
    let push = if transport == Transport::Inproc { &ctx } else { &theirs }.socket(PUSH);
    push.connect(&endpoint).expect("connect");
    push.put("the only one");
    push.close().expect("close");
    if transport != Transport::Inproc {
        gone.wait(EVENT_DISCONNECTED);
    }
    pull.expect(&["the only one"]);
}

/// Every accepted message is counted as sent, waiting, or replaced.
fn counts_what_it_replaces(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL).with(CONFLATE, 1), ctx.socket(PUSH).with(CONFLATE, 1));
    transport.join(&pull, &push);
    for n in 0..500 {
        push.put(numbered(n, 100));
    }
    let received = take_until(&pull, 499) as u64;
    // A message is counted as sent after it is written, and may be received before that.
    until("the last one is counted", || push.stats().sent.queued == 0);
    let (out, come) = (push.stats(), pull.stats());
    assert_eq!(out.sent.messages + out.dropped[CONFLATED], 500);
    assert_eq!(come.received.queued, 0);
    assert_eq!(come.received.messages, received);
    assert_eq!(out.sent.messages, received + come.dropped[CONFLATED]);
    assert_eq!((out.sent.bytes, come.received.bytes), (out.sent.messages * 102, received * 102));
}

fn never_waits_for_a_stalled_peer(transport: Transport) {
    child::alone("send_past_a_stalled_peer", &[transport.name()]);
}

/// A peer that reads nothing delays no sender, and costs no memory: 400 MB are sent.
fn send_past_a_stalled_peer(args: &[String]) {
    const SENT: u64 = 40_000;
    let transport = Transport::named(&args[0]);
    let ctx = Context::new();
    let push = ctx.socket(PUSH).with(CONFLATE, 1);
    let listener = RawListener::bind(transport);
    push.connect(&listener.endpoint()).expect("connect");
    let mut peer = listener.accept();
    peer.handshake(1, "PULL");
    until("the connection is used", || {
        push.put(numbered(0, 10_000));
        peer.stirs(10)
    });
    let before = process::resident_bytes(process::own());
    for n in 1..=SENT {
        push.put(numbered(n, 10_000));
    }
    let grown = process::resident_bytes(process::own()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    let (mut last, mut count) = (0, 0);
    while last < SENT {
        let number = number_of(&peer.read_message());
        assert!(number >= last, "{number} came after {last}");
        (last, count) = (number, count + 1);
    }
    assert!(count < SENT, "nothing was conflated");
}

/// A receiver that does not receive costs no memory either, and does not slow its peer down.
#[test]
fn reads_on_for_a_receiver_that_does_not() {
    const SENT: u64 = 20_000;
    let ctx = Context::new();
    let pull = ctx.socket(PULL).with(CONFLATE, 1).hwm(10);
    let mut peer = RawPeer::connect(&Transport::Tcp.bind(&pull));
    peer.handshake(1, "PUSH");
    for n in 0..SENT {
        let body = numbered(n, 10_000);
        peer.send(&[&[2], &(body.len() as u64).to_be_bytes()[..], &body].concat());
    }
    let count = take_until(&pull, SENT - 1);
    assert!(count < SENT as usize, "nothing was conflated: {count}");
}
