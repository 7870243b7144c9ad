//! An event loop: a thread with a poller, which runs tasks. Each has a doorbell and a queue of commands.
//!
//! Only this thread uses the tasks' sockets. Other threads send a task commands, or change shared state and ring the
//! task's doorbell. In each turn the loop waits for an event, a ring or a task's deadline. Then each task that this
//! concerns gets its events and its commands, and works. A task ends when its [`Handle`] is dropped, or when it panics;
//! the thread ends with the last handle, slot and [`EventLoop`].
//!
//! A task neither sleeps nor owns a thread; it returns its deadline. So a simulation can call it directly, in virtual
//! time, and many tasks can share a thread.
//!
//! ```
//! use std::sync::mpsc::{Sender, channel};
//! use pinnace_eventloop::{EventLoop, Next, Task};
//!
//! struct Adder(Sender<u32>, u32);
//!
//! impl Task for Adder {
//!     type Token = ();
//!     type Command = u32;
//!     fn on_ready(&mut self, (): ()) {}
//!     fn on_command(&mut self, number: u32) {
//!         self.1 += number;
//!         let _ = self.0.send(self.1);
//!     }
//!     fn work(&mut self) -> Next {
//!         Next::Wait(None)
//!     }
//! }
//!
//! let events = EventLoop::start("adders")?;
//! let (sums, totals) = channel();
//! let handles = [events.slot(), events.slot()].map(|slot| slot.run(Adder(sums.clone(), 0)));
//! handles[0].send(2);
//! handles[0].send(3);
//! assert_eq!(totals.iter().take(2).collect::<Vec<u32>>(), [2, 5]);
//! handles[1].send(4);
//! assert_eq!(totals.recv(), Ok(4));
//! # Ok::<(), pinnace_engine::Error>(())
//! ```

#![forbid(unsafe_code)]

mod doorbell;
mod running;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{JoinHandle, ThreadId};
use std::time::Instant;

use pinnace_engine::{Error, POLLIN, PollTarget, Poller};

use doorbell::Bells;
pub use doorbell::Doorbell;
use running::Order;

/// What an event loop runs.
pub trait Task: Send + 'static {
    /// Names a socket or descriptor of the task.
    type Token: Clone + Send + Sync + 'static;
    type Command: Send + 'static;

    /// A socket or descriptor can be read.
    fn on_ready(&mut self, token: Self::Token);

    fn on_command(&mut self, command: Self::Command);

    /// Called at the end of each of its turns, and once at the start. Returns the latest time at which its next turn
    /// must begin.
    fn work(&mut self) -> Next;
}

/// When a task's next turn begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once.
    Now,
    /// With the next event, ring or command, and at this time at the latest.
    Wait(Option<Instant>),
}

/// Identifies a task of a loop.
type TaskId = u64;

#[derive(Clone)]
enum Source<T> {
    Bells,
    Task(TaskId, T),
}

/// The sockets and descriptors that a task waits for.
#[derive(Clone)]
pub struct Interest<T>(TaskId, Arc<Poller<Source<T>>>);

impl<T: Clone> Interest<T> {
    /// Reports `token` whenever the target can be read. Errors: as of `Poller::add`.
    pub fn add(&self, target: PollTarget, token: T) -> Result<(), Error> {
        self.1.add(target, POLLIN, Source::Task(self.0, token))
    }

    /// Error: Invalid, it was not added.
    pub fn remove(&self, target: PollTarget) -> Result<(), Error> {
        self.1.remove(target)
    }
}

/// A running event loop.
pub struct EventLoop<K: Task>(Arc<Running<K>>);

/// As `EventLoop`, without keeping it running.
pub struct WeakLoop<K: Task>(Weak<Running<K>>);

/// The thread, which ends when this is dropped.
struct Running<K: Task> {
    poller: Arc<Poller<Source<K::Token>>>,
    bells: Arc<Bells>,
    orders: Mutex<Option<Sender<Order<K>>>>,
    thread: Option<JoinHandle<()>>,
    last_id: AtomicU64,
    /// The slots that were made and did not end.
    slots: AtomicUsize,
}

