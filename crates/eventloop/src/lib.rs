//! An event loop: a thread with a poller, a doorbell and a queue of commands, which runs one task.
//!
//! Only this thread uses the task's sockets. Other threads send it commands, or change shared state and ring its
//! doorbell. In each turn the loop waits for an event, the doorbell or the task's deadline; then it passes on what is
//! ready, then all commands, then it lets the task work. It ends when its [`Handle`] is dropped.
//!
//! The task neither sleeps nor owns a thread; it returns its deadline. So a simulation can call it directly, in virtual
//! time.
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
//! let (sums, totals) = channel();
//! let handle = EventLoop::new()?.start("adder", Adder(sums, 0))?;
//! handle.send(2);
//! handle.send(3);
//! assert_eq!(totals.iter().take(2).collect::<Vec<u32>>(), [2, 5]);
//! # Ok::<(), pinnace_engine::Error>(())
//! ```

#![forbid(unsafe_code)]

mod doorbell;

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinnace_engine::{Error, POLLIN, PollTarget, Poller};

pub use doorbell::Doorbell;

/// The most events taken from the poller at once.
const EVENTS_MAX: usize = 64;

/// What an event loop runs.
pub trait Task: Send + 'static {
    /// Names a socket or descriptor of the task.
    type Token: Clone + Send + Sync + 'static;
    type Command: Send + 'static;

    /// A socket or descriptor can be read.
    fn on_ready(&mut self, token: Self::Token);

    fn on_command(&mut self, command: Self::Command);

    /// Called at the end of each turn, and once at the start. Returns the latest time at which the next turn must
    /// begin.
    fn work(&mut self) -> Next;
}

/// When the next turn begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once.
    Now,
    /// With the next event, ring or command, and at this time at the latest.
    Wait(Option<Instant>),
}

#[derive(Clone)]
enum Source<T> {
    Doorbell,
    Task(T),
}

/// The sockets and descriptors that a task waits for.
#[derive(Clone)]
pub struct Interest<T>(Arc<Poller<Source<T>>>);

impl<T: Clone> Interest<T> {
    /// Reports `token` whenever the target can be read. Errors: as of `Poller::add`.
    pub fn add(&self, target: PollTarget, token: T) -> Result<(), Error> {
        self.0.add(target, POLLIN, Source::Task(token))
    }

    /// Error: Invalid, it was not added.
    pub fn remove(&self, target: PollTarget) -> Result<(), Error> {
        self.0.remove(target)
    }
}

/// An event loop that is not started.
pub struct EventLoop<T> {
    poller: Arc<Poller<Source<T>>>,
    doorbell: Arc<Doorbell>,
}

impl<T: Clone + Send + Sync + 'static> EventLoop<T> {
    pub fn new() -> Result<EventLoop<T>, Error> {
        let (poller, doorbell) = (Poller::new()?, Doorbell::new()?);
        poller.add(PollTarget::Fd(doorbell.descriptor()), POLLIN, Source::Doorbell)?;
        Ok(EventLoop { poller: Arc::new(poller), doorbell: Arc::new(doorbell) })
    }

    pub fn interest(&self) -> Interest<T> {
        Interest(self.poller.clone())
    }

    pub fn doorbell(&self) -> Arc<Doorbell> {
        self.doorbell.clone()
    }

    /// Starts the thread. Error: NoMemory, the thread could not be created.
    pub fn start<K>(self, name: &str, task: K) -> Result<Handle<K::Command>, Error>
    where
        K: Task<Token = T>,
    {
        let (sender, commands) = channel();
        let doorbell = self.doorbell.clone();
        let thread = pinnace_sys::thread::start(name, move || self.run(task, &commands));
        let thread = Some(thread.map_err(|_| Error::NoMemory)?);
        Ok(Handle { commands: Mutex::new(Some(sender)), doorbell, thread })
    }

    fn run<K: Task<Token = T>>(self, mut task: K, commands: &Receiver<K::Command>) {
        loop {
            let timeout = match task.work() {
                Next::Now => Some(Duration::ZERO),
                Next::Wait(until) => until.map(|until| until.saturating_duration_since(Instant::now())),
            };
            let events = match self.poller.wait(EVENTS_MAX, timeout, None) {
                Ok(events) => events,
                Err(Error::WouldBlock | Error::Interrupted) => Vec::new(),
                Err(_) => return,
            };
            for event in events {
                match event.data {
                    Source::Doorbell => self.doorbell.clear(),
                    Source::Task(token) => task.on_ready(token),
                }
            }
            loop {
                match commands.try_recv() {
                    Ok(command) => task.on_command(command),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
        }
    }
}

/// Controls an event loop, which ends when this is dropped.
pub struct Handle<C> {
    commands: Mutex<Option<Sender<C>>>,
    doorbell: Arc<Doorbell>,
    thread: Option<JoinHandle<()>>,
}

impl<C> Handle<C> {
    /// Sends a command. It is dropped if the thread has ended.
    pub fn send(&self, command: C) {
        if let Some(commands) = &*self.commands.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = commands.send(command);
        }
        self.doorbell.ring();
    }
}

impl<C> Drop for Handle<C> {
    fn drop(&mut self) {
        *self.commands.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.doorbell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
