//! Which way a connection's messages go, and why, for who reads statistics.

/// How a connection's messages move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// Through memory that both processes have.
    Memory,
    /// Over its socket.
    Socket(Because),
}

/// Why a connection's messages do not go through memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// The peer is not known to be on this host: it is not a local socket.
    Remote,
    /// It speaks no ZMTP.
    Raw,
    /// Our option says so (PINNACE_SHARED_MEMORY).
    Off,
    /// The peer is another user's.
    User,
    /// CURVE secures it.
    Secured,
    /// It has moved too little so far.
    Brief,
    /// The peer does not offer it: another implementation, or its option or its user keep it from that.
    Peer,
    /// The peer declined, when it was to be done.
    Declined,
    /// What the peer gave is not what it should be.
    Unfit,
    /// So many connections share memory that there is no room for more.
    Full,
    NoMemory,
}

impl Carrier {
    /// Its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Memory => "memory",
            Carrier::Socket(_) => "socket",
        }
    }

    /// Why it is not memory, for who reads statistics.
    pub fn because(self) -> Option<&'static str> {
        let Carrier::Socket(because) = self else { return None };
        Some(match because {
            Because::Remote => "not a local socket",
            Because::Raw => "the peer speaks no ZMTP",
            Because::Off => "switched off",
            Because::User => "the peer is another user's",
            Because::Secured => "secured by CURVE",
            Because::Brief => "little has been moved so far",
            Because::Peer => "the peer does not offer it",
            Because::Declined => "the peer declined",
            Because::Unfit => "the peer's memory is unfit",
            Because::Full => "too many connections share memory",
            Because::NoMemory => "no memory to be had",
        })
    }
}
