//! Waiting for peers, subscribers, acknowledged subscriptions and ended peers; the descriptor that signals these
//! states; whole messages from many threads.

use std::sync::atomic::{AtomicBool, Ordering};

use support::*;

over_transports!(
    peers_come,
    subscribers_come,
    subscriptions_are_acknowledged,
    producers_end,
    producers_that_bring_nothing_end,
    a_peer_ends_with_its_endpoint,
    a_descriptor_says_what_is_so,
    kicked_for_good,
    whole_messages_do_not_mix,
);

fn refused<T>(outcome: Outcome<T>) -> Option<i32> {
    outcome.err().map(|Errno(number)| number)
}

fn peers_come(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let endpoint = transport.bind(&pull);
    std::thread::scope(|threads| {
        let waiter = threads.spawn(|| pull.wait_peers(3));
        let pushes: Vec<_> = (0..3).map(|_| ctx.socket(PUSH)).collect();
        pushes.iter().for_each(|push| push.connect(&endpoint).expect("connect"));
        assert_eq!(waiter.join().expect("no panic"), Ok(()));
        pushes.iter().for_each(|push| push.wait_peers(1).expect("a peer"));
    });
}

fn subscribers_come(transport: Transport) {
    let ctx = Context::new();
    let publisher = ctx.socket(PUB);
    let endpoint = transport.bind(&publisher);
    assert_eq!(refused(publisher.wait_subscribers("", 1, 0)), Some(libc::EAGAIN));
    std::thread::scope(|threads| {
        let waiter = threads.spawn(|| publisher.wait_subscribers("news/today", 2, PATIENCE_MS.into()));
        let subscribers: Vec<_> = ["news/", "weather/", "news/today"]
            .map(|topic| {
                let subscriber = ctx.socket(SUB);
                subscriber.connect(&endpoint).expect("connect");
                subscriber.set_bytes(SUBSCRIBE, topic.as_bytes()).expect("SUBSCRIBE");
                subscriber
            })
            .into();
        assert_eq!(waiter.join().expect("no panic"), Ok(()));
        publisher.put("news/today: rain");
        subscribers[0].expect(&["news/today: rain"]);
        subscribers[2].expect(&["news/today: rain"]);
        assert_eq!(refused(publisher.wait_subscribers("news/today", 3, 5)), Some(libc::EAGAIN));
    });
    assert_eq!(refused(ctx.socket(PUSH).wait_subscribers("", 1, 0)), Some(libc::ENOTSUP));
}

/// Without settling or sleeping: after the wait no message is missed, in many rounds.
fn subscriptions_are_acknowledged(transport: Transport) {
    let ctx = Context::new();
    let (publisher, subscriber) = (ctx.socket(PUB), ctx.socket(SUB).with(RECONNECT_IVL, 5));
    assert_eq!(refused(subscriber.wait_subscribed(0)), Some(libc::EAGAIN), "nobody is there");
    transport.join(&publisher, &subscriber);
    for turn in 0..200 {
        let topic = format!("topic {turn}.");
        subscriber.set_bytes(SUBSCRIBE, topic.as_bytes()).expect("SUBSCRIBE");
        subscriber.wait_subscribed(PATIENCE_MS.into()).expect("it is installed");
        publisher.put(&topic);
        subscriber.expect(&[&topic]);
    }
    assert_eq!(refused(publisher.wait_subscribed(0)), Some(libc::ENOTSUP));
}

fn producers_end(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let endpoint = transport.bind(&pull);
    for _ in 0..3 {
        let push = ctx.socket(PUSH);
        push.connect(&endpoint).expect("connect");
        for n in 0..50 {
            push.put(format!("{n}"));
        }
        push.close().expect("close");
    }
    for _ in 0..149 {
        pull.take();
    }
    assert_eq!(refused(pull.wait_ended(3, 20)), Some(libc::EAGAIN), "one message is not received");
    pull.take();
    pull.wait_ended(3, PATIENCE_MS.into()).expect("all have ended");
    assert_eq!(refused(pull.recv(DONTWAIT)), Some(libc::EAGAIN));
}

fn readable(fd: i32, timeout_ms: i32) -> bool {
    let mut item = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one item.
    unsafe { libc::poll(&mut item, 1, timeout_ms) == 1 }
}

