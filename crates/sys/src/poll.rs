//! Readiness of many descriptors (epoll(7)) and of a few (poll(2)).

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{self, Timespec, epoll};
use rustix::io::Errno;

use crate::process;

/// What to be told of. Hang-ups and errors are told of in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest(u32);

impl Interest {
    /// Hang-ups and errors alone.
    pub const NONE: Interest = Interest(0);
    pub const READ: Interest = Interest(epoll::EventFlags::IN.bits());
    pub const WRITE: Interest = Interest(epoll::EventFlags::OUT.bits());
    pub const BOTH: Interest = Interest(Self::READ.0 | Self::WRITE.0);
    /// The end of what the peer sends, whatever lies unread before it.
    pub const END: Interest = Interest(epoll::EventFlags::RDHUP.bits());
    /// Each time that something comes, and at the end; what is there may stay (EPOLLET).
    pub const NEWS: Interest =
        Interest(Self::READ.0 | epoll::EventFlags::RDHUP.bits() | epoll::EventFlags::ET.bits());

    /// Each by itself; `urgent` is data out of band (POLLPRI of poll(2)).
    pub fn of(read: bool, write: bool, urgent: bool) -> Interest {
        let bits = [(read, Self::READ.0), (write, Self::WRITE.0), (urgent, epoll::EventFlags::PRI.bits())];
        Interest(bits.iter().filter(|(wanted, _)| *wanted).map(|(_, bit)| bit).sum())
    }

    fn flags(self) -> epoll::EventFlags {
        epoll::EventFlags::from_bits_retain(self.0)
    }
}

/// A descriptor that is ready.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    pub token: u64,
    /// There is something to read: bytes, an end or an error.
    pub readable: bool,
    /// A write would not wait, or would fail.
    pub writable: bool,
    /// Nothing comes behind what there is to read: an end (where NEWS or END was asked for) or an error.
    pub ended: bool,
}

/// What a wait has found.
pub struct Batch {
    events: [MaybeUninit<libc::epoll_event>; BATCH],
    /// The first so many are written.
    count: usize,
}

