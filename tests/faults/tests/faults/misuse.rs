//! Misuse of the C API: every mistake returns an error and never ends the process.
//!
//! Each test runs in a process of its own. libzmq 4.3.4 fails the tests marked below: it reads the memory behind a
//! wrong handle or pointer.

use std::ffi::c_void;
use std::os::fd::IntoRawFd;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use support::api::*;
use support::child;
use support::filler::Chance;
use support::*;

support::roles!(
    closed_handles,
    false_handles,
    null_buffers,
    null_everything,
    dead_messages,
    all_options,
    terminated_contexts,
    close_races,
    stale_handles,
    calls_from_free,
    strange_endpoints,
    strange_polls,
    adopted_descriptors,
);

macro_rules! alone {
    ($($(#[$note:meta])* $test:ident: $role:ident;)*) => { $(
        $(#[$note])*
        #[test]
        fn $test() {
            child::alone(stringify!($role), &[]);
        }
    )* };
}

alone! {
    /// May crash with libzmq 4.3.4, which reads the freed socket.
    closed_handles_are_no_sockets: closed_handles;
    /// Crashes with libzmq 4.3.4.
    false_handles_are_no_sockets: false_handles;
    /// Crashes with libzmq 4.3.4.
    null_buffers_are_refused: null_buffers;
    /// Crashes with libzmq 4.3.4.
    null_is_refused_everywhere: null_everything;
    /// Fails with libzmq 4.3.4, which aborts on some.
    dead_messages_are_refused: dead_messages;
    every_option_takes_any_bytes: all_options;
    /// May crash with libzmq 4.3.4.
    terminated_contexts_are_refused: terminated_contexts;
    /// May crash with libzmq 4.3.4.
    one_close_wins: close_races;
    /// Fails with libzmq 4.3.4: a new socket may have the address of the old one.
    handles_are_not_used_again: stale_handles;
    /// May hang or crash with libzmq 4.3.4, which runs free functions on its I/O thread.
    free_functions_may_call_the_library: calls_from_free;
    endpoints_may_be_anything: strange_endpoints;
    /// May crash with libzmq 4.3.4.
    poll_items_may_be_anything: strange_polls;
    /// Fails with libzmq 4.3.4, which closes such a descriptor twice.
    a_descriptor_is_closed_once: adopted_descriptors;
}

/// Every call that takes a socket, with this handle: all must fail with ENOTSOCK.
unsafe fn assert_no_socket(handle: *mut c_void) {
    let (mut value, mut size) = ([0u8; 8], 4);
    let (mut message, endpoint) = (Message::of(b"x"), c"inproc://x".as_ptr());
    let is = |rc: i32, what: &str| assert_eq!((rc, errno::last()), (-1, Errno(libc::ENOTSOCK)), "{what}");
    // SAFETY: the handle is under test; all other arguments are valid.
    unsafe {
        is(zmq_send(handle, value.as_ptr().cast(), 1, DONTWAIT), "send");
        is(zmq_send_const(handle, value.as_ptr().cast(), 1, DONTWAIT), "send_const");
        is(zmq_recv(handle, value.as_mut_ptr().cast(), 8, DONTWAIT), "recv");
        is(zmq_msg_send(&mut message.raw, handle, DONTWAIT), "msg_send");
        is(zmq_msg_recv(&mut message.raw, handle, DONTWAIT), "msg_recv");
        is(zmq_bind(handle, endpoint), "bind");
        is(zmq_connect(handle, endpoint), "connect");
        is(zmq_unbind(handle, endpoint), "unbind");
        is(zmq_disconnect(handle, endpoint), "disconnect");
        is(zmq_setsockopt(handle, LINGER, value.as_ptr().cast(), 4), "setsockopt");
        is(zmq_getsockopt(handle, LINGER, value.as_mut_ptr().cast(), &mut size), "getsockopt");
        is(zmq_socket_monitor(handle, endpoint, EVENT_ALL), "monitor");
        let mut item = PollItem { socket: handle, fd: 0, events: 1, revents: 0 };
        is(zmq_poll(&mut item, 1, 0), "poll");
        is(zmq_close(handle), "close");
    }
}

fn closed_handles(_: &[String]) {
    let ctx = Context::new();
    for kind in PAIR..=XSUB {
        let socket = ctx.socket(kind);
        Transport::Tcp.bind(&socket);
        let handle = socket.raw();
        assert_eq!(socket.close(), Ok(()));
        // SAFETY: a handle that was closed, which the library has to notice.
        unsafe { assert_no_socket(handle) };
    }
}

fn false_handles(_: &[String]) {
    let ctx = Context::new();
    let socket = ctx.socket(PULL);
    let mut zeros = [0u64; 512];
    let mut ones = [u64::MAX; 512];
    let mut message = Message::of(b"no socket");
    // SAFETY: invalid handles, which the library must detect.
    unsafe {
        assert_no_socket(zeros.as_mut_ptr().cast());
        assert_no_socket(ones.as_mut_ptr().cast());
        assert_no_socket((&raw mut message.raw).cast());
        assert_no_socket(ctx.raw());
        for number in [1usize, 7, 4_096, 0xdead_beef, usize::MAX, usize::MAX - 7, 1 << 47] {
            assert_no_socket(number as *mut c_void);
        }
        for handle in [socket.raw(), zeros.as_mut_ptr().cast(), std::ptr::without_provenance_mut(9)] {
            assert!(zmq_socket(handle, PULL).is_null());
            assert_eq!(errno::last(), Errno(libc::EFAULT));
            assert_eq!((zmq_ctx_get(handle, IO_THREADS), errno::last()), (-1, Errno(libc::EFAULT)));
            assert_eq!((zmq_ctx_set(handle, IO_THREADS, 1), errno::last()), (-1, Errno(libc::EFAULT)));
            assert_eq!((zmq_ctx_shutdown(handle), errno::last()), (-1, Errno(libc::EFAULT)));
            assert_eq!((zmq_ctx_term(handle), errno::last()), (-1, Errno(libc::EFAULT)));
        }
    }
    Transport::Tcp.bind(&socket);
}

/// Asserts a failure with an errno that blames the caller.
fn refused(rc: i32, what: &str) {
    assert_eq!(rc, -1, "{what}");
    let error = errno::last();
    assert!(matches!(error.0, libc::EFAULT | libc::EINVAL), "{what}: {error:?}");
}

/// A null buffer with a non-zero size.
fn null_buffers(_: &[String]) {
    let ctx = Context::new();
    let (pull, push) = Transport::Inproc.pair(&ctx, PULL, PUSH);
    let mut size = 4;
    // SAFETY: null is under test.
    unsafe {
        refused(zmq_send(push.raw(), null(), 10, DONTWAIT), "send");
        refused(zmq_send_const(push.raw(), null(), 10, DONTWAIT), "send_const");
        assert_eq!(zmq_send(push.raw(), null(), 0, DONTWAIT), 0, "nothing may come from nowhere");
        assert_eq!(pull.take(), b"");
        push.put("stays");
        refused(zmq_recv(pull.raw(), null_mut(), 10, DONTWAIT), "recv");
        assert_eq!(pull.take_text(), "stays", "a refused receive takes no message");
        push.put("goes");
        assert_eq!(zmq_recv(pull.raw(), null_mut(), 0, 0), 4);
        refused(zmq_setsockopt(push.raw(), LINGER, null(), 4), "setsockopt");
        refused(zmq_setsockopt(push.raw(), ROUTING_ID, null(), 4), "setsockopt of bytes");
        refused(zmq_getsockopt(push.raw(), LINGER, null_mut(), &mut size), "getsockopt");
        let mut value = [0u8; 8];
        refused(zmq_getsockopt(push.raw(), LINGER, value.as_mut_ptr().cast(), null_mut()), "getsockopt");
        refused(zmq_bind(pull.raw(), null()), "bind");
        refused(zmq_connect(pull.raw(), null()), "connect");
        refused(zmq_unbind(pull.raw(), null()), "unbind");
        refused(zmq_disconnect(pull.raw(), null()), "disconnect");
        refused(zmq_msg_send(null_mut(), push.raw(), DONTWAIT), "msg_send");
        refused(zmq_msg_recv(null_mut(), pull.raw(), DONTWAIT), "msg_recv");
        refused(zmq_sendiov(push.raw(), null_mut(), 1, 0), "sendiov");
        refused(zmq_recviov(pull.raw(), null_mut(), null_mut(), 0), "recviov");
    }
    push.put("works");
    assert_eq!(pull.take_text(), "works");
}

/// Null for everything that is neither a socket nor a buffer.
fn null_everything(_: &[String]) {
    let mut message = Message::of(b"x");
    // SAFETY: null is under test.
    unsafe {
        refused(zmq_msg_init(null_mut()), "msg_init");
        refused(zmq_msg_init_size(null_mut(), 5), "msg_init_size");
        refused(zmq_msg_init_data(null_mut(), null_mut(), 5, None, null_mut()), "msg_init_data");
        refused(zmq_msg_close(null_mut()), "msg_close");
        refused(zmq_msg_copy(null_mut(), &mut message.raw), "msg_copy");
        refused(zmq_msg_copy(&mut message.raw, null_mut()), "msg_copy");
        refused(zmq_msg_move(null_mut(), &mut message.raw), "msg_move");
        refused(zmq_msg_move(&mut message.raw, null_mut()), "msg_move");
        refused(zmq_msg_get(null_mut(), MSG_MORE), "msg_get");
        refused(zmq_msg_set(null_mut(), MSG_MORE, 1), "msg_set");
        assert!(zmq_msg_data(null_mut()).is_null());
        assert_eq!(zmq_msg_size(null_mut()), 0);
        assert_ne!(zmq_msg_more(null_mut()), 1);
        assert!(zmq_msg_gets(null_mut(), c"X".as_ptr()).is_null());
        assert!(zmq_msg_gets(&mut message.raw, null()).is_null());
        assert_eq!(zmq_has(null()), 0);
        zmq_version(null_mut(), null_mut(), null_mut());
        refused(zmq_proxy_or_enotsock(), "proxy");
        assert!(zmq_z85_encode(null_mut(), null(), 4).is_null());
        assert!(zmq_z85_decode(null_mut(), null()).is_null());
        assert_eq!(zmq_curve_keypair(null_mut(), null_mut()), -1);
        assert_eq!(zmq_curve_public(null_mut(), null()), -1);
        refused(zmq_timers_destroy(null_mut()), "timers_destroy");
        refused(zmq_timers_execute(null_mut()), "timers_execute");
        refused(zmq_timers_cancel(null_mut(), 1), "timers_cancel");
        refused(zmq_timers_timeout(null_mut()) as i32, "timers_timeout");
        zmq_atomic_counter_set(null_mut(), 1);
        zmq_atomic_counter_inc(null_mut());
        zmq_atomic_counter_dec(null_mut());
        zmq_atomic_counter_value(null_mut());
        zmq_atomic_counter_destroy(null_mut());
        zmq_stopwatch_intermediate(null_mut());
        zmq_stopwatch_stop(null_mut());
        zmq_threadclose(null_mut());
        assert!(zmq_threadstart(None, null_mut()).is_null());
        for number in [i32::MIN, -1, 0, 1, 9_999, EFSM, EMTHREAD + 1, i32::MAX] {
            assert!(!zmq_strerror(number).is_null(), "strerror of {number}");
        }
    }
}

/// A proxy with null sockets; ENOTSOCK is as good as EFAULT here.
unsafe fn zmq_proxy_or_enotsock() -> i32 {
    // SAFETY: null is under test.
    let rc = unsafe { zmq_proxy(null_mut(), null_mut(), null_mut()) };
    if errno::last() == Errno(libc::ENOTSOCK) {
        // SAFETY: sets the thread's errno.
        unsafe { *libc::__errno_location() = libc::EFAULT };
    }
    rc
}

/// Uninitialised or closed messages: EFAULT in every call.
fn dead_messages(_: &[String]) {
    let ctx = Context::new();
    let (pull, push) = Transport::Inproc.pair(&ctx, PULL, PUSH);
    let mut closed = Message::of(b"closed");
    closed.close().expect("close");
    for dead in [RawMsg::zeroed(), RawMsg([0xFF; 64]), closed.raw] {
        let (mut dead, mut live) = (dead, Message::of(b"live"));
        // SAFETY: 64 bytes that are no message, which the library has to notice.
        unsafe {
            let fault =
                |rc: i32, what: &str| assert_eq!((rc, errno::last()), (-1, Errno(libc::EFAULT)), "{what}");
            fault(zmq_msg_close(&mut dead), "close");
            fault(zmq_msg_send(&mut dead, push.raw(), DONTWAIT), "send");
            fault(zmq_msg_copy(&mut live.raw, &mut dead), "copy from");
            fault(zmq_msg_move(&mut live.raw, &mut dead), "move from");
            assert_ne!(zmq_msg_more(&mut dead), 1);
            assert_eq!(zmq_msg_size(&mut dead), 0);
            assert!(zmq_msg_data(&mut dead).is_null());
            assert!(zmq_msg_gets(&mut dead, c"Socket-Type".as_ptr()).is_null());
        }
        assert_eq!(live.bytes(), b"live");
    }
    push.put("works");
    assert_eq!(pull.take_text(), "works");
}

/// Any option number with any bytes of any size, set and read, for every socket type.
fn all_options(_: &[String]) {
    let mut chance = Chance::new();
    for kind in PAIR..=XSUB {
        let ctx = Context::new();
        let socket = ctx.bare_socket(kind);
        for option in -3..=130 {
            for size in [0, 1, 2, 4, 8, 16, 32, 40, 41, 64, 255, 256, 1_000] {
                let mut value = chance.bytes(size);
                let _ = socket.set_bytes(option, &value);
                value.fill(0);
                let _ = socket.set_bytes(option, &value);
                let _ = socket.get_bytes(option, size);
            }
        }
        for option in -3..=300 {
            for value in [i32::MIN, -1, 0, 1, i32::MAX] {
                let _ = ctx.get(option);
                if option != IO_THREADS && option != MAX_SOCKETS {
                    let _ = ctx.set(option, value);
                }
            }
        }
        let _ = socket.set(LINGER, 0);
        socket.close().expect("close");
        ctx.term().expect("term");
    }
}

fn terminated_contexts(_: &[String]) {
    let ctx = Context::new();
    let handle = ctx.raw();
    ctx.term().expect("term");
    // SAFETY: a context that is gone, which the library has to notice.
    unsafe {
        let fault = |rc: i32| assert_eq!((rc, errno::last()), (-1, Errno(libc::EFAULT)));
        fault(zmq_ctx_term(handle));
        fault(zmq_ctx_shutdown(handle));
        fault(zmq_ctx_get(handle, IO_THREADS));
        fault(zmq_ctx_set(handle, IO_THREADS, 2));
        assert!(zmq_socket(handle, PULL).is_null());
        assert_eq!(errno::last(), Errno(libc::EFAULT));
    }
}

/// Eight threads close one socket: one of them succeeds.
fn close_races(_: &[String]) {
    let ctx = Context::new();
    for _ in 0..300 {
        let socket = ctx.socket(PULL);
        Transport::Inproc.bind(&socket);
        let handle = AtomicPtr::new(socket.raw());
        let wins = AtomicUsize::new(0);
        std::mem::forget(socket);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    // SAFETY: a handle that may be closed, which the library has to notice.
                    match errno::check(unsafe { zmq_close(handle.load(Ordering::Relaxed)) }) {
                        Ok(_) => drop(wins.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error, Errno(libc::ENOTSOCK)),
                    }
                });
            }
        });
        assert_eq!(wins.into_inner(), 1);
    }
    ctx.term().expect("term");
}

