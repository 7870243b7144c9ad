//! zmq_poller: its events, its errors, and its cost. A draft: a library without it skips these tests.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use support::api::*;
use support::deadline::{ABSENCE_MS, PATIENCE_MS, pass};
use support::poller::NO_EVENT;
use support::*;

const LONG_MS: i64 = PATIENCE_MS as i64;
const AGAIN: Errno = Errno(libc::EAGAIN);
const INVALID: Errno = Errno(libc::EINVAL);
const FAULT: Errno = Errno(libc::EFAULT);

over_transports!(tells_what_is_ready, asks_and_answers, sees_calls_of_others, ends_with_the_context);

/// A poller, or the end of the test if the library has none.
macro_rules! poller {
    () => {
        match Poller::new() {
            Some(poller) => poller,
            None => return,
        }
    };
}

fn tells_what_is_ready(transport: Transport) {
    let (ctx, poller) = (Context::new(), poller!());
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    poller.add(&pull, 7, POLLIN).expect("add");
    assert_eq!(poller.size(), Ok(1));
    assert_eq!(poller.wait(0), Err(AGAIN));
    assert_eq!(poller.wait(ABSENCE_MS as i64), Err(AGAIN));
    push.put("one");
    push.put("two");
    for text in ["one", "two"] {
        assert_eq!(poller.wait(LONG_MS), Ok((7, POLLIN)));
        assert_eq!(poller.wait(LONG_MS), Ok((7, POLLIN)), "it is ready until it is received");
        assert_eq!(pull.take_text(), text);
    }
    assert_eq!(poller.wait(0), Err(AGAIN));
    poller.modify(&pull, 0).expect("modify");
    push.put("three");
    assert_eq!(poller.wait(ABSENCE_MS as i64), Err(AGAIN), "nothing is asked for");
    poller.modify(&pull, POLLIN | POLLOUT).expect("modify");
    let event = poller.wait_events(4, LONG_MS).expect("an event");
    assert_eq!(event, [PollerEvent { socket: pull.raw(), fd: -1, events: POLLIN as i16, ..event[0] }]);
    poller.remove(&pull).expect("remove");
    assert_eq!((poller.size(), poller.wait(0)), (Ok(0), Err(AGAIN)));
}

/// A REQ becomes writable only by the application's calls, never by incoming data.
fn asks_and_answers(transport: Transport) {
    let (ctx, poller) = (Context::new(), poller!());
    let (rep, req) = transport.pair(&ctx, REP, REQ);
    poller.add(&rep, 1, POLLIN | POLLOUT).expect("add");
    poller.add(&req, 2, POLLIN | POLLOUT).expect("add");
    for _ in 0..50 {
        assert_eq!(poller.wait(LONG_MS), Ok((2, POLLOUT)));
        req.put("question");
        assert_eq!(poller.wait(LONG_MS), Ok((1, POLLIN)));
        assert_eq!(rep.take_text(), "question");
        assert_eq!(poller.wait(LONG_MS), Ok((1, POLLOUT)));
        rep.put("answer");
        assert_eq!(poller.wait(LONG_MS), Ok((2, POLLIN)));
        assert_eq!(req.take_text(), "answer");
    }
}

/// A call may change a socket's readiness while no thread waits, and while one does.
fn sees_calls_of_others(transport: Transport) {
    let (ctx, poller) = (Context::new(), poller!());
    let (rep, req) = transport.pair(&ctx, REP, REQ);
    poller.add(&req, 2, POLLOUT).expect("add");
    req.put("question");
    assert_eq!(poller.wait(0), Err(AGAIN), "the answer has to come first");
    rep.expect(&["question"]);
    rep.put("answer");
    assert_eq!(poller.wait(ABSENCE_MS as i64), Err(AGAIN), "and to be received");
    assert_eq!(req.take_text(), "answer");
    assert_eq!(poller.wait(LONG_MS), Ok((2, POLLOUT)));
    let fresh = ctx.socket(PUSH);
    poller.remove(&req).expect("remove");
    poller.add(&fresh, 3, POLLOUT).expect("add");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| poller.wait(LONG_MS));
        fresh.connect(&transport.fresh()).expect("connect");
        assert_eq!(waiting.join().expect("no panic"), Ok((3, POLLOUT)));
    });
}

