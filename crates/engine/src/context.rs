//! A context: its sockets, its I/O threads, its inproc endpoints, and their end (`end`).

mod end;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use pinnace_ring::{Budget, Consumer, EventCount, Limits, Producer, budgeted_queue, queue};
use pinnace_sys::{barrier, fork};
use pinnace_zmtp::SocketType;

use crate::context_options::ContextOptions;
use crate::drops::{Drops, Tally};
use crate::error::Error;
use crate::hub::{Hub, Mail};
use crate::patterns;
use crate::reactor::{Command, Io};
use crate::socket::Socket;
use crate::socket_kind::Kind;
use crate::table::{Dead, Table};
use crate::transports::Resolver;
use crate::transports::inproc::Registry;
pub use end::Leftover;
pub(crate) use end::TermNap;

type Contexts = Table<Context, 0xc>;

static CONTEXTS: Contexts = Table::new();

/// A context. Clones are the same context.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    options: Mutex<ContextOptions>,
    ios: Mutex<Vec<(Arc<Io>, JoinHandle<()>)>>,
    /// The I/O threads, for who holds other locks.
    wakers: Mutex<Vec<Arc<Io>>>,
    live: Mutex<Live>,
    /// A socket has ended.
    ended: EventCount,
    terminating: AtomicBool,
    pub(crate) inproc: Registry,
    resolver: Resolver,
    /// What all queues may hold together, once that was limited.
    budget: OnceLock<Arc<Budget>>,
    /// What closed sockets have lost.
    lost: Tally,
    /// Sockets that their owners had not closed when the context's time was over.
    closed_late: AtomicU64,
    fork: u32,
}

/// Sockets that are open, or closed and not yet sent.
#[derive(Default)]
struct Live {
    hubs: Vec<Arc<Hub>>,
    /// Sockets of the application that are not closed.
    open: usize,
}

/// Has an I/O thread tell the sockets: whoever made the room holds locks.
fn room_made(context: &Weak<Inner>) {
    let Some(inner) = context.upgrade() else { return };
    let first = inner.wakers.lock().first().cloned();
    if let Some(io) = first {
        io.send(Command::Room(Context(inner)));
    }
}

impl Context {
    /// A context with no threads yet: they start with the first socket.
    pub fn new() -> Result<Context, Error> {
        fork::watch();
        barrier::prepare();
        Ok(Context(Arc::new(Inner {
            options: Mutex::default(),
            ios: Mutex::default(),
            wakers: Mutex::default(),
            live: Mutex::default(),
            ended: EventCount::default(),
            terminating: AtomicBool::new(false),
            inproc: Registry::default(),
            resolver: Resolver::default(),
            budget: OnceLock::new(),
            lost: Tally::default(),
            closed_late: AtomicU64::new(0),
            fork: fork::generation(),
        })))
    }

    /// A handle for C; the context lives until `terminate`.
    pub fn into_raw(self) -> usize {
        CONTEXTS.insert(self).map_or(0, Contexts::to_raw)
    }

    /// The context behind a handle; Fault where there is none, and `None` where it is a forked parent's.
    pub fn from_raw(raw: usize) -> Result<Option<Context>, Error> {
        let handle = CONTEXTS.handle(raw).ok_or(Error::Fault)?;
        match Contexts::lock(handle) {
            Ok(context) => Ok(Some(context.clone())),
            Err(Dead::Inherited) => Ok(None),
            Err(Dead::Gone | Dead::Entered) => Err(Error::Fault),
        }
    }

    /// Takes the handle out of use: of several that terminate, one goes on.
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

    /// Limits the bytes that all queues of the context hold together, as they are on the wire: while they hold so many,
    /// nothing more is accepted from applications and read from peers. 0 is no limit. It counts for pipes that come
    /// after the first call.
    pub fn set_max_bytes(&self, max_bytes: u64) {
        let weak = Arc::downgrade(&self.0);
        self.0.budget.get_or_init(|| Arc::new(Budget::new(0, Box::new(move || room_made(&weak)))));
        if let Some(budget) = self.0.budget.get() {
            budget.set_max(max_bytes);
        }
    }

    /// How many bytes the queues hold that count for that limit.
    pub fn held_bytes(&self) -> u64 {
        self.0.budget.get().map_or(0, |budget| budget.used())
    }

    /// A queue of the context's.
    pub(crate) fn queue(&self, limits: Limits) -> (Producer, Consumer) {
        match self.0.budget.get() {
            Some(budget) => budgeted_queue(limits, budget),
            None => queue(limits),
        }
    }

