//! Small parts of the interface: context options of any length and their effect, zmq_ppoll, messages from memory, the
//! state of a ROUTER's peers. Drafts: a library without them skips these tests.

use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::time::Duration;

use support::api::*;
use support::deadline::PATIENCE_MS;
use support::poll::{fd_item, socket_item};
use support::*;

const PREFIX: i32 = 9;
const INVALID: Errno = Errno(libc::EINVAL);

fn set_ext(ctx: *mut c_void, option: i32, value: &[u8]) -> Outcome<()> {
    // SAFETY: a value of that size.
    errno::check(unsafe { zmq_ctx_set_ext(ctx, option, value.as_ptr().cast(), value.len()) }).map(|_| ())
}

fn get_ext(ctx: *mut c_void, option: i32, room: usize) -> Outcome<Vec<u8>> {
    let (mut value, mut size) = (vec![0; room], room);
    // SAFETY: a buffer of that size.
    errno::check(unsafe { zmq_ctx_get_ext(ctx, option, value.as_mut_ptr().cast(), &mut size) })?;
    value.truncate(size);
    Ok(value)
}

/// The threads of this process with this name, by thread id.
fn threads(name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks").flatten();
    let named = tasks.filter(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    });
    named.map(|task| task.path().to_string_lossy().into_owned()).collect()
}

#[test]
fn options_of_any_length() {
    if !exports("zmq_ctx_set_ext") {
        return;
    }
    let ctx = Context::new();
    let raw = ctx.raw();
    set_ext(raw, IO_THREADS, &3_i32.to_ne_bytes()).expect("an int");
    assert_eq!((ctx.get(IO_THREADS), get_ext(raw, IO_THREADS, 4)), (Ok(3), Ok(3_i32.to_ne_bytes().to_vec())));
    assert_eq!(set_ext(raw, IO_THREADS, &[0; 8]), Err(INVALID));
    assert_eq!(set_ext(raw, IO_THREADS, b""), Err(INVALID));
    assert_eq!(get_ext(raw, IO_THREADS, 8), Err(INVALID));
    set_ext(raw, PREFIX, b"of the test\0").expect("a text");
    assert_eq!(get_ext(raw, PREFIX, 16), Ok(b"of the test\0".to_vec()));
    assert_eq!(get_ext(raw, PREFIX, 5), Err(INVALID), "no room");
    assert_eq!(set_ext(raw, PREFIX, &[b'x'; 17]), Err(INVALID), "too long");
    assert_eq!(set_ext(raw, 4711, &[0; 4]), Err(INVALID));
    let null = std::ptr::null_mut::<c_void>();
    // SAFETY: null pointers are under test.
    unsafe {
        assert_eq!((zmq_ctx_set_ext(null, 1, null, 0), errno::last()), (-1, Errno(libc::EFAULT)));
        assert_eq!((zmq_ctx_set_ext(raw, 1, null, 4), errno::last()), (-1, Errno(libc::EFAULT)));
        assert_eq!(
            (zmq_ctx_get_ext(raw, 1, null, std::ptr::null_mut()), errno::last()),
            (-1, Errno(libc::EFAULT))
        );
    }
}

/// Both forms of a name prefix, and the I/O threads' processors. libzmq 4.3.4 has only the number.
#[test]
fn io_threads_are_as_asked_for() {
    let ctx = Context::new();
    ctx.set(PREFIX, 4711).expect("THREAD_NAME_PREFIX");
    assert_eq!(ctx.get(PREFIX), Ok(4711));
    ctx.set(IO_THREADS, 2).expect("IO_THREADS");
    let last = std::thread::available_parallelism().map_or(1, |count| count.get()) as i32 - 1;
    ctx.set(7, last).expect("THREAD_AFFINITY_CPU_ADD");
    ctx.set(7, 900).expect("a processor that is not there");
    ctx.set(8, 900).expect("THREAD_AFFINITY_CPU_REMOVE");
    assert_eq!(ctx.set(8, 900), Err(INVALID), "it is not in the list");
    for option in [3, 4, 7, 8] {
        assert_eq!(ctx.set(option, -1), Err(INVALID), "option {option}");
    }
    let (pull, push) = Transport::Tcp.pair(&ctx, PULL, PUSH);
    push.put("x");
    pull.take();
    for name in ["4711/ZMQbg/IO/0", "4711/ZMQbg/IO/1"] {
        // A thread sets its own name; the second thread has nothing else to do.
        until(name, || threads(name).len() == 1);
        let found = threads(name);
        let status = std::fs::read_to_string(format!("{}/status", found[0])).expect("status");
        assert!(status.contains(&format!("Cpus_allowed_list:\t{last}\n")), "{status}");
    }
}

/// A policy is applied if the system permits it, and otherwise does no harm.
#[test]
fn policies_are_applied_or_left() {
    let ctx = Context::new();
    ctx.set(4, libc::SCHED_BATCH).expect("THREAD_SCHED_POLICY");
    assert_eq!(ctx.get(4), Ok(libc::SCHED_BATCH));
    ctx.set(PREFIX, 815).expect("THREAD_NAME_PREFIX");
    let (pull, push) = Transport::Ipc.pair(&ctx, PULL, PUSH);
    push.put("x");
    pull.take();
    let found = threads("815/ZMQbg/IO/0");
    let stat = std::fs::read_to_string(format!("{}/stat", found[0])).expect("stat");
    let policy = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(38));
    assert_eq!(policy, Some("3"), "SCHED_BATCH, in {stat}");
    if !exports("zmq_ctx_set_ext") {
        return; // libzmq aborts if a priority is not permitted.
    }
    let ctx = Context::new();
    ctx.set(4, libc::SCHED_FIFO).expect("THREAD_SCHED_POLICY");
    ctx.set(3, 1_000).expect("THREAD_PRIORITY");
    let (pull, push) = Transport::Tcp.pair(&ctx, PULL, PUSH);
    push.put("served all the same");
    assert_eq!(pull.take_text(), "served all the same");
}

