//! Cancelled threads (pthread_cancel(3)): a call that waits is a cancellation point, as in libzmq, and no call ends
//! the process. Other threads continue the work that the cancelled thread had begun. The application's own functions,
//! which the library calls or starts on a thread, may be cancelled as well.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use libc::{c_int, c_long};
use support::api::{self, PollItem, RawMsg};
use support::child;
use support::poll::socket_item;
use support::*;

support::roles!(
    is_cancelled,
    ends_a_context,
    sleeps,
    is_about_to_be_cancelled,
    ends_by_itself,
    handles_a_timer,
    frees_a_message
);

type Send = unsafe extern "C-unwind" fn(*mut c_void, *const c_void, usize, c_int) -> c_int;
type Recv = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, usize, c_int) -> c_int;
type MsgRecv = unsafe extern "C-unwind" fn(*mut RawMsg, *mut c_void, c_int) -> c_int;
type Poll = unsafe extern "C-unwind" fn(*mut PollItem, c_int, c_long) -> c_int;
type OfOne = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
type Function = unsafe extern "C-unwind" fn(*mut c_void);
type ThreadStart = unsafe extern "C" fn(Function, *mut c_void) -> *mut c_void;
type TimerFn = unsafe extern "C-unwind" fn(c_int, *mut c_void);
type FreeFn = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);
type InitData = unsafe extern "C" fn(*mut RawMsg, *mut c_void, usize, FreeFn, *mut c_void) -> c_int;
type TimersAdd = unsafe extern "C" fn(*mut c_void, usize, TimerFn, *mut c_void) -> c_int;

unsafe extern "C-unwind" {
    fn pause() -> c_int;
    fn pthread_exit(value: *mut c_void) -> !;
    fn pthread_testcancel();
}

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
    /// A call of one argument, a pointer.
    OfOne(OfOne),
    Sleep(unsafe extern "C-unwind" fn(c_int)),
    /// A call that does not wait.
    Bind(unsafe extern "C-unwind" fn(*mut c_void, *const libc::c_char) -> c_int),
    /// Another call that does not wait, of one argument.
    Close(OfOne),
}

/// What a thread does; it owns nothing that must be dropped.
#[derive(Clone, Copy)]
struct Job {
    call: Call,
    /// The argument: a socket, the context, timers, or a message.
    of: *mut c_void,
    /// The thread's id, once it runs.
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
            "term" => Call::OfOne(function("zmq_ctx_term")),
            "timers" => Call::OfOne(function("zmq_timers_execute")),
            "sleep" => Call::Sleep(function("zmq_sleep")),
            "close" => Call::Close(function("zmq_msg_close")),
            "bind" => Call::Bind(function("zmq_bind")),
            other => unreachable!("{other}"),
        }
    }

    fn waits(self) -> bool {
        !matches!(self, Call::Bind(_) | Call::Close(_))
    }
}

extern "C-unwind" fn run(job: *mut c_void) -> *mut c_void {
    let mut buffer = [0_u8; 64];
    // SAFETY: the starter keeps the job until the thread is joined; a message of C's size.
    unsafe {
        let Job { call, of, id } = *job.cast::<Job>();
        let mut message = RawMsg::zeroed();
        api::zmq_msg_init(&mut message);
        (*id).store(libc::gettid() as u32, Ordering::SeqCst);
        // Wait until the thread is cancelled. A call that does not wait must not act on the cancellation.
        while !call.waits() && (*id).load(Ordering::SeqCst) != 0 {}
        match call {
            Call::Send(send) => while send(of, buffer.as_ptr().cast(), buffer.len(), 0) >= 0 {},
            Call::Recv(recv) => _ = recv(of, buffer.as_mut_ptr().cast(), buffer.len(), 0),
            Call::MsgRecv(recv) => _ = recv(&mut message, of, 0),
            Call::Poll(poll) => {
                let mut item = PollItem { socket: of, fd: 0, events: POLLIN as i16, revents: 0 };
                poll(&mut item, 1, -1);
            }
            Call::OfOne(call) | Call::Close(call) => _ = call(of),
            Call::Sleep(call) => call(c_int::MAX),
            Call::Bind(bind) => _ = bind(of, c"tcp://127.0.0.1:*".as_ptr()),
        }
    }
    null_mut()
}

/// Starts a thread, and cancels it once it sleeps, or has reported its id if the call does not wait.
fn cancel(call: Call, of: *mut c_void) {
    let id = AtomicU32::new(0);
    let mut job = Job { call, of, id: &id };
    let mut thread = 0;
    // SAFETY: a start function of the C ABI; this function keeps all that the thread uses until it is joined.
    unsafe {
        let start: extern "C" fn(*mut c_void) -> *mut c_void = std::mem::transmute(run as *const ());
        assert_eq!(libc::pthread_create(&mut thread, std::ptr::null(), start, (&raw mut job).cast()), 0);
        until("it runs", || id.load(Ordering::SeqCst) != 0);
        if call.waits() {
            until("it sleeps", || process::sleeps(id.load(Ordering::SeqCst)));
        }
        assert_eq!(pthread_cancel(thread), 0);
        if !call.waits() {
            id.store(0, Ordering::SeqCst);
        }
        let mut by = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        libc::clock_gettime(libc::CLOCK_REALTIME, &mut by);
        by.tv_sec += libc::time_t::from(PATIENCE_MS / 1000);
        let mut value = null_mut();
        assert_eq!(pthread_timedjoin_np(thread, &mut value, &by), 0, "it does not end");
        if call.waits() {
            assert_eq!(value, CANCELED);
        }
    }
}

