//! Tasks of an executor that wait for a socket: each leaves a waker, and is woken when there is news.
//!
//! The rule for who waits: leave the waker, then try again, and only then sleep. A wake-up says that something may
//! have changed, no more; all that wait are woken, so one that has lost interest meanwhile keeps nothing from
//! the others.
//!
//! Wakers are an executor's code. The I/O thread runs them, because it alone is known to hold no lock then; while
//! tasks use a socket it serves the connections too, as it does for who watches a descriptor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::task::Waker;

use parking_lot::Mutex;

use super::{Socket, Waiter};
use crate::error::Error;
use crate::hub::Hub;

/// The wakers of those who wait for a socket.
#[derive(Default)]
pub(crate) struct Wakers {
    list: Mutex<Vec<(u64, Waker)>>,
    last: AtomicU64,
}

/// A task's place among those who wait; given up when it is dropped.
pub struct Place {
    hub: Arc<Hub>,
    number: u64,
}

impl Wakers {
    /// Wakes all, once. No lock is held meanwhile.
    pub(crate) fn wake(&self) {
        let woken = std::mem::take(&mut *self.list.lock());
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// The waker counts for this place; returns the one that did before, to be dropped with the lock open.
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

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.hub.wakers.take(self.number));
    }
}

impl Socket {
    /// Has `waker` woken when something may have changed, once; `place` is the caller's from call to call. Who calls
    /// this tries again before it sleeps. What has gathered is written.
    pub fn wake_task(self, place: &mut Option<Place>, waker: &Waker) -> Result<(), Error> {
        let (hub, io) = {
            let core = self.lock()?;
            (core.hub.clone(), core.io.clone())
        };
        hub.watch(&io);
        if hub.lease.is_taken() {
            // Callers that wait no longer come for it.
            hub.lease.take_back(&io, &hub, false);
        }
        let place = place.get_or_insert_with(|| {
            let number = hub.wakers.last.fetch_add(1, Ordering::Relaxed);
            Place { hub: hub.clone(), number }
        });
        drop(place.hub.wakers.leave(place.number, waker));
        fence(Ordering::SeqCst); // What is posted from here on finds the waker; what was, the next look.
        Waiter::of(hub).flush();
        Ok(())
    }
}