fn a_descriptor_says_what_is_so(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL).hwm(1), ctx.socket(PUSH).hwm(1));
    assert_eq!(refused(pull.level_fd(0)), Some(libc::EINVAL));
    assert_eq!(refused(pull.level_fd(POLLIN | POLLERR)), Some(libc::EINVAL));
    let come = pull.level_fd(POLLIN).expect("a descriptor");
    let room = push.level_fd(POLLOUT).expect("a descriptor");
    assert!(!readable(come, 0) && !readable(room, 0), "no peer is there");
    transport.join(&pull, &push);
    assert!(readable(room, PATIENCE_MS), "a peer takes messages");
    for _ in 0..20 {
        assert!(!readable(come, 0));
        push.put("x");
        assert!(readable(come, PATIENCE_MS), "a message has come");
        assert!(readable(come, 0), "and is still there");
        pull.take();
        assert!(!readable(come, 0), "it was received");
    }
    let body = vec![1_u8; 1 << 20];
    until("nothing more goes in", || push.send(&body, DONTWAIT).is_err());
    assert!(!readable(room, 0));
    until("there is room again", || {
        let _ = pull.recv(DONTWAIT);
        readable(room, 0)
    });
    assert_eq!(pull.level_fd(POLLIN), Ok(come), "the same one");
}

fn kicked_for_good(transport: Transport) {
    let ctx = Context::new();
    let (router, dealer) = (ctx.socket(ROUTER), ctx.socket(DEALER).with(RECONNECT_IVL, -1));
    transport.join(&router, &dealer);
    dealer.put("last words");
    router.wait_peers(1).expect("a peer");
    let peer = router.peers()[0].number;
    until("the words have come", || router.stats().received.queued == 1);
    router.kick(peer).expect("kicked");
    assert_eq!(router.rx()[1], b"last words", "what it sent before is received");
    until("it is gone", || router.stats().peers == 0 && dealer.stats().peers == 0);
    assert_eq!(refused(router.kick(peer)), Some(libc::EHOSTUNREACH));
    assert_eq!(refused(router.kick(u64::MAX)), Some(libc::EHOSTUNREACH));
}

fn whole_messages_do_not_mix(transport: Transport) {
    const THREADS: usize = 4;
    const EACH: usize = 500;
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    assert_eq!(refused(push.send_whole(&[], 0)), Some(libc::EINVAL));
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let push = &push;
            threads.spawn(move || {
                for n in 0..EACH {
                    let (name, number) = (thread.to_string(), n.to_string());
                    let parts = [name.as_bytes(), number.as_bytes(), b"end"];
                    assert_eq!(push.send_whole(&parts, 0), Ok((name.len() + number.len() + 3) as i32));
                }
            });
        }
        let mut next = [0; THREADS];
        for _ in 0..THREADS * EACH {
            let parts = pull.rx();
            let texts: Vec<_> = parts.iter().map(|part| std::str::from_utf8(part).expect("text")).collect();
            let thread: usize = texts[0].parse().expect("a thread");
            assert_eq!(texts[1..], [next[thread].to_string().as_str(), "end"], "of thread {thread}");
            next[thread] += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
    push.send("first", SNDMORE).expect("a first frame");
    assert!(refused(push.send_whole(&[b"x"], 0)).is_some(), "inside another message");
    push.put("last");
    pull.expect(&["first", "last"]);
}

/// Producers that connected and left between two calls of the sink also count as ended.
fn producers_that_bring_nothing_end(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let endpoint = transport.bind(&pull);
    for _ in 0..3 {
        let push = ctx.socket(PUSH);
        push.connect(&endpoint).expect("connect");
        push.wait_peers(1).expect("a peer");
    }
    pull.wait_ended(3, PATIENCE_MS.into()).expect("all have ended");
    assert_eq!(pull.stats().ended_peers, 3);
}

/// An endpoint that this socket connected counts when it is given up, after its connection was lost.
fn a_peer_ends_with_its_endpoint(transport: Transport) {
    let ctx = Context::new();
    let (push, pull) = (ctx.socket(PUSH), ctx.socket(PULL).with(RECONNECT_IVL, -1));
    transport.join(&push, &pull);
    push.put("the last");
    push.close().expect("close");
    pull.expect(&["the last"]);
    pull.wait_ended(1, PATIENCE_MS.into()).expect("it has ended");
    assert_eq!(pull.stats().ended_peers, 1);
}

/// Over inproc, a connection is kicked and then its endpoint is disconnected: its number is not reused until the
/// other side has noticed.
#[test]
fn what_is_kicked_and_left_ends_once() {
    let ctx = Context::new();
    let (first, second, push) = (ctx.socket(PULL), ctx.socket(PULL), ctx.socket(PUSH));
    let (here, there) = (Transport::Inproc.bind(&first), Transport::Inproc.bind(&second));
    push.connect(&here).expect("connect");
    push.put("a word");
    first.expect(&["a word"]);
    push.kick(push.peers()[0].number).expect("kicked");
    push.disconnect(&here).expect("disconnect");
    push.connect(&there).expect("connect");
    assert_eq!(first.stats().ended_peers, 1, "it has heard");
    push.put("another");
    second.expect(&["another"]);
    push.put("and another");
    second.expect(&["and another"]);
    assert_eq!((push.stats().peers, second.stats().peers), (1, 1));
}
