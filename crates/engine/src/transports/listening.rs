//! Listening descriptors: those that were opened here, and those of the application (ZMQ_USE_FD).
//!
//! One of the application's is ours from the moment at which a bind has succeeded until it is closed; a bind that fails
//! leaves it to the application, as open as it was. While it is ours, no other bind in this process gets its number: it
//! would be closed twice, and the second time be somebody else's.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, IntoRawFd};

use parking_lot::Mutex;
use pinnace_sys::{AsFd, BorrowedFd, Errno, OwnedFd, net};

use crate::error::Error;

/// The numbers of all that were adopted and are open.
static ADOPTED: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

pub(super) enum Listening {
    Opened(OwnedFd),
    Adopted(Adopted),
}

/// One of the application's, which is closed when dropped.
pub(super) struct Adopted(Option<OwnedFd>);

impl Listening {
    /// Makes one of the application's ours, if `address` can say where it listens. Errors: EBUSY, it is ours already;
    /// EAFNOSUPPORT, it listens elsewhere than where the endpoint is; and those of a number that does not listen.
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
    /// Leaves it to the application again.
    pub(super) fn give_back(mut self) {
        if let Some(fd) = self.0.take() {
            ADOPTED.lock().remove(&fd.into_raw_fd());
        }
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        if let Some(fd) = self.0.take() {
            // Closed with the lock held: whoever is given the number next finds it free.
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
