//! How a call waits: it prepares to sleep, sleeps, and then sees to what woke it.
//!
//! A call out of C may be cancelled while it sleeps (pthread_cancel(3)), and its thread is unwound then. Rust's frames
//! that have something to drop must not be, so such a call does not sleep itself ([`Wait::Deferred`](crate::Wait)): it
//! leaves its [`Nap`] to its thread, returns [`Error::Deferred`], and its caller, once it has nothing to drop, sleeps,
//! ends the nap ([`resume`]) and calls again. Where the thread is cancelled the nap is dropped with the thread's other
//! locals, which gives up what the call had prepared.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use pinnace_sys::sleep::{Sleep, Slept};

use crate::context::TermNap;
use crate::error::Error;
use crate::poll::PollNap;
use crate::poller::PollerNap;
use crate::socket::SocketNap;

/// What is prepared for a sleep, and has to be seen to afterwards. To drop it gives up.
pub(crate) enum Nap {
    Socket(SocketNap),
    Poll(PollNap),
    Poller(PollerNap),
    Term(TermNap),
}

thread_local! {
    static DEFERRED: RefCell<Option<Nap>> = const { RefCell::new(None) };
    /// The deadline of the call that has been resumed.
    static DEADLINE: Cell<Option<Option<Instant>>> = const { Cell::new(None) };
}

impl Nap {
    fn sleep(&mut self) -> &mut Sleep {
        match self {
            Nap::Socket(nap) => &mut nap.sleep,
            Nap::Poll(nap) => &mut nap.sleep,
            Nap::Poller(nap) => &mut nap.sleep,
            Nap::Term(nap) => &mut nap.sleep,
        }
    }

    fn end(self, slept: Slept) -> Result<(), Error> {
        match self {
            Nap::Socket(nap) => nap.end(slept),
            Nap::Poll(nap) => nap.end(slept),
            Nap::Poller(nap) => nap.end(slept),
            Nap::Term(nap) => nap.end(slept),
        }
    }

    /// Sleeps, and sees to what woke it. `defers`: that is left to the caller (Deferred).
    pub(crate) fn take(mut self, defers: bool, deadline: Option<Instant>) -> Result<(), Error> {
        if defers {
            DEADLINE.set(Some(deadline));
            DEFERRED.set(Some(self));
            return Err(Error::Deferred);
        }
        let slept = self.sleep().run();
        self.end(slept)
    }
}

/// The deadline of a call that is made again after it was deferred; else what `of_call` says.
pub(crate) fn deadline(defers: bool, of_call: impl FnOnce() -> Option<Instant>) -> Option<Instant> {
    DEADLINE.get().filter(|_| defers).unwrap_or_else(of_call)
}

/// The sleep that this thread's last call has left. It stays where it is until `resume`. Null: none.
pub fn deferred() -> *mut Sleep {
    DEFERRED.with_borrow_mut(|nap| nap.as_mut().map_or(std::ptr::null_mut(), |nap| &raw mut *nap.sleep()))
}

/// The sleep is over. Errors: WouldBlock once the deadline has come; Interrupted; what the system says.
pub fn resume(slept: Slept) -> Result<(), Error> {
    match DEFERRED.take() {
        Some(nap) => nap.end(slept),
        None => Ok(()),
    }
}

/// Whether the call that goes on here was deferred before.
pub(crate) fn is_resumed() -> bool {
    DEADLINE.get().is_some()
}

/// The call that was deferred has returned for good.
pub fn finish() {
    DEADLINE.set(None);
}

/// The answer of a sleep as a waiting call's: WouldBlock once its time is over, Interrupted.
pub(crate) fn outcome(slept: Slept) -> Result<(), Error> {
    match slept {
        Slept::Woken => Ok(()),
        Slept::TimedOut => Err(Error::WouldBlock),
        Slept::Interrupted => Err(Error::Interrupted),
        Slept::Failed(error) => Err(error.into()),
    }
}
