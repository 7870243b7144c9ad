//! Waiting in a socket, with no lock held: the caller serves the socket's connections meanwhile, and is woken
//! by its mail.

use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_ring::{Bell, EventCount, Ticket};
use pinnace_sys::Errno;
use pinnace_sys::poll::Batch;
use pinnace_sys::sleep::{Sleep, Slept};

use super::Core;
use crate::error::Error;
use crate::hub::{Hub, PollSet, PolledBeside};
use crate::lease::{Leader, Lease};
use crate::link::Link;
use crate::nap::{self, Nap};
use crate::spin;

/// Waits for news of one socket.
pub(crate) struct Waiter {
    hub: Arc<Hub>,
    /// `Hub::reads` at the last look.
    observed: u32,
    /// It waits for what comes in, and looks after memory.
    receives: bool,
    /// ZMQ_BUSY_POLL.
    busy_poll_us: i32,
}

/// A caller looks by itself after the memory of so many links at most.
const LINKS_MAX: u32 = 4;
/// Looks between two at the clock.
const LOOKS: u32 = 64;
/// Who looks for longer looks so often at the poll set, too: for what is not in memory.
const POLL_TICK: Duration = Duration::from_micros(100);

impl Waiter {
    pub(crate) fn new(core: &Core) -> Waiter {
        let busy_poll_us = core.options.busy_poll_us;
        Waiter { receives: true, busy_poll_us, ..Waiter::of(core.hub.clone()) }
    }

    /// For who waits for other things than messages: it does not look after memory.
    pub(crate) fn of(hub: Arc<Hub>) -> Waiter {
        let observed = hub.reads();
        Waiter { hub, observed, receives: false, busy_poll_us: spin::NEVER }
    }

    /// Writes what callers have left behind.
    pub(crate) fn flush(&self) {
        if self.hub.has_gathered() {
            self.hub.for_each_link(|link| link.flush_gathered());
        }
    }

    /// ZMQ_FD is no longer readable: what is posted from here on makes it so again.
    pub(crate) fn clear_descriptor(&self) {
        self.hub.clear_descriptor();
    }

    /// Reads without being told that there is something, where that has paid off lately.
    pub(crate) fn read_eagerly(&self) {
        let Some(link) = self.hub.only_link().filter(|link| link.reading_pays()) else { return };
        let Some(set) = self.hub.open_poll_set() else { return };
        // What is in memory the poll set does not tell of in any case.
        let come_in = if link.is_shared() { Lease::come_in } else { Lease::enter };
        if come_in(&self.hub.lease, &set.io, &self.hub) {
            link.try_read();
            self.hub.lease.leave(&set.io, &self.hub);
        }
    }

    /// Serves what is ready, where callers watch the connections; else the I/O thread has done so.
    pub(crate) fn serve_if_ours(&self) -> Result<(), Error> {
        let Some(set) = self.hub.poll_set() else { return Ok(()) };
        if !self.hub.lease.is_taken() || !self.hub.lease.enter(&set.io, &self.hub) {
            return Ok(());
        }
        self.hub.rouse();
        let mut ready = Batch::new();
        let outcome = set.poller.ready(&mut ready);
        self.hub.serve(&ready, false);
        self.hub.lease.leave(&set.io, &self.hub);
        Ok(outcome?)
    }

    /// Looks for mail for a few microseconds, with growing pauses, so that a peer in the same process that is
    /// about to send needs no system call, and what it sends meanwhile comes as a batch. How long, past
    /// success decides; never on a single processor.
    fn spin(&self) -> bool {
        let rounds = self.hub.spin.rounds();
        for round in 0..rounds {
            for _ in 0..1u32 << round {
                std::hint::spin_loop();
            }
            if self.hub.has_mail() {
                self.hub.spin.paid();
                return true;
            }
        }
        self.hub.spin.failed(rounds);
        false
    }

