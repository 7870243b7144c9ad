//! Where a link's descriptor is registered: with the I/O thread, or with the socket's poll set once a caller has
//! waited in the socket. The descriptor of a link that closes returns to the I/O thread.

use std::sync::Arc;

use pinnace_sys::Errno;
use pinnace_sys::poll::Interest;

use super::{Link, Stream};

/// The descriptor's registration, and the events of interest.
pub(super) struct FdRegistration {
    pub(super) stream: Option<Arc<Stream>>,
    by: RegisteredWith,
    pub(super) read: bool,
    pub(super) write: bool,
}

/// Where a link's descriptor is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RegisteredWith {
    Nobody,
    /// The I/O thread's poller, until a caller waits in the socket.
    Io,
    /// The socket's poll set.
    PollSet,
    /// The I/O thread's poller, edge-triggered, since the link closes.
    Closing,
}

impl FdRegistration {
    pub(super) fn new(stream: Arc<Stream>) -> FdRegistration {
        FdRegistration { stream: Some(stream), by: RegisteredWith::Nobody, read: true, write: false }
    }

    fn interest(&self) -> Option<Interest> {
        let local = self.stream.as_ref().and_then(|stream| stream.local());
        match (self.read, self.write) {
            (true, _) if local.is_some_and(|local| local.whole().is_some()) => Some(Interest::READ_EDGE),
            (true, _) if local.is_some_and(|local| local.reader().is_some()) => Some(Interest::ALL_EDGE),
            (true, true) => Some(Interest::BOTH),
            (true, false) => Some(Interest::READ),
            (false, true) => Some(Interest::WRITE),
            (false, false) => None,
        }
    }
}

impl Link {
    /// Registers its descriptor.
    pub(crate) fn register(&self, token: u64) -> Result<(), Errno> {
        let mut registration = self.registration.lock();
        // A caller may have used the link before this, and found it blocked, stalled or broken. The token is set even
        // for a broken link, which is found and removed by it.
        let _ = self.token.set(token);
        if self.is_broken() {
            return Ok(());
        }
        if let Some(interest) = registration.interest() {
            self.add_to_poller(&mut registration, interest)?;
        }
        Ok(())
    }

    /// Registers the descriptor, which is not registered anywhere.
    fn add_to_poller(&self, registration: &mut FdRegistration, interest: Interest) -> Result<(), Errno> {
        let (Some(stream), Some(&token)) = (&registration.stream, self.token.get()) else { return Ok(()) };
        registration.by = match self.mailbox.poll_set() {
            Some(set) => set.poller.add(stream, token, interest).map(|()| RegisteredWith::PollSet)?,
            None => self.io.poller().add(stream, self.io_token, interest).map(|()| RegisteredWith::Io)?,
        };
        Ok(())
    }

    /// Moves the descriptor from the I/O thread to the socket's new poll set. Without memory for that the I/O thread
    /// keeps it.
    pub(crate) fn enter_poll_set(&self) {
        let mut registration = self.registration.lock();
        let (Some(set), Some(&token)) = (self.mailbox.poll_set(), self.token.get()) else { return };
        if let (RegisteredWith::Io, Some(interest), Some(stream)) =
            (registration.by, registration.interest(), &registration.stream)
            && set.poller.add(stream, token, interest).is_ok()
        {
            let _ = self.io.poller().remove(stream);
            registration.by = RegisteredWith::PollSet;
        }
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.token.get().copied()
    }

    /// Changes the events of interest.
    pub(super) fn set_interest(&self, change: impl FnOnce(&mut FdRegistration)) {
        let mut locked = self.registration.lock();
        let registration = &mut *locked;
        let before = (registration.read, registration.write);
        change(registration);
        if (registration.read, registration.write) != before {
            self.update_registration(registration);
        }
    }

    /// Registers the descriptor again after a switch to shared memory, since its events now mean something else.
    pub(super) fn reregister(&self) {
        let mut registration = self.registration.lock();
        registration.read = true;
        self.update_registration(&mut registration);
    }

    fn update_registration(&self, registration: &mut FdRegistration) {
        let (Some(stream), Some(&token)) = (&registration.stream, self.token.get()) else { return };
        if registration.by == RegisteredWith::Closing || self.is_broken() {
            return;
        }
        if self.mailbox.links() == 1 {
            self.mailbox.wake_leader(); // The leader polls the descriptor itself.
        }
        // A descriptor registered for no event would report a hang-up forever.
        let Some(interest) = registration.interest() else { return self.remove_from_poller(registration) };
        // For an open descriptor of ours these calls fail only for want of memory. Then the I/O thread's tick serves
        // the link.
        let _ = match (registration.by, self.mailbox.poll_set()) {
            (RegisteredWith::PollSet, Some(set)) => set.poller.modify(stream, token, interest),
            (RegisteredWith::Io, _) => self.io.poller().modify(stream, self.io_token, interest),
            (RegisteredWith::Nobody | RegisteredWith::PollSet, _) => {
                self.add_to_poller(registration, interest)
            }
            (RegisteredWith::Closing, _) => Ok(()),
        };
    }

    /// Registers the closing link's descriptor with the I/O thread, for every change. False: there is no memory for
    /// that.
    pub(super) fn watch_closing(&self) -> bool {
        let mut registration = self.registration.lock();
        let Some(stream) = registration.stream.clone().filter(|_| registration.by != RegisteredWith::Closing)
        else {
            return true;
        };
        self.remove_from_poller(&mut registration);
        let polled = self.io.poller().add(&stream, self.io_token, Interest::ALL_EDGE).is_ok();
        if polled {
            registration.by = RegisteredWith::Closing;
        }
        polled
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.registration.lock().by == RegisteredWith::Closing
    }

    /// The stream and the events to poll, for a caller that waits for this link alone. None: nothing to poll.
    pub(crate) fn polled(&self) -> Option<(Arc<Stream>, Interest)> {
        let registration = self.registration.lock();
        registration.stream.clone().filter(|_| !self.is_broken()).zip(registration.interest())
    }

    fn remove_from_poller(&self, registration: &mut FdRegistration) {
        let Some(stream) = &registration.stream else { return };
        let _ = match (registration.by, self.mailbox.poll_set()) {
            (RegisteredWith::PollSet, Some(set)) => set.poller.remove(stream),
            (RegisteredWith::Io | RegisteredWith::Closing, _) => self.io.poller().remove(stream),
            (RegisteredWith::Nobody | RegisteredWith::PollSet, _) => Ok(()),
        };
        registration.by = RegisteredWith::Nobody;
    }

    /// Removes the descriptor from its poller.
    pub(crate) fn leave_poller(&self) {
        self.remove_from_poller(&mut self.registration.lock());
    }
}
