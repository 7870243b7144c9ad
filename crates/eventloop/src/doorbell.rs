//! Wakes an event loop, for one of its tasks.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pinnace_engine::Error;
use pinnace_sys::wake::WakeFd;

use super::TaskId;

/// What wakes a loop: one descriptor for the doorbells of all its tasks.
pub struct Bells {
    wake: WakeFd,
    /// It was signalled since the last `take_rung`.
    rung: AtomicBool,
    /// Whose doorbells were rung since then.
    by: Mutex<Vec<TaskId>>,
}

impl Bells {
    pub fn new() -> Result<Bells, Error> {
        let wake = WakeFd::new().map_err(Error::from)?;
        Ok(Bells { wake, rung: AtomicBool::new(false), by: Mutex::default() })
    }

    /// Coalesces rings: the loop wakes up once.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            self.wake.signal();
        }
    }

    /// Moves the tasks whose doorbells were rung to `into`.
    pub fn take_rung(&self, into: &mut Vec<TaskId>) {
        self.wake.clear();
        self.rung.store(false, Ordering::SeqCst);
        into.append(&mut self.by.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn descriptor(&self) -> RawFd {
        self.wake.raw()
    }
}

/// Wakes a task. Coalesces rings: the task has one turn for all rings until it begins.
#[derive(Default)]
pub struct Doorbell {
    rung: AtomicBool,
    /// None: nothing runs the task, and its owner looks at `is_rung`.
    of: Option<(TaskId, Arc<Bells>)>,
}

impl Doorbell {
    pub(crate) fn of(task: TaskId, bells: Arc<Bells>) -> Doorbell {
        Doorbell { rung: AtomicBool::new(false), of: Some((task, bells)) }
    }

    pub fn ring(&self) {
        if self.rung.swap(true, Ordering::SeqCst) {
            return;
        }
        if let Some((task, bells)) = &self.of {
            bells.by.lock().unwrap_or_else(PoisonError::into_inner).push(*task);
            bells.ring();
        }
    }

    /// Called before shared state is checked again: a change made before a ring is visible then, and later rings have
    /// another turn.
    pub fn clear(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }

    /// Returns true if it was rung since the last `clear`.
    pub fn is_rung(&self) -> bool {
        self.rung.load(Ordering::SeqCst)
    }
}
