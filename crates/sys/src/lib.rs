//! System calls: all code that depends on Linux lives in this crate.
//!
//! Thin, safe functions over the kernel's: readiness ([`poll`]), wake-ups ([`wake`], [`futex`]), stream sockets
//! ([`net`]), network interfaces ([`interfaces`]), barriers between threads ([`barrier`]), the library's threads and
//! their scheduling ([`thread`]), the signals that reach them ([`signals`]), the effects of fork(2) ([`fork`]),
//! and changes in directories ([`inotify`]).
//! Also functions over OpenPGM ([`pgm`]). They return the kernel's error numbers ([`Errno`]) and decide nothing. No
//! call raises SIGPIPE; every descriptor closes on exec.
//!
//! ```
//! use pinnace_sys::{poll::{Batch, Interest, Poller}, wake::WakeFd};
//! let (poller, wake) = (Poller::new()?, WakeFd::new()?);
//! poller.add(&wake, 7, Interest::READ)?;
//! wake.signal();
//! let mut ready = Batch::new();
//! poller.wait(&mut ready, None)?;
//! assert_eq!(ready.iter().next().map(|one| one.token), Some(7));
//! # Ok::<(), pinnace_sys::Errno>(())
//! ```

pub mod barrier;
pub mod families;
pub mod files;
pub mod fork;
pub mod futex;
pub mod inotify;
pub mod interfaces;
pub mod memory;
pub mod net;
pub mod pgm;
pub mod poll;
pub mod process;
pub mod random;
pub mod signals;
pub mod sleep;
pub mod thread;
pub mod udp;
pub mod wake;

pub use rustix::io::Errno;
pub use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// The error of the last call of the C library.
fn last_error() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
}

/// Identifies the calling thread among this process's threads that live at the same time; never 0. It is an address.
#[inline(always)]
pub fn thread_id() -> usize {
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
    {
        let id;
        // SAFETY: the word that %fs points to holds its own address (ELF Handling For Thread-Local Storage, 3.4.6),
        // and is never written once the thread runs.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) id, options(pure, readonly, nostack, preserves_flags));
        }
        id
    }
    #[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", not(miri))))]
    // SAFETY: the call has no preconditions (pthread_self(3)).
    unsafe {
        libc::pthread_self() as usize
    }
}
