//! Waiting for several sockets and descriptors at once (zmq_poll(3)).
//!
//! What is ready is found without a system call. Only a caller that has to wait enters the sockets' poll
//! sets, and waits for all of them and for the plain descriptors in one poll(2).

use std::cell::OnceCell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_ring::Ticket;
use pinnace_sys::poll::{Batch, Polled, SignalMask};
use pinnace_sys::sleep::{Sleep, Slept};
use pinnace_sys::wake::WakeFd;
use pinnace_sys::{AsFd, Errno};
use smallvec::SmallVec;

use crate::error::Error;
use crate::hub::{Hub, PollSet};
use crate::nap::{self, Nap, Turn};
use crate::socket::{POLLIN, POLLOUT, Socket};

/// A descriptor is in error (ZMQ_POLLERR), has urgent data (ZMQ_POLLPRI).
pub const POLLERR: i16 = 4;
pub const POLLPRI: i16 = 8;

/// What is waited for.
pub enum Source<'a> {
    Socket(Socket),
    Fd(BorrowedFd<'a>),
}

/// One thing to be waited for, and what was found.
pub struct PollItem<'a> {
    pub source: Source<'a>,
    pub events: i16,
    pub revents: i16,
}

/// Waits until an item is ready, at most `timeout`; returns how many are. While it sleeps the signals of `mask`
/// are blocked and no others, where there is one (ppoll(2)). `turn`: it does not sleep
/// itself (Deferred, `nap`).
pub fn poll(
    items: &mut [PollItem<'_>],
    timeout: Option<Duration>,
    mask: Option<&SignalMask>,
    turn: Option<Turn>,
) -> Result<usize, Error> {
    let of_call = || timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let deadline = turn.unwrap_or(Turn::FIRST).deadline(of_call);
    loop {
        let found = look(items)?;
        if found > 0 || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(found);
        }
        let wake = own_wake()?;
        wake.clear();
        let mut visits = Visits::new();
        for item in items.iter() {
            if let Source::Socket(socket) = item.source {
                visits.push(Visit::enter(socket, &wake)?);
            }
        }
        // Something may have come in before this thread was seen to wait.
        let found = look(items)?;
        if found > 0 {
            return Ok(found);
        }
        Nap::Poll(prepare(items, visits, &wake, deadline, mask)).take(turn.is_some(), deadline)?;
    }
}

