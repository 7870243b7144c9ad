//! A context: its sockets, its I/O threads, its inproc endpoints, and their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use pinnace_ring::{EventCount, Unnotified};
use pinnace_sys::{barrier, fork};
use pinnace_zmtp::SocketType;

use crate::context_options::ContextOptions;
use crate::error::Error;
use crate::hub::{Hub, Mail};
use crate::patterns;
use crate::reactor::{Command, Io};
use crate::socket::Socket;
use crate::table::{Dead, Table};
use crate::transports::inproc::Registry;

static CONTEXTS: Table<Context> = Table::new(0xc);

/// A context. Clones are the same context.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    options: Mutex<ContextOptions>,
    ios: Mutex<Vec<(Arc<Io>, JoinHandle<()>)>>,
    live: Mutex<Live>,
    /// A socket has ended.
    ended: EventCount,
    terminating: AtomicBool,
    pub(crate) inproc: Registry,
    fork: u32,
}

/// Sockets that are open, or closed and not yet sent.
#[derive(Default)]
struct Live {
    hubs: Vec<Arc<Hub>>,
    /// Sockets that are not closed.
    open: usize,
}

impl Context {
    /// A context with no threads yet: they start with the first socket.
    pub fn new() -> Result<Context, Error> {
        fork::watch();
        barrier::prepare();
        Ok(Context(Arc::new(Inner {
            options: Mutex::default(),
            ios: Mutex::default(),
            live: Mutex::default(),
            ended: EventCount::default(),
            terminating: AtomicBool::new(false),
            inproc: Registry::default(),
            fork: fork::generation(),
        })))
    }

    /// A handle for C; the context lives until `terminate`.
    pub fn into_raw(self) -> usize {
        CONTEXTS.insert(self).map_or(0, |handle| CONTEXTS.to_raw(handle))
    }

    /// The context behind a handle; Fault where there is none, and `None` where it is a forked parent's.
    pub fn from_raw(raw: usize) -> Result<Option<Context>, Error> {
        let handle = CONTEXTS.handle(raw).ok_or(Error::Fault)?;
        match CONTEXTS.lock(handle) {
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

    /// A socket of libzmq's type number. Errors: Invalid, TooManySockets, Terminated, or what the system
    /// says.
    pub fn socket(&self, socket_type: i32) -> Result<Socket, Error> {
        if self.0.fork != fork::generation() {
            return Err(Error::Fault);
        }
        let socket_type =
            u8::try_from(socket_type).ok().and_then(SocketType::from_number).ok_or(Error::Invalid)?;
        let pattern = patterns::create(socket_type).ok_or(Error::Invalid)?;
        if self.0.terminating.load(Ordering::SeqCst) {
            return Err(Error::Terminated);
        }
        let io = self.least_busy()?;
        let hub = Arc::new(Hub::default());
        {
            let mut live = self.0.live.lock();
            let max = self.0.options.lock().max_sockets as usize;
            if live.open >= max {
                return Err(Error::TooManySockets);
            }
            live.open += 1;
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
                self.socket_closed();
                self.socket_ended(&hub);
            },
        )
    }

    fn least_busy(&self) -> Result<Arc<Io>, Error> {
        let mut ios = self.0.ios.lock();
        if ios.is_empty() {
            let options = self.0.options.lock().clone();
            let prefix = match options.thread_name_prefix {
                0 => String::new(),
                number => format!("{number}/"),
            };
            for number in 0..options.io_threads.max(1) {
                ios.push(Io::start(format!("{prefix}ZMQbg/IO/{number}"))?);
            }
        }
        let least = ios.iter().min_by_key(|(io, _)| io.load.load(Ordering::Relaxed));
        Ok(least.expect("started above").0.clone())
    }

    pub(crate) fn inproc(&self) -> &Registry {
        &self.0.inproc
    }

    /// A socket was closed; it may still have something to send.
    pub(crate) fn socket_closed(&self) {
        self.0.live.lock().open -= 1;
    }

    /// A socket has sent what it had, or has given up.
    pub(crate) fn socket_ended(&self, hub: &Arc<Hub>) {
        self.0.live.lock().hubs.retain(|other| !Arc::ptr_eq(other, hub));
        self.0.ended.notify();
    }

    /// Blocked calls on the context's sockets return Terminated, and so does every later one but close.
    pub fn shutdown(&self) -> Result<(), Error> {
        if self.0.fork != fork::generation() {
            return Ok(());
        }
        self.0.terminating.store(true, Ordering::SeqCst);
        let hubs = self.0.live.lock().hubs.clone();
        for hub in hubs {
            hub.post(Mail::Stop);
        }
        Ok(())
    }

    /// Shuts down, waits until every socket is closed and has sent what its linger allows, and ends the I/O
    /// threads. Errors: Interrupted; it can be called again then.
    pub fn terminate(&self) -> Result<(), Error> {
        if self.0.fork != fork::generation() {
            return Ok(());
        }
        self.shutdown()?;
        loop {
            let ticket = self.0.ended.listen();
            if self.0.live.lock().hubs.is_empty() {
                self.0.ended.cancel(ticket);
                break;
            }
            if let Err(Unnotified::Interrupted) = self.0.ended.wait(ticket, None) {
                return Err(Error::Interrupted);
            }
        }
        let ios = std::mem::take(&mut *self.0.ios.lock());
        for (io, _) in &ios {
            io.send(Command::Stop);
        }
        for (_, thread) in ios {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
        Ok(())
    }
}
