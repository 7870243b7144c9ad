//! A socket: a pattern, its pipes and its endpoints behind one lock, and a handle that any thread may use.
//!
//! A call locks the socket, handles its notices (`handle_notices`), lets the pattern decide, releases the lock, and
//! then runs the deferred work: writing to the kernel, resuming reads, dropping bodies (`Socket::call`). While the
//! lock is held nothing blocks, and no application code runs except the `sink` of a receive. Most calls take the fast
//! path `Socket::call_at_once`, which is inlined: the thread owns the lock and nothing has to be handled first. It
//! falls back to `call` in every other case.

mod attached;
mod close;
mod create;
mod datagrams;
mod ended;
mod endpoints;
mod handle;
mod hwm;
mod level;
mod messages;
mod monitoring;
mod notices;
mod options;
mod peers;
mod routing;
mod tasks;
mod transfer;
pub(crate) mod zap;

use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::context::Context;
use crate::error::Error;
use crate::io::{Command, Io};
use crate::mailbox::{Mailbox, Notice};
use crate::options::Options;
use crate::patterns::Pattern;
use crate::pipe::{Deferred, DeferredList, Far, Pipes};
use crate::socket_kind::SocketKind;
use crate::table::{self, Handle, Locked, Slot, Table};
use crate::waiting::Waiter;
use attached::Endpoints;
use ended::EndedPipes;

pub use level::LevelFd;
pub use transfer::Received;

type Sockets = Table<Box<Core>, 0xa>;

static SOCKETS: Sockets = Table::new();

/// A handle of a socket. Any thread may use it. After `close` its calls return NotSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Socket(Handle<Box<Core>>);

/// The slot of a socket's handle. It outlives the socket, and a later socket reuses it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct SocketSlot(&'static Slot<Box<Core>>);

/// The state that the socket's lock guards.
pub(crate) struct Core {
    pub(crate) context: Context,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) io: Arc<Io>,
    pub(crate) kind: SocketKind,
    pub(crate) pattern: Box<dyn Pattern>,
    pub(crate) pipes: Pipes,
    /// The current options, shared with the connections that were made under them.
    pub(crate) options: Arc<Options>,
    endpoints: Endpoints,
    /// More frames of the message received last follow.
    receive_more: bool,
    /// More frames of the message that is being sent follow.
    sending: bool,
    stopped: bool,
    levels: level::Levels,
    /// A poller has the socket registered. It must be notified of calls, which may change the socket's readiness.
    pub(crate) has_pollers: bool,
    ended: EndedPipes,
    notices: Vec<Notice>,
}

impl Socket {
    /// The socket's slot, and its generation in that slot: 1 to 2^24 - 1.
    pub fn into_parts(self) -> (SocketSlot, u32) {
        (SocketSlot(self.0.slot()), self.0.generation())
    }

    /// The socket with these parts. Every call checks that it exists and is open.
    #[inline(always)]
    pub fn from_parts(slot: SocketSlot, number: u32) -> Socket {
        Socket(Handle::new(slot.0, number))
    }

    #[inline(always)]
    pub(crate) fn lock(self) -> Result<Locked<Box<Core>>, Error> {
        Sockets::lock(self.0).map_err(Error::from)
    }

    /// For callers that wait for several sockets.
    pub(crate) fn mailbox(self) -> Result<Arc<Mailbox>, Error> {
        Ok(self.lock()?.mailbox.clone())
    }

    /// Handles notices and does `work` with the lock held, then runs the deferred work with the lock released.
    /// `wait`: the caller may be delayed briefly. Code that handles notices goes through here, so that the deferred
    /// work is done.
    #[inline(always)]
    pub(crate) fn call<R>(
        self,
        wait: bool,
        work: impl FnOnce(&mut Core) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.call_quietly(wait, |core| {
            let outcome = work(core);
            if core.has_pollers {
                core.mailbox.pollers.notify();
            }
            outcome
        })
    }

