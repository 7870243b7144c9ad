//! Where a socket is reached from outside: by its links, by the sockets at the other end of inproc pipes, by
//! its context.
//!
//! They never take the socket's lock. They post mail, which whoever uses the socket next reads, and wake
//! those who sleep in it. The I/O thread watches a socket's connections one by one. Once a caller has waited for them
//! they lie in a poll set of the socket's own (`poll_set`): the I/O thread watches that set as a whole, and steps back
//! from it while a caller waits in it (`lease`).

mod links;
mod poll_set;
mod serving;
mod unread;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pinnace_ring::{Bell, EventCount};
use pinnace_sys::wake::WakeFd;

use links::Links;
use poll_set::Signal;
pub(crate) use poll_set::{PollSet, PolledBeside};
pub(crate) use unread::Incoming;
use unread::{drop_unwanted, take_overtaken, undeliverable};

use crate::drops::{Reason, Tally};
use crate::lease::{Leader, Lease};
use crate::link::Link;
use crate::monitor::Monitor;
use crate::options::Options;
use crate::peer::Peer;
use crate::pipe::{Pipe, PipeId};
use crate::poller::Watch;
use crate::reactor::Io;
use crate::socket::{Socket, Wakers, Watcher};
use crate::spin::{Spin, Watchful};
use crate::stats::EventCounts;

/// The time since messages were left to be written is shared among so many at most that were sent since: who sends one
/// message to very many is in no loop.
const GAPS_MAX: u64 = 64;

/// News for a socket.
pub(crate) enum Mail {
    /// A new pipe, whose peer is there.
    Attach(PipeId, Box<Pipe>),
    /// A connection for a pipe that is there.
    Up(PipeId, Box<Peer>, Arc<Link>),
    /// The connection is lost; the pipe stays.
    Down(PipeId),
    /// The pipe has ended.
    Ended(PipeId),
    Readable(PipeId),
    Writable(PipeId),
    /// The pipe's link has switched to shared memory.
    Lend(PipeId),
    /// The socket that a waiting inproc pipe leads to is there.
    Bound(PipeId, Box<Bound>),
    /// The socket at the other end of an inproc pipe has, or may have, other high-water marks than it had.
    Marks(PipeId),
    /// There is room again in the context's budget.
    Room,
    /// An endpoint is gone: it is connected no more, and its pipe ends.
    Forget(u64),
    /// The context is being terminated.
    Stop,
}

impl Mail {
    /// The pipe that it is about.
    fn pipe(&self) -> Option<PipeId> {
        match self {
            Mail::Attach(id, _) | Mail::Up(id, ..) | Mail::Bound(id, _) => Some(*id),
            Mail::Down(id) | Mail::Ended(id) => Some(*id),
            Mail::Readable(id) | Mail::Writable(id) | Mail::Lend(id) | Mail::Marks(id) => Some(*id),
            Mail::Forget(_) | Mail::Room | Mail::Stop => None,
        }
    }
}

/// What an inproc pipe that was connected early learns when its endpoint is bound.
pub(crate) struct Bound {
    pub(crate) hub: Arc<Hub>,
    pub(crate) pipe: PipeId,
    pub(crate) peer: Peer,
    /// What it receives when the other side leaves.
    pub(crate) farewell: Option<Arc<[u8]>>,
}

/// The high-water marks of a socket, as they are now, in messages; 0 is no limit. The socket sets them; links
/// and the other ends of inproc pipes read them.
#[derive(Default)]
pub(crate) struct Marks {
    pub(crate) send: AtomicU32,
    pub(crate) receive: AtomicU32,
    /// Bytes that one queue may hold; 0 is no limit.
    send_bytes: AtomicU64,
    receive_bytes: AtomicU64,
}

