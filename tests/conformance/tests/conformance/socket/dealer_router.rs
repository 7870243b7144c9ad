//! DEALER and ROUTER: set and generated identities, unknown and duplicate ones, whole envelopes.

use std::collections::BTreeSet;

use support::filler::{drain, fill, number_of, numbered};
use support::*;

over_transports!(
    shows_an_identity_that_was_set,
    generates_identities,
    finds_the_right_peer,
    drops_for_an_unknown_peer,
    mandatory_reports_an_unknown_peer,
    mandatory_reports_a_full_peer,
    keeps_the_first_of_two_equal_identities,
    hands_over_to_the_second,
    a_handover_leaves_the_first_connected,
    the_second_gets_the_name_when_the_first_has_left,
    gives_no_peer_a_name_it_made_up,
    meets_an_identity_again,
    carries_multipart_both_ways,
    probes,
    names_the_peer_it_connects_to,
    names_nobody_who_connects_to_it,
    dealers_balance_and_queue,
);
over!(restarts_tcp, Tcp, a_connecting_router_learns_the_name_of_each_peer,);
over!(restarts_ipc, Ipc, a_connecting_router_learns_the_name_of_each_peer,);

/// A generated name stays with its peer, whichever peer announces it, also with ROUTER_HANDOVER: knowing another peer's
/// name must not be enough to receive its messages.
///
/// Fails with libzmq 4.3.4, which hands such a name over like any other.
fn gives_no_peer_a_name_it_made_up(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER).with(ROUTER_HANDOVER, 1);
    let endpoint = transport.bind(&router);
    let first = ctx.socket(DEALER);
    first.connect(&endpoint).expect("connect");
    first.put("first");
    let name = router.rx().remove(0);
    let second = ctx.socket(DEALER);
    second.set_bytes(ROUTING_ID, &name).expect("ROUTING_ID");
    second.connect(&endpoint).expect("connect");
    second.put("second");
    router.expect_nothing();
    router.tx(&[name.as_slice(), b"for the first"]);
    assert_eq!(first.take_text(), "for the first");
    assert_eq!(poll::ready(&second, POLLIN, 50), 0);
}

fn dealer(ctx: &Context, identity: &str) -> Socket {
    let dealer = ctx.socket(DEALER);
    dealer.set_bytes(ROUTING_ID, identity.as_bytes()).expect("ROUTING_ID");
    dealer
}

fn shows_an_identity_that_was_set(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    let endpoint = transport.bind(&router);
    let long = "x".repeat(255);
    for identity in ["A", "a name with spaces", long.as_str()] {
        let dealer = dealer(&ctx, identity);
        dealer.connect(&endpoint).expect("connect");
        dealer.put("hello");
        router.expect(&[identity, "hello"]);
        router.tx(&[identity, "and you"]);
        assert_eq!(dealer.take_text(), "and you");
    }
}

/// A peer that sets no identity gets five bytes, the first of them 0, different each time.
fn generates_identities(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    let endpoint = transport.bind(&router);
    let dealers: Vec<Socket> = (0..10).map(|_| ctx.socket(DEALER)).collect();
    let mut seen = BTreeSet::new();
    for dealer in &dealers {
        dealer.connect(&endpoint).expect("connect");
        dealer.put("hello");
        let parts = router.rx();
        assert_eq!((parts.len(), parts[0].len(), parts[0][0]), (2, 5, 0));
        assert!(seen.insert(parts[0].clone()), "identities differ");
        router.tx(&parts);
        assert_eq!(dealer.take_text(), "hello");
    }
}

fn finds_the_right_peer(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    let endpoint = transport.bind(&router);
    let dealers: Vec<Socket> = (0..50).map(|n| dealer(&ctx, &format!("peer-{n}"))).collect();
    for dealer in &dealers {
        dealer.connect(&endpoint).expect("connect");
        dealer.put("here");
    }
    dealers.iter().for_each(|_| assert_eq!(router.rx()[1], b"here"));
    for n in (0..50).rev() {
        router.tx(&[format!("peer-{n}"), format!("for {n}")]);
    }
    for (n, dealer) in dealers.iter().enumerate() {
        assert_eq!(dealer.take_text(), format!("for {n}"));
    }
}

