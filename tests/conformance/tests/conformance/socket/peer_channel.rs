//! PEER: routing ids on both sides, known before the connection. CHANNEL: one peer, messages of one part.

use support::filler::{body, drain, fill};
use support::*;

over_transports!(
    peers_talk_both_ways,
    a_peer_is_known_before_it_is_there,
    one_peer_has_many,
    disconnects_who_connected,
    disconnects_whom_it_connected_to,
    connects_again_after_a_disconnect,
    channels_talk_both_ways,
    a_channel_holds_to_one_peer,
    a_full_channel_waits,
; wires keeps_the_number_through_reconnects);

const UNREACHABLE: Outcome<usize> = Err(Errno(libc::EHOSTUNREACH));

fn peers_talk_both_ways(transport: Transport) {
    let ctx = Context::new();
    let (left, right) = (ctx.socket(PEER), ctx.socket(PEER));
    let endpoint = transport.bind(&left);
    let to_left = right.connect_peer(&endpoint).expect("connect");
    assert_eq!(right.endpoint(), endpoint);
    for (n, size) in [0, 1, 40, 1_000, 100_000].into_iter().enumerate() {
        let sent = body(n as u64, size);
        assert_eq!(right.send_to(to_left, &sent, 0), Ok(size));
        let (to_right, got) = left.take_from();
        assert_eq!(got, sent);
        assert_eq!(left.send_to(to_right, &sent, 0), Ok(size));
        assert_eq!(right.take_from(), (to_left, sent));
    }
}

/// Messages wait for their peer to connect.
fn a_peer_is_known_before_it_is_there(transport: Transport) {
    let ctx = Context::new();
    let early = ctx.socket(PEER).with(RECONNECT_IVL, 10);
    let endpoints = [transport.fresh(), transport.fresh()];
    let numbers = [0, 1].map(|n| early.connect_peer(&endpoints[n]).expect("connect"));
    assert_ne!(numbers[0], numbers[1]);
    for n in [0, 1] {
        assert_eq!(early.send_to(numbers[n], format!("for {n}"), 0), Ok(5));
    }
    for n in [1, 0] {
        let late = ctx.socket(PEER);
        late.bind(&endpoints[n]).expect("bind");
        let (back, text) = late.take_from();
        assert_eq!(text, format!("for {n}").as_bytes());
        assert_eq!(late.send_to(back, "here", 0), Ok(4));
        assert_eq!(early.take_from(), (numbers[n], b"here".to_vec()));
    }
}

fn one_peer_has_many(transport: Transport) {
    let ctx = Context::new();
    let hub = ctx.socket(PEER);
    let others: Vec<Socket> = (0..20).map(|_| ctx.socket(PEER)).collect();
    let numbers: Vec<u32> =
        others.iter().map(|other| hub.connect_peer(&transport.bind(other)).expect("connect")).collect();
    for (n, number) in numbers.iter().enumerate() {
        hub.send_to(*number, format!("for {n}"), 0).expect("send");
    }
    for (n, other) in others.iter().enumerate() {
        let (back, text) = other.take_from();
        assert_eq!(text, format!("for {n}").as_bytes());
        other.send_to(back, format!("from {n}"), 0).expect("send");
    }
    for _ in &others {
        let (number, text) = hub.take_from();
        let n = numbers.iter().position(|known| *known == number).expect("a number that was given");
        assert_eq!(text, format!("from {n}").as_bytes());
    }
}

fn disconnects_who_connected(transport: Transport) {
    let ctx = Context::new();
    let (bound, other) = (ctx.socket(PEER), ctx.socket(PEER).with(RECONNECT_IVL, -1));
    let there = other.connect_peer(&transport.bind(&bound)).expect("connect");
    other.send_to(there, "hello", 0).expect("send");
    let (back, _) = bound.take_from();
    bound.disconnect_peer(back).expect("disconnect");
    assert_eq!(bound.send_to(back, "x", 0), UNREACHABLE);
    assert_eq!(bound.disconnect_peer(back), Err(Errno(libc::EHOSTUNREACH)));
    if transport == Transport::Inproc {
        until("the other side learns of it", || other.send_to(there, "x", DONTWAIT) == UNREACHABLE);
    }
}

fn disconnects_whom_it_connected_to(transport: Transport) {
    let ctx = Context::new();
    let (bound, other) = (ctx.socket(PEER), ctx.socket(PEER).with(RECONNECT_IVL, 1));
    let endpoint = transport.bind(&bound);
    let there = other.connect_peer(&endpoint).expect("connect");
    other.send_to(there, "hello", 0).expect("send");
    let (back, _) = bound.take_from();
    other.disconnect_peer(there).expect("disconnect");
    assert_eq!(other.send_to(there, "x", 0), UNREACHABLE);
    assert_eq!(other.disconnect(&endpoint), Err(Errno(libc::ENOENT)), "the endpoint went with it");
    until("the bound side learns of it", || bound.send_to(back, "x", DONTWAIT) == UNREACHABLE);
}

