//! Raw-byte peers that speak ZMTP 3.1 and 3.0: what the library sends is compared byte by byte.

use support::peer::{MEETINGS, Meeting, RawListener, RawPeer, each_way};
use support::wire::*;
use support::*;

over_wires!(
    greets_exactly,
    introduces_every_type_exactly,
    frames_what_it_sends,
    reads_every_kind_of_frame,
    takes_bytes_one_by_one,
    takes_everything_at_once,
    asks_and_answers_with_envelopes,
    takes_the_identity_of_ready,
    keeps_the_names_it_makes_up,
    makes_up_another_name_for_one_that_was_taken,
    takes_unknown_properties,
    meets_later_versions,
);

/// 64 bytes: signature, version 3.1, NULL, as-server 0, zeros.
fn greets_exactly(transport: Transport) {
    each_way(transport, PUSH, |_, mut peer| {
        peer.expect(&[0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F]);
        peer.send(&greeting(1, "NULL", false));
        let rest = peer.read(54);
        assert_eq!(rest[..2], [3, 1], "version");
        assert_eq!(rest[2..22], *b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "mechanism");
        assert!(rest[22] <= 1, "as-server");
        assert!(rest[23..].iter().all(|byte| *byte == 0), "filler");
    });
}

/// READY carries the socket type, and an identity for the three types that have one: nothing else. (Over ipc one
/// property of our own may follow, which other peers must ignore.)
fn introduces_every_type_exactly(transport: Transport) {
    let types = [
        (PAIR, "PAIR", "PAIR"),
        (PUB, "PUB", "SUB"),
        (SUB, "SUB", "PUB"),
        (REP, "REP", "REQ"),
        (PULL, "PULL", "PUSH"),
        (PUSH, "PUSH", "PULL"),
        (XPUB, "XPUB", "SUB"),
        (XSUB, "XSUB", "PUB"),
        (REQ, "REQ", "REP"),
        (DEALER, "DEALER", "ROUTER"),
        (ROUTER, "ROUTER", "DEALER"),
    ];
    for (kind, name, peer_name) in types {
        each_way(transport, kind, |_, mut peer| {
            let got = peer.handshake(1, peer_name);
            let named = matches!(kind, REQ | DEALER | ROUTER);
            let expected = if named { ready_as(name, b"") } else { ready(name) };
            assert_eq!(got.flags, COMMAND);
            if transport == Transport::Tcp {
                assert_eq!(got.body, expected[2..], "READY of {name}");
            } else {
                assert!(got.body.starts_with(&expected[2..]), "READY of {name}: {:02x?}", got.body);
            }
        });
    }
}

/// Short headers up to 255 bytes, long ones from 256; the flag MORE on all parts but the last; nothing in between.
fn frames_what_it_sends(transport: Transport) {
    each_way(transport, PUSH, |socket, mut peer| {
        peer.handshake(1, "PULL");
        socket.put("hello");
        peer.expect(b"\x00\x05hello");
        socket.put("");
        peer.expect(b"\x00\x00");
        for size in [255, 256, 65_535, 65_536, 300_000] {
            let content = filler::body(1, size);
            socket.put(&content);
            let header = if size <= 255 { vec![0, size as u8] } else { long_header(0, size as u64) };
            peer.expect(&header);
            peer.expect(&content);
        }
        socket.tx(&[&b"a"[..], b"", &[7; 300]]);
        peer.expect(b"\x01\x01a\x01\x00\x02\x00\x00\x00\x00\x00\x00\x01\x2c");
        peer.expect(&[7; 300]);
    });
}

/// Both header forms for any size; unknown commands in between.
fn reads_every_kind_of_frame(transport: Transport) {
    each_way(transport, PULL, |socket, mut peer| {
        peer.handshake(1, "PUSH");
        peer.send(&frame(0, b"short"));
        assert_eq!(socket.take_text(), "short");
        peer.send(&[&long_header(0, 4)[..], b"long"].concat());
        assert_eq!(socket.take_text(), "long");
        peer.send(&frame(0, b""));
        assert_eq!(socket.take_text(), "");
        peer.send(&command("UNHEARD-OF", b"data"));
        peer.send(&message(&[b"a", b"", b"c"]));
        socket.expect(&["a", "", "c"]);
        for size in [255, 256, 9_000, 1 << 20] {
            let content = filler::body(2, size);
            peer.send(&frame(0, &content));
            assert!(socket.take() == content);
        }
    });
}

