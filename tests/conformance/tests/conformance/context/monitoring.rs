//! Monitors: which events arrive, in which order, and their contents.

use support::peer::{RawListener, RawPeer};
use support::*;

over_wires!(
    tells_both_sides_of_a_connection,
    tells_of_retries,
    tells_of_the_end_of_the_peer,
    tells_of_the_end_of_a_listener,
    a_close_ends_connections_without_an_event,
);

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
    assert_eq!(seen.next().number, EVENT_MONITOR_STOPPED, "a socket's own end is no DISCONNECTED");
    server.unbind(&endpoint).expect("unbind");
    heard.wait(EVENT_CLOSED);
    server.close().expect("close");
    heard.wait(EVENT_MONITOR_STOPPED);
}

/// A listener's end is CLOSED and nothing else, whether the closing socket or the accepting thread handles it first.
fn tells_of_the_end_of_a_listener(transport: Transport) {
    let ctx = Context::new();
    for _ in 0..200 {
        let server = ctx.socket(REP);
        let heard = Monitor::of(&ctx, &server, EVENT_ALL);
        transport.bind(&server);
        server.close().expect("close");
        let numbers = [heard.next().number, heard.next().number, heard.next().number];
        assert_eq!(numbers, [EVENT_LISTENING, EVENT_CLOSED, EVENT_MONITOR_STOPPED]);
    }
}

