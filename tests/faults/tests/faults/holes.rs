//! Vulnerabilities that libzmq had or has, each by name, as raw bytes sent to a bound socket: the answer is a closed
//! connection or none at all, memory stays bounded, and the good peer's messages arrive before and after.
//!
//! Tests named after a place in libzmq's source cover a fault found by reading that source.

use faults::{Victim, victim};
use support::middle::{Man, Pass};
use support::peer::{Frame, RawPeer};
use support::security::{Handler, Keys, Mechanism, Parties};
use support::wire::*;
use support::*;

support::roles!(victim, subscribed_without_end);

over_wires!(
    cve_2019_6250_length_overflow_in_the_decoder,
    cve_2020_15166_silent_connections_keep_a_server_from_others,
    cve_2021_20235_lengths_of_zmtp_1,
    cve_2021_20234_clients_that_never_read,
    cve_2014_7202_downgrade_to_older_versions,
    cve_2014_7202_downgrade_of_the_mechanism,
    cve_2019_13132_metadata_before_authentication,
    ping_of_five_or_six_bytes,
    empty_command_frame,
    oversized_metadata,
    identity_that_begins_with_zero,
    identity_too_long,
    slow_handshakes,
);

const MIB: u64 = 1 << 20;

fn opened(victim: &Victim) -> RawPeer {
    let mut peer = RawPeer::connect(&victim.endpoint);
    peer.handshake(1, "PUSH");
    peer
}

/// A frame length that makes `position + length` overflow: libzmq 4.2.0 to 4.3.0 wrote where the peer chose.
fn cve_2019_6250_length_overflow_in_the_decoder(transport: Transport) {
    let mut victim = Victim::start(transport, 2_000, -1);
    let before = victim.status();
    for size in
        [u64::MAX, u64::MAX - 7, u64::MAX - 8, u64::MAX - 9, 1 << 63, (1 << 63) - 1, 0xFFFF_FFFF_0000_0000]
    {
        for flags in [0, MORE, COMMAND] {
            let mut peer = opened(&victim);
            peer.send(&long_header(flags, size));
            let _ = peer.try_send(&[0xAA; 8_192]);
            // The library does not wait for a body that no memory could hold.
            peer.hang_up();
            peer.expect_end();
        }
    }
    victim.has_not_grown(before, 16 * MIB);
    victim.ends();
}

/// Connections that never shake hands: before libzmq 4.3.3 a server with CURVE or ZAP sent to them and stalled.
fn cve_2020_15166_silent_connections_keep_a_server_from_others(transport: Transport) {
    let (ctx, parties) = (Context::new(), Parties::new());
    let _handler = Handler::of(&ctx, "200");
    for kinds in [(PUSH, PULL), (PUB, SUB), (DEALER, DEALER)] {
        let (server, endpoint) = parties.bound(&ctx, kinds.0, Mechanism::Curve, transport);
        let silent: Vec<RawPeer> = (0..20).map(|_| RawPeer::connect(&endpoint)).collect();
        let client = parties.client(&ctx, kinds.1, Mechanism::Curve);
        if kinds.1 == SUB {
            client.set_bytes(SUBSCRIBE, b"").expect("SUBSCRIBE");
        }
        client.connect(&endpoint).expect("connect");
        if kinds.0 == PUB {
            client.set(RCVTIMEO, 20).expect("RCVTIMEO");
            until("the subscriber hears", || {
                server.put("hello");
                client.recv(0).is_ok()
            });
            continue;
        }
        // The server sends none of them to a peer without a handshake.
        (0..50).for_each(|_| server.put("hello"));
        (0..50).for_each(|_| assert_eq!(client.take_text(), "hello"));
        drop(silent);
    }
}

/// ZMTP 1.0 counts the flags in the length: length 0 has no room for them, and 2^64-1 overflowed a sum.
fn cve_2021_20235_lengths_of_zmtp_1(transport: Transport) {
    let mut victim = Victim::start(transport, 2_000, -1);
    let before = victim.status();
    let long = |size: u64| [&[0xFF][..], &size.to_be_bytes(), &[0; 4_096]].concat();
    let attacks = [
        vec![0; 16],
        long(0),
        long(1),
        long(u64::MAX),
        long(u64::MAX - 1),
        long(1 << 63),
        long((1 << 63) - 1),
        [frame_1(false, b""), vec![0x00, 0x01, 0x00]].concat(),
    ];
    for attack in &attacks {
        // Once as the identity frame, once after it.
        for bytes in [attack.clone(), [frame_1(false, b""), attack.clone()].concat()] {
            let mut peer = RawPeer::connect(&victim.endpoint);
            let _ = peer.try_send(&bytes);
            peer.hang_up();
            peer.expect_end();
        }
    }
    victim.has_not_grown(before, 16 * MIB);
    victim.ends();
}

