//! How a call blocks: it prepares a sleep, sleeps, and then handles the wake-up.
//!
//! A call from C may be cancelled while it sleeps (pthread_cancel(3)), and its thread is then unwound. Rust frames
//! with something to drop must not be unwound this way, so such a call does not sleep itself
//! ([`Wait::Deferred`](crate::Wait)). It stores its [`PendingSleep`] in a thread-local and returns
//! [`Error::Deferred`]. Its caller, once it has nothing to drop, sleeps, finishes the pending sleep ([`resume`]) and
//! calls again. If the thread is cancelled, the pending sleep is dropped with the thread's locals, which undoes what
//! the call had prepared.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use pinnace_sys::sleep::{Sleep, Slept};

use super::{EventSleep, PollSleep, PollerSleep, SocketSleep};
use crate::error::Error;

/// A prepared sleep; `end` must follow the sleep. Dropping it undoes the preparation.
pub(crate) enum PendingSleep {
    Socket(SocketSleep),
    Poll(PollSleep),
    Poller(PollerSleep),
    Event(EventSleep),
}

thread_local! {
    /// The pending sleep of this thread's last call, and the deadline of that call.
    static DEFERRED: RefCell<Option<(PendingSleep, Option<Instant>)>> = const { RefCell::new(None) };
}

/// How long a call may block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all; the call returns WouldBlock.
    Never,
    /// As ZMQ_SNDTIMEO or ZMQ_RCVTIMEO says.
    AsSet,
    /// As `AsSet`, but instead of sleeping the call returns Deferred, and its caller sleeps for it (`pending_sleep`).
    Deferred,
    /// A deferred call that is repeated after its sleep, with the deadline of the first attempt.
    Resumed(Option<Instant>),
    /// Until this deadline; None: no limit.
    Until(Option<Instant>),
}

impl From<bool> for Wait {
    /// True: may block; false: as ZMQ_DONTWAIT.
    #[inline(always)]
    fn from(waits: bool) -> Wait {
        if waits { Wait::AsSet } else { Wait::Never }
    }
}

impl Wait {
    #[inline(always)]
    pub(crate) fn waits(self) -> bool {
        self != Wait::Never
    }

    /// The call's deadline, given the socket's timeout `set`; None: no limit.
    pub(crate) fn deadline(self, set: Option<Duration>) -> Option<Instant> {
        let as_set = || set.and_then(|timeout| Instant::now().checked_add(timeout));
        match self {
            Wait::Until(deadline) | Wait::Resumed(deadline) => deadline,
            Wait::Never | Wait::AsSet | Wait::Deferred => as_set(),
        }
    }

    pub(crate) fn defers(self) -> bool {
        matches!(self, Wait::Deferred | Wait::Resumed(_))
    }
}

/// Which run of a deferred call it is: the first, or one after a sleep, which keeps the deadline of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn(Option<Option<Instant>>);

impl Turn {
    pub const FIRST: Turn = Turn(None);

    /// The call's deadline; `of_call` computes it at the first turn.
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

impl PendingSleep {
    fn sleep(&mut self) -> &mut Sleep {
        match self {
            PendingSleep::Socket(pending_sleep) => &mut pending_sleep.sleep,
            PendingSleep::Poll(pending_sleep) => &mut pending_sleep.sleep,
            PendingSleep::Poller(pending_sleep) => &mut pending_sleep.sleep,
            PendingSleep::Event(pending_sleep) => &mut pending_sleep.sleep,
        }
    }

    fn end(self, slept: Slept, deadline: Option<Instant>) -> Result<(), Error> {
        match self {
            PendingSleep::Socket(pending_sleep) => pending_sleep.end(slept, deadline),
            PendingSleep::Poll(pending_sleep) => pending_sleep.end(slept),
            PendingSleep::Poller(pending_sleep) => pending_sleep.end(slept),
            PendingSleep::Event(pending_sleep) => pending_sleep.end(slept),
        }
    }

    /// Sleeps, and handles the wake-up. `defers`: leaves both to the caller (Deferred).
    pub(crate) fn take(self, defers: bool, deadline: Option<Instant>) -> Result<(), Error> {
        let mut pending_sleep = Some(self);
        // A thread that is ending has no thread-locals any more; then the call sleeps itself.
        let mut leave = || {
            DEFERRED.try_with(|place| {
                *place.borrow_mut() = pending_sleep.take().map(|pending_sleep| (pending_sleep, deadline))
            })
        };
        if defers && leave().is_ok() {
            return Err(Error::Deferred);
        }
        let Some(mut pending_sleep) = pending_sleep else { return Ok(()) };
        let slept = pending_sleep.sleep().run();
        pending_sleep.end(slept, deadline)
    }
}

/// The sleep that this thread's last call has deferred. Its address is stable until `resume`. Null: none.
pub fn deferred() -> *mut Sleep {
    DEFERRED.with_borrow_mut(|left| {
        left.as_mut().map_or(std::ptr::null_mut(), |(pending_sleep, _)| &raw mut *pending_sleep.sleep())
    })
}

/// Finishes a sleep; returns the turn of the next call. Errors: WouldBlock once the deadline has come; Interrupted;
/// errors of the system.
pub fn resume(slept: Slept) -> Result<Turn, Error> {
    let Some((pending_sleep, deadline)) = DEFERRED.take() else { return Ok(Turn::FIRST) };
    pending_sleep.end(slept, deadline).map(|()| Turn(Some(deadline)))
}

/// The outcome of a sleep as that of a blocking call. Errors: WouldBlock after the deadline; Interrupted; errors of
/// the system.
pub(crate) fn outcome(slept: Slept) -> Result<(), Error> {
    match slept {
        Slept::Woken => Ok(()),
        Slept::TimedOut => Err(Error::WouldBlock),
        Slept::Interrupted => Err(Error::Interrupted),
        Slept::Failed(error) => Err(error.into()),
    }
}
