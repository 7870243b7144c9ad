//! Waiting in a socket, with no lock held: the caller serves the socket's connections meanwhile, and is woken
//! by its mail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_ring::Unnotified;
use pinnace_sys::Errno;
use pinnace_sys::poll::Ready;

use super::Core;
use crate::error::Error;
use crate::hub::Hub;
use crate::link::ReadOutcome;
use crate::reactor::Io;

/// Waits for news of one socket.
pub(crate) struct Waiter {
    hub: Arc<Hub>,
    io: Arc<Io>,
    ready: Vec<Ready>,
}

impl Waiter {
    pub(crate) fn new(core: &Core) -> Waiter {
        Waiter::of(core.hub.clone(), core.io.clone())
    }

    pub(crate) fn of(hub: Arc<Hub>, io: Arc<Io>) -> Waiter {
        Waiter { hub, io, ready: Vec::new() }
    }

    /// Writes what callers have left behind.
    pub(crate) fn flush(&self) {
        self.hub.for_each_link(|link| link.flush_gathered());
    }

    /// Reads without being told that there is something, where that has paid off lately. True: there was
    /// something.
    pub(crate) fn read_eagerly(&self) -> bool {
        let Some(link) = self.hub.only_link() else { return false };
        if self.hub.has_descriptor() || !link.reading_pays() || !self.hub.lease.enter(&self.io, &self.hub) {
            return false;
        }
        let outcome = link.try_read();
        self.hub.lease.leave(&self.io, &self.hub);
        outcome == ReadOutcome::Some
    }

    /// Serves what is ready, where callers watch the connections; else the I/O thread has done so.
    pub(crate) fn serve_if_ours(&mut self) -> Result<(), Error> {
        let Some(set) = self.hub.poll_set() else { return Ok(()) };
        if !self.hub.lease.is_taken() || !self.hub.lease.enter(&self.io, &self.hub) {
            return Ok(());
        }
        let outcome = set.poller.wait(&mut self.ready, Some(Duration::ZERO));
        self.hub.serve(&self.ready);
        self.hub.lease.leave(&self.io, &self.hub);
        match outcome {
            Err(Errno::INTR) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Looks for mail for a few microseconds, with growing pauses, so that a peer in the same process that is about to send needs
    /// no system call, and what it sends meanwhile comes as a batch. How long, past success decides; never on a single processor.
    fn spin(&self) -> bool {
        let rounds = self.hub.spin.rounds();
        for round in 0..rounds {
            for _ in 0..1u32 << round {
                std::hint::spin_loop();
            }
            if self.hub.has_mail() {
                self.hub.spin.paid();
                return true;
            }
        }
        self.hub.spin.failed(rounds);
        false
    }

    /// Waits until there may be something new. WouldBlock: the deadline has come; Interrupted: a signal was
    /// handled.
    pub(crate) fn wait(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        if self.hub.poll_set().is_none() && self.spin() {
            return Ok(());
        }
        let ticket = self.hub.event.listen();
        if self.hub.has_mail() {
            self.hub.event.cancel(ticket);
            return Ok(());
        }
        let set = self.hub.poll_set().filter(|_| !self.hub.has_descriptor());
        let Some(set) = set.filter(|_| self.hub.lease.enter(&self.io, &self.hub)) else {
            return match self.hub.event.wait(ticket, deadline) {
                Ok(()) => Ok(()),
                Err(Unnotified::TimedOut) => Err(Error::WouldBlock),
                Err(Unnotified::Interrupted) => Err(Error::Interrupted),
            };
        };
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let outcome = set.poller.wait(&mut self.ready, timeout);
        self.hub.event.cancel(ticket);
        self.hub.serve(&self.ready);
        self.hub.lease.leave(&self.io, &self.hub);
        outcome?;
        let late = self.ready.is_empty() && deadline.is_some_and(|deadline| deadline <= Instant::now());
        if late && !self.hub.has_mail() { Err(Error::WouldBlock) } else { Ok(()) }
    }
}
