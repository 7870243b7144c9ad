//! Mailbox of a socket: where its links, the sockets at the other ends of inproc pipes, and its context reach it.
//!
//! They never take the socket's lock. They post notices, which the next call on the socket reads, and wake the
//! callers that sleep in the socket. At first the I/O thread polls a socket's connections one by one. Once callers
//! wait for connections, these move to a poll set of the socket's own (`poll_set`). The I/O thread polls that set as
//! a whole, and stops polling it while a caller waits in it (`ownership`).

mod links;
mod poll_set;
mod pollers;
mod send_clock;
mod serving;
mod unread;
mod watcher;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pinnace_ring::{Doorbell, EventCount};

use links::Links;
use poll_set::Signal;
pub(crate) use poll_set::{PollSet, PolledBeside};
use pollers::Pollers;
use send_clock::SendClock;
use unread::{drop_unwanted, remove_superseded, undeliverable};
pub use watcher::WakerPlace;
use watcher::{LevelWatcher, Wakers};

use crate::drops::{Reason, Tally};
use crate::error::Error;
use crate::io::Io;
use crate::link::Link;
use crate::monitor::Monitoring;
use crate::options::Options;
use crate::ownership::{Leader, PollOwnership};
use crate::peer::Peer;
use crate::pipe::{Pipe, PipeId};
use crate::socket_kind::IncomingUse;
use crate::spin::{MemorySpin, Spin};

/// A notice to a socket.
pub(crate) enum Notice {
    /// A new pipe with a connected peer.
    Attach(PipeId, Box<Pipe>),
    /// A connection for an existing pipe.
    Up(PipeId, Box<Peer>, Arc<Link>),
    /// The connection is lost; the pipe stays.
    Down(PipeId),
    /// The pipe has ended.
    Ended(PipeId),
    Readable(PipeId),
    Writable(PipeId),
    /// The pipe's link has switched to shared memory.
    SwitchedToMemory(PipeId),
    /// The endpoint that an early inproc pipe waits for is bound.
    InprocBound(PipeId, Box<InprocBound>),
    /// The high-water marks of the socket at the other end of an inproc pipe have changed, or may have.
    HighWaterMarks(PipeId),
    /// There is room again in the context's byte budget.
    Room,
    /// An endpoint was given up: the socket no longer connects to it, and its pipe ends.
    Forget(u64),
    /// The context is being terminated.
    Stop,
}

impl Notice {
    /// The pipe that the notice is about.
    fn pipe(&self) -> Option<PipeId> {
        match self {
            Notice::Attach(id, _) | Notice::Up(id, ..) | Notice::InprocBound(id, _) => Some(*id),
            Notice::Down(id) | Notice::Ended(id) => Some(*id),
            Notice::Readable(id)
            | Notice::Writable(id)
            | Notice::SwitchedToMemory(id)
            | Notice::HighWaterMarks(id) => Some(*id),
            Notice::Forget(_) | Notice::Room | Notice::Stop => None,
        }
    }
}

/// For an inproc pipe that connected before its endpoint was bound: the socket that has bound it now.
pub(crate) struct InprocBound {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) pipe: PipeId,
    pub(crate) peer: Peer,
    /// Message that the bound socket receives when the connecting socket leaves (ZMQ_DISCONNECT_MSG).
    pub(crate) farewell: Option<Arc<[u8]>>,
}

/// A socket's current high-water marks in messages; 0: no limit. The socket sets them; links and the other ends of
/// inproc pipes read them.
#[derive(Default)]
pub(crate) struct HighWaterMarks {
    pub(crate) send: AtomicU32,
    pub(crate) receive: AtomicU32,
    /// Bytes that one queue may hold; 0: no limit.
    send_bytes: AtomicU64,
    receive_bytes: AtomicU64,
}

impl HighWaterMarks {
    pub(crate) fn send_bytes(&self) -> u64 {
        self.send_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn receive_bytes(&self) -> u64 {
        self.receive_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, options: &Options) {
        self.send.store(options.sndhwm, Ordering::Relaxed);
        self.receive.store(options.rcvhwm, Ordering::Relaxed);
        self.send_bytes.store(options.snd_bytes, Ordering::Relaxed);
        self.receive_bytes.store(options.rcv_bytes, Ordering::Relaxed);
    }
}

/// The socket behind a mailbox, for callers that may block on its lock.
pub(crate) trait SocketHandle: Send + Sync {
    /// Handles the socket's notices. False: the socket is closed, or its context is being terminated.
    fn handle_notices(&self) -> bool;

    /// Handles the notices, and updates the level-triggered descriptors.
    fn update_levels(&self);

    /// Shrinks the queues of an idle link. False if they hold anything, or if the socket does not know the link yet.
    /// Called by the I/O thread once or a few times after heavy traffic.
    fn shrink(&self, link: &Link) -> bool;

