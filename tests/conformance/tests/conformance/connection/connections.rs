//! Connections come and go: connect before bind, unbind, disconnect, peers that restart.

use std::time::Duration;

use support::filler::{drain, numbered};
use support::peer::RawListener;
use support::poll::ready;
use support::*;

over_transports!(
    connects_before_the_bind,
    connects_twice_as_two_peers,
    disconnects,
    either_call_takes_back_what_the_other_would,
    one_call_takes_back_every_connect,
    unread_messages_outlive_a_disconnect,
    unbinds_and_keeps_nobody_out_of_reach,
    asks_only_connections_that_stand;
    wires reconnects_after_a_restart, survives_many_restarts, serves_again_after_unbind,
    nothing_passes_after_unbind
);

/// Messages sent before the bind arrive, in order.
fn connects_before_the_bind(transport: Transport) {
    let ctx = Context::new();
    let endpoint = transport.fresh();
    let push = ctx.socket(PUSH).with(RECONNECT_IVL, 10);
    push.connect(&endpoint).expect("connect before bind");
    (0..100).for_each(|n| push.put(numbered(n, 100)));
    let pull = ctx.socket(PULL);
    pull.bind(&endpoint).expect("bind");
    (100..200).for_each(|n| push.put(numbered(n, 100)));
    drain(&pull, 0, 200);
}

/// Two connects to one endpoint: its ROUTER sees two peers. (libzmq ignores the second for some types.)
fn connects_twice_as_two_peers(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH));
    let endpoint = transport.join(&pull, &push);
    push.connect(&endpoint).expect("a second connect");
    for n in 0..100 {
        push.put(numbered(n, 8));
    }
    let mut all: Vec<u64> = (0..100).map(|_| filler::number_of(&pull.take())).collect();
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
}

fn disconnects(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH));
    let endpoint = transport.join(&pull, &push);
    push.put("before");
    assert_eq!(pull.take_text(), "before");
    push.disconnect(&endpoint).expect("disconnect");
    assert_eq!(push.send("nobody", DONTWAIT), Err(Errno(libc::EAGAIN)));
    assert_eq!(push.disconnect(&endpoint), Err(Errno(libc::ENOENT)));
    assert_eq!(push.disconnect("tcp://127.0.0.1:1"), Err(Errno(libc::ENOENT)));
    push.connect(&endpoint).expect("connect again");
    push.put("after");
    assert_eq!(pull.take_text(), "after");
}

/// libzmq does not distinguish zmq_unbind from zmq_disconnect.
fn either_call_takes_back_what_the_other_would(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH));
    let endpoint = transport.join(&pull, &push);
    push.unbind(&endpoint).expect("unbind of a connected endpoint");
    assert_eq!(push.send("nobody", DONTWAIT), Err(Errno(libc::EAGAIN)));
    assert_eq!(push.unbind(&endpoint), Err(Errno(libc::ENOENT)));
    pull.disconnect(&endpoint).expect("disconnect of a bound endpoint");
    assert_eq!(pull.disconnect(&endpoint), Err(Errno(libc::ENOENT)));
    until("the endpoint is free", || ctx.socket(PULL).bind(&endpoint).is_ok());
}

/// libzmq keeps one entry for all connects to an endpoint.
fn one_call_takes_back_every_connect(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH));
    let endpoint = transport.join(&pull, &push);
    push.connect(&endpoint).expect("a second connect");
    push.disconnect(&endpoint).expect("disconnect");
    assert_eq!(push.send("nobody", DONTWAIT), Err(Errno(libc::EAGAIN)));
    assert_eq!(push.disconnect(&endpoint), Err(Errno(libc::ENOENT)));
}

/// Messages that arrived before the receiver disconnects can still be received. libzmq 4.3.4 drops them.
fn unread_messages_outlive_a_disconnect(transport: Transport) {
    if !api::exports("zmq_poller_new") {
        return;
    }
    let ctx = Context::new();
    let (push, pull) = (ctx.socket(PUSH), ctx.socket(PULL));
    let endpoint = transport.join(&push, &pull);
    (0..10).for_each(|n| push.put(numbered(n, 8)));
    drain(&pull, 0, 1);
    until("all have come", || pull.stats().received.queued == 9);
    pull.disconnect(&endpoint).expect("disconnect");
    drain(&pull, 1, 9);
    pull.expect_nothing();
}