    /// Tells all sockets that the budget has room again.
    pub(crate) fn tell_of_room(&self) {
        let hubs = self.0.live.lock().hubs.clone();
        for hub in hubs {
            hub.post(Mail::Room);
            hub.for_each_link(|link| link.read_on());
        }
    }

    /// As `set`, for a value of any length.
    pub fn set_bytes(&self, option: i32, value: &[u8]) -> Result<(), Error> {
        self.0.options.lock().set_bytes(option, value)
    }

    /// As `get`, for a value of any length; returns how many bytes were written.
    pub fn get_bytes(&self, option: i32, room: &mut [u8]) -> Result<usize, Error> {
        self.0.options.lock().get_bytes(option, room)
    }

    /// A socket of libzmq's type number. Errors: Invalid, TooManySockets, Terminated, or what the system
    /// says.
    pub fn socket(&self, socket_type: i32) -> Result<Socket, Error> {
        let max = self.0.options.lock().max_sockets;
        self.new_socket(socket_type, Some(max as usize))
    }

    /// A socket for our own use, which ZMQ_MAX_SOCKETS does not count: strangers whose handshakes want a socket must
    /// not leave the application without.
    pub(crate) fn internal_socket(&self, socket_type: i32) -> Result<Socket, Error> {
        self.new_socket(socket_type, None)
    }

    fn new_socket(&self, socket_type: i32, max: Option<usize>) -> Result<Socket, Error> {
        if self.0.fork != fork::generation() {
            return Err(Error::Fault);
        }
        let socket_type =
            u8::try_from(socket_type).ok().and_then(SocketType::from_number).ok_or(Error::Invalid)?;
        let pattern = patterns::create(socket_type).ok_or(Error::Invalid)?;
        if self.0.terminating.load(Ordering::SeqCst) {
            return Err(Error::Terminated);
        }
        let io = self.least_busy(0)?;
        let hub = Arc::new(Hub::new(max.is_none(), Kind::of(socket_type).incoming()));
        {
            let mut live = self.0.live.lock();
            if max.is_some_and(|max| live.open >= max) {
                return Err(Error::TooManySockets);
            }
            live.open += usize::from(!hub.internal);
            live.hubs.push(hub.clone());
        }
        if self.0.terminating.load(Ordering::SeqCst) {
            hub.post(Mail::Stop);
        }
        let (ipv6, linger_forever) = {
            let options = self.0.options.lock();
            (options.ipv6, options.blocky)
        };
        Socket::create(self.clone(), hub.clone(), io, socket_type, pattern, ipv6, linger_forever).inspect_err(
            |_| {
                self.socket_closed(&hub);
                self.socket_ended(&hub);
            },
        )
    }

    /// The least busy of the I/O threads in a mask; 0: of all. Errors: NoThread where the mask has none.
    pub(crate) fn least_busy(&self, affinity: u64) -> Result<Arc<Io>, Error> {
        let mut ios = self.0.ios.lock();
        if ios.is_empty() {
            let options = Arc::new(self.0.options.lock().clone());
            for number in 0..options.io_threads.max(1) {
                let name = options.thread_name(number);
                let options = options.clone();
                let (io, thread) = Io::start(name, move || options.apply_to_thread())?;
                self.0.wakers.lock().push(io.clone());
                ios.push((io, thread));
            }
        }
        let is_allowed = |number: usize| affinity == 0 || (number < 64 && affinity >> number & 1 != 0);
        let allowed = ios.iter().enumerate().filter(|(number, _)| is_allowed(*number)).map(|(_, (io, _))| io);
        allowed.min_by_key(|io| io.load.load(Ordering::Relaxed)).cloned().ok_or(Error::NoThread)
    }

    pub(crate) fn resolver(&self) -> &Resolver {
        &self.0.resolver
    }

    pub(crate) fn inproc(&self) -> &Registry {
        &self.0.inproc
    }

    /// A socket was closed; it may still have something to send.
    pub(crate) fn socket_closed(&self, hub: &Hub) {
        self.0.live.lock().open -= usize::from(!hub.internal);
    }

    /// A socket has sent what it had, or has given up.
    pub(crate) fn socket_ended(&self, hub: &Arc<Hub>) {
        let mut live = self.0.live.lock();
        self.0.lost.absorb_all(&hub.lost);
        live.hubs.retain(|other| !Arc::ptr_eq(other, hub));
        drop(live);
        self.0.ended.notify();
    }

    /// The messages that sockets have lost which are closed, by reason. Of one that still sends what its linger
    /// allows there may be more to come.
    pub fn drops_of_closed(&self) -> Drops {
        let live = self.0.live.lock();
        let mut drops = self.0.lost.read();
        live.hubs.iter().filter(|hub| hub.is_closed()).for_each(|hub| drops.absorb(&hub.lost.read()));
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
