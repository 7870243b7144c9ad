//! The library's threads leave the application's signals to the application.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use support::api::{zmq_threadclose, zmq_threadstart};
use support::child::{self, Child};
use support::process::{blocked_signals, thread_ids};
use support::*;

support::roles!(starter);

/// The signals that the thread of zmq_threadstart blocks.
static BLOCKED: AtomicU64 = AtomicU64::new(0);

extern "C" fn note(_: *mut c_void) {
    // SAFETY: the function has no preconditions.
    BLOCKED.store(blocked_signals(unsafe { libc::gettid() } as u32), Ordering::SeqCst);
}

/// Blocks no signal, and reports the blocked signals of each thread that the library has started.
fn starter(_: &[String]) {
    let own = thread_ids();
    let ctx = Context::new();
    ctx.set(IO_THREADS, 2).expect("before the first socket");
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH));
    push.connect(&Transport::Tcp.bind(&pull)).expect("connect");
    push.put("message");
    assert_eq!(pull.take_text(), "message");
    for thread in thread_ids().into_iter().filter(|thread| !own.contains(thread)) {
        // While a thread starts, the C library blocks all signals, including the two that it reserves.
        until("it runs", || blocked_signals(thread) & 1 << 31 == 0);
        child::say(format_args!("{:016x}", blocked_signals(thread)));
    }
    // SAFETY: a function that takes anything, and the thread that runs it.
    unsafe { zmq_threadclose(zmq_threadstart(Some(note), null_mut())) };
    child::say(format_args!("{:016x}", BLOCKED.load(Ordering::SeqCst)));
    child::say("end");
}

#[test]
fn threads_of_the_library_block_the_applications_signals() {
    let faults =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];
    // Signals that cannot be blocked, including the two that the C library reserves.
    let others = [libc::SIGKILL, libc::SIGSTOP, 32, 33];
    let open = faults.iter().chain(&others).fold(0_u64, |bits, signal| bits | 1 << (signal - 1));
    let mut child = Child::start("starter", &[]);
    let said: Vec<_> = std::iter::from_fn(|| Some(child.line()).filter(|line| line != "end")).collect();
    assert!(said.len() >= 3, "two I/O threads, and the application's: {said:?}");
    for blocked in said {
        assert_eq!(blocked, format!("{:016x}", !open));
    }
    child.succeeds();
}
