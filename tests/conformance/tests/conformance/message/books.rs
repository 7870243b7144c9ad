//! Every accepted message is counted exactly once, as sent, waiting or lost: to the message and to the byte, however
//! an endpoint or a connection ends.

use support::filler::numbered;
use support::peer::{Meeting, RawListener, RawPeer};
use support::pinnace::{CONFLATED, CUT, EXPIRED, PEER_LOST, Stats, Traffic};
use support::*;

over_transports!(an_endpoint_that_is_taken_back, what_a_newer_one_replaces, a_peer_that_leaves_in_order);

mod wires {
    use super::*;
    over_wires!(
        a_peer_that_is_lost,
        a_subscriber_that_is_lost,
        a_connection_that_is_taken_back,
        an_endpoint_that_is_given_up,
        a_message_that_is_cut,
        the_newest_message_of_a_lost_peer,
    );
}

const NOTHING: Traffic = Traffic { messages: 0, bytes: 0, queued: 0 };
const BODY: usize = 10_000;
/// More messages than the kernels of both sides hold.
const COUNT: u64 = 3_000;

#[track_caller]
fn adds_up(stats: &Stats, accepted: u64) {
    let lost: u64 = stats.dropped.iter().sum();
    assert_eq!(stats.sent.messages + stats.sent.queued + lost, accepted, "{stats:?}");
}

/// As above, for messages of `BODY` bytes that were each sent whole or not at all, and at least one was sent.
#[track_caller]
fn adds_up_to_the_byte(stats: &Stats, accepted: u64) {
    adds_up(stats, accepted);
    assert!((1..accepted).contains(&stats.sent.messages), "{stats:?}");
    assert_eq!((stats.sent.bytes, stats.sent.queued), (stats.sent.messages * (BODY as u64 + 9), 0));
}

fn fill(sender: &Socket) {
    (0..COUNT).for_each(|n| sender.put(numbered(n, BODY)));
}

fn sender(ctx: &Context, kind: i32) -> Socket {
    ctx.socket(kind).hwm(0).with(LINGER, 0).with(RECONNECT_IVL, 10)
}

/// A sender with more in its queue than the peer takes; the peer reads one message.
#[track_caller]
fn behind_a_slow_peer(push: &Socket, meeting: Meeting, transport: Transport) -> RawPeer {
    let mut peer = meeting.arrange(transport, push);
    peer.handshake(1, "PULL");
    push.wait_peers(1).expect("a peer");
    fill(push);
    peer.read_message();
    adds_up(&push.stats(), COUNT);
    peer
}

/// Nothing was ever sent, and the counters never claim otherwise.
fn an_endpoint_that_is_taken_back(transport: Transport) {
    const MANY: u64 = 50_000;
    let ctx = Context::new();
    let (push, endpoint) = (sender(&ctx, PUSH), transport.fresh());
    push.connect(&endpoint).expect("connect to nobody");
    (0..MANY).for_each(|_| push.tx(&["two", "frames"]));
    assert_eq!(push.stats().sent.queued, MANY);
    push.disconnect(&endpoint).expect("disconnect");
    until("it is counted", || {
        let stats = push.stats();
        assert_eq!((stats.sent.messages, stats.sent.bytes), (0, 0));
        stats.dropped[EXPIRED] == MANY
    });
    let stats = push.stats();
    assert_eq!((stats.sent, stats.dropped.iter().sum()), (NOTHING, MANY));
}

/// A receiver that closes in order leaves unreceived messages that count as sent; messages sent after its end are
/// lost.
fn a_peer_that_leaves_in_order(transport: Transport) {
    let ctx = Context::new();
    let (push, pull) = (sender(&ctx, PUSH), ctx.socket(PULL));
    transport.join(&push, &pull);
    push.wait_peers(1).expect("a peer");
    (0..100).for_each(|_| push.put("x"));
    (0..30).for_each(|_| pull.expect(&["x"]));
    adds_up(&push.stats(), 100);
    pull.close().expect("close");
    let mut accepted = 100;
    until("it has heard", || {
        let is_sent = push.send("y", DONTWAIT).is_ok();
        accepted += u64::from(is_sent);
        !is_sent && push.peers().is_empty()
    });
    let stats = push.stats();
    adds_up(&stats, accepted);
    assert_eq!((stats.sent.queued, stats.dropped[PEER_LOST]), (0, stats.dropped.iter().sum()));
}

