//! The boundary to C: converts the engine's results to return values and errno, and catches panics.
//!
//! ```ignore
//! guard(|| Ok(0)) // 0
//! guard(|| Err::<c_int, _>(Error::Invalid(reason))) // -1, errno is EINVAL
//! ```
//! This costs nothing on the success path: unwinding is table-driven.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pinnace_engine::pending_sleep::{self, Turn};
use pinnace_engine::{Error, Socket, Uncancelled, sleep_cancellably};

use crate::arguments::Flags;
use crate::error::set_errno;

/// A return type of C functions, with the value that signals failure.
pub(crate) trait Returned {
    const FAILED: Self;
}

impl Returned for c_int {
    const FAILED: c_int = -1;
}

impl Returned for c_long {
    const FAILED: c_long = -1;
}

/// Elapsed times and uint64_t.
impl Returned for c_ulong {
    const FAILED: c_ulong = 0;
}

/// Routing ids: 0 is none.
impl Returned for u32 {
    const FAILED: u32 = 0;
}

impl Returned for usize {
    const FAILED: usize = 0;
}

impl Returned for () {
    const FAILED: () = ();
}

impl Returned for *mut c_void {
    const FAILED: *mut c_void = std::ptr::null_mut();
}

impl Returned for *const c_void {
    const FAILED: *const c_void = std::ptr::null();
}

impl Returned for *mut c_char {
    const FAILED: *mut c_char = std::ptr::null_mut();
}

impl Returned for *const c_char {
    const FAILED: *const c_char = std::ptr::null();
}

impl Returned for *mut u8 {
    const FAILED: *mut u8 = std::ptr::null_mut();
}

/// Runs `body`. An error or a panic becomes errno and `R::FAILED`.
#[inline(always)]
pub(crate) fn guard<R: Returned>(body: impl FnOnce() -> Result<R, Error>) -> R {
    // A panic can leave state inconsistent only behind a lock. The error tells the caller that the object may be
    // unusable.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => failed(error),
        Err(_) => failed(Error::System(libc::ENOTRECOVERABLE)),
    }
}

/// As `guard`, for a call that may close descriptors, start threads or the like. The C library's calls for these are
/// cancellation points, and this call must not be one (pthreads(7)).
pub(crate) fn guard_uncancelled<R: Returned>(body: impl FnOnce() -> Result<R, Error>) -> R {
    guard(|| {
        let _uncancelled = Uncancelled::begin();
        body()
    })
}

/// As `guard`, for a call that may wait, and is a cancellation point while it waits. `body` asks the engine to defer
/// the sleep (`Error::Deferred`), and runs again after it. The calling frame must have nothing to drop either.
pub(crate) fn guard_waiting<R: Returned>(body: impl Fn(Turn) -> Result<R, Error> + Copy) -> R {
    match catch_unwind(AssertUnwindSafe(move || body(Turn::FIRST))) {
        Ok(Ok(value)) => value,
        Ok(Err(Error::Deferred)) => sleep_and_retry(&body),
        Ok(Err(error)) => failed(error),
        Err(_) => failed(Error::System(libc::ENOTRECOVERABLE)),
    }
}

/// As `guard_waiting`, for a call that sends or receives one frame and seldom waits. `body` is its first turn. If the
/// engine defers the sleep, `body` stores the later turns with `FrameCall::deferred`. A call that does not wait keeps
/// no copy of its arguments.
#[inline(always)]
pub(crate) fn guard_frame(body: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => frame_failed(error),
        Err(_) => failed(Error::System(libc::ENOTRECOVERABLE)),
    }
}

/// The later turns of a call that sends or receives a frame.
#[derive(Clone, Copy)]
pub(crate) struct FrameCall {
    /// Safe to call until the C function returns, given the promises of its caller.
    pub(crate) turn: unsafe fn(FrameCall, Turn) -> Result<c_int, Error>,
    pub(crate) socket: Socket,
    /// A `zmq_msg_t`, or `len` bytes.
    pub(crate) data: *mut c_void,
    pub(crate) len: usize,
    pub(crate) flags: Flags,
}

thread_local! {
    static DEFERRED: Cell<Option<FrameCall>> = const { Cell::new(None) };
}

impl FrameCall {
    /// `outcome` is the result of the first turn. If it is Deferred, `guard_frame` sleeps and runs this call's next
    /// turn.
    pub(crate) fn deferred(self, outcome: Result<c_int, Error>) -> Result<c_int, Error> {
        if outcome == Err(Error::Deferred) {
            DEFERRED.set(Some(self));
        }
        outcome
    }
}

#[cold]
#[inline(never)]
fn frame_failed(error: Error) -> c_int {
    match (error, DEFERRED.take()) {
        // SAFETY: the C function has not returned.
        (Error::Deferred, Some(call)) => sleep_and_retry(&|turn| unsafe { (call.turn)(call, turn) }),
        _ => failed(error),
    }
}

#[cold]
#[inline(never)]
fn sleep_and_retry<R: Returned>(body: &dyn Fn(Turn) -> Result<R, Error>) -> R {
    loop {
        // SAFETY: this thread's deferred state stays in place until `resume`. This frame and its Rust callers' frames
        // have nothing to drop.
        let slept = unsafe { sleep_cancellably(pending_sleep::deferred()) };
        let again = catch_unwind(AssertUnwindSafe(|| {
            let _uncancelled = Uncancelled::begin();
            pending_sleep::resume(slept).and_then(body)
        }));
        return match again {
            Ok(Err(Error::Deferred)) => continue,
            Ok(Ok(value)) => value,
            Ok(Err(error)) => failed(error),
            Err(_) => failed(Error::System(libc::ENOTRECOVERABLE)),
        };
    }
}

#[cold]
#[inline(never)]
fn failed<R: Returned>(error: Error) -> R {
    set_errno(error.errno());
    R::FAILED
}

#[cfg(test)]
mod tests {
    use pinnace_engine::Invalid;

    use super::*;
    use crate::error::errno;

    #[test]
    fn a_value_passes() {
        set_errno(0);
        assert_eq!(guard(|| Ok(5)), 5);
        assert_eq!(errno(), 0);
    }

    #[test]
    fn an_error_becomes_errno() {
        assert_eq!(guard::<c_int>(|| Err(Error::Terminated)), -1);
        assert_eq!(errno(), pinnace_engine::ETERM);
        assert!(guard::<*mut c_void>(|| Err(Error::Invalid(Invalid::Flags))).is_null());
        assert_eq!(errno(), libc::EINVAL);
    }

    #[test]
    fn a_panic_stops_here() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let outcomes = (guard::<c_int>(|| panic!("on purpose")), guard::<usize>(|| panic!("on purpose")));
        std::panic::set_hook(hook);
        assert_eq!((outcomes, errno()), ((-1, 0), libc::ENOTRECOVERABLE));
    }
}
