//! SCATTER and GATHER, and what all thread-safe types have in common: single-part messages, no descriptor.

use std::collections::BTreeSet;

use support::filler::{drain, fill, number_of, numbered};
use support::*;

over_transports!(
    scatters_in_turn,
    gathers_from_all,
    a_full_scatter_waits,
    delivers_what_was_sent_before_the_close,
    many_threads_scatter_and_gather,
    takes_no_parts,
    is_polled_like_any_other,
);

/// Types that send, and their peers' types.
const SENDERS: [(i32, i32); 4] = [(CLIENT, SERVER), (SCATTER, GATHER), (CHANNEL, CHANNEL), (RADIO, DISH)];
const ALL: [i32; 8] = [SERVER, CLIENT, RADIO, DISH, GATHER, SCATTER, PEER, CHANNEL];

fn scatters_in_turn(transport: Transport) {
    let ctx = Context::new();
    let scatter = ctx.socket(SCATTER);
    let gathers: Vec<Socket> = (0..3).map(|_| ctx.socket(GATHER)).collect();
    for gather in &gathers {
        transport.join(gather, &scatter);
    }
    (0..30).for_each(|n| scatter.put(numbered(n, 8)));
    let mut all = BTreeSet::new();
    for gather in &gathers {
        (0..10).for_each(|_| assert!(all.insert(number_of(&gather.take()))));
        gather.expect_nothing();
    }
    assert!(all.into_iter().eq(0..30));
}

fn gathers_from_all(transport: Transport) {
    let ctx = Context::new();
    let gather = ctx.socket(GATHER);
    let endpoint = transport.bind(&gather);
    let scatters: Vec<Socket> = (0..5).map(|_| ctx.socket(SCATTER)).collect();
    for (n, scatter) in (0..).zip(&scatters) {
        scatter.connect(&endpoint).expect("connect");
        (0..100).for_each(|k| scatter.put(numbered(n * 1_000 + k, 50)));
    }
    let mut next = [0; 5];
    for _ in 0..500 {
        let number = number_of(&gather.take());
        let from = (number / 1_000) as usize;
        assert_eq!(number % 1_000, next[from], "in order from each");
        next[from] += 1;
    }
    assert_eq!(next, [100; 5]);
}

fn a_full_scatter_waits(transport: Transport) {
    let ctx = Context::new();
    let (gather, scatter) = (ctx.socket(GATHER).hwm(3), ctx.socket(SCATTER).hwm(3));
    transport.join(&gather, &scatter);
    let count = fill(&scatter, 0, 50_000);
    assert!(transport != Transport::Inproc || count == 6, "{count}");
    assert_eq!(poll::ready(&scatter, POLLOUT, 0), 0);
    drain(&gather, 0, count);
    assert_eq!(poll::ready(&scatter, POLLOUT, deadline::PATIENCE_MS.into()), POLLOUT);
}

fn delivers_what_was_sent_before_the_close(transport: Transport) {
    let ctx = Context::new();
    let (gather, scatter) = transport.pair(&ctx, GATHER, SCATTER);
    (0..500).for_each(|n| scatter.put(numbered(n, 1_000)));
    scatter.set(LINGER, -1).expect("LINGER");
    scatter.close().expect("close");
    drain(&gather, 0, 500);
}

fn many_threads_scatter_and_gather(transport: Transport) {
    const THREADS: u64 = 4;
    const EACH: u64 = 5_000;
    let ctx = Context::new();
    let (gather, scatter) = transport.pair(&ctx, GATHER, SCATTER);
    let seen = std::sync::Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (scatter, gather, seen) = (&scatter, &gather, &seen);
            scope.spawn(move || (0..EACH).for_each(|n| scatter.put(numbered(thread * EACH + n, 64))));
            scope.spawn(move || {
                for _ in 0..EACH {
                    assert!(seen.lock().unwrap().insert(number_of(&gather.take())));
                }
            });
        }
    });
    assert!(seen.into_inner().unwrap().into_iter().eq(0..THREADS * EACH));
}