fn ends_with_the_context(transport: Transport) {
    let (ctx, poller) = (Context::new(), poller!());
    let (pull, _push) = transport.pair(&ctx, PULL, PUSH);
    poller.add(&pull, 1, POLLIN).expect("add");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| poller.wait(LONG_MS));
        ctx.shutdown().expect("shutdown");
        assert_eq!(waiting.join().expect("no panic"), Err(Errno(ETERM)));
    });
    assert_eq!(poller.wait(0), Err(Errno(ETERM)));
    assert_eq!(poller.wait_all(5, 0), Err(Errno(ETERM)));
    poller.remove(&pull).expect("remove");
}

#[test]
fn refuses_nonsense() {
    let (ctx, poller) = (Context::new(), poller!());
    let (socket, other) = (ctx.socket(PAIR), ctx.socket(PAIR));
    poller.add(&socket, 1, POLLIN).expect("add");
    assert_eq!(poller.add(&socket, 2, POLLIN), Err(INVALID), "twice");
    assert_eq!(poller.modify(&other, POLLIN), Err(INVALID), "not registered");
    assert_eq!(poller.remove(&other), Err(INVALID), "not registered");
    assert_eq!(poller.add(&other, 1, 16), Err(INVALID), "unknown events");
    assert_eq!(poller.modify(&socket, 1 << 14), Err(INVALID), "unknown events");
    assert_eq!(poller.fd(), Err(INVALID), "no thread-safe socket");
    assert_eq!(poller.add_fd(-1, 1, POLLIN), Err(Errno(libc::EBADF)));
    assert_eq!(poller.modify_fd(-1, POLLIN), Err(Errno(libc::EBADF)));
    assert_eq!(poller.remove_fd(-1), Err(Errno(libc::EBADF)));
    assert_eq!(poller.modify_fd(0, POLLIN), Err(INVALID), "not registered");
    assert_eq!(poller.remove_fd(0), Err(INVALID), "not registered");
    // SAFETY: invalid handles, null pointers and wrong counts are under test.
    unsafe {
        let (null, mut event) = (std::ptr::null_mut(), NO_EVENT);
        assert_eq!((zmq_poller_add(poller.raw(), null, null, 1), errno::last()), (-1, Errno(libc::ENOTSOCK)));
        assert_eq!((zmq_poller_modify(poller.raw(), null, 1), errno::last()), (-1, Errno(libc::ENOTSOCK)));
        assert_eq!((zmq_poller_remove(poller.raw(), null), errno::last()), (-1, Errno(libc::ENOTSOCK)));
        assert_eq!((zmq_poller_wait(poller.raw(), null.cast(), 0), errno::last()), (-1, FAULT));
        assert_eq!((zmq_poller_wait_all(poller.raw(), null.cast(), 1, 0), errno::last()), (-1, FAULT));
        assert_eq!((zmq_poller_wait_all(poller.raw(), &mut event, -1, 0), errno::last()), (-1, INVALID));
        assert_eq!(
            (zmq_poller_wait_all(poller.raw(), &mut event, 0, 0), errno::last()),
            (-1, Errno(libc::EAGAIN))
        );
    }
    assert_eq!(poller.size(), Ok(1));
}

/// An invalid or destroyed poller is EFAULT in every call.
#[test]
fn dead_pollers_are_found_out() {
    let ctx = Context::new();
    let (socket, poller) = (ctx.socket(PAIR), poller!());
    let gone = poller.raw();
    poller.add(&socket, 1, POLLIN).expect("add");
    drop(poller);
    let local = 5_u64;
    let local = (&raw const local).cast_mut().cast();
    for handle in [std::ptr::null_mut(), gone, local, socket.raw()] {
        let (null, mut event, mut fd) = (std::ptr::null_mut(), NO_EVENT, 0);
        // SAFETY: invalid handles are under test.
        unsafe {
            let mut copy = handle;
            let outcomes = [
                zmq_poller_size(handle),
                zmq_poller_add(handle, socket.raw(), null, 1),
                zmq_poller_modify(handle, socket.raw(), 1),
                zmq_poller_remove(handle, socket.raw()),
                zmq_poller_add_fd(handle, 0, null, 1),
                zmq_poller_modify_fd(handle, 0, 1),
                zmq_poller_remove_fd(handle, 0),
                zmq_poller_wait(handle, &mut event, 0),
                zmq_poller_wait_all(handle, &mut event, 1, 0),
                zmq_poller_fd(handle, &mut fd),
                zmq_poller_destroy(&mut copy),
                zmq_poller_destroy(std::ptr::null_mut()),
            ];
            assert_eq!((outcomes, errno::last()), ([-1; 12], FAULT));
        }
    }
}

