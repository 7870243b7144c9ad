//! Blocking calls: how long they wait, what ends them, and what they return then.

use std::os::fd::AsRawFd;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use support::poll::{fd_item, ready, socket_item};
use support::*;

const AGAIN: Errno = Errno(libc::EAGAIN);

/// With DONTWAIT no receive waits.
#[test]
fn dontwait_says_eagain() {
    let ctx = Context::new();
    for kind in [PAIR, SUB, REP, DEALER, ROUTER, PULL, XPUB, XSUB] {
        let socket = ctx.socket(kind);
        assert_eq!(socket.recv(DONTWAIT), Err(AGAIN), "type {kind}");
    }
    for kind in [PAIR, REQ, DEALER, PUSH] {
        let socket = ctx.socket(kind);
        assert_eq!(socket.send("x", DONTWAIT), Err(AGAIN), "type {kind}");
    }
}

fn assert_lasts(milliseconds: u64, call: impl FnOnce()) {
    let start = Instant::now();
    call();
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(milliseconds - 2), "too early: {elapsed:?}");
    assert!(elapsed < Duration::from_millis(milliseconds) + Duration::from_secs(5), "too late: {elapsed:?}");
}

#[test]
fn timeouts_end_in_eagain() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL).with(RCVTIMEO, 120);
    assert_lasts(120, || assert_eq!(pull.recv(0), Err(AGAIN)));
    let push = ctx.socket(PUSH).with(SNDTIMEO, 120);
    assert_lasts(120, || assert_eq!(push.send("x", 0), Err(AGAIN)));
    pull.set(RCVTIMEO, 0).expect("RCVTIMEO");
    assert_eq!(pull.recv(0), Err(AGAIN));
    push.set(SNDTIMEO, 0).expect("SNDTIMEO");
    assert_eq!(push.send("x", 0), Err(AGAIN));
}

/// Other messages do not shorten or extend a timeout, and a message in time ends the wait.
#[test]
fn a_message_ends_the_wait() {
    within(60, || {
        for transport in Transport::ALL {
            let ctx = Context::new();
            let (pull, push) = transport.pair(&ctx, PULL, PUSH);
            std::thread::scope(|scope| {
                let (said, heard) = channel();
                scope.spawn(move || {
                    for _ in 0..50 {
                        said.send(pull.take_text()).expect("the test listens");
                    }
                });
                for n in 0..50 {
                    push.put(n.to_string());
                    let patience = Duration::from_millis(deadline::PATIENCE_MS as u64);
                    assert_eq!(heard.recv_timeout(patience), Ok(n.to_string()));
                }
            });
        }
    });
}

extern "C" fn ignore(_: libc::c_int) {}

/// Runs a blocking call on a thread and sends it signals until it returns. With `flags` SA_RESTART the handler is
/// installed as signal(2) does.
fn interrupted<T: Send>(flags: libc::c_int, call: impl FnOnce() -> T + Send) -> T {
    let signal = if flags == 0 { libc::SIGUSR1 } else { libc::SIGUSR2 };
    // SAFETY: a handler that does nothing; the thread that the signals go to is not joined while they are sent.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
    std::thread::scope(|scope| {
        let (said, heard) = channel();
        let thread = scope.spawn(move || {
            // SAFETY: asks for the own thread's name.
            said.send(unsafe { libc::pthread_self() }).expect("the test listens");
            call()
        });
        let target = heard.recv().expect("the thread runs");
        until("the call returns", || {
            // SAFETY: see above.
            unsafe { libc::pthread_kill(target, signal) };
            deadline::pass(Duration::from_millis(1));
            thread.is_finished()
        });
        thread.join().expect("no panic")
    })
}

/// A signal ends a blocking call with EINTR, however its handler was installed; afterwards the socket works as
/// before.
#[test]
fn a_signal_interrupts() {
    within(60, || {
        for transport in Transport::ALL {
            for flags in [0, libc::SA_RESTART] {
                let ctx = Context::new();
                let (pull, push) = (ctx.bare_socket(PULL), ctx.bare_socket(PUSH));
                assert_eq!(interrupted(flags, || pull.recv(0)), Err(Errno(libc::EINTR)));
                assert_eq!(interrupted(flags, || push.send("x", 0)), Err(Errno(libc::EINTR)));
                assert_eq!(interrupted(flags, || poll_forever(&pull)), Err(Errno(libc::EINTR)));
                transport.join(&pull, &push);
                assert_eq!(interrupted(flags, || pull.recv(0)), Err(Errno(libc::EINTR)));
                push.put("after all");
                assert_eq!(pull.take_text(), "after all");
            }
        }
    });
}

/// A signal also ends a term that waits for an open socket; the next term continues to wait.
#[test]
fn a_signal_interrupts_term() {
    within(60, || {
        for flags in [0, libc::SA_RESTART] {
            let ctx = Context::new();
            let pull = ctx.bare_socket(PULL);
            for _ in 0..2 {
                assert_eq!(interrupted(flags, || ctx.try_term()), Err(Errno(libc::EINTR)));
            }
            assert_eq!(pull.recv(0), Err(Errno(ETERM)));
            drop(pull);
            ctx.term().expect("nothing to wait for");
        }
    });
}

/// A server's loop may read the poll items before the result: after EINTR no item is ready.
#[test]
fn an_interrupted_poll_finds_nothing_ready() {
    within(60, || {
        let ctx = Context::new();
        let pull = ctx.bare_socket(PULL);
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        for count in [1, 2] {
            let (outcome, left) = interrupted(0, || {
                let mut items = [fd_item(reader.as_raw_fd(), POLLIN), socket_item(&pull, POLLIN)];
                items.iter_mut().for_each(|item| item.revents = -1);
                (poll::poll(&mut items[..count], -1), items.map(|item| item.revents))
            });
            assert_eq!((outcome, left), (Err(Errno(libc::EINTR)), [0, if count == 2 { 0 } else { -1 }]));
        }
    });
}

