//! Who watches a socket's connections: the I/O thread, or the callers that wait in the socket.
//!
//! A caller that is about to wait takes the lease: the I/O thread no longer looks at the socket's poll set,
//! so that news of a message wakes one thread, the one that wants it. Leaving costs the caller nothing;
//! instead the I/O thread looks now and then (`check`, every [`LEASE_TICK`]) and takes the lease back when
//! nobody has been inside. While a caller sleeps inside for long it stops looking (`unwatched`), and the
//! caller says so when it leaves: an idle socket costs no CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
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
    /// Callers that wait in the poll set, or serve it.
    inside: AtomicU32,
    /// Counts visits.
    visits: AtomicU32,
    unwatched: AtomicBool,
    /// One caller waits in the poll set; others wait for it to bring news (`lead`).
    led: AtomicBool,
}

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
        let interest = if self.taken.load(Ordering::SeqCst) { Interest::NONE } else { Interest::READ };
        io.poller().add(&set.poller, token, interest)
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }

    /// A caller comes in to wait or to serve; `leave` has to follow. False: the I/O thread serves, wait for
    /// it.
    pub(crate) fn enter(&self, io: &Io, hub: &Arc<Hub>) -> bool {
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
            if let (Some(token), Some(set)) = (state.token, hub.poll_set()) {
                let _ = io.poller().modify(&set.poller, token, Interest::NONE);
            }
            drop(state);
            io.send(Command::Supervise(hub.clone()));
        }
        true
    }

    /// Becomes the one caller that waits in the poll set. Several would take each other's wake-ups.
    pub(crate) fn lead(&self) -> bool {
        !self.led.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn is_led(&self) -> bool {
        self.led.load(Ordering::SeqCst)
    }

    /// Gives the place to another; who sleeps has to be woken.
    pub(crate) fn step_down(&self) {
        self.led.store(false, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self, io: &Io, hub: &Arc<Hub>) {
        self.visits.fetch_add(1, Ordering::SeqCst);
        // Others sleep here, and this caller may have looked by itself; or the I/O thread has taken the lease back
        // while it came in.
        if self.inside.fetch_sub(1, Ordering::SeqCst) > 1 || !self.taken.load(Ordering::SeqCst) {
            hub.rouse();
        }
        if self.unwatched.load(Ordering::SeqCst) && self.unwatched.swap(false, Ordering::SeqCst) {
            io.send(Command::Supervise(hub.clone()));
        }
    }

    /// The I/O thread looks; `before` is what it found last.
    pub(crate) fn check(&self, io: &Io, hub: &Hub, before: Option<u32>) -> Checked {
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
    pub(crate) fn take_back(&self, io: &Io, hub: &Hub, for_good: bool) {
        let mut state = self.state.lock();
        state.ended |= for_good;
        self.taken.store(false, Ordering::SeqCst);
        if let (Some(token), Some(set)) = (state.token, hub.poll_set()) {
            let _ = io.poller().modify(&set.poller, token, Interest::READ);
        }
        drop(state);
        hub.rouse();
    }

    /// Nobody is inside.
    pub(crate) fn is_empty(&self) -> bool {
        self.inside.load(Ordering::SeqCst) == 0
    }
}
