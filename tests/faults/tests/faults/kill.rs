//! `kill -9` of either end at random moments: the survivor continues, and each peer's messages arrive whole or not at
//! all, and in order.

use faults::{Victim, victim};
use support::child::{self, Child, long};
use support::filler::{Chance, body, number_of, numbered};
use support::pinnace::CUT;
use support::*;

support::roles!(streamer, collector, staller, service, victim);

over_wires!(
    survives_a_killed_sender,
    returns_what_the_killed_held,
    survives_a_killed_receiver,
    survives_a_killed_service,
    lingers_until_the_next_receiver,
    counts_what_waited_for_the_killed,
);

fn runs() -> u64 {
    if long() { 100 } else { 5 }
}

/// The senders' messages: a number, and a body that depends on it, in two or three parts.
fn parts_of(number: u64) -> Vec<Vec<u8>> {
    let size = [10, 200, 3_000, 50_000][(number % 4) as usize];
    let mut parts = vec![numbered(number, 8), body(number, size)];
    if number.is_multiple_of(3) {
        parts.push(numbered(number, 600));
    }
    parts
}

#[track_caller]
fn assert_whole(parts: &[Vec<u8>]) -> u64 {
    let number = number_of(&parts[0]);
    assert!(parts == parts_of(number), "message {number} is torn");
    number
}

/// Sends forever; the second argument is the stream's number.
fn streamer(args: &[String]) {
    let stream: u64 = args[1].parse().expect("a number");
    let ctx = Context::new();
    let push = ctx.bare_socket(PUSH);
    push.connect(&args[0]).expect("connect");
    for n in 0.. {
        push.tx(&parts_of(stream << 32 | n));
    }
}

fn survives_a_killed_sender(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let endpoint = transport.bind(&pull);
    let good = ctx.socket(PUSH);
    good.connect(&endpoint).expect("connect");
    good.put("ready");
    assert_eq!(pull.take_text(), "ready");
    let mut chance = Chance::new();
    for stream in 1..=runs() {
        let mut child = Child::start("streamer", &[&endpoint, &stream.to_string()]);
        let mut next = 0;
        let mut read = |parts: &[Vec<u8>]| {
            let number = assert_whole(parts);
            assert_eq!((number >> 32, number & 0xFFFF_FFFF), (stream, next), "in order, none missing");
            next += 1;
        };
        for _ in 0..1 + chance.below(3_000) {
            read(&pull.rx());
        }
        child.kill();
        // The rest of the killed sender's stream ends; then only the good peer sends.
        let marker = format!("after {stream}");
        good.put(&marker);
        until("the good peer's message", || {
            let parts = pull.rx();
            let is_marker = parts[0] == marker.as_bytes();
            if !is_marker {
                read(&parts);
            }
            is_marker
        });
        pull.set(RCVTIMEO, 50).expect("RCVTIMEO");
        while let Ok(parts) = pull.recv_parts(0) {
            read(&parts);
        }
        pull.set(RCVTIMEO, deadline::PATIENCE_MS).expect("RCVTIMEO");
    }
}

/// Memory and descriptors of killed senders are released.
fn returns_what_the_killed_held(transport: Transport) {
    let mut victim = Victim::start(transport, 1_000, -1);
    let before = victim.status();
    let mut chance = Chance::new();
    for stream in 1..=runs() {
        let endpoint = victim.endpoint.clone();
        let mut child = Child::start("streamer", &[&endpoint, &stream.to_string()]);
        until("it is connected", || victim.status().descriptors > before.descriptors);
        victim.serves(1 + chance.below(2_000));
        child.kill();
        until("descriptors return", || victim.status().descriptors <= before.descriptors);
    }
    victim.has_not_grown(before, 32 << 20);
    victim.ends();
}

/// Receives until the end message; messages must be whole and their numbers must increase.
fn collector(args: &[String]) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    until("the endpoint is free", || pull.bind(&args[0]).is_ok());
    child::say("bound");
    let mut last = None;
    loop {
        let parts = pull.rx();
        if parts[0] == b"end" {
            break;
        }
        let number = assert_whole(&parts);
        assert!(last.is_none_or(|last| number > last), "{number} came after {last:?}");
        if last.is_none() {
            child::say("reading");
        }
        last = Some(number);
    }
}

fn survives_a_killed_receiver(transport: Transport) {
    let ctx = Context::new();
    let endpoint = transport.fresh();
    let push = ctx.socket(PUSH).with(RECONNECT_IVL, 10).hwm(100);
    push.connect(&endpoint).expect("connect");
    let mut chance = Chance::new();
    let mut number = 0;
    for run in 0..runs() {
        let mut child = Child::start("collector", &[&endpoint]);
        assert_eq!(child.line(), "bound");
        // Keep sending until the child reads, and then for a random time.
        until("the receiver reads", || {
            number += send_some(&push, number, 1);
            child.has_line()
        });
        number += send_some(&push, number, chance.below(2_000));
        if run + 1 < runs() {
            child.kill();
            continue;
        }
        push.put("end");
        assert_eq!(child.line(), "reading");
        child.succeeds();
    }
}

