//! A sender that exits as soon as it has sent: everything sent before an orderly end arrives.
//!
//! libzmq 4.3.4 fails this over ipc, not on every run: a hang-up while the receiver's input is stopped at the
//! high-water mark discards what the kernel still holds.

use support::child::{self, Child, long};
use support::filler::{number_of, numbered};
use support::*;

support::roles!(sender, asker);

over_wires!(loses_nothing_when_the_sender_exits, loses_nothing_to_a_slow_reader, answers_the_last_question);

fn runs() -> u32 {
    if long() { 100 } else { 5 }
}

/// Arguments: endpoint, messages, size of each.
fn sender(args: &[String]) {
    let (count, size): (u64, usize) = (args[1].parse().expect("count"), args[2].parse().expect("size"));
    let ctx = Context::new();
    let push = ctx.bare_socket(PUSH);
    push.connect(&args[0]).expect("connect");
    for n in 0..count {
        push.put(numbered(n, size));
    }
    push.close().expect("close");
    ctx.term().expect("term");
    child::leave(0);
}

#[track_caller]
fn receive_all(pull: &Socket, run: u32, count: u64) {
    for n in 0..count {
        match pull.recv(0) {
            Ok(message) => assert_eq!(number_of(&message), n, "run {run}: in order"),
            Err(error) => panic!("run {run}: {} of {count} messages lost ({error:?})", count - n),
        }
    }
}

fn loses_nothing_when_the_sender_exits(transport: Transport) {
    for run in 0..runs() {
        let ctx = Context::new();
        // A shorter timeout, so that a lost message fails the test soon.
        let pull = ctx.socket(PULL).with(RCVTIMEO, 5_000);
        let endpoint = transport.bind(&pull);
        let mut sender = Child::start("sender", &[&endpoint, "300000", "16"]);
        receive_all(&pull, run, 300_000);
        sender.succeeds();
    }
}

/// The reader starts when the sender is gone, or as near to its end as it can get.
fn loses_nothing_to_a_slow_reader(transport: Transport) {
    for (run, (count, size)) in
        (0..runs()).zip([(1_500, 16), (900, 4_000), (120, 100_000)].into_iter().cycle())
    {
        let ctx = Context::new();
        let pull = ctx.socket(PULL).with(RCVTIMEO, 5_000).hwm(100);
        let endpoint = transport.bind(&pull);
        let mut sender = Child::start("sender", &[&endpoint, &count.to_string(), &size.to_string()]);
        // Start when the first message has arrived, then give the sender a head start.
        assert_eq!(poll::ready(&pull, POLLIN, deadline::PATIENCE_MS as i64), POLLIN);
        deadline::pass(std::time::Duration::from_millis(100));
        receive_all(&pull, run, count);
        sender.succeeds();
    }
}

/// Sends one request and exits without waiting for the answer.
fn asker(args: &[String]) {
    let ctx = Context::new();
    let dealer = ctx.bare_socket(DEALER);
    dealer.connect(&args[0]).expect("connect");
    dealer.tx(&["", "last words"]);
    dealer.close().expect("close");
    ctx.term().expect("term");
    child::leave(0);
}

/// A single message from a process that lives only long enough to send it.
fn answers_the_last_question(transport: Transport) {
    let ctx = Context::new();
    let rep = ctx.socket(REP);
    let endpoint = transport.bind(&rep);
    for _ in 0..runs() {
        let mut asker = Child::start("asker", &[&endpoint]);
        assert_eq!(rep.take_text(), "last words");
        rep.put("too late");
        asker.succeeds();
    }
}
