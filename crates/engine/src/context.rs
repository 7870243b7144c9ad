//! A context: its sockets, I/O threads and inproc endpoints, and its termination (`end`).

mod end;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use parking_lot::{Mutex, MutexGuard};
use pinnace_ring::{Budget, EventCount};
use pinnace_sys::{barrier, fork};

use crate::context_options::ContextOptions;
use crate::drops::{Drops, Tally};
use crate::error::Error;
use crate::inproc::Registry;
use crate::io::{Command, Io, Services};
use crate::mailbox::{Mailbox, Notice};
use crate::reactor;
use crate::table::{Dead, Table};
pub use end::Leftover;

type Contexts = Table<Context, 0xc>;

static CONTEXTS: Contexts = Table::new();

/// A context. Clones are the same context.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    options: Mutex<ContextOptions>,
    ios: Mutex<Vec<(Arc<Io>, JoinHandle<()>)>>,
    /// The same I/O threads, for callers that hold other locks.
    wakers: Mutex<Vec<Arc<Io>>>,
    live: Mutex<Live>,
    /// Notified when a socket has ended.
    ended: Arc<EventCount>,
    terminating: AtomicBool,
    pub(crate) inproc: Registry,
    services: Arc<Services>,
    /// Messages that closed sockets have lost.
    lost: Tally,
    /// Sockets that the application had not closed by the deadline of `terminate_within`.
    closed_late: AtomicU64,
    fork: u32,
}

/// Sockets that are open, or closed with messages still to send.
#[derive(Default)]
struct Live {
    mailboxes: Vec<Arc<Mailbox>>,
    /// Sockets of the application that are not closed.
    open: usize,
}

/// Has an I/O thread tell the sockets, because the thread that made the room holds locks.
fn room_made(context: &Weak<Inner>) {
    let Some(inner) = context.upgrade() else { return };
    let first = inner.wakers.lock().first().cloned();
    if let Some(io) = first {
        io.send(Command::Run(Box::new(move || Context(inner).tell_of_room())));
    }
}

impl Context {
    /// A context without threads: they start with the first socket.
    pub fn new() -> Result<Context, Error> {
        fork::watch();
        barrier::prepare();
        Ok(Context(Arc::new(Inner {
            options: Mutex::default(),
            ios: Mutex::default(),
            wakers: Mutex::default(),
            live: Mutex::default(),
            ended: Arc::default(),
            terminating: AtomicBool::new(false),
            inproc: Registry::default(),
            services: Arc::default(),
            lost: Tally::default(),
            closed_late: AtomicU64::new(0),
            fork: fork::generation(),
        })))
    }

    /// A handle for C; the context lives until `terminate`.
    pub fn into_raw(self) -> usize {
        CONTEXTS.insert(self).map_or(0, Contexts::to_raw)
    }

    /// The context behind a handle. Errors: Fault, there is none. `None`: it belongs to the parent of a forked
    /// process.
    pub fn from_raw(raw: usize) -> Result<Option<Context>, Error> {
        let handle = CONTEXTS.handle(raw).ok_or(Error::Fault)?;
        match Contexts::lock(handle) {
            Ok(context) => Ok(Some(context.clone())),
            Err(Dead::Inherited) => Ok(None),
            Err(Dead::Gone | Dead::Entered) => Err(Error::Fault),
        }
    }

    /// Invalidates the handle: `from_raw` fails from then on.
    pub fn forget_raw(raw: usize) {
        if let Some(handle) = CONTEXTS.handle(raw) {
            let _ = CONTEXTS.remove(handle);
        }
    }

    pub fn set(&self, option: i32, value: i32) -> Result<(), Error> {
        self.0.options.lock().set(option, value)
    }

    pub fn get(&self, option: i32) -> Result<i32, Error> {
        self.0.options.lock().get(option)
    }

    /// Limits the bytes that all queues of the context hold together, counted as on the wire. At the limit, nothing
    /// more is accepted from applications or read from peers. 0: no limit. It applies to pipes created after the
    /// first call.
    pub fn set_max_bytes(&self, max_bytes: u64) {
        let weak = Arc::downgrade(&self.0);
        self.0.services.budget.get_or_init(|| Arc::new(Budget::new(0, Box::new(move || room_made(&weak)))));
        if let Some(budget) = self.0.services.budget.get() {
            budget.set_max(max_bytes);
        }
    }

    /// Bytes in the queues to which that limit applies.
    pub fn held_bytes(&self) -> u64 {
        self.0.services.budget.get().map_or(0, |budget| budget.used())
    }

    /// Tells all sockets that the budget has room again, and continues reading on their links.
    fn tell_of_room(&self) {
        let mailboxes = self.0.live.lock().mailboxes.clone();
        for mailbox in mailboxes {
            mailbox.post(Notice::Room);
            mailbox.for_each_link(|link| link.read_on());
        }
    }

