//! Signal masks of threads.
//!
//! Signals that are sent to the process belong to the application. It may block them in its own threads and take them
//! by signalfd(2) or sigwait(3), which works only if no other thread takes them. Therefore every thread of the
//! library blocks the signals of [`Mask::library`] ([`thread::start`](crate::thread::start)). [`as_errors`] is for
//! writes on any thread: they fail, and raise no signal.

use std::mem::MaybeUninit;
use std::ptr;

/// Raised by a fault of the thread itself. If they were blocked, the kernel would end the process without running the
/// application's handlers (sigprocmask(2), notes).
const FAULTS: [libc::c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];

/// Sent to a thread that writes beyond RLIMIT_FSIZE, or to a pipe or connection without a reader (write(2)). The call
/// fails as well, with EFBIG or EPIPE.
const OF_WRITES: [libc::c_int; 2] = [libc::SIGXFSZ, libc::SIGPIPE];

/// The signals that a thread blocks (pthread_sigmask(3)).
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

/// Restores a thread's mask when dropped, even if the work panics.
struct Restore(Mask);

impl Mask {
    /// All signals except those that a fault of the thread itself raises.
    pub fn library() -> Mask {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigfillset(3) writes the whole set; the numbers are signals.
        unsafe {
            libc::sigfillset(set.as_mut_ptr());
            for signal in FAULTS {
                libc::sigdelset(set.as_mut_ptr(), signal);
            }
            Mask(set.assume_init())
        }
    }

    /// The calling thread's mask.
    pub fn current() -> Mask {
        let mut set = MaybeUninit::uninit();
        // SAFETY: without a new set the call only writes the current one, and it cannot fail.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), set.as_mut_ptr());
            Mask(set.assume_init())
        }
    }

    /// Runs `work` with this mask in place of the calling thread's own.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let _restore = Restore(self.install());
        work()
    }

    /// Installs this as the calling thread's mask; returns the previous one.
    fn install(&self) -> Mask {
        let mut before = MaybeUninit::uninit();
        // SAFETY: both are sets; the call writes the second, and cannot fail.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, before.as_mut_ptr());
            Mask(before.assume_init())
        }
    }

    /// Adds these signals.
    fn and(mut self, signals: &[libc::c_int]) -> Mask {
        for &signal in signals {
            // SAFETY: an initialised set, and the number of a signal.
            unsafe { libc::sigaddset(&mut self.0, signal) };
        }
        self
    }

    fn has(&self, signal: libc::c_int) -> bool {
        // SAFETY: an initialised set.
        unsafe { libc::sigismember(&self.0, signal) == 1 }
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        self.0.install();
    }
}

/// Runs work that writes to files or pipes on any thread: if the kernel raises SIGXFSZ or SIGPIPE for a write, only
/// the error remains. The dispositions of the process stay as they are.
pub fn as_errors<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    Mask::current().and(&OF_WRITES).during(|| {
        let before = pending();
        let outcome = work();
        if outcome.is_err() {
            // Both are sent to the writing thread, so one that was not pending before is from these writes.
            OF_WRITES.iter().filter(|&&signal| !before.has(signal)).for_each(|&signal| discard(signal));
        }
        outcome
    })
}

/// The signals that stay pending until the calling thread unblocks them.
fn pending() -> Mask {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the call writes the whole set, and cannot fail.
    unsafe {
        libc::sigpending(set.as_mut_ptr());
        Mask(set.assume_init())
    }
}

/// Consumes a blocked signal if it is pending.
fn discard(signal: libc::c_int) {
    let mut set = MaybeUninit::uninit();
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a set that sigemptyset(3) has written, no buffer for details, and a time.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::sigtimedwait(set.as_ptr(), ptr::null_mut(), &at_once);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_mask_lasts_as_long_as_the_work_also_when_it_panics() {
        let before = Mask::current().has(libc::SIGHUP);
        let blocked = Mask::library().during(|| {
            let during = Mask::current();
            (during.has(libc::SIGHUP), during.has(libc::SIGABRT))
        });
        assert_eq!((before, blocked), (false, (true, false)));
        let panicked = std::panic::catch_unwind(|| Mask::library().during(|| panic!("as a handler may")));
        assert!(panicked.is_err() && !Mask::current().has(libc::SIGHUP));
    }

    #[test]
    fn a_write_to_a_pipe_without_a_reader_leaves_no_signal() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        // With the signals blocked, a leftover SIGPIPE is visible as pending.
        Mask::library().during(|| {
            let outcome = as_errors(|| writer.write_all(b"x"));
            assert_eq!(outcome.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
            assert!(!pending().has(libc::SIGPIPE));
            // A signal that was pending before belongs to the application.
            // SAFETY: this thread, where the signal is blocked.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE) };
            assert!(as_errors(|| writer.write_all(b"x")).is_err());
            assert!(pending().has(libc::SIGPIPE));
            discard(libc::SIGPIPE);
        });
    }
}
