//! Messages that were lost, by reason: no message goes without one of these being counted.

use std::sync::atomic::{AtomicU64, Ordering};

use pinnace_ring::Amount;

/// Why a message was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Reason {
    /// Its peer took no more: a high-water mark was reached (PUB, ROUTER, REP ...).
    Full,
    /// No peer has the name, or the number, that it was sent to.
    Unroutable,
    /// The peer was lost while the message was being sent, or before its answer was.
    PeerLost,
    /// A lost connection cut it, and its beginning could not be sent again; or a gap in a multicast did, which is
    /// counted as one.
    Cut,
    /// The socket does not take such messages, or from this peer: what a PUSH is sent, a PAIR's second peer, a
    /// topic nobody subscribed to that a publisher sends nevertheless.
    Unwanted,
    /// It breaks the pattern's rules: a request without envelope, a reply that nobody waits for.
    Malformed,
    /// Another peer has the name.
    Duplicate,
    /// A newer one took its place (ZMQ_CONFLATE).
    Conflated,
    /// It is over a limit: too many topics, too large for a datagram.
    Limit,
    /// Memory could not be had.
    NoMemory,
    /// It was not sent within ZMQ_LINGER, or its endpoint was taken back.
    Expired,
    /// It had come in, and its socket was closed, or its endpoint taken back, before it was received.
    Unread,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 12] = [
        Reason::Full,
        Reason::Unroutable,
        Reason::PeerLost,
        Reason::Cut,
        Reason::Unwanted,
        Reason::Malformed,
        Reason::Duplicate,
        Reason::Conflated,
        Reason::Limit,
        Reason::NoMemory,
        Reason::Expired,
        Reason::Unread,
    ];

    /// As it stands in reports: lower case, words joined by `_`.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Full => "full",
            Reason::Unroutable => "unroutable",
            Reason::PeerLost => "peer_lost",
            Reason::Cut => "cut",
            Reason::Unwanted => "unwanted",
            Reason::Malformed => "malformed",
            Reason::Duplicate => "duplicate",
            Reason::Conflated => "conflated",
            Reason::Limit => "limit",
            Reason::NoMemory => "no_memory",
            Reason::Expired => "expired",
            Reason::Unread => "unread",
        }
    }
}

/// How many messages were lost, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops([u64; Reason::ALL.len()]);

impl Drops {
    pub fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn add(&mut self, reason: Reason, messages: u64) {
        self.0[reason as usize] += messages;
    }

    /// Adds what others have counted.
    pub(crate) fn absorb(&mut self, other: &Drops) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

/// The same, counted by several threads; and what of it had been accepted to be sent.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    drops: [AtomicU64; Reason::ALL.len()],
    unsent_messages: AtomicU64,
    unsent_bytes: AtomicU64,
}

impl Tally {
    pub(crate) fn add(&self, reason: Reason, messages: u64) {
        if messages > 0 {
            self.drops[reason as usize].fetch_add(messages, Ordering::Relaxed);
        }
    }

    /// Messages that were accepted are not going to be sent.
    pub(crate) fn give_up(&self, reason: Reason, amount: Amount) {
        self.add(reason, amount.messages);
        self.note_unsent(amount);
    }

    /// The same, where the reason is counted elsewhere.
    pub(crate) fn note_unsent(&self, amount: Amount) {
        self.unsent_messages.fetch_add(amount.messages, Ordering::Relaxed);
        self.unsent_bytes.fetch_add(amount.bytes, Ordering::Relaxed);
    }

    pub(crate) fn absorb(&self, other: &Drops) {
        self.drops.iter().zip(other.0).for_each(|(sum, more)| _ = sum.fetch_add(more, Ordering::Relaxed));
    }

    pub(crate) fn absorb_all(&self, other: &Tally) {
        self.absorb(&other.read());
        self.note_unsent(other.unsent());
    }

    pub(crate) fn read(&self) -> Drops {
        Drops(std::array::from_fn(|index| self.drops[index].load(Ordering::Relaxed)))
    }

    pub(crate) fn unsent(&self) -> Amount {
        Amount {
            messages: self.unsent_messages.load(Ordering::Relaxed),
            bytes: self.unsent_bytes.load(Ordering::Relaxed),
        }
    }
}
