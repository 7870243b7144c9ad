//! zmq_poll, and a socket's edge-triggered descriptor.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use support::poll::{fd_item, fd_readable, poll, ready, socket_item};
use support::*;

over_transports!(tells_what_is_ready, wakes_up_for_each_message, the_descriptor_signals_changes);

const LONG_MS: i64 = deadline::PATIENCE_MS as i64;

fn tells_what_is_ready(transport: Transport) {
    let ctx = Context::new();
    let (rep, req) = transport.pair(&ctx, REP, REQ);
    assert_eq!(ready(&rep, POLLIN | POLLOUT, 0), 0, "nothing asked yet");
    assert_eq!(ready(&req, POLLIN, 0), 0);
    req.put("question");
    assert_eq!(ready(&rep, POLLIN, LONG_MS), POLLIN);
    assert_eq!(ready(&rep, POLLOUT, 0), 0, "its turn is to receive");
    assert_eq!(ready(&req, POLLOUT, 0), 0, "its turn is to wait");
    rep.take();
    assert_eq!(ready(&rep, POLLIN | POLLOUT, LONG_MS), POLLOUT);
    rep.put("answer");
    assert_eq!(ready(&req, POLLIN | POLLOUT, LONG_MS), POLLIN);
    req.take();
    assert_eq!(ready(&req, POLLIN | POLLOUT, LONG_MS), POLLOUT);
}

/// A poll without a timeout returns for each of the messages that arrive one at a time.
fn wakes_up_for_each_message(transport: Transport) {
    let ctx = Context::new();
    let (a, b) = transport.pair(&ctx, PAIR, PAIR);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..500 {
                assert_eq!(ready(&a, POLLIN, -1), POLLIN);
                assert_eq!(a.take_text(), n.to_string());
                a.put("go on");
            }
        });
        for n in 0..500 {
            b.put(n.to_string());
            assert_eq!(b.take_text(), "go on");
        }
    });
}

/// The idiom of every binding: drain what EVENTS shows, then wait for the descriptor. No wake-up is missed.
fn the_descriptor_signals_changes(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    let fd = pull.get(FD).expect("FD");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..2_000u32 {
                push.put(n.to_string());
                if n % 100 == 0 {
                    deadline::pass(Duration::from_millis(2));
                }
            }
        });
        let mut next = 0;
        while next < 2_000 {
            while pull.events() & POLLIN != 0 {
                assert_eq!(pull.take_text(), next.to_string());
                next += 1;
            }
            assert!(
                next == 2_000 || fd_readable(fd, deadline::PATIENCE_MS),
                "a wake-up was missed at {next}"
            );
        }
    });
}

/// Reading EVENTS clears the descriptor, though the message is still queued: it is edge-triggered.
#[test]
fn reading_events_clears_the_descriptor() {
    let ctx = Context::new();
    let (pull, push) = Transport::Inproc.pair(&ctx, PULL, PUSH);
    let fd = pull.get(FD).expect("FD");
    until("quiet", || pull.events() == 0 && !fd_readable(fd, 20));
    push.put("x");
    assert!(fd_readable(fd, deadline::PATIENCE_MS), "a message is a change");
    assert_eq!(pull.events(), POLLIN);
    assert!(!fd_readable(fd, 50), "the change was seen");
    assert_eq!(pull.events(), POLLIN, "the message is there still");
    assert_eq!(pull.take_text(), "x");
    assert_eq!(pull.events(), 0);
    push.put("y");
    assert!(fd_readable(fd, deadline::PATIENCE_MS), "the next message is a change");
    assert_eq!(pull.events(), POLLIN);
}

/// The descriptor stays the same, and can be polled from before the first connection.
#[test]
fn the_descriptor_tells_of_connections() {
    let ctx = Context::new();
    let push = ctx.socket(PUSH);
    let fd = push.get(FD).expect("FD");
    assert_eq!(push.events(), 0);
    let endpoint = Transport::Tcp.bind(&push);
    let pull = ctx.socket(PULL);
    pull.connect(&endpoint).expect("connect");
    until("ready to send", || {
        assert!(fd_readable(fd, deadline::PATIENCE_MS), "the descriptor tells");
        push.events() & POLLOUT != 0
    });
    assert_eq!(push.get(FD), Ok(fd));
    push.put("x");
    assert_eq!(pull.take_text(), "x");
}

