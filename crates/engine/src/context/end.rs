//! The end of a context: calls return, sockets are closed, what they accepted is sent as far as their linger and a
//! deadline allow, the I/O threads end. What could not be sent is counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pinnace_ring::{EventCount, Ticket};
use pinnace_sys::fork;
use pinnace_sys::sleep::{Sleep, Slept};

use super::Context;
use crate::drops::{Drops, Reason};
use crate::error::Error;
use crate::hub::{Hub, Mail};
use crate::nap::{self, Nap, Turn};
use crate::reactor::Command;
use crate::socket::Socket;

/// How often to look for sockets that were being made when the deadline came.
const LATE_LOOK: Duration = Duration::from_millis(10);

/// What a context has left behind at its end, over all its sockets and all its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leftover {
    /// Messages that were accepted to be sent, and that neither the kernel nor, over inproc, another socket has taken.
    /// They are in `lost` too: as Expired, Cut or PeerLost.
    pub messages: u64,
    /// Their bytes, with the headers of ZMTP 3; of a message that was cut, those not yet written.
    pub bytes: u64,
    /// All messages that the sockets have lost.
    pub lost: Drops,
    /// Sockets that were still open at the deadline, and were closed then.
    pub open_sockets: u64,
}

impl Context {
    /// Blocked calls on the context's sockets return Terminated, and so does every later one but close.
    pub fn shutdown(&self) -> Result<(), Error> {
        if self.0.fork != fork::generation() {
            return Ok(());
        }
        self.0.terminating.store(true, Ordering::SeqCst);
        for hub in self.hubs() {
            hub.post(Mail::Stop);
        }
        Ok(())
    }

    /// Shuts down, waits until every socket is closed and has sent what its linger allows, and ends the I/O
    /// threads. Errors: Interrupted; it can be called again then. Reentered on an I/O thread of the context, where
    /// code of the application may run (free functions, wakers): it would wait for itself.
    pub fn terminate(&self) -> Result<(), Error> {
        self.terminate_within(None).map(drop)
    }

    /// The same within `timeout`; None is for ever. When it is over, sockets that are still open are closed, whoever
    /// uses them, and what is not sent is given up. Called again it says the same again. In a forked child nothing is
    /// done, and nothing is left. Errors: those of `terminate`.
    pub fn terminate_within(&self, timeout: Option<Duration>) -> Result<Leftover, Error> {
        self.terminate_by(timeout, None)
    }

    /// The same. `turn`: it does not sleep itself (Deferred, `nap`).
    pub fn terminate_by(&self, timeout: Option<Duration>, turn: Option<Turn>) -> Result<Leftover, Error> {
        if self.0.fork != fork::generation() {
            return Ok(Leftover::default());
        }
        let of_call = || timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let deadline = turn.unwrap_or(Turn::FIRST).deadline(of_call);
        let caller = std::thread::current().id();
        if self.0.ios.lock().iter().any(|(_, thread)| thread.thread().id() == caller) {
            return Err(Error::Reentered);
        }
        self.shutdown()?;
        if !self.wait_for_sockets(deadline, turn.is_some())? {
            self.hurry()?;
        }
        self.0.lost.give_up(Reason::Expired, self.0.inproc.end(&mut Vec::new()));
        let ios = std::mem::take(&mut *self.0.ios.lock());
        self.0.wakers.lock().clear();
        for (io, _) in &ios {
            io.send(Command::Stop);
        }
        for (_, thread) in ios {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
        let (unsent, lost) = (self.0.lost.unsent(), self.0.lost.read());
        let open_sockets = self.0.closed_late.load(Ordering::Relaxed);
        Ok(Leftover { messages: unsent.messages, bytes: unsent.bytes, lost, open_sockets })
    }

    fn hubs(&self) -> Vec<Arc<Hub>> {
        self.0.live.lock().hubs.clone()
    }

    /// Waits until all sockets have ended. False: the deadline came first.
    fn wait_for_sockets(&self, deadline: Option<Instant>, defers: bool) -> Result<bool, Error> {
        loop {
            let ticket = self.0.ended.listen();
            if self.0.live.lock().hubs.is_empty() {
                self.0.ended.cancel(ticket);
                return Ok(true);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.0.ended.cancel(ticket);
                return Ok(false);
            }
            Nap::Term(TermNap::new(self, ticket, deadline)).take(defers, deadline)?;
        }
    }

    /// Ends all sockets now: they are closed, and nothing lingers.
    fn hurry(&self) -> Result<(), Error> {
        loop {
            for hub in self.hubs() {
                match hub.socket().map(Socket::close) {
                    Some(Ok(())) => {
                        self.0.closed_late.fetch_add(u64::from(!hub.internal), Ordering::Relaxed);
                    }
                    // Out of a call on this very socket, which ends after this one.
                    Some(Err(Error::Reentered)) => return Err(Error::Reentered),
                    // It is being made, or was closed and lingers.
                    Some(Err(_)) | None => {}
                }
            }
            // Behind the commands that close them.
            let wakers = self.0.wakers.lock().clone();
            wakers.iter().for_each(|io| io.send(Command::Hurry));
            if self.wait_for_sockets(Some(Instant::now() + LATE_LOOK), false)? {
                return Ok(());
            }
        }
    }
}

/// A caller that waits for a context's sockets to end.
pub(crate) struct TermNap {
    context: Context,
    ticket: Option<Ticket>,
    pub(crate) sleep: Sleep,
}

impl TermNap {
    fn new(context: &Context, ticket: Ticket, deadline: Option<Instant>) -> TermNap {
        let sleep = EventCount::sleep(context.0.clone(), |inner| &inner.ended, &ticket, deadline);
        TermNap { context: context.clone(), ticket: Some(ticket), sleep }
    }

    pub(crate) fn end(self, slept: Slept) -> Result<(), Error> {
        if slept == Slept::TimedOut { Ok(()) } else { nap::outcome(slept) }
    }
}

impl Drop for TermNap {
    fn drop(&mut self) {
        self.ticket.take().into_iter().for_each(|ticket| self.context.0.ended.cancel(ticket));
    }
}
