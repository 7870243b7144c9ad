//! Crowds: a thousand connections of one socket, all served, and all back after a restart; and a message to very many
//! peers, which is in memory once. The long form uses nine thousand; it needs 20,000 descriptors.

use support::child::{self, long};
use support::filler::{body, number_of, numbered};
use support::peer::RawPeer;
use support::process::{limit_descriptors, own, private_bytes};
use support::*;

over_wires!(all_of_a_crowd_are_served_and_come_back, a_crowd_that_leaves_leaves_nothing);

support::alone!(
    a_message_to_very_many_lies_in_memory_once;
    roles
    serve_a_crowd_that_comes_back,
    serve_a_crowd_that_leaves
);

fn crowd() -> u64 {
    if long() { 9_000 } else { 1_000 }
}

/// Both ends are in this process, each with one descriptor per connection.
fn make_room() {
    limit_descriptors(2 * crowd() + 1_000);
}

/// A PULL to which the whole crowd has connected.
fn receiver(ctx: &Context, endpoint: &str) -> Socket {
    let pull = ctx.socket(PULL).with(BACKLOG, 4096);
    until("the endpoint is free again", || pull.bind(endpoint).is_ok());
    until("all are there", || pull.stats().peers == crowd());
    pull
}

/// Sends one message over each connection.
fn all_are_served(push: &Socket, pull: &Socket) {
    (0..crowd()).for_each(|number| push.put(numbered(number, 64)));
    let mut numbers: Vec<u64> = (0..crowd()).map(|_| number_of(&pull.take())).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..crowd()), "each once");
}

fn all_of_a_crowd_are_served_and_come_back(transport: Transport) {
    child::alone("serve_a_crowd_that_comes_back", &[transport.name()]);
}

/// The connecting side stays; the bound side restarts.
fn serve_a_crowd_that_comes_back(args: &[String]) {
    make_room();
    let ctx = Context::new();
    let (push, endpoint) = (ctx.socket(PUSH), Transport::named(&args[0]).fresh());
    (0..crowd()).for_each(|_| push.connect(&endpoint).expect("connect"));
    for _ in 0..3 {
        let pull = receiver(&ctx, &endpoint);
        for round in 1..=3 {
            all_are_served(&push, &pull);
            let each = pull.peers().iter().all(|peer| peer.received.messages == round);
            assert!(each, "one over each in round {round}");
        }
        pull.close().expect("close");
    }
}

fn a_crowd_that_leaves_leaves_nothing(transport: Transport) {
    child::alone("serve_a_crowd_that_leaves", &[transport.name()]);
}

/// The bound side stays; the connecting side leaves.
fn serve_a_crowd_that_leaves(args: &[String]) {
    make_room();
    let ctx = Context::new();
    let (pull, endpoint) = (ctx.socket(PULL).with(BACKLOG, 4096), Transport::named(&args[0]).fresh());
    pull.bind(&endpoint).expect("bind");
    for _ in 0..2 {
        let push = ctx.socket(PUSH);
        (0..crowd()).for_each(|_| push.connect(&endpoint).expect("connect"));
        until("all are there", || pull.stats().peers == crowd());
        all_are_served(&push, &pull);
        push.close().expect("close");
        until("all have gone", || pull.stats().peers == 0);
    }
}

/// To peers that read nothing, each with its own queue.
fn a_message_to_very_many_lies_in_memory_once() {
    const PEERS: usize = 300;
    const BODIES: u64 = 50;
    const BYTES: usize = 100_000;
    make_room();
    let ctx = Context::new();
    let publisher = ctx.socket(XPUB).with(SNDHWM, 0).with(SNDBUF, 8_192).with(LINGER, 0);
    let endpoint = Transport::Ipc.bind(&publisher);
    let mut peers: Vec<RawPeer> = (0..PEERS).map(|_| RawPeer::connect(&endpoint)).collect();
    for peer in &mut peers {
        peer.handshake(1, "SUB");
        peer.send(&wire::command("SUBSCRIBE", b""));
    }
    publisher.wait_subscribers("", PEERS, 20_000).expect("all subscribe");
    let before = private_bytes(own());
    (0..BODIES).for_each(|number| publisher.put(body(number, BYTES)));
    let more = private_bytes(own()).saturating_sub(before);
    // One copy per peer would be 1.5 GB.
    assert!(more < 100_000_000, "{more} bytes more");
    for peer in [0, PEERS / 2, PEERS - 1] {
        for number in 0..BODIES {
            assert!(peers[peer].read_message() == body(number, BYTES), "number {number} to {peer}");
        }
    }
}
