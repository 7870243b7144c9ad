//! A level-triggered descriptor: readable exactly while its socket is ready. Unlike ZMQ_FD it works in any event
//! loop, without knowledge of ZeroMQ's rules.
//!
//! Each call on the socket updates the descriptor before it returns, and the I/O thread updates it when there are
//! notices. A system call is made only if the state has changed.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pinnace_sys::RawFd;
use pinnace_sys::wake::WakeFd;

use super::{Core, Socket};
use crate::error::{Error, Invalid};
use crate::readiness::{POLLIN, POLLOUT};

/// The descriptors of a socket, one for each requested set of events.
#[derive(Default)]
pub(super) struct Levels(Vec<Level>);

struct Level {
    events: i16,
    fd: Arc<WakeFd>,
    readable: bool,
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
            return Err(Error::Invalid(Invalid::Events));
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
    pub(super) fn refresh_levels(&mut self) {
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