fn what_a_newer_one_replaces(transport: Transport) {
    let ctx = Context::new();
    let push = sender(&ctx, PUSH).with(CONFLATE, 1);
    let endpoint = transport.fresh();
    push.connect(&endpoint).expect("connect to nobody");
    (0..100).for_each(|_| push.put("x"));
    let before = push.stats();
    adds_up(&before, 100);
    assert_eq!((before.sent.queued, before.dropped[CONFLATED]), (1, 99));
    push.disconnect(&endpoint).expect("disconnect");
    until("it is counted", || push.stats().dropped[EXPIRED] == 1);
    assert_eq!(push.stats().sent, NOTHING);
}

fn a_peer_that_is_lost(transport: Transport) {
    let ctx = Context::new();
    for is_kicked in [false, true] {
        let push = sender(&ctx, PUSH);
        let peer = behind_a_slow_peer(&push, Meeting::LibraryBinds, transport);
        if is_kicked {
            push.kick(push.peers()[0].number).expect("kicked");
        } else {
            drop(peer);
        }
        the_rest_is_lost_with_the_peer(&push);
    }
}

fn a_subscriber_that_is_lost(transport: Transport) {
    let ctx = Context::new();
    let publisher = sender(&ctx, PUB);
    let mut peer = Meeting::LibraryBinds.arrange(transport, &publisher);
    peer.handshake(1, "SUB");
    peer.send(&wire::command("SUBSCRIBE", b""));
    publisher.wait_subscribers("", 1, PATIENCE_MS.into()).expect("a subscriber");
    fill(&publisher);
    peer.read_message();
    drop(peer);
    the_rest_is_lost_with_the_peer(&publisher);
}

#[track_caller]
fn the_rest_is_lost_with_the_peer(socket: &Socket) {
    until("it is gone", || socket.stats().peers == 0 && socket.peers().is_empty());
    let stats = socket.stats();
    adds_up_to_the_byte(&stats, COUNT);
    assert_eq!(stats.dropped[PEER_LOST], COUNT - stats.sent.messages, "for no other reason");
}

/// Through either side's endpoint, with the peer connected.
fn a_connection_that_is_taken_back(transport: Transport) {
    let ctx = Context::new();
    for meeting in peer::MEETINGS {
        let push = sender(&ctx, PUSH);
        let mut peer = behind_a_slow_peer(&push, meeting, transport);
        let endpoint = push.endpoint();
        match meeting {
            Meeting::LibraryBinds => push.unbind(&endpoint).expect("unbind"),
            Meeting::LibraryConnects => push.disconnect(&endpoint).expect("disconnect"),
        }
        until("it has ended", || push.stats().dropped.iter().sum::<u64>() > 0 && push.peers().is_empty());
        let stats = push.stats();
        adds_up_to_the_byte(&stats, COUNT);
        // Messages that the kernel had taken whole arrive: the first was read before.
        let rest = peer.expect_end().len() as u64;
        assert_eq!(1 + rest / (BODY as u64 + 9), stats.sent.messages);
    }
}

/// The connection is lost, and not made again.
fn an_endpoint_that_is_given_up(transport: Transport) {
    let ctx = Context::new();
    let push = sender(&ctx, PUSH).with(RECONNECT_IVL, -1);
    drop(behind_a_slow_peer(&push, Meeting::LibraryConnects, transport));
    until("it is given up", || push.stats().dropped[EXPIRED] > 0 && push.peers().is_empty());
    adds_up_to_the_byte(&push.stats(), COUNT);
}

