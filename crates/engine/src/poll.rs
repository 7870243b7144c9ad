//! Waiting once for several sockets and descriptors (zmq_poll(3)).
//!
//! Ready sockets are found without a system call. Only a caller that has to wait enters the sockets' poll sets, and
//! waits for all of them and for the plain descriptors in one poll(2).

use std::cell::OnceCell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_sys::poll::{Polled, SignalMask};
use pinnace_sys::sleep::Sleep;
use pinnace_sys::wake::WakeFd;
use pinnace_sys::{AsFd, Errno};
use smallvec::SmallVec;

use crate::error::Error;
use crate::readiness::{POLLERR, POLLIN, POLLOUT, POLLPRI};
use crate::socket::Socket;
use crate::waiting::{PendingSleep, PollSleep, Turn, Visit, Visits};

/// What an item waits for.
pub enum PollSource<'a> {
    Socket(Socket),
    Fd(BorrowedFd<'a>),
}

/// One item to wait for, and the events that were found.
pub struct PollItem<'a> {
    pub source: PollSource<'a>,
    pub events: i16,
    pub revents: i16,
}

/// Waits until an item is ready, at most for `timeout`; returns the number of ready items. `mask`, if given, is the
/// thread's signal mask while it sleeps (ppoll(2)). `turn`: returns Deferred instead of sleeping (`pending_sleep`).
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
            if let PollSource::Socket(socket) = item.source {
                visits.push(Visit::enter(socket.mailbox()?, &wake));
            }
        }
        // Something may have arrived before this thread was registered as waiting.
        let found = look(items)?;
        if found > 0 {
            return Ok(found);
        }
        PendingSleep::Poll(prepare(items, visits, &wake, deadline, mask)).take(turn.is_some(), deadline)?;
    }
}

/// Finds the ready items without waiting. Descriptors come first: one may be a socket's ZMQ_FD, which examining the
/// socket makes unreadable.
fn look(items: &mut [PollItem<'_>]) -> Result<usize, Error> {
    let mut fds: Vec<Polled<'_>> = Vec::new();
    for item in items.iter() {
        if let PollSource::Fd(fd) = item.source {
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
            PollSource::Socket(socket) => socket.events()? & item.events,
            PollSource::Fd(_) => found.next().map_or(0, |polled| from_system(polled.revents, item.events)),
        };
    }
    Ok(items.iter().filter(|item| item.revents != 0).count())
}

fn prepare(
    items: &[PollItem<'_>],
    visits: Visits,
    wake: &WakeFd,
    deadline: Option<Instant>,
    mask: Option<&SignalMask>,
) -> PollSleep {
    let mut fds: SmallVec<[Polled<'_>; 8]> = SmallVec::new();
    visits.iter().for_each(|visit| visit.mailbox.resume_wakeups());
    for (_, set) in visits.iter().filter_map(Visit::entered) {
        fds.push(Polled { fd: set.poller.as_fd(), events: POLLIN_OF_SYSTEM, revents: 0 });
    }
    for item in items {
        if let PollSource::Fd(fd) = item.source {
            fds.push(Polled { fd, events: to_system(item.events), revents: 0 });
        }
    }
    fds.push(Polled { fd: wake.as_fd(), events: POLLIN_OF_SYSTEM, revents: 0 });
    let sleep = Sleep::on_descriptors(&fds, deadline, mask);
    drop(fds);
    PollSleep { visits, sleep }
}

thread_local! {
    static WAKE: OnceCell<Arc<WakeFd>> = const { OnceCell::new() };
}

/// The descriptor by which sockets wake this thread.
fn own_wake() -> Result<Arc<WakeFd>, Error> {
    WAKE.with(|cell| {
        if let Some(wake) = cell.get() {
            return Ok(wake.clone());
        }
        let wake = Arc::new(WakeFd::new()?);
        Ok(cell.get_or_init(|| wake).clone())
    })
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

/// Converts the result of poll(2) as libzmq does: an error is reported whether or not it was asked for.
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
