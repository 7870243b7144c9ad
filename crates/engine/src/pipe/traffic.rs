//! The traffic of a pipe, in messages and bytes, for the statistics.

use pinnace_ring::{Amount, Books};

use super::Pipe;

/// The traffic in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages. Incoming: received by the socket from the queue. Outgoing: taken by the kernel or, over inproc, by
    /// the peer. Subscriptions and other commands do not count.
    pub messages: u64,
    /// Their bytes, with ZMTP 3 headers, before encryption.
    pub bytes: u64,
    /// Messages waiting in the queue.
    pub queued: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, other: Traffic) {
        self.add_past(other);
        self.queued += other.queued;
    }

    /// Adds the totals of a queue that no longer exists.
    pub(crate) fn add_past(&mut self, other: Traffic) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// The traffic of a pipe so far: in, out.
pub(crate) fn traffic(pipe: &Pipe) -> (Traffic, Traffic) {
    let (consumed, bytes) = pipe.rx.queue.consumed();
    let (dropped, waiting) = pipe.rx.dropped_and_waiting();
    let received = Traffic {
        messages: consumed.saturating_sub(pipe.commands_in + dropped.messages),
        bytes: bytes.saturating_sub(dropped.bytes),
        queued: pipe.rx.queue.backlog() + waiting.messages,
    };
    let Books { taken, waiting } = pipe.tx.books();
    (received, sent(pipe, taken, waiting.messages))
}

/// As `traffic`, for a pipe that is being removed. Messages waiting in an inproc pipe count as sent if the peer still
/// exists, because it can still receive them.
pub(crate) fn past(pipe: &Pipe) -> (Traffic, Traffic) {
    let Books { mut taken, waiting } = pipe.tx.books();
    if !pipe.tx.is_abandoned() {
        taken += waiting;
    }
    (traffic(pipe).0, sent(pipe, taken, 0))
}

fn sent(pipe: &Pipe, taken: Amount, queued: u64) -> Traffic {
    Traffic { messages: taken.messages.saturating_sub(pipe.commands_out), bytes: taken.bytes, queued }
}
