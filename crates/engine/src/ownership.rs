//! Poll ownership: whether the I/O thread or the callers that wait in a socket poll its connections.
//!
//! A caller about to block takes ownership of the poll set, and the I/O thread stops polling it (`pause_io_watch`),
//! so that a message wakes one thread, the one that wants it. While a caller sleeps at a doorbell of shared memory,
//! the I/O thread keeps polling and brings it everything else. Leaving costs the caller nothing: the I/O thread
//! checks every [`OWNERSHIP_TICK`] (`check`) and takes ownership back if no caller has been inside. While a caller
//! sleeps inside for long, the checks stop (`checks_paused`), and the caller restarts them when it leaves: an idle
//! socket costs no CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pinnace_sys::poll::Interest;

use crate::io::{Command, Io};
use crate::mailbox::{Mailbox, PollSet};

/// How often the I/O thread checks a socket that callers own.
pub(crate) const OWNERSHIP_TICK: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(crate) struct PollOwnership {
    state: Mutex<OwnershipState>,
    taken: AtomicBool,
    /// Callers that wait for the connections, or serve them.
    inside: AtomicU32,
    /// Counts the callers that have left.
    visits: AtomicU32,
    checks_paused: AtomicBool,
    /// The I/O thread does not poll the poll set.
    io_watch_paused: AtomicBool,
    /// Where the leader is: the one caller that waits for the connections. Other callers wait for it to bring
    /// notices (`lead`).
    leader: AtomicU8,
}

/// Where the leading caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leader {
    /// No caller leads.
    Nobody,
    /// Awake: it checks for notifications before it sleeps.
    Awake,
    /// In the poll set, or about to wait there.
    InSet,
    /// At the doorbell of a link's shared memory (`Mailbox::doorbell`), or about to sleep there.
    AtDoorbell,
}

const LEADERS: [Leader; 4] = [Leader::Nobody, Leader::Awake, Leader::InSet, Leader::AtDoorbell];

#[derive(Default)]
struct OwnershipState {
    /// The poll set's token with the I/O thread, once it is registered.
    token: Option<u64>,
    /// Only the I/O thread may serve: the socket is closed.
    ended: bool,
}

/// Result of a check by the I/O thread.
pub(crate) enum Checked {
    /// Check again at the next tick, with this number of visits as `before`.
    Again(u32),
    /// No further checks are needed.
    Done,
}

impl PollOwnership {
    /// The I/O thread registers the poll set under `token`, and polls it unless a caller does.
    pub(crate) fn entered(&self, io: &Io, set: &PollSet, token: u64) -> Result<(), pinnace_sys::Errno> {
        let mut state = self.state.lock();
        state.token = Some(token);
        let interest =
            if self.io_watch_paused.load(Ordering::SeqCst) { Interest::NONE } else { Interest::READ };
        io.poller().add(&set.poller, token, interest)
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }

    /// A caller takes ownership to wait in the poll set, or to serve it; `leave` must follow. False: the socket is
    /// closed and only the I/O thread serves; wait for it.
    pub(crate) fn enter_and_pause_io(&self, io: &Io, mailbox: &Arc<Mailbox>) -> bool {
        let entered = self.enter(io, mailbox);
        if entered {
            self.pause_io_watch(io, mailbox);
        }
        entered
    }

