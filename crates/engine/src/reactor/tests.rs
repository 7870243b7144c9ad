//! The reactor without its thread: each test calls `turn`. Commands, timers, handshakes and closing.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pinnace_ring::Frame;
use pinnace_sys::Errno;
use pinnace_sys::poll::Batch;
use pinnace_zmtp::SocketType;

use super::scripted::{Dialer, Rig, message};
use super::{Entry, Reactor, TIMER_RESOLUTION};
use crate::endpoint::{Endpoint, Role};
use crate::error::Error;
use crate::io::{Command, Io, Listener};
use crate::link::scripted::{Read, Script};
use crate::pipe::Outgoing;
use crate::socket::Socket;
use crate::transports::Bound;

const PAIR: SocketType = SocketType::Pair;
const PUSH: SocketType = SocketType::Push;
const CONFLATE: i32 = 54;
const HANDSHAKE_IVL: i32 = 66;
const SOON: Duration = Duration::from_micros(10);

fn reactor() -> Reactor {
    Reactor::new(Io::new().unwrap())
}

#[test]
fn a_command_that_waits_keeps_it_from_waiting() {
    let mut reactor = reactor();
    assert!(reactor.io.begins_wait());
    reactor.io.ends_wait();
    reactor.io.send(Command::EndLinger);
    assert!(!reactor.io.begins_wait());
    reactor.io.ends_wait();
    assert!(!reactor.turn(&Batch::new()) && reactor.linger_ended);
    reactor.io.send(Command::Stop);
    assert!(reactor.turn(&Batch::new()));
}

#[test]
fn a_command_to_one_that_waits_wakes_it_once() {
    let reactor = reactor();
    let mut ready = Batch::new();
    reactor.io.send(Command::EndLinger);
    reactor.io.poller().wait(&mut ready, Some(Duration::ZERO)).unwrap();
    assert!(ready.is_empty(), "it did not wait");
    reactor.io.take_commands();
    assert!(reactor.io.begins_wait());
    reactor.io.send(Command::EndLinger);
    reactor.io.send(Command::EndLinger);
    reactor.io.poller().wait(&mut ready, Some(Duration::ZERO)).unwrap();
    assert_eq!(ready.iter().count(), 1);
}

#[test]
fn timers_within_a_millisecond_share_a_wake_up() {
    let mut reactor = reactor();
    assert_eq!(reactor.timeout(), None);
    reactor.timers.set(7, Instant::now() + SOON);
    let timeout = reactor.timeout().unwrap();
    assert!(timeout > SOON && timeout <= TIMER_RESOLUTION, "{timeout:?}");
    reactor.timers.set(7, Instant::now() - SOON);
    assert_eq!(reactor.timeout(), Some(Duration::ZERO), "what is due is not put off");
    reactor.timers.clear(7);
    assert_eq!(reactor.timeout(), None);
}

#[test]
fn timers_come_in_their_order_and_the_last_time_set_counts() {
    let mut reactor = reactor();
    let now = Instant::now();
    for (token, after) in [(1, 30), (2, 10), (3, 20), (1, 5)] {
        reactor.timers.set(token, now + Duration::from_millis(after));
    }
    let later = now + Duration::from_millis(100);
    let due: Vec<u64> = std::iter::from_fn(|| reactor.timers.due(later)).collect();
    assert_eq!(due, [1, 2, 3]);
}

#[test]
fn a_lost_connection_leaves_its_socket() {
    let mut rig = Rig::new(PAIR);
    rig.script.reads([Read::Bytes(message(b"last")), Read::End]);
    assert_eq!((rig.peers(), rig.reactor.links.len()), (1, 1));
    rig.link.read();
    rig.link.read();
    rig.turn();
    assert_eq!((rig.recv(), rig.recv()), (Ok(b"last".to_vec()), Err(Error::WouldBlock)));
    assert_eq!((rig.peers(), rig.reactor.links.len()), (0, 0));
}

#[test]
fn a_close_waits_for_what_is_left_as_long_as_the_linger_says() {
    let mut rig = Rig::new(PAIR);
    rig.script.writes(std::iter::repeat_n(Err(Errno::AGAIN), 10_000));
    rig.send(b"left").unwrap();
    rig.link.flush();
    assert!(rig.link.is_blocked());
    let done = Arc::new(AtomicBool::new(false));
    let tell = done.clone();
    let over = Box::new(move || tell.store(true, Ordering::SeqCst));
    rig.reactor.io.send(Command::Close(rig.owner.mailbox.clone(), Some(SOON), over));
    rig.turn();
    let start = Instant::now();
    while !done.load(Ordering::SeqCst) {
        assert!(start.elapsed() < Duration::from_secs(10), "the linger does not end");
        rig.turn();
    }
    assert_eq!(rig.script.take_written(), b"");
}

