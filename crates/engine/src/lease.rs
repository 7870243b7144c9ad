//! Who watches a socket's connections: the I/O thread, or the callers that wait in the socket.
//!
//! A caller that is about to wait takes the lease, and has the I/O thread no longer look at the socket's poll set
//! (`seclude`), so that news of a message wakes one thread, the one that wants it; but where it sleeps by a bell of
//! shared memory the I/O thread looks on, and brings it what else there is. Leaving costs the caller nothing;
//! instead the I/O thread looks now and then (`check`, every [`LEASE_TICK`]) and takes the lease back when
//! nobody has been inside. While a caller sleeps inside for long it stops looking (`unwatched`), and the
//! caller says so when it leaves: an idle socket costs no CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pinnace_sys::poll::Interest;

use crate::hub::{Hub, PollSet};
use crate::reactor::{Command, Io};

/// How often the I/O thread looks at a lease.
pub(crate) const LEASE_TICK: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(crate) struct Lease {
    state: Mutex<State>,
    taken: AtomicBool,
    /// Callers that wait for the connections, or serve them.
    inside: AtomicU32,
    /// Counts visits.
    visits: AtomicU32,
    unwatched: AtomicBool,
    /// The I/O thread does not look at the poll set.
    secluded: AtomicBool,
    /// Where the one caller is that waits for the connections; others wait for it to bring news (`lead`).
    leader: AtomicU8,
}

/// Where the caller is that leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leader {
    /// There is none.
    Nobody,
    /// It sees what it is notified of before it sleeps.
    Awake,
    /// In the poll set, or about to wait there.
    InSet,
    /// By the bell of a link's memory (`Hub::bell`), or about to sleep there.
    AtBell,
}

const LEADERS: [Leader; 4] = [Leader::Nobody, Leader::Awake, Leader::InSet, Leader::AtBell];

#[derive(Default)]
struct State {
    /// The poll set's token with the I/O thread, once it is there.
    token: Option<u64>,
    /// The I/O thread serves and nobody else may: the socket is closed.
    ended: bool,
}

/// What the I/O thread found.
pub(crate) enum Checked {
    /// Look again at the next tick.
    Again(u32),
    /// Nothing to look after any more.
    Done,
}

impl Lease {
    /// The I/O thread has the poll set under `token`, and watches it unless a caller does.
    pub(crate) fn entered(&self, io: &Io, set: &PollSet, token: u64) -> Result<(), pinnace_sys::Errno> {
        let mut state = self.state.lock();
        state.token = Some(token);
        let interest = if self.secluded.load(Ordering::SeqCst) { Interest::NONE } else { Interest::READ };
        io.poller().add(&set.poller, token, interest)
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }

    /// A caller comes in to wait in the poll set, or to serve it; `leave` has to follow. False: the I/O thread serves,
    /// wait for it.
    pub(crate) fn enter(&self, io: &Io, hub: &Arc<Hub>) -> bool {
        let entered = self.come_in(io, hub);
        if entered {
            self.seclude(io, hub);
        }
        entered
    }

    /// The same for who does not wait in the poll set, as far as it knows: for that it has to be secluded.
    pub(crate) fn come_in(&self, io: &Io, hub: &Arc<Hub>) -> bool {
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
            io.send(Command::Supervise(hub.clone()));
        }
        true
    }

    /// The I/O thread no longer looks at the poll set, for as long as callers have the lease and none of them relies on
    /// it. For who is inside.
    pub(crate) fn seclude(&self, io: &Io, hub: &Hub) {
        if self.secluded.load(Ordering::SeqCst) {
            return;
        }
        let state = self.state.lock();
        let is_done = !self.taken.load(Ordering::SeqCst) || self.secluded.load(Ordering::SeqCst);
        if is_done || self.leader() == Leader::AtBell {
            return; // The I/O thread has taken it back meanwhile, or another caller was faster.
        }
        self.secluded.store(true, Ordering::SeqCst);
        if self.leader() == Leader::AtBell {
            self.secluded.store(false, Ordering::SeqCst);
        } else {
            self.has_io_look(&state, io, hub, Interest::NONE);
        }
    }

    /// The I/O thread looks at the poll set again.
    fn expose(&self, state: &State, io: &Io, hub: &Hub) {
        if self.secluded.swap(false, Ordering::SeqCst) {
            self.has_io_look(state, io, hub, Interest::READ);
        }
    }

    fn has_io_look(&self, state: &State, io: &Io, hub: &Hub, interest: Interest) {
        if let (Some(token), Some(set)) = (state.token, hub.poll_set()) {
            let _ = io.poller().modify(&set.poller, token, interest);
        }
    }

    /// Becomes the one caller that waits for the connections. Several would take each other's wake-ups.
    pub(crate) fn lead(&self) -> bool {
        self.leader
            .compare_exchange(Leader::Nobody as u8, Leader::Awake as u8, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    pub(crate) fn leader(&self) -> Leader {
        LEADERS[usize::from(self.leader.load(Ordering::SeqCst)) % LEADERS.len()]
    }

    /// The leader says where it is from here on. Before it sleeps it looks once more whether there was news, which did
    /// not wake it before.
    pub(crate) fn moves(&self, to: Leader, io: &Io, hub: &Hub) {
        self.leader.store(to as u8, Ordering::SeqCst);
        match to {
            Leader::InSet => self.seclude(io, hub),
            Leader::AtBell if self.secluded.load(Ordering::SeqCst) => {
                self.expose(&self.state.lock(), io, hub);
            }
            _ => {}
        }
    }

    /// Gives the place to another; who sleeps has to be woken.
    pub(crate) fn step_down(&self) {
        self.leader.store(Leader::Nobody as u8, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self, io: &Io, hub: &Arc<Hub>) {
        self.visits.fetch_add(1, Ordering::SeqCst);
        // Others sleep here or in a poller, and this caller may have looked by itself; or the I/O thread has taken the
        // lease back while it came in.
        let others = self.inside.fetch_sub(1, Ordering::SeqCst) > 1 || hub.is_watched();
        if others || !self.taken.load(Ordering::SeqCst) {
            hub.rouse();
        }
        if self.unwatched.load(Ordering::SeqCst) && self.unwatched.swap(false, Ordering::SeqCst) {
            io.send(Command::Supervise(hub.clone()));
        }
    }

    /// The I/O thread looks; `before` is what it found last.
    pub(crate) fn check(&self, io: &Io, hub: &Arc<Hub>, before: Option<u32>) -> Checked {
        let visits = self.visits.load(Ordering::SeqCst);
        if before != Some(visits) {
            return Checked::Again(visits);
        }
        if self.inside.load(Ordering::SeqCst) > 0 {
            self.unwatched.store(true, Ordering::SeqCst);
            let left = self.inside.load(Ordering::SeqCst) == 0;
            if left && self.unwatched.swap(false, Ordering::SeqCst) {
                return Checked::Again(visits);
            }
            return Checked::Done;
        }
        self.take_back(io, hub, false);
        Checked::Done
    }

    /// The I/O thread watches the poll set again; `for_good` where the socket was closed.
    pub(crate) fn take_back(&self, io: &Io, hub: &Arc<Hub>, for_good: bool) {
        let mut state = self.state.lock();
        state.ended |= for_good;
        self.taken.store(false, Ordering::SeqCst);
        self.expose(&state, io, hub);
        drop(state);
        hub.rouse();
        if hub.has_unread() {
            hub.have_io_read_on();
        }
    }

    /// Nobody is inside.
    pub(crate) fn is_empty(&self) -> bool {
        self.inside.load(Ordering::SeqCst) == 0
    }
}
