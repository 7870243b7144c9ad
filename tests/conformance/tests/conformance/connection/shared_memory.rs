//! ipc:// between two Pinnace sockets moves messages through shared memory; with any other peer it does not. Whatever
//! a peer does with its memory affects only its own connection.

use std::os::fd::AsRawFd;

use support::child::{self, Child};
use support::memory::{
    ARENA, HEAD, Memory, REPAID, RING, SEALS, SENT, SIZE, TAKEN, accepting, announce, loan, offering, pass,
    read_alone, sharing, step, switch_over, switched, way,
};
use support::peer::each_way;
use support::pinnace::{BORROW, SHARED_MEMORY};
use support::*;

fn through_memory() -> (String, String) {
    ("memory".into(), String::new())
}

fn because(words: &str) -> (String, String) {
    ("socket".into(), words.into())
}

fn pair(ctx: &Context, ours: i32, theirs: i32) -> (Socket, Socket) {
    let (bound, connected) = (ctx.socket(PAIR), ctx.socket(PAIR));
    bound.set(SHARED_MEMORY, ours).expect("the option");
    connected.set(SHARED_MEMORY, theirs).expect("the option");
    Transport::Ipc.join(&bound, &connected);
    (bound, connected)
}

#[test]
fn messages_of_all_sizes_go_through_memory_and_back() {
    let ctx = Context::new();
    let (one, other) = pair(&ctx, 1, 1);
    let brief = because("little traffic so far");
    assert_eq!((way(&one), way(&other)), (brief.clone(), brief));
    switch_over(&one, &other);
    assert_eq!((way(&one), way(&other)), (through_memory(), through_memory()));
    for size in [0, 1, 255, 256, 16_000, 40_000, 1 << 20, 5 << 20] {
        let body = filler::body(size as u64, size);
        one.put(&body);
        assert_eq!(other.take(), body, "{size} bytes");
        other.put(&body);
        assert_eq!(one.take(), body, "{size} bytes back");
    }
}

#[test]
fn the_option_turns_it_off() {
    let ctx = Context::new();
    let (bound, connected) = pair(&ctx, 0, 1);
    assert_eq!(way(&bound), because("switched off"));
    assert_eq!(way(&connected), because("the peer does not offer it"));
    connected.put("over the socket");
    bound.expect(&["over the socket"]);
    let (bound, connected) = pair(&ctx, 1, 0);
    assert_eq!(way(&bound), because("the peer does not offer it"));
    assert_eq!(way(&connected), because("switched off"));
    assert_eq!(bound.set(SHARED_MEMORY, 3), Err(Errno(libc::EINVAL)));
}

/// Reports the option's default. Argument: the environment variable's value.
fn begins_with(args: &[String]) {
    // SAFETY: the process's other thread waits for this one.
    unsafe { std::env::set_var("PINNACE_SHARED_MEMORY", &args[0]) };
    child::say(Context::new().socket(PAIR).get(SHARED_MEMORY).expect("the option"));
}

support::roles!(begins_with);

#[test]
fn the_environment_gives_the_default() {
    let values = [("0", "0"), ("1", "1"), (" 2 ", "2"), ("", "1"), ("off", "0"), ("3", "0"), ("-1", "0")];
    for (given, value) in values {
        let mut child = Child::start("begins_with", &[given]);
        assert_eq!(child.line(), value, "{given:?}");
        child.succeeds();
    }
}

#[test]
fn over_tcp_there_is_none() {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH));
    Transport::Tcp.join(&pull, &push);
    assert_eq!(way(&pull), because("not a local socket"));
}

