//! PUB, SUB, XPUB, XSUB: filters, upstream messages, drops at the high-water mark that never reorder.

use support::filler::{number_of, numbered};
use support::pubsub::settle;
use support::*;

over_transports!(
    filters_by_prefix,
    takes_everything_for_the_empty_topic,
    takes_nothing_without_subscription,
    unsubscribes,
    counts_equal_subscriptions,
    filters_on_the_first_part,
    fans_out,
    subscribes_before_and_after_connecting,
    publishes_from_the_connecting_side,
    hears_several_publishers,
    drops_at_the_mark_and_never_reorders,
    xpub_sees_subscriptions,
    xpub_hears_a_subscriber_leave,
    xpub_is_told_once_or_always,
    xpub_without_drop_says_eagain,
    xsub_subscribes_by_message,
    xsub_speaks_upstream,
    inverts_the_match,
    welcomes,
);

fn subscribe(socket: &Socket, topic: &str) {
    socket.set_bytes(SUBSCRIBE, topic.as_bytes()).expect("SUBSCRIBE");
}

fn unsubscribe(socket: &Socket, topic: &str) {
    socket.set_bytes(UNSUBSCRIBE, topic.as_bytes()).expect("UNSUBSCRIBE");
}

/// A topic is a prefix of the message, byte for byte.
fn filters_by_prefix(transport: Transport) {
    let ctx = Context::new();
    let (publisher, sub) = transport.pair(&ctx, PUB, SUB);
    subscribe(&sub, "AB");
    subscribe(&sub, "C\0D");
    settle(&publisher, &sub);
    for topic in ["A", "B", "AB", "ABC", "aB", "", "C", "C\0", "C\0D", "C\0DE", "BAB"] {
        publisher.put(topic);
    }
    for wanted in ["AB", "ABC", "C\0D", "C\0DE"] {
        assert_eq!(sub.take_text(), wanted);
    }
    publisher.put("AB end");
    assert_eq!(sub.take_text(), "AB end");
}

fn takes_everything_for_the_empty_topic(transport: Transport) {
    let ctx = Context::new();
    let (publisher, sub) = transport.pair(&ctx, PUB, SUB);
    subscribe(&sub, "");
    settle(&publisher, &sub);
    for message in ["x", "", "\0", "long enough to be no topic"] {
        publisher.put(message);
        assert_eq!(sub.take_text(), message);
    }
}

fn takes_nothing_without_subscription(transport: Transport) {
    let ctx = Context::new();
    let (publisher, sub) = transport.pair(&ctx, PUB, SUB);
    settle(&publisher, &sub);
    publisher.put("");
    publisher.put("anything");
    subscribe(&sub, "last");
    settle(&publisher, &sub);
    publisher.put("last");
    assert_eq!(sub.take_text(), "last");
}

fn unsubscribes(transport: Transport) {
    let ctx = Context::new();
    let (publisher, sub) = transport.pair(&ctx, PUB, SUB);
    subscribe(&sub, "A");
    subscribe(&sub, "B");
    settle(&publisher, &sub);
    unsubscribe(&sub, "A");
    settle(&publisher, &sub);
    publisher.put("A1");
    publisher.put("B1");
    assert_eq!(sub.take_text(), "B1");
    subscribe(&sub, "A");
    settle(&publisher, &sub);
    publisher.put("A2");
    assert_eq!(sub.take_text(), "A2");
}

/// A socket that subscribed twice must unsubscribe twice; it receives each message once.
fn counts_equal_subscriptions(transport: Transport) {
    let ctx = Context::new();
    let (publisher, sub) = transport.pair(&ctx, PUB, SUB);
    subscribe(&sub, "A");
    subscribe(&sub, "A");
    subscribe(&sub, "end");
    unsubscribe(&sub, "A");
    settle(&publisher, &sub);
    publisher.put("A1");
    publisher.put("end");
    assert_eq!(sub.take_text(), "A1");
    assert_eq!(sub.take_text(), "end");
    unsubscribe(&sub, "A");
    settle(&publisher, &sub);
    publisher.put("A2");
    publisher.put("end");
    assert_eq!(sub.take_text(), "end");
}

fn filters_on_the_first_part(transport: Transport) {
    let ctx = Context::new();
    let (publisher, sub) = transport.pair(&ctx, PUB, SUB);
    subscribe(&sub, "A");
    settle(&publisher, &sub);
    publisher.tx(&["B", "A", "A"]);
    publisher.tx(&["A", "B", "", "C"]);
    sub.expect(&["A", "B", "", "C"]);
    publisher.tx(&["A"]);
    sub.expect(&["A"]);
}

