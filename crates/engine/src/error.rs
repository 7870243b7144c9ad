//! The engine's errors, by responsibility, and their numbers in libzmq's API.

use std::fmt;

use pinnace_ring::NoMemory;
use pinnace_sys::Errno;

/// The first of libzmq's own numbers (zmq.h, ZMQ_HAUSNUMERO).
const HAUSNUMERO: i32 = 156_384_712;
/// The socket's state machine does not allow the call now.
pub const EFSM: i32 = HAUSNUMERO + 51;
/// The transport does not support the socket type.
pub const ENOCOMPATPROTO: i32 = HAUSNUMERO + 52;
/// The context was terminated.
pub const ETERM: i32 = HAUSNUMERO + 53;
/// No I/O thread is available.
pub const EMTHREAD: i32 = HAUSNUMERO + 54;

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Caller: an argument, an option's value or its length is wrong (EINVAL).
    Invalid,
    /// Caller: not a socket, or a closed one (ENOTSOCK).
    NotSocket,
    /// Caller: not a valid context or message (EFAULT).
    Fault,
    /// Caller: re-entrant call on the same socket by the same thread (EDEADLK).
    Reentered,
    /// Caller: this socket type does not support the call (ENOTSUP).
    NotSupported,
    /// Caller: the pattern does not allow the call now (EFSM).
    State,
    /// Caller: unknown transport (EPROTONOSUPPORT).
    Transport,
    /// Caller: the transport does not support this socket type (ENOCOMPATPROTO).
    TransportForType,
    /// Caller: no such endpoint (ENOENT).
    NoEndpoint,
    /// Nothing to receive, or no room to send, at this moment (EAGAIN).
    WouldBlock,
    /// The call has to wait: its caller sleeps for it and calls again (`pending_sleep`). Only from calls that request
    /// it.
    Deferred,
    /// Peer: no peer has this name, routing id or number (EHOSTUNREACH).
    Unreachable,
    /// A signal was handled (EINTR).
    Interrupted,
    /// The context was terminated (ETERM).
    Terminated,
    /// Caller: ZMQ_AFFINITY excludes all I/O threads (EMTHREAD).
    NoThread,
    /// The context's limit of sockets is reached (EMFILE).
    TooManySockets,
    /// Out of memory (ENOMEM).
    NoMemory,
    /// A system error, as its errno.
    System(i32),
}

impl Error {
    /// The error's number in libzmq's API.
    pub fn errno(self) -> i32 {
        let errno = match self {
            Error::Invalid => Errno::INVAL,
            Error::NotSocket => Errno::NOTSOCK,
            Error::Fault => Errno::FAULT,
            Error::Reentered => Errno::DEADLK,
            Error::NotSupported => Errno::NOTSUP,
            Error::Transport => Errno::PROTONOSUPPORT,
            Error::NoEndpoint => Errno::NOENT,
            Error::WouldBlock | Error::Deferred => Errno::AGAIN,
            Error::Unreachable => Errno::HOSTUNREACH,
            Error::Interrupted => Errno::INTR,
            Error::TooManySockets => Errno::MFILE,
            Error::NoMemory => Errno::NOMEM,
            Error::State => return EFSM,
            Error::TransportForType => return ENOCOMPATPROTO,
            Error::Terminated => return ETERM,
            Error::NoThread => return EMTHREAD,
            Error::System(number) => return number,
        };
        errno.raw_os_error()
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Error {
        match errno {
            Errno::INTR => Error::Interrupted,
            Errno::NOMEM => Error::NoMemory,
            other => Error::System(other.raw_os_error()),
        }
    }
}

impl From<NoMemory> for Error {
    fn from(_: NoMemory) -> Error {
        Error::NoMemory
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Error::Invalid => "invalid argument",
            Error::NotSocket => "not a socket, or it was closed",
            Error::Fault => "not a valid context or message",
            Error::Reentered => "called from within another call on the same socket",
            Error::NotSupported => "not supported by this socket",
            Error::State => "not allowed in the socket's current state",
            Error::Transport => "unknown transport",
            Error::TransportForType => "this transport does not support this socket type",
            Error::NoEndpoint => "no such endpoint",
            Error::WouldBlock | Error::Deferred => "the call would block",
            Error::Unreachable => "no route to this peer",
            Error::Interrupted => "interrupted by a signal",
            Error::Terminated => "the context was terminated",
            Error::NoThread => "no I/O thread is allowed to serve this socket",
            Error::TooManySockets => "too many sockets",
            Error::NoMemory => "out of memory",
            Error::System(number) => return write!(f, "{}", std::io::Error::from_raw_os_error(*number)),
        };
        f.write_str(text)
    }
}

impl std::error::Error for Error {}
