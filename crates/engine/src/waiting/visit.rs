//! The visits of a caller that waits for several sockets at once, and its sleep.

use std::sync::Arc;

use pinnace_ring::Ticket;
use pinnace_sys::poll::Batch;
use pinnace_sys::sleep::{Sleep, Slept};
use pinnace_sys::wake::WakeFd;
use smallvec::SmallVec;

use super::pending_sleep;
use crate::error::Error;
use crate::mailbox::{Mailbox, PollSet};

/// A caller's stay in one socket; ends when this is dropped.
pub(crate) struct Visit {
    pub(crate) mailbox: Arc<Mailbox>,
    wake: Arc<WakeFd>,
    ticket: Option<Ticket>,
    /// The caller owns the socket's poll set. Otherwise the I/O thread serves the connections, if any.
    entered: bool,
}

impl Visit {
    pub(crate) fn enter(mailbox: Arc<Mailbox>, wake: &Arc<WakeFd>) -> Visit {
        mailbox.pollers.add_call(wake);
        let ticket = Some(mailbox.event.listen());
        let entered = mailbox
            .open_poll_set()
            .is_some_and(|set| mailbox.ownership.enter_and_pause_io(&set.io, &mailbox));
        Visit { mailbox, wake: wake.clone(), ticket, entered }
    }

    /// The poll set to wait in.
    pub(crate) fn entered(&self) -> Option<(&Mailbox, &PollSet)> {
        self.mailbox.poll_set().filter(|_| self.entered).map(|set| (&*self.mailbox, set))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.mailbox.event.cancel(ticket);
        }
        self.mailbox.pollers.remove_call(&self.wake);
        if let Some((_, set)) = self.entered() {
            self.mailbox.ownership.leave(&set.io, &self.mailbox);
        }
    }
}

/// The visits of one call.
pub(crate) type Visits = SmallVec<[Visit; 4]>;

/// The prepared sleep of a caller that waits for several sockets and descriptors.
pub(crate) struct PollSleep {
    pub(crate) visits: Visits,
    pub(crate) sleep: Sleep,
}

impl PollSleep {
    /// Serves the ready connections. Dropping this value ends the visits.
    pub(crate) fn end(self, slept: Slept) -> Result<(), Error> {
        if slept != Slept::TimedOut {
            pending_sleep::outcome(slept)?;
        }
        let mut ready = Batch::new();
        for (index, (mailbox, set)) in self.visits.iter().filter_map(Visit::entered).enumerate() {
            if self.sleep.revents(index) != 0 && set.poller.ready(&mut ready).is_ok() {
                mailbox.serve(&ready, false);
            }
        }
        Ok(())
    }
}