    fn close(&self) -> Result<(), Error>;
}

/// A socket as other threads see it. Aligned to its own cache lines: when it happened to share one with data that
/// another thread writes, small messages over inproc were 17 % slower.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Mailbox {
    /// The socket belongs to the engine, not to the application.
    pub(crate) internal: bool,
    incoming: IncomingUse,
    notices: Mutex<Vec<Notice>>,
    pending: AtomicBool,
    /// Counts how often notices were read.
    reads: AtomicU32,
    pub(crate) pollers: Pollers,
    pub(crate) event: EventCount,
    /// Doorbell that the leading caller sleeps at, if it sleeps at one.
    pub(crate) doorbell: Mutex<Option<Doorbell>>,
    /// The I/O thread that serves the socket's connections, once it is chosen.
    io: OnceLock<Arc<Io>>,
    poll_set: OnceLock<PollSet>,
    /// Waits for connections before there was a poll set.
    waits: AtomicU32,
    signal: Signal,
    /// Updates level-triggered descriptors and wakes waiting tasks; unset until the first of them.
    pub(crate) level_watcher: OnceLock<LevelWatcher>,
    /// Tasks that wait for the socket.
    pub(crate) wakers: Wakers,
    /// Freed pipe ids, and the lowest id that was never used.
    ids: Mutex<(Vec<u32>, u32)>,
    /// The socket is closed: notices are no longer read.
    closed: AtomicBool,
    /// Peers that came and went between two calls, without anything for the socket to receive.
    vanished: AtomicU64,
    links: Mutex<Links>,
    /// Tokens of links with more to read than one turn takes; the poll set does not report them.
    to_read: Mutex<Vec<u64>>,
    has_to_read: AtomicBool,
    /// Number of links.
    link_count: AtomicU32,
    /// Some links may have unwritten data.
    has_unwritten: AtomicBool,
    /// Peers need not wake us, because a caller polls the shared memory (`suppress_wakeups`).
    wakeups_suppressed: AtomicBool,
    pub(crate) hwm: HighWaterMarks,
    socket: OnceLock<Box<dyn SocketHandle>>,
    pub(crate) ownership: PollOwnership,
    pub(crate) spin: Spin,
    pub(crate) memory_spin: MemorySpin,
    pub(crate) sends: SendClock,
    pub(crate) monitoring: Monitoring,
    /// Messages lost outside the socket's calls; all of its lost messages after its close.
    pub(crate) lost: Tally,
}

impl Mailbox {
    /// `internal`: the socket belongs to the engine, not to the application.
    pub(crate) fn new(internal: bool, incoming: IncomingUse) -> Mailbox {
        Mailbox { internal, incoming, ..Mailbox::default() }
    }

    pub(crate) fn post(&self, notice: Notice) {
        let mut list = self.notices.lock();
        if self.closed.load(Ordering::SeqCst) {
            drop(list);
            return undeliverable(notice);
        }
        // Superseded notices own links and pipes, which are dropped after the lock is released.
        let mut overtaken = Vec::new();
        if let Notice::Down(id) | Notice::Ended(id) = notice {
            overtaken = remove_superseded(&mut list, id, matches!(notice, Notice::Ended(_)), self.incoming);
            if overtaken.iter().any(|other| matches!(other, Notice::Attach(..))) {
                drop(list);
                for mut notice in overtaken {
                    if let Notice::Attach(_, pipe) = &mut notice {
                        self.lost.add(Reason::Unwanted, drop_unwanted(pipe, self.incoming));
                    }
                    undeliverable(notice);
                }
                self.free_pipe(id);
                self.vanished.fetch_add(1, Ordering::Release);
                return self.wake();
            }
        }
        list.push(notice);
        drop(list);
        drop(overtaken);
        self.pending.store(true, Ordering::Release);
        self.wake();
    }

    /// Wakes callers that sleep in the socket, pollers, and the I/O thread where it serves descriptors or tasks.
    pub(crate) fn wake(&self) {
        if self.event.notify() {
            match self.ownership.leader() {
                Leader::InSet => self.signal.wake(),
                Leader::AtDoorbell => self.ring_doorbell(),
                Leader::Awake | Leader::Nobody => {}
            }
            self.pollers.wake();
        }
        self.pollers.notify();
        self.signal.signal_descriptor();
        if let Some(watcher) = self.level_watcher.get() {
            watcher.look();
        }
    }

    /// Clones the doorbell first: the woken caller takes this lock at once.
    #[cold]
    fn ring_doorbell(&self) {
        let doorbell = self.doorbell.lock().clone();
        doorbell.iter().for_each(Doorbell::ring);
    }

    /// True if there are notices.
    #[inline(always)]
    pub(crate) fn has_notices(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    pub(crate) fn take_notices(&self, into: &mut Vec<Notice>) {
        self.clear_descriptor();
        self.pending.store(false, Ordering::SeqCst);
        self.reads.fetch_add(1, Ordering::SeqCst);
        into.append(&mut self.notices.lock());
    }

    /// How often notices were read. What a caller found is out of date once this has changed.
    pub(crate) fn reads(&self) -> u32 {
        self.reads.load(Ordering::SeqCst)
    }

    pub(crate) fn new_pipe(&self) -> PipeId {
        let mut ids = self.ids.lock();
        PipeId(ids.0.pop().unwrap_or_else(|| {
            ids.1 += 1;
            ids.1 - 1
        }))
    }

    pub(crate) fn free_pipe(&self, id: PipeId) {
        self.ids.lock().0.push(id.0);
    }

    /// Notes that a link has unwritten data (`Link::flush_unwritten`).
    pub(crate) fn note_unwritten(&self) {
        if !self.has_unwritten.load(Ordering::Relaxed) {
            self.has_unwritten.store(true, Ordering::Release);
        }
    }

    /// Whether links may have unwritten data since the last call; clears the flag.
    pub(crate) fn take_unwritten(&self) -> bool {
        self.has_unwritten.load(Ordering::Relaxed) && self.has_unwritten.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn set_socket(&self, socket: Box<dyn SocketHandle>) {
        let _ = self.socket.set(socket);
    }

    pub(crate) fn socket(&self) -> Option<&dyn SocketHandle> {
        self.socket.get().map(|socket| &**socket)
    }

    /// Closes the mailbox: drops its notices and refuses later ones.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let dropped = std::mem::take(&mut *self.notices.lock());
        dropped.into_iter().for_each(undeliverable);
        self.wake();
    }

    /// How many peers came and went without the socket's having seen them.
    pub(crate) fn vanished(&self) -> u64 {
        self.vanished.load(Ordering::Acquire)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}
