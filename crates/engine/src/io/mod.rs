//! The I/O thread as other threads see it: they send it [`Command`]s and register descriptors with its poller. What
//! it does with them is in `reactor`.

mod owner;
mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pinnace_sys::poll::{Interest, Poller};
use pinnace_sys::wake::WakeFd;

use crate::error::Error;
use crate::link::Link;
use crate::mailbox::Mailbox;
use crate::pipe::PipeId;
use crate::transports::Route;
pub(crate) use owner::{ConnectionSide, NOTIFY_CONNECT, Owner, Services};
pub(crate) use requests::{Dial, LastingPipe, Listener};

/// A request to the I/O thread.
pub(crate) enum Command {
    /// The socket has a new poll set.
    Enter(Arc<Mailbox>),
    /// A link that needed no handshake is registered with the I/O thread, or with its socket's poll set.
    Join(Arc<Link>),
    /// Links of the socket have more to read than one turn takes.
    ReadOn(Arc<Mailbox>),
    /// After the pause, the link with this token checks again for room in its shared memory.
    TryLater(u64, Duration),
    Listen(Box<Listener>),
    Connect(Box<Dial>),
    /// Ends a listener or a connecter and its connections, which send their messages first, within the linger time.
    End(Arc<Mailbox>, u64, Option<Duration>),
    /// Ends an accepted connection, without linger.
    EndLink(Arc<Link>),
    /// Ends the connection of a pipe once all is written, within this time; no other is made.
    HangUp(Arc<Mailbox>, PipeId, Option<Duration>),
    /// A connection is lost.
    LinkDown(Arc<Mailbox>, PipeId),
    /// A sender leaves messages unwritten in this link.
    CheckFlush(Arc<Mailbox>, PipeId),
    /// The queues of a connection may have grown.
    QueuesGrown(Arc<Mailbox>, PipeId),
    /// Callers poll the socket's connections: check the poll ownership until it is taken back.
    CheckOwnership(Arc<Mailbox>),
    /// Runs a function on the I/O thread, which holds no locks.
    Run(Box<dyn FnOnce() + Send>),
    /// There are notices for a socket with level-triggered descriptors, or with tasks that wait.
    Look(Arc<Mailbox>),
    /// A peer has announced a time to live for its heartbeats: check its liveness.
    AwaitPeer(Arc<Mailbox>, PipeId),
    Resolved(u64, Vec<Route>),
    /// The ZAP handler may have answered for the handshake with this token.
    Answered(u64),
    /// The socket is closed: send what is left, within the linger time, then call the function.
    Close(Arc<Mailbox>, Option<Duration>, Box<dyn FnOnce() + Send>),
    /// The context is terminated now: nothing lingers any more.
    EndLinger,
    Stop,
}

/// The I/O thread as other threads see it.
pub(crate) struct Io {
    commands: Mutex<Vec<Command>>,
    /// The I/O thread will sleep without checking the commands again: the sender of the next one must wake it.
    waits: AtomicBool,
    wake: WakeFd,
    poller: Poller,
    next_token: AtomicU64,
    /// Its number of entries and links, to find the least busy I/O thread.
    pub(crate) load: AtomicUsize,
}

/// The token of the wake-up for commands.
pub(crate) const WAKE_TOKEN: u64 = 0;

impl Io {
    pub(crate) fn new() -> Result<Arc<Io>, Error> {
        let (wake, poller) = (WakeFd::new()?, Poller::new()?);
        poller.add(&wake, WAKE_TOKEN, Interest::READ)?;
        Ok(Arc::new(Io {
            commands: Mutex::default(),
            waits: AtomicBool::new(false),
            wake,
            poller,
            next_token: AtomicU64::new(WAKE_TOKEN + 1),
            load: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn send(&self, command: Command) {
        self.commands.lock().push(command);
        if self.waits.swap(false, Ordering::Relaxed) {
            self.wake.signal();
        }
    }

    /// Announces that the I/O thread is about to sleep. False: there are commands.
    pub(crate) fn begins_wait(&self) -> bool {
        // The lock orders this store: a command that the check below misses is pushed after the lock is released,
        // and its sender then reads true and writes the eventfd.
        self.waits.store(true, Ordering::Relaxed);
        self.commands.lock().is_empty()
    }

    pub(crate) fn ends_wait(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }

    /// The commands sent since the last call, in order.
    pub(crate) fn take_commands(&self) -> Vec<Command> {
        std::mem::take(&mut *self.commands.lock())
    }

    /// The I/O thread was woken for commands.
    pub(crate) fn clear_wake(&self) {
        self.wake.clear();
    }

    pub(crate) fn poller(&self) -> &Poller {
        &self.poller
    }

    /// A new, unique token.
    pub(crate) fn token(&self) -> u64 {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }
}
