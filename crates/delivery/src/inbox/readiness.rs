//! The descriptor by which an event loop learns that a message may be ready.
//!
//! It is an eventfd: readable from the first message that is ready until a receiver finds none. While messages are
//! left, neither an arrival nor a receive makes a system call for it. It is signalled and cleared under the inbox's
//! lock, so that it never stays readable without a message, nor unreadable with one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use pinnace_sys::wake::WakeFd;

use super::{Inbox, Waiting};
use crate::Error;

/// The state of an inbox's descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Readiness {
    /// No descriptor was asked for.
    #[default]
    Absent,
    /// A receiver found no message. The peer loop watches the time for messages that become due.
    Clear,
    Readable,
}

impl Inbox {
    /// The descriptor; the first call creates it. Error: Io.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        let mut state = self.lock();
        let descriptor = match self.descriptor.get() {
            Some(descriptor) => descriptor,
            None => {
                let made = WakeFd::new().map_err(|error| Error::Io(io::Error::from(error).kind()))?;
                // The first receive finds out whether there is a message, and when the next one is due.
                made.signal();
                state.readiness = Readiness::Readable;
                self.descriptor.get_or_init(|| made)
            }
        };
        Ok(descriptor.as_fd())
    }

    /// Makes the descriptor readable if a message may be ready, or the inbox is closed.
    pub(super) fn signal_descriptor(&self, state: &mut Waiting) {
        if state.readiness != Readiness::Clear {
            return;
        }
        if state.closed || state.is_ready() {
            state.readiness = Readiness::Readable;
            self.descriptor.get().into_iter().for_each(WakeFd::signal);
        }
    }

    /// Has the peer loop watch the time for the descriptor, after a message was put off or has failed. Not called by
    /// the peer loop itself, which would wake itself again and again.
    pub(super) fn watch_for_descriptor(&self, state: &Waiting) {
        if state.readiness == Readiness::Clear && !(state.later.is_empty() && state.resting.is_empty()) {
            (self.tell)();
        }
    }

    /// No message is ready; `due`: when one may become ready by itself.
    pub(super) fn clear_descriptor(&self, state: &mut Waiting, due: Option<Instant>) {
        if state.readiness == Readiness::Absent {
            return;
        }
        if state.readiness == Readiness::Readable {
            self.descriptor.get().into_iter().for_each(WakeFd::clear);
            state.readiness = Readiness::Clear;
        }
        if due.is_some() {
            // The peer loop must watch the time for the descriptor.
            (self.tell)();
        }
    }
}
