//! Readiness of many descriptors (epoll(7)) and of a few (poll(2)).

use std::ffi::c_ulong;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{self, Timespec, epoll};
use rustix::io::Errno;
use smallvec::SmallVec;

/// The events to report. Hang-ups and errors are always reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest(u32);

impl Interest {
    /// Only hang-ups and errors.
    pub const NONE: Interest = Interest(0);
    pub const READ: Interest = Interest(epoll::EventFlags::IN.bits());
    pub const WRITE: Interest = Interest(epoll::EventFlags::OUT.bits());
    pub const BOTH: Interest = Interest(Self::READ.0 | Self::WRITE.0);
    /// The end of the peer's stream, even if there is unread data before it.
    pub const END: Interest = Interest(epoll::EventFlags::RDHUP.bits());
    /// Edge-triggered (EPOLLET): each arrival of data, and the end. Data may stay unread.
    pub const READ_EDGE: Interest =
        Interest(Self::READ.0 | epoll::EventFlags::RDHUP.bits() | epoll::EventFlags::ET.bits());

    /// Edge-triggered (EPOLLET): arrival of data, room to write, acknowledgement of written data by the peer, and the
    /// end.
    pub const ALL_EDGE: Interest = Interest(Self::READ_EDGE.0 | Self::WRITE.0);

    /// Any combination; `urgent` is out-of-band data (POLLPRI of poll(2)).
    pub fn of(read: bool, write: bool, urgent: bool) -> Interest {
        let bits = [(read, Self::READ.0), (write, Self::WRITE.0), (urgent, epoll::EventFlags::PRI.bits())];
        Interest(bits.iter().filter(|(wanted, _)| *wanted).map(|(_, bit)| bit).sum())
    }

    fn flags(self) -> epoll::EventFlags {
        epoll::EventFlags::from_bits_retain(self.0)
    }

    /// The same events for [`poll`].
    pub fn to_poll(self) -> i16 {
        (self.0 & 0xff) as i16
    }
}

/// A descriptor that is ready.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    pub token: u64,
    /// A read would not block: there is data, an end or an error.
    pub readable: bool,
    /// A write would not block, or would fail.
    pub writable: bool,
    /// No more data will arrive: an end (if READ_EDGE or END was requested) or an error.
    pub ended: bool,
}

/// The events of one wait.
pub struct Batch {
    events: [MaybeUninit<libc::epoll_event>; BATCH],
    /// The first `count` events are initialised.
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
    /// The result of poll(2) for one descriptor.
    pub fn of_polled(revents: i16) -> Ready {
        Ready::new(0, epoll::EventFlags::from_bits_retain(revents as u16 as u32))
    }

    #[inline]
    fn of(event: &libc::epoll_event) -> Ready {
        Ready::new(event.u64, epoll::EventFlags::from_bits_retain(event.events))
    }

    /// epoll(7) and poll(2) use the same bits.
    fn new(token: u64, flags: epoll::EventFlags) -> Ready {
        let broken = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        Ready {
            token,
            ended: broken || flags.contains(epoll::EventFlags::RDHUP),
            readable: broken || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP),
            writable: broken || flags.contains(epoll::EventFlags::OUT),
        }
    }
}

/// A set of descriptors. Level-triggered, except for READ_EDGE and ALL_EDGE.
pub struct Poller(OwnedFd);