    /// Looks after memory that peers write, for some microseconds, so that they need no system call to wake us, nor we
    /// to sleep. For who leads, in the lease, with its `ticket`. True: there is something to read in one of these
    /// links, or other news.
    fn look_out(
        &self,
        set: &PollSet,
        links: &[Arc<Link>],
        ticket: &Ticket,
        deadline: Option<Instant>,
    ) -> bool {
        let limit = self.hub.watchful.limit(self.busy_poll_us);
        // For room the peer rings.
        if limit.is_zero() || links.iter().any(|link| link.is_blocked()) {
            return false;
        }
        self.hub.hush(links);
        let began = Instant::now();
        let (mut before, mut polled) = (began, began);
        loop {
            for _ in 0..LOOKS {
                if links.iter().any(|link| link.has_news()) || self.hub.has_mail() {
                    self.hub.watchful.paid();
                    return true;
                }
                std::hint::spin_loop();
            }
            if self.hub.event.is_notified(ticket) || self.hub.reads() != self.observed || self.hub.is_closed()
            {
                return true;
            }
            let now = Instant::now();
            if now - polled >= POLL_TICK {
                polled = now;
                let mut ready = Batch::new();
                if set.poller.ready(&mut ready).is_ok() && !ready.is_empty() {
                    self.hub.serve(&ready, true);
                    return true;
                }
            }
            // Who was off its processor for a while keeps others from theirs.
            let crowded = self.busy_poll_us == 0 && now - before > spin::CROWDED;
            if crowded || now - began >= limit || deadline.is_some_and(|deadline| deadline <= now) {
                self.hub.watchful.failed();
                return false;
            }
            before = now;
        }
    }

    /// Says that what is going to be looked at is what `wait` has to find changed.
    pub(crate) fn observe(&mut self) {
        self.observed = self.hub.reads();
    }

    /// Waits until there may be something new since `observe`. WouldBlock: the deadline has come;
    /// Interrupted: a signal was handled; Deferred: the caller sleeps (`defers`).
    ///
    /// Of several callers one serves the connections, and the others sleep until it, or anybody else, brings
    /// news.
    pub(crate) fn wait(&self, deadline: Option<Instant>, defers: bool) -> Result<(), Error> {
        if self.hub.links() == 0 && self.spin() {
            return Ok(());
        }
        let ticket = self.hub.event.listen();
        if self.hub.has_mail() || self.hub.reads() != self.observed || self.hub.is_closed() {
            self.hub.event.cancel(ticket);
            return Ok(());
        }
        let hub = self.hub.clone();
        let nap = match self.hub.open_poll_set().filter(|_| hub.lease.lead()) {
            None => {
                let sleep = EventCount::sleep(hub.clone(), |hub| &hub.event, &ticket, deadline);
                SocketNap { hub, ticket: Some(ticket), place: Place::Event, sleep }
            }
            Some(set) if hub.lease.come_in(&set.io, &hub) => match self.lead(set, &ticket, deadline) {
                Ok(Some((place, sleep))) => SocketNap { hub, ticket: Some(ticket), place, sleep },
                outcome => {
                    hub.event.cancel(ticket);
                    hub.stop_leading(set, true);
                    return outcome.map(|_| ()).map_err(Error::from);
                }
            },
            Some(set) => {
                hub.event.cancel(ticket);
                hub.stop_leading(set, false);
                return hub.unless_late(deadline);
            }
        };
        Nap::Socket(nap).take(defers, deadline)
    }

    /// Prepares to wait for the connections, as the one caller that does. None: there is something new.
    fn lead(
        &self,
        set: &PollSet,
        ticket: &Ticket,
        deadline: Option<Instant>,
    ) -> Result<Option<(Place, Sleep)>, Errno> {
        let links = if self.receives { self.hub.links_in_memory(LINKS_MAX) } else { Vec::new() };
        if !links.is_empty() && self.look_out(set, &links, ticket, deadline) {
            links.iter().filter(|link| link.has_news()).for_each(|link| _ = link.read());
            return Ok(None);
        }
        if let [link] = &links[..]
            && let Some(bell) = link.bell()
        {
            return Ok(Some(self.sleep_at(bell, link, set, ticket, deadline)));
        }
        self.hub.rouse();
        self.hub.lease.moves(Leader::InSet, &set.io, &self.hub);
        // News that came before this caller was there did not signal the poll set.
        let is_due = self.hub.event.is_notified(ticket) || self.hub.has_unread();
        let prepared = self.hub.sleep(set, if is_due { Some(Instant::now()) } else { deadline });
        if prepared.is_err() {
            self.hub.lease.moves(Leader::Awake, &set.io, &self.hub);
        }
        let (sleep, beside) = prepared?;
        Ok(Some((Place::Set { beside, is_due }, sleep)))
    }

