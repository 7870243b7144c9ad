//! Decides when a sender writes the messages it has put into a link's queue, and when it is held up.
//!
//! `after_commit`: a message is written at once if it is alone or is an answer. Otherwise the sender writes when
//! [`BATCH_BYTES`] are queued or when the link's last write is longer ago than [`flush_age`]. The I/O thread writes
//! what the sender leaves behind: it checks every [`crate::reactor::WATCH_TICK`] while messages keep coming, or once
//! per [`flush_age`] if that is longer and the sender keeps sending.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pinnace_ring::{Producer, prefetch};

use super::{Link, clock};
use crate::error::Error;
use crate::waiting::Waiter;

/// Bytes a sender batches before it writes: a write may wake a sleeping core, which costs more than moving some ten
/// KiB.
const BATCH_BYTES: u64 = 384 * 1024;
/// How long messages may wait unwritten while more keep coming, in nanoseconds for each connection of the socket. With
/// a shorter time a sender with many connections would do nothing but write. FLUSH_AGE_FEW is the upper limit ...
const FLUSH_AGE: u64 = 100_000;
const FLUSH_AGE_FEW: u64 = 2_000_000;
/// ... unless this much for each connection is more (above 100 connections): a write and its receipt take about as
/// long.
const FLUSH_AGE_MANY: u64 = 20_000;
/// A message is alone, and is written at once, if the messages that the socket has sent since its last write came at
/// least this many nanoseconds apart on average (`SendClock::gap`).
const LONE_GAP: u64 = 3_000;
/// Bytes in the queue at which a sender that may block is held up while the kernel takes nothing, and the longest
/// such wait.
const PACE_BYTES: u64 = 768 * 1024;
const PACE_TIME: Duration = Duration::from_millis(2);
/// What a sender does after a message.
pub(crate) enum AfterCommit {
    Nothing,
    /// Write the unwritten messages.
    Flush,
    /// Wait briefly: the kernel is far behind.
    Pace,
    /// This connection has ended: look for another one of the pipe.
    Unlinked,
}

impl Link {
    /// What the sender has to do after it put a message into `queue`, once the socket's lock is released.
    #[inline(always)]
    pub(crate) fn after_commit(&self, queue: &Producer, received_since_send: bool) -> AfterCommit {
        let backlog = queue.backlog_wire();
        self.mailbox.sends.count();
        if self.is_blocked() {
            return self.after_blocked(backlog);
        }
        if received_since_send || backlog >= BATCH_BYTES {
            return AfterCommit::Flush;
        }
        let first = !self.has_unwritten.load(Ordering::Relaxed);
        if (first || queue.is_64th(self.pipe.0.into())) && self.is_due(first) {
            AfterCommit::Flush
        } else {
            AfterCommit::Nothing
        }
    }

    /// As `after_commit`, if the kernel takes nothing or the link has ended (`dismantle`).
    #[inline(always)]
    fn after_blocked(&self, backlog: u64) -> AfterCommit {
        if self.is_broken() {
            AfterCommit::Unlinked
        } else if backlog >= PACE_BYTES {
            AfterCommit::Pace
        } else {
            AfterCommit::Nothing
        }
    }

    /// Prefetches what the next message of this link needs.
    #[inline(always)]
    pub(crate) fn prefetch_next(&self) {
        prefetch(&raw const self.blocked, 1);
        prefetch(&raw const self.mailbox, 1);
    }

    /// Holds up a sender for a moment if far more is queued than the kernel takes, since further messages would fall
    /// out of the CPU cache before they are written. The sender serves the connection meanwhile. A peer that reads
    /// nothing, or that keeps the large bodies it has, holds the sender up only once.
    pub(crate) fn pace(&self) {
        if self.pacing_fails.load(Ordering::Relaxed) {
            return;
        }
        let deadline = Instant::now() + PACE_TIME;
        let mut waiter = Waiter::of(self.mailbox.clone());
        while (self.is_blocked() || self.lacks_room()) && !self.is_broken() && !self.mailbox.has_notices() {
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

    /// Whether large bodies find little room in shared memory, unless the last wait for room was in vain. If true,
    /// the peer wakes the waiting caller when there is more room.
    fn lacks_room(&self) -> bool {
        if self.lending_fails.load(Ordering::Relaxed) {
            return false;
        }
        let tx = self.tx.lock();
        let lacks = tx.lacks_room();
        if tx.take_drained_wakeup() {
            self.mailbox.read_again(self);
        }
        lacks
    }

    /// Called after a large body was put into shared memory or found no room there; `short`: the next body would find
    /// none. True: the sender waits for room. False if the link has ended, since no room comes any more.
    pub(crate) fn waits_for_room(&self, short: bool) -> bool {
        let fails = self.lending_fails.load(Ordering::Relaxed);
        if fails && !short {
            self.lending_fails.store(false, Ordering::Relaxed);
        }
        short && !fails && !self.is_broken()
    }

    /// As `after_commit`, if a message replaced the ones before it: the sender never waits for the kernel.
    pub(crate) fn after_newest(&self) -> AfterCommit {
        if self.is_blocked() {
            self.after_blocked(0)
        } else if !self.has_unwritten.load(Ordering::Relaxed) && self.is_due(true) {
            AfterCommit::Flush
        } else {
            AfterCommit::Nothing
        }
    }

    #[cold]
    fn is_due(&self, first: bool) -> bool {
        let now = clock();
        let age = now.saturating_sub(self.last_write.load(Ordering::Relaxed));
        if if first {
            self.mailbox.sends.gap(now) >= LONE_GAP
        } else {
            age >= flush_age(self.mailbox.links())
        } {
            return true;
        }
        self.mailbox.sends.note_write(now);
        self.mark_unwritten();
        self.request_flush_checks();
        false
    }
}

/// How long messages may wait unwritten on a socket with this many connections, in nanoseconds.
pub(crate) fn flush_age(links: u32) -> u64 {
    let links = u64::from(links);
    (FLUSH_AGE * links).clamp(FLUSH_AGE, FLUSH_AGE_FEW).max(FLUSH_AGE_MANY * links)
}
