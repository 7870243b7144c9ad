//! Where a process sleeps until another one has written to memory that both have.
//!
//! The word lies in the half of who sleeps, who alone can change it: for news from elsewhere it is rung
//! ([`Bell::ring`]). The other process can wake who is asleep, and learns whether anybody was (futex(2)): if not, who
//! is about to sleep would sleep through it, and has to be told by other means
//! ([`Outgoing::wakes`](crate::Outgoing::wakes)).

use std::time::Instant;

#[cfg(not(loom))]
use pinnace_sys::sleep::Sleep;

#[cfg(loom)]
use crate::event::{Unnotified, unless_unnotified};
use crate::shared::Half;
use crate::word::{Among, Word};

/// The bell of one half, for the process whose it is.
#[derive(Clone)]
pub struct Bell(Half);

/// How often it was rung, before the caller said that it sleeps by it.
#[derive(Clone, Copy)]
pub struct Rung(u32);

impl Bell {
    pub(crate) fn of(ours: &Half) -> Bell {
        Bell(ours.clone())
    }

    fn word(&self) -> &Word {
        &self.0.head().bell.0
    }

    /// Says that the caller is about to sleep. What it waits for must be looked at once more after this.
    pub fn listen(&self) -> Rung {
        Rung(self.word().load())
    }

    /// The sleep until it is rung after `listen`, or the other process wakes us, or until the deadline.
    #[cfg(not(loom))]
    pub fn sleep(&self, rung: Rung, deadline: Option<Instant>) -> Sleep {
        // SAFETY: the word lies in the memory of the half, which its owner keeps mapped.
        unsafe { Sleep::on_word(self.0.owner(), self.word().atomic(), rung.0, Among::Processes, deadline) }
    }

    #[cfg(loom)]
    pub fn wait(&self, rung: Rung, deadline: Option<Instant>) -> Result<(), Unnotified> {
        unless_unnotified(self.word().wait(rung.0, deadline, Among::Processes))
    }

    /// Wakes who sleeps, or is about to.
    pub fn ring(&self) {
        self.word().bump();
        self.word().wake_all(Among::Processes);
    }
}