    /// As `call`, if this thread owns the lock and nothing has to be handled first. None: `work` was not done; use
    /// `call`.
    #[inline(always)]
    fn call_at_once<R>(
        self,
        wait: bool,
        work: impl FnOnce(&mut Core) -> Result<R, Error>,
    ) -> Option<Result<R, Error>> {
        let mut owned = Sockets::lock_owned(self.0)?;
        let core = &mut **owned;
        if core.mailbox.has_notices() || core.stopped || core.has_pollers || !core.levels.is_empty() {
            return table::leave(owned);
        }
        let outcome = work(core);
        if !core.pipes.deferred.is_empty() {
            finish(owned, wait);
        }
        Some(outcome)
    }

    /// As `call`, for work that does not change what the socket is ready for, so pollers are not notified of it.
    #[inline(always)]
    fn call_quietly<R>(
        self,
        wait: bool,
        work: impl FnOnce(&mut Core) -> Result<R, Error>,
    ) -> Result<R, Error> {
        within(self.lock()?, wait, work)
    }

    /// As `call_quietly`, for occasional callers (visitors): the owner of the socket's lock keeps the ownership.
    pub(crate) fn visit<R>(self, work: impl FnOnce(&mut Core) -> Result<R, Error>) -> Result<R, Error> {
        within(Sockets::visit(self.0)?, false, work)
    }
}

#[inline(always)]
fn within<R>(
    mut locked: Locked<Box<Core>>,
    wait: bool,
    work: impl FnOnce(&mut Core) -> Result<R, Error>,
) -> Result<R, Error> {
    let core = &mut **locked;
    let outcome = match core.handle_notices() {
        Ok(()) => work(core),
        Err(error) => Err(error),
    };
    if !core.levels.is_empty() {
        core.refresh_levels();
    }
    if !core.pipes.deferred.is_empty() {
        finish(locked, wait);
    }
    outcome
}

/// Releases the lock and runs the deferred work.
#[cold]
#[inline(never)]
fn finish(mut locked: impl DerefMut<Target = Box<Core>>, wait: bool) {
    let core = &mut **locked;
    let mut deferred = std::mem::take(&mut core.pipes.deferred);
    core.do_within(&deferred);
    if !core.pipes.deferred.is_empty() {
        deferred.append(&mut core.pipes.deferred);
    }
    drop(locked);
    run(deferred, wait);
}

impl Core {
    /// For a caller that waits for messages.
    pub(crate) fn waiter(&self) -> Waiter {
        Waiter::for_input(self.mailbox.clone(), self.options.busy_poll_us)
    }

    /// The part of the deferred work that needs the lock: ends pipes, re-posts pipes to be read, checks for notices.
    fn do_within(&mut self, deferred: &[Deferred]) {
        for deferred in deferred {
            match *deferred {
                Deferred::HangUp(id) => match self.pipes.get(id).map(|pipe| &pipe.far) {
                    Some(Far::Socket { .. }) => self.leave(id),
                    _ => self.io.send(Command::HangUp(self.mailbox.clone(), id, self.options.linger)),
                },
                Deferred::LookAgain(id) => self.mailbox.post(Notice::Readable(id)),
                Deferred::Unlinked => {
                    fence(Ordering::SeqCst); // Pairs with the fence in `Reactor::connected`.
                    if self.mailbox.has_notices() {
                        self.pipes.deferred.push(Deferred::Visit(self.mailbox.clone()));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Handles the notices of a socket, usually another one. Wakes its waiting threads, because handling the notices has
/// cleared the signals for them.
#[cold]
fn visit(mailbox: &Mailbox) {
    if mailbox.socket().is_some_and(|socket| socket.handle_notices()) {
        mailbox.wake();
    }
}

/// Runs the deferred work that needs no lock; `wait`: the caller may be delayed briefly.
fn run(deferred: DeferredList, wait: bool) {
    for deferred in deferred {
        match deferred {
            Deferred::Pace(link) if wait => link.pace(),
            Deferred::Pace(_) => {}
            Deferred::Flush(link) => link.flush(),
            Deferred::ReadOn(link) => link.read_on(),
            Deferred::Drop(body) => drop(body),
            Deferred::Part(pipe) => drop(pipe),
            Deferred::Visit(mailbox) => visit(&mailbox),
            Deferred::HangUp(_) | Deferred::LookAgain(_) | Deferred::Unlinked => {} // Done under the lock.
        }
    }
}
