//! The reactor without its thread: each test calls `turn`. Commands, timers, handshakes and closing.

use std::io::Read as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