/// The message's old content must not be mistaken for a received frame.
#[test]
fn an_interrupted_receive_leaves_an_empty_message() {
    within(60, || {
        let ctx = Context::new();
        let pull = ctx.bare_socket(PULL);
        let received = interrupted(0, || {
            let mut message = Message::of(b"from before");
            (message.recv(&pull, 0), message.size())
        });
        assert_eq!(received, (Err(Errno(libc::EINTR)), 0));
    });
}

fn poll_forever(socket: &Socket) -> Outcome<i32> {
    poll::poll(&mut [socket_item(socket, POLLIN)], -1)
}

/// LINGER 0 discards unsent messages: neither close nor term waits.
#[test]
fn linger_zero_discards() {
    within(60, || {
        for transport in Transport::WIRES {
            let ctx = Context::new();
            let push = ctx.socket(PUSH).with(LINGER, 0);
            push.connect(&transport.fresh()).expect("connect to nobody");
            push.put("lost");
            let start = Instant::now();
            push.close().expect("close");
            ctx.term().expect("term");
            assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        }
    });
}

/// A linger of some milliseconds limits the wait for a peer.
#[test]
fn linger_ends() {
    within(60, || {
        for transport in Transport::WIRES {
            let ctx = Context::new();
            let push = ctx.socket(PUSH).with(LINGER, 250);
            push.connect(&transport.fresh()).expect("connect to nobody");
            push.put("lost");
            assert_lasts(250, || {
                push.close().expect("close");
                ctx.term().expect("term");
            });
        }
    });
}

/// With an infinite linger, term waits until the last message was sent.
#[test]
fn linger_forever_waits_for_the_peer() {
    within(60, || {
        for transport in Transport::WIRES {
            let endpoint = transport.fresh();
            let (sender, receiver) = (Context::new(), Context::new());
            let push = sender.socket(PUSH).with(RECONNECT_IVL, 10).with(LINGER, -1);
            push.connect(&endpoint).expect("connect before bind");
            (0..100).for_each(|n| push.put(n.to_string()));
            push.close().expect("close");
            let (said, heard) = channel();
            std::thread::spawn(move || said.send(sender.term()));
            assert!(heard.recv_timeout(Duration::from_millis(150)).is_err(), "term waits for the peer");
            let pull = receiver.socket(PULL);
            pull.bind(&endpoint).expect("bind");
            (0..100).for_each(|n| assert_eq!(pull.take_text(), n.to_string()));
            let patience = Duration::from_millis(deadline::PATIENCE_MS as u64);
            assert_eq!(heard.recv_timeout(patience).expect("term ends"), Ok(()));
        }
    });
}

/// Over inproc a receiver gets what was sent before the sender closed.
#[test]
fn what_was_sent_outlives_the_socket() {
    within(60, || {
        for transport in Transport::ALL {
            let ctx = Context::new();
            let (pull, push) = transport.pair(&ctx, PULL, PUSH);
            (0..100).for_each(|n| push.put(n.to_string()));
            push.close().expect("close");
            (0..100).for_each(|n| assert_eq!(pull.take_text(), n.to_string()));
        }
    });
}

/// As above if the name is bound after the sender has closed; unreceived messages do not block the end of the
/// context.
#[test]
fn what_was_sent_outlives_the_socket_that_was_early() {
    within(60, || {
        let ctx = Context::new();
        for name in ["inproc://later", "inproc://never"] {
            let push = ctx.socket(PUSH);
            push.connect(name).expect("connect to nobody");
            (0..100).for_each(|n| push.put(n.to_string()));
            push.close().expect("close");
        }
        let pull = ctx.socket(PULL);
        pull.bind("inproc://later").expect("bind");
        (0..100).for_each(|n| assert_eq!(pull.take_text(), n.to_string()));
        pull.expect_nothing();
    });
}

/// ctx_shutdown and ctx_term end every blocked call with ETERM; close still works and lets term return.
#[test]
fn termination_ends_blocked_calls() {
    within(60, || {
        let ctx = Context::new();
        let idle = ctx.socket(REP);
        std::thread::scope(|scope| {
            let blocked = [
                scope.spawn(|| ctx.bare_socket(PULL).recv(0).map(|_| ())),
                scope.spawn(|| ctx.bare_socket(PUSH).send("x", 0).map(|_| ())),
                scope.spawn(|| poll_forever(&ctx.bare_socket(SUB)).map(|_| ())),
                scope.spawn(|| ctx.bare_socket(ROUTER).recv(0).map(|_| ())),
            ];
            // A thread that has not blocked yet also gets ETERM, at its first call.
            deadline::pass(Duration::from_millis(50));
            ctx.shutdown().expect("shutdown");
            for thread in blocked {
                assert_eq!(thread.join().expect("no panic"), Err(Errno(ETERM)));
            }
        });
        assert_eq!(idle.recv(DONTWAIT), Err(Errno(ETERM)));
        assert_eq!(idle.bind("inproc://late"), Err(Errno(ETERM)));
        assert_eq!(idle.get(TYPE), Err(Errno(ETERM)));
        assert_eq!(ctx.try_socket(PULL).err(), Some(Errno(ETERM)));
        idle.close().expect("close works still");
        ctx.term().expect("term");
    });
}

/// A poll that times out returns 0, and not before its time.
#[test]
fn poll_lasts_its_time() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    assert_lasts(120, || assert_eq!(ready(&pull, POLLIN, 120), 0));
}
