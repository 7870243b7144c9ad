//! The descriptors of a socket that are not connections: its poll set, and the signal that wakes its waiting caller or
//! that ZMQ_FD shows. Neither is made before it is needed, so that a socket without a connection has none, and one
//! whose connections nobody waits for has those alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pinnace_sys::poll::{Batch, Interest, POLLIN, Polled, Poller, Ready};
use pinnace_sys::sleep::Sleep;
use pinnace_sys::wake::WakeFd;
use pinnace_sys::{AsFd, Errno};

use super::Hub;
use crate::lease::Leader;
use crate::link::{Link, Stream};
use crate::reactor::{Command, Io};

/// A poll set costs as much as some wake-ups by the I/O thread: a socket that asks one question has none. Shared memory
/// costs more than both, and is for who stays.
const FEW_WAITS: u32 = 3;

/// The connections of one socket, to be waited for together.
pub(crate) struct PollSet {
    pub(crate) poller: Poller,
    /// The I/O thread that has it.
    pub(crate) io: Arc<Io>,
}

/// One descriptor for two uses that exclude each other: it wakes the caller that leads in the poll set, or it is
/// ZMQ_FD, and then callers do not wait in the poll set (`Hub::has_descriptor`).
#[derive(Default)]
pub(super) struct Signal {
    fd: OnceLock<WakeFd>,
    /// It is ZMQ_FD.
    is_exposed: AtomicBool,
    /// As ZMQ_FD it is readable.
    is_signalled: AtomicBool,
}

/// What the caller that leads polls beside the signal.
pub(crate) enum PolledBeside {
    Set,
    /// The one connection, which is kept open for as long as it is polled.
    Link(Arc<Link>, Arc<Stream>, Interest),
    Nothing,
}

impl Signal {
    fn get(&self) -> Result<&WakeFd, Errno> {
        if let Some(fd) = self.fd.get() {
            return Ok(fd);
        }
        let fd = WakeFd::new()?;
        Ok(self.fd.get_or_init(|| fd))
    }

    /// Wakes the caller that leads, if it is in the poll set.
    pub(super) fn wake(&self) {
        self.fd.get().iter().for_each(|fd| fd.signal());
    }

