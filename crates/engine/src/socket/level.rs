//! A level-triggered descriptor: readable exactly while its socket is ready. Unlike ZMQ_FD it works in any event
//! loop, without knowledge of ZeroMQ's rules.
//!
//! Each call on the socket updates the descriptor before it returns, and the I/O thread updates it when there are
//! notices. A system call is made only if the state has changed.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Weak};

use pinnace_sys::RawFd;
use pinnace_sys::wake::WakeFd;

use super::{Core, Socket};
use crate::error::Error;
use crate::mailbox::Mailbox;
use crate::reactor::{Command, Io};
use crate::readiness::{POLLIN, POLLOUT};

/// The descriptors of a socket, one for each requested set of events.
#[derive(Default)]
pub(super) struct Levels(Vec<Level>);

struct Level {
    events: i16,
    fd: Arc<WakeFd>,
    readable: bool,
}

/// Has the I/O thread update a socket's descriptors and wake its tasks when there are notices.
pub(crate) struct LevelWatcher {
    io: Arc<Io>,
    mailbox: Weak<Mailbox>,
    asked: AtomicBool,
    /// The socket has descriptors.
    levels: AtomicBool,
}

impl LevelWatcher {
    /// A notice was posted.
    pub(crate) fn look(&self) {
        fence(Ordering::SeqCst); // The notice first: the look that this requests, or one already requested, finds it.
        if !self.asked.swap(true, Ordering::SeqCst)
            && let Some(mailbox) = self.mailbox.upgrade()
        {
            self.io.send(Command::Look(mailbox));
        }
    }
}

/// A descriptor that is readable while the socket is ready. It stays open for as long as this value lives.
#[derive(Clone)]
pub struct LevelFd(Arc<WakeFd>);

impl AsFd for LevelFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for LevelFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.raw()
    }
}

impl Levels {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Socket {
    /// A descriptor that is readable while a message can be received (POLLIN) or sent (POLLOUT), or either. The
    /// socket owns it and closes it.
    pub fn level_descriptor(self, events: i16) -> Result<RawFd, Error> {
        self.level(events).map(|level| level.0.raw())
    }

    /// As `level_descriptor`, for callers that keep it open. It does not change after the socket is closed.
    pub fn level(self, events: i16) -> Result<LevelFd, Error> {
        if events == 0 || events & !(POLLIN | POLLOUT) != 0 {
            return Err(Error::Invalid);
        }
        self.call(false, |core| {
            if let Some(level) = core.levels.0.iter().find(|level| level.events == events) {
                return Ok(LevelFd(level.fd.clone()));
            }
            core.enter_reactor()?;
            let fd = Arc::new(WakeFd::new()?);
            core.levels.0.push(Level { events, fd: fd.clone(), readable: false });
            core.mailbox.level_watcher_of(&core.io).levels.store(true, Ordering::SeqCst);
            Ok(LevelFd(fd))
        })
    }
}

impl Core {
    /// Updates the descriptors to the socket's state.
    #[cold]
    pub(super) fn settle_levels(&mut self) {
        let mut ready = 0;
        // After termination no call blocks, and watchers have to make one to learn of it.
        if self.stopped || self.pattern.can_recv(&mut self.pipes) {
            ready |= POLLIN;
        }
        if self.stopped || self.pattern.can_send(&mut self.pipes) {
            ready |= POLLOUT;
        }
        for level in &mut self.levels.0 {
            let readable = ready & level.events != 0;
            if readable != level.readable {
                level.readable = readable;
                if readable { level.fd.signal() } else { level.fd.clear() }
            }
        }
    }
}

impl Mailbox {
    /// The I/O thread is asked to look at each notice from now on.
    pub(super) fn level_watcher_of(self: &Arc<Mailbox>, io: &Arc<Io>) -> &LevelWatcher {
        self.level_watcher.get_or_init(|| LevelWatcher {
            io: io.clone(),
            mailbox: Arc::downgrade(self),
            asked: AtomicBool::new(false),
            levels: AtomicBool::new(false),
        })
    }

    /// Called by the I/O thread: updates the descriptors and wakes the tasks.
    pub(crate) fn look(&self) {
        let Some(watcher) = self.level_watcher.get() else { return };
        watcher.asked.store(false, Ordering::SeqCst);
        if watcher.levels.load(Ordering::SeqCst)
            && let Some(socket) = self.socket()
        {
            // Handles the notices and updates the descriptors.
            let _ = socket.call(false, |_| Ok(()));
        }
        self.wakers.wake();
    }
}