/// A closed handle stays invalid when new sockets are created.
fn stale_handles(_: &[String]) {
    let ctx = Context::new();
    let mut stale = Vec::new();
    for n in 0..3_000 {
        let socket = ctx.socket(PULL);
        assert!(!stale.contains(&socket.raw()), "socket {n} has an old one's handle");
        stale.push(socket.raw());
        socket.close().expect("close");
    }
    let live = ctx.socket(PULL);
    for handle in &stale {
        // SAFETY: closed handles, which the library must detect.
        assert_eq!(errno::check(unsafe { zmq_close(*handle) }), Err(Errno(libc::ENOTSOCK)));
    }
    Transport::Tcp.bind(&live);
}

static FREED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn send_another(_: *mut c_void, hint: *mut c_void) {
    FREED.fetch_add(1, Ordering::SeqCst);
    let mut size = 4;
    let mut value = 0;
    // SAFETY: the hint is a live socket; the calls are those of any user.
    unsafe {
        zmq_getsockopt(hint, TYPE, (&raw mut value).cast(), &mut size);
        zmq_send(hint, c"freed".as_ptr().cast(), 5, DONTWAIT);
    }
}

/// A free function that uses the socket through which its message was sent.
fn calls_from_free(_: &[String]) {
    for transport in Transport::ALL {
        let ctx = Context::new();
        let (pull, push) = transport.pair(&ctx, PULL, PUSH);
        for size in [10, 1_000, 200_000] {
            let mut content = vec![7u8; size];
            FREED.store(0, Ordering::SeqCst);
            // SAFETY: the content outlives its use, which ends with the message "freed".
            let mut message =
                unsafe { Message::lent(content.as_mut_ptr().cast(), size, Some(send_another), push.raw()) };
            message.send(&push, 0).expect("send");
            let mut received = Message::new();
            received.recv(&pull, 0).expect("receive");
            let first_is_content = received.size() == size;
            received.close().expect("close");
            let second = pull.take();
            assert!(first_is_content || second.len() == size);
            until("freed", || FREED.load(Ordering::SeqCst) == 1);
        }
    }
}

