//! A connection that is lost while its socket or endpoint lingers: the library reconnects and the rest arrives, or
//! the rest is counted if it cannot reconnect.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use support::filler::{number_of, numbered};
use support::peer::{RawListener, RawPeer};
use support::pinnace::{EXPIRED, Leftover, REASONS};
use support::*;

over_wires!(
    a_close_goes_on_with_the_next_connection,
    a_disconnect_goes_on_with_the_next_connection,
    a_connection_that_is_lost_at_the_close_is_made_again,
    a_heartbeat_that_is_missed_makes_the_next_connection,
    connections_are_lost_again_and_again,
    a_linger_ends_between_two_connections,
    nothing_is_dialed_for_when_all_was_sent,
);

const BODY: usize = 10_000;
/// More than the kernels of both sides hold.
const COUNT: u64 = 3_000;

/// A PUSH that reconnects soon and has no high-water mark.
fn sender(ctx: &Context, linger_ms: i32) -> Socket {
    ctx.socket(PUSH).hwm(0).with(LINGER, linger_ms).with(RECONNECT_IVL, 10)
}

/// Accepts the next connection, as a PULL.
#[track_caller]
fn receiver(listener: &RawListener) -> RawPeer {
    let mut peer = listener.accept();
    peer.handshake(1, "PULL");
    peer
}

/// Connects a PUSH with more messages than its peer takes: the peer has read one, the rest waits.
#[track_caller]
fn behind_a_slow_peer(push: &Socket, listener: &RawListener) -> RawPeer {
    push.connect(&listener.endpoint()).expect("connect");
    let mut peer = receiver(listener);
    (0..COUNT).for_each(|n| push.put(numbered(n, BODY)));
    assert_eq!(number_of(&peer.read_message()), 0);
    peer
}

/// Reads to the last message, and checks that all are whole and none is missing. Returns the first one's number.
#[track_caller]
fn read_to_the_last(peer: &mut RawPeer) -> u64 {
    let first = number_of(&peer.read_message());
    for number in first + 1..COUNT {
        assert_eq!(number_of(&peer.read_message()), number, "in order");
    }
    assert!(peer.expect_end().is_empty());
    first
}

fn end(ctx: Context) -> JoinHandle<Leftover> {
    std::thread::spawn(move || ctx.term_within(-1).expect("an end"))
}

/// The sender closes, its context terminates, and then its connection is lost.
fn closed_and_cut_off(transport: Transport) -> (RawListener, JoinHandle<Leftover>) {
    let ctx = Context::new();
    let (push, listener) = (sender(&ctx, -1), RawListener::bind(transport));
    let peer = behind_a_slow_peer(&push, &listener);
    push.close().expect("close");
    let ended = end(ctx);
    drop(peer);
    (listener, ended)
}

fn a_close_goes_on_with_the_next_connection(transport: Transport) {
    let (listener, ended) = closed_and_cut_off(transport);
    // Only messages that the kernels held are lost with the connection.
    assert!((1..COUNT).contains(&read_to_the_last(&mut receiver(&listener))));
    let left = ended.join().expect("an end");
    assert_eq!((left.messages, left.lost), (0, [0; REASONS]));
}

/// The socket stays open and reports what became of each message.
fn a_disconnect_goes_on_with_the_next_connection(transport: Transport) {
    let ctx = Context::new();
    let (push, listener) = (sender(&ctx, -1), RawListener::bind(transport));
    let peer = behind_a_slow_peer(&push, &listener);
    push.disconnect(&listener.endpoint()).expect("disconnect");
    drop(peer);
    assert!((1..COUNT).contains(&read_to_the_last(&mut receiver(&listener))));
    until("the peer has ended", || push.send("nobody", DONTWAIT).is_err() && push.peers().is_empty());
    let stats = push.stats();
    assert_eq!((stats.sent.messages, stats.sent.queued, stats.dropped), (COUNT, 0, [0; REASONS]));
    assert_eq!((stats.handshakes_succeeded, stats.ended_peers), (2, 1));
    assert!(!listener.knocked(150), "it does not come again");
}

/// The I/O thread may notice the loss before the close or after it.
fn a_connection_that_is_lost_at_the_close_is_made_again(transport: Transport) {
    for turn in 0..20 {
        let ctx = Context::new();
        let (push, listener) = (sender(&ctx, -1), RawListener::bind(transport));
        let peer = behind_a_slow_peer(&push, &listener);
        let losing = std::thread::spawn(move || drop(peer));
        if turn % 2 == 0 {
            losing.join().expect("lost");
            push.close().expect("close");
        } else {
            push.close().expect("close");
            losing.join().expect("lost");
        }
        let ended = end(ctx);
        read_to_the_last(&mut receiver(&listener));
        assert_eq!(ended.join().expect("an end").lost, [0; REASONS], "turn {turn}");
    }
}

