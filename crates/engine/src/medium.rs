//! What carries a connection's messages, and why it is not shared memory: for the statistics.

/// What carries a connection's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Shared memory.
    Memory,
    /// The connection's socket.
    Socket(FallbackReason),
}

/// Why a connection does not use shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FallbackReason {
    /// The peer is not known to be on this host: the connection is no local socket.
    Remote,
    /// The peer speaks no ZMTP.
    Raw,
    /// Our option says so (PINNACE_SHARED_MEMORY).
    Off,
    /// The peer runs as another user.
    User,
    /// CURVE encrypts the connection.
    Secured,
    /// The connection has moved too little so far to be worth it.
    Brief,
    /// The peer does not offer it: it is another implementation, or its option or its user forbids it.
    Peer,
    /// The peer declined when we asked to switch.
    Declined,
    /// The memory that the peer passed does not have the agreed size or seals.
    Unfit,
    /// The limit on connections with shared memory is reached.
    Full,
    NoMemory,
}

impl Medium {
    /// Its name in the statistics.
    pub fn name(self) -> &'static str {
        match self {
            Medium::Memory => "memory",
            Medium::Socket(_) => "socket",
        }
    }

    /// Why it is not shared memory, in words for the statistics.
    pub fn fallback_reason(self) -> Option<&'static str> {
        let Medium::Socket(reason) = self else { return None };
        Some(match reason {
            FallbackReason::Remote => "not a local socket",
            FallbackReason::Raw => "the peer does not speak ZMTP",
            FallbackReason::Off => "switched off",
            FallbackReason::User => "the peer belongs to another user",
            FallbackReason::Secured => "secured by CURVE",
            FallbackReason::Brief => "little traffic so far",
            FallbackReason::Peer => "the peer does not offer it",
            FallbackReason::Declined => "the peer declined",
            FallbackReason::Unfit => "the peer's memory is not usable",
            FallbackReason::Full => "too many connections share memory",
            FallbackReason::NoMemory => "out of memory",
        })
    }
}