impl Batch {
    #[inline(always)]
    pub const fn new() -> Batch {
        Batch { events: [const { MaybeUninit::uninit() }; BATCH], count: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = Ready> {
        // SAFETY: the kernel has written these.
        self.events[..self.count].iter().map(|event| Ready::of(unsafe { event.assume_init_ref() }))
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Ready {
    #[inline]
    fn of(event: &libc::epoll_event) -> Ready {
        let (token, flags) = (event.u64, epoll::EventFlags::from_bits_retain(event.events));
        let broken = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        Ready {
            token,
            ended: broken || flags.contains(epoll::EventFlags::RDHUP),
            readable: broken || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP),
            writable: broken || flags.contains(epoll::EventFlags::OUT),
        }
    }
}

/// A set of descriptors. It reports a ready one until it is no longer ready (level-triggered), but for NEWS.
pub struct Poller(OwnedFd);

/// There is something to read (poll(2)).
const POLLIN: i16 = libc::POLLIN;
/// Events that one wait reports at most.
const BATCH: usize = 64;

impl Poller {
    pub fn new() -> Result<Poller, Errno> {
        epoll::create(epoll::CreateFlags::CLOEXEC).map(Poller)
    }

    pub fn add(&self, fd: &impl AsFd, token: u64, interest: Interest) -> Result<(), Errno> {
        epoll::add(&self.0, fd, epoll::EventData::new_u64(token), interest.flags())
    }

    pub fn modify(&self, fd: &impl AsFd, token: u64, interest: Interest) -> Result<(), Errno> {
        epoll::modify(&self.0, fd, epoll::EventData::new_u64(token), interest.flags())
    }

    pub fn remove(&self, fd: &impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.0, fd)
    }

    /// Waits until something is ready, at most `timeout` (to the next millisecond, from one on); `ready`
    /// holds what is, and is empty after a time-out, and where the process was stopped and goes on. INTR: a signal
    /// was handled, or may have been.
    pub fn wait(&self, ready: &mut Batch, timeout: Option<Duration>) -> Result<(), Errno> {
        ready.count = 0;
        let mut millis = timeout
            .map_or(-1, |timeout| i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
        if let Some(timeout) = timeout.filter(|timeout| millis == 1 && timeout.subsec_micros() < 1_000) {
            let own = &mut [Polled { fd: self.0.as_fd(), events: POLLIN, revents: 0 }];
            poll(own, Some(timeout))?;
            millis = 0;
        }
        let room = ready.events.as_mut_ptr().cast::<libc::epoll_event>();
        // SAFETY: the kernel writes at most BATCH events, for which there is room.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), room, BATCH as libc::c_int, millis) };
        ready.count = match usize::try_from(count).map_err(|_| crate::last_error()) {
            // Of a process that was stopped the kernel says the same (signal(7)).
            Err(Errno::INTR) if !process::handles_signals() => 0,
            count => count?,
        };
        Ok(())
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// One descriptor of [`poll`], and what was found; the bits are those of poll(2).
pub struct Polled<'a> {
    pub fd: BorrowedFd<'a>,
    pub events: i16,
    pub revents: i16,
}

/// Waits for any of a few descriptors (poll(2)); returns how many are ready.
pub fn poll(fds: &mut [Polled<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
    let mut list: Vec<event::PollFd<'_>> = fds
        .iter()
        .map(|p| event::PollFd::from_borrowed_fd(p.fd, event::PollFlags::from_bits_retain(p.events as u16)))
        .collect();
    let timeout = timeout.map(timespec);
    let count = event::poll(&mut list, timeout.as_ref())?;
    for (polled, found) in fds.iter_mut().zip(&list) {
        polled.revents = found.revents().bits() as i16;
    }
    Ok(count)
}

/// Whether the peer of a stream sends nothing more, or the connection is lost, whatever lies unread.
pub fn has_ended(fd: &impl AsFd) -> bool {
    let own = &mut [Polled { fd: fd.as_fd(), events: libc::POLLRDHUP, revents: 0 }];
    poll(own, Some(Duration::ZERO)).is_ok_and(|count| count > 0)
}

/// Signals that are blocked for as long as a wait lasts, instead of those that the thread has blocked.
#[derive(Clone, Copy)]
pub struct SignalMask(libc::sigset_t);

impl SignalMask {
    pub fn new(set: libc::sigset_t) -> SignalMask {
        SignalMask(set)
    }
}

/// As [`poll`], with other signals blocked while it waits (ppoll(2)).
pub fn poll_masked(
    fds: &mut [Polled<'_>],
    timeout: Option<Duration>,
    mask: &SignalMask,
) -> Result<usize, Errno> {
    let pollfd = |p: &Polled<'_>| libc::pollfd { fd: p.fd.as_raw_fd(), events: p.events, revents: 0 };
    let mut list: Vec<libc::pollfd> = fds.iter().map(pollfd).collect();
    let timeout = timeout.map(timespec).map(|at| libc::timespec { tv_sec: at.tv_sec, tv_nsec: at.tv_nsec });
    let limit = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a list of the length given; a time or null; a signal set.
    let count = unsafe { libc::ppoll(list.as_mut_ptr(), list.len() as libc::nfds_t, limit, &mask.0) };
    let count = usize::try_from(count).map_err(|_| crate::last_error())?;
    for (polled, found) in fds.iter_mut().zip(&list) {
        polled.revents = found.revents;
    }
    Ok(count)
}

/// A descriptor of somebody else's. It is only waited for: if its owner closes it, the kernel says so.
#[derive(Clone, Copy)]
pub struct Foreign(RawFd);

impl Foreign {
    /// None for a number that no descriptor can have.
    pub fn new(fd: RawFd) -> Option<Foreign> {
        (fd >= 0).then_some(Foreign(fd))
    }
}

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: not negative. Nothing is read, written or closed through it, so that nobody is harmed where
        // it is another descriptor by now.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}