/// A message for an unknown peer is dropped whole, without an error; the next one reaches its peer.
fn drops_for_an_unknown_peer(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    router.tx(&["nobody", "before any peer"]);
    let known = dealer(&ctx, "known");
    transport.join(&router, &known);
    known.put("hello");
    router.expect(&["known", "hello"]);
    router.tx(&["unknown", "a", "b", "c"]);
    router.tx(&["", "empty identity"]);
    router.tx(&["known", "x", "y"]);
    known.expect(&["x", "y"]);
}

fn mandatory_reports_an_unknown_peer(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER).with(ROUTER_MANDATORY, 1);
    let known = dealer(&ctx, "known");
    transport.join(&router, &known);
    assert_eq!(router.send("unknown", SNDMORE), Err(Errno(libc::EHOSTUNREACH)));
    known.put("hello");
    router.expect(&["known", "hello"]);
    assert_eq!(router.send("unknown", SNDMORE), Err(Errno(libc::EHOSTUNREACH)));
    router.tx(&["known", "x", "y"]);
    known.expect(&["x", "y"]);
}

/// With ROUTER_MANDATORY a peer at its high-water mark is EAGAIN; otherwise the message is dropped.
fn mandatory_reports_a_full_peer(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER).hwm(2).with(ROUTER_MANDATORY, 1);
    let slow = dealer(&ctx, "slow").hwm(2);
    transport.join(&router, &slow);
    slow.put("hello");
    router.expect(&["slow", "hello"]);
    let mut count = 0u64;
    let mut refusals = 0;
    // Several refusals in a row, with a pause between them: the kernel's buffers are full too.
    while refusals < 4 {
        match router.send("slow", SNDMORE | DONTWAIT) {
            Ok(_) => {
                router.put(numbered(count, 50_000));
                (count, refusals) = (count + 1, 0);
            }
            Err(error) => {
                assert_eq!(error, Errno(libc::EAGAIN));
                deadline::pass(std::time::Duration::from_millis(50));
                refusals += 1;
            }
        }
        assert!(count < 100_000, "the mark is never reached");
    }
    drain(&slow, 0, count);
}

/// Of two peers with one identity the second is not heard while the first is connected.
fn keeps_the_first_of_two_equal_identities(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    let endpoint = transport.bind(&router);
    let (first, second) = (dealer(&ctx, "same"), dealer(&ctx, "same"));
    first.connect(&endpoint).expect("connect");
    first.put("first");
    router.expect(&["same", "first"]);
    second.connect(&endpoint).expect("connect");
    second.put("second");
    router.expect_nothing();
    router.tx(&["same", "for the first"]);
    assert_eq!(first.take_text(), "for the first");
    first.put("still heard");
    router.expect(&["same", "still heard"]);
}

/// With ROUTER_HANDOVER the second takes the name over.
fn hands_over_to_the_second(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER).with(ROUTER_HANDOVER, 1);
    let endpoint = transport.bind(&router);
    let (first, second) = (dealer(&ctx, "same"), dealer(&ctx, "same"));
    first.connect(&endpoint).expect("connect");
    first.put("first");
    router.expect(&["same", "first"]);
    second.connect(&endpoint).expect("connect");
    second.put("second");
    router.expect(&["same", "second"]);
    router.tx(&["same", "for the second"]);
    assert_eq!(second.take_text(), "for the second");
}

/// Two live clients with one identity: the newest has the name, and all its messages in both directions arrive. The
/// first stays connected. Only its messages that had already arrived are received, until the newest leaves: then the
/// first has the name again.
///
/// Fails with libzmq 4.3.4, which gives the name to no peer when the newest leaves, and may lose what had arrived.
fn a_handover_leaves_the_first_connected(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER).with(ROUTER_HANDOVER, 1);
    let endpoint = transport.bind(&router);
    let (first, second) = (dealer(&ctx, "same"), dealer(&ctx, "same"));
    let seen = [&first, &second].map(|client| Monitor::of(&ctx, client, EVENT_HANDSHAKE_SUCCEEDED));
    first.connect(&endpoint).expect("connect");
    first.tx(&["of", "two", "parts"]);
    assert_eq!(router.recv(0).expect("the name"), b"same");
    router.tx(&["same", "for the first"]);
    first.put("had arrived");
    second.connect(&endpoint).expect("connect");
    second.put("second");
    router.expect(&["of", "two", "parts"]);
    let heard = BTreeSet::from([router.rx(), router.rx()]);
    let wanted = ["had arrived", "second"].map(|text| vec![b"same".to_vec(), text.into()]);
    assert_eq!(heard, BTreeSet::from(wanted));
    assert_eq!(first.take_text(), "for the first");
    for round in 0..200 {
        first.put("not heard");
        second.put(round.to_string());
        router.expect(&["same", round.to_string().as_str()]);
        router.tx(&["same", "for the newest"]);
        assert_eq!(second.take_text(), "for the newest");
    }
    second.close().expect("close");
    until("the name is the first's again", || {
        router.tx(&["same", "again"]);
        poll::ready(&first, POLLIN, 1) == POLLIN
    });
    first.put("heard");
    until("it is heard", || {
        let message = router.rx();
        // Messages in flight when the first gets the name back are received too.
        assert!(message[1] == b"heard" || message[1] == b"not heard", "{message:?}");
        message[1] == b"heard"
    });
    for one in &seen[..] {
        let handshakes = std::iter::from_fn(|| one.socket().recv_parts(DONTWAIT).ok()).count();
        assert_eq!(handshakes, usize::from(transport != Transport::Inproc));
    }
}

