//! Messages lost by the draft socket types are counted by reason, and the counts add up to the messages sent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pinnace_engine::{Context, Error, Label, Outgoing, Reason, Socket, SocketType};

const SERVER: SocketType = SocketType::Server;
const CLIENT: SocketType = SocketType::Client;
const RADIO: SocketType = SocketType::Radio;
const DISH: SocketType = SocketType::Dish;
const GATHER: SocketType = SocketType::Gather;
const SCATTER: SocketType = SocketType::Scatter;
const PEER: SocketType = SocketType::Peer;
const CHANNEL: SocketType = SocketType::Channel;

const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const RCVTIMEO: i32 = 27;
const LAST_ENDPOINT: i32 = 32;

type Result = std::result::Result<(), Error>;

fn socket(context: &Context, kind: SocketType) -> std::result::Result<Socket, Error> {
    let socket = context.socket(kind)?;
    socket.set_option(RCVTIMEO, &20_000i32.to_ne_bytes())?;
    Ok(socket)
}

/// A raw TCP peer of this socket, after a handshake as `name`.
fn meet(socket: Socket, name: &str) -> std::result::Result<TcpStream, Error> {
    socket.bind("tcp://127.0.0.1:*")?;
    let mut endpoint = [0; 64];
    let len = socket.get_option(LAST_ENDPOINT, &mut endpoint)?;
    let address = std::str::from_utf8(&endpoint[6..len - 1]).expect("text");
    let mut peer = TcpStream::connect(address).expect("connect");
    peer.set_read_timeout(Some(Duration::from_secs(20))).expect("a deadline");
    let mut hello = vec![0; 64];
    hello[..16].copy_from_slice(b"\xff\0\0\0\0\0\0\0\0\x7f\x03\x01NULL");
    hello.extend([4, (22 + name.len()) as u8]);
    hello.extend(b"\x05READY\x0bSocket-Type\0\0\0");
    hello.push(name.len() as u8);
    hello.extend(name.as_bytes());
    peer.write_all(&hello).expect("it is taken");
    let mut theirs = [0; 66];
    peer.read_exact(&mut theirs).expect("a greeting");
    peer.read_exact(&mut vec![0; theirs[65].into()]).expect("READY");
    Ok(peer)
}

/// One frame of a message, in the short form.
fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    [&[flags, body.len() as u8], body].concat()
}

fn take(socket: Socket) -> std::result::Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    socket.recv(true, &mut |frame| bytes.extend_from_slice(frame.data()))?;
    Ok(bytes)
}

fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "in vain");
        std::thread::yield_now();
    }
}

fn group(name: &str) -> Label {
    Label { group: name.into(), ..Label::default() }
}

#[test]
fn parts_are_counted() -> Result {
    let types =
        [(SERVER, "CLIENT"), (CLIENT, "SERVER"), (GATHER, "SCATTER"), (PEER, "PEER"), (CHANNEL, "CHANNEL")];
    for (kind, peer_name) in types {
        let context = Context::new()?;
        let socket = socket(&context, kind)?;
        let mut peer = meet(socket, peer_name)?;
        for _ in 0..3 {
            peer.write_all(&[frame(1, b"a"), frame(1, b"b"), frame(0, b"c")].concat()).expect("taken");
        }
        peer.write_all(&frame(0, b"whole")).expect("taken");
        assert_eq!(take(socket)?, b"whole");
        assert_eq!((socket.drops()?.of(Reason::Malformed), socket.drops()?.total()), (3, 3), "{peer_name}");
        socket.close()?;
        context.terminate()?;
    }
    Ok(())
}

#[test]
fn what_a_dish_does_not_want_is_counted() -> Result {
    let context = Context::new()?;
    let dish = socket(&context, DISH)?;
    dish.join(b"g", true)?;
    let mut peer = meet(dish, "RADIO")?;
    let mut send = |parts: &[&[u8]]| {
        let last = parts.len() - 1;
        let frames: Vec<u8> =
            (0..).zip(parts).flat_map(|(n, part)| frame(u8::from(n < last), part)).collect();
        peer.write_all(&frames).expect("taken");
    };
    (0..5).for_each(|_| send(&[b"other", b"x"]));
    (0..2).for_each(|_| send(&[b"g"]));
    (0..3).for_each(|_| send(&[b"g", b"x", b"y"]));
    send(&[b"g", b"right"]);
    assert_eq!(take(dish)?, b"right");
    let drops = dish.drops()?;
    assert_eq!((drops.of(Reason::Unwanted), drops.of(Reason::Malformed), drops.total()), (5, 5, 10));
    // Found by polling, then no longer wanted.
    send(&[b"g", b"too late"]);
    until(|| dish.events().is_ok_and(|events| events & pinnace_engine::POLLIN != 0));
    dish.join(b"g", false)?;
    assert_eq!(dish.drops()?.of(Reason::Unwanted), 6);
    dish.close()?;
    context.terminate()
}

