//! Socket and context options: sizes, defaults, ranges, readable and read-only options.

use support::api::zmq_getsockopt;
use support::*;

const INVALID: Errno = Errno(libc::EINVAL);

/// (option, default, an accepted value, a refused value if there is one)
const INTS: &[(i32, i32, i32, Option<i32>)] = &[
    (RATE, 100, 200, Some(0)),
    (RECOVERY_IVL, 10_000, 5, Some(-1)),
    (SNDBUF, -1, 65_536, Some(-2)),
    (RCVBUF, -1, 65_536, Some(-2)),
    (LINGER, -1, 500, Some(-2)),
    (RECONNECT_IVL, 100, 250, Some(-2)),
    (RECONNECT_IVL_MAX, 0, 1_000, Some(-1)),
    (BACKLOG, 100, 7, Some(-1)),
    (SNDHWM, 1_000, 0, Some(-1)),
    (RCVHWM, 1_000, 1, Some(-1)),
    (MULTICAST_HOPS, 1, 3, Some(0)),
    (RCVTIMEO, -1, 0, Some(-2)),
    (SNDTIMEO, -1, 10, Some(-2)),
    (IPV6, 0, 1, Some(2)),
    (IMMEDIATE, 0, 1, Some(2)),
    (TCP_KEEPALIVE, -1, 1, Some(2)),
    (TCP_KEEPALIVE_CNT, -1, 5, Some(-2)),
    (TCP_KEEPALIVE_IDLE, -1, 5, Some(-2)),
    (TCP_KEEPALIVE_INTVL, -1, 5, Some(-2)),
    (TOS, 0, 8, Some(-1)),
    (HANDSHAKE_IVL, 30_000, 100, Some(-1)),
    (HEARTBEAT_IVL, 0, 100, Some(-1)),
    (HEARTBEAT_TIMEOUT, -1, 100, Some(-2)),
    (HEARTBEAT_TTL, 0, 2_000, Some(6_553_600)),
    (CONNECT_TIMEOUT, 0, 100, Some(-1)),
    (TCP_MAXRT, 0, 100, Some(-1)),
];

#[test]
fn ints_have_defaults_ranges_and_sizes() {
    let ctx = Context::new();
    for &(option, default, good, bad) in INTS {
        let socket = ctx.bare_socket(PUSH);
        assert_eq!(socket.get(option), Ok(default), "default of option {option}");
        assert_eq!(socket.set(option, good), Ok(()), "option {option} = {good}");
        assert_eq!(socket.get(option), Ok(good), "option {option} after it was set");
        if let Some(bad) = bad {
            assert_eq!(socket.set(option, bad), Err(INVALID), "option {option} = {bad}");
            assert_eq!(socket.get(option), Ok(good), "option {option} after a refusal");
        }
        for size in [0, 1, 2, 3, 5, 8] {
            assert_eq!(socket.set_bytes(option, &vec![0; size]), Err(INVALID), "{size} bytes for {option}");
        }
        for room in [0, 1, 3] {
            assert_eq!(socket.get_bytes(option, room), Err(INVALID), "{room} bytes of room for {option}");
        }
    }
}

#[test]
fn wide_options_have_eight_bytes() {
    let ctx = Context::new();
    let socket = ctx.bare_socket(PULL);
    assert_eq!(socket.get_bytes(MAXMSGSIZE, 8), Ok((-1i64).to_ne_bytes().to_vec()));
    assert_eq!(socket.set_bytes(MAXMSGSIZE, &(5i64 << 32).to_ne_bytes()), Ok(()));
    assert_eq!(socket.get_bytes(MAXMSGSIZE, 8), Ok((5i64 << 32).to_ne_bytes().to_vec()));
    assert_eq!(socket.set(MAXMSGSIZE, 5), Err(INVALID), "four bytes are too few");
    assert_eq!(socket.get_bytes(AFFINITY, 8), Ok(vec![0; 8]));
    assert_eq!(socket.set_bytes(AFFINITY, &1u64.to_ne_bytes()), Ok(()));
    assert_eq!(socket.get_bytes(AFFINITY, 8), Ok(1u64.to_ne_bytes().to_vec()));
}

