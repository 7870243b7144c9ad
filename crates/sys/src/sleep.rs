//! Sleeping until a word of memory changes or a descriptor is ready: what a call of the library does that has to wait.
//!
//! A [`Sleep`] has all that it needs, so that one part of a program can prepare it and another do it. Neither kind is
//! ended by a stop of the process (SIGSTOP, a debugger; signal(7)), and a signal that was handled ends both, however
//! its handler was installed.
//!
//! No sleep is a cancellation point (pthreads(7)) but [`sleep_cancellably`], because a cancelled thread is unwound from
//! where it sleeps, and Rust's frames with something to drop must not be.

use std::any::Any;
use std::ffi::{c_int, c_long};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::futex::Among;
use crate::poll::{KERNEL_MASK_BYTES, Polled, SignalMask};
use crate::{AsRawFd, last_error};

/// In place of no time-out: 34 years. Without one the kernel resumes a futex wait after a handler that was installed
/// with SA_RESTART (signal(7)).
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

// SAFETY: the word is an atomic that `_owner` keeps, and descriptors are numbers.
unsafe impl Send for Sleep {}

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slept {
    /// The word is another, or somebody woke us; or a descriptor is ready.
    Woken,
    TimedOut,
    /// A signal was handled (EINTR).
    Interrupted,
    Failed(Errno),
}

/// A sleep that is prepared, and afterwards what it has found.
pub struct Sleep {
    on: On,
    deadline: Option<Instant>,
}

enum On {
    Word {
        word: NonNull<AtomicU32>,
        value: u32,
        among: Among,
        /// What the word lies in.
        _owner: Arc<dyn Any + Send + Sync>,
    },
    /// Two of them, as mostly, need no allocation; and a sleep that is small is cheap to pass on.
    Two([libc::pollfd; 2]),
    Descriptors(Vec<libc::pollfd>, Option<Box<SignalMask>>),
}

impl Sleep {
    /// Until `word` is not `value` any more, or somebody wakes who sleeps there.
    ///
    /// # Safety
    /// The word stays where it is as long as `owner` is there.
    pub unsafe fn on_word(
        owner: Arc<dyn Any + Send + Sync>,
        word: &AtomicU32,
        value: u32,
        among: Among,
        deadline: Option<Instant>,
    ) -> Sleep {
        Sleep { on: On::Word { word: NonNull::from(word), value, among, _owner: owner }, deadline }
    }

    /// Until one of the descriptors is ready; with `mask` instead of the thread's own signal mask meanwhile. One that
    /// is closed before the sleep is over is reported as if it was ready.
    pub fn on_descriptors(fds: &[Polled<'_>], deadline: Option<Instant>, mask: Option<&SignalMask>) -> Sleep {
        let pollfd = |p: &Polled<'_>| libc::pollfd { fd: p.fd.as_raw_fd(), events: p.events, revents: 0 };
        let on = match (fds, mask) {
            ([first, second], None) => On::Two([pollfd(first), pollfd(second)]),
            _ => On::Descriptors(fds.iter().map(pollfd).collect(), mask.copied().map(Box::new)),
        };
        Sleep { on, deadline }
    }

    /// What was found of the descriptors, in their order; bits of poll(2).
    pub fn revents(&self, index: usize) -> i16 {
        let fds = match &self.on {
            On::Two(fds) => &fds[..],
            On::Descriptors(fds, _) => fds,
            On::Word { .. } => &[],
        };
        fds.get(index).map_or(0, |fd| fd.revents)
    }

    /// Sleeps.
    pub fn run(&mut self) -> Slept {
        let mut timeout = NO_TIME;
        match self.call(&mut timeout) {
            Ok(call) => {
                // SAFETY: `self` is borrowed until the call has returned.
                let answer = unsafe { call.make() };
                call.outcome(answer)
            }
            Err(found) => found,
        }
    }

    /// The system call to make, with its time-out in `timeout`. It writes to this value, which must stay where it is
    /// until then. Err: no time is left to wait for the word, and this was found. With a time-out of 0 the kernel would
    /// still wait as long as the thread's timer slack (50 us; prctl(2), PR_SET_TIMERSLACK).
    fn call(&mut self, timeout: &mut libc::timespec) -> Result<Call, Slept> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if let (On::Word { word, value, .. }, Some(Duration::ZERO)) = (&self.on, left) {
            // SAFETY: the owner keeps the word.
            let now = unsafe { word.as_ref() }.load(Ordering::SeqCst);
            return Err(if now == *value { Slept::TimedOut } else { Slept::Woken });
        }
        let forever = match self.on {
            On::Word { .. } => Some(FOR_EVER),
            On::Two(_) | On::Descriptors(..) => None,
        };
        let timeout = left.or(forever).map(|left| {
            timeout.tv_sec = left.as_secs().try_into().unwrap_or(libc::time_t::MAX);
            timeout.tv_nsec = left.subsec_nanos().into();
            &raw const *timeout
        });
        let timeout = timeout.map_or(0, |at| at.expose_provenance());
        let poll = |fds: &mut [libc::pollfd], mask: Option<&SignalMask>| {
            let mask = mask.map_or(0, |mask| mask.as_ptr().expose_provenance());
            let arguments =
                [fds.as_mut_ptr().expose_provenance(), fds.len(), timeout, mask, KERNEL_MASK_BYTES];
            Call { number: libc::SYS_ppoll, arguments }
        };
        Ok(match &mut self.on {
            On::Word { word, value, among, .. } => {
                let flag = if *among == Among::Threads { libc::FUTEX_PRIVATE_FLAG } else { 0 };
                let operation = (libc::FUTEX_WAIT | flag) as usize;
                Call {
                    number: libc::SYS_futex,
                    arguments: [word.as_ptr().addr(), operation, *value as usize, timeout, 0],
                }
            }
            On::Two(fds) => poll(fds, None),
            On::Descriptors(fds, mask) => poll(fds, mask.as_deref()),
        })
    }
}

