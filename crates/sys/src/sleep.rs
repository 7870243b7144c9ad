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
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use smallvec::SmallVec;

use crate::futex::Among;
use crate::poll::{KERNEL_MASK_BYTES, Polled, SignalMask};
use crate::{AsRawFd, last_error};

/// Descriptors that are slept for without an allocation.
const FEW: usize = 4;
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
    timeout: libc::timespec,
}

enum On {
    Word {
        word: NonNull<AtomicU32>,
        value: u32,
        among: Among,
        /// What the word lies in.
        _owner: Arc<dyn Any + Send + Sync>,
    },
    Descriptors(SmallVec<[libc::pollfd; FEW]>, Option<SignalMask>),
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
        Sleep::new(On::Word { word: NonNull::from(word), value, among, _owner: owner }, deadline)
    }

    /// Until one of the descriptors is ready; with `mask` instead of the thread's own signal mask meanwhile. One that
    /// is closed before the sleep is over is reported as if it was ready.
    pub fn on_descriptors(fds: &[Polled<'_>], deadline: Option<Instant>, mask: Option<&SignalMask>) -> Sleep {
        let pollfd = |p: &Polled<'_>| libc::pollfd { fd: p.fd.as_raw_fd(), events: p.events, revents: 0 };
        Sleep::new(On::Descriptors(fds.iter().map(pollfd).collect(), mask.copied()), deadline)
    }

    /// When it is over at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn new(on: On, deadline: Option<Instant>) -> Sleep {
        Sleep { on, deadline, timeout: libc::timespec { tv_sec: 0, tv_nsec: 0 } }
    }

    /// What was found of the descriptors, in their order; bits of poll(2).
    pub fn revents(&self, index: usize) -> i16 {
        match &self.on {
            On::Descriptors(fds, _) => fds.get(index).map_or(0, |fd| fd.revents),
            On::Word { .. } => 0,
        }
    }

    /// Sleeps.
    pub fn run(&mut self) -> Slept {
        let call = self.call();
        // SAFETY: `self` is borrowed until the call has returned.
        let answer = unsafe { call.make() };
        call.outcome(answer)
    }

    /// The system call to make. It writes to this value, which must stay where it is until then.
    fn call(&mut self) -> Call {
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        let forever = match self.on {
            On::Word { .. } => Some(FOR_EVER),
            On::Descriptors(..) => None,
        };
        let timeout = self.deadline.map(left).or(forever);
        if let Some(timeout) = timeout {
            self.timeout.tv_sec = timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX);
            self.timeout.tv_nsec = timeout.subsec_nanos().into();
        }
        let timeout = timeout.map_or(ptr::null(), |_| &raw const self.timeout).addr();
        match &mut self.on {
            On::Word { word, value, among, .. } => {
                let flag = if *among == Among::Threads { libc::FUTEX_PRIVATE_FLAG } else { 0 };
                let operation = (libc::FUTEX_WAIT | flag) as usize;
                Call {
                    number: libc::SYS_futex,
                    arguments: [word.as_ptr().addr(), operation, *value as usize, timeout, 0],
                }
            }
            On::Descriptors(fds, mask) => {
                let mask = mask.as_ref().map_or(0, |mask| mask.as_ptr().addr());
                let arguments =
                    [fds.as_mut_ptr().expose_provenance(), fds.len(), timeout, mask, KERNEL_MASK_BYTES];
                Call { number: libc::SYS_ppoll, arguments }
            }
        }
    }
}

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
    // SAFETY: the caller's promise.
    let call = unsafe { (*sleep).call() };
    let mut before = 0;
    // SAFETY: the caller's promises. Between the two changes of the type there is the one system call: the thread may
    // be ended at any instruction of it, and holds nothing.
    let answer = unsafe {
        pthread_setcanceltype(ASYNCHRONOUS, &mut before);
        let answer = call.make();
        pthread_setcanceltype(before, ptr::null_mut());
        answer
    };
    call.outcome(answer)
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
