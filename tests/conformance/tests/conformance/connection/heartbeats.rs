//! Heartbeats and the handshake deadline, seen by a raw-byte peer.

use std::time::{Duration, Instant};

use support::peer::{RawListener, RawPeer};
use support::wire::{COMMAND, command, frame};
use support::*;

over_wires!(
    pings_and_stays_with_pong,
    cuts_the_silent,
    cuts_who_never_ends_a_frame,
    waits_for_a_frame_that_comes,
    waits_as_long_as_it_is_told,
    answers_a_ping,
    believes_the_peers_ttl,
    cuts_slow_handshakes
);

fn server(ctx: &Context, transport: Transport, interval_ms: i32) -> (Socket, String) {
    let pull = ctx.socket(PULL).with(HEARTBEAT_IVL, interval_ms);
    let endpoint = transport.bind(&pull);
    (pull, endpoint)
}

/// The body of a PING with this TTL in tenths of a second.
fn ping(ttl: u16, context: &[u8]) -> Vec<u8> {
    let mut data = ttl.to_be_bytes().to_vec();
    data.extend_from_slice(context);
    command("PING", &data)
}

/// A peer that answers PINGs stays connected, even if it sends nothing else.
fn pings_and_stays_with_pong(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL).with(HEARTBEAT_IVL, 40).with(HEARTBEAT_TTL, 1_500);
    let endpoint = transport.bind(&pull);
    let mut peer = RawPeer::connect(&endpoint);
    peer.handshake(1, "PUSH");
    for _ in 0..8 {
        let got = peer.read_frame();
        assert_eq!((got.flags, &got.body[..7]), (COMMAND, &b"\x04PING\x00\x0f"[..]), "TTL in 0.1 s");
        peer.send(&command("PONG", &got.body[7..]));
    }
    peer.send(&frame(0, b"still here"));
    assert_eq!(pull.take_text(), "still here");
}

/// A peer that does not answer is cut off after HEARTBEAT_TIMEOUT, which defaults to the interval.
fn cuts_the_silent(transport: Transport) {
    let ctx = Context::new();
    let (pull, endpoint) = server(&ctx, transport, 60);
    let heard = Monitor::of(&ctx, &pull, EVENT_DISCONNECTED);
    let start = Instant::now();
    let mut peer = RawPeer::connect(&endpoint);
    peer.handshake(1, "PUSH");
    let rest = peer.expect_end();
    assert!(start.elapsed() >= Duration::from_millis(100), "too early: {:?}", start.elapsed());
    assert!(rest.starts_with(b"\x04\x07\x04PING\0\0"), "{rest:02x?}");
    heard.next();
    let mut next = RawPeer::connect(&endpoint);
    next.handshake(1, "PUSH");
    next.send(&frame(0, b"next"));
    assert_eq!(pull.take_text(), "next");
}

/// The header of a frame of 16 MB.
const LONG_FRAME: [u8; 9] = [2, 0, 0, 0, 0, 1, 0, 0, 0];

/// Bytes inside an unfinished frame are no sign of liveness: the library cannot read a PONG there.
fn cuts_who_never_ends_a_frame(transport: Transport) {
    let ctx = Context::new();
    let (_pull, endpoint) = server(&ctx, transport, 200);
    let mut peer = RawPeer::connect(&endpoint);
    peer.handshake(1, "PUSH");
    peer.send(&LONG_FRAME);
    let (start, ping) = (Instant::now(), ping(0, b""));
    while peer.try_send(&ping).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(20), "it is still taken for alive");
        deadline::pass(Duration::from_millis(20));
    }
}

/// A large frame that makes progress is waited for.
fn waits_for_a_frame_that_comes(transport: Transport) {
    let ctx = Context::new();
    let (pull, endpoint) = server(&ctx, transport, 500);
    let mut peer = RawPeer::connect(&endpoint);
    peer.handshake(1, "PUSH");
    peer.send(&[2, 0, 0, 0, 0, 0, 4, 0, 0]);
    for _ in 0..32 {
        peer.send(&[b'x'; 8 << 10]);
        deadline::pass(Duration::from_millis(50));
    }
    assert_eq!(pull.take_text().len(), 256 << 10);
}

