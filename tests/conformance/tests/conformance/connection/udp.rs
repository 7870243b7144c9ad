//! udp:// with DGRAM: datagrams from and to kernel sockets, multicast, and everything that must be dropped.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use support::filler::Chance;
use support::pinnace::{FULL, LIMIT};
use support::*;

/// A DGRAM socket, and its address.
#[track_caller]
fn bound(ctx: &Context, endpoint: &str) -> (Socket, String) {
    let socket = ctx.socket(DGRAM);
    socket.bind(endpoint).unwrap_or_else(|e| panic!("bind {endpoint}: {e:?}"));
    let address = socket.endpoint().trim_start_matches("udp://").to_owned();
    (socket, address)
}

/// A plain kernel socket.
fn plain() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let patience = Duration::from_millis(deadline::PATIENCE_MS as u64);
    socket.set_read_timeout(Some(patience)).expect("a timeout");
    let address = socket.local_addr().expect("bound").to_string();
    (socket, address)
}

#[test]
fn answers_a_socket_of_the_system() {
    let ctx = Context::new();
    let (dgram, address) = bound(&ctx, "udp://127.0.0.1:*");
    let (peer, ours) = plain();
    let mut buffer = [0; 10_000];
    for size in [0, 1, 33, 255, 256, 1472, 8191, 8192] {
        let body = vec![size as u8; size];
        peer.send_to(&body, &address).expect("sent");
        assert_eq!(dgram.rx(), [ours.as_bytes(), &body]);
        dgram.tx(&[ours.as_bytes(), &body]);
        let (got, from) = peer.recv_from(&mut buffer).expect("received");
        assert_eq!((&buffer[..got], from.to_string()), (&body[..], address.clone()));
    }
}

#[test]
fn two_of_them_talk() {
    let ctx = Context::new();
    let (a, at_a) = bound(&ctx, "udp://127.0.0.1:*");
    let (b, at_b) = bound(&ctx, "udp://lo:*");
    for turn in 0..1_000 {
        let word = format!("turn {turn}");
        a.tx(&[&at_b, &word]);
        b.expect(&[&at_a, &word]);
        b.tx(&[&at_a, &word]);
        a.expect(&[&at_b, &word]);
    }
}

#[test]
fn speaks_ipv6() {
    let ctx = Context::new();
    ctx.set(CTX_IPV6, 1).expect("IPV6 for all sockets");
    let (a, at_a) = bound(&ctx, "udp://[::1]:*");
    let (b, at_b) = bound(&ctx, "udp://[::1]:*");
    assert!(at_a.starts_with("[::1]:"), "{at_a}");
    a.tx(&[at_b.as_str(), "six"]);
    b.expect(&[at_a.as_str(), "six"]);
}

/// Datagrams of every size, some above the limit: the large ones are dropped, and the next one arrives.
#[test]
fn drops_what_is_too_large() {
    let ctx = Context::new();
    let (dgram, address) = bound(&ctx, "udp://127.0.0.1:*");
    let (peer, ours) = plain();
    let (mut chance, mut too_large) = (Chance::new(), 0);
    for turn in 0..if child::long() { 20_000 } else { 500 } {
        let size = chance.below(65_508) as usize;
        peer.send_to(&chance.bytes(size), &address).expect("sent");
        if size <= 8192 {
            assert_eq!(dgram.rx()[1].len(), size);
        } else {
            too_large += 1;
        }
        let word = format!("turn {turn}");
        peer.send_to(word.as_bytes(), &address).expect("sent");
        dgram.expect(&[&ours, &word]);
    }
    assert_eq!(dgram.stats().dropped[LIMIT], too_large);
}

