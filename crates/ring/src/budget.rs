//! A limit on the bytes that several queues hold together.
//!
//! Each queue of a budget charges it for what becomes visible and returns what was consumed. While the queues hold
//! more than the budget allows, only producers of empty queues have room. A producer that wanted room is notified by
//! the thread that brings the sum below the limit again.

use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, fence};

/// The budget, shared by its queues.
pub struct Budget {
    max_bytes: AtomicU64,
    used: AtomicU64,
    /// A producer waits for room.
    starved: AtomicBool,
    on_room: Box<dyn Fn() + Send + Sync>,
}

impl Budget {
    /// A budget of `max_bytes` bytes; 0 is no limit. `on_room` is called when there is room again and a producer
    /// waits for it. It is called on any thread, with locks held: it must not block.
    pub fn new(max_bytes: u64, on_room: Box<dyn Fn() + Send + Sync>) -> Budget {
        let (max_bytes, used) = (AtomicU64::new(max_bytes), AtomicU64::new(0));
        Budget { max_bytes, used, starved: AtomicBool::new(false), on_room }
    }

    /// Changes the limit.
    pub fn set_max(&self, max_bytes: u64) {
        self.max_bytes.store(max_bytes, Ordering::SeqCst);
        self.look();
    }

    /// The limit in bytes; 0 is none.
    pub fn max(&self) -> u64 {
        self.max_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that the queues hold now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that they may hold in addition.
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

    /// Requests `on_room`. The caller must check for room once more after this.
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

/// One queue end's account with a budget: how many of the queue's bytes it has reported.
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

    /// For the producer: `bytes` have become visible in total.
    pub(crate) fn held(&mut self, bytes: u64) {
        self.budget.used.fetch_add(bytes - self.reported, Ordering::AcqRel);
        self.reported = bytes;
    }

    /// For the consumer: `bytes` were consumed in total. After a rewind that is less than before.
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

/// Returns to the budget what is left in a queue when both of its ends are dropped.
pub(crate) fn give_back(budget: &Budget, held: u64, consumed: u64) {
    budget.used.fetch_sub(held.saturating_sub(consumed), Ordering::AcqRel);
    budget.look();
}
