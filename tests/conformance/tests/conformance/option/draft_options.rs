//! libzmq's draft options: its stable builds do not know most of them.

use support::peer::{RawListener, RawPeer};
use support::pubsub::settle;
use support::*;

over_transports!(
    greets_each_new_peer,
    hears_that_a_peer_has_gone,
    sends_what_follows_to_the_last_subscriber;
    wires
    notifies_of_peers,
    hears_that_its_connection_was_lost,
    greets_again_after_a_reconnect,
    stops_after_a_refusal,
    stops_after_a_failed_handshake,
);

fn dealer(ctx: &Context, name: &str) -> Socket {
    let dealer = ctx.socket(DEALER).with(RECONNECT_IVL, 10);
    dealer.set_bytes(ROUTING_ID, name.as_bytes()).expect("ROUTING_ID");
    dealer
}

/// Both sides send their greeting before all other messages.
fn greets_each_new_peer(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    router.set_bytes(HELLO_MSG, b"welcome").expect("HELLO_MSG");
    let endpoint = transport.bind(&router);
    for name in ["one", "two"] {
        let dealer = dealer(&ctx, name);
        dealer.set_bytes(HELLO_MSG, b"here I am").expect("HELLO_MSG");
        dealer.connect(&endpoint).expect("connect");
        dealer.put("behind");
        router.expect(&[name, "here I am"]);
        router.expect(&[name, "behind"]);
        router.tx(&[name, "behind"]);
        assert_eq!(dealer.take_text(), "welcome");
        assert_eq!(dealer.take_text(), "behind");
    }
}

/// A bound socket receives DISCONNECT_MSG when a peer leaves, after all the peer's messages.
fn hears_that_a_peer_has_gone(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    router.set_bytes(DISCONNECT_MSG, b"gone").expect("DISCONNECT_MSG");
    let endpoint = transport.bind(&router);
    for name in ["one", "two"] {
        let dealer = dealer(&ctx, name);
        dealer.connect(&endpoint).expect("connect");
        dealer.put("last");
        router.expect(&[name, "last"]);
        dealer.close().expect("close");
        router.expect(&[name, "gone"]);
    }
}

/// With XPUB_MANUAL_LAST_VALUE the messages after a subscription go only to that subscriber.
fn sends_what_follows_to_the_last_subscriber(transport: Transport) {
    let ctx = Context::new();
    let xpub = ctx.socket(XPUB).with(XPUB_MANUAL_LAST_VALUE, 1);
    let endpoint = transport.bind(&xpub);
    let subs: Vec<Socket> = (0..3)
        .map(|n| {
            let sub = ctx.socket(SUB);
            sub.connect(&endpoint).expect("connect");
            sub.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE");
            xpub.expect(&["\x01A"]);
            xpub.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE for the peer");
            xpub.put(format!("A for {n}"));
            sub
        })
        .collect();
    xpub.put("A for all");
    for (n, sub) in subs.iter().enumerate() {
        sub.expect(&[format!("A for {n}")]);
        sub.expect(&["A for all"]);
    }
}

/// Empty messages report that peers connect (1) and disconnect (2).
fn notifies_of_peers(transport: Transport) {
    for bits in 1..=3 {
        let ctx = Context::new();
        let router = ctx.socket(ROUTER).with(ROUTER_NOTIFY, bits);
        let endpoint = transport.bind(&router);
        let dealer = dealer(&ctx, "peer");
        dealer.connect(&endpoint).expect("connect");
        if bits & 1 != 0 {
            router.expect(&["peer", ""]);
        }
        dealer.put("hello");
        router.expect(&["peer", "hello"]);
        dealer.close().expect("close");
        if bits & 2 != 0 {
            router.expect(&["peer", ""]);
        } else {
            router.expect_nothing();
        }
    }
}

/// A connecting socket receives HICCUP_MSG when the connection is lost.
fn hears_that_its_connection_was_lost(transport: Transport) {
    let ctx = Context::new();
    let dealer = dealer(&ctx, "D");
    dealer.set_bytes(HICCUP_MSG, b"hiccup").expect("HICCUP_MSG");
    let listener = RawListener::bind(transport);
    dealer.connect(&listener.endpoint()).expect("connect");
    for _ in 0..3 {
        let mut peer = listener.accept();
        peer.handshake(1, "ROUTER");
        peer.send(b"\0\x05hello");
        dealer.expect(&["hello"]);
        drop(peer);
        dealer.expect(&["hiccup"]);
    }
}

fn greets_again_after_a_reconnect(transport: Transport) {
    let ctx = Context::new();
    let dealer = dealer(&ctx, "D");
    let hello = "h".repeat(100_000);
    dealer.set_bytes(HELLO_MSG, hello.as_bytes()).expect("HELLO_MSG");
    let listener = RawListener::bind(transport);
    dealer.connect(&listener.endpoint()).expect("connect");
    dealer.put("once");
    for turn in 0..3 {
        let mut peer = listener.accept();
        peer.handshake(1, "ROUTER");
        assert!(peer.read_message() == hello.as_bytes(), "the greeting, turn {turn}");
        if turn == 0 {
            assert_eq!(peer.read_message(), b"once");
        }
    }
}

