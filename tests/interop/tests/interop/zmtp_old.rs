//! Raw-byte peers that speak ZMTP 2.0 and 1.0, as libzmq 3.x and 2.x do.

use support::peer::{MEETINGS, RawListener, RawPeer, each_way};
use support::wire::*;
use support::*;

over_wires!(
    talks_2_0,
    tells_2_0_its_identity,
    takes_the_identity_of_2_0,
    subscribes_at_2_0,
    talks_1_0,
    takes_the_identity_of_1_0,
    publishes_to_1_0,
    a_newer_subscriber_in_its_place_gets_what_it_wants,
    asks_1_0,
    sends_1_0_again_what_was_cut,
);

const SIGNATURE: [u8; 10] = [0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F];

/// Signature, the library's own revision (3), then the 2.0 form: the socket type and an empty identity.
fn talks_2_0(transport: Transport) {
    each_way(transport, PULL, |socket, mut peer| {
        peer.send(&greeting_2("PUSH", b""));
        peer.expect(&SIGNATURE);
        peer.expect(&[3, type_number("PULL"), 0, 0]);
        peer.send(&message(&[b"a", b"", b"c"]));
        socket.expect(&["a", "", "c"]);
        let long = filler::body(1, 70_000);
        peer.send(&frame(0, &long));
        assert!(socket.take() == long);
    });
    each_way(transport, PUSH, |socket, mut peer| {
        peer.send(&greeting_2("PULL", b""));
        peer.expect(&SIGNATURE);
        peer.expect(&[3, type_number("PUSH"), 0, 0]);
        socket.tx(&[&b"a"[..], b"", &[5; 256]]);
        peer.expect(b"\x01\x01a\x01\x00\x02\x00\x00\x00\x00\x00\x00\x01\x00");
        peer.expect(&[5; 256]);
    });
}

fn tells_2_0_its_identity(transport: Transport) {
    for meeting in MEETINGS {
        let ctx = Context::new();
        let dealer = ctx.socket(DEALER);
        dealer.set_bytes(ROUTING_ID, b"me").expect("ROUTING_ID");
        let mut peer = meeting.arrange(transport, &dealer);
        peer.send(&greeting_2("ROUTER", b""));
        peer.expect(&[0xFF, 0, 0, 0, 0, 0, 0, 0, 3, 0x7F, 3, type_number("DEALER")]);
        peer.expect(b"\x00\x02me");
        dealer.put("hello");
        peer.expect(b"\x00\x05hello");
    }
}

fn takes_the_identity_of_2_0(transport: Transport) {
    each_way(transport, ROUTER, |socket, mut peer| {
        peer.send(&greeting_2("DEALER", b"\0zero"));
        peer.send(&frame(0, b"hello"));
        socket.expect(&["\0zero", "hello"]);
    });
    each_way(transport, ROUTER, |socket, mut peer| {
        peer.send(&greeting_2("DEALER", b"old friend"));
        peer.send(&frame(0, b"hello"));
        socket.expect(&["old friend", "hello"]);
        socket.tx(&["old friend", "and you"]);
        peer.expect(&SIGNATURE);
        peer.expect(&[3, type_number("ROUTER"), 0, 0]);
        peer.expect(b"\x00\x07and you");
    });
    each_way(transport, ROUTER, |socket, mut peer| {
        peer.send(&greeting_2("DEALER", b""));
        peer.send(&frame(0, b"hello"));
        let parts = socket.rx();
        assert_eq!(
            (parts[0].len(), parts[0][0], &parts[1][..]),
            (5, 0, &b"hello"[..]),
            "a generated identity"
        );
    });
}

fn subscribes_at_2_0(transport: Transport) {
    for meeting in MEETINGS {
        let ctx = Context::new();
        let sub = ctx.socket(SUB);
        sub.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE");
        let mut peer = meeting.arrange(transport, &sub);
        peer.send(&greeting_2("PUB", b""));
        peer.expect(&SIGNATURE);
        peer.expect(&[3, type_number("SUB"), 0, 0]);
        // libzmq sends subscriptions to a new peer when the subscriber's thread enters the library.
        until("the subscriber speaks", || poll::ready(&sub, POLLIN, 2) == 0 && peer.stirs(2));
        peer.expect(b"\x00\x02\x01A");
        peer.send(&frame(0, b"B"));
        peer.send(&frame(0, b"A1"));
        assert_eq!(sub.take_text(), "A1");
    }
    each_way(transport, XPUB, |socket, mut peer| {
        peer.send(&greeting_2("SUB", b""));
        peer.send(&frame(0, b"\x01A"));
        socket.expect(&["\x01A"]);
        socket.put("A1");
        peer.expect(&SIGNATURE);
        // An XPUB announces PUB or, with libzmq's number for it, XPUB.
        let hello = peer.read(4);
        assert_eq!((hello[0], &hello[2..]), (3, &[0, 0][..]));
        assert!([type_number("PUB"), XPUB as u8].contains(&hello[1]), "{hello:02x?}");
        peer.expect(b"\x00\x02A1");
    });
}