/// Wherever the bytes are cut. A peer may send READY at once, but data only after the library's READY.
fn takes_bytes_one_by_one(transport: Transport) {
    each_way(transport, PULL, |socket, mut peer| {
        let trickle = |peer: &mut RawPeer, bytes: &[u8]| bytes.iter().for_each(|byte| peer.send(&[*byte]));
        trickle(&mut peer, &greeting(1, "NULL", false));
        trickle(&mut peer, &ready("PUSH"));
        peer.read(64);
        peer.read_frame();
        trickle(&mut peer, &message(&[b"one", b"by", b"one"]));
        trickle(&mut peer, &frame(0, &[9; 300]));
        socket.expect(&["one", "by", "one"]);
        assert_eq!(socket.take(), [9; 300]);
    });
}

/// Greeting and READY in one write, then a thousand messages in another.
fn takes_everything_at_once(transport: Transport) {
    each_way(transport, PULL, |socket, mut peer| {
        peer.send(&[greeting(1, "NULL", false), ready("PUSH")].concat());
        peer.read(64);
        peer.read_frame();
        let bytes: Vec<u8> = (0..1_000).flat_map(|n| frame(0, &filler::numbered(n, 20))).collect();
        peer.send(&bytes);
        filler::drain(socket, 0, 1_000);
    });
}

fn asks_and_answers_with_envelopes(transport: Transport) {
    each_way(transport, REQ, |socket, mut peer| {
        peer.handshake(1, "REP");
        socket.put("question");
        peer.expect(b"\x01\x00\x00\x08question");
        peer.send(&message(&[b"", b"answer"]));
        assert_eq!(socket.take_text(), "answer");
    });
    each_way(transport, REP, |socket, mut peer| {
        peer.handshake(1, "REQ");
        peer.send(&message(&[b"hop", b"", b"question"]));
        assert_eq!(socket.take_text(), "question");
        socket.put("answer");
        peer.expect(b"\x01\x03hop\x01\x00\x00\x06answer");
    });
}

fn takes_the_identity_of_ready(transport: Transport) {
    each_way(transport, ROUTER, |socket, mut peer| {
        peer.send(&greeting(1, "NULL", false));
        peer.read(64);
        peer.send(&ready_as("DEALER", b"by name"));
        peer.read_frame();
        peer.send(&frame(0, b"hello"));
        socket.expect(&["by name", "hello"]);
        socket.tx(&["by name", "and you"]);
        peer.expect(b"\x00\x07and you");
    });
    // And reports its own.
    for meeting in MEETINGS {
        let ctx = Context::new();
        let socket = ctx.socket(DEALER);
        socket.set_bytes(ROUTING_ID, b"it is me").expect("ROUTING_ID");
        let mut peer = meeting.arrange(transport, &socket);
        let got = peer.handshake(1, "ROUTER");
        assert!(got.body.starts_with(&ready_as("DEALER", b"it is me")[2..]), "{:02x?}", got.body);
    }
}

/// A DEALER with this identity sends a message.
fn introduce(peer: &mut RawPeer, identity: &[u8], text: &str) {
    peer.send(&greeting(1, "NULL", false));
    peer.read(64);
    peer.send(&ready_as("DEALER", identity));
    assert!(peer.read_frame().body.starts_with(b"\x05READY"));
    peer.send(&frame(0, text.as_bytes()));
}

/// Identities that begin with a zero byte are accepted (the RFC reserves them for names that a ROUTER generates). A
/// peer that announces a name already generated is a duplicate and is not heard; a name that would be generated next
/// is skipped.
fn keeps_the_names_it_makes_up(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    let endpoint = transport.bind(&router);
    let connect = |identity: &[u8], text: &str| {
        let mut peer = RawPeer::connect(&endpoint);
        introduce(&mut peer, identity, text);
        peer
    };
    let mut nameless = connect(b"", "first");
    let made_up = router.rx().swap_remove(0);
    assert_eq!((made_up.len(), made_up[0]), (5, 0));
    let intruder = connect(&made_up, "intruder");
    router.expect_nothing();
    router.tx(&[&made_up[..], b"for the first"]);
    nameless.expect(b"\x00\x0dfor the first");
    assert!(!intruder.stirs(deadline::ABSENCE_MS), "a peer that has another's name gets its messages");

    let number = u32::from_be_bytes(made_up[1..].try_into().expect("four bytes"));
    let next = [&[0], &number.wrapping_add(1).to_be_bytes()[..]].concat();
    let mut forestaller = connect(&next, "next");
    router.expect(&[&next[..], b"next"]);
    let mut other = connect(b"", "other");
    let parts = router.rx();
    assert_eq!(parts[1], b"other");
    assert!(parts[0] != next && parts[0] != made_up, "a name of its own");
    router.tx(&[&next[..], b"one"]);
    router.tx(&[&parts[0][..], b"two"]);
    forestaller.expect(b"\x00\x03one");
    other.expect(b"\x00\x03two");
}