/// RECONNECT_STOP 1: an endpoint that refuses the connection is given up.
fn stops_after_a_refusal(transport: Transport) {
    let ctx = Context::new();
    let dealer = dealer(&ctx, "D").with(RECONNECT_STOP, 1);
    let monitor = Monitor::of(&ctx, &dealer, EVENT_CLOSED | EVENT_CONNECT_RETRIED);
    let endpoint = transport.fresh();
    if transport == Transport::Ipc {
        // A path without a listener.
        let path = endpoint.trim_start_matches("ipc://");
        drop(std::os::unix::net::UnixListener::bind(path).expect("bind"));
    }
    dealer.connect(&endpoint).expect("connect");
    monitor.wait(EVENT_CLOSED);
    until("the endpoint is gone", || dealer.disconnect(&endpoint) == Err(Errno(libc::ENOENT)));
}

/// RECONNECT_STOP 2: an endpoint is given up if its peer does not speak ZMTP.
fn stops_after_a_failed_handshake(transport: Transport) {
    let ctx = Context::new();
    let dealer = dealer(&ctx, "D").with(RECONNECT_STOP, 2).with(HANDSHAKE_IVL, 200);
    for hangs_up in [true, false] {
        let monitor = Monitor::of(&ctx, &dealer, EVENT_HANDSHAKE_FAILED_NO_DETAIL);
        let listener = RawListener::bind(transport);
        let endpoint = listener.endpoint();
        dealer.connect(&endpoint).expect("connect");
        let peer = listener.accept();
        let kept = if hangs_up { None } else { Some(peer) };
        monitor.wait(EVENT_HANDSHAKE_FAILED_NO_DETAIL);
        assert!(!listener.knocked(150), "it does not come back");
        until("the endpoint is gone", || dealer.disconnect(&endpoint) == Err(Errno(libc::ENOENT)));
        drop(kept);
    }
}

/// RECONNECT_STOP 4: a disconnected endpoint is not dialed again for its unsent messages.
#[test]
fn stops_when_it_is_disconnected() {
    let ctx = Context::new();
    let endpoint = Transport::Tcp.fresh();
    for (bits, comes) in [(0, true), (4, false)] {
        let push = ctx.socket(PUSH).with(RECONNECT_IVL, 10).with(RECONNECT_STOP, bits);
        push.connect(&endpoint).expect("connect");
        push.put("left");
        push.disconnect(&endpoint).expect("disconnect");
        let pull = ctx.socket(PULL);
        pull.bind(&endpoint).expect("bind");
        if comes {
            pull.expect(&["left"]);
        } else {
            pull.expect_nothing();
        }
    }
}

/// With XSUB_VERBOSE_UNSUBSCRIBE an XSUB sends every unsubscription, also a repeated one.
#[test]
fn unsubscribes_each_time() {
    for (verbose, told) in [(0, 1), (1, 3)] {
        let ctx = Context::new();
        let (xpub, xsub) = (ctx.socket(XPUB).with(XPUB_VERBOSER, 1), ctx.socket(XSUB));
        xsub.set(XSUB_VERBOSE_UNSUBSCRIBE, verbose).expect("XSUB_VERBOSE_UNSUBSCRIBE");
        Transport::Tcp.join(&xpub, &xsub);
        for _ in 0..3 {
            xsub.put("\x01A");
            xpub.expect(&["\x01A"]);
        }
        (0..3).for_each(|_| xsub.put("\0A"));
        xsub.put("end");
        (0..told).for_each(|_| xpub.expect(&["\0A"]));
        xpub.expect(&["end"]);
    }
}

/// TOPICS_COUNT is the number of topics to which all peers, or the application, have subscribed.
#[test]
fn counts_topics() {
    let ctx = Context::new();
    let publisher = ctx.socket(PUB);
    let endpoint = Transport::Tcp.bind(&publisher);
    let subs = [ctx.socket(SUB), ctx.socket(SUB)];
    for sub in &subs {
        sub.connect(&endpoint).expect("connect");
        for topic in ["A", "AB", "C"] {
            sub.set_bytes(SUBSCRIBE, topic.as_bytes()).expect("SUBSCRIBE");
        }
        sub.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE again");
        assert_eq!(sub.get(TOPICS_COUNT), Ok(3));
        settle(&publisher, sub);
    }
    until("all are counted", || publisher.get(TOPICS_COUNT) == Ok(3));
    drop(subs);
    until("all are gone", || {
        poll::ready(&publisher, POLLOUT, 0);
        publisher.get(TOPICS_COUNT) == Ok(0)
    });
}

/// A raw peer's subscription inside a message of several frames.
#[test]
fn takes_subscriptions_inside_messages_unless_told_not_to() {
    for (only_first, hears) in [(0, true), (1, false)] {
        let ctx = Context::new();
        let xpub = ctx.socket(XPUB).with(ONLY_FIRST_SUBSCRIBE, only_first);
        let mut peer = RawPeer::connect(&Transport::Tcp.bind(&xpub));
        peer.handshake(1, "XSUB");
        peer.send(b"\x01\x04user\0\x02\x01A");
        assert_eq!(xpub.rx()[0], b"user");
        peer.send(b"\x01\x02\x01B\x01\x02\x01C\0\x04user");
        xpub.expect(&["\x01B"]);
        xpub.expect(&["\x01C"]);
        xpub.expect(&["user"]);
        for topic in ["A", "B", "C"] {
            xpub.put(topic);
        }
        if hears {
            assert_eq!(peer.read_message(), b"A");
        }
        assert_eq!(peer.read_message(), b"B");
        assert_eq!(peer.read_message(), b"C");
    }
}