impl Marks {
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

/// A socket as others see it. On cache lines of its own: where it happened to share one with what another
/// thread writes, small messages over inproc were 17 % slower.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Hub {
    /// The socket is not the application's.
    pub(crate) internal: bool,
    incoming: Incoming,
    mail: Mutex<Vec<Mail>>,
    pending: AtomicBool,
    /// Counts how often mail was read.
    reads: AtomicU32,
    /// Those who wait for this socket among others (`poll`), to be told like sleepers.
    pollers: Mutex<Vec<Arc<WakeFd>>>,
    /// Lasting ones, which are told of all news (`poller`).
    watches: Mutex<Vec<Arc<Watch>>>,
    watched: AtomicBool,
    pub(crate) event: EventCount,
    /// Where the caller sleeps that leads, where it does so by a bell.
    pub(crate) bell: Mutex<Option<Bell>>,
    /// The I/O thread that serves its connections, once that is settled.
    io: OnceLock<Arc<Io>>,
    poll_set: OnceLock<PollSet>,
    /// Waits for connections before there was one.
    waits: AtomicU32,
    signal: Signal,
    /// Looks after level-triggered descriptors and tasks, once there was one.
    pub(crate) level_watcher: OnceLock<Watcher>,
    /// Tasks that wait for the socket.
    pub(crate) wakers: Wakers,
    /// Ids of pipes that are free, and the next that never was used.
    ids: Mutex<(Vec<u32>, u32)>,
    /// The socket was closed: nobody reads mail any more.
    closed: AtomicBool,
    /// Peers that came and went between two calls, and brought nothing.
    vanished: AtomicU64,
    links: Mutex<Links>,
    /// Links, by their tokens, with more to read than one turn takes, of which the poll set does not know.
    to_read: Mutex<Vec<u64>>,
    has_to_read: AtomicBool,
    /// How many they are.
    link_count: AtomicU32,
    /// Some of them may have something that they have not written.
    has_gathered: AtomicBool,
    /// Peers need not wake us, because a caller looked by itself (`hush`).
    hushed: AtomicBool,
    pub(crate) marks: Marks,
    socket: OnceLock<Socket>,
    pub(crate) lease: Lease,
    pub(crate) spin: Spin,
    pub(crate) watchful: Watchful,
    /// Messages that were sent, for each link that they were sent to.
    sent: AtomicU64,
    /// When a message was last written, or left to be written, of any of the links, by the links' clock; and how many
    /// had been sent then.
    left_at: AtomicU64,
    left_of: AtomicU64,
    monitored: AtomicBool,
    monitor: Mutex<Option<Monitor>>,
    /// Held while the frames of one event are sent.
    pub(crate) telling: Mutex<()>,
    /// How often each event has happened.
    pub(crate) events: EventCounts,
    /// Events that a monitor had no room for.
    pub(crate) events_dropped: AtomicU64,
    /// Messages that were lost outside the socket's calls, and from its close on all of them.
    pub(crate) lost: Tally,
}

impl Hub {
    /// `internal`: it is not of a socket of the application's.
    pub(crate) fn new(internal: bool, incoming: Incoming) -> Hub {
        Hub { internal, incoming, ..Hub::default() }
    }

    pub(crate) fn post(&self, mail: Mail) {
        let mut list = self.mail.lock();
        if self.closed.load(Ordering::SeqCst) {
            drop(list);
            return undeliverable(mail);
        }
        // What it overtakes (links, pipes) is let go with the lock open.
        let mut overtaken = Vec::new();
        if let Mail::Down(id) | Mail::Ended(id) = mail {
            overtaken = take_overtaken(&mut list, id, matches!(mail, Mail::Ended(_)), self.incoming);
            if overtaken.iter().any(|other| matches!(other, Mail::Attach(..))) {
                drop(list);
                for mut mail in overtaken {
                    if let Mail::Attach(_, pipe) = &mut mail {
                        self.lost.add(Reason::Unwanted, drop_unwanted(pipe, self.incoming));
                    }
                    undeliverable(mail);
                }
                self.free_pipe(id);
                self.vanished.fetch_add(1, Ordering::Release);
                return self.wake();
            }
        }
        list.push(mail);
        drop(list);
        drop(overtaken);
        self.pending.store(true, Ordering::Release);
        self.wake();
    }

    /// Wakes those who sleep in the socket.
    pub(crate) fn wake(&self) {
        if self.event.notify() {
            match self.lease.leader() {
                Leader::InSet => self.signal.wake(),
                Leader::AtBell => self.ring_bell(),
                Leader::Awake | Leader::Nobody => {}
            }
            self.pollers.lock().iter().for_each(|poller| poller.signal());
        }
        self.tell_watches();
        self.signal.expose();
        if let Some(watcher) = self.level_watcher.get() {
            watcher.look();
        }
    }

    /// Not with the lock held, which who wakes wants at once.
    #[cold]
    fn ring_bell(&self) {
        let bell = self.bell.lock().clone();
        bell.iter().for_each(Bell::ring);
    }