/// After unbind no new peer connects through that endpoint; another endpoint of the same socket still serves.
fn unbinds_and_keeps_nobody_out_of_reach(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let (closed, open) = (transport.bind(&pull), transport.bind(&pull));
    pull.unbind(&closed).expect("unbind");
    let late = ctx.socket(PUSH).with(RECONNECT_IVL, 10);
    late.connect(&closed).expect("connect");
    let _ = late.send("too late", DONTWAIT);
    let push = ctx.socket(PUSH);
    push.connect(&open).expect("connect");
    push.put("in time");
    assert_eq!(pull.take_text(), "in time");
    pull.expect_nothing();
}

/// With IMMEDIATE a message is queued only for established connections.
fn asks_only_connections_that_stand(transport: Transport) {
    let ctx = Context::new();
    let push = ctx.socket(PUSH).with(IMMEDIATE, 1).with(RECONNECT_IVL, 10);
    if transport != Transport::Inproc {
        push.connect(&transport.fresh()).expect("connect to nobody");
        assert_eq!(push.send("nobody", DONTWAIT), Err(Errno(libc::EAGAIN)));
    }
    let pull = ctx.socket(PULL);
    transport.join(&pull, &push);
    for n in 0..50 {
        push.put(numbered(n, 8));
    }
    drain(&pull, 0, 50);
}

/// A sender reconnects to a receiver that restarts at the same endpoint.
fn reconnects_after_a_restart(transport: Transport) {
    let ctx = Context::new();
    let endpoint = transport.fresh();
    let push = ctx.socket(PUSH).with(RECONNECT_IVL, 10);
    push.connect(&endpoint).expect("connect");
    for turn in 0..5 {
        let pull = ctx.socket(PULL);
        until("the endpoint is free", || pull.bind(&endpoint).is_ok());
        // Messages sent to the previous receiver may be lost with it.
        let word = format!("turn {turn}");
        until("the sender is back", || {
            let _ = push.send(&word, DONTWAIT);
            ready(&pull, POLLIN, 10) != 0 && pull.take_text() == word
        });
    }
}

/// Requests continue through twenty restarts, of the service or of the client.
fn survives_many_restarts(transport: Transport) {
    let ctx = Context::new();
    let endpoint = transport.fresh();
    let router = ctx.socket(ROUTER);
    router.bind(&endpoint).expect("bind");
    let dealer = ctx.socket(DEALER).with(RECONNECT_IVL, 5);
    dealer.set_bytes(ROUTING_ID, b"d").expect("ROUTING_ID");
    dealer.connect(&endpoint).expect("connect");
    let mut router = Some(router);
    for turn in 0..20 {
        let current = router.as_ref().expect("bound");
        let word = format!("turn {turn}");
        until("a round trip", || {
            let _ = dealer.send(&word, DONTWAIT);
            if ready(current, POLLIN, 10) != 0 {
                let parts = current.rx();
                current.tx(&parts);
            }
            ready(&dealer, POLLIN, 10) != 0 && dealer.take_text() == word
        });
        router.take().expect("bound").close().expect("close");
        let next = ctx.socket(ROUTER);
        until("the endpoint is free", || next.bind(&endpoint).is_ok());
        router = Some(next);
    }
}

/// An endpoint that is unbound and bound again serves the same peers. (libzmq closes the connections that it had
/// accepted; that is allowed, not required.)
fn serves_again_after_unbind(transport: Transport) {
    let ctx = Context::new();
    let endpoint = transport.fresh();
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH).with(RECONNECT_IVL, 10));
    pull.bind(&endpoint).expect("bind");
    push.connect(&endpoint).expect("connect");
    for turn in 0..3 {
        let word = format!("turn {turn}");
        until("the sender is heard", || {
            let _ = push.send(&word, DONTWAIT);
            ready(&pull, POLLIN, 10) != 0 && pull.take_text() == word
        });
        pull.unbind(&endpoint).expect("unbind");
        until("the endpoint is free", || pull.bind(&endpoint).is_ok());
    }
}

/// Back-off: with RECONNECT_IVL -1 there is no second attempt.
#[test]
fn does_not_reconnect_when_told_so() {
    let listener = peer::RawListener::bind(Transport::Tcp);
    let ctx = Context::new();
    let push = ctx.socket(PUSH).with(RECONNECT_IVL, -1);
    push.connect(&listener.endpoint()).expect("connect");
    drop(listener.accept());
    assert!(!listener.knocked(300), "a second try");
    let patient = ctx.socket(PUSH).with(RECONNECT_IVL, 20);
    patient.connect(&listener.endpoint()).expect("connect");
    for _ in 0..5 {
        drop(listener.accept());
    }
}

