//! Statistics: the counts add up, and each lost message has its reason.

use support::pinnace::{EXPIRED, FULL, LIMIT, PEER_LOST, REASONS, UNREAD, UNROUTABLE, UNWANTED, text};
use support::*;

over_transports!(
    counts_what_was_moved,
    a_stopped_subscriber_costs_counted_messages,
    an_unknown_routing_id_is_counted,
    what_a_push_is_sent_is_not_taken,
    as_text,
    what_a_linger_gives_up_is_counted,
    what_nobody_has_looked_at_is_counted,
    half_a_message_is_counted,
    groups_are_no_messages;
    wires peers_are_known, reconnects_are_counted, what_is_too_large_is_counted,
);

fn counts_what_was_moved(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    for _ in 0..100 {
        push.tx(&["two", "frames"]);
    }
    for _ in 0..60 {
        pull.expect(&["two", "frames"]);
    }
    until("all of it is at the receiver", || pull.stats().received.queued == 40);
    let (out, come) = (push.stats(), pull.stats());
    assert_eq!((come.received.messages, come.received.queued), (60, 40));
    assert_eq!(come.received.bytes, 60 * (5 + 8), "two headers of two bytes each");
    assert_eq!(out.sent.messages + out.sent.queued, 100);
    if transport == Transport::Inproc {
        assert_eq!(out.sent.queued, 40, "what the receiver has not taken");
    }
    assert_eq!((out.dropped, come.dropped), ([0; REASONS], [0; REASONS]));
    assert_eq!((out.peers, come.peers), (1, 1));
    for _ in 0..40 {
        pull.rx();
    }
    assert_eq!(pull.stats().received.messages, 100);
    push.close().expect("close");
    until("the peer has ended", || pull.recv(DONTWAIT).is_err() && pull.stats().ended_peers == 1);
    let after = pull.stats();
    assert_eq!(
        (after.received.messages, after.received.queued, after.peers),
        (100, 0, 0),
        "gone, not forgotten"
    );
}

/// Each message to a subscriber that does not read is received, waits, or is counted as lost with reason FULL.
fn a_stopped_subscriber_costs_counted_messages(transport: Transport) {
    let ctx = Context::new();
    let (publisher, subscriber) = (ctx.socket(PUB).hwm(10), ctx.socket(SUB).hwm(10));
    transport.join(&publisher, &subscriber);
    subscriber.set_bytes(SUBSCRIBE, b"").expect("SUBSCRIBE");
    publisher.wait_subscribers("", 1, PATIENCE_MS.into()).expect("a subscriber");
    let body = vec![7_u8; 4096];
    const SENT: u64 = 20_000;
    for _ in 0..SENT {
        publisher.put(&body);
    }
    let stopped = publisher.stats();
    let lost = stopped.dropped[FULL];
    assert!(lost > 0);
    assert_eq!(stopped.dropped.iter().sum::<u64>(), lost, "for no other reason");
    assert_eq!(stopped.sent.messages + stopped.sent.queued + lost, SENT);
    let peers = publisher.peers();
    assert_eq!((peers.len(), peers[0].dropped), (1, lost));
    let mut received = 0;
    until("what was not lost arrives", || {
        while subscriber.recv(DONTWAIT).is_ok() {
            received += 1;
        }
        received + lost >= SENT
    });
    assert_eq!(received + lost, SENT, "received and lost are all that was sent");
    assert_eq!(publisher.stats().dropped[FULL], lost);
}

fn an_unknown_routing_id_is_counted(transport: Transport) {
    let ctx = Context::new();
    let (router, dealer) = transport.pair(&ctx, ROUTER, DEALER);
    dealer.put("hello");
    let hello = router.rx();
    for _ in 0..7 {
        router.tx(&[&b"nobody"[..], b"body"]);
    }
    router.tx(&[&hello[0][..], b"body"]);
    dealer.expect(&["body"]);
    let stats = router.stats();
    assert_eq!(stats.dropped[UNROUTABLE], 7);
    assert_eq!(stats.sent.messages + stats.sent.queued + 7, 8);
}

