//! Limits in bytes: for one peer's queue, and for a whole context.

use support::pinnace::{RCVBYTES, SHARED_MEMORY, SNDBYTES};
use support::*;

over_transports!(
    a_senders_queue_is_bounded,
    a_context_is_bounded,
    a_waiting_sender_goes_on,
    a_message_beyond_the_limits_arrives_whole;
    wires a_receivers_queue_is_bounded,
);

fn bytes(socket: &Socket, option: i32, limit: i64) {
    socket.set_bytes(option, &limit.to_ne_bytes()).expect("a limit");
}

/// The number of messages accepted without waiting.
fn fill(socket: &Socket, body: &[u8]) -> usize {
    let mut count = 0;
    while socket.send(body, DONTWAIT).is_ok() {
        count += 1;
        assert!(count < 1_000_000, "there is no limit");
    }
    count
}

fn a_senders_queue_is_bounded(transport: Transport) {
    let ctx = Context::new();
    let push = ctx.socket(PUSH).hwm(0).with(LINGER, 0);
    bytes(&push, SNDBYTES, 100_000);
    assert_eq!(push.set_bytes(SNDBYTES, &(-1i64).to_ne_bytes()), Err(Errno(libc::EINVAL)));
    push.connect(&transport.fresh()).expect("connect");
    assert_eq!(fill(&push, &[7; 991]), 100, "of 1,000 bytes with their headers");
    bytes(&push, SNDBYTES, 200_000);
    assert_eq!(fill(&push, &[7; 991]), 100, "it can be set later");
    assert_eq!(push.stats().sent.queued, 200);
    bytes(&push, SNDBYTES, 0);
    push.set(SNDHWM, 250).expect("a mark");
    assert_eq!(fill(&push, &[7; 991]), 50, "the marks count beside");
}

fn a_receivers_queue_is_bounded(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL).hwm(0), ctx.socket(PUSH).hwm(0).with(SNDBUF, 4096));
    bytes(&pull, RCVBYTES, 50_000);
    bytes(&push, SNDBYTES, 50_000);
    pull.set(RCVBUF, 4096).expect("a small buffer");
    transport.join(&pull, &push);
    // Five megabytes, or as many as the socket accepts before the sender has to wait.
    push.set(SNDTIMEO, 300).expect("SNDTIMEO");
    let sent = (0..5_000).take_while(|_| push.send([7; 1000], 0).is_ok()).count();
    until("the queue is full", || pull.stats().received.queued >= 49);
    // One read may exceed the limit by what it brought.
    assert!(pull.stats().received.queued < 1_000, "{}", pull.stats().received.queued);
    for _ in 0..sent {
        pull.take();
    }
    push.put("again");
    pull.expect(&["again"]);
}

fn a_context_is_bounded(transport: Transport) {
    let ctx = Context::new();
    ctx.set_max_bytes(1_000_000);
    let pairs: Vec<_> = (0..3)
        .map(|_| {
            let (pull, push) = (ctx.socket(PULL).hwm(0), ctx.socket(PUSH).hwm(0));
            transport.join(&pull, &push);
            push.put("hello");
            pull.expect(&["hello"]);
            (pull, push)
        })
        .collect();
    let counts: Vec<_> = pairs.iter().map(|(_, push)| fill(push, &[7; 10_000])).collect();
    until("what is under way has come to rest", || {
        let before = ctx.held_bytes();
        deadline::pass(std::time::Duration::from_millis(5));
        ctx.held_bytes() == before
    });
    // A read in progress may exceed the limit.
    assert!(ctx.held_bytes() < 3_000_000, "{} bytes are held", ctx.held_bytes());
    for ((pull, _), count) in pairs.iter().zip(counts) {
        for _ in 0..count {
            assert_eq!(pull.take().len(), 10_000);
        }
    }
    until("nothing is held", || ctx.held_bytes() == 0);
    for (pull, push) in &pairs {
        push.put("more");
        pull.expect(&["more"]);
    }
}

/// One message may exceed all limits: they decide when the next one is accepted.
fn a_message_beyond_the_limits_arrives_whole(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH));
    bytes(&pull, RCVBYTES, 64 << 10);
    transport.join(&pull, &push);
    let parts = [&[1; 40 << 10][..], &[2; 40 << 10], &[3; 40 << 10]];
    for max_bytes in [0, 50 << 10] {
        ctx.set_max_bytes(max_bytes);
        for _ in 0..3 {
            push.tx(&parts);
            assert_eq!(pull.rx(), parts);
        }
    }
}

/// A sender that waits because another socket uses up the context's limit is woken when that socket's receiver frees
/// bytes.
fn a_waiting_sender_goes_on(transport: Transport) {
    waiting_sender(transport, 0);
}

/// Shared memory holds more than all limits, uncounted: its messages may take up the context's bytes before the
/// sender does, and the sender then waits for its own receiver too.
#[test]
fn a_sender_that_waits_behind_shared_memory_goes_on() {
    waiting_sender(Transport::Ipc, 1);
}

fn waiting_sender(transport: Transport, shared_memory: i32) {
    let ctx = Context::new();
    ctx.set_max_bytes(100_000);
    let (greedy_pull, greedy) = (ctx.socket(PULL).hwm(0), ctx.socket(PUSH).hwm(0));
    // Keep the kernel buffers small: otherwise this pair's messages alone could use up the context's limit.
    let pull = ctx.socket(PULL).hwm(0).with(RCVBUF, 4096).with(SHARED_MEMORY, shared_memory);
    let push = ctx.socket(PUSH).hwm(0).with(SNDBUF, 4096).with(SHARED_MEMORY, shared_memory);
    transport.join(&greedy_pull, &greedy);
    transport.join(&pull, &push);
    for (pull, push) in [(&greedy_pull, &greedy), (&pull, &push)] {
        push.put("hello");
        pull.expect(&["hello"]);
    }
    // Fills until messages in flight have settled too.
    let count = filler::fill(&greedy, 0, 10_000);
    // Other sockets have a small reserve, which is used up before any of it is sent.
    let (start, mut others) = (std::time::Instant::now(), 0);
    while push.send("x", DONTWAIT).is_ok() {
        others += 1;
        assert!(start.elapsed().as_millis() < PATIENCE_MS as u128, "the limit is not reached for others");
    }
    std::thread::scope(|threads| {
        let sender = threads.spawn(|| push.put("waited"));
        for _ in 0..count {
            greedy_pull.take();
        }
        if shared_memory != 0 {
            (0..std::mem::take(&mut others)).for_each(|_| assert_eq!(pull.take_text(), "x"));
        }
        assert!(
            sender.join().is_ok(),
            "it was woken, behind {others} others, {} bytes held",
            ctx.held_bytes()
        );
    });
    (0..others).for_each(|_| assert_eq!(pull.take_text(), "x"));
    assert_eq!(pull.take_text(), "waited");
}