    /// The sleep until the peer writes to the memory of the only link, and wakes us without a detour by the socket, or
    /// until there is other news, which the I/O thread brings.
    fn sleep_at(
        &self,
        bell: Bell,
        link: &Arc<Link>,
        set: &PollSet,
        ticket: &Ticket,
        deadline: Option<Instant>,
    ) -> (Place, Sleep) {
        let hub = &*self.hub;
        let rung = bell.listen();
        *hub.bell.lock() = Some(bell.clone());
        hub.lease.moves(Leader::AtBell, &set.io, hub);
        let is_quiet = !hub.event.is_notified(ticket) && !hub.has_unread() && link.arm_bell();
        let sleep = bell.sleep(rung, if is_quiet { deadline } else { Some(Instant::now()) });
        (Place::Bell { link: link.clone(), is_quiet }, sleep)
    }
}

/// A caller that sleeps in a socket.
pub(crate) struct SocketNap {
    hub: Arc<Hub>,
    /// None: it is over.
    ticket: Option<Ticket>,
    place: Place,
    pub(crate) sleep: Sleep,
}

/// Where it sleeps.
enum Place {
    /// It waits for others to bring news.
    Event,
    /// It leads, and sleeps in the poll set; not at all where something `is_due`.
    Set { beside: PolledBeside, is_due: bool },
    /// It leads, and sleeps by the bell of this link; not at all where that is not quiet.
    Bell { link: Arc<Link>, is_quiet: bool },
}

impl SocketNap {
    /// `deadline`: the call's.
    pub(crate) fn end(mut self, slept: Slept, deadline: Option<Instant>) -> Result<(), Error> {
        self.wake_up(slept, deadline)
    }

    fn wake_up(&mut self, slept: Slept, deadline: Option<Instant>) -> Result<(), Error> {
        let Some(ticket) = self.ticket.take() else { return Ok(()) };
        let hub = &self.hub;
        let found = match &self.place {
            Place::Event => {
                hub.event.cancel(ticket);
                return nap::outcome(slept);
            }
            Place::Set { beside, is_due } => {
                let set = hub.poll_set().expect("it sleeps there");
                hub.lease.moves(Leader::Awake, &set.io, hub);
                hub.event.cancel(ticket); // Or what it serves would notify itself.
                let found = match slept {
                    Slept::Interrupted | Slept::Failed(_) => nap::outcome(slept).map(|()| false),
                    _ => hub.wake_up(set, &self.sleep, beside).map_err(Error::from),
                };
                found.map(|found| found || *is_due)
            }
            Place::Bell { link, is_quiet } => {
                let set = hub.poll_set().expect("its link is there");
                hub.lease.moves(Leader::Awake, &set.io, hub);
                *hub.bell.lock() = None;
                hub.event.cancel(ticket);
                hub.hush(slice::from_ref(link)); // It is the caller's to look, until it waits again.
                link.read();
                hub.serve_unread();
                match slept {
                    Slept::Interrupted | Slept::Failed(_) => nap::outcome(slept).map(|()| false),
                    slept => Ok(!is_quiet || slept == Slept::Woken),
                }
            }
        };
        hub.stop_leading(hub.poll_set().expect("as above"), true);
        if found? { Ok(()) } else { hub.unless_late(deadline) }
    }
}

impl Drop for SocketNap {
    /// The thread was cancelled: others lead and serve.
    fn drop(&mut self) {
        let _ = self.wake_up(Slept::TimedOut, None);
    }
}

impl Hub {
    /// The caller that leads steps down; it `came_in` to the lease.
    fn stop_leading(self: &Arc<Hub>, set: &PollSet, came_in: bool) {
        if came_in {
            self.lease.leave(&set.io, self);
        }
        self.lease.step_down();
        self.event.notify();
    }

    fn unless_late(&self, deadline: Option<Instant>) -> Result<(), Error> {
        let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
        if is_late && !self.has_mail() { Err(Error::WouldBlock) } else { Ok(()) }
    }
}
