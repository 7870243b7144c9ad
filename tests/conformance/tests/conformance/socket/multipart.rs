//! A multipart message is one message: whole or absent, one at the high-water mark, never mixed with another.

use support::filler::{drain, numbered};
use support::*;

over_transports!(
    shows_no_part_before_the_last,
    never_mixes_two_senders,
    half_a_message_vanishes_with_its_sender,
    takes_a_thousand_parts,
    replies_in_parts_of_every_size,
);

fn shows_no_part_before_the_last(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    push.put("before");
    assert_eq!(pull.take_text(), "before");
    push.send("first", SNDMORE).expect("send");
    push.send("", SNDMORE).expect("send");
    pull.expect_nothing();
    push.put("last");
    pull.expect(&["first", "", "last"]);
}

fn never_mixes_two_senders(transport: Transport) {
    const EACH: usize = 400;
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let endpoint = transport.bind(&pull);
    std::thread::scope(|scope| {
        for id in 0..3 {
            let push = ctx.socket(PUSH);
            push.connect(&endpoint).expect("connect");
            scope.spawn(move || {
                for n in 0..EACH {
                    let parts: Vec<String> = (0..1 + n % 7).map(|part| format!("{id} {n} {part}")).collect();
                    push.tx(&parts);
                }
                push.close().expect("close");
            });
        }
        let mut next = [0; 3];
        for _ in 0..3 * EACH {
            let parts = pull.rx();
            let id = (parts[0][0] - b'0') as usize;
            let n = next[id];
            assert_eq!(parts.len(), 1 + n % 7);
            for (place, part) in parts.iter().enumerate() {
                assert_eq!(part, format!("{id} {n} {place}").as_bytes());
            }
            next[id] += 1;
        }
    });
}

fn half_a_message_vanishes_with_its_sender(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let endpoint = transport.bind(&pull);
    let (quits, stays) = (ctx.socket(PUSH), ctx.socket(PUSH));
    quits.connect(&endpoint).expect("connect");
    stays.connect(&endpoint).expect("connect");
    quits.put("whole");
    assert_eq!(pull.take_text(), "whole");
    quits.send("half", SNDMORE).expect("send");
    quits.close().expect("close");
    stays.tx(&["of", "another"]);
    pull.expect(&["of", "another"]);
    pull.expect_nothing();
}

fn takes_a_thousand_parts(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL).hwm(1), ctx.socket(PUSH).hwm(1));
    transport.join(&pull, &push);
    let parts: Vec<Vec<u8>> = (0..1_000).map(|n| numbered(n, 100)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..5).for_each(|_| push.tx(&parts)));
        (0..5).for_each(|_| pull.expect(&parts));
    });
}

fn replies_in_parts_of_every_size(transport: Transport) {
    let ctx = Context::new();
    let (rep, req) = transport.pair(&ctx, REP, REQ);
    let sizes = [0, 1, 33, 34, 255, 256, 300, 8_192, 70_000, 0, 1];
    let parts: Vec<Vec<u8>> = sizes.iter().map(|size| filler::body(*size as u64, *size)).collect();
    for _ in 0..20 {
        req.tx(&parts);
        rep.expect(&parts);
        rep.tx(&parts);
        req.expect(&parts);
    }
}

/// The high-water mark counts messages, not parts; a message in progress can always be finished.
#[test]
fn counts_as_one_at_the_mark() {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL).hwm(2), ctx.socket(PUSH).hwm(2));
    Transport::Inproc.join(&pull, &push);
    for n in 0..4 {
        for _ in 0..20 {
            push.send(numbered(n, 8), SNDMORE | DONTWAIT).expect("a message may have any number of parts");
        }
        push.send(numbered(n, 8), DONTWAIT).expect("a message that was begun can be finished");
    }
    assert_eq!(push.send("x", SNDMORE | DONTWAIT), Err(Errno(libc::EAGAIN)));
    assert_eq!(push.send("x", DONTWAIT), Err(Errno(libc::EAGAIN)));
    for n in 0..4 {
        let parts = pull.rx();
        assert_eq!(parts.len(), 21);
        assert!(parts.iter().all(|part| *part == numbered(n, 8)));
    }
    push.put(numbered(9, 8));
    drain(&pull, 9, 1);
}
