//! A descriptor that another thread makes readable (eventfd(2)).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{self, Errno};

/// Readable from `signal` until `clear`.
pub struct WakeFd(OwnedFd);

impl WakeFd {
    pub fn new() -> Result<WakeFd, Errno> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(WakeFd)
    }

    pub fn signal(&self) {
        // A full counter is readable already.
        let _ = io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub fn clear(&self) {
        // An empty counter is clear already.
        let _ = io::read(&self.0, &mut [0u8; 8]);
    }

    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
