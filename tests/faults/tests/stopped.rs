//! A process that is stopped and goes on, as by Ctrl-Z and `fg`: no call of it fails, since no signal was handled.

use support::child::{self, Child};
use support::process::sleeps;
use support::*;

support::roles!(waiter);

/// Waits for messages in the way that the second argument names, and tells them.
fn waiter(args: &[String]) {
    let ctx = Context::new();
    let pull = ctx.bare_socket(PULL).with(BUSY_POLL, -1);
    pull.connect(&args[0]).expect("connect");
    child::say("waits");
    for _ in 0..3 {
        match args[1].as_str() {
            "recv" => {}
            "poll" => assert_eq!(poll::ready(&pull, POLLIN, -1), POLLIN),
            other => unreachable!("{other}"),
        }
        child::say(String::from_utf8_lossy(&pull.recv(0).expect("a message")));
    }
}

fn goes_on(transport: Transport, way: &str) {
    let ctx = Context::new();
    let push = ctx.socket(PUSH);
    let mut child = Child::start("waiter", &[&transport.bind(&push), way]);
    assert_eq!(child.line(), "waits");
    for number in 0..3 {
        until("it sleeps", || sleeps(child.pid()));
        child.signal(libc::SIGSTOP);
        until("it is stopped", || !sleeps(child.pid()));
        child.signal(libc::SIGCONT);
        until("it sleeps again", || sleeps(child.pid()));
        push.put(number.to_string());
        assert_eq!(child.line(), number.to_string());
    }
    child.succeeds();
}

#[test]
fn who_receives_goes_on() {
    goes_on(Transport::Ipc, "recv");
    goes_on(Transport::Tcp, "recv");
}

#[test]
fn who_polls_goes_on() {
    goes_on(Transport::Ipc, "poll");
}
