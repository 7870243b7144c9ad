//! What outlasts a call: level-triggered descriptors and tasks that wait for a socket. The I/O thread looks after them
//! when there are notices.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Weak};
use std::task::Waker;

use parking_lot::Mutex;

use super::Mailbox;
use crate::io::{Command, Io};

/// Has the I/O thread update a socket's descriptors and wake its tasks when there are notices.
pub(crate) struct LevelWatcher {
    io: Arc<Io>,
    mailbox: Weak<Mailbox>,
    asked: AtomicBool,
    /// The socket has descriptors.
    pub(crate) levels: AtomicBool,
}

impl LevelWatcher {
    /// A notice was posted.
    pub(crate) fn look(&self) {
        fence(Ordering::SeqCst); // The notice first: the look that this requests, or one already requested, finds it.
        if !self.asked.swap(true, Ordering::SeqCst)
            && let Some(mailbox) = self.mailbox.upgrade()
        {
            self.io.send(Command::Look(mailbox));
        }
    }
}

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

impl WakerPlace {
    pub(crate) fn new(mailbox: &Arc<Mailbox>) -> WakerPlace {
        let number = mailbox.wakers.last.fetch_add(1, Ordering::Relaxed);
        WakerPlace { mailbox: mailbox.clone(), number }
    }

    /// Leaves a waker, which replaces the previous one.
    pub(crate) fn leave(&self, waker: &Waker) {
        drop(self.mailbox.wakers.leave(self.number, waker));
    }
}

impl Mailbox {
    /// The I/O thread is asked to look at each notice from now on.
    pub(crate) fn level_watcher_of(self: &Arc<Mailbox>, io: &Arc<Io>) -> &LevelWatcher {
        self.level_watcher.get_or_init(|| LevelWatcher {
            io: io.clone(),
            mailbox: Arc::downgrade(self),
            asked: AtomicBool::new(false),
            levels: AtomicBool::new(false),
        })
    }

    /// Called by the I/O thread: updates the descriptors and wakes the tasks.
    pub(crate) fn look(&self) {
        let Some(watcher) = self.level_watcher.get() else { return };
        watcher.asked.store(false, Ordering::SeqCst);
        if watcher.levels.load(Ordering::SeqCst)
            && let Some(socket) = self.socket()
        {
            socket.update_levels();
        }
        self.wakers.wake();
    }
}