/// 1.0 has no greeting. It reads the ten-byte signature as an empty identity: length 1, flags 7F.
fn talks_1_0(transport: Transport) {
    each_way(transport, PULL, |socket, mut peer| {
        peer.send(&frame_1(false, b""));
        peer.expect(&SIGNATURE);
        peer.send(&[frame_1(true, b"a"), frame_1(true, b""), frame_1(false, b"c")].concat());
        socket.expect(&["a", "", "c"]);
        for size in [253, 254, 255, 256, 70_000] {
            let content = filler::body(1, size);
            peer.send(&frame_1(false, &content));
            assert!(socket.take() == content, "{size} bytes");
        }
    });
    each_way(transport, PUSH, |socket, mut peer| {
        peer.send(&frame_1(false, b""));
        peer.expect(&SIGNATURE);
        socket.tx(&["a", "", "c"]);
        peer.expect(&[frame_1(true, b"a"), frame_1(true, b""), frame_1(false, b"c")].concat());
        for size in [253, 254, 255, 70_000] {
            let content = filler::body(1, size);
            socket.put(&content);
            peer.expect(&frame_1(false, &content));
        }
    });
}

fn takes_the_identity_of_1_0(transport: Transport) {
    each_way(transport, ROUTER, |socket, mut peer| {
        peer.send(&frame_1(false, b"older friend"));
        peer.send(&frame_1(false, b"hello"));
        socket.expect(&["older friend", "hello"]);
        socket.tx(&["older friend", "and you"]);
        peer.expect(&SIGNATURE);
        peer.expect(&frame_1(false, b"and you"));
    });
    for meeting in MEETINGS {
        let ctx = Context::new();
        let dealer = ctx.socket(DEALER);
        dealer.set_bytes(ROUTING_ID, b"me").expect("ROUTING_ID");
        let mut peer = meeting.arrange(transport, &dealer);
        peer.send(&frame_1(false, b""));
        peer.expect(b"\xFF\x00\x00\x00\x00\x00\x00\x00\x03\x7Fme");
        dealer.put("hello");
        peer.expect(&frame_1(false, b"hello"));
    }
}

/// A 1.0 subscriber filters by itself: it sends no subscriptions, and receives everything.
fn publishes_to_1_0(transport: Transport) {
    each_way(transport, PUB, |socket, mut peer| {
        peer.send(&frame_1(false, b""));
        peer.expect(&SIGNATURE);
        let mut n = 0;
        until("the publisher knows its subscriber", || {
            socket.put(format!("news {n}"));
            n += 1;
            peer.stirs(5)
        });
        assert_eq!(peer.read(8)[..7], *b"\x07\x00news ");
    });
}

/// A 1.0 subscriber is replaced by one that sends subscriptions: the new one gets only matching messages.
fn a_newer_subscriber_in_its_place_gets_what_it_wants(transport: Transport) {
    let ctx = Context::new();
    let listener = RawListener::bind(transport);
    let publisher = ctx.socket(PUB).with(RECONNECT_IVL, 10);
    let seen = Monitor::of(&ctx, &publisher, EVENT_HANDSHAKE_SUCCEEDED);
    publisher.connect(&listener.endpoint()).expect("connect");
    let mut old = listener.accept();
    old.send(&frame_1(false, b""));
    old.expect(&SIGNATURE);
    until("the publisher knows its subscriber", || {
        publisher.put("news");
        old.stirs(5)
    });
    drop(old);
    let mut new = listener.accept();
    new.handshake(1, "SUB");
    (0..2).for_each(|_| _ = seen.next());
    new.send(&frame(0, b"\x01A"));
    until("the publisher knows its new subscriber", || {
        publisher.put("B");
        publisher.put("A");
        new.stirs(5)
    });
    assert_eq!(new.read_message(), b"A");
}

fn asks_1_0(transport: Transport) {
    each_way(transport, REQ, |socket, mut peer| {
        peer.send(&frame_1(false, b""));
        peer.expect(&SIGNATURE);
        socket.put("question");
        peer.expect(&[frame_1(true, b""), frame_1(false, b"question")].concat());
        peer.send(&[frame_1(true, b""), frame_1(false, b"answer")].concat());
        assert_eq!(socket.take_text(), "answer");
    });
}

/// A message cut by a lost connection is sent again, whole, followed by the messages queued after it. The body is
/// larger than the kernel's buffers, so it is certainly cut, after two frames that are not.
fn sends_1_0_again_what_was_cut(transport: Transport) {
    let ctx = Context::new();
    let listener = RawListener::bind(transport);
    let push = ctx.socket(PUSH).with(RECONNECT_IVL, 10);
    push.connect(&listener.endpoint()).expect("connect");
    let large = filler::body(1, 64 << 20);
    push.tx(&[&b"a"[..], b"", &large, b"z"]);
    push.put("behind");
    let greet = |peer: &mut RawPeer| {
        peer.send(&frame_1(false, b""));
        peer.expect(&SIGNATURE);
    };
    let mut first = listener.accept();
    greet(&mut first);
    first.expect(
        &[frame_1(true, b"a"), frame_1(true, b""), frame_1(true, &large)[..100_000].to_vec()].concat(),
    );
    drop(first);
    let mut second = listener.accept();
    greet(&mut second);
    second.expect(&[frame_1(true, b"a"), frame_1(true, b""), frame_1(true, &large)].concat());
    second.expect(&[frame_1(false, b"z"), frame_1(false, b"behind")].concat());
}