#[test]
fn unfit_memory_is_refused_and_the_socket_serves() {
    let null = std::fs::File::open("/dev/null").expect("a file");
    let unsealed = Memory::new(SIZE, 0);
    let unsealed_seals = Memory::new(SIZE, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW);
    let (small, odd) = (Memory::new(HEAD, SEALS), Memory::new(SIZE + 4096, SEALS));
    let large = Memory::new(HEAD + 5 * (2 << 20), SEALS); // Twice the size that we make.
    let may_shrink = Memory::new(SIZE, libc::F_SEAL_GROW | libc::F_SEAL_SEAL);
    let unfit = [null.as_raw_fd(), unsealed.fd.as_raw_fd(), unsealed_seals.fd.as_raw_fd()];
    let unfit =
        unfit.into_iter().chain([&small, &odd, &large, &may_shrink].map(|memory| memory.fd.as_raw_fd()));
    let ctx = Context::new();
    for fd in unfit.map(Some).chain([None]) {
        let pull = ctx.socket(PULL);
        let mut peer = offering(&pull, "PUSH");
        match fd {
            Some(fd) => pass(&peer, &step("o"), fd),
            None => peer.send(&step("o")),
        }
        peer.expect(&step("d"));
        assert_eq!(way(&pull), because("the peer's memory is not usable"));
        peer.send(&wire::message(&[b"over the socket"]));
        pull.expect(&["over the socket"]);
    }
}

#[test]
fn a_peer_that_declines_is_served_over_the_socket() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let mut peer = offering(&pull, "PUSH");
    peer.send(&step("d"));
    peer.send(&wire::message(&[b"over the socket"]));
    pull.expect(&["over the socket"]);
    until("its answer is taken in", || way(&pull) == because("the peer declined"));
}

/// Another build of Pinnace: it is treated like libzmq, and gets the same.
#[test]
fn a_peer_of_another_version_is_served_over_the_socket() {
    let versions: [&[u8]; 8] = [b"3", b"5", b"", b"rubbish", b"\0\xff", b"44", b"4\0", &[b'4'; 300]];
    for version in versions {
        each_way(Transport::Ipc, PAIR, |socket, mut peer| {
            announce(&mut peer, ["PAIR", "PAIR"], version);
            assert_eq!(way(socket), because("the peer does not offer it"), "{version:?}");
            for size in [0, 8, 1032, 16 << 10, 100 << 10, 1 << 20] {
                let (ours, theirs) = (filler::body(1, size), filler::body(2, size));
                socket.put(&ours);
                let expected = wire::message(&[&ours]);
                assert!(read_alone(&peer, expected.len()) == expected, "{version:?}, {size} bytes");
                peer.send(&wire::message(&[&theirs]));
                assert!(socket.take() == theirs, "{version:?}, {size} bytes back");
            }
            assert_eq!(way(socket), because("the peer does not offer it"), "{version:?}");
            peer.hang_up();
            assert_eq!(peer.expect_end(), b"", "{version:?}: the messages were all");
        });
    }
}

#[test]
fn what_is_said_out_of_turn_ends_the_connection() {
    let ctx = Context::new();
    for said in [step("a"), step("g"), step("x"), [step("d"), step("o")].concat()] {
        let pull = ctx.socket(PULL);
        let mut peer = offering(&pull, "PUSH");
        peer.send(&said);
        peer.expect_end();
    }
}

/// Both directions at once, while messages of all sizes are in flight.
#[test]
fn a_connection_that_switches_in_the_midst_of_messages_loses_none() {
    let ctx = Context::new();
    for round in 0..20 {
        let (one, other) = (ctx.socket(PAIR), ctx.socket(PAIR));
        let marks = [1, 10, 1000][round as usize % 3];
        let (one, other) = (one.hwm(marks), other.hwm(marks));
        Transport::Ipc.join(&one, &other);
        let body = |number| filler::numbered(number, [8, 300, 5_000, 70_000][(number + round) as usize % 4]);
        let count = 200;
        std::thread::scope(|scope| {
            for (socket, begins) in [(&one, round % 2 == 0), (&other, round % 2 == 1)] {
                scope.spawn(move || {
                    // One of the two threads sends up to 50 messages before its first receive.
                    let ahead = if begins { marks.min(50) as u64 } else { 0 };
                    for number in 0..count + ahead {
                        if number < count {
                            socket.put(body(number));
                        }
                        if let Some(number) = number.checked_sub(ahead) {
                            assert!(socket.take() == body(number), "{round}: {number}");
                        }
                    }
                });
            }
        });
        switched(&one);
        switched(&other);
    }
}

