//! Contexts: the number of sockets, which call ends what, several contexts side by side.

use support::api::*;
use support::*;

#[test]
fn sockets_are_limited() {
    let ctx = Context::new();
    ctx.set(MAX_SOCKETS, 5).expect("MAX_SOCKETS");
    let mut sockets: Vec<Socket> = (0..5).map(|_| ctx.socket(PUSH)).collect();
    assert_eq!(ctx.try_socket(PUSH).err(), Some(Errno(libc::EMFILE)));
    sockets.pop();
    until("a closed socket makes room", || match ctx.try_socket(PUSH) {
        Ok(socket) => {
            sockets.push(socket);
            true
        }
        Err(error) => {
            assert_eq!(error, Errno(libc::EMFILE));
            false
        }
    });
}

#[test]
fn unknown_types_are_refused() {
    let ctx = Context::new();
    for kind in [-1, 1_000, i32::MAX, i32::MIN] {
        assert_eq!(ctx.try_socket(kind).err(), Some(Errno(libc::EINVAL)), "type {kind}");
    }
}

/// inproc endpoints belong to one context.
#[test]
fn contexts_do_not_meet_over_inproc() {
    let (one, two) = (Context::new(), Context::new());
    let (a, b) = (one.socket(PULL), two.socket(PULL));
    a.bind("inproc://name").expect("bind");
    b.bind("inproc://name").expect("the same name in another context");
    let push = two.socket(PUSH);
    push.connect("inproc://name").expect("connect");
    push.put("for b");
    assert_eq!(b.take_text(), "for b");
    assert_eq!(a.recv(DONTWAIT), Err(Errno(libc::EAGAIN)));
}

#[test]
fn contexts_come_and_go() {
    within(60, || {
        for turn in 0..50 {
            let ctx = Context::new();
            let transport = Transport::ALL[turn % Transport::ALL.len()];
            let (rep, req) = transport.pair(&ctx, REP, REQ);
            req.put("x");
            assert_eq!(rep.take_text(), "x");
            rep.put("y");
            assert_eq!(req.take_text(), "y");
            drop((rep, req));
            ctx.term().expect("term");
        }
    });
}

/// An unused context terminates at once; so does one without I/O threads, which inproc does not need.
#[test]
fn contexts_may_stay_small() {
    Context::new().term().expect("term");
    let ctx = Context::new();
    ctx.set(IO_THREADS, 0).expect("IO_THREADS");
    let (pull, push) = Transport::Inproc.pair(&ctx, PULL, PUSH);
    push.put("x");
    assert_eq!(pull.take_text(), "x");
}

#[test]
fn several_io_threads_serve() {
    within(60, || {
        let ctx = Context::new();
        ctx.set(IO_THREADS, 4).expect("IO_THREADS");
        let pull = ctx.socket(PULL);
        let endpoint = Transport::Tcp.bind(&pull);
        let pushes: Vec<Socket> = (0..16).map(|_| ctx.socket(PUSH)).collect();
        for push in &pushes {
            push.connect(&endpoint).expect("connect");
            (0..50).for_each(|_| push.put("x"));
        }
        (0..16 * 50).for_each(|_| assert_eq!(pull.take_text(), "x"));
    });
}

/// The older names of the same functions.
#[test]
fn older_names_do_the_same() {
    // SAFETY: handles from the calls above.
    unsafe {
        let ctx = zmq_init(2);
        assert!(!ctx.is_null());
        assert_eq!(zmq_ctx_get(ctx, IO_THREADS), 2);
        assert_eq!(zmq_term(ctx), 0);
        let ctx = zmq_init(1);
        assert_eq!(zmq_ctx_destroy(ctx), 0);
    }
}

/// Null handles bring an errno each.
#[test]
fn null_is_no_handle() {
    let null = std::ptr::null_mut();
    let mut size = 4;
    let mut value = [0u8; 8];
    // SAFETY: null is under test.
    unsafe {
        let fault = |rc: i32| assert_eq!((rc, errno::last()), (-1, Errno(libc::EFAULT)));
        fault(zmq_ctx_term(null));
        fault(zmq_ctx_shutdown(null));
        fault(zmq_ctx_set(null, IO_THREADS, 1));
        fault(zmq_ctx_get(null, IO_THREADS));
        assert!(zmq_socket(null, PULL).is_null());
        assert_eq!(errno::last(), Errno(libc::EFAULT));
        let not_a_socket = |rc: i32| assert_eq!((rc, errno::last()), (-1, Errno(libc::ENOTSOCK)));
        not_a_socket(zmq_close(null));
        not_a_socket(zmq_bind(null, c"inproc://x".as_ptr()));
        not_a_socket(zmq_connect(null, c"inproc://x".as_ptr()));
        not_a_socket(zmq_unbind(null, c"inproc://x".as_ptr()));
        not_a_socket(zmq_disconnect(null, c"inproc://x".as_ptr()));
        not_a_socket(zmq_send(null, value.as_ptr().cast(), 1, 0));
        not_a_socket(zmq_recv(null, value.as_mut_ptr().cast(), 1, 0));
        not_a_socket(zmq_setsockopt(null, LINGER, value.as_ptr().cast(), 4));
        not_a_socket(zmq_getsockopt(null, LINGER, value.as_mut_ptr().cast(), &mut size));
        not_a_socket(zmq_socket_monitor(null, c"inproc://x".as_ptr(), EVENT_ALL));
    }
}

#[test]
fn errors_have_texts() {
    let text = |number: i32| {
        // SAFETY: the library returns a static C string.
        unsafe { std::ffi::CStr::from_ptr(zmq_strerror(number)) }.to_string_lossy().into_owned()
    };
    assert_eq!(text(libc::EINVAL), "Invalid argument");
    let own: Vec<String> = [EFSM, ENOCOMPATPROTO, ETERM, EMTHREAD].iter().map(|n| text(*n)).collect();
    for (i, one) in own.iter().enumerate() {
        assert!(!one.is_empty() && !one.contains("Unknown"), "{one}");
        assert!(own[i + 1..].iter().all(|other| other != one), "texts differ");
    }
}
