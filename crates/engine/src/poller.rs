//! Waiting for many sockets and descriptors again and again (zmq_poller(3)).
//!
//! A wait costs what is ready, not what is registered. A socket tells its pollers when something may have changed
//! ([`Watch`]): news for it, or a call on it. Only such sockets are looked at, and those that were ready at the last
//! look. The connections' poll sets lie in an epoll set of the poller's own; whoever waits there serves those that
//! are ready, and takes the lease of their sockets, so that a busy socket wakes this thread alone. Idle ones
//! stay with the I/O thread.
//!
//! Any thread may add and remove while another waits. Two may wait at once; each event is then told to one of them,
//! or to both.

mod entry;

use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI16, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pinnace_sys::poll::{Batch, Foreign, Interest, Polled, Ready};
use pinnace_sys::wake::WakeFd;
use pinnace_sys::{AsFd, Errno};

use crate::error::Error;
use crate::nap::{Nap, Turn};
use crate::poll::{POLLERR, POLLPRI, from_system, to_system};
use crate::socket::{POLLIN, POLLOUT, Socket};
pub(crate) use entry::PollerNap;
pub(crate) use entry::Watch;
use entry::{Entry, OfSocket, Shared, interest};

/// Looks that found something without a system call, after which the kernel is asked too.
const LOOKS: u32 = 8;

/// The token of a poller's own wake-up.
const WAKE_TOKEN: u64 = u64::MAX;

/// What is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    Socket(Socket),
    /// A descriptor that the caller keeps open until it is removed.
    Fd(RawFd),
}

/// Something that is ready, with what was given when it was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<T> {
    pub what: What,
    pub events: i16,
    /// What was asked for.
    pub asked: i16,
    pub data: T,
}

/// A set of sockets and descriptors to be waited for.
pub struct Poller<T> {
    shared: Arc<Shared>,
    state: Mutex<State<T>>,
    looks: AtomicU32,
}

struct State<T> {
    last: u64,
    /// Entries that some event is asked for.
    asking: usize,
    /// Descriptors, which only the kernel knows of.
    fds: usize,
    tokens: HashMap<What, u64>,
    entries: HashMap<u64, Arc<Entry<T>>>,
}

impl<T: Clone> Poller<T> {
    pub fn new() -> Result<Poller<T>, Error> {
        let (set, wake) = (pinnace_sys::poll::Poller::new()?, WakeFd::new()?);
        set.add(&wake, WAKE_TOKEN, Interest::READ)?;
        let shared = Shared {
            set,
            wake,
            news: Mutex::default(),
            asleep: AtomicU32::new(0),
            exposed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        };
        let state = State { last: 0, asking: 0, fds: 0, tokens: HashMap::new(), entries: HashMap::new() };
        Ok(Poller { shared: Arc::new(shared), state: Mutex::new(state), looks: AtomicU32::new(0) })
    }

