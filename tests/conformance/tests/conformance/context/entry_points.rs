//! Functions that no other suite covers: sleeping, devices, shutting a context down, the form of handles, and whether
//! the library reports its features correctly.

use std::ffi::{CStr, CString, c_void};
use std::time::{Duration, Instant};

use support::api::*;
use support::*;

const GSSAPI_SERVER: i32 = 62;
const STREAMER: i32 = 1;

/// Looked up by name: it is in no table, so that no test can sleep with it.
#[test]
fn it_sleeps_for_seconds() {
    // SAFETY: loads the library once more, which is the same one; the type is that of zmq.h.
    let nap: extern "C" fn(libc::c_int) = unsafe {
        let path = CString::new(library_path().to_str().expect("text")).expect("no NUL");
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        let symbol = libc::dlsym(library, c"zmq_sleep".as_ptr());
        assert!(!symbol.is_null());
        std::mem::transmute(symbol)
    };
    let start = Instant::now();
    nap(1);
    assert!((Duration::from_millis(990)..Duration::from_secs(20)).contains(&start.elapsed()));
}

/// zmq_device forwards messages, whatever kind of device is requested, until its context ends.
#[test]
fn a_device_passes_on() {
    let ctx = Context::new();
    let (front, push) = Transport::Inproc.pair(&ctx, PULL, PUSH);
    let (back, pull) = Transport::Tcp.pair(&ctx, PUSH, PULL);
    // Proxies wait without a timeout.
    front.set(RCVTIMEO, -1).expect("RCVTIMEO");
    std::thread::scope(|scope| {
        let device = scope.spawn(|| {
            // SAFETY: live sockets, not used elsewhere meanwhile.
            errno::check(unsafe { zmq_device(STREAMER, front.raw(), back.raw()) })
        });
        push.tx(&["one", "message"]);
        pull.expect(&["one", "message"]);
        ctx.shutdown().expect("shutdown");
        assert_eq!(device.join().expect("a result"), Err(Errno(ETERM)));
    });
}

/// zmq_ctx_shutdown ends blocked calls and all later ones; the context still exists.
#[test]
fn a_context_is_shut_down() {
    let ctx = Context::new();
    let socket = ctx.socket(PULL);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| socket.recv(0));
        assert_eq!(ctx.shutdown(), Ok(()));
        assert_eq!(waiter.join().expect("a result"), Err(Errno(ETERM)));
    });
    assert_eq!(socket.send("x", DONTWAIT), Err(Errno(ETERM)));
    assert_eq!(ctx.try_socket(PULL).err(), Some(Errno(ETERM)));
    assert_eq!(ctx.shutdown(), Ok(()), "twice is no error");
}

/// An empty message needs only its 64 bytes, whatever they held.
#[test]
fn an_empty_message_is_made() {
    let mut raw = RawMsg([0xA5; 64]);
    // SAFETY: 64 bytes of ours, initialised by the first call.
    unsafe {
        assert_eq!(zmq_msg_init(&mut raw), 0);
        assert_eq!((zmq_msg_size(&mut raw), zmq_msg_more(&mut raw)), (0, 0));
        assert_eq!(zmq_msg_close(&mut raw), 0);
    }
}

/// The check of zsock_resolve in CZMQ 3: a tag of its own, a descriptor, or a libzmq handle.
fn assert_no_other_object(handle: *mut c_void) {
    // SAFETY: under test: a libzmq handle is a readable address.
    let first_int = unsafe { handle.cast::<i32>().read() };
    assert_ne!(first_int & 0xffff, 0xcafe, "the tags of CZMQ's objects end so");
    let (mut kind, mut size) = (0, 4);
    // SAFETY: reads an int into an int.
    let rc = unsafe {
        libc::getsockopt(first_int, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &mut size)
    };
    assert_eq!((rc, errno::last()), (-1, Errno(libc::EBADF)), "{first_int} is no descriptor");
}

/// CZMQ reads the memory behind a handle to tell sockets from descriptors and from its own objects.
#[test]
fn handles_are_not_taken_for_descriptors() {
    let ctx = Context::new();
    for kind in PAIR..=STREAM {
        let socket = ctx.socket(kind);
        assert_no_other_object(socket.raw());
        Transport::Tcp.bind(&socket);
        assert_no_other_object(socket.raw());
    }
}

