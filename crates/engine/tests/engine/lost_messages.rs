//! Lost messages are counted by reason, and received plus lost messages add up to the messages sent.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use pinnace_engine::{Context, Drops, Error, Outgoing, Reason, Socket, SocketType};

const PAIR: SocketType = SocketType::Pair;
const PUB: SocketType = SocketType::Pub;
const SUB: SocketType = SocketType::Sub;
const ROUTER: SocketType = SocketType::Router;
const PULL: SocketType = SocketType::Pull;
const PUSH: SocketType = SocketType::Push;

const SUBSCRIBE: i32 = 6;
const LINGER: i32 = 17;
const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
const LAST_ENDPOINT: i32 = 32;
const CONFLATE: i32 = 54;
/// A monitor event.
const DISCONNECTED: u64 = 0x200;

fn set(socket: Socket, option: i32, value: i32) {
    socket.set_option(option, &value.to_ne_bytes()).expect("an option");
}

fn endpoint(socket: Socket) -> String {
    let mut text = [0; 256];
    let len = socket.get_option(LAST_ENDPOINT, &mut text).expect("LAST_ENDPOINT");
    String::from_utf8(text[..len - 1].to_vec()).expect("text")
}

/// A raw PULL or SUB that connects and shakes hands.
fn raw_peer(endpoint: &str, socket_type: &str) -> TcpStream {
    let mut peer = TcpStream::connect(endpoint.trim_start_matches("tcp://")).expect("connect");
    peer.set_read_timeout(Some(Duration::from_secs(20))).expect("a deadline");
    let mut greeting = [0; 64];
    greeting[..12].copy_from_slice(&[0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 1]);
    greeting[12..16].copy_from_slice(b"NULL");
    peer.write_all(&greeting).expect("a greeting");
    let mut ready = b"\x05READY\x0bSocket-Type\0\0\0".to_vec();
    ready.push(socket_type.len() as u8);
    ready.extend_from_slice(socket_type.as_bytes());
    peer.write_all(&[&[4, ready.len() as u8], &ready[..]].concat()).expect("READY");
    let mut theirs = [0; 66];
    peer.read_exact(&mut theirs).expect("a greeting");
    let mut rest = vec![0; theirs[65].into()];
    peer.read_exact(&mut rest).expect("READY");
    peer
}

/// Reads to the end of the stream; returns the number of whole messages of `len` bytes.
fn read_to_end(mut peer: TcpStream, len: usize) -> u64 {
    let mut bytes = Vec::new();
    let _ = peer.read_to_end(&mut bytes);
    (bytes.len() / (len + 9)) as u64
}

fn until(what: &str, mut found: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !found() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Sends without blocking until all messages are sent or there is no room; returns the number sent.
fn send_all(socket: Socket, count: u64, len: usize) -> u64 {
    (0..count).take_while(|_| socket.send(Outgoing::Bytes(&vec![7; len]), false, false).is_ok()).count()
        as u64
}

fn only(drops: &Drops, reasons: &[Reason]) -> u64 {
    let sum: u64 = reasons.iter().map(|&reason| drops.of(reason)).sum();
    assert_eq!(sum, drops.total(), "no other reason: {drops:?}");
    sum
}

/// ZMQ_LINGER expires: messages that the peer's kernel had not taken are counted, and the sum is right.
#[test]
fn a_linger_that_expires() -> Result<(), Error> {
    const LEN: usize = 50_000;
    let context = Context::new()?;
    let push = context.socket(PUSH)?;
    set(push, LINGER, 200);
    push.bind("tcp://127.0.0.1:*")?;
    let peer = raw_peer(&endpoint(push), "PULL");
    until("the peer is known", || push.events().expect("events") != 0);
    let sent = send_all(push, 2_000, LEN);
    assert!(sent > 1_000);
    push.close()?;
    context.terminate()?;
    let lost = only(&context.drops_of_closed(), &[Reason::Expired, Reason::Cut]);
    assert!(lost > 0);
    assert_eq!(read_to_end(peer, LEN) + lost, sent);
    Ok(())
}

/// Messages for a connection that is never made.
#[test]
fn nobody_to_send_to() -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    for linger in [0, 50] {
        let context = Context::new()?;
        let push = context.socket(PUSH)?;
        set(push, LINGER, linger);
        push.connect(&format!("tcp://{address}"))?;
        push.connect("inproc://nobody")?;
        assert_eq!(send_all(push, 100, 100), 100);
        push.close()?;
        context.terminate()?;
        assert_eq!(only(&context.drops_of_closed(), &[Reason::Expired]), 100);
    }
    Ok(())
}

