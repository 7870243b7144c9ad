//! How a call waits: it prepares to sleep, sleeps, and then sees to what woke it.
//!
//! A call out of C may be cancelled while it sleeps (pthread_cancel(3)), and its thread is unwound then. Rust's frames
//! that have something to drop must not be, so such a call does not sleep itself ([`Wait::Deferred`](crate::Wait)): it
//! leaves its [`Nap`] to its thread, returns [`Error::Deferred`], and its caller, once it has nothing to drop, sleeps,
//! ends the nap ([`resume`]) and calls again. Where the thread is cancelled the nap is dropped with the thread's other
//! locals, which gives up what the call had prepared.

use std::cell::RefCell;
use std::time::Instant;

use pinnace_sys::sleep::{Sleep, Slept};

use crate::context::TermNap;
use crate::error::Error;
use crate::poll::PollNap;
use crate::poller::PollerNap;
use crate::socket::{SocketNap, Wait};

/// What is prepared for a sleep, and has to be seen to afterwards. To drop it gives up.
pub(crate) enum Nap {
    Socket(SocketNap),
    Poll(PollNap),
    Poller(PollerNap),
    Term(TermNap),
}

thread_local! {
    /// The nap that was left, and the deadline of its call.
    static DEFERRED: RefCell<Option<(Nap, Option<Instant>)>> = const { RefCell::new(None) };
}

/// Which run of a deferred call it is: the first, or one after a sleep, which has the deadline of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn(Option<Option<Instant>>);

impl Turn {
    pub const FIRST: Turn = Turn(None);

    /// The call's deadline; `of_call` says what that is at the first turn.
    pub(crate) fn deadline(self, of_call: impl FnOnce() -> Option<Instant>) -> Option<Instant> {
        self.0.unwrap_or_else(of_call)
    }

    /// How a call of this turn waits.
    #[inline(always)]
    pub fn wait(self) -> Wait {
        self.0.map_or(Wait::Deferred, Wait::Resumed)
    }

    /// Whether the call has slept.
    pub(crate) fn has_slept(self) -> bool {
        self.0.is_some()
    }
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

    fn end(self, slept: Slept, deadline: Option<Instant>) -> Result<(), Error> {
        match self {
            Nap::Socket(nap) => nap.end(slept, deadline),
            Nap::Poll(nap) => nap.end(slept),
            Nap::Poller(nap) => nap.end(slept),
            Nap::Term(nap) => nap.end(slept),
        }
    }

    /// Sleeps, and sees to what woke it. `defers`: that is left to the caller (Deferred).
    pub(crate) fn take(self, defers: bool, deadline: Option<Instant>) -> Result<(), Error> {
        let mut nap = Some(self);
        // A thread that is ending has no place for it any more.
        let mut leave =
            || DEFERRED.try_with(|place| *place.borrow_mut() = nap.take().map(|nap| (nap, deadline)));
        if defers && leave().is_ok() {
            return Err(Error::Deferred);
        }
        let Some(mut nap) = nap else { return Ok(()) };
        let slept = nap.sleep().run();
        nap.end(slept, deadline)
    }
}

/// The sleep that this thread's last call has left. It stays where it is until `resume`. Null: none.
pub fn deferred() -> *mut Sleep {
    DEFERRED
        .with_borrow_mut(|left| left.as_mut().map_or(std::ptr::null_mut(), |(nap, _)| &raw mut *nap.sleep()))
}

/// The sleep is over; returns the turn that the call has next. Errors: WouldBlock once the deadline has come;
/// Interrupted; what the system says.
pub fn resume(slept: Slept) -> Result<Turn, Error> {
    let Some((nap, deadline)) = DEFERRED.take() else { return Ok(Turn::FIRST) };
    nap.end(slept, deadline).map(|()| Turn(Some(deadline)))
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