/// Sends up to `count` messages, waiting only a moment for each; returns how many it sent.
fn send_some(push: &Socket, first: u64, count: u64) -> u64 {
    for n in 0..count {
        let parts = parts_of(first + n);
        if poll::ready(push, POLLOUT, 100) == 0 {
            return n;
        }
        push.tx(&parts);
    }
    count
}

/// Answers requests forever.
fn service(args: &[String]) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    until("the endpoint is free", || router.bind(&args[0]).is_ok());
    loop {
        let parts = router.rx();
        router.tx(&parts);
    }
}

/// A client continues with the next service at the same endpoint; it never reads half an answer.
fn survives_a_killed_service(transport: Transport) {
    let ctx = Context::new();
    let endpoint = transport.fresh();
    let dealer = ctx.socket(DEALER).with(RECONNECT_IVL, 10);
    dealer.connect(&endpoint).expect("connect");
    let mut chance = Chance::new();
    let mut number = 0;
    for _ in 0..runs() {
        let mut child = Child::start("service", &[&endpoint]);
        let mut last = 0;
        let mut answers = 0;
        let enough = 20 + chance.below(500);
        until("answers", || {
            if dealer.send_parts(&parts_of(number + 1), DONTWAIT).is_ok() {
                number += 1;
            }
            while poll::ready(&dealer, POLLIN, 1) != 0 {
                let answer = assert_whole(&dealer.rx());
                assert!(answer > last, "{answer} came after {last}");
                (last, answers) = (answer, answers + 1);
            }
            answers >= enough
        });
        child.kill();
    }
}

/// Receives exactly one message: as a PULL that binds, or as a socket of the given kind that connects.
fn staller(args: &[String]) {
    let ctx = Context::new();
    let kind = args.get(1).map_or(PULL, |kind| kind.parse().expect("a type"));
    let socket = ctx.socket(kind).hwm(10);
    match args.len() {
        1 => until("the endpoint is free", || socket.bind(&args[0]).is_ok()),
        _ => socket.connect(&args[0]).expect("connect"),
    }
    if kind == SUB {
        socket.set_bytes(SUBSCRIBE, b"").expect("SUBSCRIBE");
    }
    assert_whole(&socket.rx());
    child::say("reading");
    child::hear();
}

/// More messages than a stalled receiver and both kernels hold.
const MANY: u64 = 3_000;

/// The receiver of a lingering socket stalls and is killed: the socket sends the rest to the next receiver.
fn lingers_until_the_next_receiver(transport: Transport) {
    for _ in 0..runs().min(20) {
        let ctx = Context::new();
        let endpoint = transport.fresh();
        let push = ctx.socket(PUSH).with(RECONNECT_IVL, 10).with(LINGER, -1).hwm(0);
        push.connect(&endpoint).expect("connect");
        (0..MANY).for_each(|n| push.tx(&parts_of(n)));
        push.put("end");
        let mut first = Child::start("staller", &[&endpoint]);
        assert_eq!(first.line(), "reading");
        push.close().expect("close");
        let ended = std::thread::spawn(move || ctx.term_within(-1).expect("an end"));
        first.kill();
        let mut second = Child::start("collector", &[&endpoint]);
        assert_eq!((second.line(), second.line()), ("bound".into(), "reading".into()));
        second.succeeds();
        let left = ended.join().expect("an end");
        let cut = left.lost[CUT];
        assert!(cut <= 1 && left.lost.iter().sum::<u64>() == cut, "{left:?}");
    }
}

/// Every message accepted for the killed receiver is counted as sent or as lost.
fn counts_what_waited_for_the_killed(transport: Transport) {
    for (kind, theirs) in [(PUSH, PULL), (PUB, SUB)] {
        let ctx = Context::new();
        let sender = ctx.socket(kind).with(LINGER, 0).hwm(0);
        let endpoint = transport.bind(&sender);
        let mut child = Child::start("staller", &[&endpoint, &theirs.to_string()]);
        match kind {
            PUB => sender.wait_subscribers("", 1, PATIENCE_MS.into()).expect("a subscriber"),
            _ => sender.wait_peers(1).expect("a peer"),
        }
        (0..MANY).for_each(|n| sender.tx(&parts_of(n)));
        assert_eq!(child.line(), "reading");
        child.kill();
        until("it is gone", || sender.stats().peers == 0 && sender.peers().is_empty());
        let stats = sender.stats();
        let lost: u64 = stats.dropped.iter().sum();
        assert_eq!((stats.sent.messages + lost, stats.sent.queued), (MANY, 0), "{stats:?}");
        assert!(stats.sent.messages > 0 && lost > 0, "{stats:?}");
    }
}