    /// Like `enter`, for a caller that does not yet expect to wait in the poll set. Such a wait needs
    /// `pause_io_watch` first.
    pub(crate) fn enter(&self, io: &Io, mailbox: &Arc<Mailbox>) -> bool {
        self.inside.fetch_add(1, Ordering::SeqCst);
        if self.taken.load(Ordering::SeqCst) {
            return true;
        }
        let state = self.state.lock();
        if state.ended {
            drop(state);
            self.inside.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        if !self.taken.swap(true, Ordering::SeqCst) {
            drop(state);
            io.send(Command::CheckOwnership(mailbox.clone()));
        }
        true
    }

    /// The I/O thread stops polling the poll set for as long as callers own it and none of them relies on the I/O
    /// thread. The caller must have entered.
    pub(crate) fn pause_io_watch(&self, io: &Io, mailbox: &Mailbox) {
        if self.io_watch_paused.load(Ordering::SeqCst) {
            return;
        }
        let state = self.state.lock();
        let is_done = !self.taken.load(Ordering::SeqCst) || self.io_watch_paused.load(Ordering::SeqCst);
        if is_done || self.leader() == Leader::AtDoorbell {
            return; // Taken back meanwhile, paused by another caller, or needed by a leader at a doorbell.
        }
        self.io_watch_paused.store(true, Ordering::SeqCst);
        if self.leader() == Leader::AtDoorbell {
            self.io_watch_paused.store(false, Ordering::SeqCst);
        } else {
            self.set_io_interest(&state, io, mailbox, Interest::NONE);
        }
    }

    /// The I/O thread polls the poll set again.
    fn resume_io_watch(&self, state: &OwnershipState, io: &Io, mailbox: &Mailbox) {
        if self.io_watch_paused.swap(false, Ordering::SeqCst) {
            self.set_io_interest(state, io, mailbox, Interest::READ);
        }
    }

    fn set_io_interest(&self, state: &OwnershipState, io: &Io, mailbox: &Mailbox, interest: Interest) {
        if let (Some(token), Some(set)) = (state.token, mailbox.poll_set()) {
            let _ = io.poller().modify(&set.poller, token, interest);
        }
    }

    /// Becomes the leader, the only caller that waits for the connections. Several would consume each other's
    /// wake-ups.
    pub(crate) fn lead(&self) -> bool {
        self.leader
            .compare_exchange(Leader::Nobody as u8, Leader::Awake as u8, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    pub(crate) fn leader(&self) -> Leader {
        LEADERS[usize::from(self.leader.load(Ordering::SeqCst)) % LEADERS.len()]
    }

    /// The leader publishes where it sleeps. It must re-check for notifications before it sleeps, because earlier
    /// ones did not wake it there.
    pub(crate) fn publish_leader(&self, to: Leader, io: &Io, mailbox: &Mailbox) {
        self.leader.store(to as u8, Ordering::SeqCst);
        match to {
            Leader::InSet => self.pause_io_watch(io, mailbox),
            Leader::AtDoorbell if self.io_watch_paused.load(Ordering::SeqCst) => {
                self.resume_io_watch(&self.state.lock(), io, mailbox);
            }
            _ => {}
        }
    }

    /// Gives up leadership. The caller must then notify the sleeping callers, so that one of them leads.
    pub(crate) fn step_down(&self) {
        self.leader.store(Leader::Nobody as u8, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self, io: &Io, mailbox: &Arc<Mailbox>) {
        self.visits.fetch_add(1, Ordering::SeqCst);
        // Others sleep here or in a poller, and this caller may have suppressed wake-ups; or the I/O thread has
        // taken ownership back while this caller entered.
        let others = self.inside.fetch_sub(1, Ordering::SeqCst) > 1 || mailbox.pollers.has_registrations();
        if others || !self.taken.load(Ordering::SeqCst) {
            mailbox.resume_wakeups();
        }
        if self.checks_paused.load(Ordering::SeqCst) && self.checks_paused.swap(false, Ordering::SeqCst) {
            io.send(Command::CheckOwnership(mailbox.clone()));
        }
    }

    /// The I/O thread's check; `before` is the value of `visits` at its previous check.
    pub(crate) fn check(&self, io: &Io, mailbox: &Arc<Mailbox>, before: Option<u32>) -> Checked {
        let visits = self.visits.load(Ordering::SeqCst);
        if before != Some(visits) {
            return Checked::Again(visits);
        }
        if self.inside.load(Ordering::SeqCst) > 0 {
            self.checks_paused.store(true, Ordering::SeqCst);
            let left = self.inside.load(Ordering::SeqCst) == 0;
            if left && self.checks_paused.swap(false, Ordering::SeqCst) {
                return Checked::Again(visits);
            }
            return Checked::Done;
        }
        self.reclaim(io, mailbox, false);
        Checked::Done
    }

    /// The I/O thread polls the poll set again; `for_good`: the socket is closed, and callers may not own it any
    /// more.
    pub(crate) fn reclaim(&self, io: &Io, mailbox: &Arc<Mailbox>, for_good: bool) {
        let mut state = self.state.lock();
        state.ended |= for_good;
        self.taken.store(false, Ordering::SeqCst);
        self.resume_io_watch(&state, io, mailbox);
        drop(state);
        mailbox.resume_wakeups();
        if mailbox.has_unread() {
            mailbox.have_io_read_on();
        }
    }

    /// True if no caller is inside.
    pub(crate) fn is_empty(&self) -> bool {
        self.inside.load(Ordering::SeqCst) == 0
    }
}