/// Go's runtime aborts on a pointer below 4096, or into its own heap; LuaJIT refuses a pointer of more than 47 bits.
/// Contexts and sockets are objects in memory.
#[test]
fn handles_look_like_addresses() {
    let ctx = Context::new();
    let socket = ctx.socket(PAIR);
    // SAFETY: under test: a handle is a readable address.
    let _ = unsafe { ctx.raw().cast::<u8>().read_volatile() };
    // SAFETY: they end below.
    let (mut counter, mut timers, watch) =
        unsafe { (zmq_atomic_counter_new(), zmq_timers_new(), zmq_stopwatch_start()) };
    for handle in [ctx.raw(), socket.raw(), counter, timers, watch] {
        assert!((4096..1 << 47).contains(&handle.addr()), "{handle:?}");
    }
    // SAFETY: handles of these kinds.
    unsafe {
        zmq_atomic_counter_destroy(&mut counter);
        assert_eq!(zmq_timers_destroy(&mut timers), 0);
        zmq_stopwatch_stop(watch);
    }
}

/// A poller with a thread-safe socket has a descriptor, which is readable if the socket is.
#[test]
fn a_poller_has_a_descriptor() {
    if !exports("zmq_poller_new") {
        return;
    }
    let ctx = Context::new();
    let (gather, scatter) = Transport::Tcp.pair(&ctx, GATHER, SCATTER);
    let poller = Poller::new().expect("a poller");
    poller.add(&gather, 1, POLLIN).expect("add");
    let fd = poller.fd().expect("zmq_poller_fd");
    scatter.put("x");
    assert!(poll::fd_readable(fd, PATIENCE_MS));
    assert_eq!(poller.wait(PATIENCE_MS.into()), Ok((1, POLLIN)));
    assert_eq!(gather.take_text(), "x");
}

/// A message's origin: its connection's descriptor, as a number and as text, and its sender's routing id.
#[test]
fn messages_say_where_they_came_from() {
    const SRCFD: i32 = 2;
    let ctx = Context::new();
    let (router, dealer) = (ctx.socket(ROUTER), ctx.socket(DEALER));
    dealer.set_bytes(ROUTING_ID, b"sender").expect("ROUTING_ID");
    Transport::Tcp.join(&router, &dealer);
    dealer.put("x");
    let mut message = Message::new();
    message.recv(&router, 0).expect("the id");
    message.recv(&router, 0).expect("the body");
    assert_eq!(message.property(c"Routing-Id").as_deref(), Some("sender"));
    assert_eq!(message.property(c"Identity").as_deref(), Some("sender"));
    // SAFETY: an initialised message; reads a descriptor's kind.
    unsafe {
        let fd = zmq_msg_get(&mut message.raw, SRCFD);
        assert!(fd >= 0, "{:?}", errno::last());
        assert_ne!(libc::fcntl(fd, libc::F_GETFD), -1, "it is open");
        assert_eq!(message.property(c"__fd"), Some(fd.to_string()));
        let mut own = Message::of(b"x");
        assert_eq!(zmq_msg_get(&mut own.raw, SRCFD), -1, "it came from nowhere");
    }
}

fn has(capability: &CStr) -> bool {
    // SAFETY: a C string.
    match unsafe { zmq_has(capability.as_ptr()) } {
        0 => false,
        1 => true,
        other => panic!("{capability:?}: {other}"),
    }
}

/// `zmq_has` agrees with bind for every transport; likewise for mechanisms and drafts.
#[test]
fn it_has_what_it_says() {
    let ctx = Context::new();
    let scratch = transport::socket_path();
    let ipc = format!("ipc://{scratch}");
    for (capability, endpoint) in [
        (c"ipc", ipc.as_str()),
        (c"pgm", "pgm://lo;239.192.1.1:5555"),
        (c"tipc", "tipc://{5560,0,0}"),
        (c"norm", "norm://127.0.0.1:5556"),
        (c"vmci", "vmci://@:5557"),
        (c"vsock", "vsock://@:5558"),
        (c"WS", "ws://127.0.0.1:*/x"),
        (c"WSS", "wss://127.0.0.1:*/x"),
    ] {
        let refused = ctx.socket(PULL).bind(endpoint) == Err(Errno(libc::EPROTONOSUPPORT));
        assert_eq!(has(capability), !refused, "{capability:?}");
    }
    let (mut public, mut secret) = ([0; 41], [0; 41]);
    // SAFETY: buffers of the size that the man page requires.
    let made_keys = unsafe { zmq_curve_keypair(public.as_mut_ptr(), secret.as_mut_ptr()) } == 0;
    assert_eq!(has(c"curve"), made_keys);
    assert_eq!(has(c"gssapi"), ctx.socket(PULL).set(GSSAPI_SERVER, 1).is_ok());
    assert_eq!(has(c"draft"), DRAFTS.iter().all(|name| exports(name)));
    assert_eq!(DRAFTS.len(), 27);
    assert!(!has(c"no such thing"));
}