#[test]
fn messages_from_memory() {
    if !exports("zmq_msg_init_buffer") {
        return;
    }
    for size in [0, 1, 33, 34, 100_000] {
        let bytes = filler::body(7, size);
        let mut raw = RawMsg::zeroed();
        // SAFETY: a message of ours, and bytes of that size; null where there are none.
        unsafe {
            let data = if size == 0 { std::ptr::null() } else { bytes.as_ptr().cast() };
            assert_eq!(zmq_msg_init_buffer(&mut raw, data, size), 0);
            assert_eq!(zmq_msg_size(&mut raw), size);
            let copy = std::slice::from_raw_parts(zmq_msg_data(&mut raw).cast::<u8>(), size);
            assert!(copy == bytes && (size == 0 || copy.as_ptr() != bytes.as_ptr()));
            assert_eq!(zmq_msg_close(&mut raw), 0);
        }
    }
    let mut raw = RawMsg::zeroed();
    // SAFETY: null pointers are under test.
    unsafe {
        let outcome = zmq_msg_init_buffer(&mut raw, std::ptr::null(), 1);
        assert_eq!((outcome, errno::last()), (-1, Errno(libc::EFAULT)));
    }
}

fn peer_state(router: &Socket, name: &str) -> Outcome<i32> {
    // SAFETY: bytes of that size.
    errno::check(unsafe { zmq_socket_get_peer_state(router.raw(), name.as_ptr().cast(), name.len()) })
}

#[test]
fn a_routers_peers_have_states() {
    if !exports("zmq_socket_get_peer_state") {
        return;
    }
    let ctx = Context::new();
    let (router, dealer) = (ctx.socket(ROUTER).hwm(2), ctx.socket(DEALER).hwm(2));
    dealer.set_bytes(ROUTING_ID, b"peer").expect("ROUTING_ID");
    assert_eq!(peer_state(&router, "peer"), Err(Errno(libc::EHOSTUNREACH)));
    Transport::Inproc.join(&router, &dealer);
    until("the peer", || peer_state(&router, "peer") == Ok(POLLOUT));
    dealer.put("x");
    until("its message", || peer_state(&router, "peer") == Ok(POLLIN | POLLOUT));
    router.set(ROUTER_MANDATORY, 1).expect("ROUTER_MANDATORY");
    while router.send_parts(&["peer", "x"], DONTWAIT).is_ok() {}
    assert_eq!(peer_state(&router, "peer"), Ok(POLLIN), "its queue is full");
    assert_eq!(peer_state(&router, "nobody"), Err(Errno(libc::EHOSTUNREACH)));
    assert_eq!(peer_state(&dealer, "peer"), Err(Errno(libc::ENOTSUP)));
}

extern "C" fn nothing(_signal: libc::c_int) {}

/// A signal that is unblocked only for the wait ends it, whether it was pending or arrives during the wait.
#[test]
fn ppoll_lets_a_signal_in() {
    if !exports("zmq_ppoll") {
        return;
    }
    let ctx = Context::new();
    let (pull, push) = Transport::Tcp.pair(&ctx, PULL, PUSH);
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    // SAFETY: signal sets of ours, a handler that does nothing, this thread.
    unsafe {
        let (mut blocked, mut open) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&mut blocked);
        libc::sigaddset(&mut blocked, libc::SIGUSR2);
        libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, &mut open);
        libc::signal(libc::SIGUSR2, nothing as extern "C" fn(libc::c_int) as libc::sighandler_t);
        let mut items = [socket_item(&pull, POLLIN), fd_item(reader.as_raw_fd(), POLLIN)];
        let mut ppoll = |count, timeout, mask: *const libc::sigset_t| {
            items.iter_mut().for_each(|item| item.revents = POLLIN as i16);
            let outcome = errno::check(zmq_ppoll(items.as_mut_ptr(), count, timeout, mask));
            if count == 2 && outcome != Ok(1) {
                assert!(items.iter().all(|item| item.revents == 0), "nothing is ready");
            }
            outcome
        };
        let interrupted = Err(Errno(libc::EINTR));
        libc::raise(libc::SIGUSR2);
        assert_eq!(ppoll(2, 20, std::ptr::null()), Ok(0), "it is blocked");
        assert_eq!(ppoll(2, 20, &blocked), Ok(0), "it is blocked");
        assert_eq!(ppoll(2, PATIENCE_MS.into(), &open), interrupted);
        assert_eq!(ppoll(2, 20, &open), Ok(0), "it was taken");
        libc::raise(libc::SIGUSR2);
        assert_eq!(ppoll(0, PATIENCE_MS.into(), &open), interrupted, "without items too");
        let this = libc::pthread_self();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                deadline::pass(Duration::from_millis(30));
                libc::pthread_kill(this, libc::SIGUSR2);
            });
            assert_eq!(ppoll(2, PATIENCE_MS.into(), &open), interrupted);
        });
        push.put("x");
        assert_eq!(ppoll(2, PATIENCE_MS.into(), &open), Ok(1));
        assert_eq!((zmq_ppoll(std::ptr::null_mut(), 1, 0, &open), errno::last()), (-1, Errno(libc::EFAULT)));
        assert_eq!((zmq_ppoll(std::ptr::null_mut(), -1, 0, &open), errno::last()), (-1, INVALID));
    }
}