/// Arbitrary endpoints: an error or success, but no crash, and no refused endpoint stays bound.
fn strange_endpoints(_: &[String]) {
    let ctx = Context::new();
    let socket = ctx.socket(PULL);
    let mut chance = Chance::new();
    let long = [b"tcp://".to_vec(), vec![b'1'; 100_000]].concat();
    let mut all =
        vec![long, b"ipc://".to_vec(), b"inproc://".to_vec(), b"ipc://@".to_vec(), vec![b'/'; 5_000]];
    let bases = ["tcp://127.0.0.1:*", "ipc:///nowhere/x", "inproc://x", "tcp://[::1]:*", "tcp://lo;x:1"];
    for turn in 0..2_000 {
        let mut bytes = bases[turn % bases.len()].as_bytes().to_vec();
        for _ in 0..1 + chance.below(3) {
            let place = chance.below(bytes.len() as u64) as usize;
            bytes[place] = 1 + chance.below(255) as u8;
        }
        // A host name would be looked up at a name server: only strings that are clearly no host name are used.
        bytes.retain(|byte| *byte != 0);
        all.push(bytes);
    }
    for bytes in &all {
        let text = std::ffi::CString::new(bytes.clone()).expect("no NUL");
        // SAFETY: a C string.
        unsafe {
            if zmq_bind(socket.raw(), text.as_ptr()) == 0 {
                let last = socket.endpoint_bytes();
                zmq_unbind(socket.raw(), last.as_ptr().cast());
            }
        }
    }
    Transport::Tcp.bind(&socket);
}