#[test]
fn a_radio_counts_what_a_full_dish_misses() -> Result {
    const COUNT: u64 = 5_000;
    let context = Context::new()?;
    let (radio, dish) = (socket(&context, RADIO)?, socket(&context, DISH)?);
    radio.set_option(SNDHWM, &10i32.to_ne_bytes())?;
    dish.set_option(RCVHWM, &10i32.to_ne_bytes())?;
    dish.set_option(RCVTIMEO, &300i32.to_ne_bytes())?;
    dish.join(b"g", true)?;
    radio.bind("tcp://127.0.0.1:*")?;
    let mut endpoint = [0; 64];
    let len = radio.get_option(LAST_ENDPOINT, &mut endpoint)?;
    dish.connect(std::str::from_utf8(&endpoint[..len - 1]).expect("text"))?;
    radio.wait_subscribers(b"g", 1, Some(Duration::from_secs(20)))?;
    for n in 0..COUNT {
        let body = [n as u8; 10_000];
        radio.send_labelled(Outgoing::Bytes(&body), &group("g"), false, true)?;
        radio.send_labelled(Outgoing::Bytes(&body), &group("nobody"), false, true)?;
    }
    let mut heard = 0;
    while take(dish).is_ok() {
        heard += 1;
    }
    let drops = radio.drops()?;
    assert!(heard < COUNT, "the mark holds");
    assert_eq!((drops.of(Reason::Full), drops.total()), (COUNT - heard, COUNT - heard));
    assert_eq!(dish.drops()?.total(), 0);
    radio.close()?;
    dish.close()?;
    context.terminate()
}

#[test]
fn a_radio_counts_what_is_no_group() -> Result {
    let context = Context::new()?;
    let radio = socket(&context, RADIO)?;
    let mut peer = meet(radio, "DISH")?;
    let mut long = vec![6, 0, 0, 0, 0, 0, 0, 1, 5];
    long.extend(b"\x04JOIN");
    long.extend([b'x'; 256]);
    peer.write_all(&long).expect("taken");
    (0..4).for_each(|_| peer.write_all(&[frame(1, b"not"), frame(0, b"wanted")].concat()).expect("taken"));
    peer.write_all(&frame(4, b"\x04JOINg")).expect("taken");
    radio.wait_subscribers(b"g", 1, Some(Duration::from_secs(20)))?;
    let drops = radio.drops()?;
    assert_eq!((drops.of(Reason::Limit), drops.of(Reason::Unwanted), drops.total()), (1, 4, 5));
    radio.close()?;
    context.terminate()
}

#[test]
fn what_a_scatter_is_sent_is_counted() -> Result {
    let context = Context::new()?;
    let scatter = socket(&context, SCATTER)?;
    let mut peer = meet(scatter, "GATHER")?;
    (0..7).for_each(|_| peer.write_all(&frame(0, b"x")).expect("taken"));
    until(|| scatter.events().is_ok() && scatter.drops().is_ok_and(|drops| drops.of(Reason::Unwanted) == 7));
    scatter.close()?;
    context.terminate()
}

/// A caller can wait until the groups of a DISH have reached the RADIO.
#[test]
fn groups_can_be_waited_for() -> Result {
    let context = Context::new()?;
    let (radio, dish) = (socket(&context, RADIO)?, socket(&context, DISH)?);
    for endpoint in ["inproc://groups", "tcp://127.0.0.1:*"] {
        radio.bind(endpoint)?;
        let mut endpoint = [0; 64];
        let len = radio.get_option(LAST_ENDPOINT, &mut endpoint)?;
        dish.connect(std::str::from_utf8(&endpoint[..len - 1]).expect("text"))?;
    }
    (0..100).try_for_each(|n| dish.join(format!("{n}").as_bytes(), true))?;
    dish.wait_subscribed(Some(Duration::from_secs(20)))?;
    radio.wait_subscribers(b"99", 2, Some(Duration::from_secs(20)))?;
    assert_eq!(radio.wait_subscribers(b"100", 1, Some(Duration::from_millis(20))), Err(Error::WouldBlock));
    radio.send_labelled(Outgoing::Bytes(b"x"), &group("99"), false, true)?;
    for _ in 0..2 {
        let received = dish.recv_labelled(true, &mut |frame| assert_eq!(frame.data(), b"x"))?;
        assert_eq!((received.more, received.label), (false, group("99")));
    }
    radio.close()?;
    dish.close()?;
    context.terminate()
}