fn connects_again_after_a_disconnect(transport: Transport) {
    let ctx = Context::new();
    let (bound, other) = (ctx.socket(PEER), ctx.socket(PEER));
    let endpoint = transport.bind(&bound);
    let mut before = 0;
    for turn in 0..10 {
        let there = other.connect_peer(&endpoint).expect("connect");
        assert_ne!(there, before, "another connection, another number");
        before = there;
        other.send_to(there, format!("{turn}"), 0).expect("send");
        let (back, text) = bound.take_from();
        assert_eq!(text, format!("{turn}").as_bytes());
        bound.send_to(back, "welcome", 0).expect("send");
        assert_eq!(other.take_from(), (there, b"welcome".to_vec()));
        other.disconnect_peer(there).expect("disconnect");
    }
}

fn keeps_the_number_through_reconnects(transport: Transport) {
    let ctx = Context::new();
    let lasting = ctx.socket(PEER).with(RECONNECT_IVL, 10);
    let endpoint = transport.fresh();
    let there = lasting.connect_peer(&endpoint).expect("connect");
    for turn in 0..3 {
        let other = ctx.socket(PEER).with(LINGER, 0);
        until("the endpoint is free", || other.bind(&endpoint).is_ok());
        // Messages sent before the loss is noticed may be lost with it.
        until("it is heard", || {
            lasting.send_to(there, format!("{turn}"), 0).expect("send");
            poll::ready(&other, POLLIN, 10) != 0
        });
        let (back, _) = other.take_from();
        other.send_to(back, "back", 0).expect("send");
        assert_eq!(lasting.take_from(), (there, b"back".to_vec()));
        other.close().expect("close");
    }
}

fn channels_talk_both_ways(transport: Transport) {
    let ctx = Context::new();
    let (left, right) = transport.pair(&ctx, CHANNEL, CHANNEL);
    for n in 0..1_000 {
        left.put(format!("left {n}"));
        right.put(format!("right {n}"));
    }
    for n in 0..1_000 {
        assert_eq!(right.take_text(), format!("left {n}"));
        assert_eq!(left.take_text(), format!("right {n}"));
    }
    let large = body(1, 1 << 20);
    left.put(&large);
    assert_eq!(right.take(), large);
}

/// A second peer is refused while the first is connected.
fn a_channel_holds_to_one_peer(transport: Transport) {
    let ctx = Context::new();
    let (bound, first) = transport.pair(&ctx, CHANNEL, CHANNEL);
    first.put("first");
    assert_eq!(bound.take_text(), "first");
    let second = ctx.socket(CHANNEL);
    second.connect(&bound.endpoint()).expect("connect");
    second.send("second", DONTWAIT).expect("it has a peer, or is going to");
    bound.expect_nothing();
    bound.put("for the first");
    assert_eq!(first.take_text(), "for the first");
}

fn a_full_channel_waits(transport: Transport) {
    let ctx = Context::new();
    let (left, right) = (ctx.socket(CHANNEL).hwm(3), ctx.socket(CHANNEL).hwm(3));
    transport.join(&left, &right);
    right.put("hello");
    assert_eq!(left.take_text(), "hello");
    let count = fill(&left, 0, 50_000);
    assert!(transport != Transport::Inproc || count == 6, "{count}");
    drain(&right, 0, count);
}

#[test]
fn only_a_peer_connects_by_number() {
    let ctx = Context::new();
    for kind in [SERVER, CLIENT, PAIR, CHANNEL] {
        assert_eq!(ctx.socket(kind).connect_peer("inproc://x"), Err(Errno(libc::ENOTSUP)));
    }
    let peer = ctx.socket(PEER);
    assert_eq!(peer.connect_peer("nonsense"), Err(Errno(libc::EINVAL)));
    assert_eq!(peer.connect_peer("foo://x"), Err(Errno(libc::EPROTONOSUPPORT)));
    // With IMMEDIATE and no connection there is no peer, and so no routing id.
    assert_eq!(peer.with(IMMEDIATE, 1).connect_peer("inproc://x"), Err(Errno(libc::EFAULT)));
    let gone = Socket::from_raw(std::ptr::null_mut());
    assert_eq!(gone.connect_peer("inproc://x"), Err(Errno(libc::ENOTSOCK)));
    assert_eq!(gone.disconnect_peer(1), Err(Errno(libc::ENOTSOCK)));
}

#[test]
fn only_servers_and_peers_disconnect_by_number() {
    let ctx = Context::new();
    for kind in [CLIENT, RADIO, DISH, GATHER, SCATTER, CHANNEL, ROUTER, PAIR] {
        assert_eq!(ctx.socket(kind).disconnect_peer(1), Err(Errno(libc::ENOTSUP)));
    }
    for kind in [SERVER, PEER] {
        assert_eq!(ctx.socket(kind).disconnect_peer(0), Err(Errno(libc::EHOSTUNREACH)));
    }
}

/// A PEER can connect to itself, send to itself and answer.
#[test]
fn a_peer_may_be_oneself() {
    let ctx = Context::new();
    let peer = ctx.socket(PEER);
    let there = peer.connect_peer(&Transport::Inproc.bind(&peer)).expect("connect");
    peer.send_to(there, "hello", 0).expect("send");
    let (back, text) = peer.take_from();
    assert_eq!(text, b"hello");
    assert_ne!(back, there);
}