impl<K: Task> EventLoop<K> {
    /// Starts the thread. Errors: NoMemory, the thread could not be created; those of creating descriptors.
    pub fn start(name: &str) -> Result<EventLoop<K>, Error> {
        let (poller, bells) = (Arc::new(Poller::new()?), Arc::new(Bells::new()?));
        poller.add(PollTarget::Fd(bells.descriptor()), POLLIN, Source::Bells)?;
        let (orders, received) = channel();
        let (events, rings) = (poller.clone(), bells.clone());
        let thread = pinnace_sys::thread::start(name, move || running::run::<K>(&events, &rings, &received));
        let thread = Some(thread.map_err(|_| Error::NoMemory)?);
        let (orders, last_id, slots) = (Mutex::new(Some(orders)), AtomicU64::new(0), AtomicUsize::new(0));
        Ok(EventLoop(Arc::new(Running { poller, bells, orders, thread, last_id, slots })))
    }

    /// A place for a task.
    pub fn slot(&self) -> Slot<K> {
        self.0.slots.fetch_add(1, Ordering::Relaxed);
        let id = self.0.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        Slot { id, doorbell: Arc::new(Doorbell::of(id, self.0.bells.clone())), running: self.0.clone() }
    }

    /// How many slots and tasks it has.
    pub fn slots(&self) -> usize {
        self.0.slots.load(Ordering::Relaxed)
    }

    pub fn downgrade(&self) -> WeakLoop<K> {
        WeakLoop(Arc::downgrade(&self.0))
    }
}

impl<K: Task> WeakLoop<K> {
    /// The loop, unless it ends.
    pub fn upgrade(&self) -> Option<EventLoop<K>> {
        self.0.upgrade().map(EventLoop)
    }
}

impl<K: Task> Running<K> {
    fn order(&self, order: Order<K>) {
        if let Some(orders) = &*self.orders.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = orders.send(order);
        }
        self.bells.ring();
    }

    fn thread_id(&self) -> Option<ThreadId> {
        self.thread.as_ref().map(|thread| thread.thread().id())
    }
}

impl<K: Task> Drop for Running<K> {
    fn drop(&mut self) {
        *self.orders.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.bells.ring();
        // A task may drop the last handle itself: its thread ends after this turn.
        if let Some(thread) = self.thread.take().filter(|of| of.thread().id() != std::thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

/// The place of a task that does not run yet.
pub struct Slot<K: Task> {
    id: TaskId,
    doorbell: Arc<Doorbell>,
    running: Arc<Running<K>>,
}

impl<K: Task> Slot<K> {
    /// Events before the task runs are passed on when it does, as long as their targets can be read.
    pub fn interest(&self) -> Interest<K::Token> {
        Interest(self.id, self.running.poller.clone())
    }

    pub fn doorbell(&self) -> Arc<Doorbell> {
        self.doorbell.clone()
    }

    /// Runs a task.
    pub fn run(self, task: K) -> Handle<K> {
        let ((sender, commands), (alive, ended)) = (channel(), channel());
        let doorbell = self.doorbell.clone();
        self.running.order(Order { id: self.id, task: Box::new(task), commands, doorbell, alive });
        Handle { commands: Mutex::new(Some(sender)), ended: Mutex::new(ended), slot: self }
    }
}

impl<K: Task> Drop for Slot<K> {
    fn drop(&mut self) {
        self.running.slots.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Controls a task, which ends when this is dropped.
pub struct Handle<K: Task> {
    commands: Mutex<Option<Sender<K::Command>>>,
    /// Carries no values, and is disconnected when the task has ended.
    ended: Mutex<Receiver<()>>,
    slot: Slot<K>,
}

impl<K: Task> Handle<K> {
    /// Sends a command. It is dropped if the task has ended.
    pub fn send(&self, command: K::Command) {
        if let Some(commands) = &*self.commands.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = commands.send(command);
        }
        self.slot.doorbell.ring();
    }
}

impl<K: Task> Drop for Handle<K> {
    /// Waits until the task is dropped, unless a task of the same loop calls it.
    fn drop(&mut self) {
        *self.commands.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.slot.doorbell.ring();
        if self.slot.running.thread_id() != Some(std::thread::current().id()) {
            let _ = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner).recv();
        }
    }
}

#[cfg(test)]
mod tests;