fn what_a_push_is_sent_is_not_taken(transport: Transport) {
    let ctx = Context::new();
    let (publisher, subscriber) = transport.pair(&ctx, XPUB, SUB);
    subscriber.set_bytes(SUBSCRIBE, b"a").expect("SUBSCRIBE");
    publisher.expect(&["\u{1}a"]);
    publisher.put("a");
    subscriber.expect(&["a"]);
    // Subscriptions are not counted as messages.
    assert_eq!(publisher.stats().received.messages, 0);
    assert_eq!(subscriber.stats().sent.messages, 0);
    assert_eq!(subscriber.stats().received.messages, 1);
    assert_eq!(publisher.stats().dropped[UNWANTED], 0);
}

fn peers_are_known(transport: Transport) {
    let ctx = Context::new();
    let (router, dealer) = (ctx.socket(ROUTER), ctx.socket(DEALER).with(HEARTBEAT_IVL, 20));
    dealer.set_bytes(ROUTING_ID, b"the dealer").expect("ROUTING_ID");
    let endpoint = transport.join(&router, &dealer);
    dealer.put("hello");
    router.rx();
    let peers = router.peers();
    assert_eq!(peers.len(), 1);
    let peer = &peers[0];
    assert_eq!(&peer.routing_id[..peer.routing_id_size], b"the dealer");
    assert_eq!((text(&peer.socket_type), peer.connected, peer.mechanism), ("DEALER".into(), 1, 0));
    assert_eq!(text(&peer.endpoint), endpoint);
    let address = text(&peer.address);
    if transport == Transport::Ipc {
        let local = format!("localhost:{}:{}:{}", uid(), gid(), std::process::id());
        assert_eq!(address, local);
    } else {
        assert!(endpoint.contains(&format!("//{address}:")), "{address} of {endpoint}");
    }
    until("a PING has come back", || dealer.peers()[0].round_trip_us > 0);
    assert_eq!(text(&dealer.peers()[0].endpoint), endpoint);
}

fn uid() -> u32 {
    // SAFETY: the function has no preconditions.
    unsafe { libc::getuid() }
}

fn gid() -> u32 {
    // SAFETY: the function has no preconditions.
    unsafe { libc::getgid() }
}

fn reconnects_are_counted(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH).with(RECONNECT_IVL, 5));
    transport.join(&pull, &push);
    for turn in 1..=3 {
        pull.wait_peers(1).expect("a peer");
        let peer = pull.peers().into_iter().find(|peer| peer.connected == 1).expect("one is there");
        pull.kick(peer.number).expect("kicked");
        until("it has come again", || push.stats().handshakes_succeeded == turn + 1);
    }
    let stats = push.stats();
    assert_eq!((stats.connected, stats.disconnected), (4, 3));
    until("the peer's own count", || push.peers()[0].reconnects == 3);
    push.put("still there");
    pull.expect(&["still there"]);
}

/// Messages unsent at the end of the linger are counted exactly.
fn what_a_linger_gives_up_is_counted(transport: Transport) {
    if transport == Transport::Inproc {
        return; // A message for a name that is not bound yet continues to wait.
    }
    let ctx = Context::new();
    for linger_ms in [0, 20] {
        let before = ctx.lost()[EXPIRED];
        let push = ctx.socket(PUSH).with(LINGER, linger_ms);
        push.connect(&transport.fresh()).expect("connect");
        for n in 0..250 {
            push.tx(&[n.to_string().as_str(), "two frames"]);
        }
        assert_eq!(push.stats().sent.queued, 250);
        push.close().expect("close");
        until("the linger is over", || ctx.lost()[EXPIRED] == before + 250);
    }
    assert_eq!(ctx.lost().iter().sum::<u64>(), 500, "for no other reason");
}

