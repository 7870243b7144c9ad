//! Sleeping until a futex word changes or a descriptor is ready, for library calls that have to wait.
//!
//! A [`Sleep`] is self-contained, so that one part of a program can prepare it and another run it. A stop of the
//! process (SIGSTOP, a debugger; signal(7)) ends neither kind of sleep. A signal that was handled ends both, however
//! its handler was installed.
//!
//! No sleep except [`sleep_cancellably`] is a cancellation point (pthreads(7)): a cancelled thread is unwound from
//! where it sleeps, and Rust frames with something to drop must not be unwound that way.

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

/// Used as the time-out where there is no deadline: 34 years. Without a time-out the kernel resumes a futex wait
/// after a handler that was installed with SA_RESTART (signal(7)).
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

// SAFETY: the word is an atomic that `_owner` keeps alive, and descriptors are numbers.
unsafe impl Send for Sleep {}

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slept {
    /// The word has changed, or we were woken; or a descriptor is ready.
    Woken,
    TimedOut,
    /// A signal was handled (EINTR).
    Interrupted,
    Failed(Errno),
}

/// A prepared sleep, and later its result.
pub struct Sleep {
    on: On,
    deadline: Option<Instant>,
}

enum On {
    Word {
        word: NonNull<AtomicU32>,
        value: u32,
        among: Among,
        /// The object that contains the word.
        _owner: Arc<dyn Any + Send + Sync>,
    },
    /// The usual number of descriptors, without an allocation. A small Sleep is also cheap to move.
    Two([libc::pollfd; 2]),
    Descriptors(Vec<libc::pollfd>, Option<Box<SignalMask>>),
}

impl Sleep {
    /// Prepares a sleep until `word` is no longer `value`, or a wake-up on it.
    ///
    /// # Safety
    /// The word must stay at its address as long as `owner` lives.
    pub unsafe fn on_word(
        owner: Arc<dyn Any + Send + Sync>,
        word: &AtomicU32,
        value: u32,
        among: Among,
        deadline: Option<Instant>,
    ) -> Sleep {
        Sleep { on: On::Word { word: NonNull::from(word), value, among, _owner: owner }, deadline }
    }

    /// Prepares a sleep until one of the descriptors is ready, with `mask` in place of the thread's signal mask
    /// meanwhile. A descriptor that is closed before the sleep ends is reported as ready.
    pub fn on_descriptors(fds: &[Polled<'_>], deadline: Option<Instant>, mask: Option<&SignalMask>) -> Sleep {
        let pollfd = |p: &Polled<'_>| libc::pollfd { fd: p.fd.as_raw_fd(), events: p.events, revents: 0 };
        let on = match (fds, mask) {
            ([first, second], None) => On::Two([pollfd(first), pollfd(second)]),
            _ => On::Descriptors(fds.iter().map(pollfd).collect(), mask.copied().map(Box::new)),
        };
        Sleep { on, deadline }
    }

    /// The result for the descriptor at `index`; bits of poll(2).
    pub fn revents(&self, index: usize) -> i16 {
        let fds = match &self.on {
            On::Two(fds) => &fds[..],
            On::Descriptors(fds, _) => fds,
            On::Word { .. } => &[],
        };
        fds.get(index).map_or(0, |fd| fd.revents)
    }

    /// Runs the sleep.
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

    /// The system call to make. Its time-out is stored in `timeout`, to which the kernel writes: it must stay at its
    /// address until the call returns. Err: the result, without a call, because the deadline for the word has passed.
    /// (With a time-out of 0 the kernel would sleep for the thread's timer slack: 50 us; prctl(2), PR_SET_TIMERSLACK.)
    fn call(&mut self, timeout: &mut libc::timespec) -> Result<Call, Slept> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if let (On::Word { word, value, .. }, Some(Duration::ZERO)) = (&self.on, left) {
            // SAFETY: the owner keeps the word alive.
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

/// A system call: its number and arguments.
#[derive(Clone, Copy)]
struct Call {
    number: c_long,
    arguments: [usize; 5],
}

impl Call {
    /// # Safety
    /// The memory that the arguments point to must be valid.
    #[inline(always)]
    unsafe fn make(self) -> c_long {
        let [a, b, c, d, e] = self.arguments;
        // SAFETY: the caller's promise. It may unwind if this thread is cancelled.
        unsafe { syscall(self.number, a, b, c, d, e) }
    }

    /// As `make`, and a cancellation point.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn make_cancellably(self) -> c_long {
        let [a, b, c, d, _] = self.arguments;
        if self.number == libc::SYS_ppoll {
            // SAFETY: the caller's promise. The C library's function is itself a cancellation point.
            return unsafe { ppoll(a, b, c, d) }.into();
        }
        let mut before = 0;
        // SAFETY: the caller's promise. Between the two changes of the type there is only the system call: the thread
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
                Errno::AGAIN => Slept::Woken, // The word had changed already.
                error => Slept::Failed(error),
            },
        }
    }
}

// These unwind if the thread is cancelled.
unsafe extern "C-unwind" {
    fn syscall(number: c_long, ...) -> c_long;
    fn ppoll(fds: usize, count: usize, timeout: usize, mask: usize) -> c_int;
    fn pthread_testcancel();
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_ASYNCHRONOUS (pthread_setcanceltype(3)).
const ASYNCHRONOUS: c_int = 1;

/// Runs the sleep. If the thread is cancelled (pthread_cancel(3)), this does not return: the thread is unwound from
/// this frame on, which has nothing to drop.
///
/// # Safety
/// Nothing else may use `sleep`, and it must stay at its address, until this returns or the thread has ended. No Rust
/// frame between this one and the thread's first one may have anything to drop, or catch the unwinding.
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

/// While this lives, no call on this thread is a cancellation point. Calls of the C library are, close(2) and
/// write(2) among them, and would unwind frames that have something to drop.
pub struct Uncancelled(c_int);

impl Uncancelled {
    pub fn begin() -> Uncancelled {
        let mut before = 0;
        // SAFETY: a variable to write to.
        unsafe { pthread_setcancelstate(DISABLED, &mut before) };
        Uncancelled(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state from before.
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

    /// The number of times that this thread has slept, or waited for a lock.
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
            // SAFETY: it stays at its address, and no thread is cancelled here.
            assert_eq!(unsafe { sleep_cancellably(&mut sleep) }, Slept::TimedOut);
        }
        // This thread may have waited for the lock of the test harness.
        let slept = voluntary_switches() - before;
        assert!(slept < 100, "{slept} times in 3,000");
    }
}