    /// Whether there is mail.
    #[inline(always)]
    pub(crate) fn has_mail(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    pub(crate) fn take_mail(&self, into: &mut Vec<Mail>) {
        self.clear_descriptor();
        self.pending.store(false, Ordering::SeqCst);
        self.reads.fetch_add(1, Ordering::SeqCst);
        into.append(&mut self.mail.lock());
    }

    /// How often mail was read. What a caller found is out of date when this has changed.
    pub(crate) fn reads(&self) -> u32 {
        self.reads.load(Ordering::SeqCst)
    }

    pub(crate) fn add_poller(&self, poller: &Arc<WakeFd>) {
        self.pollers.lock().push(poller.clone());
    }

    pub(crate) fn remove_poller(&self, poller: &Arc<WakeFd>) {
        let mut pollers = self.pollers.lock();
        if let Some(index) = pollers.iter().position(|other| Arc::ptr_eq(other, poller)) {
            pollers.swap_remove(index);
        }
    }

    /// Whether pollers have it.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::SeqCst)
    }

    /// Tells the pollers that something may be different.
    pub(crate) fn tell_watches(&self) {
        if self.is_watched() {
            self.watches.lock().iter().for_each(|watch| watch.tell());
        }
    }

    pub(crate) fn add_watch(&self, watch: &Arc<Watch>) {
        self.watches.lock().push(watch.clone());
        self.watched.store(true, Ordering::SeqCst);
    }

    /// Takes a poller out. True: others are there.
    pub(crate) fn remove_watch(&self, watch: &Arc<Watch>) -> bool {
        let mut watches = self.watches.lock();
        watches.retain(|other| !Arc::ptr_eq(other, watch));
        self.watched.store(!watches.is_empty(), Ordering::SeqCst);
        !watches.is_empty()
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

    /// Links have something that they have not written (`Link::flush_gathered`).
    pub(crate) fn gathers(&self) {
        if !self.has_gathered.load(Ordering::Relaxed) {
            self.has_gathered.store(true, Ordering::Release);
        }
    }

    /// Whether that may be so, since the last call.
    pub(crate) fn has_gathered(&self) -> bool {
        self.has_gathered.load(Ordering::Relaxed) && self.has_gathered.swap(false, Ordering::AcqRel)
    }

    /// A message is sent over a link. One thread at a time may say so.
    #[inline(always)]
    pub(crate) fn sends(&self) {
        self.sent.store(self.sent() + 1, Ordering::Relaxed);
    }

    /// How many messages were sent, for each link that they were sent to.
    #[inline(always)]
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Messages were written, or left to be written, at the time `now` of the links' clock.
    pub(crate) fn leaves(&self, now: u64) {
        self.left_at.store(now, Ordering::Relaxed);
        self.left_of.store(self.sent(), Ordering::Relaxed);
    }

    /// How much time there was since then for each message that was sent, the present one included, in nanoseconds. One
    /// that comes soon after others is not alone, and in a tight loop over many links each would cost a system call.
    pub(crate) fn gap(&self, now: u64) -> u64 {
        let messages = self.sent().saturating_sub(self.left_of.load(Ordering::Relaxed));
        now.saturating_sub(self.left_at.load(Ordering::Relaxed)) / messages.clamp(1, GAPS_MAX)
    }

    /// Says which socket this is.
    pub(crate) fn set_socket(&self, socket: Socket) {
        let _ = self.socket.set(socket);
    }

    /// The socket, for who may wait for its lock.
    pub(crate) fn socket(&self) -> Option<Socket> {
        self.socket.get().copied()
    }

    pub(crate) fn is_monitored(&self) -> bool {
        self.monitored.load(Ordering::Relaxed)
    }

    pub(crate) fn monitor(&self) -> Option<Monitor> {
        *self.monitor.lock()
    }

    /// Sets who is told of events; returns who was before.
    pub(crate) fn set_monitor(&self, monitor: Option<Monitor>) -> Option<Monitor> {
        self.monitored.store(monitor.is_some(), Ordering::Relaxed);
        std::mem::replace(&mut self.monitor.lock(), monitor)
    }

    /// The socket is closed: mail is no longer taken, and what there is is dropped.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let dropped = std::mem::take(&mut *self.mail.lock());
        dropped.into_iter().for_each(undeliverable);
        self.wake();
    }

    /// How many peers came and went without the socket's having heard of them.
    pub(crate) fn vanished(&self) -> u64 {
        self.vanished.load(Ordering::Acquire)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}
