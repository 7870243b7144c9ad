//! When a sender writes what it has put into a link's queue, and when it is held up.
//!
//! In a few words (`after_commit`): at once if the message is alone or answers one; otherwise when [`BATCH_BYTES`] have
//! gathered or the oldest has waited for as long as [`flush_age`] says. What a sender leaves behind the I/O thread
//! writes, which looks every [`crate::reactor::WATCH_TICK`] for as long as messages keep coming, or as often as
//! [`flush_age`] says while the sender goes on.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pinnace_ring::{Producer, prefetch};

use super::{Link, clock};
use crate::error::Error;
use crate::socket::Waiter;

/// Bytes that a sender lets gather before it writes them: each write may wake a processor that sleeps, which costs
/// more than to move some ten KiB.
const BATCH_BYTES: u64 = 384 * 1024;
/// How long a sender lets messages gather while more keep coming, in nanoseconds for each connection of its socket,
/// since it writes to one after the other and would come to nothing else; so much at most ...
const FLUSH_AGE: u64 = 100_000;
const FLUSH_AGE_FEW: u64 = 2_000_000;
/// ... or, for each of very many, so much: a write and what it takes to receive it cost about as long, and would be all
/// that is done.
const FLUSH_AGE_MANY: u64 = 20_000;
/// A message that comes so many nanoseconds after the last write of the socket is alone, and is written at
/// once.
const LONE_GAP: u64 = 3_000;
/// Bytes in the queue from which on a sender that may wait is held up while the kernel takes nothing, and for
/// how long at most.
const PACE_BYTES: u64 = 768 * 1024;
const PACE_TIME: Duration = Duration::from_millis(2);
/// What a sender has to do after a message.
pub(crate) enum Next {
    Nothing,
    /// Write what has gathered.
    Flush,
    /// Wait a little: the kernel is far behind.
    Pace,
    /// Look whether the pipe has another connection: this one has ended.
    Unlinked,
}

impl Link {
    /// What the sender has to do now that it has put a message into `queue`, once the socket's lock is open.
    #[inline(always)]
    pub(crate) fn after_commit(&self, queue: &Producer, turned: bool) -> Next {
        let backlog = queue.backlog_wire();
        self.hub.sends();
        if self.is_blocked() {
            return self.after_blocked(backlog);
        }
        if turned || backlog >= BATCH_BYTES {
            return Next::Flush;
        }
        let first = !self.gathering.load(Ordering::Relaxed);
        if (first || queue.is_64th(self.pipe.0.into())) && self.is_due(first) {
            Next::Flush
        } else {
            Next::Nothing
        }
    }

    /// The same where the kernel takes nothing, or the link has ended (`dismantle`).
    #[inline(always)]
    fn after_blocked(&self, backlog: u64) -> Next {
        if self.is_broken() {
            Next::Unlinked
        } else if backlog >= PACE_BYTES {
            Next::Pace
        } else {
            Next::Nothing
        }
    }

    /// A message is soon going to be put into its queue.
    #[inline(always)]
    pub(crate) fn foresee(&self) {
        prefetch(&raw const self.blocked, 1);
        prefetch(&raw const self.hub, 1);
    }

    /// Holds up a sender that has far more in the queue than the kernel takes, for a moment: what it queues
    /// further would only leave the processor's cache. It serves the connection meanwhile. A peer that
    /// takes nothing holds it up once, and so does one that keeps the large bodies it has.
    pub(crate) fn pace(&self) {
        if self.pacing_fails.load(Ordering::Relaxed) {
            return;
        }
        let deadline = Instant::now() + PACE_TIME;
        let mut waiter = Waiter::of(self.hub.clone());
        while (self.is_blocked() || self.lacks_room()) && !self.is_broken() && !self.hub.has_mail() {
            waiter.observe();
            match waiter.wait(Some(deadline), false) {
                Ok(()) => {}
                Err(Error::WouldBlock) if self.is_blocked() => {
                    return self.pacing_fails.store(true, Ordering::Relaxed);
                }
                Err(Error::WouldBlock) => return self.lending_fails.store(true, Ordering::Relaxed),
                Err(_) => return,
            }
        }
    }

    /// Whether large bodies find little room, and have found more after a wait, the last time that was so. If so, who
    /// waits is woken when they find more.
    fn lacks_room(&self) -> bool {
        if self.lending_fails.load(Ordering::Relaxed) {
            return false;
        }
        let tx = self.tx.lock();
        let lacks = tx.lacks_room();
        if tx.take_heard() {
            self.hub.read_again(self);
        }
        lacks
    }

    /// A large body was put beside the stream, or found no room there: the next one would not (`short`). True: the
    /// sender is held up until there is more, which a link that has ended never has.
    pub(crate) fn waits_for_room(&self, short: bool) -> bool {
        let fails = self.lending_fails.load(Ordering::Relaxed);
        if fails && !short {
            self.lending_fails.store(false, Ordering::Relaxed);
        }
        short && !fails && !self.is_broken()
    }

    /// As `after_commit`, where a message has replaced those before it: nobody waits until the kernel takes it.
    pub(crate) fn after_newest(&self) -> Next {
        if self.is_blocked() {
            self.after_blocked(0)
        } else if !self.gathering.load(Ordering::Relaxed) && self.is_due(true) {
            Next::Flush
        } else {
            Next::Nothing
        }
    }

    #[cold]
    fn is_due(&self, first: bool) -> bool {
        let now = clock();
        let age = now.saturating_sub(self.last_write.load(Ordering::Relaxed));
        if if first { self.hub.gap(now) >= LONE_GAP } else { age >= flush_age(self.hub.links()) } {
            return true;
        }
        self.hub.leaves(now);
        self.gather();
        self.be_watched();
        false
    }
}

/// How long what is sent may gather, in nanoseconds, where a socket has so many connections.
pub(crate) fn flush_age(links: u32) -> u64 {
    let links = u64::from(links);
    (FLUSH_AGE * links).clamp(FLUSH_AGE, FLUSH_AGE_FEW).max(FLUSH_AGE_MANY * links)
}
