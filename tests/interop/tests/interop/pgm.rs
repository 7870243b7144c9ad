//! pgm:// and epgm://, in a library built with them (`make pgm`): with the system's libzmq on either side, with
//! hand-made packets, and with captured packets. All over the loopback interface, given by its address: it need not
//! have the multicast flag.

use std::time::{Duration, Instant};

use support::child::{self, Child};
use support::filler::body;
use support::pgm::{Wire, endpoint};
use support::pinnace::{LIMIT, MALFORMED, UNWANTED};
use support::poll::ready;
use support::*;

support::roles!(publisher, subscriber, frugal, without_descriptors);

/// Index of `dropped`: messages cut by a gap.
const CUT: usize = 3;
/// ZMQ_RATE high enough not to matter: 100 Mbit/s.
const FAST: i32 = 100_000;
const MESSAGES: usize = 60;
/// Messages sent before a subscriber must have received them: the kernel buffers this many for a receiver. If several
/// sockets of a host share a UDP port, only one receives the repair requests, so no packet may be lost.
const BATCH: usize = 6;

fn limited(test: impl FnOnce() + Send + 'static) {
    within(deadline::test_limit_s(), test);
}

/// Messages that fill a packet, share one, or need many.
fn message(n: usize) -> Vec<Vec<u8>> {
    let sizes = [0, 1, 33, 254, 255, 1_000, 1_452, 8_192, 20_000, 5, 3_000, 12];
    let part = |i: usize| body(n as u64, sizes[(n + i) % sizes.len()]);
    [vec![b'm'], n.to_string().into_bytes()].into_iter().chain((0..n % 3).map(part)).collect()
}

fn open(ctx: &Context, kind: i32, endpoint: &str) -> Socket {
    let socket = ctx.socket(kind).with(RATE, FAST);
    if kind == SUB {
        socket.set_bytes(SUBSCRIBE, b"m").expect("SUBSCRIBE");
    }
    socket.connect(endpoint).unwrap_or_else(|e| panic!("{endpoint}: {e:?}"));
    socket
}

fn expect_message(socket: &Socket, n: usize) {
    let got = socket.rx();
    assert!(got == message(n), "message {n} came as {:?}", got.get(..2));
}

/// The child: publishes a batch at each request.
fn publisher(args: &[String]) {
    let ctx = Context::new();
    let socket = open(&ctx, args[0].parse().expect("a type"), &args[1]);
    for n in 0..MESSAGES {
        if n % BATCH == 0 {
            child::hear();
        }
        socket.tx(&message(n));
        socket.tx(&["nobody asked", "for this"]);
    }
    child::hear();
}

/// The child: subscribes, reports the first message and each complete batch.
fn subscriber(args: &[String]) {
    let ctx = Context::new();
    let socket = open(&ctx, args[0].parse().expect("a type"), &args[1]);
    assert_eq!(socket.rx(), [b"mword"]);
    child::say("joined");
    let first = deadline::until_some("a message", || Some(socket.rx()).filter(|parts| parts[0] != b"mword"));
    assert!(first == message(0), "{:?}", first.first());
    for n in 1..MESSAGES {
        expect_message(&socket, n);
        if (n + 1) % BATCH == 0 {
            child::say("more");
        }
    }
}

fn subscribe_to_libzmq(kind: i32, other: i32, at: &str) {
    let ctx = Context::new();
    let socket = open(&ctx, kind, at);
    let mut child = Child::with_system("publisher", &[&other.to_string(), at]);
    for n in 0..MESSAGES {
        if n % BATCH == 0 {
            child.tell("more");
        }
        expect_message(&socket, n);
        if kind == XSUB {
            socket.expect(&["nobody asked", "for this"]);
        }
    }
    if kind == SUB {
        socket.expect_nothing();
        assert_eq!(socket.stats().dropped[UNWANTED], MESSAGES as u64, "what nobody asked for is counted");
    }
    child.tell("enough");
    child.succeeds();
}

