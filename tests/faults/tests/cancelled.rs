//! Threads that are cancelled (pthread_cancel(3)): a call that waits is a cancellation point, as libzmq's are, and no
//! call ends the process. What the cancelled thread had begun others go on with.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_long};
use support::api::{self, PollItem, RawMsg};
use support::child;
use support::poll::socket_item;
use support::*;

support::roles!(is_cancelled, ends_a_context, is_about_to_be_cancelled);

type Send = unsafe extern "C-unwind" fn(*mut c_void, *const c_void, usize, c_int) -> c_int;
type Recv = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, usize, c_int) -> c_int;
type MsgRecv = unsafe extern "C-unwind" fn(*mut RawMsg, *mut c_void, c_int) -> c_int;
type Poll = unsafe extern "C-unwind" fn(*mut PollItem, c_int, c_long) -> c_int;
type Term = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    fn pthread_timedjoin_np(
        thread: libc::pthread_t,
        value: *mut *mut c_void,
        until: *const libc::timespec,
    ) -> c_int;
}

/// PTHREAD_CANCELED.
const CANCELED: *mut c_void = std::ptr::without_provenance_mut(usize::MAX);

#[derive(Clone, Copy)]
enum Call {
    Send(Send),
    Recv(Recv),
    MsgRecv(MsgRecv),
    Poll(Poll),
    Term(Term),
    /// A call that does not wait.
    Bind(unsafe extern "C-unwind" fn(*mut c_void, *const libc::c_char) -> c_int),
}

/// What a thread does; nothing in it has to be dropped.
#[derive(Clone, Copy)]
struct Job {
    call: Call,
    /// A socket, or the context.
    of: *mut c_void,
    /// The thread, once it runs.
    id: *const AtomicU32,
}

fn function<T: Copy>(name: &str) -> T {
    // SAFETY: the signatures are those of zmq.h.
    unsafe { *api::library().get(name.as_bytes()).expect("a function") }
}

impl Call {
    fn named(name: &str) -> Call {
        match name {
            "send" => Call::Send(function("zmq_send")),
            "recv" => Call::Recv(function("zmq_recv")),
            "msg_recv" => Call::MsgRecv(function("zmq_msg_recv")),
            "poll" => Call::Poll(function("zmq_poll")),
            "term" => Call::Term(function("zmq_ctx_term")),
            "bind" => Call::Bind(function("zmq_bind")),
            other => unreachable!("{other}"),
        }
    }
}

extern "C-unwind" fn run(job: *mut c_void) -> *mut c_void {
    let mut buffer = [0_u8; 64];
    // SAFETY: the starter's job, which it keeps until the thread is joined; a message of the size that C has.
    unsafe {
        let Job { call, of, id } = *job.cast::<Job>();
        let mut message = RawMsg::zeroed();
        api::zmq_msg_init(&mut message);
        (*id).store(libc::gettid() as u32, Ordering::SeqCst);
        match call {
            Call::Send(send) => while send(of, buffer.as_ptr().cast(), buffer.len(), 0) >= 0 {},
            Call::Recv(recv) => _ = recv(of, buffer.as_mut_ptr().cast(), buffer.len(), 0),
            Call::MsgRecv(recv) => _ = recv(&mut message, of, 0),
            Call::Poll(poll) => {
                let mut item = PollItem { socket: of, fd: 0, events: POLLIN as i16, revents: 0 };
                poll(&mut item, 1, -1);
            }
            Call::Term(term) => _ = term(of),
            Call::Bind(bind) => {
                // It is cancelled by now, and acts on it in no call of the library.
                while (*id).load(Ordering::SeqCst) != 0 {}
                bind(of, c"tcp://127.0.0.1:*".as_ptr());
            }
        }
    }
    null_mut()
}

/// Starts a thread, and cancels it once it sleeps.
fn cancel(call: Call, of: *mut c_void) {
    let id = AtomicU32::new(0);
    let mut job = Job { call, of, id: &id };
    let mut thread = 0;
    // SAFETY: a start function of the C ABI; all that the thread uses stays here until it was joined.
    unsafe {
        let start: extern "C" fn(*mut c_void) -> *mut c_void = std::mem::transmute(run as *const ());
        assert_eq!(libc::pthread_create(&mut thread, std::ptr::null(), start, (&raw mut job).cast()), 0);
        until("it runs", || id.load(Ordering::SeqCst) != 0);
        if matches!(call, Call::Bind(_)) {
            assert_eq!(pthread_cancel(thread), 0);
            id.store(0, Ordering::SeqCst);
        } else {
            until("it sleeps", || process::sleeps(id.load(Ordering::SeqCst)));
            assert_eq!(pthread_cancel(thread), 0);
        }
        let mut by = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        libc::clock_gettime(libc::CLOCK_REALTIME, &mut by);
        by.tv_sec += libc::time_t::from(PATIENCE_MS / 1000);
        let mut value = null_mut();
        assert_eq!(pthread_timedjoin_np(thread, &mut value, &by), 0, "it does not end");
        if !matches!(call, Call::Bind(_)) {
            assert_eq!(value, CANCELED);
        }
    }
}

/// Cancels callers of a socket without a peer, then with one, and goes on to use the socket.
fn is_cancelled(args: &[String]) {
    let (transport, name) = (Transport::named(&args[0]), &args[1]);
    let ctx = Context::new();
    let (binder, connecter) = if name == "send" { (PUSH, PULL) } else { (PULL, PUSH) };
    let own = ctx.socket(binder).hwm(1).with(BUSY_POLL, -1).with(LINGER, 0);
    let endpoint = transport.bind(&own);
    cancel(Call::named(name), own.raw());
    let peer = ctx.socket(connecter).hwm(1);
    peer.connect(&endpoint).expect("connect");
    let (from, to) = if name == "send" { (&own, &peer) } else { (&peer, &own) };
    // Sends, and receives until it is there: a cancelled sender may have filled the queues.
    let passes = |text: &str| {
        std::thread::scope(|scope| {
            scope.spawn(|| from.put(text));
            until("it is there", || {
                let message = to.take();
                assert!(message == text.as_bytes() || message == [0; 64], "{message:?}");
                message == text.as_bytes()
            });
        });
    };
    for round in 0..10 {
        passes(&round.to_string());
        cancel(Call::named(name), own.raw());
    }
    // Another thread waits for the connections as if nobody had been there.
    passes("before");
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(poll::poll(&mut [socket_item(to, POLLIN)], -1), Ok(1)));
        from.put("at last");
    });
}

#[test]
fn waiting_calls_are_cancellation_points() {
    for transport in Transport::ALL {
        for name in ["recv", "msg_recv", "poll", "send"] {
            child::alone("is_cancelled", &[transport.name(), name]);
        }
    }
}

/// Cancels a thread in zmq_ctx_term.
fn ends_a_context(_: &[String]) {
    let ctx = Context::new();
    let socket = ctx.socket(PULL);
    cancel(Call::named("term"), ctx.raw());
    drop(socket);
    ctx.term().expect("the next one ends it");
}

#[test]
fn the_end_of_a_context_is_a_cancellation_point() {
    child::alone("ends_a_context", &[]);
}

/// Calls that close or open descriptors, by a thread that is to be cancelled.
fn is_about_to_be_cancelled(_: &[String]) {
    let ctx = Context::new();
    let socket = ctx.socket(PULL);
    cancel(Call::named("bind"), socket.raw());
    assert!(socket.endpoint().starts_with("tcp://"), "it was done whole");
}

#[test]
fn calls_that_do_not_wait_are_done_whole() {
    child::alone("is_about_to_be_cancelled", &[]);
}
