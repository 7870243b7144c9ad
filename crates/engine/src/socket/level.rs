//! A descriptor that is readable exactly while its socket is ready: level-triggered, unlike ZMQ_FD, so that any event
//! loop can watch it without knowing the rules of sockets.
//!
//! Each call on the socket looks at its end whether the descriptor still says the truth, and the I/O thread looks
//! whenever there is mail. A system call is made only where the answer has changed.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Weak};

use pinnace_sys::RawFd;
use pinnace_sys::wake::WakeFd;

use super::options::{POLLIN, POLLOUT};
use super::{Core, Socket};
use crate::error::Error;
use crate::hub::Hub;
use crate::reactor::{Command, Io};

/// The descriptors of a socket, one for each set of events that was asked for.
#[derive(Default)]
pub(super) struct Levels(Vec<Level>);

struct Level {
    events: i16,
    fd: Arc<WakeFd>,
    readable: bool,
}

/// Has the I/O thread look after a socket's descriptors, and wake its tasks, when there is mail.
pub(crate) struct Watcher {
    io: Arc<Io>,
    hub: Weak<Hub>,
    asked: AtomicBool,
    /// There are descriptors.
    levels: AtomicBool,
}

impl Watcher {
    /// There is mail.
    pub(crate) fn look(&self) {
        fence(Ordering::SeqCst); // The mail first: who looks because of this finds it.
        if !self.asked.swap(true, Ordering::SeqCst)
            && let Some(hub) = self.hub.upgrade()
        {
            self.io.send(Command::Look(hub));
        }
    }
}

/// A descriptor that is readable while the socket is ready. It stays open for as long as this lives.
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
    /// A descriptor that is readable while a message can be received (POLLIN) or sent (POLLOUT), or either of both;
    /// it is the socket's, and closed with it.
    pub fn level_descriptor(self, events: i16) -> Result<RawFd, Error> {
        self.level(events).map(|level| level.0.raw())
    }

    /// As `level_descriptor`, for who keeps it open: once the socket is closed it says nothing more.
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
            core.hub.watch(&core.io).levels.store(true, Ordering::SeqCst);
            Ok(LevelFd(fd))
        })
    }
}

impl Core {
    /// Makes the descriptors say what is so.
    #[cold]
    pub(super) fn settle_levels(&mut self) {
        let mut ready = 0;
        // A call on a socket whose context has ended does not wait: whoever watches has to learn of it.
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

impl Hub {
    /// From now on the I/O thread is told of mail.
    pub(super) fn watch(self: &Arc<Hub>, io: &Arc<Io>) -> &Watcher {
        self.level_watcher.get_or_init(|| Watcher {
            io: io.clone(),
            hub: Arc::downgrade(self),
            asked: AtomicBool::new(false),
            levels: AtomicBool::new(false),
        })
    }

    /// The I/O thread's look.
    pub(crate) fn look(&self) {
        let Some(watcher) = self.level_watcher.get() else { return };
        watcher.asked.store(false, Ordering::SeqCst);
        if watcher.levels.load(Ordering::SeqCst)
            && let Some(socket) = self.socket()
        {
            // A call settles them at its end; news may be all there is to it.
            let _ = socket.call(false, |_| Ok(()));
        }
        self.wakers.wake();
    }
}
