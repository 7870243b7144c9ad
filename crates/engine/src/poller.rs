//! Waiting repeatedly for many sockets and descriptors (zmq_poller(3)).
//!
//! The cost of a wait depends on what is ready, not on what is registered. A socket notifies its pollers when
//! something may have changed ([`PollerRegistration`]): a notice was posted, or a call was made. Only such sockets
//! are examined, and those that were ready the last time. The sockets' poll sets are members of the poller's own
//! epoll set. A caller that waits there serves the ready ones and takes ownership of their poll sets, so that a busy
//! socket wakes this thread alone. Idle sockets stay with the I/O thread.
//!
//! Any thread may add and remove while another waits. If two threads wait at once, each event is reported to one of
//! them or to both.

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

use crate::error::{Error, Invalid};
use crate::poll::{from_system, to_system};
use crate::readiness::{POLLERR, POLLIN, POLLOUT, POLLPRI};
use crate::socket::Socket;
use crate::waiting::{PendingSleep, PollerRegistration, PollerShared, PollerSleep, Turn};
use entry::{OfSocket, PollerEntry, interest};

/// Out of this many checks that found something without a system call, one asks the kernel too.
const LOOKS: u32 = 8;

/// The token of a poller's own wake-up.
const WAKE_TOKEN: u64 = u64::MAX;

/// What an entry waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PollTarget {
    Socket(Socket),
    /// The caller keeps the descriptor open until it is removed.
    Fd(RawFd),
}

/// A ready entry, with the data given when it was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollerEvent<T> {
    pub what: PollTarget,
    pub events: i16,
    /// The events that were asked for.
    pub asked: i16,
    pub data: T,
}

/// A set of sockets and descriptors to wait for.
pub struct Poller<T> {
    shared: Arc<PollerShared>,
    state: Mutex<PollerState<T>>,
    looks: AtomicU32,
}

struct PollerState<T> {
    last: u64,
    /// Number of entries that ask for at least one event.
    interested: usize,
    /// Number of descriptors, for which the kernel must be asked.
    fds: usize,
    tokens: HashMap<PollTarget, u64>,
    entries: HashMap<u64, Arc<PollerEntry<T>>>,
}

impl<T: Clone> Poller<T> {
    pub fn new() -> Result<Poller<T>, Error> {
        let (set, wake) = (pinnace_sys::poll::Poller::new()?, WakeFd::new()?);
        set.add(&wake, WAKE_TOKEN, Interest::READ)?;
        let shared = PollerShared {
            set,
            wake,
            to_examine: Mutex::default(),
            asleep: AtomicU32::new(0),
            fd_is_watched: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        };
        let state =
            PollerState { last: 0, interested: 0, fds: 0, tokens: HashMap::new(), entries: HashMap::new() };
        Ok(Poller { shared: Arc::new(shared), state: Mutex::new(state), looks: AtomicU32::new(0) })
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.state.lock().entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a socket or descriptor. Errors: Invalid if it is registered already, or for unknown events; NotSocket,
    /// Terminated; EBADF for a descriptor that is not open.
    pub fn add(&self, what: PollTarget, events: i16, data: T) -> Result<(), Error> {
        check(events)?;
        let of_socket = match what {
            PollTarget::Fd(fd) => Foreign::new(fd).map(|_| None).ok_or(Errno::BADF)?,
            PollTarget::Socket(socket) => {
                let core = socket.lock()?;
                Some(OfSocket { mailbox: core.mailbox.clone(), thread_safe: core.kind.is_thread_safe })
            }
        };
        let mut state = self.state.lock();
        if state.tokens.contains_key(&what) {
            return Err(Error::Invalid(Invalid::Registered));
        }
        state.last += 1;
        let token = state.last;
        let registration =
            PollerRegistration { shared: self.shared.clone(), token, is_listed: AtomicBool::new(false) };
        let (registration, events) = (Arc::new(registration), AtomicI16::new(events));
        let entry = PollerEntry {
            what,
            token,
            events,
            data,
            registration,
            of_socket,
            joined: AtomicBool::new(false),
        };
        match &entry.of_socket {
            Some(of) => {
                of.mailbox.pollers.register(&entry.registration);
                entry.registration.tell();
            }
            None => self.update_epoll(&entry)?,
        }
        state.interested += usize::from(entry.events() != 0);
        state.fds += usize::from(entry.of_socket.is_none());
        state.tokens.insert(what, token);
        state.entries.insert(token, Arc::new(entry));
        drop(state);
        if let PollTarget::Socket(socket) = what
            && let Ok(mut core) = socket.lock()
        {
            // After `register`: a poller that is leaving now checks for others.
            core.has_pollers = true;
        }
        Ok(())
    }

    /// Sets the events for which epoll watches a descriptor; without events, removes it.
    fn update_epoll(&self, entry: &PollerEntry<T>) -> Result<(), Error> {
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
            Err(Errno::PERM) => entry.registration.tell(),
            other => other?,
        }
        Ok(())
    }

