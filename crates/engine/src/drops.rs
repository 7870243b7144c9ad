//! Lost messages, counted by reason. Every lost message is counted here.

use std::sync::atomic::{AtomicU64, Ordering};

use pinnace_ring::Amount;

/// Why a message was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Reason {
    /// The peer took no more: a high-water mark was reached (PUB, ROUTER, REP ...).
    Full,
    /// No peer has the routing id or number that the message was sent to.
    Unroutable,
    /// The peer was lost while the message was being sent, or before its answer was sent.
    PeerLost,
    /// A lost connection cut the message, and its beginning could not be sent again. Or a gap in a multicast cut it:
    /// a gap counts as one message.
    Cut,
    /// The socket does not accept such messages, or not from this peer: a message to a PUSH, from a PAIR's second
    /// peer, or of a topic without a subscription that a publisher sends nevertheless.
    Unwanted,
    /// The message breaks the pattern's rules: a request without envelope, an unexpected reply.
    Malformed,
    /// Another peer has the name.
    Duplicate,
    /// A newer message replaced it (ZMQ_CONFLATE).
    Conflated,
    /// The message is over a limit: too many topics, too large for a datagram.
    Limit,
    /// There was no memory.
    NoMemory,
    /// The message was not sent within ZMQ_LINGER, or its endpoint was removed.
    Expired,
    /// The message was not received before its socket was closed or its endpoint removed.
    Unread,
}

impl Reason {
    /// All reasons.
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

    /// The name in reports: lower case, words joined by `_`.
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

    /// Adds the counts of `other`.
    pub(crate) fn absorb(&mut self, other: &Drops) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

/// Lost messages counted by several threads, and how much of them had been accepted for sending.
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

    /// Counts accepted messages that will not be sent.
    pub(crate) fn give_up(&self, reason: Reason, amount: Amount) {
        self.add(reason, amount.messages);
        self.note_unsent(amount);
    }

    /// As `give_up`, if the reason is counted elsewhere.
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
