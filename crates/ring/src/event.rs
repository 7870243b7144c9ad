//! Sleeping until something happens, without a lock on the side of whoever makes it happen.
//!
//! The sleeper says that it is about to sleep (`listen`), looks once more at what it waits for, and sleeps
//! (`wait`). The waker makes the thing happen and calls `notify`, which costs a fence and a load while nobody
//! sleeps. Both sides fence between their write and their read, so that either the sleeper sees the thing or
//! the waker sees the sleeper.
//!
//! ```
//! use pinnace_ring::EventCount;
//! let event = EventCount::default();
//! let ticket = event.listen();
//! assert!(event.notify()); // Somebody listens ...
//! assert!(event.wait(ticket, None).is_ok()); // ... and does not sleep.
//! ```

use std::time::Instant;

#[cfg(not(loom))]
use pinnace_sys::sleep::Sleep;

use crate::sync::{AtomicU32, Ordering, fence};
use crate::word::{Among, Waited, Word};

/// Where threads sleep until they are notified.
#[derive(Default)]
pub struct EventCount {
    generation: Word,
    sleepers: AtomicU32,
}

/// The right to sleep once; to be handed to `wait` or `cancel`.
#[must_use]
pub struct Ticket(u32);

/// Why `wait` returned without having been notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unnotified {
    TimedOut,
    /// A signal was handled (EINTR).
    Interrupted,
}

impl EventCount {
    /// Says that the caller is about to sleep. What it waits for must be looked at once more after this.
    pub fn listen(&self) -> Ticket {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let ticket = Ticket(self.generation.load());
        fence(Ordering::SeqCst);
        ticket
    }

    /// There is no need to sleep, or the caller slept elsewhere.
    pub fn cancel(&self, _ticket: Ticket) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether `notify` was called since the ticket was given.
    pub fn is_notified(&self, ticket: &Ticket) -> bool {
        self.generation.load() != ticket.0
    }

    /// The sleep itself, of an event count that lies in `owner`; `cancel` follows it.
    #[cfg(not(loom))]
    pub fn sleep<T: Send + Sync + 'static>(
        owner: std::sync::Arc<T>,
        of: impl FnOnce(&T) -> &EventCount,
        ticket: &Ticket,
        deadline: Option<Instant>,
    ) -> Sleep {
        let word = &raw const *of(&owner).generation.atomic();
        // SAFETY: it lies in `owner`, or in what that keeps, where nothing moves while it is borrowed or shared.
        unsafe { Sleep::on_word(owner, &*word, ticket.0, Among::Threads, deadline) }
    }

    /// Sleeps until notified since `listen`, or until the deadline.
    pub fn wait(&self, ticket: Ticket, deadline: Option<Instant>) -> Result<(), Unnotified> {
        let outcome = self.generation.wait(ticket.0, deadline, Among::Threads);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        unless_unnotified(outcome)
    }

    /// Wakes all who sleep. True: there were some.
    #[inline]
    pub fn notify(&self) -> bool {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) == 0 {
            return false;
        }
        self.generation.bump();
        self.generation.wake_all(Among::Threads);
        true
    }
}

pub(crate) fn unless_unnotified(outcome: Waited) -> Result<(), Unnotified> {
    match outcome {
        Waited::Changed => Ok(()),
        Waited::TimedOut => Err(Unnotified::TimedOut),
        Waited::Interrupted => Err(Unnotified::Interrupted),
    }
}