    /// Changes the events asked for. Errors: Invalid if it is not registered, or for unknown events.
    pub fn modify(&self, what: PollTarget, events: i16) -> Result<(), Error> {
        check(events)?;
        let mut state = self.state.lock();
        let entry = state.find(what)?;
        let before = entry.events.swap(events, Ordering::Relaxed);
        state.interested += usize::from(events != 0);
        state.interested -= usize::from(before != 0);
        match what {
            PollTarget::Socket(_) => entry.registration.tell(),
            PollTarget::Fd(_) => self.update_epoll(&entry)?,
        }
        Ok(())
    }

    /// Removes a socket or descriptor. Errors: Invalid if it is not registered.
    pub fn remove(&self, what: PollTarget) -> Result<(), Error> {
        let entry = {
            let mut state = self.state.lock();
            let token = state.tokens.remove(&what).ok_or(Error::Invalid(Invalid::NotRegistered))?;
            let entry = state.entries.remove(&token).ok_or(Error::Invalid(Invalid::NotRegistered))?;
            state.interested -= usize::from(entry.events() != 0);
            state.fds -= usize::from(entry.of_socket.is_none());
            entry
        };
        entry.leave(&self.shared);
        Ok(())
    }

    /// A descriptor that is readable while `wait` may find something. Errors: Invalid unless a socket of a
    /// thread-safe type is registered, as with libzmq.
    pub fn descriptor(&self) -> Result<RawFd, Error> {
        let thread_safe =
            |entry: &Arc<PollerEntry<T>>| entry.of_socket.as_ref().is_some_and(|of| of.thread_safe);
        if !self.state.lock().entries.values().any(thread_safe) {
            return Err(Error::Invalid(Invalid::NotRegistered));
        }
        self.shared.fd_is_watched.store(true, Ordering::SeqCst);
        if !self.shared.to_examine.lock().is_empty() {
            self.shared.wake.signal();
        }
        Ok(self.shared.set.as_fd().as_raw_fd())
    }

    /// Waits until something is ready, at most for `timeout`, and returns at most `max` events in the order in which
    /// the entries were added. Errors: WouldBlock at the timeout; Fault if there is nothing to wait for and no
    /// timeout, or after `end`; Interrupted; errors of a registered socket (NotSocket, Terminated). `turn`: returns
    /// Deferred instead of sleeping (`pending_sleep`).
    pub fn wait(
        &self,
        max: usize,
        timeout: Option<Duration>,
        turn: Option<Turn>,
    ) -> Result<Vec<PollerEvent<T>>, Error> {
        let of_call = || timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let deadline = turn.unwrap_or(Turn::FIRST).deadline(of_call);
        let mut has_slept = turn.is_some_and(Turn::has_slept);
        let (interested, fds) = {
            let state = self.state.lock();
            (state.interested, state.fds)
        };
        if timeout.is_none() && (max == 0 || interested == 0) {
            return Err(Error::Fault);
        }
        let mut found: Vec<(u64, PollerEvent<T>)> = Vec::new();
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
                None => timeout, // No limit, or beyond the range of the clock.
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
        if self.shared.fd_is_watched.load(Ordering::SeqCst) && !self.shared.to_examine.lock().is_empty() {
            self.shared.wake.signal();
        }
        Ok(found.into_iter().map(|(_, event)| event).collect())
    }

