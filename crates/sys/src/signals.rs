//! Which signals a thread takes.
//!
//! Signals of the process belong to the application: it may block them in its own threads and take them by
//! signalfd(2) or sigwait(3), which works only if no other thread takes them. [`Mask::library`] is therefore what
//! every thread of the library blocks ([`thread::start`](crate::thread::start)).

use std::mem::MaybeUninit;
use std::ptr;

/// Raised by a fault of the thread itself. If they were blocked, the kernel would end the process without running the
/// application's handlers (sigprocmask(2), notes).
const FAULTS: [libc::c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];

/// The signals that a thread blocks (pthread_sigmask(3)).
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

/// Restores a thread's mask when dropped, also where the work between panics.
struct Restore(Mask);

impl Mask {
    /// All signals but those that a fault of the thread itself raises.
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

    /// What the calling thread blocks.
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

    /// Makes this the calling thread's mask; returns the one before.
    fn install(&self) -> Mask {
        let mut before = MaybeUninit::uninit();
        // SAFETY: both are sets; the call writes the second, and cannot fail.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, before.as_mut_ptr());
            Mask(before.assume_init())
        }
    }

    #[cfg(test)]
    fn has(&self, signal: libc::c_int) -> bool {
        // SAFETY: a set that is whole.
        unsafe { libc::sigismember(&self.0, signal) == 1 }
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        self.0.install();
    }
}

#[cfg(test)]
mod tests {
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
}