/// The intervals between attempts grow to RECONNECT_IVL_MAX: no reconnect storm.
#[test]
fn backs_off() {
    let listener = peer::RawListener::bind(Transport::Tcp);
    let ctx = Context::new();
    let push = ctx.socket(PUSH).with(RECONNECT_IVL, 40).with(RECONNECT_IVL_MAX, 200);
    push.connect(&listener.endpoint()).expect("connect");
    drop(listener.accept());
    let start = std::time::Instant::now();
    for _ in 0..5 {
        drop(listener.accept());
    }
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(150), "five tries within {elapsed:?}");
}

/// Without reconnecting, an endpoint is removed when its connection is lost.
#[test]
fn an_endpoint_that_is_not_dialed_again_is_gone() {
    let ctx = Context::new();
    let dealer = ctx.socket(DEALER).with(RECONNECT_IVL, -1);
    let listener = RawListener::bind(Transport::Tcp);
    let endpoint = listener.endpoint();
    dealer.connect(&endpoint).expect("connect");
    let mut peer = listener.accept();
    peer.handshake(1, "ROUTER");
    drop(peer);
    assert!(!listener.knocked(150), "it does not come back");
    until("the endpoint is gone", || {
        poll::ready(&dealer, POLLIN, 5);
        dealer.disconnect(&endpoint) == Err(Errno(libc::ENOENT))
    });
}

/// AFFINITY is a mask of I/O threads; a mask that selects none is an error where a thread is needed.
#[test]
fn affinity_names_io_threads() {
    let ctx = Context::new();
    ctx.set(IO_THREADS, 2).expect("IO_THREADS");
    for (mask, fits) in
        [(0u64, true), (1, true), (2, true), (3, true), (4, false), (6, true), (1 << 63, false)]
    {
        let (push, pull) = (ctx.socket(PUSH), ctx.socket(PULL));
        push.set_bytes(AFFINITY, &mask.to_ne_bytes()).expect("AFFINITY");
        let endpoint = Transport::Tcp.bind(&pull);
        if fits {
            push.connect(&endpoint).expect("connect");
            push.put("hello");
            pull.expect(&["hello"]);
        } else {
            assert_eq!(push.bind("tcp://127.0.0.1:*"), Err(Errno(EMTHREAD)));
            assert_eq!(push.connect(&endpoint), Err(Errno(EMTHREAD)));
        }
    }
}

/// Once zmq_unbind has returned, no message sent later passes over the endpoint's connections, in either direction.
/// Messages that had arrived before are received.
///
/// Fails with libzmq 4.3.4, which closes the connections some time later.
fn nothing_passes_after_unbind(transport: Transport) {
    for _ in 0..20 {
        let ctx = Context::new();
        let (server, client) = (ctx.socket(DEALER), ctx.socket(DEALER));
        let endpoint = transport.join(&server, &client);
        client.put("first");
        assert_eq!(server.take_text(), "first");
        server.put("answer");
        assert_eq!(client.take_text(), "answer");
        (0..10).for_each(|n| client.put(numbered(n, 100)));
        client.events(); // Writes the unwritten messages.
        assert_eq!(ready(&server, POLLIN, PATIENCE_MS.into()), POLLIN);
        server.unbind(&endpoint).expect("unbind");
        let _ = client.send("later", DONTWAIT);
        assert_eq!(server.send("later", DONTWAIT), Err(Errno(libc::EAGAIN)));
        drain(&server, 0, 10);
        assert_eq!(ready(&server, POLLIN, 2), 0);
        assert_eq!(ready(&client, POLLIN, 2), 0);
    }
}

/// While no peer listens, the interval between attempts doubles up to RECONNECT_IVL_MAX.
#[test]
fn tries_ever_more_seldom() {
    let ctx = Context::new();
    let push = ctx.socket(PUSH).with(RECONNECT_IVL, 10).with(RECONNECT_IVL_MAX, 160);
    let seen = Monitor::of(&ctx, &push, EVENT_CONNECT_RETRIED);
    push.connect(&Transport::Tcp.fresh()).expect("connect");
    let intervals: Vec<u32> = (0..7).map(|_| seen.next().value).collect();
    assert!(intervals[0] < 40, "{intervals:?}");
    assert!(intervals[6] >= 100, "{intervals:?}");
    assert!(intervals.iter().all(|&interval| interval <= 170), "{intervals:?}");
}