/// Finds out what is ready, and waits for nothing. Descriptors come first: one of them may be a socket's own
/// (ZMQ_FD), and is no longer readable once that socket was asked.
fn look(items: &mut [PollItem<'_>]) -> Result<usize, Error> {
    let mut fds: Vec<Polled<'_>> = Vec::new();
    for item in items.iter() {
        if let Source::Fd(fd) = item.source {
            fds.push(Polled { fd, events: to_system(item.events), revents: 0 });
        }
    }
    if !fds.is_empty() {
        match pinnace_sys::poll::poll(&mut fds, Some(Duration::ZERO)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut found = fds.iter();
    for item in items.iter_mut() {
        item.revents = match item.source {
            Source::Socket(socket) => socket.events()? & item.events,
            Source::Fd(_) => found.next().map_or(0, |polled| from_system(polled.revents, item.events)),
        };
    }
    Ok(items.iter().filter(|item| item.revents != 0).count())
}

/// The visits of one call.
type Visits = SmallVec<[Visit; 4]>;

/// A caller that sleeps for several sockets and descriptors.
pub(crate) struct PollNap {
    visits: Visits,
    pub(crate) sleep: Sleep,
}

fn prepare(
    items: &[PollItem<'_>],
    visits: Visits,
    wake: &WakeFd,
    deadline: Option<Instant>,
    mask: Option<&SignalMask>,
) -> PollNap {
    let mut fds: SmallVec<[Polled<'_>; 8]> = SmallVec::new();
    visits.iter().for_each(|visit| visit.hub.rouse());
    for (_, set) in visits.iter().filter_map(Visit::entered) {
        fds.push(Polled { fd: set.poller.as_fd(), events: POLLIN_OF_SYSTEM, revents: 0 });
    }
    for item in items {
        if let Source::Fd(fd) = item.source {
            fds.push(Polled { fd, events: to_system(item.events), revents: 0 });
        }
    }
    fds.push(Polled { fd: wake.as_fd(), events: POLLIN_OF_SYSTEM, revents: 0 });
    let sleep = Sleep::on_descriptors(&fds, deadline, mask);
    drop(fds);
    PollNap { visits, sleep }
}

impl PollNap {
    /// Serves the connections that are ready. To drop it leaves the sockets.
    pub(crate) fn end(self, slept: Slept) -> Result<(), Error> {
        if slept != Slept::TimedOut {
            nap::outcome(slept)?;
        }
        let mut ready = Batch::new();
        for (index, (hub, set)) in self.visits.iter().filter_map(Visit::entered).enumerate() {
            if self.sleep.revents(index) != 0 && set.poller.ready(&mut ready).is_ok() {
                hub.serve(&ready, false);
            }
        }
        Ok(())
    }
}

thread_local! {
    static WAKE: OnceCell<Arc<WakeFd>> = const { OnceCell::new() };
}

/// The descriptor by which this thread is told that a socket has news.
fn own_wake() -> Result<Arc<WakeFd>, Error> {
    WAKE.with(|cell| {
        if let Some(wake) = cell.get() {
            return Ok(wake.clone());
        }
        let wake = Arc::new(WakeFd::new()?);
        Ok(cell.get_or_init(|| wake).clone())
    })
}

/// A caller's stay in one socket; it ends when this is dropped.
struct Visit {
    hub: Arc<Hub>,
    wake: Arc<WakeFd>,
    ticket: Option<Ticket>,
    /// It has the lease of the socket's connections. Else the I/O thread serves them, if there are any.
    entered: bool,
}

impl Visit {
    fn enter(socket: Socket, wake: &Arc<WakeFd>) -> Result<Visit, Error> {
        let hub = socket.lock()?.hub.clone();
        hub.add_poller(wake);
        let ticket = Some(hub.event.listen());
        let entered = hub.open_poll_set().is_some_and(|set| hub.lease.enter(&set.io, &hub));
        Ok(Visit { hub, wake: wake.clone(), ticket, entered })
    }

    /// The poll set to wait in.
    fn entered(&self) -> Option<(&Hub, &PollSet)> {
        self.hub.poll_set().filter(|_| self.entered).map(|set| (&*self.hub, set))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.hub.event.cancel(ticket);
        }
        self.hub.remove_poller(&self.wake);
        if let Some((_, set)) = self.entered() {
            self.hub.lease.leave(&set.io, &self.hub);
        }
    }
}

const SYSTEM: [(i16, i16); 4] = [(POLLIN, 0x1), (POLLOUT, 0x4), (POLLPRI, 0x2), (POLLERR, 0x8)];

/// POLLIN of poll(2).
const POLLIN_OF_SYSTEM: i16 = SYSTEM[0].1;

pub(crate) fn to_system(events: i16) -> i16 {
    SYSTEM
        .iter()
        .filter(|(ours, _)| events & ours != 0)
        .map(|(_, theirs)| theirs)
        .fold(0, |all, bit| all | bit)
}

/// What libzmq makes of poll(2)'s answer: an error is told whether it was asked for or not.
pub(crate) fn from_system(revents: i16, events: i16) -> i16 {
    let mut found = 0;
    for (ours, theirs) in SYSTEM {
        if revents & theirs != 0 && (events & ours != 0 || ours == POLLERR) {
            found |= ours;
        }
    }
    const POLLHUP: i16 = 0x10;
    const POLLNVAL: i16 = 0x20;
    if revents & (POLLHUP | POLLNVAL) != 0 {
        found |= POLLERR;
    }
    found
}