/// Clients that connect, subscribe or send, and vanish, repeatedly: libzmq leaked memory for each.
fn cve_2021_20234_clients_that_never_read(transport: Transport) {
    let mut victim = Victim::start(transport, 2_000, -1);
    (0..100).for_each(|_| drop(opened(&victim)));
    victim.serves(100);
    let before = victim.status();
    for _ in 0..1_000 {
        let mut peer = opened(&victim);
        peer.send(&[message(&[&[1; 300], b"unfinished"]), frame(MORE, &[2; 200])].concat());
    }
    victim.serves(100);
    victim.has_not_grown(before, 4 * MIB);
    let limit = before.descriptors + 4;
    until("descriptors return", || victim.status().descriptors <= limit);
    victim.ends();
}

/// A server that authorizes its clients does not speak ZMTP versions without mechanisms.
fn cve_2014_7202_downgrade_to_older_versions(transport: Transport) {
    for mechanism in Mechanism::ALL {
        let (ctx, parties) = (Context::new(), Parties::new());
        let _handler = Handler::of(&ctx, "200");
        let (server, endpoint) = parties.bound(&ctx, PULL, mechanism, transport);
        let greetings = [
            [frame_1(false, b""), frame_1(false, b"smuggled")].concat(),
            [greeting_2("PUSH", b""), frame(0, b"smuggled")].concat(),
            [&greeting_2("PUSH", b"")[..10], &[0, 8], &frame_1(false, b""), &frame_1(false, b"smuggled")]
                .concat(),
        ];
        for bytes in greetings {
            let mut peer = RawPeer::connect(&endpoint);
            peer.send(&bytes);
            peer.expect_end();
        }
        server.expect_nothing();
        is_reached(&ctx, &parties, mechanism, &server, &endpoint);
    }
}

/// A good client still connects.
#[track_caller]
fn is_reached(ctx: &Context, parties: &Parties, mechanism: Mechanism, server: &Socket, endpoint: &str) {
    let client = parties.client(ctx, PUSH, mechanism);
    client.connect(endpoint).expect("connect");
    client.put("hello");
    assert_eq!(server.take_text(), "hello");
}

/// A greeting with another mechanism, or a misspelt one, does not bypass the configured mechanism.
fn cve_2014_7202_downgrade_of_the_mechanism(transport: Transport) {
    for mechanism in [Mechanism::Plain, Mechanism::Curve] {
        let (ctx, parties) = (Context::new(), Parties::new());
        let _handler = Handler::of(&ctx, "200");
        let (server, endpoint) = parties.bound(&ctx, PULL, mechanism, transport);
        let other = if mechanism == Mechanism::Plain { "CURVE" } else { "PLAIN" };
        let names = ["NULL", other, "", "null", "CURVEX", "PLAIN ", "GSSAPI", "ABCDEFGHIJKLMNOPQRST"];
        for (name, minor) in names.iter().flat_map(|name| [(name, 0), (name, 1), (name, 9)]) {
            let mut peer = RawPeer::connect(&endpoint);
            peer.send(&greeting(minor, name, false));
            let _ = peer.try_send(&[ready("PUSH"), frame(0, b"smuggled")].concat());
            peer.expect_end();
        }
        // The right mechanism, but a READY instead of its steps.
        let mut peer = RawPeer::connect(&endpoint);
        peer.send(&greeting(1, mechanism.name(), false));
        peer.send(&[ready("PUSH"), frame(0, b"smuggled")].concat());
        peer.expect_end();
        server.expect_nothing();
        is_reached(&ctx, &parties, mechanism, &server, &endpoint);
    }
}

/// INITIATE with more metadata than libzmq 4.0.0 to 4.3.1 had room for on its stack, at every stage.
fn cve_2019_13132_metadata_before_authentication(transport: Transport) {
    let (ctx, parties) = (Context::new(), Parties::new());
    let _handler = Handler::of(&ctx, "200");
    let (server, endpoint) = parties.bound(&ctx, PULL, Mechanism::Curve, transport);
    for size in [256, 257, 512, 1_024, 10_000, 100_000] {
        for name in ["INITIATE", "HELLO", "READY", "MESSAGE"] {
            let mut peer = RawPeer::connect(&endpoint);
            peer.send(&greeting(1, "CURVE", false));
            let _ = peer.try_send(&command(name, &vec![0x41; size]));
            let _ = peer.try_send(&command("INITIATE", &vec![0x42; size]));
            peer.expect_end();
        }
    }
    is_reached(&ctx, &parties, Mechanism::Curve, &server, &endpoint);
}