    /// How many are registered.
    pub fn len(&self) -> usize {
        self.state.lock().entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Registers something. Errors: Invalid where it is registered already, or for unknown events; NotSocket,
    /// Terminated; EBADF for a descriptor that is not open.
    pub fn add(&self, what: What, events: i16, data: T) -> Result<(), Error> {
        check(events)?;
        let of_socket = match what {
            What::Fd(fd) => Foreign::new(fd).map(|_| None).ok_or(Errno::BADF)?,
            What::Socket(socket) => {
                let core = socket.lock()?;
                Some(OfSocket { hub: core.hub.clone(), thread_safe: core.kind.is_thread_safe })
            }
        };
        let mut state = self.state.lock();
        if state.tokens.contains_key(&what) {
            return Err(Error::Invalid);
        }
        state.last += 1;
        let token = state.last;
        let watch = Watch { shared: self.shared.clone(), token, told: AtomicBool::new(false) };
        let (watch, events) = (Arc::new(watch), AtomicI16::new(events));
        let entry = Entry { what, token, events, data, watch, of_socket, joined: AtomicBool::new(false) };
        match &entry.of_socket {
            Some(of) => {
                of.hub.add_watch(&entry.watch);
                entry.watch.tell();
            }
            None => self.settle(&entry)?,
        }
        state.asking += usize::from(entry.events() != 0);
        state.fds += usize::from(entry.of_socket.is_none());
        state.tokens.insert(what, token);
        state.entries.insert(token, Arc::new(entry));
        drop(state);
        if let What::Socket(socket) = what
            && let Ok(mut core) = socket.lock()
        {
            core.watched = true; // Behind `add_watch`: a poller that leaves now looks who else is there.
        }
        Ok(())
    }

    /// Has the epoll set watch a descriptor for the events asked for; none: not at all.
    fn settle(&self, entry: &Entry<T>) -> Result<(), Error> {
        let Some(fd) = entry.fd() else { return Ok(()) };
        let (events, joined) = (entry.events(), entry.joined.load(Ordering::Relaxed));
        let outcome = match (events, joined) {
            (0, true) => self.shared.set.remove(&fd),
            (0, false) => Ok(()),
            (_, true) => self.shared.set.modify(&fd, entry.token, interest(events)),
            (_, false) => self.shared.set.add(&fd, entry.token, interest(events)),
        };
        entry.joined.store(events != 0 && outcome.is_ok(), Ordering::Relaxed);
        match outcome {
            Err(Errno::PERM) => entry.watch.tell(),
            other => other?,
        }
        Ok(())
    }

    /// Changes the events asked for. Errors: Invalid where it is not registered, or for unknown events.
    pub fn modify(&self, what: What, events: i16) -> Result<(), Error> {
        check(events)?;
        let mut state = self.state.lock();
        let entry = state.find(what)?;
        let before = entry.events.swap(events, Ordering::Relaxed);
        state.asking += usize::from(events != 0);
        state.asking -= usize::from(before != 0);
        match what {
            What::Socket(_) => entry.watch.tell(),
            What::Fd(_) => self.settle(&entry)?,
        }
        Ok(())
    }

    /// Forgets something. Errors: Invalid where it is not registered.
    pub fn remove(&self, what: What) -> Result<(), Error> {
        let entry = {
            let mut state = self.state.lock();
            let token = state.tokens.remove(&what).ok_or(Error::Invalid)?;
            let entry = state.entries.remove(&token).ok_or(Error::Invalid)?;
            state.asking -= usize::from(entry.events() != 0);
            state.fds -= usize::from(entry.of_socket.is_none());
            entry
        };
        entry.leave(&self.shared);
        Ok(())
    }

    /// A descriptor that is readable while `wait` may find something. Errors: Invalid unless a socket of a
    /// thread-safe type is registered, as with libzmq.
    pub fn descriptor(&self) -> Result<RawFd, Error> {
        let thread_safe = |entry: &Arc<Entry<T>>| entry.of_socket.as_ref().is_some_and(|of| of.thread_safe);
        if !self.state.lock().entries.values().any(thread_safe) {
            return Err(Error::Invalid);
        }
        self.shared.exposed.store(true, Ordering::SeqCst);
        if !self.shared.news.lock().is_empty() {
            self.shared.wake.signal();
        }
        Ok(self.shared.set.as_fd().as_raw_fd())
    }

    /// Waits until something is ready, at most `timeout`, and returns at most `max` of it, in the order in which
    /// it was added. Errors: WouldBlock once the time is over; Fault where there is nothing to wait for and no time
    /// limit; Interrupted; what a registered socket says of itself (NotSocket, Terminated).
    /// `turn`: it does not sleep itself (Deferred, `nap`).
    pub fn wait(
        &self,
        max: usize,
        timeout: Option<Duration>,
        turn: Option<Turn>,
    ) -> Result<Vec<Event<T>>, Error> {
        let of_call = || timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let deadline = turn.unwrap_or(Turn::FIRST).deadline(of_call);
        let mut has_slept = turn.is_some_and(Turn::has_slept);
        let (asking, fds) = {
            let state = self.state.lock();
            (state.asking, state.fds)
        };
        if timeout.is_none() && (max == 0 || asking == 0) {
            return Err(Error::Fault);
        }
        let mut found: Vec<(u64, Event<T>)> = Vec::new();
        loop {
            if self.shared.ended.load(Ordering::SeqCst) {
                self.shared.wake_others();
                return Err(Error::Fault);
            }
            self.look(max, &mut found)?;
            if !found.is_empty() && (fds == 0 || found.len() == max) && !self.asks_kernel() {
                break;
            }
            let left = match deadline {
                _ if !found.is_empty() || has_slept => Some(Duration::ZERO),
                Some(deadline) => Some(deadline.saturating_duration_since(Instant::now())),
                None => timeout, // For ever, or longer than the clock goes.
            };
            self.sleep(max, left, turn.is_some(), &mut found)?;
            if found.is_empty() && left == Some(Duration::ZERO) && !std::mem::take(&mut has_slept) {
                self.look(max, &mut found)?;
                if found.is_empty() {
                    return Err(Error::WouldBlock);
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        found.sort_by_key(|(token, _)| *token);
        if self.shared.exposed.load(Ordering::SeqCst) && !self.shared.news.lock().is_empty() {
            self.shared.wake.signal();
        }
        Ok(found.into_iter().map(|(_, event)| event).collect())
    }

    /// Whether it is time to see what is ready in the kernel, though something else is at hand.
    fn asks_kernel(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOKS)
    }

    /// Looks at what has news. What is ready is looked at again next time, after all else.
    fn look(&self, max: usize, found: &mut Vec<(u64, Event<T>)>) -> Result<(), Error> {
        let mut tokens = std::mem::take(&mut *self.shared.news.lock());
        let (mut looked, mut outcome) = (0, Ok(()));
        let mut again: Vec<Arc<Entry<T>>> = Vec::new();
        while looked < tokens.len() && found.len() < max && outcome.is_ok() {
            // No lock is held while the socket is asked: its chores may run the caller's code.
            let entry = self.state.lock().entries.get(&tokens[looked]).cloned();
            looked += 1;
            let Some(entry) = entry else { continue };
            match entry.look(&self.shared) {
                Ok(0) => continue,
                Ok(events) => {
                    found.push((entry.token, entry.event(events)));
                }
                Err(error) => outcome = Err(error),
            }
            again.push(entry);
        }
        tokens.drain(..looked);
        let rest = !tokens.is_empty();
        if rest || !again.is_empty() {
            let mut news = self.shared.news.lock();
            tokens.append(&mut news);
            *news = tokens;
            for entry in again {
                if !entry.watch.told.swap(true, Ordering::SeqCst) {
                    news.push(entry.token);
                }
            }
        }
        if rest {
            self.shared.wake_others(); // Who went to sleep meanwhile saw none of it.
        }
        outcome
    }

    /// Waits in the epoll set, and serves what is ready there; descriptors that are become events.
    fn sleep(
        &self,
        max: usize,
        timeout: Option<Duration>,
        defers: bool,
        found: &mut Vec<(u64, Event<T>)>,
    ) -> Result<(), Error> {
        if timeout != Some(Duration::ZERO) {
            let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            let nap = PollerNap::begin(&self.shared, deadline);
            if max == 0 || self.shared.news.lock().is_empty() {
                Nap::Poller(nap).take(defers, deadline)?;
            }
        }
        let mut ready = Batch::new();
        let outcome = self.shared.set.ready(&mut ready);
        if found.is_empty() {
            outcome?;
        }
        let mut fds: Vec<Arc<Entry<T>>> = Vec::new();
        let mut cleared = false;
        for Ready { token, .. } in ready.iter() {
            if token == WAKE_TOKEN {
                self.shared.wake.clear();
                cleared = true;
                continue;
            }
            let Some(entry) = self.state.lock().entries.get(&token).cloned() else { continue };
            match entry.what {
                What::Socket(_) => entry.serve(&self.shared),
                What::Fd(_) => fds.push(entry),
            }
        }
        fds.truncate(max.saturating_sub(found.len()));
        let asked = if fds.is_empty() { Ok(()) } else { ask(&fds, found) };
        // It was a signal for another thread as well, and this one may not look at what it told of.
        if cleared && !(found.is_empty() && asked.is_ok()) && !self.shared.news.lock().is_empty() {
            self.shared.wake_others();
        }
        asked
    }

    /// Nothing is registered any more; who waits learns that it is gone (Fault).
    pub fn end(&self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let entries: Vec<Arc<Entry<T>>> = {
            let mut state = self.state.lock();
            state.tokens.clear();
            (state.asking, state.fds) = (0, 0);
            state.entries.drain().map(|(_, entry)| entry).collect()
        };
        entries.iter().for_each(|entry| entry.leave(&self.shared));
        self.shared.wake.signal();
    }
}

impl<T> State<T> {
    fn find(&self, what: What) -> Result<Arc<Entry<T>>, Error> {
        self.tokens.get(&what).and_then(|token| self.entries.get(token)).cloned().ok_or(Error::Invalid)
    }
}

fn check(events: i16) -> Result<(), Error> {
    if events & !(POLLIN | POLLOUT | POLLERR | POLLPRI) == 0 { Ok(()) } else { Err(Error::Invalid) }
}

/// Finds out what descriptors are ready for, in libzmq's words.
fn ask<T: Clone>(fds: &[Arc<Entry<T>>], found: &mut Vec<(u64, Event<T>)>) -> Result<(), Error> {
    let raw: Vec<Foreign> = fds.iter().filter_map(|entry| entry.fd()).collect();
    let mut asked: Vec<Polled<'_>> = Vec::new();
    for (fd, entry) in raw.iter().zip(fds) {
        asked.push(Polled { fd: fd.as_fd(), events: to_system(entry.events()), revents: 0 });
    }
    match pinnace_sys::poll::poll(&mut asked, Some(Duration::ZERO)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    for (polled, entry) in asked.iter().zip(fds) {
        let events = from_system(polled.revents, entry.events());
        if events != 0 {
            found.push((entry.token, entry.event(events)));
        }
    }
    Ok(())
}

impl<T> Drop for Poller<T> {
    fn drop(&mut self) {
        for entry in self.state.get_mut().entries.values() {
            entry.leave(&self.shared);
        }
    }
}