/// The peer is connected and silent.
fn a_heartbeat_that_is_missed_makes_the_next_connection(transport: Transport) {
    let ctx = Context::new();
    let push = sender(&ctx, -1).with(HEARTBEAT_IVL, 50).with(HEARTBEAT_TIMEOUT, 1_000);
    let listener = RawListener::bind(transport);
    let silent = behind_a_slow_peer(&push, &listener);
    push.close().expect("close");
    let ended = end(ctx);
    let mut second = receiver(&listener);
    // The peer answers heartbeats by sending anything at all.
    let first = number_of(&message_of_a_live_peer(&mut second));
    for number in first + 1..COUNT {
        assert_eq!(number_of(&message_of_a_live_peer(&mut second)), number);
    }
    drop((silent, second));
    assert_eq!(ended.join().expect("an end").lost, [0; REASONS]);
}

/// The next message; answers each PING before it.
#[track_caller]
fn message_of_a_live_peer(peer: &mut RawPeer) -> Vec<u8> {
    loop {
        let frame = peer.read_frame();
        if frame.flags & wire::COMMAND == 0 {
            return frame.body;
        }
        let _ = peer.try_send(&wire::command("PONG", b""));
    }
}

fn connections_are_lost_again_and_again(transport: Transport) {
    let (listener, ended) = closed_and_cut_off(transport);
    let mut before = 0;
    for _ in 0..5 {
        let mut peer = receiver(&listener);
        let number = number_of(&peer.read_message());
        assert!(number > before, "{number} comes behind {before}");
        before = number;
    }
    assert!(read_to_the_last(&mut receiver(&listener)) > before);
    assert_eq!(ended.join().expect("an end").lost, [0; REASONS]);
}

/// The linger ends while no peer is connected: unsent messages are counted, and those already read are not.
fn a_linger_ends_between_two_connections(transport: Transport) {
    for (linger_ms, within_ms) in [(200, -1), (-1, 200)] {
        let ctx = Context::new();
        let (push, listener) = (sender(&ctx, linger_ms), RawListener::bind(transport));
        let peer = behind_a_slow_peer(&push, &listener);
        let start = Instant::now();
        push.close().expect("close");
        drop((peer, listener));
        let left = ctx.term_within(within_ms).expect("an end");
        assert!(start.elapsed() >= Duration::from_millis(200), "it does not give up before");
        assert!((1..COUNT).contains(&left.messages), "{left:?}");
        assert_eq!((left.lost[EXPIRED], left.lost.iter().sum()), (left.messages, left.messages));
    }
}

/// A peer that leaves after receiving everything: the library does not wait for another.
fn nothing_is_dialed_for_when_all_was_sent(transport: Transport) {
    let ctx = Context::new();
    let (push, listener) = (sender(&ctx, -1), RawListener::bind(transport));
    push.connect(&listener.endpoint()).expect("connect");
    let mut peer = receiver(&listener);
    push.put("all");
    assert_eq!(peer.read_message(), b"all");
    drop(peer);
    push.close().expect("close");
    // The library may have noticed the loss before the close; it does not reconnect then either.
    assert_eq!(ctx.term_within(PATIENCE_MS.into()).expect("an end").lost, [0; REASONS]);
}

/// Without reconnecting, or without it after a disconnect, unsent messages are counted at once.
#[test]
fn what_is_not_to_be_made_again_is_not() {
    for (option, value) in [(RECONNECT_IVL, -1), (RECONNECT_STOP, 4), (IMMEDIATE, 1)] {
        let ctx = Context::new();
        let listener = RawListener::bind(Transport::Tcp);
        let push = ctx.socket(PUSH).hwm(0).with(LINGER, -1).with(RECONNECT_IVL, 10).with(option, value);
        push.connect(&listener.endpoint()).expect("connect");
        let mut peer = receiver(&listener);
        (0..COUNT).for_each(|n| push.put(numbered(n, BODY)));
        assert_eq!(number_of(&peer.read_message()), 0);
        push.disconnect(&listener.endpoint()).expect("disconnect");
        drop(peer);
        until("it is counted", || push.stats().dropped.iter().sum::<u64>() > 0);
        let stats = push.stats();
        assert_eq!((stats.sent.messages + stats.dropped.iter().sum::<u64>(), stats.sent.queued), (COUNT, 0));
        assert!(!listener.knocked(150), "option {option}: it comes again");
    }
}

/// RECONNECT_STOP 1: an endpoint that refuses the connection is given up, even while lingering.
#[test]
fn a_refused_connection_may_be_the_end() {
    let ctx = Context::new();
    let (push, listener) = (sender(&ctx, -1).with(RECONNECT_STOP, 1), RawListener::bind(Transport::Tcp));
    let peer = behind_a_slow_peer(&push, &listener);
    push.close().expect("close");
    drop((listener, peer));
    let left = ctx.term_within(-1).expect("an end");
    assert!(left.messages > 0);
    assert_eq!((left.lost[EXPIRED], left.lost.iter().sum()), (left.messages, left.messages));
}
