//! Wakes the tasks of executors that wait for events of a client's transfers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use pinnace_eventloop::{Next, Task};

use super::task::{ClientTask, Command};

/// The tasks that wait, each for events of one transfer.
#[derive(Default)]
pub struct Wakers(Mutex<HashMap<u64, Waker>>);

impl Wakers {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the task once, after the next events. An event may have come before: the caller looks again.
    pub fn add(&self, operation: u64, waker: &Waker) {
        self.lock().insert(operation, waker.clone());
    }

    pub fn remove(&self, operation: u64) {
        self.lock().remove(&operation);
    }

    fn wake_all(&self) {
        let wakers = std::mem::take(&mut *self.lock());
        wakers.into_values().for_each(Waker::wake);
    }
}

/// The client's task. All events come from its turns, so the tasks that wait are woken at the end of each.
pub struct Waking {
    task: ClientTask,
    /// Dropped after the task, whose end is the end of all transfers.
    wakers: AtEnd,
}

struct AtEnd(Arc<Wakers>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.wake_all();
    }
}

impl Waking {
    pub fn new(task: ClientTask, wakers: Arc<Wakers>) -> Waking {
        Waking { task, wakers: AtEnd(wakers) }
    }
}

impl Task for Waking {
    type Token = ();
    type Command = Command;

    fn on_ready(&mut self, token: ()) {
        self.task.on_ready(token);
    }

    fn on_command(&mut self, command: Command) {
        self.task.on_command(command);
    }

    fn work(&mut self) -> Next {
        let next = self.task.work();
        self.wakers.0.wake_all();
        next
    }
}
