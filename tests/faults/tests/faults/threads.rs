//! Many threads on one socket, which libzmq forbids and Pinnace supports: every test here may fail or crash with
//! libzmq 4.3.4, so each runs in a process of its own.

use std::collections::HashMap;

use support::child;
use support::filler::{number_of, numbered};
use support::*;

support::roles!(
    many_senders,
    many_receivers,
    senders_and_receivers,
    everything_at_once,
    close_under_waiters,
    interleaved_parts,
    term_from_everywhere,
);

const THREADS: u64 = 32;
const EACH: u64 = 1_000;

/// One test for each transport, which the role receives as its argument.
macro_rules! alone {
    ($($test:ident: $role:ident;)*) => {
        over_transports!($($test),*);
        $(fn $test(transport: Transport) {
            child::alone(stringify!($role), &[transport.name()]);
        })*
    };
}

alone! {
    thirty_two_threads_send: many_senders;
    thirty_two_threads_receive: many_receivers;
    threads_send_and_receive: senders_and_receivers;
    threads_call_everything: everything_at_once;
    close_ends_the_waits_of_others: close_under_waiters;
    mixed_up_parts_corrupt_nothing: interleaved_parts;
    term_and_shutdown_race: term_from_everywhere;
}

/// One PUSH, 32 threads: each thread's messages arrive once and in that thread's order.
fn many_senders(args: &[String]) {
    let transport = Transport::named(&args[0]);
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    let push = &push;
    std::thread::scope(|scope| {
        for id in 0..THREADS {
            scope.spawn(move || (0..EACH).for_each(|n| push.put(numbered(id << 32 | n, 50))));
        }
        let mut next: HashMap<u64, u64> = HashMap::new();
        for _ in 0..THREADS * EACH {
            let number = number_of(&pull.take());
            let expected = next.entry(number >> 32).or_default();
            assert_eq!(number & 0xFFFF_FFFF, *expected, "in the order of thread {}", number >> 32);
            *expected += 1;
        }
    });
    pull.expect_nothing();
}

/// One PULL, 32 threads: together they receive every message once, each thread in rising order.
fn many_receivers(args: &[String]) {
    let transport = Transport::named(&args[0]);
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    let pull = &pull;
    let mut all: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(move || {
                    let mut own = Vec::new();
                    loop {
                        // Two threads never share a message: each thread receives whole messages.
                        match pull.recv(0).expect("receive") {
                            end if end == b"end" => return own,
                            message => own.push(number_of(&message)),
                        }
                    }
                })
            })
            .collect();
        (0..THREADS * EACH).for_each(|n| push.put(numbered(n, 50)));
        (0..THREADS).for_each(|_| push.put("end"));
        let lists = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        lists
            .flat_map(|own| {
                assert!(own.is_sorted(), "a thread reads in order");
                own
            })
            .collect()
    });
    all.sort_unstable();
    assert!(all.into_iter().eq(0..THREADS * EACH), "each message once");
}

/// Both directions of one DEALER at once, against an echo.
fn senders_and_receivers(args: &[String]) {
    let transport = Transport::named(&args[0]);
    let ctx = Context::new();
    // A ROUTER drops messages for a peer at its high-water mark; here it must not drop any.
    let (echo, dealer) = (ctx.socket(ROUTER).hwm(0), ctx.socket(DEALER).hwm(0));
    transport.join(&echo, &dealer);
    let dealer = &dealer;
    const TOTAL: u64 = 8 * EACH;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..TOTAL {
                let parts = echo.rx();
                echo.tx(&parts);
            }
            // The last echoes are still in flight.
            echo.close().expect("close");
        });
        let readers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(move || (0..EACH).map(|_| number_of(&dealer.recv(0).expect("echo"))).collect())
            })
            .collect();
        for id in 0..8 {
            scope.spawn(move || (0..EACH).for_each(|n| dealer.put(numbered(id * EACH + n, 30))));
        }
        let mut all: Vec<u64> =
            readers.into_iter().flat_map(|thread| -> Vec<u64> { thread.join().expect("no panic") }).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..TOTAL), "each echo once");
    });
}

