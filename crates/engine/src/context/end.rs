//! Termination of a context: blocked calls return, sockets are closed, accepted messages are sent as far as their
//! linger time and a deadline allow, and the I/O threads end. Messages that could not be sent are counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pinnace_sys::fork;

use super::Context;
use crate::drops::{Drops, Reason};
use crate::error::Error;
use crate::io::Command;
use crate::mailbox::{Mailbox, Notice};
use crate::waiting::{EventSleep, PendingSleep, Turn};

/// How often to check for sockets that were being created when the deadline came.
const LATE_LOOK: Duration = Duration::from_millis(10);

/// What a context has left behind at its termination, over all its sockets and its whole lifetime.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leftover {
    /// Messages accepted for sending that neither the kernel nor, over inproc, another socket has taken. `lost`
    /// counts them too, as Expired, Cut or PeerLost.
    pub messages: u64,
    /// Their bytes, including ZMTP 3 headers; of a partly written message, the bytes not yet written.
    pub bytes: u64,
    /// All messages that the sockets have lost.
    pub lost: Drops,
    /// Sockets that were still open at the deadline and were closed then.
    pub open_sockets: u64,
}

impl Context {
    /// Blocked calls on the context's sockets return Terminated, and so does every later call except close.
    pub fn shutdown(&self) -> Result<(), Error> {
        if self.0.fork != fork::generation() {
            return Ok(());
        }
        self.0.terminating.store(true, Ordering::SeqCst);
        for mailbox in self.mailboxes() {
            mailbox.post(Notice::Stop);
        }
        Ok(())
    }

    /// Shuts down, waits until every socket is closed and has sent what its linger time allows, and ends the I/O
    /// threads. Errors: Interrupted, it can be called again; Reentered on an I/O thread of the context, where
    /// application code may run (free functions, wakers), because it would wait for itself.
    pub fn terminate(&self) -> Result<(), Error> {
        self.terminate_within(None).map(drop)
    }

    /// Like `terminate`, within `timeout`; None: no limit. At the deadline, sockets that are still open are closed
    /// even if they are in use, and unsent messages are given up. A repeated call returns the same result. In a
    /// forked process it does nothing and returns an empty result. Errors: those of `terminate`.
    pub fn terminate_within(&self, timeout: Option<Duration>) -> Result<Leftover, Error> {
        self.terminate_by(timeout, None)
    }

    /// Like `terminate_within`. With a `turn` it does not sleep itself (Deferred, `pending_sleep`).
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
            self.end_linger()?;
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

    fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        self.0.live.lock().mailboxes.clone()
    }

    /// Waits until all sockets have ended. False: the deadline came first.
    fn wait_for_sockets(&self, deadline: Option<Instant>, defers: bool) -> Result<bool, Error> {
        loop {
            let ticket = self.0.ended.listen();
            if self.0.live.lock().mailboxes.is_empty() {
                self.0.ended.cancel(ticket);
                return Ok(true);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.0.ended.cancel(ticket);
                return Ok(false);
            }
            PendingSleep::Event(EventSleep::new(&self.0.ended, ticket, deadline)).take(defers, deadline)?;
        }
    }

    /// Closes all sockets now, without linger.
    fn end_linger(&self) -> Result<(), Error> {
        loop {
            for mailbox in self.mailboxes() {
                match mailbox.socket().map(|socket| socket.close()) {
                    Some(Ok(())) => {
                        self.0.closed_late.fetch_add(u64::from(!mailbox.internal), Ordering::Relaxed);
                    }
                    // This is called within a call on the same socket, which ends only after it.
                    Some(Err(Error::Reentered)) => return Err(Error::Reentered),
                    // The socket is being created, or was closed and lingers.
                    Some(Err(_)) | None => {}
                }
            }
            // Queued behind the commands that close the sockets.
            let wakers = self.0.wakers.lock().clone();
            wakers.iter().for_each(|io| io.send(Command::EndLinger));
            if self.wait_for_sockets(Some(Instant::now() + LATE_LOOK), false)? {
                return Ok(());
            }
        }
    }
}