/// The first part was sent and released, so the message cannot be sent again.
fn a_message_that_is_cut(transport: Transport) {
    const FIRST: usize = 1 << 20;
    const SECOND: usize = 64 << 20;
    let ctx = Context::new();
    let (push, listener) = (sender(&ctx, PUSH), RawListener::bind(transport));
    push.connect(&listener.endpoint()).expect("connect");
    push.tx(&[vec![1; FIRST], vec![2; SECOND]]);
    push.put("behind");
    let mut peer = listener.accept();
    peer.handshake(1, "PULL");
    peer.read(4 << 20);
    drop(peer);
    let mut next = listener.accept();
    next.handshake(1, "PULL");
    next.expect(b"\0\x06behind");
    until("the write is over", || push.stats().sent.queued == 0);
    let stats = push.stats();
    adds_up(&stats, 2);
    assert_eq!((stats.sent.messages, stats.dropped[CUT]), (1, 1));
    // The bytes of the cut message that the kernel has taken.
    assert!((4 << 20..SECOND as u64).contains(&stats.sent.bytes), "{stats:?}");
}

/// A receiver in the same process keeps what it has when the sender disconnects before it is received.
#[test]
fn what_a_neighbour_still_holds() {
    let ctx = Context::new();
    for conflates in [0, 1] {
        let (push, pull) = (sender(&ctx, PUSH).with(CONFLATE, conflates), ctx.socket(PULL));
        let endpoint = Transport::Inproc.join(&pull, &push);
        (0..10).for_each(|_| push.put("x"));
        adds_up(&push.stats(), 10);
        push.disconnect(&endpoint).expect("disconnect");
        until("both have said so", || pull.stats().peers == 0 && push.peers().is_empty());
        let stats = push.stats();
        adds_up(&stats, 10);
        let arrives = if conflates == 1 { 1 } else { 10 };
        assert_eq!((stats.sent.messages, stats.sent.bytes, stats.sent.queued), (arrives, 3 * arrives, 0));
        (0..arrives).for_each(|_| pull.expect(&["x"]));
    }
}

/// Messages sent until the sender learns that a socket of the same process has closed; its pipe stays for the
/// messages received from it.
#[test]
fn what_is_sent_behind_a_neighbours_end() {
    within(60, || {
        let ctx = Context::new();
        let (ours, theirs) = (sender(&ctx, DEALER), ctx.socket(DEALER));
        Transport::Inproc.join(&theirs, &ours);
        theirs.put("not received");
        let thread = std::thread::spawn(move || {
            let accepted = (0..u64::MAX).find(|_| ours.send("x", DONTWAIT).is_err()).expect("it ends");
            (ours, accepted)
        });
        (0..1_000).for_each(|_| theirs.expect(&["x"]));
        theirs.close().expect("close");
        let (ours, accepted) = thread.join().expect("the sender");
        let stats = ours.stats();
        adds_up(&stats, accepted);
        assert_eq!((stats.sent.queued, stats.received.queued), (0, 1));
    });
}

/// One message waits for the kernel, and a newer one behind it.
fn the_newest_message_of_a_lost_peer(transport: Transport) {
    let ctx = Context::new();
    let push = sender(&ctx, PUSH).with(CONFLATE, 1);
    let mut peer = Meeting::LibraryBinds.arrange(transport, &push);
    peer.handshake(1, "PULL");
    push.wait_peers(1).expect("a peer");
    (0..20).for_each(|_| push.put(vec![7; 8 << 20]));
    peer.read(9);
    drop(peer);
    until("it is gone", || push.stats().peers == 0 && push.peers().is_empty());
    let stats = push.stats();
    adds_up(&stats, 20);
    assert_eq!((stats.sent.messages, stats.sent.queued, stats.dropped[PEER_LOST]), (0, 0, 2), "{stats:?}");
}
