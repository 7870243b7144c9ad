//! Blocking in a socket without holding its lock: the waiting caller serves the socket's connections, and notices
//! wake it.

use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_ring::{Doorbell, EventCount, Ticket};
use pinnace_sys::Errno;
use pinnace_sys::poll::Batch;
use pinnace_sys::sleep::{Sleep, Slept};

use super::pending_sleep::{self, PendingSleep};
use crate::error::Error;
use crate::link::Link;
use crate::mailbox::{Mailbox, PollSet, PolledBeside};
use crate::ownership::{Leader, PollOwnership};
use crate::spin;

/// Waits for changes of one socket.
pub(crate) struct Waiter {
    mailbox: Arc<Mailbox>,
    /// `Mailbox::reads` at the time of `observe`.
    observed: u32,
    /// Waits for input, and so polls shared memory before it sleeps.
    receives: bool,
    /// ZMQ_BUSY_POLL.
    busy_poll_us: i32,
}

/// Most links that a caller polls in shared memory.
const LINKS_MAX: u32 = 4;
/// Checks of memory between two readings of the clock.
const LOOKS: u32 = 64;
/// A caller that polls memory checks the poll set at this interval, for everything outside shared memory.
const POLL_TICK: Duration = Duration::from_micros(100);

impl Waiter {
    /// For a caller that waits for messages; `busy_poll_us`: ZMQ_BUSY_POLL.
    pub(crate) fn for_input(mailbox: Arc<Mailbox>, busy_poll_us: i32) -> Waiter {
        Waiter { receives: true, busy_poll_us, ..Waiter::of(mailbox) }
    }

    /// For callers that do not wait for messages: does not poll memory.
    pub(crate) fn of(mailbox: Arc<Mailbox>) -> Waiter {
        let observed = mailbox.reads();
        Waiter { mailbox, observed, receives: false, busy_poll_us: spin::NEVER }
    }

    /// Flushes data that callers have left unwritten.
    pub(crate) fn flush(&self) {
        if self.mailbox.take_unwritten() {
            self.mailbox.for_each_link(|link| link.flush_unwritten());
        }
    }

    /// Makes ZMQ_FD unreadable until the next notice.
    pub(crate) fn clear_descriptor(&self) {
        self.mailbox.clear_descriptor();
    }

    /// Reads without a readiness event, if that has paid off recently.
    pub(crate) fn read_eagerly(&self) {
        let Some(link) = self.mailbox.only_link().filter(|link| link.reading_pays()) else { return };
        let Some(set) = self.mailbox.open_poll_set() else { return };
        // The poll set does not report data in shared memory, so the I/O thread may keep polling it.
        let enter = if link.is_shared() { PollOwnership::enter } else { PollOwnership::enter_and_pause_io };
        if enter(&self.mailbox.ownership, &set.io, &self.mailbox) {
            link.try_read();
            self.mailbox.ownership.leave(&set.io, &self.mailbox);
        }
    }

    /// Serves ready connections if callers own the poll set; otherwise the I/O thread has served them.
    pub(crate) fn serve_if_ours(&self) -> Result<(), Error> {
        let Some(set) = self.mailbox.poll_set() else { return Ok(()) };
        if !self.mailbox.ownership.is_taken()
            || !self.mailbox.ownership.enter_and_pause_io(&set.io, &self.mailbox)
        {
            return Ok(());
        }
        self.mailbox.resume_wakeups();
        let mut ready = Batch::new();
        let outcome = set.poller.ready(&mut ready);
        self.mailbox.serve(&ready, false);
        self.mailbox.ownership.leave(&set.io, &self.mailbox);
        Ok(outcome?)
    }

    /// Polls for notices for a few microseconds, with growing pauses. A peer in this process that is about to send
    /// then needs no system call, and its messages arrive as a batch. Past success decides how long; never on a
    /// single processor.
    fn spin(&self) -> bool {
        let rounds = self.mailbox.spin.rounds();
        for round in 0..rounds {
            for _ in 0..1u32 << round {
                std::hint::spin_loop();
            }
            if self.mailbox.has_notices() {
                self.mailbox.spin.paid();
                return true;
            }
        }
        self.mailbox.spin.failed(rounds);
        false
    }