const NO_TIME: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 };

/// A system call, as numbers.
#[derive(Clone, Copy)]
struct Call {
    number: c_long,
    arguments: [usize; 5],
}

impl Call {
    /// # Safety
    /// What the arguments point to is there.
    #[inline(always)]
    unsafe fn make(self) -> c_long {
        let [a, b, c, d, e] = self.arguments;
        // SAFETY: the caller's promise. It may unwind, where this thread is cancelled.
        unsafe { syscall(self.number, a, b, c, d, e) }
    }

    /// The same as a cancellation point.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn make_cancellably(self) -> c_long {
        let [a, b, c, d, _] = self.arguments;
        if self.number == libc::SYS_ppoll {
            // SAFETY: the caller's promise. The C library's function is a cancellation point itself.
            return unsafe { ppoll(a, b, c, d) }.into();
        }
        let mut before = 0;
        // SAFETY: the caller's promise. Between the two changes of the type there is the one system call: the thread
        // may be ended at any instruction of it, and holds nothing.
        unsafe {
            pthread_setcanceltype(ASYNCHRONOUS, &mut before);
            let answer = self.make();
            pthread_setcanceltype(before, ptr::null_mut());
            answer
        }
    }

    fn outcome(self, answer: c_long) -> Slept {
        match answer {
            0 if self.number == libc::SYS_ppoll => Slept::TimedOut,
            0.. => Slept::Woken,
            _ => match last_error() {
                Errno::TIMEDOUT => Slept::TimedOut,
                Errno::INTR => Slept::Interrupted,
                Errno::AGAIN => Slept::Woken, // The word was another already.
                error => Slept::Failed(error),
            },
        }
    }
}

// They unwind where the thread is cancelled.
unsafe extern "C-unwind" {
    fn syscall(number: c_long, ...) -> c_long;
    fn ppoll(fds: usize, count: usize, timeout: usize, mask: usize) -> c_int;
    fn pthread_testcancel();
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_ASYNCHRONOUS (pthread_setcanceltype(3)).
const ASYNCHRONOUS: c_int = 1;

/// Sleeps, and ends here for good where the thread is cancelled (pthread_cancel(3)): then it is unwound from this frame
/// on, which has nothing to drop.
///
/// # Safety
/// `sleep` is not used meanwhile, and stays where it is until it is over or the thread has ended. No frame between
/// this one and the thread's first one that is Rust's has anything to drop, or catches what unwinds.
#[inline(never)]
pub unsafe fn sleep_cancellably(sleep: *mut Sleep) -> Slept {
    let mut timeout = NO_TIME;
    // SAFETY: the caller's promise.
    match unsafe { (*sleep).call(&mut timeout) } {
        Ok(call) => {
            // SAFETY: the caller's promises.
            let answer = unsafe { call.make_cancellably() };
            call.outcome(answer)
        }
        Err(found) => {
            // SAFETY: the caller's promises.
            unsafe { pthread_testcancel() };
            found
        }
    }
}

/// Has no call on this thread be a cancellation point, for as long as this lives: those of the C library are, close(2)
/// and write(2) among them, and would unwind frames that have something to drop.
pub struct Uncancelled(c_int);

impl Uncancelled {
    pub fn begin() -> Uncancelled {
        let mut before = 0;
        // SAFETY: a place to write to.
        unsafe { pthread_setcancelstate(DISABLED, &mut before) };
        Uncancelled(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state that was there before.
        unsafe { pthread_setcancelstate(self.0, ptr::null_mut()) };
    }
}

/// PTHREAD_CANCEL_DISABLE.
const DISABLED: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times that this thread has slept, or waited for a lock.
    fn voluntary_switches() -> i64 {
        // SAFETY: zeros are a valid rusage, and the call writes to it alone.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
            usage.ru_nvcsw
        }
    }

    fn sleep_on(word: &Arc<AtomicU32>, value: u32) -> Sleep {
        // SAFETY: the word lies in its owner.
        unsafe { Sleep::on_word(word.clone(), word, value, Among::Threads, Some(Instant::now())) }
    }

    #[test]
    fn a_sleep_whose_time_is_over_does_not_sleep() {
        let word = Arc::new(AtomicU32::new(5));
        let before = voluntary_switches();
        for _ in 0..1000 {
            assert_eq!(sleep_on(&word, 5).run(), Slept::TimedOut);
            assert_eq!(sleep_on(&word, 4).run(), Slept::Woken);
            let mut sleep = sleep_on(&word, 5);
            // SAFETY: it stays where it is, and no thread is cancelled here.
            assert_eq!(unsafe { sleep_cancellably(&mut sleep) }, Slept::TimedOut);
        }
        // Others may have wanted the lock of the test's harness.
        let slept = voluntary_switches() - before;
        assert!(slept < 100, "{slept} times in 3,000");
    }
}