/// A socket that closes before its peer reports only its listener's end; one that closes after its peer reports the
/// peer's end first.
fn a_close_ends_connections_without_an_event(transport: Transport) {
    let ctx = Context::new();
    for server_first in [true, false] {
        let (server, client) = (ctx.socket(DEALER), ctx.socket(DEALER));
        let (heard, seen) = (Monitor::of(&ctx, &server, EVENT_ALL), Monitor::of(&ctx, &client, EVENT_ALL));
        client.connect(&transport.bind(&server)).expect("connect");
        heard.wait(EVENT_HANDSHAKE_SUCCEEDED);
        seen.wait(EVENT_HANDSHAKE_SUCCEEDED);
        if server_first {
            server.close().expect("close");
            assert_eq!([heard.next().number, heard.next().number], [EVENT_CLOSED, EVENT_MONITOR_STOPPED]);
            assert_eq!(seen.next().number, EVENT_DISCONNECTED);
            client.close().expect("close");
        } else {
            client.close().expect("close");
            assert_eq!(seen.next().number, EVENT_MONITOR_STOPPED);
            // Without this wait either event may come first: the peer's end is reported when it is noticed.
            assert_eq!(heard.next().number, EVENT_DISCONNECTED);
            server.close().expect("close");
            assert_eq!([heard.next().number, heard.next().number], [EVENT_CLOSED, EVENT_MONITOR_STOPPED]);
        }
    }
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

/// The end of a connection is DISCONNECTED; then the connecting side retries.
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

/// Only events in the mask arrive.
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

/// A null endpoint stops the monitor, which reports its own end; another monitor may follow.
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

/// Failed handshakes are reported with the reason.
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

/// For every connection, the end is reported if the start was, even if its handshake failed.
#[test]
fn tells_of_the_end_of_failed_handshakes() {
    let ctx = Context::new();
    let server = ctx.socket(PULL).with(HANDSHAKE_IVL, 100);
    let heard = Monitor::of(&ctx, &server, EVENT_ACCEPTED | EVENT_DISCONNECTED);
    let endpoint = Transport::Tcp.bind(&server);
    for bytes in [wire::greeting(1, "PLAIN", true), b"GET / HTTP/1.1\r\n\r\n".to_vec(), Vec::new()] {
        let mut peer = RawPeer::connect(&endpoint);
        peer.send(&bytes);
        let accepted = heard.next();
        assert_eq!(accepted.number, EVENT_ACCEPTED);
        let ended = heard.next();
        assert_eq!((ended.number, ended.value), (EVENT_DISCONNECTED, accepted.value));
    }
    let listener = RawListener::bind(Transport::Tcp);
    let client = ctx.socket(PUSH).with(RECONNECT_IVL, 15);
    let seen = Monitor::of(&ctx, &client, EVENT_ALL);
    client.connect(&listener.endpoint()).expect("connect");
    for _ in 0..2 {
        drop(listener.accept());
        assert_eq!(seen.wait(EVENT_CONNECTED).endpoint, listener.endpoint());
        assert_eq!(seen.next().number, EVENT_HANDSHAKE_FAILED_NO_DETAIL);
        assert_eq!(seen.next().number, EVENT_DISCONNECTED);
        assert_eq!(seen.next().number, EVENT_CONNECT_RETRIED);
    }
}

/// With a wildcard the events give the connection's own address; an invalid endpoint causes no event.
#[test]
fn tells_the_address_of_the_connection() {
    let ctx = Context::new();
    let (server, client) = (ctx.socket(PULL), ctx.socket(PUSH));
    let heard = Monitor::of(&ctx, &server, EVENT_ALL);
    assert_eq!(server.bind("nonsense"), Err(Errno(libc::EINVAL)));
    server.bind("tcp://*:*").expect("bind");
    let port = server.endpoint().rsplit(':').next().expect("a port").to_owned();
    assert_eq!(heard.next().endpoint, format!("tcp://0.0.0.0:{port}"));
    let endpoint = format!("tcp://127.0.0.1:{port}");
    client.connect(&endpoint).expect("connect");
    for number in [EVENT_ACCEPTED, EVENT_HANDSHAKE_SUCCEEDED] {
        let event = heard.next();
        assert_eq!((event.number, event.endpoint.as_str()), (number, endpoint.as_str()));
    }
}

/// A version 2 event: number, values, both addresses.
type Event2 = (u64, Vec<u64>, String, String);

/// A version 2 monitor, as the socket that reads it; `None` if the library has none.
fn versioned(ctx: &Context, target: &Socket, events: u64, kind: i32) -> Option<Socket> {
    if !support::api::exports("zmq_socket_monitor_versioned") {
        return None;
    }
    let endpoint = Transport::Inproc.fresh();
    start_versioned(target, &endpoint, events, 2, kind).expect("zmq_socket_monitor_versioned");
    let reader = ctx.socket([(PAIR, PAIR), (PUB, SUB), (PUSH, PULL)].iter().find(|one| one.0 == kind)?.1);
    if kind == PUB {
        reader.set_bytes(SUBSCRIBE, b"").expect("SUBSCRIBE");
    }
    reader.connect(&endpoint).expect("connect");
    Some(reader)
}

fn start_versioned(target: &Socket, endpoint: &str, events: u64, version: i32, kind: i32) -> Outcome<()> {
    let text = std::ffi::CString::new(endpoint).expect("no NUL");
    // SAFETY: a C string.
    let rc = unsafe {
        support::api::zmq_socket_monitor_versioned(target.raw(), text.as_ptr(), events, version, kind)
    };
    errno::check(rc).map(|_| ())
}

fn next2(reader: &Socket) -> Event2 {
    let parts = reader.rx();
    let number = |part: &Vec<u8>| u64::from_ne_bytes(part[..].try_into().expect("8 bytes"));
    let count = number(&parts[1]) as usize;
    assert_eq!(parts.len(), count + 4);
    let text = |at: usize| String::from_utf8(parts[at].clone()).expect("text");
    (number(&parts[0]), parts[2..2 + count].iter().map(number).collect(), text(count + 2), text(count + 3))
}

#[test]
fn the_second_version_has_both_addresses() {
    for kind in [PAIR, PUB, PUSH] {
        let ctx = Context::new();
        let (server, client) = (ctx.socket(PULL), ctx.socket(PUSH));
        let Some(heard) = versioned(&ctx, &server, EVENT_ALL as u64, kind) else { return };
        let Some(seen) = versioned(&ctx, &client, EVENT_ALL as u64, PAIR) else { return };
        if kind == PUB {
            // The subscription is handled at the next call.
            server.events();
        }
        let endpoint = Transport::Tcp.bind(&server);
        client.connect(&endpoint).expect("connect");
        let mut events: Vec<Event2> = (0..3).map(|_| next2(&heard)).collect();
        let listening = events.remove(0);
        assert_eq!((listening.0, listening.2, listening.3), (8, endpoint.clone(), String::new()));
        let (number, _, local, remote) = next2(&seen);
        assert_eq!((number, local, remote), (2, String::new(), endpoint.clone()));
        let (number, _, local, remote) = next2(&seen);
        assert_eq!((number, &remote), (1, &endpoint));
        assert!(local.starts_with("tcp://127.0.0.1:") && local != endpoint);
        for (number, event) in [0x20, 0x1000].into_iter().zip(events) {
            assert_eq!((event.0, event.2, event.3), (number, endpoint.clone(), local.clone()));
        }
    }
}

#[test]
fn pipes_tell_what_they_hold() {
    let ctx = Context::new();
    let (server, client) = (ctx.socket(DEALER), ctx.socket(DEALER));
    const PIPES_STATS: u64 = 0x1_0000;
    let Some(heard) = versioned(&ctx, &server, PIPES_STATS, PAIR) else { return };
    // SAFETY: live handles, and null.
    let ask =
        |socket: &Socket| errno::check(unsafe { support::api::zmq_socket_monitor_pipes_stats(socket.raw()) });
    assert_eq!(ask(&server), Err(Errno(libc::EAGAIN)), "no pipe");
    assert_eq!(ask(&client), Err(Errno(libc::EINVAL)), "not monitored");
    let endpoint = Transport::Tcp.bind(&server);
    client.connect(&endpoint).expect("connect");
    (0..5).for_each(|_| client.put("x"));
    server.take();
    until("four messages that came in", || {
        assert_eq!(ask(&server), Ok(0));
        let (number, values, local, remote) = next2(&heard);
        assert_eq!((number, &local), (PIPES_STATS, &endpoint));
        assert!(remote.starts_with("tcp://127.0.0.1:"));
        values == [0, 4]
    });
    let other = ctx.socket(PUSH);
    let refused = Err(Errno(libc::EINVAL));
    assert_eq!(start_versioned(&other, "inproc://m", PIPES_STATS, 1, PAIR), refused, "the first version");
    assert_eq!(start_versioned(&other, "inproc://m", 1, 3, PAIR), refused, "a version that is none");
    assert_eq!(start_versioned(&other, "inproc://m", 1, 2, PULL), refused, "a type that cannot tell");
    assert_eq!(start_versioned(&other, "tcp://*:*", 1, 2, PAIR), Err(Errno(libc::EPROTONOSUPPORT)));
}
