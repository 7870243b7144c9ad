//! Out of descriptors: calls return errors, nothing aborts or spins, and everything works again when descriptors are
//! available.

use std::time::Duration;

use support::api::*;
use support::child::{self, Child};
use support::peer::RawPeer;
use support::*;

support::roles!(
    is_asked_in_vain,
    is_never_looked_at,
    runs_out_by_itself,
    is_run_out_by_others,
    starts_without_any,
    connects_without_any,
    accepts_without_any
);

/// Takes all descriptors that the limit leaves; dropping the files releases them.
fn hoard() -> Vec<std::fs::File> {
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

fn assert_works(ctx: &Context) {
    for transport in Transport::ALL {
        let (pull, push) = transport.pair(ctx, PULL, PUSH);
        push.put("works");
        assert_eq!(pull.take_text(), "works");
    }
}

/// Creates sockets until one fails; then closes them and continues.
fn runs_out_by_itself(_: &[String]) {
    process::limit_descriptors(64);
    let ctx = Context::new();
    ctx.set(MAX_SOCKETS, 10_000).expect("MAX_SOCKETS");
    for _ in 0..3 {
        let mut sockets = Vec::new();
        let mut refused = 0;
        while refused < 10 && sockets.len() < 2_000 {
            match ctx.try_socket(PULL) {
                Ok(socket) => {
                    match socket.bind("tcp://127.0.0.1:*") {
                        Ok(()) => {}
                        Err(error) => {
                            assert!(
                                matches!(error.0, libc::EMFILE | libc::ENFILE | libc::ENOMEM),
                                "{error:?}"
                            );
                            refused += 1;
                        }
                    }
                    sockets.push(socket);
                }
                Err(error) => {
                    assert!(matches!(error.0, libc::EMFILE | libc::ENFILE | libc::ENOMEM), "{error:?}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0, "64 descriptors are not enough for {} listeners", sockets.len());
        drop(sockets);
        until("descriptors return", || process::descriptors(process::own()) < 30);
        assert_works(&ctx);
    }
    ctx.term().expect("term");
}

/// Fails with libzmq 4.3.4, which aborts the process with "Too many open files".
#[test]
fn errors_when_descriptors_run_out() {
    child::alone("runs_out_by_itself", &[]);
}

/// Listens with few descriptors while other processes open connections; the parent watches.
fn is_run_out_by_others(args: &[String]) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    pull.bind(&args[0]).expect("bind");
    process::limit_descriptors(64);
    child::say(pull.endpoint());
    while child::hear() == "receive" {
        child::say(pull.take_text());
    }
    drop(pull);
    ctx.term().expect("term");
}

fn opens_too_many(transport: Transport) -> (Child, String, Vec<RawPeer>) {
    let mut child = Child::start("is_run_out_by_others", &[&transport.wildcard()]);
    let endpoint = child.line();
    let peers = (0..150).filter_map(|_| RawPeer::try_connect(&endpoint).ok()).collect();
    until("the limit is reached", || process::descriptors(child.pid()) >= 60);
    (child, endpoint, peers)
}

over_wires!(recovers_when_others_let_go, does_not_spin_meanwhile);

/// More connections than descriptors; when they close, a good peer connects.
///
/// Fails with libzmq 4.3.4 over ipc: it aborts in accept.
fn recovers_when_others_let_go(transport: Transport) {
    let (mut child, endpoint, peers) = opens_too_many(transport);
    drop(peers);
    let ctx = Context::new();
    let push = ctx.socket(PUSH).with(RECONNECT_IVL, 20);
    push.connect(&endpoint).expect("connect");
    push.put("after all");
    child.tell("receive");
    assert_eq!(child.line(), "after all");
    child.tell("end");
    child.succeeds();
}

/// A listener that cannot accept waits; it does not call accept in a loop.
///
/// Fails with libzmq 4.3.4, which spins at 100 % CPU (over tcp), or aborts (over ipc).
fn does_not_spin_meanwhile(transport: Transport) {
    let (mut child, _, peers) = opens_too_many(transport);
    let before = process::cpu_time(child.pid());
    deadline::pass(Duration::from_millis(600));
    let used = process::cpu_time(child.pid()) - before;
    assert!(used <= Duration::from_millis(120), "{used:?} of processor time in 600 ms");
    drop(peers);
    child.tell("end");
    child.succeeds();
}

/// No descriptor left at all: contexts and sockets fail or work, and never end the process.
fn starts_without_any(_: &[String]) {
    // Loads the library first.
    assert_eq!(api::version().0, 4);
    process::limit_descriptors(64);
    let hoard = hoard();
    assert!(hoard.len() > 10);
    let exhausted = || assert!(matches!(errno::last().0, libc::EMFILE | libc::ENFILE | libc::ENOMEM));
    // SAFETY: handles from the calls above.
    unsafe {
        let ctx = zmq_ctx_new();
        if ctx.is_null() {
            exhausted();
        } else {
            let socket = zmq_socket(ctx, PULL);
            if socket.is_null() {
                exhausted();
            } else {
                assert_eq!(zmq_close(socket), 0);
            }
            assert_eq!(zmq_ctx_term(ctx), 0);
        }
    }
    drop(hoard);
    assert_works(&Context::new());
}

#[test]
fn starts_without_descriptors() {
    child::alone("starts_without_any", &[]);
}

/// A connect without descriptors is retried, and succeeds when descriptors are available.
fn connects_without_any(_: &[String]) {
    let ctx = Context::new();
    process::limit_descriptors(64);
    for transport in Transport::WIRES {
        let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH).with(RECONNECT_IVL, 10));
        let endpoint = transport.bind(&pull);
        let hoard = hoard();
        let connected = push.connect(&endpoint);
        deadline::pass(Duration::from_millis(100));
        drop(hoard);
        if connected.is_err() {
            push.connect(&endpoint).expect("connect with descriptors");
        }
        push.put("at last");
        assert_eq!(pull.take_text(), "at last");
    }
}

/// May fail with libzmq 4.3.4, which aborts if it cannot accept over ipc.
#[test]
fn connects_when_there_are_descriptors_again() {
    child::alone("connects_without_any", &[]);
}

/// The last descriptor goes to the raw peer, so the listener has none to accept its connection.
fn accepts_without_any(_: &[String]) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let heard = Monitor::of(&ctx, &pull, EVENT_ACCEPT_FAILED);
    let endpoint = Transport::Tcp.bind(&pull);
    process::limit_descriptors(64);
    let mut hoard = hoard();
    hoard.pop();
    let _peer = RawPeer::connect(&endpoint);
    let event = heard.next();
    assert_eq!((event.number, event.endpoint), (EVENT_ACCEPT_FAILED, endpoint));
    assert_eq!(event.value as i32, libc::EMFILE);
}

#[test]
fn tells_that_it_cannot_accept() {
    child::alone("accepts_without_any", &[]);
}

/// A ZAP handler that never replies costs each client the handshake interval, and costs the server nothing lasting:
/// no descriptor, no processor time.
fn is_asked_in_vain(_: &[String]) {
    let ctx = Context::new();
    let handler = ctx.socket(ROUTER);
    handler.bind("inproc://zeromq.zap.01").expect("a handler");
    let pull = ctx.socket(PULL).with(HANDSHAKE_IVL, 50);
    pull.set_bytes(ZAP_DOMAIN, b"global").expect("ZAP_DOMAIN");
    let failed = Monitor::of(&ctx, &pull, EVENT_HANDSHAKE_FAILED_NO_DETAIL);
    let endpoint = Transport::Tcp.bind(&pull);
    let knock = || {
        let mut peer = RawPeer::connect(&endpoint);
        peer.send(&[wire::greeting(1, "NULL", false), wire::ready("PUSH")].concat());
        failed.wait(EVENT_HANDSHAKE_FAILED_NO_DETAIL);
    };
    knock();
    let before = process::descriptors(process::own());
    (0..10).for_each(|_| knock());
    let busy = process::cpu_time(process::own());
    deadline::pass(Duration::from_millis(600));
    let used = process::cpu_time(process::own()) - busy;
    assert!(used <= Duration::from_millis(120), "{used:?} of processor time in 600 ms");
    (0..11).for_each(|_| drop(handler.rx()));
    until("descriptors return", || {
        let _ = handler.recv(DONTWAIT);
        process::descriptors(process::own()) <= before
    });
}

#[test]
fn questions_that_nobody_answers_leave_nothing_behind() {
    child::alone("is_asked_in_vain", &[]);
}

/// Peers come and go while their ZAP requests wait at a handler that reads nothing.
fn is_never_looked_at(_: &[String]) {
    let ctx = Context::new();
    let handler = ctx.socket(REP);
    handler.bind("inproc://zeromq.zap.01").expect("a handler");
    let pull = ctx.socket(PULL).with(HANDSHAKE_IVL, 0);
    pull.set_bytes(ZAP_DOMAIN, b"global").expect("ZAP_DOMAIN");
    let endpoint = Transport::Tcp.bind(&pull);
    let before = process::descriptors(process::own());
    let knock = || {
        let mut peer = RawPeer::connect(&endpoint);
        peer.send(&[wire::greeting(1, "NULL", false), wire::ready("PUSH")].concat());
        peer
    };
    let peers: Vec<RawPeer> = (0..100).map(|_| knock()).collect();
    // A connection has one descriptor at either end; a ZAP request has none.
    until("all are there", || process::descriptors(process::own()) == before + 2 * peers.len());
    drop(peers);
    until("descriptors return", || process::descriptors(process::own()) <= before);
}

#[test]
fn peers_that_leave_while_a_question_waits_leave_no_descriptor() {
    child::alone("is_never_looked_at", &[]);
}
