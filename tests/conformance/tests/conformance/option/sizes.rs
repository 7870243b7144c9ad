//! Bodies of every size arrive byte for byte, however they were sent and received.

use support::filler::body;
use support::*;

over_transports!(arrive_intact, arrive_intact_in_a_stream, are_cut_to_the_buffer, answer_in_any_size);
over!(limits_tcp, Tcp, refuses_more_than_the_limit, goes_on_behind_what_is_refused,);
over!(limits_ipc, Ipc, refuses_more_than_the_limit, goes_on_behind_what_is_refused,);

const KI: usize = 1024;

fn sizes() -> Vec<usize> {
    let mut sizes: Vec<usize> = (0..=70).collect();
    sizes.extend([126, 127, 128, 254, 255, 256, 257, 4_095, 4_096, 8_182, 8_183]);
    for middle in [8 * KI, 16 * KI, 32 * KI, 64 * KI, 128 * KI, 256 * KI] {
        sizes.extend([middle - 1, middle, middle + 1]);
    }
    sizes.extend([100 * KI, 1024 * KI - 1, 1024 * KI, 1024 * KI + 1, 10 * 1024 * KI]);
    sizes
}

/// One by one, waiting for each.
fn arrive_intact(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    for size in sizes() {
        let content = body(size as u64, size);
        push.put(&content);
        assert!(pull.take() == content, "{size} bytes by zmq_send and zmq_msg_recv");
        let mut message = Message::of(&content);
        assert_eq!(message.send(&push, 0), Ok(size));
        let mut buffer = vec![0; size];
        assert_eq!(pull.recv_into(&mut buffer, 0), Ok(size));
        assert!(buffer == content, "{size} bytes by zmq_msg_send and zmq_recv");
    }
}

/// In one run, large and small mixed, so that batch and buffer boundaries fall everywhere.
fn arrive_intact_in_a_stream(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL).hwm(50), ctx.socket(PUSH).hwm(50));
    transport.join(&pull, &push);
    let sizes: Vec<usize> = sizes().into_iter().filter(|size| *size <= 300 * KI).collect();
    let order = || (0..1_500u64).map(|n| (n, sizes[(n as usize * 37 + n as usize / 11) % sizes.len()]));
    std::thread::scope(|scope| {
        scope.spawn(|| order().for_each(|(n, size)| push.put(body(n, size))));
        for (n, size) in order() {
            assert!(pull.take() == body(n, size), "message {n} of {size} bytes");
        }
    });
}

/// zmq_recv fills the buffer, drops the rest and returns the whole size; it writes nothing past the buffer.
fn are_cut_to_the_buffer(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    for size in [1, 33, 34, 300, 10_000, 1024 * KI] {
        for room in [0, 1, size / 2, size - 1, size, size + 1] {
            let content = body(3, size);
            push.put(&content);
            let mut buffer = vec![0xEE; room + 16];
            assert_eq!(pull.recv_into(&mut buffer[..room], 0), Ok(size));
            let taken = room.min(size);
            assert_eq!(buffer[..taken], content[..taken]);
            assert!(buffer[taken..].iter().all(|byte| *byte == 0xEE), "bytes behind the message");
        }
    }
    push.put("next");
    assert_eq!(pull.take_text(), "next");
}

fn answer_in_any_size(transport: Transport) {
    let ctx = Context::new();
    let (rep, req) = transport.pair(&ctx, REP, REQ);
    for size in [0, 1, 33, 34, 255, 256, 9_000, 70_000, 2_000_000] {
        let (question, answer) = (body(1, size), body(2, size));
        req.put(&question);
        assert!(rep.take() == question);
        rep.put(&answer);
        assert!(req.take() == answer);
    }
}

/// MAXMSGSIZE: a message of that size passes; one byte more closes the connection, which is then made again.
fn refuses_more_than_the_limit(transport: Transport) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    pull.set_bytes(MAXMSGSIZE, &1_000i64.to_ne_bytes()).expect("MAXMSGSIZE");
    let push = ctx.socket(PUSH).with(RECONNECT_IVL, 10);
    transport.join(&pull, &push);
    push.put(body(1, 1_000));
    assert_eq!(pull.take().len(), 1_000);
    push.put(body(2, 1_001));
    let message = deadline::until_some("the connection stands again", || {
        let _ = push.send("small", DONTWAIT);
        (poll::ready(&pull, POLLIN, 10) != 0).then(|| pull.take_text())
    });
    assert_eq!(message, "small");
}

/// A message that the peer refuses each time, before it was sent whole, is dropped after some connections, and the
/// messages after it arrive.
fn goes_on_behind_what_is_refused(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH).with(RECONNECT_IVL, 1));
    pull.set_bytes(MAXMSGSIZE, &1_000i64.to_ne_bytes()).expect("MAXMSGSIZE");
    transport.join(&pull, &push);
    push.put("before");
    assert_eq!(pull.take_text(), "before");
    push.put(vec![0; 16 * KI * KI]);
    push.put("behind");
    assert_eq!(pull.take_text(), "behind");
}