#[test]
fn counts_the_ready_ones() {
    let ctx = Context::new();
    let pairs: Vec<_> = (0..20).map(|_| Transport::Inproc.pair(&ctx, PULL, PUSH)).collect();
    for (_, push) in pairs.iter().step_by(2) {
        push.put("x");
    }
    let mut items: Vec<_> = pairs.iter().map(|(pull, _)| socket_item(pull, POLLIN)).collect();
    assert_eq!(poll(&mut items, LONG_MS), Ok(10));
    for (n, item) in items.iter().enumerate() {
        assert_eq!(item.revents as i32, if n % 2 == 0 { POLLIN } else { 0 });
    }
    // An item that requests no events gets none.
    items.iter_mut().for_each(|item| item.events = 0);
    assert_eq!(poll(&mut items, 0), Ok(0));
    assert!(items.iter().all(|item| item.revents == 0), "old events are cleared");
}

/// Raw descriptors and sockets together.
#[test]
fn mixes_with_raw_descriptors() {
    let ctx = Context::new();
    let (pull, push) = Transport::Tcp.pair(&ctx, PULL, PUSH);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let mut items = [
        socket_item(&pull, POLLIN),
        fd_item(reader.as_raw_fd(), POLLIN),
        fd_item(writer.as_raw_fd(), POLLOUT),
    ];
    assert_eq!(poll(&mut items, LONG_MS), Ok(1));
    assert_eq!(items.map(|item| item.revents as i32), [0, 0, POLLOUT]);
    writer.write_all(b"x").expect("room");
    assert_eq!(poll(&mut items[..2], LONG_MS), Ok(1));
    assert_eq!(items[1].revents as i32, POLLIN);
    push.put("x");
    until("both", || poll(&mut items[..2], LONG_MS) == Ok(2));
    assert_eq!(items[..2].iter().map(|item| item.revents as i32).collect::<Vec<_>>(), [POLLIN, POLLIN]);
    drop(writer);
    let mut byte = [0];
    std::io::Read::read_exact(&mut &reader, &mut byte).expect("the byte");
    assert_eq!(poll(&mut items[1..2], LONG_MS), Ok(1), "the end of a pipe is an event");
}

#[test]
fn without_items_it_waits() {
    let start = Instant::now();
    assert_eq!(poll(&mut [], 0), Ok(0));
    assert_eq!(poll(&mut [], 80), Ok(0));
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(78) && elapsed < Duration::from_secs(5), "{elapsed:?}");
}

#[test]
fn refuses_nonsense() {
    // SAFETY: null pointers and wrong counts are under test.
    unsafe {
        assert_eq!(api::zmq_poll(std::ptr::null_mut(), 1, 0), -1);
        assert_eq!(errno::last(), Errno(libc::EFAULT));
        assert_eq!(api::zmq_poll(std::ptr::null_mut(), -1, 0), -1);
        assert_eq!(errno::last(), Errno(libc::EINVAL));
    }
}

/// A thread that polls while others send does not miss messages sent between its calls.
#[test]
fn many_sockets_one_poller() {
    within(60, || {
        let ctx = Context::new();
        let pairs: Vec<_> =
            (0..30).map(|n| Transport::ALL[n % Transport::ALL.len()].pair(&ctx, PULL, PUSH)).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..100 {
                    for (_, push) in &pairs {
                        push.put(n.to_string());
                    }
                }
            });
            let mut next = vec![0; pairs.len()];
            while next.iter().any(|next| *next < 100) {
                let mut items: Vec<_> = pairs.iter().map(|(pull, _)| socket_item(pull, POLLIN)).collect();
                assert_ne!(poll(&mut items, LONG_MS), Ok(0), "messages are under way");
                for (n, item) in items.iter().enumerate().filter(|(_, item)| item.revents != 0) {
                    assert_eq!(item.revents as i32, POLLIN);
                    assert_eq!(pairs[n].0.take_text(), next[n].to_string());
                    next[n] += 1;
                }
            }
        });
    });
}