fn strange_polls(_: &[String]) {
    let ctx = Context::new();
    let socket = ctx.socket(PULL);
    let closed = ctx.socket(PULL);
    let handle = closed.raw();
    closed.close().expect("close");
    for fd in [-1, -5, 9_999, i32::MAX, i32::MIN] {
        for events in [0, 1, 15, -1] {
            let mut items = [
                PollItem { socket: null_mut(), fd, events, revents: 7 },
                PollItem { socket: socket.raw(), fd, events, revents: 7 },
            ];
            // SAFETY: items of ours.
            unsafe { zmq_poll(items.as_mut_ptr(), 2, 0) };
        }
    }
    let mut item = PollItem { socket: handle, fd: 0, events: 1, revents: 0 };
    // SAFETY: null and a closed handle are under test.
    unsafe {
        assert_eq!((zmq_poll(&mut item, 1, 0), errno::last()), (-1, Errno(libc::ENOTSOCK)));
        refused(zmq_poll(null_mut(), i32::MAX, 0), "no items");
        refused(zmq_poll(null_mut(), i32::MIN, 0), "fewer than none");
    }
    Transport::Tcp.bind(&socket);
}

fn is_listening(fd: i32) -> bool {
    let (mut value, mut size) = (0_i32, 4);
    // SAFETY: an int to write to, and its size.
    let rc = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, (&raw mut value).cast(), &mut size)
    };
    (rc, value) == (0, 1)
}