/// Binds the socket in the reactor, connects a TCP client that sends nothing, and accepts it. Returns the client and
/// the token of its handshake.
fn silent_client(rig: &mut Rig) -> (TcpStream, u64) {
    let endpoint = Endpoint::parse("tcp://127.0.0.1:*", Role::Bind).unwrap();
    let bound = Arc::new(Bound::new(&endpoint, &rig.owner.options).unwrap());
    let stream = TcpStream::connect(bound.endpoint.trim_start_matches("tcp://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let token = rig.reactor.io.token();
    rig.reactor.listen(Box::new(Listener { token, owner: rig.owner.clone(), bound }));
    rig.reactor.accept(token);
    let accepted = rig.reactor.entries.iter().find(|(_, entry)| matches!(entry, Entry::Accepted(_)));
    (stream, *accepted.expect("a handshake").0)
}

#[test]
fn a_handshake_that_takes_too_long_is_cut() {
    let set = |socket: crate::socket::Socket| socket.set_option(HANDSHAKE_IVL, &1i32.to_ne_bytes()).unwrap();
    let mut rig = Rig::with(PAIR, set);
    let (mut stream, token) = silent_client(&mut rig);
    let start = Instant::now();
    while rig.reactor.entries.contains_key(&token) {
        assert!(start.elapsed() < Duration::from_secs(10), "the handshake goes on");
        rig.turn();
    }
    let mut greeting = Vec::new();
    stream.read_to_end(&mut greeting).unwrap();
    assert!(greeting.starts_with(&[0xFF]), "{greeting:?}");
}

#[test]
fn handshakes_end_with_their_listener() {
    let mut rig = Rig::new(PAIR);
    let (mut stream, token) = silent_client(&mut rig);
    let listener = rig.reactor.entries.iter().find(|(_, entry)| matches!(entry, Entry::Listener(_)));
    let listener = *listener.expect("a listener").0;
    rig.reactor.io.send(Command::End(rig.owner.mailbox.clone(), listener, Some(Duration::ZERO)));
    rig.turn();
    assert!(!rig.reactor.entries.contains_key(&token) && !rig.reactor.entries.contains_key(&listener));
    stream.read_to_end(&mut Vec::new()).unwrap();
}

fn dialer(conflate: i32) -> Dialer {
    Dialer::with(PUSH, |socket| socket.set_option(CONFLATE, &conflate.to_ne_bytes()).unwrap())
}

/// A sending call has read its notices when `meanwhile` runs, and puts its message into the queue afterwards.
fn send_after(dialer: &mut Dialer, meanwhile: impl FnOnce(&mut Dialer) -> Arc<Script>) -> Arc<Script> {
    let socket = dialer.socket;
    let sent = socket.call(false, |core| {
        let script = meanwhile(dialer);
        core.pattern.send(&mut core.pipes, &mut Outgoing::Bytes(b"late"), false)?;
        Ok(script)
    });
    sent.unwrap()
}

#[test]
fn a_message_that_is_sent_while_its_connection_is_made_is_written() {
    for conflate in [0, 1] {
        let mut dialer = dialer(conflate);
        let script = send_after(&mut dialer, Dialer::connected);
        assert_eq!(script.take_written(), message(b"late"), "ZMQ_CONFLATE {conflate}");
    }
}

#[test]
fn a_message_that_is_sent_while_its_connection_is_replaced_is_written() {
    for conflate in [0, 1] {
        let mut dialer = dialer(conflate);
        let first = dialer.connected();
        let second = send_after(&mut dialer, |dialer| {
            dialer.lost();
            dialer.connected()
        });
        assert_eq!(first.take_written(), b"");
        assert_eq!(second.take_written(), message(b"late"), "ZMQ_CONFLATE {conflate}");
    }
}

/// Receives a name and a body, each by one call of `recv`.
fn named_message(
    mut recv: impl FnMut(&mut dyn FnMut(Frame<'_>)) -> Result<bool, Error>,
) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let [mut name, mut body] = [Vec::new(), Vec::new()];
    recv(&mut |frame| name = frame.data().to_vec())?;
    recv(&mut |frame| body = frame.data().to_vec())?;
    Ok((name, body))
}

/// All messages: the name of the sender by the body.
fn named_messages(socket: Socket) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let next = || named_message(|sink| socket.recv(false, sink)).ok();
    std::iter::from_fn(next).map(|(name, body)| (body, name)).collect()
}

fn message_of(name: &[u8], body: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    BTreeMap::from([(body.to_vec(), name.to_vec())])
}

/// The call has read its notices when the peer is replaced.
#[test]
fn a_router_that_receives_while_its_peer_is_replaced_names_the_new_one() {
    let mut dialer = Dialer::with(SocketType::Router, |_| {});
    let socket = dialer.socket;
    let first = dialer.connected_to(b"first", &[b"one"]);
    assert_eq!(named_messages(socket), message_of(b"first", b"one"));
    // From now on the list of readable pipes has the pipe: it was not parked.
    dialer.receives(&first, &[b"two"]);
    assert_eq!(named_message(|sink| socket.recv(false, sink)), Ok((b"first".to_vec(), b"two".to_vec())));
    let meanwhile = socket.call(false, |core| {
        dialer.lost();
        dialer.connected_to(b"second", &[b"three"]);
        named_message(|sink| core.pattern.recv(&mut core.pipes, sink))
    });
    let received: BTreeMap<_, _> = meanwhile.map(|(name, body)| (body, name)).into_iter().collect();
    let expected = message_of(b"second", b"three");
    assert!(
        received == expected || (received.is_empty() && named_messages(socket) == expected),
        "{received:?}"
    );
}

/// A call that has read its notices sends these frames after the peer is replaced: they are lost, and counted.
fn sends_to_nobody(mut dialer: Dialer, frames: &[&[u8]]) {
    let socket = dialer.socket;
    let script = socket.call(false, |core| {
        dialer.lost();
        let script = dialer.connected_to(b"second", &[]);
        for (index, frame) in frames.iter().enumerate() {
            let more = index + 1 < frames.len();
            core.pattern.send(&mut core.pipes, &mut Outgoing::Bytes(frame), more)?;
        }
        Ok(script)
    });
    socket.call(false, |_| Ok(())).unwrap();
    assert_eq!(script.unwrap().take_written(), b"");
    assert_eq!(socket.drops().unwrap().total(), 1);
}

#[test]
fn a_message_that_is_sent_while_its_peer_is_replaced_goes_to_nobody() {
    let mut dialer = Dialer::with(SocketType::Router, |_| {});
    dialer.connected_to(b"first", &[b"hello"]);
    assert_eq!(named_messages(dialer.socket), message_of(b"first", b"hello"));
    sends_to_nobody(dialer, &[b"first", b"late"]);
}

#[test]
fn a_reply_that_is_sent_while_its_peer_is_replaced_goes_to_nobody() {
    let mut dialer = Dialer::with(SocketType::Rep, |_| {});
    let first = dialer.connected_to(b"first", &[]);
    dialer.receives(&first, &[b"", b"question"]);
    assert_eq!(dialer.socket.recv(false, &mut |_| {}), Ok(false));
    sends_to_nobody(dialer, &[b"answer"]);
}

/// The socket makes no call while its peers come and go.
#[test]
fn a_router_names_the_senders_of_unread_messages_of_any_number_of_connections() {
    let mut dialer = Dialer::with(SocketType::Router, |_| {});
    let peers: [(&[u8], &[&[u8]]); 6] = [
        (b"a", &[b"1", b"2"]),
        (b"b", &[]),
        (b"c", &[b"3"]),
        (b"", &[b"4"]),
        (b"d", &[]),
        (b"a", &[b"5", b"6"]),
    ];
    for (index, (name, messages)) in peers.into_iter().enumerate() {
        if index > 0 {
            dialer.lost();
        }
        dialer.connected_to(name, messages);
    }
    let mut received = named_messages(dialer.socket);
    let nameless = received.remove(&b"4"[..]).expect("a message");
    assert_eq!((nameless.len(), nameless[0]), (5, 0));
    let name = |body: &[u8]| received[body].clone();
    let names = [b"1", b"2", b"3", b"5", b"6"].map(|body| name(body));
    assert_eq!(names, [b"a", b"a", b"c", b"a", b"a"]);
    assert_eq!(dialer.socket.stats().unwrap().peers.len(), 1, "the others have ended");
}