/// Another peer announces a generated name while its owner is away: the owner is still heard after it reconnects.
fn makes_up_another_name_for_one_that_was_taken(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER).with(RECONNECT_IVL, 10);
    let (endpoint, listener) = (transport.bind(&router), RawListener::bind(transport));
    router.connect(&listener.endpoint()).expect("connect");
    let mut peer = listener.accept();
    introduce(&mut peer, b"", "here");
    let made_up = router.rx().swap_remove(0);
    drop(peer);
    let mut peer = listener.accept();
    let mut taker = RawPeer::connect(&endpoint);
    introduce(&mut taker, &made_up, "taken");
    router.expect(&[&made_up[..], b"taken"]);
    introduce(&mut peer, b"", "back");
    let parts = router.rx();
    assert_eq!(parts[1], b"back");
    assert_ne!(parts[0], made_up);
    router.tx(&[&parts[0][..], b"welcome"]);
    peer.expect(b"\x00\x07welcome");
}

/// Unknown properties do no harm.
fn takes_unknown_properties(transport: Transport) {
    each_way(transport, PULL, |socket, mut peer| {
        peer.send(&greeting(1, "NULL", false));
        peer.read(64);
        let properties = metadata(&[("Socket-Type", b"PUSH"), ("X-Colour", b"blue"), ("Resource", b"")]);
        peer.send(&command("READY", &properties));
        peer.read_frame();
        peer.send(&frame(0, b"x"));
        assert_eq!(socket.take_text(), "x");
    });
}

/// A peer with a later minor or major version is answered with 3.1.
fn meets_later_versions(transport: Transport) {
    for (major, minor) in [(3, 0), (3, 1), (3, 2), (3, 9), (4, 0), (200, 7)] {
        each_way(transport, PULL, |socket, mut peer| {
            let mut hello = greeting(minor, "NULL", false);
            hello[10] = major;
            peer.send(&hello);
            peer.read(64);
            peer.send(&ready("PUSH"));
            peer.read_frame();
            peer.send(&frame(0, b"x"));
            assert_eq!(socket.take_text(), "x", "version {major}.{minor}");
        });
    }
}

/// An ERROR ends only its connection. The connecting side may retry or not.
#[test]
fn takes_an_error() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    for code in ["400", "300", "some words"] {
        let mut peer = Meeting::LibraryBinds.arrange(Transport::Tcp, &pull);
        peer.send(&greeting(1, "NULL", false));
        peer.read(64);
        let mut reason = vec![code.len() as u8];
        reason.extend_from_slice(code.as_bytes());
        peer.send(&command("ERROR", &reason));
        peer.expect_end();
    }
    let mut good = Meeting::LibraryBinds.arrange(Transport::Tcp, &pull);
    good.handshake(1, "PUSH");
    good.send(&frame(0, b"still there"));
    assert_eq!(pull.take_text(), "still there");
}

/// Another mechanism, or an unknown one: the connection is closed, whichever side announces it.
#[test]
fn cuts_a_wrong_mechanism() {
    for mechanism in ["PLAIN", "CURVE", "NULLL", "", "XYZ"] {
        each_way(Transport::Tcp, PULL, |_, mut peer| {
            peer.send(&greeting(1, mechanism, false));
            peer.send(&ready("PUSH"));
            peer.expect_end();
        });
    }
}

/// Incompatible socket types do not exchange messages.
#[test]
fn cuts_a_wrong_socket_type() {
    for (kind, wrong) in [(PULL, "PULL"), (PUSH, "PUSH"), (REQ, "PUB"), (SUB, "PUSH"), (PAIR, "DEALER")] {
        each_way(Transport::Tcp, kind, |_, mut peer| {
            peer.send(&greeting(1, "NULL", false));
            peer.read(64);
            peer.send(&ready(wrong));
            peer.expect_end();
        });
    }
    each_way(Transport::Tcp, PULL, |_, mut peer| {
        peer.send(&greeting(1, "NULL", false));
        peer.read(64);
        peer.send(&ready("NO-SUCH-TYPE"));
        peer.expect_end();
    });
}