/// Programs written for 2.x read numbers as 64 bits, and ids as C strings.
#[test]
fn the_rest_of_the_room_is_zeroed() {
    let ctx = Context::new();
    let (pull, push) = Transport::Inproc.pair(&ctx, PULL, PUSH);
    let read = |socket: &Socket, option| {
        let (mut value, mut size) = ([0xAA_u8; 300], 300);
        // SAFETY: a buffer of that size.
        let rc = unsafe { zmq_getsockopt(socket.raw(), option, value.as_mut_ptr().cast(), &mut size) };
        errno::check(rc).map(|_| (size, value))
    };
    let is_zero = |rest: &[u8]| rest.iter().all(|byte| *byte == 0);
    push.put("x");
    pull.take();
    for option in [RCVMORE, FD, EVENTS, THREAD_SAFE] {
        let (size, value) = read(&pull, option).expect("a number");
        assert!(size == 4 && is_zero(&value[4..]), "option {option}: {size} bytes");
    }
    assert!(is_zero(&read(&pull, RCVMORE).expect("a number").1), "no more");
    for (option, text, len) in [(ROUTING_ID, "an id", 5), (PLAIN_USERNAME, "a name", 7)] {
        push.set_bytes(option, text.as_bytes()).expect("an option");
        let (size, value) = read(&push, option).expect("a text");
        assert!(size == len && is_zero(&value[text.len()..]), "option {option}: {size} bytes");
    }
    // libzmq refuses a larger buffer here: the size must be exact.
    if let Ok((size, value)) = read(&pull, SNDHWM) {
        assert!(size == 4 && is_zero(&value[4..]), "{size} bytes");
    }
}

#[test]
fn routing_id_has_one_to_255_bytes() {
    let ctx = Context::new();
    let socket = ctx.socket(DEALER);
    assert_eq!(socket.get_bytes(ROUTING_ID, 255), Ok(vec![]));
    for id in [b"x".to_vec(), b"with\0zero".to_vec(), vec![7; 255]] {
        assert_eq!(socket.set_bytes(ROUTING_ID, &id), Ok(()));
        assert_eq!(socket.get_bytes(ROUTING_ID, 255), Ok(id.clone()));
        assert_eq!(socket.get_bytes(ROUTING_ID, id.len() - 1), Err(INVALID), "no room");
    }
    assert_eq!(socket.set_bytes(ROUTING_ID, b""), Err(INVALID));
    assert_eq!(socket.set_bytes(ROUTING_ID, &[7; 256]), Err(INVALID));
    assert_eq!(socket.get_bytes(ROUTING_ID, 255), Ok(vec![7; 255]), "as before the refusal");
}

#[test]
fn facts_can_be_read_only() {
    let ctx = Context::new();
    for kind in [PAIR, PUB, SUB, REQ, REP, DEALER, ROUTER, PULL, PUSH, XPUB, XSUB] {
        let socket = ctx.bare_socket(kind);
        assert_eq!(socket.get(TYPE), Ok(kind));
        assert_eq!(socket.get(RCVMORE), Ok(0));
        assert_eq!(socket.get(MECHANISM), Ok(0), "NULL");
        assert!(socket.get(FD).expect("FD") >= 0);
        let linger = if [SUB, XSUB].contains(&kind) { 0 } else { -1 };
        assert_eq!(socket.get(LINGER), Ok(linger), "linger of type {kind}");
        for option in [TYPE, RCVMORE, FD, EVENTS, LAST_ENDPOINT, MECHANISM, 9_999, -1, 0] {
            assert_eq!(socket.set(option, 1), Err(INVALID), "option {option} of type {kind}");
        }
        for option in [9_999, -1, 0] {
            assert_eq!(socket.get(option), Err(INVALID), "option {option} of type {kind}");
        }
    }
}

