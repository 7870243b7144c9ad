//! Listening descriptors: opened by us, or adopted from the application (ZMQ_USE_FD).
//!
//! A descriptor of the application is ours from a successful bind until it is closed; a bind that fails leaves it
//! open to the application. While it is ours, no other bind in this process adopts its number: the descriptor would
//! be closed twice, and the second close could hit another file.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, IntoRawFd};

use parking_lot::Mutex;
use pinnace_sys::{AsFd, BorrowedFd, Errno, OwnedFd, net};

use crate::error::Error;

/// The numbers of all adopted descriptors that are open.
static ADOPTED: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

pub(super) enum Listening {
    Opened(OwnedFd),
    Adopted(Adopted),
}

/// A descriptor of the application, which is closed on drop.
pub(super) struct Adopted(Option<OwnedFd>);

impl Listening {
    /// Adopts a descriptor of the application, if `address` can tell where it listens. Errors: EBUSY, it is adopted
    /// already; EAFNOSUPPORT, it listens at another kind of address than the endpoint's; and those of a number that
    /// does not listen.
    pub(super) fn adopt<T>(
        raw: i32,
        address: impl FnOnce(&OwnedFd) -> Option<T>,
    ) -> Result<(Listening, T), Error> {
        let mut numbers = ADOPTED.lock();
        if numbers.contains(&raw) {
            return Err(Errno::BUSY.into());
        }
        let fd = net::adopt_listener(raw)?;
        match address(&fd) {
            Some(at) => {
                numbers.insert(raw);
                Ok((Listening::Adopted(Adopted(Some(fd))), at))
            }
            None => {
                let _ = fd.into_raw_fd();
                Err(Errno::AFNOSUPPORT.into())
            }
        }
    }
}

impl Adopted {
    /// Returns the descriptor to the application.
    pub(super) fn give_back(mut self) {
        if let Some(fd) = self.0.take() {
            ADOPTED.lock().remove(&fd.into_raw_fd());
        }
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        if let Some(fd) = self.0.take() {
            // Closed with the lock held: the next user of the number finds it free.
            let mut numbers = ADOPTED.lock();
            numbers.remove(&fd.as_raw_fd());
            drop(fd);
        }
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listening::Opened(fd) => fd.as_fd(),
            Listening::Adopted(adopted) => {
                adopted.0.as_ref().expect("it is open until it is dropped").as_fd()
            }
        }
    }
}