/// Without ROUTER_HANDOVER the second gets the name when the first has left.
///
/// Fails with libzmq 4.3.4, which takes the second's next message as its identity.
fn the_second_gets_the_name_when_the_first_has_left(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    let endpoint = transport.bind(&router);
    let (first, second) = (dealer(&ctx, "same"), dealer(&ctx, "same"));
    first.connect(&endpoint).expect("connect");
    first.put("first");
    router.expect(&["same", "first"]);
    second.connect(&endpoint).expect("connect");
    second.put("not heard");
    router.expect_nothing();
    first.close().expect("close");
    until("the name is the second's", || {
        router.tx(&["same", "for the second"]);
        poll::ready(&second, POLLIN, 1) == POLLIN
    });
    second.put("heard");
    router.expect(&["same", "heard"]);
}

/// A peer that closes and returns with its name is the same peer to the caller.
fn meets_an_identity_again(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER).with(ROUTER_HANDOVER, 1);
    let endpoint = transport.bind(&router);
    for turn in 0..5 {
        let dealer = dealer(&ctx, "regular");
        dealer.connect(&endpoint).expect("connect");
        dealer.put(format!("{turn}"));
        router.expect(&["regular", format!("{turn}").as_str()]);
        router.tx(&["regular", "welcome"]);
        assert_eq!(dealer.take_text(), "welcome");
    }
}

fn carries_multipart_both_ways(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    let dealer = dealer(&ctx, "d");
    transport.join(&router, &dealer);
    let many: Vec<String> =
        (0..200).map(|n| if n % 3 == 0 { String::new() } else { format!("part {n}") }).collect();
    dealer.tx(&many);
    let parts = router.rx();
    assert_eq!(parts[0], b"d");
    assert!(parts[1..].iter().map(|part| &part[..]).eq(many.iter().map(|part| part.as_bytes())));
    router.tx(&parts);
    dealer.expect(&many);
    // A message of the identity alone has no parts: it is not delivered.
    dealer.tx(&[""]);
    router.expect(&["d", ""]);
}

/// PROBE_ROUTER sends an empty message as soon as the connection is established, from either type.
fn probes(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    let endpoint = transport.bind(&router);
    let dealer = dealer(&ctx, "prober").with(PROBE_ROUTER, 1);
    dealer.connect(&endpoint).expect("connect");
    router.expect(&["prober", ""]);
    let peer = ctx.socket(ROUTER).with(PROBE_ROUTER, 1);
    peer.set_bytes(ROUTING_ID, b"router").expect("ROUTING_ID");
    peer.connect(&endpoint).expect("connect");
    router.expect(&["router", ""]);
}

/// CONNECT_ROUTING_ID names the peer of the next connect, so a ROUTER can speak first.
fn names_the_peer_it_connects_to(transport: Transport) {
    let ctx = Context::new();
    let (service, router) = (ctx.socket(DEALER), ctx.socket(ROUTER).with(ROUTER_MANDATORY, 1));
    let endpoint = transport.bind(&service);
    router.set_bytes(CONNECT_ROUTING_ID, b"service").expect("CONNECT_ROUTING_ID");
    router.connect(&endpoint).expect("connect");
    router.tx(&["service", "first word"]);
    assert_eq!(service.take_text(), "first word");
    service.put("answer");
    router.expect(&["service", "answer"]);
}