/// SNDMORE is EINVAL, and has no effect.
fn takes_no_parts(transport: Transport) {
    let ctx = Context::new();
    for (sender, receiver) in SENDERS {
        let (receiver, sender) = transport.pair(&ctx, receiver, sender);
        let is_dish = receiver.join_group("").is_ok();
        for flags in [SNDMORE, SNDMORE | DONTWAIT] {
            assert_eq!(sender.send("part", flags), Err(Errno(libc::EINVAL)));
        }
        if is_dish {
            draft::settle(&sender, &receiver);
        }
        sender.put("whole");
        assert_eq!(receiver.take_text(), "whole");
        receiver.expect_nothing();
    }
    let (server, client) = transport.pair(&ctx, SERVER, CLIENT);
    client.put("hello");
    let (number, _) = server.take_from();
    assert_eq!(server.send_to(number, "part", SNDMORE), Err(Errno(libc::EINVAL)));
    assert_eq!(server.send_to(number, "whole", 0), Ok(5));
    assert_eq!(client.take_text(), "whole");
}

fn is_polled_like_any_other(transport: Transport) {
    let ctx = Context::new();
    let (server, client) = transport.pair(&ctx, SERVER, CLIENT);
    assert_eq!(poll::ready(&server, POLLIN | POLLOUT, 0), POLLOUT, "always ready to send");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(poll::ready(&server, POLLIN, deadline::PATIENCE_MS.into()), POLLIN);
            assert_eq!(server.events() & POLLIN, POLLIN);
            let (number, text) = server.take_from();
            server.send_to(number, text, 0).expect("send");
        });
        client.put("wake up");
        assert_eq!(poll::ready(&client, POLLIN, deadline::PATIENCE_MS.into()), POLLIN);
    });
    assert_eq!(client.take_text(), "wake up");
    assert_eq!(poll::ready(&server, POLLIN, 0), 0);
}

#[test]
fn has_no_descriptor_and_says_that_it_is_thread_safe() {
    let ctx = Context::new();
    for kind in ALL {
        let socket = ctx.socket(kind);
        assert_eq!(socket.get(FD), Err(Errno(libc::EINVAL)), "{kind}");
        assert_eq!((socket.get(THREAD_SAFE), socket.get(TYPE)), (Ok(1), Ok(kind)));
        assert_eq!(socket.get(RCVMORE), Ok(0));
        assert_eq!(socket.get(LINGER), Ok(if kind == DISH { 0 } else { -1 }));
    }
    assert_eq!(ctx.socket(DEALER).get(THREAD_SAFE), Ok(0));
}

#[test]
fn refuses_the_wrong_direction() {
    let ctx = Context::new();
    let (gather, scatter) = Transport::Inproc.pair(&ctx, GATHER, SCATTER);
    let (radio, dish) = Transport::Inproc.pair(&ctx, RADIO, DISH);
    for socket in [&scatter, &radio] {
        assert_eq!(socket.recv(DONTWAIT), Err(Errno(libc::ENOTSUP)));
        assert_eq!(poll::ready(socket, POLLIN, 0), 0);
    }
    for socket in [&gather, &dish] {
        assert_eq!(socket.send("x", DONTWAIT), Err(Errno(libc::ENOTSUP)));
    }
    for socket in [&gather, &scatter, &radio] {
        assert_eq!(socket.join_group("g"), Err(Errno(libc::ENOTSUP)));
        assert_eq!(socket.leave_group("g"), Err(Errno(libc::ENOTSUP)));
    }
}

/// Without a peer, sending waits.
#[test]
fn waits_without_a_peer() {
    let ctx = Context::new();
    for kind in [CLIENT, SCATTER, CHANNEL] {
        let socket = ctx.socket(kind).with(SNDTIMEO, 20);
        assert_eq!(socket.send("x", DONTWAIT), Err(Errno(libc::EAGAIN)));
        assert_eq!(socket.send("x", 0), Err(Errno(libc::EAGAIN)));
    }
    for kind in [SERVER, CLIENT, DISH, GATHER, PEER, CHANNEL] {
        let socket = ctx.socket(kind).with(RCVTIMEO, 20);
        assert_eq!(socket.recv(DONTWAIT), Err(Errno(libc::EAGAIN)));
        assert_eq!(socket.recv(0), Err(Errno(libc::EAGAIN)));
    }
}
