//! Monitors: which events come, in which order, with what in them.

use support::peer::{RawListener, RawPeer};
use support::*;

over_wires!(tells_both_sides_of_a_connection, tells_of_retries, tells_of_the_end_of_the_peer);

fn tells_both_sides_of_a_connection(transport: Transport) {
    let ctx = Context::new();
    let (server, client) = (ctx.socket(DEALER), ctx.socket(DEALER));
    let (heard, seen) = (Monitor::of(&ctx, &server, EVENT_ALL), Monitor::of(&ctx, &client, EVENT_ALL));
    let endpoint = transport.bind(&server);
    let event = heard.next();
    assert_eq!((event.number, event.endpoint.as_str()), (EVENT_LISTENING, endpoint.as_str()));
    assert!(descriptor_is_open(event.value), "the value is the listener's descriptor");
    client.connect(&endpoint).expect("connect");
    let event = heard.next();
    assert_eq!(event.number, EVENT_ACCEPTED);
    assert!(descriptor_is_open(event.value), "the value is the connection's descriptor");
    assert_eq!(heard.next().number, EVENT_HANDSHAKE_SUCCEEDED);
    let mut event = seen.next();
    if event.number == EVENT_CONNECT_DELAYED {
        event = seen.next();
    }
    assert_eq!((event.number, event.endpoint.as_str()), (EVENT_CONNECTED, endpoint.as_str()));
    assert!(descriptor_is_open(event.value), "the value is the connection's descriptor");
    assert_eq!(seen.next().number, EVENT_HANDSHAKE_SUCCEEDED);
    client.close().expect("close");
    assert_eq!(heard.wait(EVENT_DISCONNECTED).number, EVENT_DISCONNECTED);
    assert_eq!(seen.wait(EVENT_MONITOR_STOPPED).number, EVENT_MONITOR_STOPPED);
    server.unbind(&endpoint).expect("unbind");
    heard.wait(EVENT_CLOSED);
    server.close().expect("close");
    heard.wait(EVENT_MONITOR_STOPPED);
}

fn descriptor_is_open(fd: u32) -> bool {
    // SAFETY: asks for flags.
    unsafe { libc::fcntl(fd as i32, libc::F_GETFD) != -1 }
}

fn tells_of_retries(transport: Transport) {
    let ctx = Context::new();
    let client = ctx.socket(PUSH).with(RECONNECT_IVL, 15);
    let seen = Monitor::of(&ctx, &client, EVENT_CONNECT_RETRIED | EVENT_CONNECTED);
    let endpoint = transport.fresh();
    client.connect(&endpoint).expect("connect to nobody");
    for _ in 0..3 {
        let event = seen.next();
        assert_eq!((event.number, event.endpoint.as_str()), (EVENT_CONNECT_RETRIED, endpoint.as_str()));
        assert!((1..=1_000).contains(&event.value), "the wait in milliseconds: {}", event.value);
    }
    let server = ctx.socket(PULL);
    server.bind(&endpoint).expect("bind");
    seen.wait(EVENT_CONNECTED);
}

/// The end of a connection is DISCONNECTED; then the connecting side tries again.
fn tells_of_the_end_of_the_peer(transport: Transport) {
    let listener = RawListener::bind(transport);
    let ctx = Context::new();
    let client = ctx.socket(PUSH).with(RECONNECT_IVL, 15);
    let seen = Monitor::of(&ctx, &client, EVENT_ALL);
    client.connect(&listener.endpoint()).expect("connect");
    for _ in 0..2 {
        let mut peer = listener.accept();
        peer.handshake(1, "PULL");
        seen.wait(EVENT_HANDSHAKE_SUCCEEDED);
        drop(peer);
        seen.wait(EVENT_DISCONNECTED);
        seen.wait(EVENT_CONNECT_RETRIED);
    }
}

#[test]
fn tells_of_a_failed_bind() {
    let ctx = Context::new();
    let (first, second) = (ctx.socket(PULL), ctx.socket(PULL));
    let endpoint = Transport::Tcp.bind(&first);
    let heard = Monitor::of(&ctx, &second, EVENT_ALL);
    assert_eq!(second.bind(&endpoint), Err(Errno(libc::EADDRINUSE)));
    assert_eq!(heard.wait(EVENT_BIND_FAILED).value, libc::EADDRINUSE as u32);
}

/// Only what the mask asks for comes.
#[test]
fn the_mask_selects() {
    let ctx = Context::new();
    let server = ctx.socket(PULL);
    let heard = Monitor::of(&ctx, &server, EVENT_HANDSHAKE_SUCCEEDED | EVENT_MONITOR_STOPPED);
    let endpoint = Transport::Tcp.bind(&server);
    let client = ctx.socket(PUSH);
    client.connect(&endpoint).expect("connect");
    assert_eq!(heard.next().number, EVENT_HANDSHAKE_SUCCEEDED);
    server.close().expect("close");
    assert_eq!(heard.next().number, EVENT_MONITOR_STOPPED);
}

/// A null endpoint ends the monitor, which says so; another may follow.
#[test]
fn stops_and_starts_again() {
    let ctx = Context::new();
    let server = ctx.socket(PULL);
    for _ in 0..3 {
        let heard = Monitor::of(&ctx, &server, EVENT_ALL);
        Transport::Tcp.bind(&server);
        assert_eq!(heard.next().number, EVENT_LISTENING);
        monitor::start(&server, None, 0).expect("stop");
        assert_eq!(heard.next().number, EVENT_MONITOR_STOPPED);
    }
}

#[test]
fn refuses_other_transports() {
    let ctx = Context::new();
    let socket = ctx.socket(PULL);
    for endpoint in ["tcp://127.0.0.1:*", "ipc://*"] {
        let result = monitor::start(&socket, Some(endpoint), EVENT_ALL);
        assert_eq!(result, Err(Errno(libc::EPROTONOSUPPORT)), "{endpoint}");
    }
    assert_eq!(monitor::start(&socket, Some("nonsense"), EVENT_ALL), Err(Errno(libc::EINVAL)));
}

/// Failed handshakes come with the reason.
#[test]
fn tells_of_failed_handshakes() {
    let ctx = Context::new();
    let server = ctx.socket(PULL);
    let failures = EVENT_HANDSHAKE_FAILED_NO_DETAIL | EVENT_HANDSHAKE_FAILED_PROTOCOL;
    let heard = Monitor::of(&ctx, &server, failures);
    let endpoint = Transport::Tcp.bind(&server);
    let mut peer = RawPeer::connect(&endpoint);
    peer.send(&wire::greeting(1, "PLAIN", true));
    let event = heard.next();
    let mismatch = 0x1100_0002;
    assert_eq!((event.number, event.value), (EVENT_HANDSHAKE_FAILED_PROTOCOL, mismatch));
    peer.expect_end();
    let mut peer = RawPeer::connect(&endpoint);
    peer.send(&wire::greeting(1, "NULL", false));
    peer.read(64);
    drop(peer);
    assert_eq!(heard.next().number, EVENT_HANDSHAKE_FAILED_NO_DETAIL);
}