    /// Polls memory that peers write for some microseconds, so that they need no system call to wake us, and we need
    /// none to sleep. For the leader, which owns the poll set and holds `ticket`. Returns true if a link has input or
    /// something else has changed.
    fn poll_memory(
        &self,
        set: &PollSet,
        links: &[Arc<Link>],
        ticket: &Ticket,
        deadline: Option<Instant>,
    ) -> bool {
        let limit = self.mailbox.memory_spin.limit(self.busy_poll_us);
        // A blocked link waits for room, which the peer signals by a wake-up and not in memory.
        if limit.is_zero() || links.iter().any(|link| link.is_blocked()) {
            return false;
        }
        self.mailbox.suppress_wakeups(links);
        let began = Instant::now();
        let (mut before, mut polled) = (began, began);
        loop {
            for _ in 0..LOOKS {
                if links.iter().any(|link| link.has_unpolled_input()) || self.mailbox.has_notices() {
                    self.mailbox.memory_spin.paid();
                    return true;
                }
                std::hint::spin_loop();
            }
            if self.mailbox.event.is_notified(ticket)
                || self.mailbox.reads() != self.observed
                || self.mailbox.is_closed()
            {
                return true;
            }
            let now = Instant::now();
            if now - polled >= POLL_TICK {
                polled = now;
                let mut ready = Batch::new();
                if set.poller.ready(&mut ready).is_ok() && !ready.is_empty() {
                    self.mailbox.serve(&ready, true);
                    return true;
                }
            }
            // We were descheduled, so cores are scarce: stop spinning.
            let crowded = self.busy_poll_us == 0 && now - before > spin::CROWDED;
            if crowded || now - began >= limit || deadline.is_some_and(|deadline| deadline <= now) {
                self.mailbox.memory_spin.failed();
                return false;
            }
            before = now;
        }
    }

    /// Records the current state: `wait` returns once it has changed.
    pub(crate) fn observe(&mut self) {
        self.observed = self.mailbox.reads();
    }

    /// Waits until something may have changed since `observe`. Errors: WouldBlock at the deadline, Interrupted after
    /// a signal was handled, Deferred if the caller is to sleep (`defers`).
    ///
    /// One of the waiting callers leads and serves the connections. The others sleep until the leader or another
    /// thread notifies them.
    pub(crate) fn wait(&self, deadline: Option<Instant>, defers: bool) -> Result<(), Error> {
        if self.mailbox.links() == 0 && self.spin() {
            return Ok(());
        }
        let ticket = self.mailbox.event.listen();
        if self.mailbox.has_notices() || self.mailbox.reads() != self.observed || self.mailbox.is_closed() {
            self.mailbox.event.cancel(ticket);
            return Ok(());
        }
        let mailbox = self.mailbox.clone();
        let pending_sleep = match self.mailbox.open_poll_set().filter(|_| mailbox.ownership.lead()) {
            None => {
                let sleep = EventCount::sleep(mailbox.clone(), |mailbox| &mailbox.event, &ticket, deadline);
                SocketSleep { mailbox, ticket: Some(ticket), place: SleepPlace::Event, sleep }
            }
            Some(set) if mailbox.ownership.enter(&set.io, &mailbox) => {
                match self.lead(set, &ticket, deadline) {
                    Ok(Some((place, sleep))) => SocketSleep { mailbox, ticket: Some(ticket), place, sleep },
                    outcome => {
                        mailbox.event.cancel(ticket);
                        mailbox.stop_leading(set, true);
                        return outcome.map(|_| ()).map_err(Error::from);
                    }
                }
            }
            Some(set) => {
                mailbox.event.cancel(ticket);
                mailbox.stop_leading(set, false);
                return mailbox.unless_late(deadline);
            }
        };
        PendingSleep::Socket(pending_sleep).take(defers, deadline)
    }

    /// Prepares the leader's sleep. None: something has changed already.
    fn lead(
        &self,
        set: &PollSet,
        ticket: &Ticket,
        deadline: Option<Instant>,
    ) -> Result<Option<(SleepPlace, Sleep)>, Errno> {
        let links = if self.receives { self.mailbox.links_in_memory(LINKS_MAX) } else { Vec::new() };
        if !links.is_empty() && self.poll_memory(set, &links, ticket, deadline) {
            links.iter().filter(|link| link.has_unpolled_input()).for_each(|link| _ = link.read());
            return Ok(None);
        }
        if let [link] = &links[..]
            && let Some(doorbell) = link.doorbell()
        {
            return Ok(Some(self.sleep_at(doorbell, link, set, ticket, deadline)));
        }
        self.mailbox.resume_wakeups();
        self.mailbox.ownership.publish_leader(Leader::InSet, &set.io, &self.mailbox);
        // A notice posted before this caller led did not signal the poll set.
        let is_due = self.mailbox.event.is_notified(ticket) || self.mailbox.has_unread();
        let prepared = self.mailbox.sleep(set, if is_due { Some(Instant::now()) } else { deadline });
        if prepared.is_err() {
            self.mailbox.ownership.publish_leader(Leader::Awake, &set.io, &self.mailbox);
        }
        let (sleep, beside) = prepared?;
        Ok(Some((SleepPlace::Set { beside, is_due }, sleep)))
    }