#[test]
fn without_anything_it_waits_for_the_time_alone() {
    let poller = poller!();
    let start = Instant::now();
    assert_eq!(poller.wait(0), Err(AGAIN));
    assert_eq!(poller.wait(60), Err(AGAIN));
    assert_eq!(poller.wait_all(3, 60), Err(AGAIN));
    assert!(start.elapsed() >= Duration::from_millis(118), "{:?}", start.elapsed());
    assert_eq!(poller.wait(-1), Err(FAULT), "it would never end");
    let ctx = Context::new();
    let socket = ctx.socket(PAIR);
    poller.add(&socket, 1, 0).expect("add");
    assert_eq!(poller.wait(-1), Err(FAULT), "nothing is asked for");
    assert_eq!(poller.wait_all(1, 60), Err(AGAIN));
}

/// Pipes, plain files and sockets side by side; errors of a descriptor are reported without being requested.
#[test]
fn descriptors_are_told_of() {
    let (ctx, poller) = (Context::new(), poller!());
    let (pull, push) = Transport::Tcp.pair(&ctx, PULL, PUSH);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let plain = std::fs::File::open("/proc/self/exe").expect("a file");
    poller.add(&pull, 1, POLLIN).expect("add");
    poller.add_fd(reader.as_raw_fd(), 2, POLLIN).expect("add");
    assert_eq!(poller.add_fd(reader.as_raw_fd(), 3, POLLIN), Err(INVALID), "twice");
    poller.add_fd(writer.as_raw_fd(), 4, 0).expect("add");
    assert_eq!(poller.wait_all(9, 0), Err(AGAIN));
    poller.modify_fd(writer.as_raw_fd(), POLLOUT).expect("modify");
    assert_eq!(poller.wait_all(9, LONG_MS), Ok(vec![(4, POLLOUT)]));
    writer.write_all(b"x").expect("room");
    push.put("x");
    until("all three", || poller.wait_all(9, LONG_MS) == Ok(vec![(1, POLLIN), (2, POLLIN), (4, POLLOUT)]));
    let event = poller.wait_events(9, LONG_MS).expect("events")[1];
    assert_eq!((event.socket, event.fd), (std::ptr::null_mut(), reader.as_raw_fd()));
    poller.modify_fd(writer.as_raw_fd(), 0).expect("modify");
    poller.remove(&pull).expect("remove");
    poller.add_fd(plain.as_raw_fd(), 5, POLLIN).expect("add");
    assert_eq!(poller.wait_all(9, 0), Ok(vec![(2, POLLIN), (5, POLLIN)]), "a file is always ready");
    poller.remove_fd(plain.as_raw_fd()).expect("remove");
    poller.remove_fd(writer.as_raw_fd()).expect("remove");
    drop(writer);
    assert_eq!(poller.wait_all(9, LONG_MS), Ok(vec![(2, POLLIN | POLLERR)]), "and the writer has gone");
    assert_eq!(poller.add_fd(1_000_000, 6, POLLIN), Err(Errno(libc::EBADF)), "not open");
}

/// A closed socket makes the wait fail until it is removed.
#[test]
fn closed_sockets_can_be_removed() {
    let (ctx, poller) = (Context::new(), poller!());
    let (pull, push) = Transport::Tcp.pair(&ctx, PULL, PUSH);
    poller.add(&push, 1, POLLIN).expect("add");
    poller.add(&pull, 2, POLLIN).expect("add");
    let raw = push.raw();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| poller.wait(LONG_MS));
        push.close().expect("close");
        assert_eq!(waiting.join().expect("no panic"), Err(Errno(libc::ENOTSOCK)));
    });
    assert_eq!(poller.wait(0), Err(Errno(libc::ENOTSOCK)));
    // SAFETY: a destroyed handle is under test.
    assert_eq!(unsafe { zmq_poller_remove(poller.raw(), raw) }, 0);
    assert_eq!((poller.size(), poller.wait(0)), (Ok(1), Err(AGAIN)));
}

/// A thread that waits in a poller gets an error when another thread destroys the poller.
#[test]
fn destroying_wakes_who_waits() {
    within(60, || {
        let (ctx, poller) = (Context::new(), poller!());
        let pull = ctx.socket(PULL);
        poller.add(&pull, 1, POLLIN).expect("add");
        let raw = poller.raw().expose_provenance();
        let waiting = std::thread::spawn(move || {
            let mut event = NO_EVENT;
            let raw = std::ptr::with_exposed_provenance_mut(raw);
            // SAFETY: a handle that another thread takes away.
            (unsafe { zmq_poller_wait(raw, &mut event, -1) }, errno::last())
        });
        pass(Duration::from_millis(20));
        drop(poller);
        assert_eq!(waiting.join().expect("no panic"), (-1, FAULT));
    });
}

