//! The end of a client: draining, closing, dropping.
//!
//! Draining stops deliveries; sending continues. A closed client does nothing. A handler that hangs cannot delay either
//! beyond the deadline: its thread is detached, and its delivery keeps the registration alive, so that a late
//! acknowledgement still counts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Client;
use crate::Error;
use crate::environment::now;
use crate::registry::Lasting;
use crate::signal::{Patience, Signal};

/// Whether a client has ended, with a signal for that.
#[derive(Default)]
pub(super) struct End {
    phase: Mutex<Phase>,
    reached: Signal,
    /// It has left its registry.
    left: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Open,
    /// A thread ends it.
    Ending,
    Ended,
}

impl End {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let mut phase = self.phase();
        while *phase != Phase::Ended {
            phase = self.reached.wait(phase, None).unwrap_or_else(|| self.phase());
        }
    }
}

impl Client {
    /// How many received messages are in hand: with a handler or a [`Delivery`](super::Delivery), and not settled.
    pub fn in_hand(&self) -> usize {
        self.inbox.in_hand()
    }

    /// Stops receiving, for good: calls that wait for a message, now or later, return Closed. Sending and settling
    /// continue, so handlers can send their results. Then waits until
    ///
    /// - every delivery in hand is settled ([`in_hand`](Self::in_hand) is their number),
    /// - what was acknowledged is on the disk,
    /// - messages of [`Durability::Memory`](super::Durability::Memory) are acknowledged ([`pending`](Self::pending)
    ///   counts them among others).
    ///
    /// A handler may call it: the message that it has itself is not waited for, nor those of other handlers that wait
    /// here or in [`close`](Self::close).
    ///
    /// Errors: TimedOut at the deadline, and it can be called again; Failed; Closed.
    pub fn drain(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.inbox.close();
        self.check_open()?;
        let (patience, client) = (self.patience(deadline), self.record.number);
        self.wait_result(self.inbox.wait_settled(patience))?;
        if !self.inbox.wait_recorded(patience) {
            self.instance.store.log().progress()?;
            return self.wait_result(false);
        }
        self.wait_result(self.instance.store.wait_for_held(client, patience))
    }

    /// Drains the client until the deadline, then ends it in any case: it gives its name back, and other calls return
    /// Closed. It takes no longer than the deadline, and 2 s for a registry that does not answer, and 1 s for the last
    /// acknowledgements.
    ///
    /// A handler that still runs is left alone: its thread goes on, and an acknowledgement counts as long as no client
    /// of the same name is started in this process. The store is closed when the last delivery is settled and the
    /// client is dropped.
    ///
    /// Any thread may call it, several times. Called from a handler, it does not wait for that handler's own message,
    /// nor for a concurrent close on another thread. Called after the client has ended, it waits for the deliveries in
    /// hand that are left.
    ///
    /// Errors: TimedOut, deliveries in hand were not settled, or messages in memory not acknowledged, which are lost;
    /// Failed, what was acknowledged may not be on the disk, and may be delivered again.
    pub fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        let drained = self.drain(deadline);
        self.end();
        match drained {
            Err(Error::Closed) => {
                self.inbox.wait_settled(deadline.into()).then_some(()).ok_or(Error::TimedOut)
            }
            drained => drained,
        }
    }

    /// For the C interface: ends the waits for messages, room and acknowledgements with Closed, and all later ones.
    #[doc(hidden)]
    pub fn stop(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.instance.store.wake_waiters();
        // Waiters check `closed` under this lock: none misses the wake-up.
        drop(self.routes.lock());
        self.members_changed.tell();
        self.inbox.close();
    }

    /// For the C interface.
    #[doc(hidden)]
    pub fn handler_linger(&self) -> Duration {
        self.handler_linger
    }

    /// For the C interface: ends the client as dropping it does, with a limit of time for its handlers. Returns false
    /// if a handler still runs.
    #[doc(hidden)]
    pub fn end_lingering(&self, handlers_until: Instant) -> bool {
        if *self.end.phase() == Phase::Open {
            self.instance.store.wait_for_held(self.record.number, Some(now() + self.linger));
            self.leave_registry();
            self.inbox.close();
        }
        let done = self.inbox.wait_handlers(Some(handlers_until).into());
        self.end();
        done
    }

    /// Ends the client, or waits until the thread that does so has finished.
    fn end(&self) {
        let mut phase = self.end.phase();
        match *phase {
            Phase::Open => *phase = Phase::Ending,
            // The other thread may wait for this one.
            Phase::Ending if self.inbox.is_thread_handling(thread::current().id()) => return,
            Phase::Ending | Phase::Ended => {
                drop(phase);
                return self.end.wait();
            }
        }
        drop(phase);
        self.stop();
        drop(self.metrics.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.instance.store.forget_held(self.record.number);
        self.leave_registry();
        self.join_handlers();
        self.registration.close();
        self.reports.end();
        *self.end.phase() = Phase::Ended;
        self.end.reached.tell();
    }

    fn leave_registry(&self) {
        let Some(watch) = self.watch.as_ref().filter(|_| !self.end.left.swap(true, Ordering::Relaxed)) else {
            return;
        };
        if let Some(id) = self.observer {
            return watch.unobserve(id);
        }
        // Waits for a concurrent change of the topics; later ones see that the client is closed.
        let lasting = self.entry.lock().unwrap_or_else(PoisonError::into_inner).lasting;
        watch.leave(&self.record.name, self.record.id, lasting == Lasting::Durable);
    }

    /// Joins the threads of `listen` that have no message. They get none any more, so they end at once. The others are
    /// detached.
    fn join_handlers(&self) {
        let handlers = std::mem::take(&mut *self.handlers.lock().unwrap_or_else(PoisonError::into_inner));
        let own = thread::current().id();
        for handler in handlers {
            let id = handler.thread().id();
            if id != own && !self.inbox.is_thread_handling(id) {
                // A thread that panicked has printed its message already.
                let _ = handler.join();
            }
        }
    }

    /// Until the deadline, or until the client is closed.
    pub(super) fn patience(&self, until: Option<Instant>) -> Patience<'_> {
        Patience { until, called_off: Some(&self.closed) }
    }

    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Ok if the wait was completed, otherwise Closed or TimedOut.
    pub(super) fn wait_result(&self, done: bool) -> Result<(), Error> {
        if done {
            return Ok(());
        }
        self.check_open()?;
        Err(Error::TimedOut)
    }
}

impl Drop for Client {
    /// Logs what was handled. Messages on the disk stay; messages in memory have [`Builder::linger`] to be
    /// acknowledged. A handler that runs has [`Builder::handler_linger`] to return, and is left alone then. Deliveries
    /// in hand can still be acknowledged, until a client of this name is started in this process; the store stays open
    /// as long.
    ///
    /// [`Builder::linger`]: super::Builder::linger
    /// [`Builder::handler_linger`]: super::Builder::handler_linger
    fn drop(&mut self) {
        // An explicit close has waited for handlers.
        if *self.end.phase() == Phase::Open {
            self.end_lingering(now() + self.handler_linger);
        }
    }
}