/// HEARTBEAT_TIMEOUT may be longer than the interval.
fn waits_as_long_as_it_is_told(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL).with(HEARTBEAT_IVL, 50).with(HEARTBEAT_TIMEOUT, 600);
    let mut peer = RawPeer::connect(&transport.bind(&pull));
    let start = Instant::now();
    peer.handshake(1, "PUSH");
    peer.expect_end();
    assert!(start.elapsed() >= Duration::from_millis(550), "too early: {:?}", start.elapsed());
}

/// PONG returns the PING's context, of up to 16 bytes; messages continue around it.
fn answers_a_ping(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let endpoint = transport.bind(&pull);
    let mut peer = RawPeer::connect(&endpoint);
    peer.handshake(1, "PUSH");
    for context in [&b""[..], b"x", b"sixteen bytes ab"] {
        peer.send(&frame(0, b"before"));
        peer.send(&ping(0, context));
        peer.send(&frame(0, b"after"));
        assert_eq!((pull.take_text(), pull.take_text()), ("before".into(), "after".into()));
        peer.expect(&command("PONG", context));
    }
}

/// A peer that gives a TTL and then falls silent is cut off when the TTL has passed.
fn believes_the_peers_ttl(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let endpoint = transport.bind(&pull);
    let mut peer = RawPeer::connect(&endpoint);
    peer.handshake(1, "PUSH");
    let start = Instant::now();
    peer.send(&ping(2, b""));
    peer.expect(&command("PONG", b""));
    peer.expect_end();
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(190), "too early: {elapsed:?}");
}

/// HANDSHAKE_IVL ends an unfinished handshake: at every stage, on either side.
fn cuts_slow_handshakes(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL).with(HANDSHAKE_IVL, 150);
    let endpoint = transport.bind(&pull);
    let greeting = wire::greeting(1, "NULL", false);
    let ready = wire::ready("PUSH");
    for opening in [&[][..], &greeting[..1], &greeting[..10], &greeting[..63], &greeting[..]] {
        let mut peer = RawPeer::connect(&endpoint);
        peer.send(opening);
        peer.expect_end();
    }
    let mut peer = RawPeer::connect(&endpoint);
    peer.send(&greeting);
    peer.send(&ready[..ready.len() - 1]);
    peer.expect_end();
    let listener = RawListener::bind(transport);
    let push = ctx.socket(PUSH).with(HANDSHAKE_IVL, 150).with(RECONNECT_IVL, 10);
    push.connect(&listener.endpoint()).expect("connect");
    for _ in 0..2 {
        listener.accept().expect_end();
    }
    // A peer that finishes in time stays past the deadline.
    let mut peer = RawPeer::connect(&endpoint);
    peer.handshake(1, "PUSH");
    deadline::pass(Duration::from_millis(300));
    peer.send(&frame(0, b"in time"));
    assert_eq!(pull.take_text(), "in time");
}

/// Two library sockets with heartbeats keep a quiet connection.
#[test]
fn a_quiet_connection_stays() {
    let ctx = Context::new();
    let (pull, endpoint) = server(&ctx, Transport::Tcp, 20);
    let heard = Monitor::of(&ctx, &pull, EVENT_ALL);
    let push = ctx.socket(PUSH).with(HEARTBEAT_IVL, 30).with(HEARTBEAT_TTL, 100);
    push.connect(&endpoint).expect("connect");
    heard.wait(EVENT_HANDSHAKE_SUCCEEDED);
    heard.socket().set(RCVTIMEO, 700).expect("RCVTIMEO");
    assert_eq!(heard.try_next(), Err(Errno(libc::EAGAIN)), "no event in a quiet time");
    push.put("x");
    assert_eq!(pull.take_text(), "x");
}