/// zmtp_engine.cpp, process_heartbeat_message: `size - 7` underflows, and PONG carries bytes that the peer did not
/// send.
fn ping_of_five_or_six_bytes(transport: Transport) {
    let victim = Victim::start(transport, 2_000, -1);
    for body in [&b"\x04PING"[..], b"\x04PING\0"] {
        let mut peer = opened(&victim);
        peer.send(&frame(COMMAND, body));
        // The library closes the connection and sends nothing before.
        assert_eq!(peer.expect_end(), b"", "{body:x?}");
    }
    let mut peer = opened(&victim);
    peer.send(&command("PING", b"\0\0"));
    assert_eq!(peer.read_frame(), Frame { flags: COMMAND, body: b"\x04PONG".to_vec() });
    peer.send(&command("PING", b"\0\0context"));
    assert_eq!(peer.read_frame(), Frame { flags: COMMAND, body: b"\x04PONGcontext".to_vec() });
    victim.ends();
}

/// process_command_message reads the first byte of a command without checking the length.
fn empty_command_frame(transport: Transport) {
    let victim = Victim::start(transport, 2_000, -1);
    for body in [&b""[..], b"\0", b"\x05", b"\xffPING", b"\x04PIN"] {
        let mut peer = opened(&victim);
        peer.send(&[frame(COMMAND, body), frame(0, b"behind")].concat());
        peer.hang_up();
        assert_eq!(peer.expect_end(), b"", "{body:x?}");
        let mut peer = RawPeer::connect(&victim.endpoint);
        peer.send(&[greeting(1, "NULL", false), frame(COMMAND, body)].concat());
        peer.expect_end();
    }
    victim.ends();
}

/// libzmq limits READY only by MAXMSGSIZE, which is off by default.
fn oversized_metadata(transport: Transport) {
    let mut victim = Victim::start(transport, 5_000, -1);
    let before = victim.status();
    for _ in 0..20 {
        let mut peer = RawPeer::connect(&victim.endpoint);
        peer.send(&greeting(1, "NULL", false));
        let large = vec![7; 1 << 20];
        let _ = peer.try_send(&command("READY", &metadata(&[("Socket-Type", b"PUSH"), ("X-Large", &large)])));
        peer.expect_end();
        let mut peer = RawPeer::connect(&victim.endpoint);
        peer.send(&greeting(1, "NULL", false));
        let many: Vec<u8> = (0..1_000).flat_map(|n| metadata(&[(&format!("X-{n}"), b"v")])).collect();
        let _ = peer.try_send(&command("READY", &[metadata(&[("Socket-Type", b"PUSH")]), many].concat()));
        peer.expect_end();
    }
    victim.has_not_grown(before, 8 * MIB);
    victim.ends();
}

/// A ROUTER generates names that begin with 0: a peer that announces such a name must not take another peer's.
fn identity_that_begins_with_zero(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER).with(ROUTER_MANDATORY, 1).with(ROUTER_HANDOVER, 1);
    let endpoint = transport.bind(&router);
    let good = ctx.socket(DEALER);
    good.connect(&endpoint).expect("connect");
    good.put("I am");
    let made_up = router.rx().swap_remove(0);
    assert_eq!((made_up.len(), made_up[0]), (5, 0));
    // The name generated for this peer, and the next ones.
    let number = u32::from_be_bytes(made_up[1..].try_into().expect("4 bytes"));
    let mut thieves = Vec::new();
    for claimed in [number, number.wrapping_add(1), number.wrapping_add(2)] {
        let mut thief = RawPeer::connect(&endpoint);
        thief.send(&greeting(1, "NULL", false));
        thief.read(64);
        thief.send(&ready_as("DEALER", &[&[0][..], &claimed.to_be_bytes()].concat()));
        thief.read_frame();
        thief.send(&frame(0, b"so am I"));
        thieves.push(thief);
    }
    let another = ctx.socket(DEALER);
    another.connect(&endpoint).expect("connect");
    another.put("and I");
    let mut names = std::collections::HashMap::new();
    while !names.contains_key(&b"and I"[..]) {
        let mut message = router.rx();
        names.insert(message.swap_remove(1), message.swap_remove(0));
    }
    router.tx(&[&names[&b"and I"[..]][..], b"yours"]);
    assert_eq!(another.take_text(), "yours");
    router.tx(&[&made_up[..], b"still yours"]);
    assert_eq!(good.take_text(), "still yours");
}