fn publish_to_libzmq(kind: i32, other: i32, at: &str) {
    let ctx = Context::new();
    let socket = open(&ctx, kind, at);
    let mut child = Child::with_system("subscriber", &[&other.to_string(), at]);
    until("the subscriber hears", || {
        socket.put("mword");
        deadline::pass(Duration::from_millis(2));
        child.has_line()
    });
    assert_eq!(child.line(), "joined");
    for n in 0..MESSAGES {
        socket.tx(&message(n));
        if (n + 1) % BATCH == 0 {
            assert_eq!(child.line(), "more");
        }
    }
    child.succeeds();
}

#[test]
fn libzmq_publishes() {
    limited(|| {
        subscribe_to_libzmq(SUB, PUB, &endpoint(0).1);
        subscribe_to_libzmq(XSUB, XPUB, &endpoint(1).1);
    });
}

#[test]
fn libzmq_subscribes() {
    limited(|| {
        publish_to_libzmq(PUB, SUB, &endpoint(2).1);
        publish_to_libzmq(XPUB, SUB, &endpoint(3).1);
    });
}

/// Directly over IP, if permitted; otherwise the call fails with an error (libzmq aborts).
#[test]
fn over_ip_without_udp() {
    limited(|| {
        let at = |n| endpoint(n).1.replace("epgm", "pgm");
        match Context::new().socket(PUB).connect(&at(4)) {
            Err(Errno(libc::EPERM)) => return,
            outcome => outcome.expect("connect"),
        }
        subscribe_to_libzmq(SUB, PUB, &at(4));
        publish_to_libzmq(PUB, SUB, &at(5));
    });
}

/// Bind and connect do the same; each subscriber receives its own topics, and the parts of two publishers never mix.
#[test]
fn publishers_and_subscribers_of_ours() {
    limited(|| {
        let (ctx, (_, at)) = (Context::new(), endpoint(6));
        let subscriber = |topic: &[u8]| {
            let socket = ctx.socket(SUB).hwm(0).with(RATE, FAST);
            socket.set_bytes(SUBSCRIBE, topic).expect("SUBSCRIBE");
            socket.bind(&at).expect("bind");
            assert_eq!(socket.endpoint(), at);
            socket
        };
        let (one, other) = (subscriber(b"A"), subscriber(b"B"));
        let publishers: Vec<Socket> = [b"A", b"B"]
            .map(|_| ctx.socket(PUB).hwm(0).with(RATE, FAST))
            .into_iter()
            .inspect(|socket| socket.bind(&at).expect("bind"))
            .collect();
        for n in 0..120_usize {
            let (topic, socket) = if n % 2 == 0 { ("A", &one) } else { ("B", &other) };
            let parts = |who: u8| [topic.into(), vec![who], body(who.into(), n * 37), body(n as u64, 500)];
            (0_u8..).zip(&publishers).for_each(|(who, publisher)| publisher.tx(&parts(who)));
            let mut got = [socket.rx(), socket.rx()];
            got.sort_by_key(|parts| parts[1].clone());
            assert!(got == [parts(0), parts(1)], "number {n}");
        }
        one.expect_nothing();
        other.expect_nothing();
        for socket in publishers {
            socket.unbind(&at).expect("unbind");
            assert_eq!(socket.unbind(&at), Err(Errno(libc::ENOENT)));
        }
    });
}