/// An endpoint that is taken back loses its queued messages; the socket that stays open counts them.
#[test]
fn an_endpoint_that_is_taken_back() -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let nowhere = format!("tcp://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let context = Context::new()?;
    let push = context.socket(PUSH)?;
    set(push, LINGER, 0);
    push.connect(&nowhere)?;
    assert_eq!(send_all(push, 70, 100), 70);
    push.disconnect(&nowhere)?;
    until("they are counted", || push.drops().expect("open").of(Reason::Expired) == 70);
    push.connect("inproc://nobody")?;
    assert_eq!(send_all(push, 30, 100), 30);
    push.disconnect("inproc://nobody")?;
    assert_eq!(only(&push.drops()?, &[Reason::Expired]), 100);
    push.close()?;
    context.terminate()
}

/// A socket is closed while it holds messages: each was received or counts as unread.
#[test]
fn a_socket_that_nobody_reads() -> Result<(), Error> {
    for transport in ["tcp://127.0.0.1:*", "inproc://unread"] {
        let context = Context::new()?;
        let (push, pull) = (context.socket(PUSH)?, context.socket(PULL)?);
        pull.bind(transport)?;
        push.connect(&endpoint(pull))?;
        for _ in 0..500 {
            push.send(Outgoing::Bytes(b"message"), false, true)?;
        }
        let mut received = 0;
        for _ in 0..123 {
            pull.recv(true, &mut |_| received += 1)?;
        }
        let monitor = context.socket(PAIR)?;
        pull.monitor(Some("inproc://monitor"), DISCONNECTED, 1, PAIR)?;
        monitor.connect("inproc://monitor")?;
        push.close()?;
        if transport.starts_with("tcp") {
            // When the connection has ended, all its input has arrived.
            while monitor.recv(true, &mut |_| ())? {}
        }
        pull.close()?;
        monitor.close()?;
        context.terminate()?;
        assert_eq!(only(&context.drops_of_closed(), &[Reason::Unread]) + received, 500, "{transport}");
    }
    Ok(())
}

/// A lost peer takes the messages queued for it along.
#[test]
fn a_peer_that_is_lost() -> Result<(), Error> {
    const LEN: usize = 50_000;
    let context = Context::new()?;
    let push = context.socket(PUSH)?;
    set(push, LINGER, 0);
    push.bind("tcp://127.0.0.1:*")?;
    let peer = raw_peer(&endpoint(push), "PULL");
    until("the peer is known", || push.events().expect("events") != 0);
    let sent = send_all(push, 1_000, LEN);
    drop(peer);
    let lost = |drops: &Drops| drops.of(Reason::PeerLost) + drops.of(Reason::Cut);
    until("it is counted", || lost(&push.drops().expect("open")) > 0 && push.events().is_ok());
    let counted = push.drops()?;
    // Messages that the kernel had taken are not counted; all others are.
    assert!(lost(&counted) < sent && counted.total() == lost(&counted), "{counted:?} of {sent}");
    push.close()?;
    context.terminate()
}

/// Inproc: messages sent after the other socket closed.
#[test]
fn a_neighbour_that_closes() -> Result<(), Error> {
    let context = Context::new()?;
    let (push, pull) = (context.socket(PUSH)?, context.socket(PULL)?);
    set(push, SNDHWM, 0);
    pull.bind("inproc://neighbour")?;
    push.connect("inproc://neighbour")?;
    let sender = std::thread::spawn(move || {
        (0..u64::MAX).find(|_| push.send(Outgoing::Bytes(b"x"), false, false).is_err()).expect("it ends")
    });
    let mut received = 0;
    for _ in 0..1_000 {
        pull.recv(true, &mut |_| received += 1)?;
    }
    pull.close()?;
    let sent = sender.join().expect("the sender");
    let drops = context.drops_of_closed();
    let behind = push.drops()?;
    let lost = only(&drops, &[Reason::Unread]) + only(&behind, &[Reason::PeerLost]);
    assert_eq!(received + lost, sent, "{drops:?} {behind:?}");
    push.close()?;
    context.terminate()
}