    /// Returns true if it is time to ask the kernel although something is ready already.
    fn asks_kernel(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOKS)
    }

    /// Examines the entries on the list. Ready ones go to its end, to be examined again next time.
    fn look(&self, max: usize, found: &mut Vec<(u64, PollerEvent<T>)>) -> Result<(), Error> {
        let mut tokens = std::mem::take(&mut *self.shared.to_examine.lock());
        let (mut looked, mut outcome) = (0, Ok(()));
        let mut again: Vec<Arc<PollerEntry<T>>> = Vec::new();
        while looked < tokens.len() && found.len() < max && outcome.is_ok() {
            // No lock is held while the socket is examined: its deferred work may run application code.
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
            let mut to_examine = self.shared.to_examine.lock();
            tokens.append(&mut to_examine);
            *to_examine = tokens;
            for entry in again {
                if !entry.registration.is_listed.swap(true, Ordering::SeqCst) {
                    to_examine.push(entry.token);
                }
            }
        }
        if rest {
            self.shared.wake_others(); // A thread that went to sleep in the meantime saw an empty list.
        }
        outcome
    }

    /// Waits in the epoll set and serves ready connections; ready descriptors become events.
    fn sleep(
        &self,
        max: usize,
        timeout: Option<Duration>,
        defers: bool,
        found: &mut Vec<(u64, PollerEvent<T>)>,
    ) -> Result<(), Error> {
        if timeout != Some(Duration::ZERO) {
            let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            let pending_sleep = PollerSleep::begin(&self.shared, deadline);
            if max == 0 || self.shared.to_examine.lock().is_empty() {
                PendingSleep::Poller(pending_sleep).take(defers, deadline)?;
            }
        }
        let mut ready = Batch::new();
        let outcome = self.shared.set.ready(&mut ready);
        if found.is_empty() {
            outcome?;
        }
        let mut fds: Vec<Arc<PollerEntry<T>>> = Vec::new();
        let mut cleared = false;
        for Ready { token, .. } in ready.iter() {
            if token == WAKE_TOKEN {
                self.shared.wake.clear();
                cleared = true;
                continue;
            }
            let Some(entry) = self.state.lock().entries.get(&token).cloned() else { continue };
            match entry.what {
                PollTarget::Socket(_) => entry.serve(&self.shared),
                PollTarget::Fd(_) => fds.push(entry),
            }
        }
        fds.truncate(max.saturating_sub(found.len()));
        let asked = if fds.is_empty() { Ok(()) } else { ask(&fds, found) };
        // The wake-up was for other threads as well, and this one may return without examining the list.
        if cleared && !(found.is_empty() && asked.is_ok()) && !self.shared.to_examine.lock().is_empty() {
            self.shared.wake_others();
        }
        asked
    }

    /// Removes all entries; waiting callers return Fault.
    pub fn end(&self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let entries: Vec<Arc<PollerEntry<T>>> = {
            let mut state = self.state.lock();
            state.tokens.clear();
            (state.interested, state.fds) = (0, 0);
            state.entries.drain().map(|(_, entry)| entry).collect()
        };
        entries.iter().for_each(|entry| entry.leave(&self.shared));
        self.shared.wake.signal();
    }
}

impl<T> PollerState<T> {
    fn find(&self, what: PollTarget) -> Result<Arc<PollerEntry<T>>, Error> {
        self.tokens
            .get(&what)
            .and_then(|token| self.entries.get(token))
            .cloned()
            .ok_or(Error::Invalid(Invalid::NotRegistered))
    }
}

fn check(events: i16) -> Result<(), Error> {
    if events & !(POLLIN | POLLOUT | POLLERR | POLLPRI) == 0 {
        Ok(())
    } else {
        Err(Error::Invalid(Invalid::Events))
    }
}

/// Asks the kernel which events the descriptors are ready for.
fn ask<T: Clone>(fds: &[Arc<PollerEntry<T>>], found: &mut Vec<(u64, PollerEvent<T>)>) -> Result<(), Error> {
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
