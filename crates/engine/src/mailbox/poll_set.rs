//! The descriptors of a socket other than its connections: its poll set, and the signal. The signal wakes the caller
//! that waits in the poll set, or is ZMQ_FD. Both are created when first needed: a socket without connections has
//! neither, and a socket with connections that no caller waits for has no other descriptors.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pinnace_sys::poll::{Batch, Interest, POLLIN, Polled, Poller, Ready};
use pinnace_sys::sleep::Sleep;
use pinnace_sys::wake::WakeFd;
use pinnace_sys::{AsFd, Errno};

use super::Mailbox;
use crate::io::{Command, Io};
use crate::link::{Link, Stream};
use crate::ownership::Leader;

/// Waits after which a socket gets a poll set. A poll set costs as much as some wake-ups by the I/O thread, so a
/// socket that asks one question gets none. Shared memory costs more than both and is for connections that last, so
/// a socket that uses it gets a poll set at once.
const FEW_WAITS: u32 = 3;

/// The connections of one socket, polled together.
pub(crate) struct PollSet {
    pub(crate) poller: Poller,
    /// The I/O thread that polls the set while no caller does.
    pub(crate) io: Arc<Io>,
}

/// One descriptor with two exclusive uses: it wakes the leading caller in the poll set, or it is ZMQ_FD. While it is
/// ZMQ_FD, callers do not wait in the poll set (`Mailbox::has_descriptor`).
#[derive(Default)]
pub(super) struct Signal {
    fd: OnceLock<WakeFd>,
    /// The application has asked for it as ZMQ_FD.
    is_zmq_fd: AtomicBool,
    /// It is ZMQ_FD and readable.
    is_signalled: AtomicBool,
}

/// What the leading caller polls beside the signal.
pub(crate) enum PolledBeside {
    Set,
    /// The only connection, which is kept open while it is polled.
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

    /// Wakes the leading caller, if it is in the poll set.
    pub(super) fn wake(&self) {
        self.fd.get().iter().for_each(|fd| fd.signal());
    }

    /// Makes ZMQ_FD readable, if the application has asked for it.
    pub(super) fn signal_descriptor(&self) {
        if self.is_zmq_fd.load(Ordering::SeqCst) && !self.is_signalled.swap(true, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Makes ZMQ_FD unreadable. Notices posted later make it readable again; the caller reads earlier ones after
    /// this.
    fn clear_zmq_fd(&self) {
        if self.is_zmq_fd.load(Ordering::SeqCst) {
            self.fd.get().iter().for_each(|fd| fd.clear());
            self.is_signalled.store(false, Ordering::SeqCst);
        }
    }

    /// Clears the signal after the leading caller has woken.
    fn clear_for_leader(&self) {
        let Some(fd) = self.fd.get().filter(|_| !self.is_zmq_fd.load(Ordering::SeqCst)) else { return };
        fd.clear();
        // The application may have asked for ZMQ_FD before the clear; ZMQ_FD starts out readable.
        if self.is_zmq_fd.load(Ordering::SeqCst) {
            fd.signal();
        }
    }
}

impl Mailbox {
    pub(crate) fn poll_set(&self) -> Option<&PollSet> {
        self.poll_set.get()
    }

    /// Sets the I/O thread that serves the connections; the first call counts.
    pub(crate) fn enter_io(&self, io: &Arc<Io>) {
        let _ = self.io.set(io.clone());
    }

    /// True if an I/O thread knows the socket, or is about to.
    pub(crate) fn has_io(&self) -> bool {
        self.io.get().is_some()
    }

    /// The poll set, for a caller that is about to wait for connections; created if needed. None: there are no
    /// connections, the I/O thread serves them (`has_descriptor`), callers have not waited often enough yet, or no
    /// descriptor is left. Then notices wake the caller.
    pub(crate) fn open_poll_set(self: &Arc<Mailbox>) -> Option<&PollSet> {
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
            // Links that join later find the set; the existing ones are moved.
            self.all_links().iter().for_each(|link| link.enter_poll_set());
            io.send(Command::Enter(self.clone()));
        }
        self.poll_set.get()
    }

    /// ZMQ_FD, created at the first call. Readable when something has changed.
    pub(crate) fn descriptor(&self) -> Result<&WakeFd, Errno> {
        let fd = self.signal.get()?;
        if !self.signal.is_zmq_fd.swap(true, Ordering::SeqCst) {
            self.signal.is_signalled.store(true, Ordering::SeqCst);
            fd.signal();
        }
        Ok(fd)
    }

    /// True if the application watches the socket outside calls; then the I/O thread serves the connections.
    pub(crate) fn has_descriptor(&self) -> bool {
        self.signal.is_zmq_fd.load(Ordering::SeqCst) || self.level_watcher.get().is_some()
    }

    /// Makes ZMQ_FD unreadable, because its reader looks at the socket now.
    pub(crate) fn clear_descriptor(&self) {
        self.signal.clear_zmq_fd();
    }

    /// Prepares the leading caller's sleep in the poll set, until a connection is ready or `wake` is called. Also
    /// returns what it polls beside the signal. `wake_up` must follow the sleep.
    ///
    /// The caller sleeps in ppoll(2): when the process is stopped and continued, epoll_wait(2) fails with EINTR as
    /// if a signal had been handled. A single connection is polled directly, which saves a query of the poll set
    /// afterwards: a round trip between two processes on one processor takes 7.5 us instead of 8.4.
    pub(crate) fn sleep(
        &self,
        set: &PollSet,
        deadline: Option<Instant>,
    ) -> Result<(Sleep, PolledBeside), Errno> {
        let signal = self.signal.get()?;
        let polled = |fd, events| Polled { fd, events, revents: 0 };
        let beside = match self.only_link().filter(|link| !link.reads_memory()) {
            None => PolledBeside::Set,
            Some(link) => match link.polled() {
                Some((stream, interest)) => PolledBeside::Link(link, stream, interest),
                None => PolledBeside::Nothing, // The link is stalled or broken.
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

    /// Wakes the leading caller in the poll set, so that it checks again what it waits for.
    pub(crate) fn wake_leader(&self) {
        if self.ownership.leader() == Leader::InSet {
            self.signal.wake();
        }
    }
}