/// An identity has at most 255 bytes, in every version.
fn identity_too_long(transport: Transport) {
    let victim = Victim::start(transport, 2_000, -1);
    let mut peer = RawPeer::connect(&victim.endpoint);
    peer.send(&[greeting(1, "NULL", false), ready_as("PUSH", &[1; 256])].concat());
    peer.expect_end();
    let mut peer = RawPeer::connect(&victim.endpoint);
    peer.send(&greeting_2("PUSH", &[1; 256]));
    peer.expect_end();
    let mut peer = RawPeer::connect(&victim.endpoint);
    let _ = peer.try_send(&frame_1(false, &[1; 256]));
    peer.expect_end();
    victim.ends();
}

/// A byte now and then does not extend the handshake's deadline.
fn slow_handshakes(transport: Transport) {
    let mut victim = Victim::start(transport, 600, -1);
    let before = victim.status();
    let whole = [greeting(1, "NULL", false), ready("PUSH")].concat();
    let mut peers: Vec<RawPeer> = (0..200).map(|_| RawPeer::connect(&victim.endpoint)).collect();
    for byte in &whole[..60] {
        for peer in &mut peers {
            let _ = peer.try_send(&[*byte]);
        }
        deadline::pass(std::time::Duration::from_millis(20));
    }
    for peer in &mut peers {
        peer.expect_end();
    }
    until("descriptors return", || victim.status().descriptors <= before.descriptors + 2);
    victim.ends();
}

/// GHSA-qq65-x72m-9wr8: a topic of a megabyte caused a recursion a million deep when its subscriber left or
/// unsubscribed.
#[test]
fn cve_2021_20236_deep_unsubscribe() {
    within(60, || {
        let ctx = Context::new();
        for kind in [PUB, XPUB] {
            let publisher = ctx.socket(kind);
            let endpoint = Transport::Tcp.bind(&publisher);
            for len in [1_000, 60_000] {
                let topic: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
                let mut peer = RawPeer::connect(&endpoint);
                peer.handshake(1, "SUB");
                peer.send(&command("SUBSCRIBE", &topic));
                peer.send(&command("CANCEL", &topic));
                // As a message, the older form; then the connection ends.
                peer.send(&frame(0, &[&[1][..], &topic].concat()));
                peer.send(&command("PING", b"\0\0"));
                while peer.read_frame().body != b"\x04PONG" {}
            }
            let mut peer = RawPeer::connect(&endpoint);
            peer.handshake(1, "SUB");
            let _ = peer.try_send(&command("SUBSCRIBE", &vec![b'a'; 8 << 20]));
            publisher_still_works(&ctx, &publisher, &endpoint);
        }
    });
}

#[track_caller]
fn publisher_still_works(ctx: &Context, publisher: &Socket, endpoint: &str) {
    let good = ctx.socket(SUB).with(RCVTIMEO, 20);
    good.set_bytes(SUBSCRIBE, b"news").expect("SUBSCRIBE");
    good.connect(endpoint).expect("connect");
    until("the good subscriber hears", || {
        publisher.put("news");
        good.recv(0).is_ok()
    });
}

/// GHSA-4p5v-h92w-6wxw, unbounded in libzmq: one subscriber sends endless topics. They cost memory in proportion to
/// their length, and are freed when their subscriber leaves.
#[test]
fn cve_2021_20237_subscriptions_of_those_who_left() {
    child::alone("subscribed_without_end", &[]);
}

fn subscribed_without_end(_: &[String]) {
    let ctx = Context::new();
    let publisher = ctx.socket(XPUB).with(XPUB_VERBOSE, 0);
    let endpoint = Transport::Tcp.bind(&publisher);
    let mut held = Vec::new();
    for round in 0..6 {
        let mut peer = RawPeer::connect(&endpoint);
        peer.handshake(1, "SUB");
        for n in 0..5_000 {
            peer.send(&command("SUBSCRIBE", format!("{round} topic number {n}").as_bytes()));
        }
        // The application receives each subscription, and its end.
        for _ in 0..5_000 {
            assert_eq!(publisher.take()[0], 1);
        }
        drop(peer);
        for _ in 0..5_000 {
            assert_eq!(publisher.take()[0], 0);
        }
        held.push(process::private_bytes(process::own()));
    }
    // Memory from the first rounds is kept and reused by the later ones.
    assert!(held[5] < held[1] + MIB, "after each round: {held:?}");
    publisher_still_works(&ctx, &publisher, &endpoint);
}

