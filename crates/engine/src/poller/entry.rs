//! What is registered with a poller, and how it tells that something may have changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI16, AtomicU32, Ordering, fence};
use std::time::Instant;

use parking_lot::Mutex;
use pinnace_sys::AsFd;
use pinnace_sys::poll::{Batch, Foreign, Interest, POLLIN as READABLE, Polled};
use pinnace_sys::sleep::{Sleep, Slept};
use pinnace_sys::wake::WakeFd;

use super::{Event, What};
use crate::error::Error;
use crate::hub::Hub;
use crate::nap;
use crate::poll::POLLPRI;
use crate::socket::{POLLIN, POLLOUT};

/// What those know who have something to tell.
pub(super) struct Shared {
    pub(super) set: pinnace_sys::poll::Poller,
    pub(super) wake: WakeFd,
    /// What has to be looked at, in this order.
    pub(super) news: Mutex<Vec<u64>>,
    pub(super) asleep: AtomicU32,
    /// Somebody waits for the descriptor by other means.
    pub(super) exposed: AtomicBool,
    pub(super) ended: AtomicBool,
}

/// A socket's way to a poller that it is registered with.
pub(crate) struct Watch {
    pub(super) shared: Arc<Shared>,
    pub(super) token: u64,
    /// It is in the list of what has to be looked at.
    pub(super) told: AtomicBool,
}

pub(super) struct Entry<T> {
    pub(super) what: What,
    pub(super) token: u64,
    pub(super) events: AtomicI16,
    pub(super) data: T,
    pub(super) watch: Arc<Watch>,
    pub(super) of_socket: Option<OfSocket>,
    /// In the epoll set: the descriptor, or the socket's poll set.
    pub(super) joined: AtomicBool,
}

pub(super) struct OfSocket {
    pub(super) hub: Arc<Hub>,
    pub(super) thread_safe: bool,
}

impl Shared {
    /// Wakes other threads that wait.
    pub(super) fn wake_others(&self) {
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.wake.signal();
        }
    }
}

/// A caller that sleeps in a poller.
pub(crate) struct PollerNap {
    shared: Arc<Shared>,
    pub(crate) sleep: Sleep,
}

impl PollerNap {
    /// From here on it is woken by news.
    pub(super) fn begin(shared: &Arc<Shared>, deadline: Option<Instant>) -> PollerNap {
        shared.asleep.fetch_add(1, Ordering::SeqCst);
        let set = Polled { fd: shared.set.as_fd(), events: READABLE, revents: 0 };
        PollerNap { shared: shared.clone(), sleep: Sleep::on_descriptors(&[set], deadline, None) }
    }

    pub(crate) fn end(self, slept: Slept) -> Result<(), Error> {
        if slept == Slept::TimedOut { Ok(()) } else { nap::outcome(slept) }
    }
}

impl Drop for PollerNap {
    fn drop(&mut self) {
        self.shared.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Watch {
    /// Something may be different.
    pub(crate) fn tell(&self) {
        if !self.told.load(Ordering::SeqCst) && !self.told.swap(true, Ordering::SeqCst) {
            self.shared.news.lock().push(self.token);
            if self.shared.asleep.load(Ordering::SeqCst) > 0 || self.shared.exposed.load(Ordering::SeqCst) {
                self.shared.wake.signal();
            }
        }
    }
}

impl<T> Entry<T> {
    pub(super) fn events(&self) -> i16 {
        self.events.load(Ordering::Relaxed)
    }

    pub(super) fn fd(&self) -> Option<Foreign> {
        match self.what {
            What::Fd(fd) => Foreign::new(fd),
            What::Socket(_) => None,
        }
    }

    /// What it is ready for; the next change is told of.
    pub(super) fn look(&self, shared: &Shared) -> Result<i16, Error> {
        self.watch.told.swap(false, Ordering::SeqCst);
        fence(Ordering::SeqCst); // What was not told of is found from here on.
        match self.what {
            // In the list only if epoll does not take it: a plain file, which is always ready.
            What::Fd(_) => Ok(self.events() & (POLLIN | POLLOUT)),
            What::Socket(_) if self.events() == 0 => Ok(0),
            What::Socket(socket) => {
                self.join(shared);
                Ok(socket.events()? & self.events())
            }
        }
    }

    /// Has the epoll set watch the socket's connections, once there are some.
    pub(super) fn join(&self, shared: &Shared) {
        if let Some(of) = &self.of_socket
            && !self.joined.load(Ordering::Relaxed)
            && let Some(set) = of.hub.open_poll_set()
            && !self.joined.swap(true, Ordering::Relaxed)
        {
            // Where that fails, for want of memory, the I/O thread serves them.
            let _ = shared.set.add(&set.poller, self.token, Interest::READ);
        }
    }

    /// Serves the socket's connections that are ready.
    pub(super) fn serve(&self, shared: &Shared) {
        let Some(of) = &self.of_socket else { return };
        let Some(set) = of.hub.poll_set() else { return };
        if of.hub.is_closed() {
            let _ = shared.set.remove(&set.poller);
            return;
        }
        let entered = !of.hub.has_descriptor() && of.hub.lease.enter(&set.io, &of.hub);
        let mut ready = Batch::new();
        if set.poller.ready(&mut ready).is_ok() {
            of.hub.serve(&ready, false);
        }
        if entered {
            of.hub.lease.leave(&set.io, &of.hub);
        }
    }

    /// Nothing more is heard of it.
    pub(super) fn leave(&self, shared: &Shared) {
        match (&self.of_socket, self.what) {
            (Some(of), What::Socket(socket)) => {
                match socket.lock() {
                    // With the lock held: a poller that joins now sets it again behind us.
                    Ok(mut core) => core.watched = of.hub.remove_watch(&self.watch),
                    Err(_) => drop(of.hub.remove_watch(&self.watch)),
                }
                if let Some(set) = of.hub.poll_set()
                    && self.joined.load(Ordering::Relaxed)
                {
                    let _ = shared.set.remove(&set.poller);
                }
            }
            (_, What::Fd(fd)) if self.joined.load(Ordering::Relaxed) => {
                let _ = Foreign::new(fd).map(|fd| shared.set.remove(&fd));
            }
            _ => {}
        }
    }
}

impl<T: Clone> Entry<T> {
    pub(super) fn event(&self, events: i16) -> Event<T> {
        Event { what: self.what, events, asked: self.events(), data: self.data.clone() }
    }
}

pub(super) fn interest(events: i16) -> Interest {
    Interest::of(events & POLLIN != 0, events & POLLOUT != 0, events & POLLPRI != 0)
}