/// Absent features are refused, and do no harm.
#[test]
fn what_is_absent_is_refused() {
    let ctx = Context::new();
    for (capability, to_bind, to_connect) in [
        (c"pgm", "pgm://127.0.0.1:5555", "pgm://127.0.0.1:5555"),
        (c"pgm", "epgm://127.0.0.1:5555", "epgm://127.0.0.1:5555"),
        (c"norm", "norm://127.0.0.1:5555", "norm://127.0.0.1:5555"),
        (c"tipc", "tipc://{5560,0,0}", "tipc://{5560,0}"),
        (c"vmci", "vmci://127.0.0.1:5555", "vmci://127.0.0.1:5555"),
        (c"vsock", "vsock://@:5555", "vsock://1:5555"),
    ] {
        if has(capability) {
            continue;
        }
        let socket = ctx.socket(PUB);
        assert_eq!(socket.bind(to_bind), Err(Errno(libc::EPROTONOSUPPORT)), "{to_bind}");
        assert_eq!(socket.connect(to_connect), Err(Errno(libc::EPROTONOSUPPORT)), "{to_connect}");
    }
    let absent = [
        ("gssapi", [62, 63, 64, 65, 90, 91].as_slice()),
        ("vmci", [85, 86, 87, 88].as_slice()),
        ("norm", [117, 118, 119, 120, 121, 122, 123, 124].as_slice()),
    ];
    for (capability, options) in absent {
        let name = CString::new(capability).expect("no NUL");
        for &option in options.iter().filter(|_| !has(&name)) {
            let socket = ctx.socket(PUB);
            for value in [&1_i32.to_ne_bytes()[..], &8_u64.to_ne_bytes(), b"text"] {
                assert_eq!(socket.set_bytes(option, value), Err(Errno(libc::EINVAL)), "option {option}");
            }
            assert_eq!(socket.get_bytes(option, 64), Err(Errno(libc::EINVAL)), "option {option}");
        }
    }
}

/// If the system permits it, the I/O thread has the real-time policy and priority that were set.
#[test]
fn io_threads_have_a_priority() {
    const THREAD_PRIORITY: i32 = 3;
    const THREAD_SCHED_POLICY: i32 = 4;
    const THREAD_NAME_PREFIX: i32 = 9;
    let wish = libc::sched_param { sched_priority: 7 };
    // SAFETY: a thread of its own, so that nothing else has the policy; a structure of ours.
    let permitted = std::thread::spawn(move || unsafe {
        libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_RR, &wish) == 0
    });
    if !permitted.join().expect("an answer") {
        return;
    }
    let ctx = Context::new();
    ctx.set(THREAD_SCHED_POLICY, libc::SCHED_RR).expect("THREAD_SCHED_POLICY");
    ctx.set(THREAD_PRIORITY, 7).expect("THREAD_PRIORITY");
    ctx.set(THREAD_NAME_PREFIX, 77).expect("THREAD_NAME_PREFIX");
    let (pull, push) = Transport::Tcp.pair(&ctx, PULL, PUSH);
    push.put("x");
    pull.take();
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks").flatten();
    let stats: Vec<String> =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok()).collect();
    let ours = stats.iter().find(|stat| stat.contains("(77/ZMQbg/IO/0)")).expect("the I/O thread");
    // rt_priority and policy, fields 40 and 41 of proc_pid_stat(5).
    let fields: Vec<&str> = ours.rsplit(')').next().expect("fields").split_whitespace().collect();
    assert_eq!((fields[37], fields[38]), ("7", "2"), "{ours}");
}

/// Options that are accepted without effect can be read back.
#[test]
fn what_has_no_effect_is_kept() {
    let ctx = Context::new();
    for (option, default, value) in
        [(RATE, 100, 200), (RECOVERY_IVL, 10_000, 5), (MULTICAST_HOPS, 1, 3), (MULTICAST_MAXTPDU, 1_500, 500)]
    {
        let socket = ctx.socket(PUSH);
        assert_eq!(socket.get(option), Ok(default), "option {option}");
        assert_eq!(socket.set(option, value), Ok(()), "option {option}");
        assert_eq!(socket.get(option), Ok(value), "option {option}");
    }
    const ZERO_COPY_RECV: i32 = 10;
    assert_eq!((ctx.set(MAX_MSGSZ, 5_000), ctx.get(MAX_MSGSZ)), (Ok(()), Ok(5_000)));
    if !exports("zmq_poller_new") {
        return;
    }
    assert_eq!((ctx.set(ZERO_COPY_RECV, 0), ctx.get(ZERO_COPY_RECV)), (Ok(()), Ok(0)));
    const LOOPBACK_FASTPATH: i32 = 94;
    for (option, default, value) in
        [(LOOPBACK_FASTPATH, 0, 1), (MULTICAST_LOOP, 1, 0), (101, 8_192, 4_096), (102, 8_192, 4_096)]
    {
        let socket = ctx.socket(PUSH);
        assert_eq!(socket.get(option), Ok(default), "option {option}");
        assert_eq!(socket.set(option, value), Ok(()), "option {option}");
        assert_eq!(socket.get(option), Ok(value), "option {option}");
    }
}