fn as_text(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    push.put("x");
    pull.expect(&["x"]);
    let json = pull.json();
    assert!(
        json.starts_with("{\"socket_type\":\"PULL\",\"received\":{\"messages\":1,\"bytes\":3,\"queued\":0}"),
        "{json}"
    );
    assert!(json.contains("\"drops\":{\"full\":0,") && json.ends_with("]}"), "{json}");
    let python = std::process::Command::new("python3")
        .args(["-c", "import json,sys; json.loads(sys.argv[1])", &json])
        .status();
    assert!(python.is_ok_and(|status| status.success()), "not JSON: {json}");
    let text = pull.prometheus("the \"jobs\"");
    let line = "pinnace_messages_total{socket=\"the \\\"jobs\\\"\",type=\"PULL\",direction=\"in\"} 1\n";
    assert!(text.contains(line), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a sample");
        assert!(
            name.starts_with("pinnace_") && name.ends_with('}') && value.parse::<u64>().is_ok(),
            "{line}"
        );
    }
}

/// A socket that made no call while a peer connected, sent and left counts its unread messages at its end.
fn what_nobody_has_looked_at_is_counted(transport: Transport) {
    let (ctx, theirs) = (Context::new(), Context::new());
    let pull = ctx.socket(PULL);
    let gone = Monitor::of(&ctx, &pull, EVENT_DISCONNECTED);
    let endpoint = transport.bind(&pull);
    let push = if transport == Transport::Inproc { &ctx } else { &theirs }.socket(PUSH);
    push.connect(&endpoint).expect("connect");
    (0..10).for_each(|n| push.put(format!("message {n}")));
    push.close().expect("close");
    if transport != Transport::Inproc {
        gone.wait(EVENT_DISCONNECTED);
    }
    pull.close().expect("close");
    assert_eq!(ctx.lost()[UNREAD], 10);
    assert_eq!(ctx.lost().iter().sum::<u64>(), 10, "for no other reason");
}

/// A message above ZMQ_MAXMSGSIZE ends its connection, and is counted by the side that refused it.
fn what_is_too_large_is_counted(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    pull.set_bytes(MAXMSGSIZE, &1_000i64.to_ne_bytes()).expect("MAXMSGSIZE");
    let push = ctx.socket(PUSH);
    push.connect(&transport.bind(&pull)).expect("connect");
    push.put("small");
    push.put(vec![0; 1_001]);
    assert_eq!(pull.take_text(), "small");
    until("the message is counted", || pull.stats().dropped[LIMIT] == 1);
    until("the sender has heard that the connection is over", || push.stats().disconnected == 1);
    push.put("small again");
    assert_eq!(pull.take_text(), "small again");
    assert_eq!(pull.stats().dropped.iter().sum::<u64>(), 1);
}

/// The peer leaves in the middle of a message.
fn half_a_message_is_counted(transport: Transport) {
    for kind in [PUSH, DEALER, PAIR] {
        let ctx = Context::new();
        let peer = ctx.socket(if kind == PUSH { PULL } else { kind });
        let sender = ctx.socket(kind);
        let endpoint = transport.bind(&sender);
        peer.connect(&endpoint).expect("connect");
        sender.wait_peers(1).expect("a peer");
        sender.send("the first half", SNDMORE).expect("sent");
        peer.close().expect("close");
        until("it has heard of that", || sender.stats().peers == 0);
        sender.send("the second", 0).expect("taken");
        let stats = sender.stats();
        assert_eq!((stats.dropped[PEER_LOST], stats.sent.messages), (1, 0));
        assert_eq!(stats.dropped.iter().sum::<u64>(), 1, "for no other reason");
    }
}

/// A RADIO that has not read the groups of its peers has lost no message by that.
fn groups_are_no_messages(transport: Transport) {
    let ctx = Context::new();
    let radio = ctx.socket(RADIO);
    let endpoint = transport.bind(&radio);
    let dish = ctx.socket(DISH);
    (0..10).for_each(|n| dish.join_group(&format!("group {n}")).expect("join"));
    dish.connect(&endpoint).expect("connect");
    dish.wait_subscribed(PATIENCE_MS.into()).expect("the RADIO has them");
    radio.close().expect("close");
    until("the RADIO has gone", || dish.stats().peers == 0);
    assert_eq!(ctx.lost().iter().sum::<u64>(), 0);
}