/// Another process answers at the same endpoint: it has its own name, or a generated one, and does not receive
/// messages for the first.
///
/// Fails with libzmq 4.3.4, which keeps the first one's name for the endpoint forever.
fn a_connecting_router_learns_the_name_of_each_peer(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER).hwm(2).with(ROUTER_MANDATORY, 1).with(RECONNECT_IVL, 10);
    let endpoint = transport.fresh();
    router.connect(&endpoint).expect("connect");
    let first = dealer(&ctx, "B1").hwm(2);
    first.bind(&endpoint).expect("bind");
    until("the first is known", || router.send_parts(&["B1", "for the first"], DONTWAIT).is_ok());
    assert_eq!(first.take_text(), "for the first");
    let large = numbered(0, 500_000);
    let mut sent = 0;
    while router.send("B1", SNDMORE | DONTWAIT).is_ok() {
        router.put(&large);
        sent += 1;
        assert!(sent < 1_000, "the mark is never reached");
    }
    first.close().expect("close");
    let second = dealer(&ctx, "B2");
    until("the endpoint is free", || second.bind(&endpoint).is_ok());
    until("the second is known", || router.send_parts(&["B2", "for the second"], DONTWAIT).is_ok());
    assert_eq!(second.take_text(), "for the second");
    second.put("hello");
    router.expect(&["B2", "hello"]);
    assert_eq!(router.send("B1", SNDMORE), Err(Errno(libc::EHOSTUNREACH)));
    second.close().expect("close");
    let third = ctx.socket(DEALER);
    until("the endpoint is free", || third.bind(&endpoint).is_ok());
    third.put("nameless");
    let parts = router.rx();
    assert_eq!((parts[0].len(), parts[0][0], &parts[1][..]), (5, 0, &b"nameless"[..]));
    router.tx(&parts);
    assert_eq!(third.take_text(), "nameless");
}

/// CONNECT_ROUTING_ID applies only to the next connect: peers that connect to us meanwhile have their own names.
fn names_nobody_who_connects_to_it(transport: Transport) {
    let ctx = Context::new();
    let (service, router) = (ctx.socket(DEALER), ctx.socket(ROUTER).with(ROUTER_MANDATORY, 1));
    router.set_bytes(CONNECT_ROUTING_ID, b"service").expect("CONNECT_ROUTING_ID");
    let endpoint = transport.bind(&router);
    router.connect(&transport.bind(&service)).expect("connect");
    let clients = ["a", "b"].map(|text| {
        let client = ctx.socket(DEALER);
        client.connect(&endpoint).expect("connect");
        client.put(text);
        client
    });
    for _ in &clients {
        let parts = router.rx();
        assert_ne!(parts[0], b"service");
        router.tx(&parts);
    }
    assert_eq!(clients.map(|client| client.take_text()), ["a", "b"]);
    router.tx(&["service", "first word"]);
    assert_eq!(service.take_text(), "first word");
}

/// Between DEALERs: round robin out, fair queuing in, no envelope.
fn dealers_balance_and_queue(transport: Transport) {
    let ctx = Context::new();
    let hub = ctx.socket(DEALER);
    let ends: Vec<Socket> = (0..3).map(|_| ctx.socket(DEALER)).collect();
    ends.iter().for_each(|end| {
        transport.join(end, &hub);
    });
    (0..30).for_each(|n| hub.put(numbered(n, 8)));
    for end in &ends {
        let own: Vec<u64> = (0..10).map(|_| number_of(&end.take())).collect();
        assert!(own.windows(2).all(|pair| pair[1] == pair[0] + 3), "{own:?}");
        own.iter().for_each(|n| end.put(numbered(*n, 8)));
    }
    let back: BTreeSet<u64> = (0..30).map(|_| number_of(&hub.take())).collect();
    assert_eq!(back, (0..30).collect());
}

#[test]
fn dealer_blocks_at_the_mark() {
    let ctx = Context::new();
    let (a, b) = (ctx.socket(DEALER).hwm(3), ctx.socket(DEALER).hwm(4));
    Transport::Inproc.join(&a, &b);
    assert_eq!(fill(&a, 0, 8), 7, "inproc has exactly the sum of the marks");
    drain(&b, 0, 7);
    let alone = ctx.socket(DEALER);
    assert_eq!(alone.send("nobody", DONTWAIT), Err(Errno(libc::EAGAIN)));
}