/// Messages replaced by newer ones.
#[test]
fn conflation_adds_up() -> Result<(), Error> {
    for transport in ["tcp://127.0.0.1:*", "inproc://conflated"] {
        let context = Context::new()?;
        let (push, pull) = (context.socket(PUSH)?, context.socket(PULL)?);
        set(push, CONFLATE, 1);
        set(pull, CONFLATE, 1);
        pull.bind(transport)?;
        push.connect(&endpoint(pull))?;
        for n in 0..5_000u32 {
            push.send(Outgoing::Bytes(&n.to_ne_bytes()), false, true)?;
        }
        let (mut received, mut last) = (0, 0);
        while last != 4_999 {
            pull.recv(true, &mut |frame| {
                last = u32::from_ne_bytes(frame.data().try_into().expect("a number"))
            })?;
            received += 1;
        }
        let lost = only(&push.drops()?, &[Reason::Conflated]) + only(&pull.drops()?, &[Reason::Conflated]);
        assert_eq!(received + lost, 5_000, "{transport}");
        push.close()?;
        pull.close()?;
        context.terminate()?;
        assert_eq!(context.drops_of_closed().total(), lost);
    }
    Ok(())
}

/// A publisher overruns a subscriber that does not read; a ROUTER has no route.
#[test]
fn a_stopped_subscriber_and_no_route() -> Result<(), Error> {
    const LEN: usize = 50_000;
    let context = Context::new()?;
    let (publisher, router) = (context.socket(PUB)?, context.socket(ROUTER)?);
    set(publisher, SNDHWM, 10);
    set(publisher, LINGER, 50);
    publisher.bind("tcp://127.0.0.1:*")?;
    let mut peer = raw_peer(&endpoint(publisher), "SUB");
    peer.write_all(b"\x04\x0a\x09SUBSCRIBE").expect("a subscription");
    let mut sent = 0;
    until("the subscription is known", || {
        publisher.send(Outgoing::Bytes(&vec![7; LEN]), false, false).expect("a publisher takes all");
        sent += 1;
        publisher.drops().expect("open").of(Reason::Full) > 0
    });
    sent += send_all(publisher, 1_000, LEN);
    for _ in 0..10 {
        router.send(Outgoing::Bytes(b"nobody"), true, false)?;
        router.send(Outgoing::Bytes(b"lost"), false, false)?;
    }
    assert_eq!(only(&router.drops()?, &[Reason::Unroutable]), 10);
    publisher.close()?;
    router.close()?;
    context.terminate()?;
    let drops = context.drops_of_closed();
    let arrived = read_to_end(peer, LEN);
    let unheard = sent - arrived - drops.of(Reason::Full) - drops.of(Reason::Expired) - drops.of(Reason::Cut);
    // Messages sent before the subscription had no receiver and are not lost.
    assert!(drops.of(Reason::Full) > 900 && unheard < 100_000 && drops.of(Reason::Expired) > 0, "{drops:?}");
    Ok(())
}

/// A SUB is closed after it read a message ahead that was not received.
#[test]
fn a_message_that_was_looked_for() -> Result<(), Error> {
    let context = Context::new()?;
    let (publisher, sub) = (context.socket(PUB)?, context.socket(SUB)?);
    set(sub, RCVHWM, 0);
    publisher.bind("inproc://looked")?;
    sub.connect("inproc://looked")?;
    sub.set_option(SUBSCRIBE, b"A")?;
    for _ in 0..3 {
        publisher.send(Outgoing::Bytes(b"A"), false, true)?;
    }
    assert_eq!(sub.events()? & 1, 1);
    sub.close()?;
    assert_eq!(only(&context.drops_of_closed(), &[Reason::Unread]), 3);
    publisher.close()?;
    context.terminate()
}