/// Eight subscribers with different subscriptions each receive their own messages, complete and in order.
fn fans_out(transport: Transport) {
    let ctx = Context::new();
    let publisher = ctx.socket(PUB);
    let endpoint = transport.bind(&publisher);
    let subs: Vec<Socket> = (0..8).map(|_| ctx.socket(SUB)).collect();
    for (n, sub) in subs.iter().enumerate() {
        subscribe(sub, &format!("{}", n % 4));
        sub.connect(&endpoint).expect("connect");
        settle(&publisher, sub);
    }
    for n in 0..400 {
        publisher.put(format!("{} message {n}", n % 5));
    }
    for (n, sub) in subs.iter().enumerate() {
        for turn in 0..80 {
            assert_eq!(sub.take_text(), format!("{} message {}", n % 4, 5 * turn + n % 4));
        }
    }
}

fn subscribes_before_and_after_connecting(transport: Transport) {
    let ctx = Context::new();
    let publisher = ctx.socket(PUB);
    let endpoint = transport.bind(&publisher);
    let sub = ctx.socket(SUB);
    subscribe(&sub, "before");
    sub.connect(&endpoint).expect("connect");
    subscribe(&sub, "after");
    settle(&publisher, &sub);
    publisher.put("before");
    publisher.put("after");
    assert_eq!(sub.take_text(), "before");
    assert_eq!(sub.take_text(), "after");
}

fn publishes_from_the_connecting_side(transport: Transport) {
    let ctx = Context::new();
    let (sub, publisher) = transport.pair(&ctx, SUB, PUB);
    subscribe(&sub, "A");
    settle(&publisher, &sub);
    publisher.put("B");
    publisher.put("A");
    assert_eq!(sub.take_text(), "A");
}

/// One subscriber at three publishers: its subscriptions reach all of them.
fn hears_several_publishers(transport: Transport) {
    let ctx = Context::new();
    let sub = ctx.socket(SUB);
    subscribe(&sub, "A");
    let publishers: Vec<Socket> = (0..3).map(|_| ctx.socket(PUB)).collect();
    publishers.iter().for_each(|publisher| {
        transport.join(publisher, &sub);
    });
    publishers.iter().for_each(|publisher| settle(publisher, &sub));
    for (n, publisher) in publishers.iter().enumerate() {
        publisher.put("not for you");
        publisher.put(format!("A{n}"));
    }
    let mut heard: Vec<String> = (0..3).map(|_| sub.take_text()).collect();
    heard.sort();
    assert_eq!(heard, ["A0", "A1", "A2"]);
}

/// A publisher never blocks. A subscriber at its high-water mark loses messages, but receives the rest whole and in
/// order, and all of them again once it keeps up.
fn drops_at_the_mark_and_never_reorders(transport: Transport) {
    const SENT: u64 = 2_000;
    let ctx = Context::new();
    let (publisher, sub) = (ctx.socket(PUB).hwm(10), ctx.socket(SUB).hwm(10));
    transport.join(&publisher, &sub);
    subscribe(&sub, "");
    settle(&publisher, &sub);
    for n in 0..SENT {
        assert_eq!(publisher.send(numbered(n, 20_000), DONTWAIT), Ok(20_000));
    }
    settle_reading(&publisher, &sub, SENT);
    // A publisher may learn late what was read, by at most half a high-water mark.
    for n in 0..5 {
        publisher.put(numbered(n, 20_000));
        assert_eq!(number_of(&sub.take()), n, "a subscriber that keeps up misses nothing");
    }
}

/// Reads the rest of `0..sent`, checking the order, until a message sent later arrives.
fn settle_reading(publisher: &Socket, sub: &Socket, sent: u64) {
    let (mut next, mut seen) = (0, 0);
    let mut end = sent;
    loop {
        publisher.put(numbered(end, 8));
        end += 1;
        while poll::ready(sub, POLLIN, 20) != 0 {
            let number = number_of(&sub.take());
            assert!(number >= next, "{number} came after {next}");
            next = number + 1;
            seen += (number < sent) as u64;
        }
        if next == end {
            break;
        }
    }
    assert!(seen >= 5, "hardly anything came through: {seen}");
    assert!(seen < sent, "with marks of 10 something must have been dropped");
}

/// Subscriptions arrive at an XPUB as 01 or 00 and the topic.
fn xpub_sees_subscriptions(transport: Transport) {
    let ctx = Context::new();
    let (xpub, sub) = transport.pair(&ctx, XPUB, SUB);
    subscribe(&sub, "A");
    xpub.expect(&["\x01A"]);
    subscribe(&sub, "");
    xpub.expect(&["\x01"]);
    unsubscribe(&sub, "A");
    xpub.expect(&["\0A"]);
    unsubscribe(&sub, "");
    xpub.expect(&["\0"]);
}