/// Data can be read (poll(2)).
pub const POLLIN: i16 = libc::POLLIN;
/// The most descriptors that are polled without an allocation.
const FEW: usize = 8;
/// The most events that one wait reports.
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

    /// Fetches what is ready now.
    pub fn ready(&self, ready: &mut Batch) -> Result<(), Errno> {
        self.wait(ready, Some(Duration::ZERO))
    }

    /// Waits until a descriptor is ready, for at most `timeout`. `ready` holds the events, and is empty after a
    /// time-out.
    ///
    /// A stop of the process ends epoll_pwait(2) with EINTR although no handler has run (signal(7)), so `ready` is
    /// empty after any EINTR. A caller that must notice signals sleeps in [`poll`] on this descriptor.
    pub fn wait(&self, ready: &mut Batch, timeout: Option<Duration>) -> Result<(), Errno> {
        ready.count = 0;
        let room = ready.events.as_mut_ptr().cast::<libc::epoll_event>();
        ready.count = match self.wait_into(room, timeout) {
            Err(Errno::INTR) => 0,
            count => count?,
        };
        Ok(())
    }

    /// Makes the system calls directly: the C library's functions are cancellation points (pthreads(7)).
    fn wait_into(&self, room: *mut libc::epoll_event, timeout: Option<Duration>) -> Result<usize, Errno> {
        static LACKS_PWAIT2: AtomicBool = AtomicBool::new(false); // Before Linux 5.11.
        let (set, max, no_mask) =
            (self.0.as_raw_fd(), BATCH as libc::c_int, std::ptr::null::<libc::sigset_t>());
        if !LACKS_PWAIT2.load(Ordering::Relaxed) {
            let timeout = timeout.map(timespec);
            let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: the kernel writes at most BATCH events, for which there is room; a time or null; no mask.
            let count =
                unsafe { libc::syscall(libc::SYS_epoll_pwait2, set, room, max, timeout, no_mask, 0_usize) };
            match usize::try_from(count).map_err(|_| crate::last_error()) {
                Err(Errno::NOSYS) => LACKS_PWAIT2.store(true, Ordering::Relaxed),
                count => return count,
            }
        }
        let millis = timeout
            .map_or(-1, |timeout| i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
        // SAFETY: as above.
        let count = unsafe { libc::syscall(libc::SYS_epoll_pwait, set, room, max, millis, no_mask, 0_usize) };
        usize::try_from(count).map_err(|_| crate::last_error())
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

/// One descriptor for [`poll`], and its result; the bits are those of poll(2).
pub struct Polled<'a> {
    pub fd: BorrowedFd<'a>,
    pub events: i16,
    pub revents: i16,
}

/// Waits for any of a few descriptors (ppoll(2)); returns how many are ready. INTR: a signal was handled. A stop of
/// the process does not end the wait.
pub fn poll(fds: &mut [Polled<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
    let mut list: SmallVec<[event::PollFd<'_>; FEW]> = fds
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

/// Returns true if the peer of a stream sends no more, or the connection is lost, even if there is unread data.
pub fn has_ended(fd: &impl AsFd) -> bool {
    let own = &mut [Polled { fd: fd.as_fd(), events: libc::POLLRDHUP, revents: 0 }];
    poll(own, Some(Duration::ZERO)).is_ok_and(|count| count > 0)
}

/// The signals that are blocked during a wait, in place of the thread's own mask. In the kernel's format, one bit for
/// each: sigset_t is 16 times as large, and this is copied for each wait.
#[derive(Clone, Copy)]
pub struct SignalMask([c_ulong; KERNEL_MASK_BYTES / size_of::<c_ulong>()]);

/// The size of a signal set in the kernel, in bytes.
pub(crate) const KERNEL_MASK_BYTES: usize = 8;

impl SignalMask {
    pub fn new(set: &libc::sigset_t) -> SignalMask {
        // SAFETY: it begins with the kernel's set, and is larger.
        SignalMask(unsafe { std::ptr::from_ref(set).cast::<[c_ulong; _]>().read() })
    }

    pub(crate) fn as_ptr(&self) -> *const c_ulong {
        self.0.as_ptr()
    }
}

/// A descriptor with another owner. It is only waited for: if its owner closes it, the kernel reports that.
#[derive(Clone, Copy)]
pub struct Foreign(RawFd);

impl Foreign {
    /// None for a negative number.
    pub fn new(fd: RawFd) -> Option<Foreign> {
        (fd >= 0).then_some(Foreign(fd))
    }
}

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: not negative. Nothing is read, written or closed through it, so no harm is done if the number by
        // now refers to another descriptor.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}
