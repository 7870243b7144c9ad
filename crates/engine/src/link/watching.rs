//! Who watches a link's descriptor: the I/O thread by itself, or whoever watches the socket's poll set, which is there
//! once a caller has waited in the socket. A link that closes is the I/O thread's again.

use std::sync::Arc;

use pinnace_sys::Errno;
use pinnace_sys::poll::Interest;

use super::{Link, Stream};

/// Who watches the descriptor, and for what.
pub(super) struct Watching {
    pub(super) stream: Option<Arc<Stream>>,
    by: Watcher,
    pub(super) read: bool,
    pub(super) write: bool,
}

/// Who watches a link's descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watcher {
    Nobody,
    /// The I/O thread, as long as no caller has waited in the socket.
    Io,
    /// Whoever watches the socket's poll set.
    PollSet,
    /// The I/O thread, for each change, since the link closes.
    Closing,
}

impl Watching {
    pub(super) fn new(stream: Arc<Stream>) -> Watching {
        Watching { stream: Some(stream), by: Watcher::Nobody, read: true, write: false }
    }

    fn interest(&self) -> Option<Interest> {
        let local = self.stream.as_ref().and_then(|stream| stream.local());
        match (self.read, self.write) {
            (true, _) if local.is_some_and(|local| local.whole().is_some()) => Some(Interest::NEWS),
            (true, _) if local.is_some_and(|local| local.reader().is_some()) => Some(Interest::CHANGES),
            (true, true) => Some(Interest::BOTH),
            (true, false) => Some(Interest::READ),
            (false, true) => Some(Interest::WRITE),
            (false, false) => None,
        }
    }
}

impl Link {
    /// Has its descriptor watched from now on.
    pub(crate) fn register(&self, token: u64) -> Result<(), Errno> {
        let mut watching = self.watching.lock();
        // A caller may have used the link before this, and found it blocked, stalled or broken. By its token it is
        // found and taken out again, broken or not.
        let _ = self.token.set(token);
        if self.is_broken() {
            return Ok(());
        }
        if let Some(interest) = watching.interest() {
            self.have_watched(&mut watching, interest)?;
        }
        Ok(())
    }

    /// Registers the descriptor, which nobody watches.
    fn have_watched(&self, watching: &mut Watching, interest: Interest) -> Result<(), Errno> {
        let (Some(stream), Some(&token)) = (&watching.stream, self.token.get()) else { return Ok(()) };
        watching.by = match self.hub.poll_set() {
            Some(set) => set.poller.add(stream, token, interest).map(|()| Watcher::PollSet)?,
            None => self.io.poller().add(stream, self.io_token, interest).map(|()| Watcher::Io)?,
        };
        Ok(())
    }

    /// The socket has a poll set now: it takes the descriptor over from the I/O thread. Without memory for that the I/O
    /// thread goes on.
    pub(crate) fn enter_poll_set(&self) {
        let mut watching = self.watching.lock();
        let (Some(set), Some(&token)) = (self.hub.poll_set(), self.token.get()) else { return };
        if let (Watcher::Io, Some(interest), Some(stream)) =
            (watching.by, watching.interest(), &watching.stream)
            && set.poller.add(stream, token, interest).is_ok()
        {
            let _ = self.io.poller().remove(stream);
            watching.by = Watcher::PollSet;
        }
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.token.get().copied()
    }

    /// Has the descriptor watched for something else from now on.
    pub(super) fn watch_for(&self, change: impl FnOnce(&mut Watching)) {
        let mut locked = self.watching.lock();
        let watching = &mut *locked;
        let before = (watching.read, watching.write);
        change(watching);
        if (watching.read, watching.write) != before {
            self.rewatch(watching);
        }
    }

    /// The link has switched to memory: what its descriptor tells of is something else from now on.
    pub(super) fn watch_anew(&self) {
        let mut watching = self.watching.lock();
        watching.read = true;
        self.rewatch(&mut watching);
    }

    fn rewatch(&self, watching: &mut Watching) {
        let (Some(stream), Some(&token)) = (&watching.stream, self.token.get()) else { return };
        if watching.by == Watcher::Closing || self.is_broken() {
            return;
        }
        if self.hub.links() == 1 {
            self.hub.wake_leader(); // It polls the descriptor itself.
        }
        // A descriptor with nothing to look for would still report a hang-up, for ever.
        let Some(interest) = watching.interest() else { return self.have_unwatched(watching) };
        // None fails for a descriptor that is ours and open, but for want of memory; then the I/O thread's
        // tick serves.
        let _ = match (watching.by, self.hub.poll_set()) {
            (Watcher::PollSet, Some(set)) => set.poller.modify(stream, token, interest),
            (Watcher::Io, _) => self.io.poller().modify(stream, self.io_token, interest),
            (Watcher::Nobody | Watcher::PollSet, _) => self.have_watched(watching, interest),
            (Watcher::Closing, _) => Ok(()),
        };
    }

    /// The link closes: the I/O thread is told of each change of its descriptor. False: there is no memory for that.
    pub(super) fn watch_changes(&self) -> bool {
        let mut watching = self.watching.lock();
        let Some(stream) = watching.stream.clone().filter(|_| watching.by != Watcher::Closing) else {
            return true;
        };
        self.have_unwatched(&mut watching);
        let watched = self.io.poller().add(&stream, self.io_token, Interest::CHANGES).is_ok();
        if watched {
            watching.by = Watcher::Closing;
        }
        watched
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.watching.lock().by == Watcher::Closing
    }

    /// What a caller polls that waits for this link alone; None: nothing.
    pub(crate) fn watched(&self) -> Option<(Arc<Stream>, Interest)> {
        let watching = self.watching.lock();
        watching.stream.clone().filter(|_| !self.is_broken()).zip(watching.interest())
    }

    fn have_unwatched(&self, watching: &mut Watching) {
        let Some(stream) = &watching.stream else { return };
        let _ = match (watching.by, self.hub.poll_set()) {
            (Watcher::PollSet, Some(set)) => set.poller.remove(stream),
            (Watcher::Io | Watcher::Closing, _) => self.io.poller().remove(stream),
            (Watcher::Nobody | Watcher::PollSet, _) => Ok(()),
        };
        watching.by = Watcher::Nobody;
    }

    /// Nobody watches the descriptor from now on.
    pub(crate) fn leave_watcher(&self) {
        self.have_unwatched(&mut self.watching.lock());
    }
}