/// A message over the limit is not sent; the next one is.
#[test]
fn sends_nothing_too_large() {
    let ctx = Context::new();
    let (dgram, _) = bound(&ctx, "udp://127.0.0.1:*");
    let (peer, ours) = plain();
    let mut buffer = [0; 100_000];
    for size in [8193, 65_507, 65_508, 1_000_000] {
        dgram.tx(&[ours.as_bytes(), &vec![0; size]]);
        dgram.tx(&[ours.as_bytes(), b"small"]);
        let (got, _) = peer.recv_from(&mut buffer).expect("received");
        assert_eq!(&buffer[..got], b"small", "{size} bytes");
    }
    // A datagram is counted after it is sent, and may be received before that.
    until("the last one is counted", || dgram.stats().sent.messages == 4);
    let stats = dgram.stats();
    assert_eq!(stats.dropped[LIMIT], 4);
    let small = 2 + ours.len() as u64 + 2 + 5;
    assert_eq!((stats.sent.messages, stats.sent.bytes), (4, 4 * small), "what was refused was not sent");
}

/// MAXMSGSIZE applies to datagrams.
#[test]
fn keeps_the_size_that_is_set() {
    let ctx = Context::new();
    let dgram = ctx.socket(DGRAM);
    dgram.set_bytes(MAXMSGSIZE, &100i64.to_ne_bytes()).expect("MAXMSGSIZE");
    dgram.bind("udp://127.0.0.1:*").expect("bind");
    let (peer, ours) = plain();
    let address = dgram.endpoint().trim_start_matches("udp://").to_owned();
    for size in [101, 8192, 100] {
        peer.send_to(&vec![1; size], &address).expect("sent");
    }
    assert_eq!(dgram.rx(), [ours.as_bytes(), &[1; 100]]);
}

/// A slow receiver loses the datagrams above its high-water mark, delays no sender, and continues afterwards.
#[test]
fn drops_what_there_is_no_room_for() {
    let ctx = Context::new();
    let dgram = ctx.socket(DGRAM).hwm(10);
    dgram.bind("udp://127.0.0.1:*").expect("bind");
    let address = dgram.endpoint().trim_start_matches("udp://").to_owned();
    let (peer, ours) = plain();
    for n in 0..10_000u32 {
        peer.send_to(&n.to_ne_bytes(), &address).expect("sent");
    }
    let mut count = 0;
    until("the new one comes", || {
        peer.send_to(b"new", &address).expect("sent");
        let mut new = false;
        while let Ok(parts) = dgram.recv_parts(DONTWAIT) {
            assert_eq!(parts[0], ours.as_bytes());
            new |= parts[1] == b"new";
            count += 1;
        }
        new
    });
    assert!(count < 9_000, "{count} datagrams were kept with a mark of 10");
    assert!(dgram.stats().dropped[FULL] > 0);
}

/// An unreachable address costs only its own datagram.
#[test]
fn survives_addresses_that_lead_nowhere() {
    let ctx = Context::new();
    let (dgram, _) = bound(&ctx, "udp://127.0.0.1:*");
    let (peer, ours) = plain();
    let mut buffer = [0; 100];
    for address in
        ["127.0.0.1:1", "127.0.0.1:0", "0.0.0.0:9", "[::1]:9", "255.255.255.255:9", "203.0.113.1:9"]
    {
        dgram.tx(&[address, "lost"]);
        dgram.tx(&[&ours, address]);
        let (got, _) = peer.recv_from(&mut buffer).expect("received");
        assert_eq!(&buffer[..got], address.as_bytes());
    }
}

#[test]
fn refuses_what_is_no_message_of_its() {
    let ctx = Context::new();
    let (dgram, _) = bound(&ctx, "udp://127.0.0.1:*");
    let (peer, ours) = plain();
    assert_eq!(dgram.send(&ours, 0), Err(Errno(libc::EINVAL)), "an address alone");
    for address in ["", "localhost", "localhost:1", "127.0.0.1", "127.0.0.1:99999", "\u{1F600}:1"] {
        assert_eq!(dgram.send(address, SNDMORE), Err(Errno(libc::EINVAL)), "{address}");
    }
    dgram.send(&ours, SNDMORE).expect("an address");
    assert_eq!(dgram.send("one", SNDMORE), Err(Errno(libc::EINVAL)), "a third frame");
    dgram.send("the body", 0).expect("a body");
    let mut buffer = [0; 100];
    let (got, _) = peer.recv_from(&mut buffer).expect("received");
    assert_eq!(&buffer[..got], b"the body");
    // All frames are accepted at once, or none.
    let frames = [ours.as_bytes(), b"one", b"too many"];
    assert_eq!(dgram.send_whole(&frames, 0), Err(Errno(libc::EINVAL)), "a third frame");
    dgram.send_whole(&frames[..2], 0).expect("a message");
    let (got, _) = peer.recv_from(&mut buffer).expect("received");
    assert_eq!(&buffer[..got], b"one");
}

