//! Many of everything: connections, subscriptions, long topics.

use support::child::{self, Child, long};
use support::filler::{number_of, numbered};
use support::pubsub::settle;
use support::*;

support::roles!(collector, has_a_long_topic, wishes_much);

over_wires!(many_connections_in_order, many_wishes_at_once);

/// Reads from many peers; each peer's messages must be in order. Arguments: endpoint, peers, messages.
fn collector(args: &[String]) {
    let (peers, each): (usize, u64) = (args[1].parse().expect("peers"), args[2].parse().expect("messages"));
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    pull.bind(&args[0]).expect("bind");
    child::say(pull.endpoint());
    let mut next = vec![0; peers];
    for _ in 0..peers as u64 * each {
        let number = number_of(&pull.take());
        let (peer, n) = ((number >> 32) as usize, number & 0xFFFF_FFFF);
        assert_eq!(n, next[peer], "in the order of peer {peer}");
        next[peer] += 1;
    }
    assert!(next.iter().all(|count| *count == each));
    child::say("complete");
    child::hear();
}

/// A hundred connections (a thousand in the long form) with a thousand messages each.
fn many_connections_in_order(transport: Transport) {
    let count: u64 = if long() { 1_000 } else { 100 };
    let mut child = Child::start("collector", &[&transport.wildcard(), &count.to_string(), "1000"]);
    let endpoint = child.line();
    let ctx = Context::new();
    ctx.set(MAX_SOCKETS, 2_000).expect("MAX_SOCKETS");
    let pushes: Vec<Socket> = (0..count).map(|_| ctx.socket(PUSH)).collect();
    pushes.iter().for_each(|push| push.connect(&endpoint).expect("connect"));
    for n in 0..1_000 {
        for (push, peer) in pushes.iter().zip(0u64..) {
            push.put(numbered(peer << 32 | n, 64));
        }
    }
    assert_eq!(child.line(), "complete");
    child.tell("end");
    child.succeeds();
}

/// A topic of 60,000 bytes is subscribed and unsubscribed.
///
/// Fails with libzmq 4.3.4: one trie node per byte, removed recursively, overflows the stack.
fn has_a_long_topic(_: &[String]) {
    let topic = "t".repeat(60_000);
    let ctx = Context::new();
    let (publisher, sub) = Transport::Tcp.pair(&ctx, PUB, SUB);
    sub.set_bytes(SUBSCRIBE, topic.as_bytes()).expect("SUBSCRIBE");
    settle(&publisher, &sub);
    publisher.put(&topic[1..]);
    publisher.put(&topic);
    sub.expect(&[&topic]);
    sub.set_bytes(UNSUBSCRIBE, topic.as_bytes()).expect("UNSUBSCRIBE");
    settle(&publisher, &sub);
}

#[test]
fn a_topic_may_be_long() {
    child::alone("has_a_long_topic", &[]);
}

/// Subscribes to 5,000 topics at once, above every high-water mark. Argument: endpoint.
fn wishes_much(args: &[String]) {
    let ctx = Context::new();
    let sub = ctx.socket(SUB);
    sub.connect(&args[0]).expect("connect");
    sub.set_bytes(SUBSCRIBE, b"first").expect("SUBSCRIBE");
    assert_eq!(sub.take_text(), "first");
    for n in 0..5_000 {
        sub.set_bytes(SUBSCRIBE, format!("topic {n}.").as_bytes()).expect("SUBSCRIBE");
    }
    child::say("asked");
    child::hear();
}

/// No subscription is dropped at a high-water mark: control messages do not count.
///
/// Fails with libzmq 4.3.4, which silently drops subscriptions past the pipe's high-water mark.
fn many_wishes_at_once(transport: Transport) {
    let ctx = Context::new();
    let xpub = ctx.socket(XPUB).hwm(100);
    let endpoint = transport.bind(&xpub);
    let mut child = Child::start("wishes_much", &[&endpoint]);
    xpub.expect(&["\x01first"]);
    xpub.put("first");
    // The publisher reads only after all subscriptions were sent.
    assert_eq!(child.line(), "asked");
    for n in 0..5_000 {
        xpub.expect(&[format!("\x01topic {n}.")]);
    }
    child.tell("end");
    child.succeeds();
}