#[test]
fn it_has_pgm_for_publishers_and_subscribers() {
    // SAFETY: a C string.
    assert_eq!(unsafe { api::zmq_has(c"pgm".as_ptr()) }, 1);
    let (ctx, (port, at)) = (Context::new(), endpoint(7));
    for kind in [PAIR, REQ, REP, DEALER, ROUTER, PULL, PUSH, STREAM, RADIO, DISH, DGRAM, CLIENT, SERVER] {
        let socket = ctx.socket(kind);
        for at in [&at, &at.replace("epgm", "pgm")] {
            assert_eq!(socket.connect(at), Err(Errno(ENOCOMPATPROTO)), "type {kind}");
            assert_eq!(socket.bind(at), Err(Errno(ENOCOMPATPROTO)), "type {kind}");
        }
    }
    let wrong = [
        "epgm://".to_owned(),
        "epgm://127.0.0.1;239.192.71.1".to_owned(),
        "epgm://127.0.0.1;239.192.71.1:".to_owned(),
        "epgm://127.0.0.1;239.192.71.1:0".to_owned(),
        "epgm://127.0.0.1;239.192.71.1:*".to_owned(),
        "epgm://127.0.0.1;239.192.71.1:65536".to_owned(),
        "epgm://127.0.0.1;239.192.71.1:12x".to_owned(),
        format!("epgm://:{port}"),
        format!("epgm://127.0.0.1:{port}"),
        format!("epgm://;239.192.71.1:{port}"),
        format!("epgm://239.192;;,239.192.1.1/4-1:{port}"), // OpenPGM's parser ends the process on this one.
        format!("epgm://127.0.0.1;10.1.1.1:{port}"),
        format!("epgm://127.0.0.1;;;;;:{port}"),
        format!("epgm://no-such-interface;239.192.71.1:{port}"),
        format!("epgm://127.0.0.1;{}:{port}", "239.192.71.1,".repeat(30)),
    ];
    for kind in [PUB, SUB, XPUB, XSUB] {
        let socket = ctx.socket(kind);
        for text in &wrong {
            assert_eq!(socket.connect(text), Err(Errno(libc::EINVAL)), "{text}");
            assert_eq!(socket.bind(text), Err(Errno(libc::EINVAL)), "{text}");
        }
        for (option, value) in [(MULTICAST_MAXTPDU, 20), (MULTICAST_MAXTPDU, 65_536), (MULTICAST_HOPS, 256)] {
            let refused = ctx.socket(kind).with(option, value).connect(&at);
            assert_eq!(refused, Err(Errno(libc::EINVAL)), "option {option} as {value}");
        }
        socket.connect(&at).expect("after all that");
    }
    // Less than one packet per second; libzmq aborts.
    assert_eq!(ctx.socket(PUB).with(RATE, 11).connect(&at), Err(Errno(libc::EINVAL)));
}

/// ZMQ_MULTICAST_MAXTPDU, ZMQ_RATE and ZMQ_LINGER, and the wire format: two bytes give the offset of the first
/// message, and ZMTP 1.0 frames follow.
#[test]
fn packets_are_of_the_size_and_the_rate() {
    limited(|| {
        let (ctx, (port, at)) = (Context::new(), endpoint(8));
        let wire = Wire::new(port);
        // ZMQ_RATE 80: 10,000 bytes a second.
        let socket = ctx.socket(PUB).with(RATE, 80).with(MULTICAST_MAXTPDU, 600).with(LINGER, -1);
        socket.connect(&at).expect("connect");
        let (began, long) = (Instant::now(), body(1, 20_000));
        socket.tx(&[&b"first"[..], &long]);
        socket.put("last");
        socket.close().expect("close"); // Accepted messages are still sent.
        let expected =
            [&b"\x06\x01first\xff"[..], &20_001_u64.to_be_bytes(), b"\0", &long, b"\x05\0last"].concat();
        let (mut sent, mut number) = (Vec::new(), None);
        while sent.len() < expected.len() {
            let packet = wire.overhear();
            assert!(packet.size <= 600, "{packet:?}");
            assert!(number.is_none_or(|last: u32| packet.number == last.wrapping_add(1)), "in order");
            number = Some(packet.number);
            let begins = [0, expected.len() - 6]
                .into_iter()
                .find(|at| (sent.len()..sent.len() + packet.data.len() - 2).contains(at));
            let offset = begins.map_or(0xffff, |at| (at - sent.len()) as u16);
            assert_eq!(packet.data[..2], offset.to_be_bytes(), "after {} bytes", sent.len());
            sent.extend_from_slice(&packet.data[2..]);
        }
        assert!(sent == expected);
        // One second's worth is sent at once.
        assert!(began.elapsed() > Duration::from_millis(700), "{:?}", began.elapsed());
    });
}