/// Each socket type supports udp in its own direction only, and DGRAM supports only udp.
#[test]
fn refuses_other_types_and_directions() {
    let ctx = Context::new();
    for kind in [PAIR, PUB, SUB, REQ, REP, DEALER, ROUTER, PULL, PUSH, XPUB, XSUB] {
        let socket = ctx.socket(kind);
        assert_eq!(socket.bind("udp://127.0.0.1:*"), Err(Errno(ENOCOMPATPROTO)), "bind of {kind}");
        assert_eq!(socket.connect("udp://127.0.0.1:9"), Err(Errno(ENOCOMPATPROTO)), "connect of {kind}");
    }
    let dgram = ctx.socket(DGRAM);
    assert_eq!(dgram.connect("udp://127.0.0.1:9"), Err(Errno(ENOCOMPATPROTO)));
    for endpoint in [Transport::Tcp.fresh(), Transport::Ipc.fresh(), Transport::Inproc.fresh()] {
        assert_eq!(dgram.bind(&endpoint), Err(Errno(ENOCOMPATPROTO)), "{endpoint}");
        assert_eq!(dgram.connect(&endpoint), Err(Errno(ENOCOMPATPROTO)), "{endpoint}");
    }
}

#[test]
fn refuses_endpoints_that_are_none() {
    let ctx = Context::new();
    for (endpoint, errno) in [
        ("udp://127.0.0.1", libc::EINVAL),
        ("udp://:1", libc::EINVAL),
        ("udp://127.0.0.1:65536", libc::EINVAL),
        ("udp://lo;127.0.0.1:*", libc::EINVAL),
        ("udp://239.0.0.1;239.0.0.1:*", libc::EINVAL),
        ("udp://no-such-interface;239.0.0.1:*", libc::ENODEV),
        ("udp://203.0.113.1:*", libc::EADDRNOTAVAIL),
    ] {
        assert_eq!(ctx.socket(DGRAM).bind(endpoint), Err(Errno(errno)), "{endpoint}");
    }
    let (first, address) = bound(&ctx, "udp://127.0.0.1:*");
    assert_eq!(ctx.socket(DGRAM).bind(&format!("udp://{address}")), Err(Errno(libc::EADDRINUSE)));
    first.unbind(&format!("udp://{address}")).expect("unbind");
    let second = ctx.socket(DGRAM);
    until("the address is free", || second.bind(&format!("udp://{address}")).is_ok());
}

/// Both members of a group receive what is sent to it, and not what is sent to their port in other ways.
#[test]
fn joins_a_multicast_group() {
    let ctx = Context::new();
    let port = UdpSocket::bind("0.0.0.0:0").and_then(|probe| probe.local_addr()).expect("a port").port();
    let group = format!("239.17.{}.1", std::process::id() % 250);
    for interface in ["lo", "127.0.0.1"] {
        let endpoint = format!("udp://{interface};{group}:{port}");
        let ((a, _), (b, _)) = (bound(&ctx, &endpoint), bound(&ctx, &endpoint));
        let sender = UdpSocket::bind("127.0.0.1:0").expect("bind");
        sender.set_multicast_loop_v4(true).expect("loop");
        sender.send_to(b"to the port", (Ipv4Addr::LOCALHOST, port)).expect("sent");
        let (out, _) = bound(&ctx, &format!("udp://{interface};{group}:{}", port.wrapping_add(1).max(1024)));
        out.tx(&[format!("{group}:{port}").as_str(), "to all"]);
        for member in [&a, &b] {
            assert_eq!(member.rx()[1], b"to all", "{interface}: not what was sent to the port alone");
        }
    }
}
