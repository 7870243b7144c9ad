//! Executor tasks that wait for a socket: each leaves a waker, which is woken when something may have changed.
//!
//! A task leaves its waker, retries its operation, and only then suspends. A wake-up guarantees nothing. All waiting
//! tasks are woken, so a task that has lost interest does not hold up the others.
//!
//! Wakers run the executor's code. The I/O thread runs them, because it alone is known to hold no lock at that point.
//! While tasks use a socket, the I/O thread also serves the connections, as it does for watched descriptors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::task::Waker;

use parking_lot::Mutex;

use super::{Socket, Waiter};
use crate::error::Error;
use crate::mailbox::Mailbox;

/// The wakers of the tasks that wait for a socket.
#[derive(Default)]
pub(crate) struct Wakers {
    list: Mutex<Vec<(u64, Waker)>>,
    last: AtomicU64,
}

/// A task's registration; dropping it removes the waker.
pub struct WakerPlace {
    mailbox: Arc<Mailbox>,
    number: u64,
}

impl Wakers {
    /// Wakes all tasks, once, with no lock held.
    pub(crate) fn wake(&self) {
        let woken = std::mem::take(&mut *self.list.lock());
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Sets the waker of a registration. Returns the previous waker, to be dropped after the lock is released.
    fn leave(&self, number: u64, waker: &Waker) -> Option<Waker> {
        let waker = waker.clone();
        let mut list = self.list.lock();
        match list.iter_mut().find(|(other, _)| *other == number) {
            Some((_, old)) => Some(std::mem::replace(old, waker)),
            None => {
                list.push((number, waker));
                None
            }
        }
    }

    fn take(&self, number: u64) -> Option<Waker> {
        let mut list = self.list.lock();
        let index = list.iter().position(|(other, _)| *other == number)?;
        Some(list.swap_remove(index).1)
    }
}

impl Drop for WakerPlace {
    fn drop(&mut self) {
        drop(self.mailbox.wakers.take(self.number));
    }
}

impl Socket {
    /// Registers `waker` to be woken once when something may have changed, and flushes unwritten data. The caller
    /// keeps `place` from call to call, and retries its operation before it suspends.
    pub fn wake_task(self, place: &mut Option<WakerPlace>, waker: &Waker) -> Result<(), Error> {
        let (mailbox, io) = {
            let core = self.lock()?;
            (core.mailbox.clone(), core.io.clone())
        };
        mailbox.level_watcher_of(&io);
        if mailbox.ownership.is_taken() {
            // Waiting callers do not take ownership again (`Mailbox::has_descriptor`).
            mailbox.ownership.reclaim(&io, &mailbox, false);
        }
        let place = place.get_or_insert_with(|| {
            let number = mailbox.wakers.last.fetch_add(1, Ordering::Relaxed);
            WakerPlace { mailbox: mailbox.clone(), number }
        });
        drop(place.mailbox.wakers.leave(place.number, waker));
        fence(Ordering::SeqCst); // A later notice finds the waker; an earlier one is found by the caller's retry.
        Waiter::of(mailbox).flush();
        Ok(())
    }
}