fn xpub_hears_a_subscriber_leave(transport: Transport) {
    let ctx = Context::new();
    let (xpub, sub) = transport.pair(&ctx, XPUB, SUB);
    subscribe(&sub, "A");
    subscribe(&sub, "B");
    xpub.expect(&["\x01A"]);
    xpub.expect(&["\x01B"]);
    sub.close().expect("close");
    let mut left = [xpub.take(), xpub.take()];
    left.sort();
    assert_eq!(left, [b"\0A", b"\0B"]);
}

/// A second subscriber's equal subscription is reported only with XPUB_VERBOSE; the last one's end always is.
fn xpub_is_told_once_or_always(transport: Transport) {
    for verbose in [false, true] {
        let ctx = Context::new();
        let xpub = ctx.socket(XPUB).with(XPUB_VERBOSE, verbose as i32);
        let endpoint = transport.bind(&xpub);
        let (first, second) = (ctx.socket(SUB), ctx.socket(SUB));
        first.connect(&endpoint).expect("connect");
        subscribe(&first, "A");
        xpub.expect(&["\x01A"]);
        second.connect(&endpoint).expect("connect");
        subscribe(&second, "A");
        subscribe(&second, "mark");
        if verbose {
            xpub.expect(&["\x01A"]);
        }
        xpub.expect(&["\x01mark"]);
        unsubscribe(&first, "A");
        subscribe(&first, "mark 2");
        xpub.expect(&["\x01mark 2"]);
        unsubscribe(&second, "A");
        xpub.expect(&["\0A"]);
    }
}

/// With XPUB_NODROP a full subscriber means EAGAIN instead of a dropped message.
fn xpub_without_drop_says_eagain(transport: Transport) {
    let ctx = Context::new();
    let (xpub, sub) = (ctx.socket(XPUB).hwm(3).with(XPUB_NODROP, 1), ctx.socket(SUB).hwm(3));
    transport.join(&xpub, &sub);
    subscribe(&sub, "");
    xpub.expect(&["\x01"]);
    let count = filler::fill(&xpub, 0, 20_000);
    assert!(count >= 6, "at least both marks: {count}");
    filler::drain(&sub, 0, count);
}

/// XSUB subscribes by sending 01 and the topic.
fn xsub_subscribes_by_message(transport: Transport) {
    let ctx = Context::new();
    let (xpub, xsub) = transport.pair(&ctx, XPUB, XSUB);
    xsub.put("\x01A");
    xpub.expect(&["\x01A"]);
    xpub.put("B");
    xpub.put("A");
    xsub.expect(&["A"]);
    xsub.put("\0A");
    xpub.expect(&["\0A"]);
    xsub.put("\x01B");
    xpub.expect(&["\x01B"]);
    xpub.put("A");
    xpub.put("B");
    xsub.expect(&["B"]);
}

/// Other messages of an XSUB go upstream unchanged.
fn xsub_speaks_upstream(transport: Transport) {
    let ctx = Context::new();
    let (xpub, xsub) = transport.pair(&ctx, XPUB, XSUB);
    xsub.put("\x01A");
    xsub.put("upstream");
    xsub.tx(&["two", "parts"]);
    xpub.expect(&["\x01A"]);
    xpub.expect(&["upstream"]);
    xpub.expect(&["two", "parts"]);
}

fn inverts_the_match(transport: Transport) {
    let ctx = Context::new();
    let (publisher, sub) =
        (ctx.socket(XPUB).with(INVERT_MATCHING, 1), ctx.socket(SUB).with(INVERT_MATCHING, 1));
    transport.join(&publisher, &sub);
    subscribe(&sub, "A");
    publisher.expect(&["\x01A"]);
    publisher.put("AB");
    publisher.put("B");
    sub.expect(&["B"]);
}

/// XPUB_WELCOME_MSG is sent to every subscriber with a matching subscription.
fn welcomes(transport: Transport) {
    let ctx = Context::new();
    let xpub = ctx.socket(XPUB);
    xpub.set_bytes(XPUB_WELCOME_MSG, b"W elcome").expect("XPUB_WELCOME_MSG");
    let endpoint = transport.bind(&xpub);
    let sub = ctx.socket(SUB);
    subscribe(&sub, "W");
    sub.connect(&endpoint).expect("connect");
    xpub.expect(&["\x01W"]);
    sub.expect(&["W elcome"]);
    xpub.put("W1");
    sub.expect(&["W1"]);
}