    /// Makes ZMQ_FD readable, if it was asked for.
    pub(super) fn expose(&self) {
        if self.is_exposed.load(Ordering::SeqCst) && !self.is_signalled.swap(true, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// ZMQ_FD was read: what is posted from here on makes it readable again; what was posted before is read after this.
    fn clear_exposed(&self) {
        if self.is_exposed.load(Ordering::SeqCst) {
            self.fd.get().iter().for_each(|fd| fd.clear());
            self.is_signalled.store(false, Ordering::SeqCst);
        }
    }

    /// The caller that leads has woken.
    fn clear_for_leader(&self) {
        let Some(fd) = self.fd.get().filter(|_| !self.is_exposed.load(Ordering::SeqCst)) else { return };
        fd.clear();
        // ZMQ_FD may have been asked for between the two, and begins readable.
        if self.is_exposed.load(Ordering::SeqCst) {
            fd.signal();
        }
    }
}

impl Hub {
    pub(crate) fn poll_set(&self) -> Option<&PollSet> {
        self.poll_set.get()
    }

    /// Settles which I/O thread serves the connections.
    pub(crate) fn enter_io(&self, io: &Arc<Io>) {
        let _ = self.io.set(io.clone());
    }

    /// Whether an I/O thread knows of the socket, or is about to.
    pub(crate) fn has_io(&self) -> bool {
        self.io.get().is_some()
    }

    /// The poll set, for a caller that is about to wait for connections. None: there are none, or they are the I/O
    /// thread's to serve (`has_descriptor`), or callers have hardly waited yet, or there is no descriptor left; then
    /// mail wakes the caller.
    pub(crate) fn open_poll_set(self: &Arc<Hub>) -> Option<&PollSet> {
        if self.has_descriptor() {
            return None;
        }
        if let Some(set) = self.poll_set.get() {
            return Some(set);
        }
        let io = self.io.get().filter(|_| self.links() > 0)?;
        let is_memory = self.only_link().is_some_and(|link| link.is_shared());
        if !is_memory && self.waits.fetch_add(1, Ordering::Relaxed) < FEW_WAITS {
            return None;
        }
        self.signal.get().ok()?;
        let set = PollSet { poller: Poller::new().ok()?, io: io.clone() };
        if self.poll_set.set(set).is_ok() {
            // Links that come later find the set; these are moved.
            self.all_links().iter().for_each(|link| link.enter_poll_set());
            io.send(Command::Enter(self.clone()));
        }
        self.poll_set.get()
    }

    /// ZMQ_FD: readable when something has changed; made at the first call.
    pub(crate) fn descriptor(&self) -> Result<&WakeFd, Errno> {
        let fd = self.signal.get()?;
        if !self.signal.is_exposed.swap(true, Ordering::SeqCst) {
            self.signal.is_signalled.store(true, Ordering::SeqCst);
            fd.signal();
        }
        Ok(fd)
    }

    /// Whether somebody watches the socket without a call: the I/O thread serves the connections then.
    pub(crate) fn has_descriptor(&self) -> bool {
        self.signal.is_exposed.load(Ordering::SeqCst) || self.level_watcher.get().is_some()
    }

    /// ZMQ_FD is no longer readable: its reader looks at the socket now.
    pub(crate) fn clear_descriptor(&self) {
        self.signal.clear_exposed();
    }

    /// The sleep until a connection is ready or `wake` is called, for the caller that leads in the poll set; and what
    /// it polls beside the signal. `wake_up` follows it.
    ///
    /// It sleeps in ppoll(2): a stop of the process ends epoll_wait(2) with EINTR as if a signal had been handled. A
    /// connection that is alone is polled itself, which saves to ask the poll set afterwards: with that a round trip
    /// between two processes on one processor takes 7.5 us and not 8.4.
    pub(crate) fn sleep(
        &self,
        set: &PollSet,
        deadline: Option<Instant>,
    ) -> Result<(Sleep, PolledBeside), Errno> {
        let signal = self.signal.get()?;
        let polled = |fd, events| Polled { fd, events, revents: 0 };
        let beside = match self.only_link().filter(|link| !link.reads_memory()) {
            None => PolledBeside::Set,
            Some(link) => match link.watched() {
                Some((stream, interest)) => PolledBeside::Link(link, stream, interest),
                None => PolledBeside::Nothing, // It is stalled, or broken.
            },
        };
        let second = match &beside {
            PolledBeside::Set => polled(set.poller.as_fd(), POLLIN),
            PolledBeside::Link(_, stream, interest) => polled(stream.as_fd(), interest.to_poll()),
            PolledBeside::Nothing => polled(signal.as_fd(), POLLIN),
        };
        Ok((Sleep::on_descriptors(&[polled(signal.as_fd(), POLLIN), second], deadline, None), beside))
    }

    /// Serves what the sleep has found. False: nothing.
    pub(crate) fn wake_up(&self, set: &PollSet, sleep: &Sleep, beside: &PolledBeside) -> Result<bool, Errno> {
        let (signalled, found) = (sleep.revents(0) != 0, sleep.revents(1));
        if signalled {
            self.signal.clear_for_leader();
        }
        match beside {
            PolledBeside::Link(link, ..) if found != 0 => link.serve(&Ready::of_polled(found)),
            PolledBeside::Set if found != 0 => {
                let mut batch = Batch::new();
                set.poller.ready(&mut batch)?;
                self.serve(&batch, true);
                return Ok(signalled || !batch.is_empty());
            }
            _ => {}
        }
        self.serve_unread();
        Ok(signalled || found != 0)
    }

    /// What the caller sleeps for that leads in the poll set is another from now on: it looks again.
    pub(crate) fn wake_leader(&self) {
        if self.lease.leader() == Leader::InSet {
            self.signal.wake();
        }
    }
}