    /// The sleep at the doorbell of the only link's memory. The peer rings it directly, without the socket; the I/O
    /// thread, which serves everything else meanwhile, wakes the caller for any other change.
    fn sleep_at(
        &self,
        doorbell: Doorbell,
        link: &Arc<Link>,
        set: &PollSet,
        ticket: &Ticket,
        deadline: Option<Instant>,
    ) -> (SleepPlace, Sleep) {
        let mailbox = &*self.mailbox;
        let rung = doorbell.listen();
        *mailbox.doorbell.lock() = Some(doorbell.clone());
        mailbox.ownership.publish_leader(Leader::AtDoorbell, &set.io, mailbox);
        let is_quiet = !mailbox.event.is_notified(ticket) && !mailbox.has_unread() && link.arm_doorbell();
        let sleep = doorbell.sleep(rung, if is_quiet { deadline } else { Some(Instant::now()) });
        (SleepPlace::Doorbell { link: link.clone(), is_quiet }, sleep)
    }
}

/// The prepared sleep of a caller in a socket.
pub(crate) struct SocketSleep {
    mailbox: Arc<Mailbox>,
    /// None once the sleep is over.
    ticket: Option<Ticket>,
    place: SleepPlace,
    pub(crate) sleep: Sleep,
}

/// Where the caller sleeps.
enum SleepPlace {
    /// A follower: other threads notify it.
    Event,
    /// The leader, in the poll set. It does not sleep if something `is_due`.
    Set { beside: PolledBeside, is_due: bool },
    /// The leader, at this link's doorbell. It does not sleep unless `is_quiet`.
    Doorbell { link: Arc<Link>, is_quiet: bool },
}

impl SocketSleep {
    /// `deadline` is that of the call.
    pub(crate) fn end(mut self, slept: Slept, deadline: Option<Instant>) -> Result<(), Error> {
        self.wake_up(slept, deadline)
    }

    fn wake_up(&mut self, slept: Slept, deadline: Option<Instant>) -> Result<(), Error> {
        let Some(ticket) = self.ticket.take() else { return Ok(()) };
        let mailbox = &self.mailbox;
        let found = match &self.place {
            SleepPlace::Event => {
                mailbox.event.cancel(ticket);
                return pending_sleep::outcome(slept);
            }
            SleepPlace::Set { beside, is_due } => {
                let set = mailbox.poll_set().expect("it sleeps there");
                mailbox.ownership.publish_leader(Leader::Awake, &set.io, mailbox);
                mailbox.event.cancel(ticket); // Before it serves, or it would notify itself.
                let found = match slept {
                    Slept::Interrupted | Slept::Failed(_) => pending_sleep::outcome(slept).map(|()| false),
                    _ => mailbox.wake_up(set, &self.sleep, beside).map_err(Error::from),
                };
                found.map(|found| found || *is_due)
            }
            SleepPlace::Doorbell { link, is_quiet } => {
                let set = mailbox.poll_set().expect("its link is there");
                mailbox.ownership.publish_leader(Leader::Awake, &set.io, mailbox);
                *mailbox.doorbell.lock() = None;
                mailbox.event.cancel(ticket);
                // The caller polls memory itself until it waits again.
                mailbox.suppress_wakeups(slice::from_ref(link));
                link.read();
                mailbox.serve_unread();
                match slept {
                    Slept::Interrupted | Slept::Failed(_) => pending_sleep::outcome(slept).map(|()| false),
                    slept => Ok(!is_quiet || slept == Slept::Woken),
                }
            }
        };
        mailbox.stop_leading(mailbox.poll_set().expect("as above"), true);
        if found? { Ok(()) } else { mailbox.unless_late(deadline) }
    }
}

impl Drop for SocketSleep {
    /// The thread was cancelled: gives up leadership and poll ownership to others.
    fn drop(&mut self) {
        let _ = self.wake_up(Slept::TimedOut, None);
    }
}

impl Mailbox {
    /// Ends this caller's leadership, and its poll ownership if it `came_in`.
    fn stop_leading(self: &Arc<Mailbox>, set: &PollSet, came_in: bool) {
        if came_in {
            self.ownership.leave(&set.io, self);
        }
        self.ownership.step_down();
        self.event.notify();
    }

    fn unless_late(&self, deadline: Option<Instant>) -> Result<(), Error> {
        let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
        if is_late && !self.has_notices() { Err(Error::WouldBlock) } else { Ok(()) }
    }
}
