//! What can go wrong, shaped by whose fault it is, and the error number each has in libzmq's API.

use std::fmt;

use pinnace_ring::NoMemory;
use pinnace_sys::Errno;

/// libzmq's own numbers begin here (zmq.h, ZMQ_HAUSNUMERO).
const HAUSNUMERO: i32 = 156_384_712;
/// The socket's state machine does not allow it now.
pub const EFSM: i32 = HAUSNUMERO + 51;
/// The protocol does not go with the socket type.
pub const ENOCOMPATPROTO: i32 = HAUSNUMERO + 52;
/// The context was terminated.
pub const ETERM: i32 = HAUSNUMERO + 53;
/// No I/O thread is there.
pub const EMTHREAD: i32 = HAUSNUMERO + 54;

/// Why a call did not do what it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The caller's: an argument, an option's value or its length is wrong (EINVAL).
    Invalid,
    /// The caller's: not a socket, or no longer one (ENOTSOCK).
    NotSocket,
    /// The caller's: a context or a message that is none (EFAULT).
    Fault,
    /// The caller's: a call on a socket out of another call on it, by the same thread (EDEADLK).
    Reentered,
    /// The caller's: this socket type does not do that, or not yet (ENOTSUP).
    NotSupported,
    /// The caller's: not now, by the pattern's rules (EFSM).
    State,
    /// The caller's: this transport is not known (EPROTONOSUPPORT).
    Transport,
    /// The caller's: this transport does not go with this socket type (ENOCOMPATPROTO).
    TransportForType,
    /// The caller's: no such endpoint (ENOENT).
    NoEndpoint,
    /// Nothing to receive, or no room to send, now (EAGAIN).
    WouldBlock,
    /// The call has to wait and its caller sleeps for it, then calls again (`nap`). Of calls that ask for it alone.
    Deferred,
    /// The peer's: a ROUTER that must route knows no such peer (EHOSTUNREACH).
    Unreachable,
    /// A signal was handled (EINTR).
    Interrupted,
    /// The context was terminated (ETERM).
    Terminated,
    /// The caller's: ZMQ_AFFINITY allows no I/O thread that there is (EMTHREAD).
    NoThread,
    /// The context has as many sockets as it may (EMFILE).
    TooManySockets,
    /// Memory could not be had (ENOMEM).
    NoMemory,
    /// The system's, by its own number.
    System(i32),
}

impl Error {
    /// The number that libzmq's API gives for it.
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
            Error::Invalid => "an argument is not valid",
            Error::NotSocket => "not a socket, or closed",
            Error::Fault => "not a context or message that can be used",
            Error::Reentered => "called out of another call on the same socket",
            Error::NotSupported => "not supported by this socket",
            Error::State => "the socket's state does not allow this now",
            Error::Transport => "unknown transport",
            Error::TransportForType => "this socket type does not go with this transport",
            Error::NoEndpoint => "no such endpoint",
            Error::WouldBlock | Error::Deferred => "it would have to wait",
            Error::Unreachable => "no route to this peer",
            Error::Interrupted => "interrupted by a signal",
            Error::Terminated => "the context was terminated",
            Error::NoThread => "no I/O thread that may serve this socket",
            Error::TooManySockets => "too many sockets",
            Error::NoMemory => "out of memory",
            Error::System(number) => return write!(f, "{}", std::io::Error::from_raw_os_error(*number)),
        };
        f.write_str(text)
    }
}

impl std::error::Error for Error {}
