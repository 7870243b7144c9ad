//! A futex word on which a process sleeps until another process has written to their shared memory.
//!
//! The futex word lies in the sleeper's half, which only the sleeper's process can write. Its other threads ring the
//! doorbell ([`Doorbell::ring`]). The peer process can only wake a sleeper, and learns from futex(2) whether there
//! was one. If there was none, a thread that is just about to sleep would miss the wake-up, and has to be woken by
//! other means ([`Outgoing::wakes`](crate::Outgoing::wakes)).

use std::time::Instant;

#[cfg(not(loom))]
use pinnace_sys::sleep::Sleep;

#[cfg(loom)]
use crate::event::{Unnotified, unless_unnotified};
use crate::futex_word::{Among, FutexWord};
use crate::shared::Half;

/// The doorbell of one half, for the process that made the half.
#[derive(Clone)]
pub struct Doorbell(Half);

/// The ring count when the caller began to listen.
#[derive(Clone, Copy)]
pub struct Rung(u32);

impl Doorbell {
    pub(crate) fn of(ours: &Half) -> Doorbell {
        Doorbell(ours.clone())
    }

    fn futex_word(&self) -> &FutexWord {
        &self.0.head().doorbell.0
    }

    /// Announces that the caller is about to sleep. The caller must check its condition once more after this.
    pub fn listen(&self) -> Rung {
        Rung(self.futex_word().load())
    }

    /// Prepares a sleep until the doorbell is rung after `listen`, the peer process wakes us, or the deadline passes.
    #[cfg(not(loom))]
    pub fn sleep(&self, rung: Rung, deadline: Option<Instant>) -> Sleep {
        // SAFETY: the futex word lies in the memory of the half, which its owner keeps mapped.
        unsafe {
            Sleep::on_word(self.0.owner(), self.futex_word().atomic(), rung.0, Among::Processes, deadline)
        }
    }

    #[cfg(loom)]
    pub fn wait(&self, rung: Rung, deadline: Option<Instant>) -> Result<(), Unnotified> {
        unless_unnotified(self.futex_word().wait(rung.0, deadline, Among::Processes))
    }

    /// Wakes all threads that sleep here or are about to.
    pub fn ring(&self) {
        self.futex_word().bump();
        self.futex_word().wake_all(Among::Processes);
    }
}