/// Cancels callers of a socket without a peer, then of one with a peer, and then uses the socket.
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
    // Sends until the message arrives: a cancelled sender may have filled the queues.
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
    // Another thread waits for the connections, as if none had been cancelled.
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

fn sleeps(_: &[String]) {
    cancel(Call::named("sleep"), null_mut());
}

#[test]
fn zmq_sleep_is_a_cancellation_point() {
    child::alone("sleeps", &[]);
}

/// Calls that close or open descriptors, from a thread with a pending cancellation.
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

/// What a thread of zmq_threadstart reports.
#[derive(Default)]
struct Started {
    id: AtomicU32,
    thread: AtomicUsize,
}

unsafe extern "C-unwind" fn pauses(started: *mut c_void) {
    // SAFETY: the starter keeps the argument until the thread has ended.
    unsafe {
        let started = &*started.cast::<Started>();
        started.thread.store(libc::pthread_self() as usize, Ordering::SeqCst);
        started.id.store(libc::gettid() as u32, Ordering::SeqCst);
        loop {
            pause();
        }
    }
}

unsafe extern "C-unwind" fn exits(_: *mut c_void) {
    // SAFETY: this frame and its callers have nothing to drop.
    unsafe { pthread_exit(null_mut()) }
}

/// Threads of zmq_threadstart that are cancelled in their own function, or that call pthread_exit(3).
fn ends_by_itself(_: &[String]) {
    let start: ThreadStart = function("zmq_threadstart");
    let started = Started::default();
    // SAFETY: functions that accept these arguments; the threads are joined.
    unsafe {
        let thread = start(pauses, (&raw const started).cast_mut().cast());
        until("it sleeps", || {
            let id = started.id.load(Ordering::SeqCst);
            id != 0 && process::sleeps(id)
        });
        assert_eq!(pthread_cancel(started.thread.load(Ordering::SeqCst) as libc::pthread_t), 0);
        api::zmq_threadclose(thread);
        api::zmq_threadclose(start(exits, null_mut()));
    }
}

#[test]
fn a_started_thread_may_be_cancelled_in_its_own_function() {
    child::alone("ends_by_itself", &[]);
}

unsafe extern "C-unwind" fn pauses_once(_: c_int, argument: *mut c_void) {
    // SAFETY: the flag of `handles_a_timer`; the call of this function's own.
    unsafe {
        if !(*argument.cast::<AtomicBool>()).swap(true, Ordering::SeqCst) {
            pause();
        }
    }
}

/// A thread that is cancelled in a timer's handler; other threads continue to use the timers.
fn handles_a_timer(_: &[String]) {
    let add: TimersAdd = function("zmq_timers_add");
    let been = AtomicBool::new(false);
    // SAFETY: timers of ours, and a flag that outlives them.
    unsafe {
        let mut timers = api::zmq_timers_new();
        assert_eq!(add(timers, 0, pauses_once, (&raw const been).cast_mut().cast()), 1);
        cancel(Call::named("timers"), timers);
        assert!(been.load(Ordering::SeqCst));
        assert_eq!(api::zmq_timers_execute(timers), 0, "it fires again");
        assert_eq!(api::zmq_timers_destroy(&mut timers), 0);
    }
}

#[test]
fn a_handler_of_timers_may_be_cancelled() {
    child::alone("handles_a_timer", &[]);
}

unsafe extern "C-unwind" fn frees(_: *mut c_void, hint: *mut c_void) {
    // SAFETY: the flag of `frees_a_message`; a cancellation point.
    unsafe {
        pthread_testcancel();
        (*hint.cast::<AtomicBool>()).store(true, Ordering::SeqCst);
    }
}

/// A thread with a pending cancellation, in the free function of a message.
fn frees_a_message(_: &[String]) {
    let init: InitData = function("zmq_msg_init_data");
    let (freed, mut bytes) = (AtomicBool::new(false), [0_u8; 4096]);
    let mut message = RawMsg::zeroed();
    // SAFETY: the bytes and the flag outlive the message.
    unsafe {
        let hint = (&raw const freed).cast_mut().cast();
        assert_eq!(init(&mut message, bytes.as_mut_ptr().cast(), bytes.len(), frees, hint), 0);
    }
    cancel(Call::named("close"), (&raw mut message).cast());
    assert!(freed.load(Ordering::SeqCst), "it was done whole");
}

#[test]
fn a_free_function_is_done_whole() {
    child::alone("frees_a_message", &[]);
}