    /// Like `set`, for a value of any length.
    pub fn set_bytes(&self, option: i32, value: &[u8]) -> Result<(), Error> {
        self.0.options.lock().set_bytes(option, value)
    }

    /// Like `get`, for a value of any length; returns the number of bytes written.
    pub fn get_bytes(&self, option: i32, room: &mut [u8]) -> Result<usize, Error> {
        self.0.options.lock().get_bytes(option, room)
    }

    /// Sets the limit of sockets that are open at the same time (ZMQ_MAX_SOCKETS).
    pub fn set_max_sockets(&self, max: u32) {
        self.0.options.lock().max_sockets = max;
    }

    /// The least busy I/O thread in the affinity mask; 0: of all. Errors: NoThread if the mask selects none.
    pub(crate) fn least_busy(&self, affinity: u64) -> Result<Arc<Io>, Error> {
        let mut ios = self.0.ios.lock();
        if ios.is_empty() {
            let options = Arc::new(self.0.options.lock().clone());
            for number in 0..options.io_threads.max(1) {
                let name = options.thread_name(number);
                let options = options.clone();
                let (io, thread) = reactor::start(name, move || options.apply_to_thread())?;
                self.0.wakers.lock().push(io.clone());
                ios.push((io, thread));
            }
        }
        let is_allowed = |number: usize| affinity == 0 || (number < 64 && affinity >> number & 1 != 0);
        let allowed = ios.iter().enumerate().filter(|(number, _)| is_allowed(*number)).map(|(_, (io, _))| io);
        allowed.min_by_key(|io| io.load.load(Ordering::Relaxed)).cloned().ok_or(Error::NoThread)
    }

    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.0.services
    }

    pub(crate) fn inproc(&self) -> &Registry {
        &self.0.inproc
    }

    /// Enters a new socket. `max`: ZMQ_MAX_SOCKETS, if it counts the socket. Errors: TooManySockets.
    pub(crate) fn add_socket(&self, mailbox: &Arc<Mailbox>, max: Option<usize>) -> Result<(), Error> {
        let mut live = self.0.live.lock();
        if max.is_some_and(|max| live.open >= max) {
            return Err(Error::TooManySockets);
        }
        live.open += usize::from(!mailbox.internal);
        live.mailboxes.push(mailbox.clone());
        drop(live);
        if self.0.terminating.load(Ordering::SeqCst) {
            mailbox.post(Notice::Stop);
        }
        Ok(())
    }

    /// Errors: Terminated; Fault in a forked process.
    pub(crate) fn check_usable(&self) -> Result<(), Error> {
        if self.0.fork != fork::generation() {
            return Err(Error::Fault);
        }
        if self.0.terminating.load(Ordering::SeqCst) {
            return Err(Error::Terminated);
        }
        Ok(())
    }

    pub(crate) fn options(&self) -> MutexGuard<'_, ContextOptions> {
        self.0.options.lock()
    }

    /// A socket was closed; it may still have messages to send.
    pub(crate) fn socket_closed(&self, mailbox: &Mailbox) {
        self.0.live.lock().open -= usize::from(!mailbox.internal);
    }

    /// A socket has sent its messages, or has given up.
    pub(crate) fn socket_ended(&self, mailbox: &Arc<Mailbox>) {
        let mut live = self.0.live.lock();
        self.0.lost.absorb_all(&mailbox.lost);
        live.mailboxes.retain(|other| !Arc::ptr_eq(other, mailbox));
        drop(live);
        self.0.ended.notify();
    }

    /// The messages that closed sockets have lost, by reason. A closed socket that still sends within its linger
    /// time may add to them.
    pub fn drops_of_closed(&self) -> Drops {
        let live = self.0.live.lock();
        let mut drops = self.0.lost.read();
        live.mailboxes
            .iter()
            .filter(|mailbox| mailbox.is_closed())
            .for_each(|mailbox| drops.absorb(&mailbox.lost.read()));
        drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_chooses_the_least_busy_of_its_threads() {
        const IO_THREADS: i32 = 1;
        let context = Context::new().unwrap();
        context.set(IO_THREADS, 3).unwrap();
        context.least_busy(0).unwrap();
        let ios: Vec<Arc<Io>> = context.0.ios.lock().iter().map(|(io, _)| io.clone()).collect();
        for (number, io) in ios.iter().enumerate() {
            assert!(Arc::ptr_eq(io, &context.least_busy(1 << number).unwrap()));
        }
        ios[1].load.store(7, Ordering::Relaxed);
        assert!(Arc::ptr_eq(&ios[2], &context.least_busy(0b110).unwrap()));
        assert_eq!(context.least_busy(0b1000).err(), Some(Error::NoThread));
        context.terminate().unwrap();
    }
}