/// One descriptor for several binds, and for binds that fail.
fn adopted_descriptors(_: &[String]) {
    const USE_FD: i32 = 89;
    let ctx = Context::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let endpoint = format!("tcp://{}", listener.local_addr().expect("bound"));
    let fd = listener.into_raw_fd();
    let (first, second) = (ctx.socket(PULL).with(USE_FD, fd), ctx.socket(PULL).with(USE_FD, fd));
    let elsewhere = format!("ipc://{}", transport::socket_path());
    assert_eq!(first.bind(&elsewhere), Err(Errno(libc::EAFNOSUPPORT)), "it listens over tcp");
    assert_eq!((is_listening(fd), first.get(USE_FD)), (true, Ok(fd)), "it is the application's still");

    first.bind(&endpoint).expect("bind");
    assert_eq!((second.bind(&endpoint), second.get(USE_FD)), (Err(Errno(libc::EBUSY)), Ok(fd)));
    assert_eq!(first.get(USE_FD), Ok(-1), "it was for one bind");
    let other = Transport::Tcp.bind(&first);
    assert_ne!(other, endpoint);
    first.unbind(&other).expect("unbind");
    let push = ctx.socket(PUSH);
    push.connect(&endpoint).expect("connect");
    push.put("x");
    assert_eq!(first.take_text(), "x", "nobody closed it");

    first.unbind(&endpoint).expect("unbind");
    deadline::until("its end", || !is_listening(fd));
    let again = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let second = second.with(USE_FD, again.into_raw_fd());
    Transport::Tcp.bind(&second);
}