/// A sender that finds no room while the two directions switch is woken when there is room.
#[test]
fn a_connection_that_switches_under_load_never_stands_still() {
    let ctx = Context::new();
    let body = filler::body(1, 1_000);
    for round in 0..600 {
        let (push, pull) = (ctx.socket(PUSH).hwm(0), ctx.socket(PULL).hwm(0));
        push.connect(&Transport::Ipc.bind(&pull)).expect("connect");
        std::thread::scope(|scope| {
            scope.spawn(|| (0..3_000).for_each(|_| push.put(&body)));
            (0..3_000).for_each(|number| assert!(pull.take() == body, "{round}: {number}"));
        });
    }
}

/// A side writes to memory as soon as it has announced it; the peer rings no doorbell before it has announced the
/// same.
#[test]
fn a_sender_that_is_not_rung_yet_finds_room_by_itself() {
    let ctx = Context::new();
    let push = ctx.socket(PUSH).hwm(1000);
    let (mut peer, memory, theirs) = accepting(&push, "PULL");
    let before = theirs.get(SENT);
    let (message, count) = (filler::body(1, 100_000), 30);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..count).for_each(|_| push.put(&message)));
        let all = (count * wire::message(&[&message]).len()) as u32;
        until("all is sent", || {
            let sent = theirs.get(SENT);
            memory.set(TAKEN, sent.into());
            sent - before >= all
        });
    });
    peer.send(&step("g"));
    switched(&push);
}

#[test]
fn bytes_in_the_ring_are_the_stream() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let (mut peer, memory) = sharing(&pull, "PUSH");
    let bytes = [wire::message(&[b"one"]), wire::message(&[b"two", b"parts"])].concat();
    memory.write(&bytes);
    memory.set(SENT, bytes.len() as u64);
    peer.send(b"!");
    pull.expect(&["one"]);
    pull.expect(&["two", "parts"]);
}

#[test]
fn who_lies_about_positions_loses_the_connection_alone() {
    let ctx = Context::new();
    for (sent, then) in [(RING as u64 + 1, None), (u64::MAX, None), (5, Some(4)), (5, Some(0))] {
        let pull = ctx.socket(PULL);
        let (mut peer, memory) = sharing(&pull, "PUSH");
        memory.write(&wire::message(&[b"one"]));
        memory.set(SENT, sent);
        peer.send(b"!");
        if let Some(then) = then {
            pull.expect(&["one"]);
            memory.set(SENT, then);
            let _ = peer.try_send(b"!"); // The library may have checked by itself, and hung up.
        }
        peer.expect_end();
    }
    // And a peer that lies about what it has taken: more than was sent, or less than before.
    for taken in [[5, 4], [5, u64::MAX], [1 << 40, 0]] {
        let push = ctx.socket(PUSH).with(LINGER, 0);
        let (mut peer, memory) = sharing(&push, "PULL");
        push.put("one");
        memory.set(TAKEN, taken[0]);
        push.put(filler::body(1, 3 << 20));
        memory.set(TAKEN, taken[1]);
        // The library may have noticed already, and hung up.
        let _ = push.send(filler::body(1, 3 << 20), DONTWAIT);
        let _ = peer.try_send(b"!");
        peer.expect_end();
    }
    let (one, other) = pair(&ctx, 1, 1);
    one.put("all is well");
    other.expect(&["all is well"]);
}

