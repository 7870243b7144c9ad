//! A process that is stopped and continued, as by Ctrl-Z and `fg` or by a debugger: none of its calls fails, because
//! no signal handler ran. This holds whether or not the process has a handler for some signal.

use std::time::Duration;

use support::child::{self, Child};
use support::poller::Poller;
use support::process::{all_sleep, sleeps};
use support::*;

support::roles!(waiter, sender, ender);

extern "C" fn ignore(_: libc::c_int) {}

/// Installs a signal handler, as a program with one for SIGINT has.
fn handle_a_signal() {
    // SAFETY: a handler that does nothing.
    unsafe { libc::signal(libc::SIGUSR2, ignore as *const () as libc::sighandler_t) };
}

/// Waits for messages with the call named by the second argument, and reports them.
fn waiter(args: &[String]) {
    if args[2] == "handles" {
        handle_a_signal();
    }
    let ctx = Context::new();
    let pull = ctx.bare_socket(PULL).with(BUSY_POLL, -1);
    pull.connect(&args[0]).expect("connect");
    let poller = Poller::new().expect("pollers");
    poller.add(&pull, 1, POLLIN).expect("add");
    child::say("waits");
    for _ in 0..3 {
        match args[1].as_str() {
            "recv" => {}
            "poll" => assert_eq!(poll::ready(&pull, POLLIN, -1), POLLIN),
            "poller" => assert_eq!(poller.wait(-1), Ok((1, POLLIN))),
            other => unreachable!("{other}"),
        }
        child::say(String::from_utf8_lossy(&pull.recv(0).expect("a message")));
    }
}

/// Stops the child while it sleeps, and continues it.
fn stop_and_go_on(child: &Child) {
    until("it sleeps", || all_sleep(child.pid()));
    child.signal(libc::SIGSTOP);
    until("it is stopped", || !sleeps(child.pid()));
    child.signal(libc::SIGCONT);
    until("it sleeps again", || all_sleep(child.pid()));
}

fn goes_on(transport: Transport, way: &str) {
    for signals in ["ignores", "handles"] {
        let ctx = Context::new();
        let push = ctx.socket(PUSH);
        let mut child = Child::start("waiter", &[&transport.bind(&push), way, signals]);
        assert_eq!(child.line(), "waits");
        for number in 0..3 {
            stop_and_go_on(&child);
            push.put(number.to_string());
            assert_eq!(child.line(), number.to_string());
        }
        child.succeeds();
    }
}

#[test]
fn who_receives_goes_on() {
    goes_on(Transport::Ipc, "recv");
    goes_on(Transport::Tcp, "recv");
}

#[test]
fn who_polls_goes_on() {
    goes_on(Transport::Ipc, "poll");
    goes_on(Transport::Tcp, "poll");
}

#[test]
fn who_waits_in_a_poller_goes_on() {
    goes_on(Transport::Ipc, "poller");
    goes_on(Transport::Tcp, "poller");
}

/// A sender that waits for room.
fn sender(args: &[String]) {
    handle_a_signal();
    let ctx = Context::new();
    let push = ctx.bare_socket(PUSH).with(LINGER, 0);
    push.connect(&args[0]).expect("connect");
    for number in 0..100_u32 {
        push.send(vec![number as u8; 1 << 20], 0).expect("room");
    }
    child::say("sent");
    child::hear();
}

#[test]
fn who_waits_for_room_goes_on() {
    for transport in [Transport::Ipc, Transport::Tcp] {
        let ctx = Context::new();
        let pull = ctx.socket(PULL).hwm(1);
        let child = &mut Child::start("sender", &[&transport.bind(&pull)]);
        assert_eq!(poll::ready(&pull, POLLIN, PATIENCE_MS.into()), POLLIN);
        stop_and_go_on(child);
        for number in 0..100_u32 {
            assert_eq!(pull.take()[0], number as u8);
        }
        assert_eq!(child.line(), "sent");
        child.tell("");
        child.succeeds();
    }
}

/// Waits in zmq_ctx_term for a socket that lingers.
fn ender(args: &[String]) {
    handle_a_signal();
    let ctx = Context::new();
    let push = ctx.bare_socket(PUSH);
    push.connect(&args[0]).expect("connect");
    push.send("the last", 0).expect("room");
    push.close().expect("close");
    child::say("ends");
    ctx.term().expect("no signal was handled");
}

#[test]
fn who_ends_a_context_goes_on() {
    let endpoint = Transport::Tcp.fresh();
    let mut child = Child::start("ender", &[&endpoint]);
    assert_eq!(child.line(), "ends");
    stop_and_go_on(&child);
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    pull.bind(&endpoint).expect("bind");
    assert_eq!(pull.take_text(), "the last");
    child.ends_within(Duration::from_secs(20));
}
