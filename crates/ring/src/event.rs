//! An event count: threads sleep until something happens, and the thread that makes it happen takes no lock.
//!
//! The sleeper announces itself (`listen`), checks its condition once more, and sleeps (`wait`). The waker
//! changes the condition and calls `notify`, which costs a fence and a load while no thread sleeps. Both sides
//! fence between their write and their read, so that either the sleeper sees the new condition or the waker sees
//! the sleeper.
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

use crate::futex_word::{Among, FutexWord, Waited};
use crate::sync::{AtomicU32, Ordering, fence};

/// Where threads sleep until they are notified.
#[derive(Default)]
pub struct EventCount {
    generation: FutexWord,
    sleepers: AtomicU32,
}

/// The right to sleep once; must be passed to `wait` or `cancel`.
#[must_use]
pub struct Ticket(u32);

/// Why `wait` returned without a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unnotified {
    TimedOut,
    /// A signal was handled (EINTR).
    Interrupted,
}

impl EventCount {
    /// Announces that the caller is about to sleep. The caller must check its condition once more after this.
    pub fn listen(&self) -> Ticket {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let ticket = Ticket(self.generation.load());
        fence(Ordering::SeqCst);
        ticket
    }

    /// Withdraws `listen`: the caller need not sleep, or slept by other means.
    pub fn cancel(&self, _ticket: Ticket) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns true if `notify` was called since the ticket was issued.
    pub fn is_notified(&self, ticket: &Ticket) -> bool {
        self.generation.load() != ticket.0
    }

    /// Prepares the sleep, on an event count that lies in `owner`. The caller must call `cancel` after it.
    #[cfg(not(loom))]
    pub fn sleep<T: Send + Sync + 'static>(
        owner: std::sync::Arc<T>,
        of: impl FnOnce(&T) -> &EventCount,
        ticket: &Ticket,
        deadline: Option<Instant>,
    ) -> Sleep {
        let futex_word = &raw const *of(&owner).generation.atomic();
        // SAFETY: the futex word lies in `owner`, or in something that `owner` keeps, where nothing moves while
        // it is borrowed or shared.
        unsafe { Sleep::on_word(owner, &*futex_word, ticket.0, Among::Threads, deadline) }
    }

    /// Sleeps until notified since `listen`, or until the deadline.
    pub fn wait(&self, ticket: Ticket, deadline: Option<Instant>) -> Result<(), Unnotified> {
        let outcome = self.generation.wait(ticket.0, deadline, Among::Threads);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        unless_unnotified(outcome)
    }

    /// Wakes all sleepers. Returns true if there were any.
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