/// curve_mechanism_base.cpp ORs the flags of the outer frame with those inside the box, so a man in the middle could
/// turn whole messages into parts. Only the flags inside the box may count.
#[test]
fn flags_outside_the_box_change_nothing() {
    within(60, || {
        let (ctx, parties) = (Context::new(), Parties::new());
        let (server, endpoint) = parties.bound(&ctx, PULL, Mechanism::Curve, Transport::Tcp);
        let client = parties.client(&ctx, PUSH, Mechanism::Curve);
        let between = Man::before(&endpoint, |from_client, number, mut frame| {
            // After HELLO and INITIATE.
            if from_client && number >= 2 {
                frame[0] |= MORE;
            }
            Pass::On(frame)
        });
        client.connect(&between.endpoint).expect("connect");
        for n in 0..10 {
            client.put(format!("{n}"));
            server.expect(&[format!("{n}")]);
        }
    });
}

/// A weak key is refused: no handshake begins, no client connects, and the reason is reported.
#[test]
fn weak_keys_are_refused() {
    within(60, || {
        let (ctx, parties) = (Context::new(), Parties::new());
        let (_server, endpoint) = parties.bound(&ctx, PULL, Mechanism::Curve, Transport::Tcp);
        let mut one = [0u8; 32];
        one[0] = 1;
        for weak in [[0u8; 32], one] {
            let client = parties.client(&ctx, PUSH, Mechanism::Curve);
            client.set_bytes(CURVE_SERVERKEY, &weak).expect("any 32 bytes");
            let seen = Monitor::of(&ctx, &client, EVENT_ALL);
            client.connect(&endpoint).expect("connect");
            let failures = EVENT_HANDSHAKE_FAILED_PROTOCOL | EVENT_HANDSHAKE_FAILED_NO_DETAIL;
            until("the failure is told", || {
                let event = seen.next();
                assert_ne!(event.number, EVENT_HANDSHAKE_SUCCEEDED);
                event.number & failures != 0
            });
        }
        // PLAIN names and passwords have at most 255 bytes; keys 32 bytes or 40 characters.
        let socket = ctx.socket(PUSH);
        for (option, value) in [
            (PLAIN_USERNAME, vec![b'a'; 256]),
            (PLAIN_PASSWORD, vec![b'a'; 256]),
            (CURVE_SECRETKEY, vec![b'a'; 31]),
            (CURVE_SECRETKEY, vec![b'a'; 33]),
            (CURVE_SECRETKEY, vec![b'~'; 40]),
            (CURVE_SECRETKEY, vec![b'a'; 41]),
            (CURVE_SERVERKEY, vec![]),
        ] {
            assert_eq!(
                socket.set_bytes(option, &value),
                Err(Errno(libc::EINVAL)),
                "{option} {}",
                value.len()
            );
        }
    });
}

/// Names and passwords of exactly 255 bytes arrive complete.
#[test]
fn credentials_of_255_bytes() {
    within(60, || {
        let (ctx, parties) = (Context::new(), Parties::new());
        let handler = Handler::of(&ctx, "200");
        let (_server, endpoint) = parties.bound(&ctx, PULL, Mechanism::Plain, Transport::Tcp);
        let client = ctx.socket(PUSH);
        let (name, password) = (vec![b'n'; 255], vec![b'p'; 255]);
        client.set_bytes(PLAIN_USERNAME, &name).expect("PLAIN_USERNAME");
        client.set_bytes(PLAIN_PASSWORD, &password).expect("PLAIN_PASSWORD");
        client.connect(&endpoint).expect("connect");
        assert_eq!(handler.asked()[7..], [name, password]);
    });
}

/// The client claims another client's long-term key without its secret: a vouch sealed with its own key is refused,
/// before the ZAP handler is asked.
#[test]
fn keys_of_others_are_of_no_use() {
    within(60, || {
        let (ctx, parties) = (Context::new(), Parties::new());
        let handler = Handler::of(&ctx, "200");
        let (server, endpoint) = parties.bound(&ctx, PULL, Mechanism::Curve, Transport::Tcp);
        let heard = Monitor::of(&ctx, &server, EVENT_ALL);
        let client = parties.client(&ctx, PUSH, Mechanism::Curve);
        client.set_bytes(CURVE_PUBLICKEY, Keys::new().public.as_bytes()).expect("CURVE_PUBLICKEY");
        client.connect(&endpoint).expect("connect");
        client.put("who?");
        heard.wait(EVENT_HANDSHAKE_FAILED_PROTOCOL);
        assert!(!handler.was_asked());
    });
}