/// Arbitrary packets do no harm, and affect only their own sender.
#[test]
fn garbage_is_counted() {
    limited(|| {
        let (ctx, (port, at)) = (Context::new(), endpoint(9));
        let socket = ctx.socket(SUB);
        socket.set_bytes(MAXMSGSIZE, &100_i64.to_ne_bytes()).expect("MAXMSGSIZE");
        socket.set_bytes(SUBSCRIBE, b"").expect("SUBSCRIBE");
        socket.connect(&at).expect("connect");
        let wire = Wire::new(port);
        for noise in [&b""[..], b"x", b"no packet of anybody's", &[0; 24], &[0xff; 1_400]] {
            wire.send(noise);
        }
        let good = b"\0\0\x05\0good";
        wire.send_data(1, 100, b"\xff\xffthe middle of something");
        let malformed: [&[u8]; 4] = [b"\0", b"\x01\0short", b"\xff\xfe\0", b"\0\0\0\0no room for flags"];
        for (number, apdu) in (101..).zip(malformed) {
            wire.send_data(1, number, apdu);
        }
        wire.send_data(2, 7, b"\0\0\x06\x01front"); // Another sender; its message continues below.
        wire.send_data(1, 105, good);
        socket.expect(&["good"]);
        wire.send_data(1, 106, b"\0\0\xc8\0over MAXMSGSIZE");
        wire.send_data(1, 107, b"\xff\xffits rest");
        wire.send_data(1, 108, b"\0\x04rest\x05\0good");
        socket.expect(&["good"]);
        wire.send_data(2, 8, b"\0\x05\x05\0rear\x05\0good");
        socket.expect(&["front", "rear"]);
        socket.expect(&["good"]);
        let dropped = socket.stats().dropped;
        assert_eq!((dropped[MALFORMED], dropped[LIMIT], dropped[CUT]), (4, 1, 0), "{dropped:?}");
    });
}

/// An unrecoverable gap costs the message that it cuts, which is counted; the next whole message arrives.
#[test]
fn a_gap_costs_what_it_cuts() {
    limited(|| {
        let (ctx, (port, at)) = (Context::new(), endpoint(10));
        // A window of one packet: a packet missing when the next one arrives cannot be repaired.
        let socket = ctx.socket(XSUB).with(RECOVERY_IVL, 0);
        socket.connect(&at).expect("connect");
        let wire = Wire::new(port);
        wire.send_data(1, 1, b"\0\0\x06\0first\x14\0the beginning");
        socket.expect(&["first"]);
        for (number, word) in (20..).step_by(10).zip(["one", "two", "three", "four"]) {
            let apdu = [&[0, 3][..], b"end", &[word.len() as u8 + 1, 0], word.as_bytes()].concat();
            wire.send_data(1, number, &apdu);
            socket.expect(&[word]);
        }
        let dropped = socket.stats().dropped;
        assert_eq!((dropped[CUT], dropped[MALFORMED]), (4, 0), "{dropped:?}");
        socket.put("what a subscriber says goes nowhere");
        until("it is counted", || socket.stats().dropped[UNWANTED] == 1);
    });
}

/// The number of known senders is bounded.
#[test]
fn senders_are_bounded() {
    limited(|| {
        let (ctx, (port, at)) = (Context::new(), endpoint(11));
        let socket = ctx.socket(XSUB);
        socket.connect(&at).expect("connect");
        let wire = Wire::new(port);
        for sender in 0..1_100_u32 {
            wire.send_data(sender, 1, b"\0\0\x05\0word\x20\0and a beginning");
            socket.expect(&["word"]);
        }
        assert_eq!(socket.stats().dropped[LIMIT], 1_100 - 1_024);
    });
}

/// A full subscriber stops the flow at what it holds; when it receives again, it gets everything that a publisher
/// still has.
#[test]
fn a_full_subscriber_catches_up() {
    limited(|| {
        let (ctx, (_, at)) = (Context::new(), endpoint(12));
        let slow = ctx.socket(SUB).with(RCVHWM, 10).with(RATE, FAST);
        slow.set_bytes(SUBSCRIBE, b"").expect("SUBSCRIBE");
        slow.connect(&at).expect("connect");
        let socket = ctx.socket(PUB).hwm(0).with(RATE, FAST);
        socket.connect(&at).expect("connect");
        (0..2_000_u64).for_each(|n| socket.put(n.to_le_bytes().repeat(100)));
        ready(&slow, POLLIN, PATIENCE_MS.into());
        for n in 0..2_000_u64 {
            assert_eq!(slow.take()[..8], n.to_le_bytes(), "message {n}");
        }
    });
}

