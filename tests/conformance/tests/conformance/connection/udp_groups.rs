//! udp:// with RADIO and DISH: the wire format, multicast, and hostile datagrams.

use std::net::UdpSocket;
use std::time::Duration;

use support::filler::Chance;
use support::pinnace::{LIMIT, MALFORMED};
use support::*;

/// A DISH that has joined "news", and its address.
fn dish(ctx: &Context) -> (Socket, String) {
    let dish = ctx.socket(DISH);
    dish.join_group("news").expect("join");
    dish.bind("udp://127.0.0.1:*").expect("bind");
    let endpoint = dish.endpoint();
    (dish, endpoint)
}

fn plain() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let patience = Duration::from_millis(deadline::PATIENCE_MS as u64);
    socket.set_read_timeout(Some(patience)).expect("a timeout");
    socket
}

#[track_caller]
fn hears(dish: &Socket, text: &str) {
    assert_eq!(dish.take_group(), ("news".to_owned(), text.as_bytes().to_vec()));
}

/// Messages of the joined group arrive, others do not.
#[test]
fn a_radio_reaches_a_dish() {
    let ctx = Context::new();
    let (dish, endpoint) = dish(&ctx);
    let radio = ctx.socket(RADIO);
    radio.connect(&endpoint).expect("connect");
    for turn in 0..500 {
        let text = format!("turn {turn}");
        radio.send_group("other", "not this", 0).expect("sent");
        radio.send_group("news", &text, 0).expect("sent");
        hears(&dish, &text);
    }
}

/// On the wire: the group's length, the group, the body.
#[test]
fn the_wire_has_the_form_of_libzmq() {
    let ctx = Context::new();
    let receiver = plain();
    let radio = ctx.socket(RADIO);
    radio.connect(&format!("udp://{}", receiver.local_addr().expect("bound"))).expect("connect");
    let mut buffer = [0; 10_000];
    for (group, body) in
        [("a", &b"body"[..]), ("", b"x"), ("long group", b""), (&"g".repeat(255), &[7; 7936])]
    {
        radio.send_group(group, body, 0).expect("sent");
        let size = receiver.recv(&mut buffer).expect("received");
        let wanted = [&[group.len() as u8], group.as_bytes(), body].concat();
        assert_eq!(buffer[..size], wanted);
    }
    // A datagram one byte above the maximum is not sent.
    radio.send_group("ab", vec![0; 8190], 0).expect("taken");
    radio.send_group("ab", vec![1; 8189], 0).expect("sent");
    let size = receiver.recv(&mut buffer).expect("received");
    assert_eq!((size, buffer[3]), (8192, 1));
}

/// Datagrams of every length and of any bytes: malformed ones are dropped, and the next valid one arrives.
#[test]
fn hostile_datagrams_cost_themselves_alone() {
    let ctx = Context::new();
    let (dish, endpoint) = dish(&ctx);
    let address = endpoint.trim_start_matches("udp://").to_owned();
    let peer = plain();
    let mut chance = Chance::new();
    let mut lengths: Vec<usize> = (0..600).chain([8191, 8192, 8193, 65_506, 65_507]).collect();
    lengths.extend((0..if child::long() { 20_000 } else { 300 }).map(|_| chance.below(65_508) as usize));
    for (turn, length) in lengths.into_iter().enumerate() {
        peer.send_to(&chance.bytes(length), &address).expect("sent");
        peer.send_to(&[255, b'n'], &address).expect("sent");
        peer.send_to(&[4, b'n', b'e', b'w'], &address).expect("sent");
        let text = format!("turn {turn}");
        peer.send_to(&[b"\x04news", text.as_bytes()].concat(), &address).expect("sent");
        hears(&dish, &text);
    }
    let dropped = dish.stats().dropped;
    assert!(dropped[LIMIT] >= 3 && dropped[MALFORMED] > 900, "{dropped:?}");
}

/// ZMQ_MAXMSGSIZE limits bodies, and a message above it costs only itself.
#[test]
fn a_long_group_ends_nothing() {
    let ctx = Context::new();
    let (dish, endpoint) = dish(&ctx);
    dish.set_bytes(MAXMSGSIZE, &100i64.to_ne_bytes()).expect("MAXMSGSIZE");
    let small = ctx.socket(DISH);
    small.set_bytes(MAXMSGSIZE, &100i64.to_ne_bytes()).expect("MAXMSGSIZE");
    small.join_group("news").expect("join");
    small.bind("udp://127.0.0.1:*").expect("bind");
    for endpoint in [endpoint, small.endpoint()] {
        let address = endpoint.trim_start_matches("udp://").to_owned();
        let peer = plain();
        peer.send_to(&[&[200][..], &[b'g'; 200], b"body"].concat(), &address).expect("sent");
        peer.send_to(&[b"\x04news", &[b'b'; 101][..]].concat(), &address).expect("sent");
        peer.send_to(b"\x04newsgood", &address).expect("sent");
    }
    hears(&small, "good");
    assert_eq!(small.stats().dropped[LIMIT], 1);
}

/// A multicast group: each DISH receives each message once.
#[test]
fn multicast_reaches_all_of_the_group() {
    let ctx = Context::new();
    let port = UdpSocket::bind("0.0.0.0:0").and_then(|probe| probe.local_addr()).expect("a port").port();
    let endpoint = format!("udp://lo;239.17.{}.2:{port}", std::process::id() % 250);
    let dishes: Vec<Socket> = (0..3).map(|_| ctx.socket(DISH)).collect();
    for dish in &dishes {
        dish.join_group("news").expect("join");
        dish.bind(&endpoint).expect("bind");
    }
    let radio = ctx.socket(RADIO);
    radio.connect(&endpoint).expect("connect");
    for turn in 0..20 {
        let text = format!("turn {turn}");
        radio.send_group("news", &text, 0).expect("sent");
        dishes.iter().for_each(|dish| hears(dish, &text));
    }
}

/// A RADIO only sends and a DISH only receives.
#[test]
fn each_has_its_direction() {
    let ctx = Context::new();
    assert_eq!(ctx.socket(RADIO).bind("udp://127.0.0.1:*"), Err(Errno(ENOCOMPATPROTO)));
    assert_eq!(ctx.socket(DISH).connect("udp://127.0.0.1:9"), Err(Errno(ENOCOMPATPROTO)));
    assert_eq!(ctx.socket(RADIO).connect("udp://*:9"), Err(Errno(libc::EINVAL)));
    assert_eq!(ctx.socket(RADIO).connect("udp://lo;127.0.0.1:9"), Err(Errno(libc::EINVAL)));
}