#[test]
fn a_body_in_the_arena_is_the_messages_and_is_repaid_when_it_was_received() {
    let ctx = Context::new();
    for kind in [(PULL, "PUSH"), (SUB, "PUB"), (ROUTER, "DEALER")] {
        let socket = ctx.socket(kind.0);
        let (mut peer, memory) = sharing(&socket, kind.1);
        if kind.0 == SUB {
            socket.set_bytes(SUBSCRIBE, b"").expect("the option");
        }
        let (one, two) = (filler::body(1, 5000), filler::body(2, 100));
        memory.write_arena(64, &one);
        memory.write_arena(ARENA - 100, &two);
        let bytes =
            [loan(1, 64, 5000), loan(0, ARENA as u64 - 100, 100), wire::message(&[b"small"])].concat();
        memory.write(&bytes);
        memory.set(SENT, bytes.len() as u64);
        peer.send(b"!");
        let mut parts = socket.rx();
        if kind.0 == ROUTER {
            parts.remove(0);
        }
        assert_eq!(parts, [one.clone(), two]);
        assert_eq!(socket.rx().pop().expect("a frame"), b"small");
    }
    // Later writes by the peer do not change a received message.
    let pull = ctx.socket(PULL);
    let (mut peer, memory) = sharing(&pull, "PUSH");
    memory.write_arena(0, &[1; 8192]);
    memory.write(&[loan(0, 0, 4096), loan(0, 4096, 4096)].concat());
    memory.set(SENT, 34);
    peer.send(b"!");
    let mut message = Message::new();
    assert_eq!(message.recv(&pull, 0), Ok(4096));
    memory.write_arena(0, &[2; 8192]);
    assert_eq!(message.bytes(), [1; 4096]);
    assert_eq!(pull.take(), [2; 4096], "nobody had received it");
}

#[test]
fn a_borrowed_body_lies_in_the_peers_memory() {
    let ctx = Context::new();
    for kind in [(PULL, "PUSH"), (SUB, "PUB"), (ROUTER, "DEALER"), (PAIR, "PAIR"), (REP, "REQ")] {
        let socket = ctx.socket(kind.0).with(BORROW, 1);
        let (mut peer, memory) = sharing(&socket, kind.1);
        if kind.0 == SUB {
            socket.set_bytes(SUBSCRIBE, b"").expect("the option");
        }
        memory.write_arena(0, &[1; 8192]);
        let envelope = if kind.0 == REP { vec![1, 0] } else { Vec::new() };
        let bytes = [envelope.clone(), loan(0, 0, 4096), envelope, loan(0, 4096, 4096)].concat();
        memory.write(&bytes);
        memory.set(SENT, bytes.len() as u64);
        peer.send(b"!");
        let mut message = Message::new();
        while message.recv(&socket, 0).expect("a frame") != 4096 {}
        let mut copy = Message::new();
        copy.copy_from(&mut message).expect("a copy");
        memory.write_arena(0, &[2; 4096]);
        assert_eq!(message.bytes(), [2; 4096], "{kind:?}: as it lies there");
        assert_eq!(copy.bytes(), message.bytes());
        if kind.0 == REP {
            socket.put("answered");
        }
        let last = socket.rx().pop().expect("a frame");
        memory.write_arena(4096, &[2; 4096]);
        assert_eq!(last, [1; 4096], "{kind:?}: zmq_recv has copied it");
    }
}

#[test]
fn a_borrowed_body_outlives_its_peer_and_its_socket() {
    let ctx = Context::new();
    let (push, pull) = (ctx.socket(PUSH), ctx.socket(PULL).with(BORROW, 1));
    Transport::Ipc.join(&pull, &push);
    for number in 0..3 {
        push.put(filler::body(number, 100_000));
    }
    let mut kept: Vec<Message> = (0..3).map(|_| Message::new()).collect();
    for message in &mut kept {
        message.recv(&pull, 0).expect("a message");
    }
    push.close().expect("closed");
    until("the peer is gone", || pull.peers().is_empty());
    pull.close().expect("closed");
    ctx.term().expect("ended");
    for (number, message) in kept.iter_mut().enumerate() {
        assert_eq!(message.bytes(), filler::body(number as u64, 100_000));
    }
}

