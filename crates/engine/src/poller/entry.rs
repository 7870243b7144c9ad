//! An entry of a poller, and how it reports that something may have changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI16, Ordering, fence};

use pinnace_sys::poll::{Batch, Foreign, Interest};

use super::{PollTarget, PollerEvent};
use crate::error::Error;
use crate::mailbox::Mailbox;
use crate::readiness::{POLLIN, POLLOUT, POLLPRI};
use crate::waiting::{PollerRegistration, PollerShared};

pub(super) struct PollerEntry<T> {
    pub(super) what: PollTarget,
    pub(super) token: u64,
    pub(super) events: AtomicI16,
    pub(super) data: T,
    pub(super) registration: Arc<PollerRegistration>,
    pub(super) of_socket: Option<OfSocket>,
    /// The descriptor, or the socket's poll set, is in the epoll set.
    pub(super) joined: AtomicBool,
}

pub(super) struct OfSocket {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) thread_safe: bool,
}

impl<T> PollerEntry<T> {
    pub(super) fn events(&self) -> i16 {
        self.events.load(Ordering::Relaxed)
    }

    pub(super) fn fd(&self) -> Option<Foreign> {
        match self.what {
            PollTarget::Fd(fd) => Foreign::new(fd),
            PollTarget::Socket(_) => None,
        }
    }

    /// The events that the entry is ready for. The next change is reported again.
    pub(super) fn look(&self, shared: &PollerShared) -> Result<i16, Error> {
        self.registration.is_listed.swap(false, Ordering::SeqCst);
        fence(Ordering::SeqCst); // A change that was not reported, because `is_listed` was set, is found below.
        match self.what {
            // On the list only if epoll refuses it: a regular file, which is always ready.
            PollTarget::Fd(_) => Ok(self.events() & (POLLIN | POLLOUT)),
            PollTarget::Socket(_) if self.events() == 0 => Ok(0),
            PollTarget::Socket(socket) => {
                self.join(shared);
                Ok(socket.events()? & self.events())
            }
        }
    }

    /// Adds the socket's poll set to the epoll set, once there is one.
    pub(super) fn join(&self, shared: &PollerShared) {
        if let Some(of) = &self.of_socket
            && !self.joined.load(Ordering::Relaxed)
            && let Some(set) = of.mailbox.open_poll_set()
            && !self.joined.swap(true, Ordering::Relaxed)
        {
            // If this fails for lack of memory, the I/O thread serves the connections.
            let _ = shared.set.add(&set.poller, self.token, Interest::READ);
        }
    }

    /// Serves the socket's ready connections.
    pub(super) fn serve(&self, shared: &PollerShared) {
        let Some(of) = &self.of_socket else { return };
        let Some(set) = of.mailbox.poll_set() else { return };
        if of.mailbox.is_closed() {
            let _ = shared.set.remove(&set.poller);
            return;
        }
        let entered =
            !of.mailbox.has_descriptor() && of.mailbox.ownership.enter_and_pause_io(&set.io, &of.mailbox);
        let mut ready = Batch::new();
        if set.poller.ready(&mut ready).is_ok() {
            of.mailbox.serve(&ready, false);
        }
        if entered {
            of.mailbox.ownership.leave(&set.io, &of.mailbox);
        }
    }

    /// Unregisters the entry.
    pub(super) fn leave(&self, shared: &PollerShared) {
        match (&self.of_socket, self.what) {
            (Some(of), PollTarget::Socket(socket)) => {
                match socket.lock() {
                    // Under the lock: a poller that registers now sets the flag after us.
                    Ok(mut core) => core.has_pollers = of.mailbox.pollers.unregister(&self.registration),
                    Err(_) => drop(of.mailbox.pollers.unregister(&self.registration)),
                }
                if let Some(set) = of.mailbox.poll_set()
                    && self.joined.load(Ordering::Relaxed)
                {
                    let _ = shared.set.remove(&set.poller);
                }
            }
            (_, PollTarget::Fd(fd)) if self.joined.load(Ordering::Relaxed) => {
                let _ = Foreign::new(fd).map(|fd| shared.set.remove(&fd));
            }
            _ => {}
        }
    }
}

impl<T: Clone> PollerEntry<T> {
    pub(super) fn event(&self, events: i16) -> PollerEvent<T> {
        PollerEvent { what: self.what, events, asked: self.events(), data: self.data.clone() }
    }
}

pub(super) fn interest(events: i16) -> Interest {
    Interest::of(events & POLLIN != 0, events & POLLOUT != 0, events & POLLPRI != 0)
}