/// A peer that refuses the handshake is likely to refuse again: the interval doubles, also without RECONNECT_IVL_MAX.
///
/// Fails with libzmq 4.3.4, which does not retry.
#[test]
fn a_refused_client_tries_ever_more_seldom() {
    let ctx = Context::new();
    let (pull, publisher) = (ctx.socket(PULL), ctx.socket(PUB).with(RECONNECT_IVL, 10));
    let seen = Monitor::of(&ctx, &publisher, EVENT_CONNECT_RETRIED);
    publisher.connect(&Transport::Tcp.bind(&pull)).expect("connect");
    let intervals: Vec<u32> = (0..7).map(|_| seen.next().value).collect();
    let grows =
        intervals.iter().enumerate().all(|(n, &interval)| (10 << n..=(10 << n) + 10).contains(&interval));
    assert!(grows, "{intervals:?}");
}

/// Connects two sockets over inproc, in either order of bind and connect; afterwards no thread calls the bound
/// socket.
fn without_a_call(ctx: &Context, kinds: [i32; 2], setup: impl Fn(&Socket), test: impl Fn(&Socket, &Socket)) {
    for is_bound_first in [false, true] {
        let (bound, connected) = (ctx.socket(kinds[0]), ctx.socket(kinds[1]));
        let endpoint = Transport::Inproc.fresh();
        setup(&bound);
        if is_bound_first {
            bound.bind(&endpoint).expect("bind");
        }
        connected.connect(&endpoint).expect("connect");
        if !is_bound_first {
            bound.bind(&endpoint).expect("bind");
        }
        test(&bound, &connected);
    }
}

/// What a bound inproc socket sends to each new peer by itself is sent before bind and connect return.
///
/// Fails with libzmq 4.3.4, which sends some of it at the next call on the bound socket.
#[test]
fn an_inproc_socket_speaks_first_without_being_called() {
    let ctx = Context::new();
    let subscribe = |sub: &Socket| sub.set_bytes(SUBSCRIBE, b"").expect("SUBSCRIBE");
    without_a_call(&ctx, [SUB, PUB], subscribe, |sub, publisher| {
        publisher.put("news");
        assert_eq!(sub.take_text(), "news");
    });
    without_a_call(&ctx, [XSUB, XPUB], |xsub| xsub.put("\x01A"), |_, xpub| xpub.expect(&["\x01A"]));
    let welcome = |xpub: &Socket| xpub.set_bytes(XPUB_WELCOME_MSG, b"welcome").expect("XPUB_WELCOME_MSG");
    without_a_call(&ctx, [XPUB, SUB], welcome, |_, sub| {
        subscribe(sub);
        assert_eq!(sub.take_text(), "welcome");
    });
    let probe = |dealer: &Socket| dealer.set(PROBE_ROUTER, 1).expect("PROBE_ROUTER");
    without_a_call(&ctx, [DEALER, ROUTER], probe, |_, router| assert_eq!(router.rx()[1], b""));
    if !api::exports("zmq_join") {
        return;
    }
    without_a_call(
        &ctx,
        [DISH, RADIO],
        |dish| dish.join_group("g").expect("join"),
        |dish, radio| {
            radio.send_group("g", "news", 0).expect("send");
            assert_eq!(dish.take_group(), ("g".into(), b"news".to_vec()));
        },
    );
    let hello = |dealer: &Socket| dealer.set_bytes(HELLO_MSG, b"hello").expect("HELLO_MSG");
    without_a_call(&ctx, [DEALER, DEALER], hello, |_, dealer| assert_eq!(dealer.take_text(), "hello"));
}

/// Interval 0 means short intervals that grow: an absent peer costs next to nothing.
///
/// Fails with libzmq 4.3.4, which divides by it.
#[test]
fn an_interval_of_0_is_no_storm() {
    let ctx = Context::new();
    let push = ctx.socket(PUSH).with(RECONNECT_IVL, 0);
    let seen = Monitor::of(&ctx, &push, EVENT_CONNECT_RETRIED);
    push.connect(&Transport::Tcp.fresh()).expect("connect");
    let start = std::time::Instant::now();
    let intervals: Vec<u32> = (0..9).map(|_| seen.next().value).collect();
    assert!(intervals[0] <= 3 && intervals[8] >= 50, "{intervals:?}");
    assert!(intervals.iter().all(|&interval| interval <= 101), "{intervals:?}");
    assert!(start.elapsed() >= Duration::from_millis(100), "{:?}", start.elapsed());
}
