//! More of PUB and SUB: refused calls, conflation, the manual XPUB, a publisher that restarts.

use support::pubsub::settle;
use support::*;

over_transports!(
    conflates,
    manual_xpub_decides,
    manual_xpub_hears_a_subscriber_leave,
    verboser_tells_everything;
    wires
    resubscribes_after_the_publisher_returns
);

/// With CONFLATE a slow subscriber keeps only the last message.
fn conflates(transport: Transport) {
    let ctx = Context::new();
    let (push, pull) = (ctx.socket(PUSH).with(CONFLATE, 1), ctx.socket(PULL).with(CONFLATE, 1));
    transport.join(&pull, &push);
    for n in 0..1_000 {
        push.put(format!("{n:04}"));
    }
    let mut last = String::new();
    let mut count = 0;
    until("the last message", || {
        let message = pull.take_text();
        assert!(message > last, "in order");
        last = message;
        count += 1;
        last == "0999"
    });
    assert!(count < 1_000, "nothing was conflated");
}

/// With XPUB_MANUAL the application chooses the peer's subscriptions.
fn manual_xpub_decides(transport: Transport) {
    let ctx = Context::new();
    let xpub = ctx.socket(XPUB).with(XPUB_MANUAL, 1);
    let sub = ctx.socket(SUB);
    transport.join(&xpub, &sub);
    sub.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE");
    sub.set_bytes(SUBSCRIBE, b"XA").expect("SUBSCRIBE");
    xpub.expect(&["\x01A"]);
    xpub.set_bytes(SUBSCRIBE, b"XA").expect("SUBSCRIBE by the publisher");
    xpub.put("A");
    xpub.put("XA");
    sub.expect(&["XA"]);
}

/// When a peer leaves, its requested subscriptions are reported as ended, and those that it was given end.
fn manual_xpub_hears_a_subscriber_leave(transport: Transport) {
    let ctx = Context::new();
    let xpub = ctx.socket(XPUB).with(XPUB_MANUAL, 1);
    let endpoint = transport.bind(&xpub);
    let (first, second) = (ctx.socket(SUB), ctx.socket(SUB));
    for sub in [&first, &second] {
        sub.connect(&endpoint).expect("connect");
        sub.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE");
        xpub.expect(&["\x01A"]);
        xpub.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE for the peer");
    }
    first.close().expect("close");
    xpub.expect(&["\0A"]);
    xpub.put("A1");
    second.expect(&["A1"]);
    second.set_bytes(UNSUBSCRIBE, b"A").expect("UNSUBSCRIBE");
    xpub.expect(&["\0A"]);
    // The application has not ended it yet; the subscriber filters.
    second.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE");
    xpub.expect(&["\x01A"]);
    xpub.put("A2");
    second.expect(&["A2"]);
    xpub.set_bytes(UNSUBSCRIBE, b"A").expect("UNSUBSCRIBE for the peer");
    xpub.put("A3");
    second.expect_nothing();
}

/// A subscriber sends its subscriptions again to a publisher that restarted at the same endpoint.
fn resubscribes_after_the_publisher_returns(transport: Transport) {
    let ctx = Context::new();
    let sub = ctx.socket(SUB).with(RECONNECT_IVL, 10);
    sub.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE");
    let endpoint = transport.fresh();
    sub.connect(&endpoint).expect("connect");
    for turn in 0..3 {
        let xpub = ctx.socket(XPUB).with(LINGER, 0);
        until("the endpoint is free", || xpub.bind(&endpoint).is_ok());
        // libzmq subscribes again only when the subscriber's thread enters the library.
        until("the subscription comes again", || {
            poll::ready(&sub, POLLIN, 5);
            poll::ready(&xpub, POLLIN, 0) != 0
        });
        xpub.expect(&["\x01A"]);
        xpub.put("B");
        xpub.put(format!("A{turn}"));
        sub.expect(&[format!("A{turn}")]);
        xpub.close().expect("close");
    }
}

#[test]
fn refuses_the_wrong_direction() {
    let ctx = Context::new();
    let (publisher, sub) = Transport::Inproc.pair(&ctx, PUB, SUB);
    assert_eq!(publisher.recv(DONTWAIT), Err(Errno(libc::ENOTSUP)));
    assert_eq!(sub.send("x", DONTWAIT), Err(Errno(libc::ENOTSUP)));
    assert_eq!(publisher.set_bytes(SUBSCRIBE, b"A"), Err(Errno(libc::EINVAL)));
    assert_eq!(poll::ready(&sub, POLLOUT, 0), 0);
    assert_eq!(poll::ready(&publisher, POLLIN, 0), 0);
}

/// A publisher without subscribers accepts messages and drops them: it is always ready to send.
#[test]
fn publishes_to_nobody() {
    let ctx = Context::new();
    let publisher = ctx.socket(PUB).hwm(1);
    for _ in 0..10_000 {
        publisher.put("nobody hears");
    }
    assert_eq!(poll::ready(&publisher, POLLOUT, 0), POLLOUT);
}

/// Topics may be long and numerous.
#[test]
fn takes_many_and_long_topics() {
    within(60, || {
        let ctx = Context::new();
        let (publisher, sub) = Transport::Tcp.pair(&ctx, PUB, SUB);
        let long = "t".repeat(3_000);
        sub.set_bytes(SUBSCRIBE, long.as_bytes()).expect("SUBSCRIBE");
        for n in 0..400 {
            sub.set_bytes(SUBSCRIBE, format!("topic/{n}/").as_bytes()).expect("SUBSCRIBE");
        }
        settle(&publisher, &sub);
        publisher.put(&long[1..]);
        publisher.put(&long);
        sub.expect(&[&long]);
        for n in (0..400).rev() {
            publisher.put(format!("topic/{n}"));
            publisher.put(format!("topic/{n}/x"));
            sub.expect(&[format!("topic/{n}/x")]);
        }
        for n in 0..400 {
            sub.set_bytes(UNSUBSCRIBE, format!("topic/{n}/").as_bytes()).expect("UNSUBSCRIBE");
        }
        sub.set_bytes(UNSUBSCRIBE, long.as_bytes()).expect("UNSUBSCRIBE");
        settle(&publisher, &sub);
        publisher.put("topic/1/x");
        publisher.put(&long);
        settle(&publisher, &sub);
    });
}

/// With XPUB_VERBOSER each subscription and each end of one is reported, even if other peers have the topic.
fn verboser_tells_everything(transport: Transport) {
    let ctx = Context::new();
    let xpub = ctx.socket(XPUB).with(XPUB_VERBOSER, 1);
    let endpoint = transport.bind(&xpub);
    let subs = [ctx.socket(SUB), ctx.socket(SUB)];
    for sub in &subs {
        sub.connect(&endpoint).expect("connect");
        sub.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE");
        xpub.expect(&["\x01A"]);
    }
    for sub in &subs {
        sub.set_bytes(UNSUBSCRIBE, b"A").expect("UNSUBSCRIBE");
        xpub.expect(&["\0A"]);
    }
}
