//! A number of bytes that several queues may hold together.
//!
//! Each queue of a budget charges it with what becomes visible and gives back what was consumed. While more is held
//! than the budget allows, no producer of any of them has room but those whose queues hold nothing. One that wanted
//! room is told by whoever brings the sum below the limit again.

use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, fence};

/// The budget.
pub struct Budget {
    max_bytes: AtomicU64,
    used: AtomicU64,
    /// A producer waits for room.
    starved: AtomicBool,
    on_room: Box<dyn Fn() + Send + Sync>,
}

impl Budget {
    /// A budget of so many bytes; 0 is no limit. `on_room` is called when there is room again and a producer waits for
    /// it, by any thread, with locks held: it must not wait.
    pub fn new(max_bytes: u64, on_room: Box<dyn Fn() + Send + Sync>) -> Budget {
        let (max_bytes, used) = (AtomicU64::new(max_bytes), AtomicU64::new(0));
        Budget { max_bytes, used, starved: AtomicBool::new(false), on_room }
    }

    /// Changes the limit.
    pub fn set_max(&self, max_bytes: u64) {
        self.max_bytes.store(max_bytes, Ordering::SeqCst);
        self.look();
    }

    /// The limit; 0 is none.
    pub fn max(&self) -> u64 {
        self.max_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that the queues hold.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that they may hold beside.
    pub(crate) fn left(&self) -> u64 {
        match self.max_bytes.load(Ordering::Relaxed) {
            0 => u64::MAX,
            max => max.saturating_sub(self.used()),
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        let max = self.max_bytes.load(Ordering::Relaxed);
        max == 0 || self.used.load(Ordering::Acquire) < max
    }

    /// Asks for `on_room`; whether there is room already has to be looked at behind this.
    pub(crate) fn want_room(&self) {
        self.starved.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    fn look(&self) {
        fence(Ordering::SeqCst);
        if self.starved.load(Ordering::Relaxed)
            && self.has_room()
            && self.starved.swap(false, Ordering::SeqCst)
        {
            (self.on_room)();
        }
    }
}

/// One end's share in a budget: how many of the queue's bytes it has reported.
pub(crate) struct Share {
    budget: Arc<Budget>,
    reported: u64,
}

impl Share {
    pub(crate) fn new(budget: Arc<Budget>) -> Share {
        Share { budget, reported: 0 }
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The producer's: so many bytes have become visible in all.
    pub(crate) fn held(&mut self, bytes: u64) {
        self.budget.used.fetch_add(bytes - self.reported, Ordering::AcqRel);
        self.reported = bytes;
    }

    /// The consumer's: so many bytes were consumed in all. They are fewer than before after a rewind.
    pub(crate) fn consumed(&mut self, bytes: u64) {
        if bytes >= self.reported {
            self.budget.used.fetch_sub(bytes - self.reported, Ordering::AcqRel);
            self.budget.look();
        } else {
            self.budget.used.fetch_add(self.reported - bytes, Ordering::AcqRel);
        }
        self.reported = bytes;
    }

    /// Bytes reported so far.
    pub(crate) fn reported(&self) -> u64 {
        self.reported
    }
}

/// What is left when both ends of a queue are gone is given back.
pub(crate) fn settle(budget: &Budget, held: u64, consumed: u64) {
    budget.used.fetch_sub(held.saturating_sub(consumed), Ordering::AcqRel);
    budget.look();
}