/// An option of one socket type is refused by the others.
#[test]
fn patterns_have_options_of_their_own() {
    let ctx = Context::new();
    // REP is not tested where ROUTER is an owner: in libzmq REP is a kind of ROUTER.
    let owners: &[(i32, &[i32])] = &[
        (ROUTER_MANDATORY, &[ROUTER, REP]),
        (ROUTER_HANDOVER, &[ROUTER, REP]),
        (PROBE_ROUTER, &[ROUTER, REP, DEALER, REQ]),
        (REQ_RELAXED, &[REQ]),
        (REQ_CORRELATE, &[REQ]),
        (XPUB_VERBOSE, &[XPUB, PUB]),
        (XPUB_NODROP, &[XPUB, PUB]),
    ];
    for (option, kinds) in owners {
        for kind in [PAIR, PUB, SUB, REQ, REP, DEALER, ROUTER, PULL, PUSH, XPUB, XSUB] {
            if kind == REP && kinds.contains(&REP) {
                continue;
            }
            let result = ctx.bare_socket(kind).set(*option, 1);
            let expected = if kinds.contains(&kind) { Ok(()) } else { Err(INVALID) };
            assert_eq!(result, expected, "option {option} of type {kind}");
        }
    }
    for kind in [PAIR, PUB, REQ, REP, DEALER, ROUTER, PULL, PUSH] {
        assert_eq!(ctx.bare_socket(kind).set_bytes(SUBSCRIBE, b"x"), Err(INVALID), "type {kind}");
    }
    assert_eq!(ctx.bare_socket(SUB).get_bytes(SUBSCRIBE, 10), Err(INVALID), "SUBSCRIBE cannot be read");
}

/// A socket's readiness in ZMQ_EVENTS.
#[test]
fn events_follow_the_queue() {
    let ctx = Context::new();
    let (pull, push) = Transport::Inproc.pair(&ctx, PULL, PUSH);
    assert_eq!((pull.events(), push.events()), (0, POLLOUT));
    push.put("x");
    assert_eq!(pull.events(), POLLIN);
    pull.take();
    assert_eq!(pull.events(), 0);
}

#[test]
fn context_options() {
    let ctx = Context::new();
    for (option, default) in [
        (IO_THREADS, 1),
        (MAX_SOCKETS, 1_023),
        (SOCKET_LIMIT, 65_535),
        (MAX_MSGSZ, i32::MAX),
        (MSG_T_SIZE, 64),
    ] {
        assert_eq!(ctx.get(option), Ok(default), "context option {option}");
    }
    assert_eq!((ctx.get(CTX_IPV6), ctx.get(BLOCKY)), (Ok(0), Ok(1)));
    for (option, value) in
        [(IO_THREADS, 2), (MAX_SOCKETS, 10), (MAX_MSGSZ, 1_000), (CTX_IPV6, 1), (BLOCKY, 0)]
    {
        assert_eq!(ctx.set(option, value), Ok(()));
        assert_eq!(ctx.get(option), Ok(value), "context option {option}");
    }
    for (option, value) in
        [(IO_THREADS, -1), (MAX_SOCKETS, 0), (MAX_SOCKETS, -5), (MAX_MSGSZ, -1), (MSG_T_SIZE, 32), (9_999, 1)]
    {
        assert_eq!(ctx.set(option, value), Err(INVALID), "context option {option} = {value}");
    }
    assert_eq!(ctx.get(9_999), Err(INVALID));
    let socket = ctx.bare_socket(PUSH);
    assert_eq!(socket.get(IPV6), Ok(1), "the context's IPV6 is the default of its sockets");
    assert_eq!(socket.get(LINGER), Ok(0), "without BLOCKY sockets do not linger");
}
