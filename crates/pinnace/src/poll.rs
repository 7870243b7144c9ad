//! Waits once for a list of sockets and descriptors. To wait repeatedly for the same ones, a [`Poller`](crate::Poller)
//! costs less.

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use pinnace_engine::PollSource;

use crate::poller::is_over;
use crate::{Error, Interest, Kind, Socket};

/// A socket or descriptor to [`poll`], and the result.
pub struct PollItem<'a> {
    what: What<'a>,
    interest: Interest,
    found: i16,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Socket(pinnace_engine::Socket),
    Fd(BorrowedFd<'a>),
}

impl<'a> PollItem<'a> {
    /// A descriptor. With an empty interest, the wait ends only for an error or hang-up.
    pub fn fd(fd: BorrowedFd<'a>, interest: Interest) -> PollItem<'a> {
        PollItem { what: What::Fd(fd), interest, found: 0 }
    }

    fn raw(&self) -> pinnace_engine::PollItem<'a> {
        let source = match self.what {
            What::Socket(socket) => PollSource::Socket(socket),
            What::Fd(fd) => PollSource::Fd(fd),
        };
        pinnace_engine::PollItem { source, events: self.interest.events(), revents: 0 }
    }

    /// What the item is ready for, among what was requested. If [`is_over`](Self::is_over), everything requested is
    /// ready: a read or write does not block, and returns what happened.
    pub fn ready(&self) -> Interest {
        Interest::found(self.found, self.interest.events())
    }

    /// True if the descriptor is in error or its other end is closed.
    pub fn is_over(&self) -> bool {
        is_over(self.found)
    }
}

impl<K: Kind> Socket<K> {
    /// The socket as an item for [`poll`].
    pub fn poll_item(&self, interest: Interest) -> PollItem<'_> {
        PollItem { what: What::Socket(self.engine()), interest, found: 0 }
    }
}

/// Waits at most `timeout` until one of `items` is ready. Returns how many are; see [`PollItem::ready`].
///
/// ```
/// use std::time::Duration;
/// use pinnace::{Context, Interest, Pull, Push, poll};
/// # let context = Context::new()?;
/// let (tasks, results) = (Pull::new(&context)?, Pull::new(&context)?);
/// # tasks.bind("inproc://tasks")?;
/// # results.bind("inproc://results")?;
/// # let push = Push::builder(&context).connect("inproc://results")?;
/// # push.send("done")?;
/// let mut items = [tasks.poll_item(Interest::READABLE), results.poll_item(Interest::READABLE)];
/// assert_eq!(poll(&mut items, Duration::from_secs(10))?, 1);
/// assert!(items[1].ready().readable);
/// # Ok::<(), pinnace::Error>(())
/// ```
/// Errors: Terminated; Interrupted by a signal.
pub fn poll(items: &mut [PollItem<'_>], timeout: impl Into<Option<Duration>>) -> Result<usize, Error> {
    let mut list: Vec<_> = items.iter().map(PollItem::raw).collect();
    let outcome = pinnace_engine::poll(&mut list, timeout.into(), None, None);
    let found: Vec<i16> = list.into_iter().map(|item| item.revents).collect();
    items.iter_mut().zip(found).for_each(|(item, found)| item.found = found);
    outcome
}

impl fmt::Debug for PollItem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::Socket(socket) => write!(f, "PollItem({socket:?}, {:?})", self.interest),
            What::Fd(fd) => write!(f, "PollItem({}, {:?})", fd.as_raw_fd(), self.interest),
        }
    }
}