/// ZMQ_MULTICAST_HOPS, ZMQ_SNDBUF, ZMQ_RCVBUF, as read back from the kernel sockets.
#[test]
fn the_kernel_has_what_was_set() {
    let (ctx, (port, at)) = (Context::new(), endpoint(13));
    let socket = ctx.socket(PUB).with(MULTICAST_HOPS, 7).with(SNDBUF, 50_000).with(RCVBUF, 60_000);
    socket.connect(&at).expect("connect");
    let of = |level, option| -> Vec<i32> { kernel_options(level, option) };
    assert!(of(libc::IPPROTO_IP, libc::IP_MULTICAST_TTL).contains(&7), "port {port}");
    assert!(of(libc::SOL_SOCKET, libc::SO_SNDBUF).contains(&100_000)); // The kernel doubles the sizes (socket(7)).
    assert!(of(libc::SOL_SOCKET, libc::SO_RCVBUF).contains(&120_000));
}

/// The option's value for each descriptor of this process that is a socket.
fn kernel_options(level: i32, option: i32) -> Vec<i32> {
    let open = std::fs::read_dir("/proc/self/fd").expect("procfs").flatten();
    let numbers = open.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let ask = |fd| {
        let (mut value, mut size) = (0_i32, size_of::<i32>() as libc::socklen_t);
        // SAFETY: an int and its size.
        let rc = unsafe { libc::getsockopt(fd, level, option, (&raw mut value).cast(), &mut size) };
        (rc == 0).then_some(value)
    };
    numbers.filter_map(ask).collect()
}

/// Idle sockets cost nothing, a sender limited by its rate next to nothing, and closed sockets leave nothing behind.
#[test]
fn it_costs_little_and_leaves_nothing() {
    child::alone("frugal", &[&endpoint(14).1]);
}

fn frugal(args: &[String]) {
    let at = &args[0];
    let round = |rounds: usize| {
        for _ in 0..rounds {
            let ctx = Context::new();
            let (publisher, subscriber) = (open(&ctx, PUB, at), open(&ctx, SUB, at));
            publisher.put("mhello");
            subscriber.expect(&["mhello"]);
            drop((publisher, subscriber));
            ctx.term().expect("term");
        }
        (process::descriptors(process::own()), process::private_bytes(process::own()))
    };
    let (descriptors, bytes) = round(20);
    let (later, more) = round(100);
    assert_eq!(descriptors, later, "descriptors");
    assert!(more < bytes + (1 << 20), "{bytes} bytes, then {more}");

    let ctx = Context::new();
    let (idle, slow) = (open(&ctx, SUB, at), ctx.socket(PUB).with(RATE, 80).with(LINGER, 0));
    slow.connect(at).expect("connect");
    (0..100).for_each(|_| slow.put(body(1, 1_000)));
    let before = process::cpu_time(process::own());
    deadline::pass(Duration::from_secs(2));
    let used = process::cpu_time(process::own()) - before;
    assert!(used < Duration::from_millis(200), "{used:?}");
    drop((idle, slow));
}

/// With too few descriptors the call fails, other descriptors stay open, and it works once there are enough.
#[test]
fn it_does_without_descriptors() {
    child::alone("without_descriptors", &[&endpoint(15).1]);
}

fn without_descriptors(args: &[String]) {
    let ctx = Context::new();
    let kinds = [PUB, SUB];
    let mut refused = 0;
    for room in (0..24).chain(0..24) {
        let sockets = kinds.map(|kind| ctx.try_socket(kind));
        let open = process::descriptors(process::own()) as u64;
        process::limit_descriptors(open + room);
        for socket in sockets.iter().flatten() {
            refused += usize::from(socket.connect(&args[0]).is_err());
        }
        // SAFETY: checks that a descriptor is open.
        assert!((0..3).all(|fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0), "with room for {room}");
        process::limit_descriptors(1_000);
    }
    assert!(refused > 0);
    drop(open(&ctx, PUB, &args[0]));
    ctx.term().expect("term");
    // SAFETY: as above.
    assert!((0..3).all(|fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0), "in the end");
}
