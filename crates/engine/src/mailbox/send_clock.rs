//! How often a socket sends, so that a link can tell a message that stands alone from one in a tight loop.

use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum divisor in [`SendClock::gap`]: a sender of one message to very many peers is not in a tight loop.
const GAPS_MAX: u64 = 64;

#[derive(Default)]
pub(crate) struct SendClock {
    /// Messages sent, counted once per link.
    sent: AtomicU64,
    /// When a message was last written, or left unwritten, on any link, by the links' clock; and the value of `sent`
    /// at that time.
    last_write_at: AtomicU64,
    sent_at_last_write: AtomicU64,
}

impl SendClock {
    /// Counts a message sent over a link. Only one thread at a time may call this.
    #[inline(always)]
    pub(crate) fn count(&self) {
        self.sent.store(self.sent() + 1, Ordering::Relaxed);
    }

    /// Messages sent, counted once per link.
    #[inline(always)]
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Messages were written, or left unwritten, at time `now` of the links' clock.
    pub(crate) fn note_write(&self, now: u64) {
        self.last_write_at.store(now, Ordering::Relaxed);
        self.sent_at_last_write.store(self.sent(), Ordering::Relaxed);
    }

    /// Average time in nanoseconds between the messages sent since then, including the present one. A message that
    /// comes soon after others is not alone: writing each at once would cost a system call per link in a tight loop
    /// over many links.
    pub(crate) fn gap(&self, now: u64) -> u64 {
        let messages = self.sent().saturating_sub(self.sent_at_last_write.load(Ordering::Relaxed));
        now.saturating_sub(self.last_write_at.load(Ordering::Relaxed)) / messages.clamp(1, GAPS_MAX)
    }
}