/// The borrowed body was lent first, so that it soon blocks the sender's whole arena.
#[test]
fn what_is_borrowed_for_long_holds_up_nobody() {
    let ctx = Context::new();
    let (push, pull) = (ctx.socket(PUSH), ctx.socket(PULL).with(BORROW, 1));
    Transport::Ipc.join(&pull, &push);
    push.put(filler::body(0, 1 << 20));
    let (mut kept, mut message) = (Message::new(), Message::new());
    kept.recv(&pull, 0).expect("a message");
    for number in 1..40 {
        push.put(filler::body(number, 1 << 20));
        message.recv(&pull, 0).expect("a message");
        assert!(message.bytes() == filler::body(number, 1 << 20), "{number}");
    }
    // Nor does each of many messages wait: the wait would be two milliseconds.
    let began = std::time::Instant::now();
    for number in 0..3_000 {
        push.put(filler::numbered(number, 16 << 10));
        message.recv(&pull, 0).expect("a message");
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(kept.bytes() == filler::body(0, 1 << 20));
}

#[test]
fn what_is_borrowed_can_be_sent_on() {
    for transport in [Transport::Inproc, Transport::Tcp, Transport::Ipc] {
        let ctx = Context::new();
        let (push, pull) = (ctx.socket(PUSH), ctx.socket(PULL).with(BORROW, 1));
        Transport::Ipc.join(&pull, &push);
        let (on, last) = (ctx.socket(PUSH), ctx.socket(PULL));
        transport.join(&last, &on);
        let mut message = Message::new();
        for number in 0..30 {
            push.put(filler::body(number, 500_000));
            message.recv(&pull, 0).expect("a message");
            message.send(&on, 0).expect("sent on");
            assert!(last.take() == filler::body(number, 500_000), "{transport:?} {number}");
        }
    }
}

#[test]
fn who_lends_what_cannot_be_loses_the_connection_alone() {
    let ctx = Context::new();
    let (arena, past) = (ARENA as u64, [loan(0, 4096, 4096), loan(0, 4095, 4096)].concat());
    let lies = [(0, 0), (0, arena + 1), (1, arena), (arena - 1, 2), (u64::MAX, 1), (u64::MAX - 4095, 4096)];
    let lies = lies.map(|(position, len)| loan(0, position, len)).into_iter().chain([past, loan(4, 0, 1)]);
    for lie in lies {
        let pull = ctx.socket(PULL).hwm(10);
        let (mut peer, memory) = sharing(&pull, "PUSH");
        memory.write(&lie);
        memory.set(SENT, lie.len() as u64);
        peer.send(b"!");
        peer.expect_end();
    }
}

#[test]
fn who_says_it_is_done_with_what_it_never_had_harms_nobody() {
    let ctx = Context::new();
    for repaid in [5, ARENA as u64, u64::MAX] {
        let push = ctx.socket(PUSH).with(LINGER, 0).hwm(1000);
        let (mut peer, memory) = sharing(&push, "PULL");
        for number in 0..100 {
            memory.set(REPAID, repaid);
            push.put(filler::body(number, 20_000));
            peer.send(b"!");
        }
        drop(peer);
        until("it is gone", || push.peers().is_empty());
        let pull = ctx.socket(PULL);
        pull.connect(&push.endpoint()).expect("an address");
        push.put(filler::body(100, 20_000));
        assert_eq!(pull.take(), filler::body(100, 20_000));
    }
}

#[test]
fn large_messages_that_nobody_receives_stop_at_the_mark_and_arrive_whole() {
    let ctx = Context::new();
    let (push, pull) = (ctx.socket(PUSH).hwm(300), ctx.socket(PULL).hwm(300));
    Transport::Ipc.join(&pull, &push);
    let mut sent = 0;
    until("both marks are reached", || {
        sent += u64::from(push.send(filler::body(sent, 50_000), DONTWAIT).is_ok());
        sent == 600
    });
    let mut room = vec![0; 50_000];
    for number in 0..sent {
        assert_eq!(pull.recv_into(&mut room, 0), Ok(50_000));
        assert_eq!(room, filler::body(number, 50_000), "{number}");
    }
}

#[test]
fn what_was_sent_before_the_peer_went_arrives() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL).hwm(1);
    let (peer, memory) = sharing(&pull, "PUSH");
    let bytes = (0..1000).flat_map(|number: u32| wire::message(&[&number.to_be_bytes()])).collect::<Vec<_>>();
    memory.write(&bytes);
    memory.set(SENT, bytes.len() as u64);
    drop(peer);
    for number in 0..1000_u32 {
        assert_eq!(pull.take(), number.to_be_bytes());
    }
    until("the connection has ended", || pull.peers().is_empty());
}