/// Options, binds, connects, polls, monitors and messages from all threads: no call fails, nothing breaks.
fn everything_at_once(args: &[String]) {
    let transport = Transport::named(&args[0]);
    let ctx = Context::new();
    let socket = &ctx.socket(DEALER).with(LINGER, 0);
    let ctx = &ctx;
    std::thread::scope(|scope| {
        for id in 0..THREADS {
            scope.spawn(move || {
                for n in 0..60 {
                    let endpoint = transport.fresh();
                    match id % 8 {
                        0 => socket.set(SNDHWM, 1 + n).expect("SNDHWM"),
                        1 => drop(socket.events()),
                        2 => {
                            let endpoint =
                                deadline::until_some("a port that nobody takes", || bind(transport, socket));
                            socket.unbind(&endpoint).expect("unbind");
                        }
                        3 => {
                            socket.connect(&endpoint).expect("connect");
                            socket.disconnect(&endpoint).expect("disconnect");
                        }
                        4 => drop(poll::ready(socket, POLLIN | POLLOUT, 1)),
                        5 => drop(socket.send("x", DONTWAIT)),
                        6 => drop(socket.recv(DONTWAIT)),
                        _ => {
                            let peer = ctx.socket(DEALER);
                            peer.put_to(socket);
                        }
                    }
                }
            });
        }
    });
    let peer = ctx.socket(DEALER);
    transport.join(&peer, socket);
    until("the socket works still", || {
        let _ = socket.send("works", DONTWAIT);
        peer.recv(DONTWAIT) == Ok(b"works".to_vec())
    });
}

/// Binds a socket that other threads bind too. `None`: another socket has taken the port meanwhile.
fn bind(transport: Transport, socket: &Socket) -> Option<String> {
    let endpoint = transport.fresh();
    match socket.bind(&endpoint) {
        Err(Errno(libc::EADDRINUSE)) => None,
        bound => Some(bound.map(|()| endpoint).expect("bind")),
    }
}

trait PutTo {
    fn put_to(&self, socket: &Socket);
}

impl PutTo for Socket {
    /// Connects to a shared socket over inproc and disconnects again.
    fn put_to(&self, socket: &Socket) {
        let endpoint = Transport::Inproc.bind(self);
        socket.connect(&endpoint).expect("connect");
        let _ = self.send("hello", DONTWAIT);
        socket.disconnect(&endpoint).expect("disconnect");
    }
}

/// A close while other threads wait in the socket: they return with an error, at once.
fn close_under_waiters(args: &[String]) {
    let transport = Transport::named(&args[0]);
    let ctx = Context::new();
    for _ in 0..20 {
        let pull = ctx.bare_socket(PULL);
        transport.bind(&pull);
        std::thread::scope(|scope| {
            let pull = &pull;
            let forever = || poll::poll(&mut [poll::socket_item(pull, POLLIN)], -1);
            let receivers: Vec<_> = (0..4).map(|_| scope.spawn(|| pull.recv(0))).collect();
            let pollers: Vec<_> = (0..4).map(|_| scope.spawn(forever)).collect();
            deadline::pass(std::time::Duration::from_millis(5));
            // SAFETY: the library checks the handle; that check is under test.
            assert_eq!(unsafe { api::zmq_close(pull.raw()) }, 0);
            for receiver in receivers {
                assert_eq!(receiver.join().expect("no panic"), Err(Errno(libc::ENOTSOCK)));
            }
            // A poller may report an event or a missing socket; but it must return.
            for poller in pollers {
                assert_ne!(poller.join().expect("no panic"), Ok(0));
            }
        });
        assert_eq!(pull.close(), Err(Errno(libc::ENOTSOCK)), "closed already");
    }
}

/// Parts interleaved by two threads are the callers' fault; each part still arrives whole, and the socket continues
/// to work.
fn interleaved_parts(args: &[String]) {
    let transport = Transport::named(&args[0]);
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    let push = &push;
    std::thread::scope(|scope| {
        for id in 0..8u64 {
            scope.spawn(move || {
                for n in 0..500 {
                    push.send(numbered(id << 32 | n, 40), if n % 5 == 4 { 0 } else { SNDMORE })
                        .expect("send");
                }
            });
        }
        let mut parts = 0;
        while parts < 8 * 500 {
            let message = pull.rx();
            for part in &message {
                number_of(part);
            }
            // Each thread's last part ends a message, so the last part of all does too.
            parts += message.len();
        }
    });
    push.put("goes on");
    assert_eq!(pull.take_text(), "goes on");
}

/// Threads in every kind of call while several threads shut the context down.
fn term_from_everywhere(args: &[String]) {
    let transport = Transport::named(&args[0]);
    for _ in 0..30 {
        let ctx = Context::new();
        // The PULL closes first, so that the PUSH waits for nothing.
        let (pull, push) = (ctx.bare_socket(PULL), ctx.bare_socket(PUSH).with(LINGER, 0));
        transport.join(&pull, &push);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| while pull.recv(0).is_ok() {});
                scope.spawn(|| while push.send("x", 0).is_ok() {});
                scope.spawn(|| while ctx.try_bare_socket(PULL).is_ok() {});
            }
            for _ in 0..3 {
                scope.spawn(|| ctx.shutdown().expect("shutdown"));
            }
        });
        drop((pull, push));
        ctx.term().expect("term");
    }
}