/// Every ready socket has its turn, though others are always ready.
#[test]
fn takes_turns() {
    let (ctx, poller) = (Context::new(), poller!());
    let pairs: Vec<_> = (0..5).map(|_| Transport::Inproc.pair(&ctx, PULL, PUSH)).collect();
    for (number, (pull, push)) in pairs.iter().enumerate() {
        poller.add(pull, number, POLLIN).expect("add");
        push.put("it stays");
    }
    let mut seen: Vec<usize> = (0..5).map(|_| poller.wait(LONG_MS).expect("an event").0).collect();
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3, 4]);
    let (one, two) = (poller.wait_all(3, 0).expect("events"), poller.wait_all(3, 0).expect("events"));
    assert_eq!((one.len(), two.len()), (3, 3));
    assert_ne!(one, two);
    assert_eq!(poller.wait_all(9, 0).map(|all| all.len()), Ok(5));
}

/// Every message of many senders is reported, over all transports at once.
#[test]
fn many_sockets_lose_nothing() {
    within(60, || {
        let (ctx, poller) = (Context::new(), poller!());
        let pairs: Vec<_> = (0..60).map(|n| Transport::ALL[n % 3].pair(&ctx, PULL, PUSH)).collect();
        for (number, (pull, _)) in pairs.iter().enumerate() {
            poller.add(pull, number, POLLIN).expect("add");
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..200 {
                    pairs.iter().for_each(|(_, push)| push.put(n.to_string()));
                }
            });
            let mut next = vec![0; pairs.len()];
            while next.iter().any(|next| *next < 200) {
                for (number, events) in poller.wait_all(16, LONG_MS).expect("messages are under way") {
                    assert_eq!(events, POLLIN);
                    assert_eq!(pairs[number].0.take_text(), next[number].to_string());
                    next[number] += 1;
                }
            }
        });
        assert_eq!(poller.wait(0), Err(AGAIN));
    });
}

/// A wait's cost depends on the ready sockets: with 2,000 registered it costs about as much as with 20.
#[test]
fn costs_what_is_ready() {
    within(120, || {
        let poller = poller!();
        let ctx = Context::new();
        ctx.set(MAX_SOCKETS, 5_000).expect("MAX_SOCKETS");
        let (pull, push) = Transport::Inproc.pair(&ctx, PULL, PUSH);
        poller.add(&pull, 1, POLLIN).expect("add");
        let mut idle: Vec<Socket> = Vec::new();
        let mut rounds = |count: usize| {
            while idle.len() < count {
                let socket = ctx.bare_socket(PULL);
                poller.add(&socket, 2, POLLIN).expect("add");
                idle.push(socket);
            }
            assert_eq!(poller.wait(0), Err(AGAIN));
            let fastest = (0..20).map(|_| {
                let start = Instant::now();
                for _ in 0..200 {
                    push.put("x");
                    assert_eq!(poller.wait(LONG_MS), Ok((1, POLLIN)));
                    pull.take();
                }
                start.elapsed()
            });
            fastest.min().expect("some")
        };
        let (few, many) = (rounds(20), rounds(2_000));
        assert!(many < few * 4 + Duration::from_millis(1), "{few:?} with 20, {many:?} with 2,000");
    });
}

/// Two threads that each wait for one event both get one if there are two: the first leaves the other's event.
#[test]
fn two_threads_share_what_is_ready() {
    let (ctx, poller) = (Context::new(), poller!());
    let pairs = [0, 1].map(|_| Transport::Inproc.pair(&ctx, PULL, PUSH));
    for (number, (pull, _)) in pairs.iter().enumerate() {
        poller.add(pull, number, POLLIN).expect("add");
    }
    let start = Instant::now();
    for round in 0..300 {
        let both = std::sync::Barrier::new(3);
        let wait = || {
            both.wait();
            let event = poller.wait(LONG_MS);
            both.wait(); // Neither thread waits again before both have their event.
            event
        };
        std::thread::scope(|scope| {
            let threads = [scope.spawn(wait), scope.spawn(wait)];
            both.wait();
            pairs.iter().for_each(|(_, push)| push.put("x"));
            both.wait();
            for thread in threads {
                let event = thread.join().expect("no panic");
                assert!(event.is_ok(), "round {round}: {event:?}");
            }
        });
        pairs.iter().for_each(|(pull, _)| assert_eq!(pull.take_text(), "x"));
    }
    // A thread that is not woken finds its event only when its timeout ends.
    assert!(start.elapsed() < Duration::from_millis(PATIENCE_MS as u64), "{:?}", start.elapsed());
}
