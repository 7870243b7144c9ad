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
    Invalid(Invalid),
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
    /// Caller: the transport needs TLS, and the crate was built without its feature `tls` (EPROTONOSUPPORT).
    NoTls,
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

/// What is wrong with an argument. As wide as an errno, so that the tag of [`Error`] is too: a tag of one byte costs
/// eight more instructions in a send and a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum Invalid {
    UnknownOption,
    OptionOfOtherType,
    OptionReadOnly,
    OptionWriteOnly,
    Length,
    Range,
    ValueType,
    Text,
    Key,
    NoSecretKey,
    Z85,
    Network,
    Metadata,
    Endpoint,
    Address,
    Host,
    Port,
    Interface,
    Certificate,
    PrivateKey,
    ServerName,
    EmptyMessage,
    MultipartMessage,
    DatagramMessage,
    NotManual,
    Group,
    RoutingId,
    Property,
    Flags,
    Events,
    Count,
    SocketType,
    Registered,
    NotRegistered,
    Timer,
    MonitorEvents,
    MonitorType,
    NotMonitored,
}

impl Error {
    /// The error's number in libzmq's API.
    pub fn errno(self) -> i32 {
        let errno = match self {
            Error::Invalid(_) => Errno::INVAL,
            Error::NotSocket => Errno::NOTSOCK,
            Error::Fault => Errno::FAULT,
            Error::Reentered => Errno::DEADLK,
            Error::NotSupported => Errno::NOTSUP,
            Error::Transport | Error::NoTls => Errno::PROTONOSUPPORT,
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
            Error::Invalid(reason) => return write!(f, "invalid argument: {reason}"),
            Error::NotSocket => "not a socket, or it was closed",
            Error::Fault => "a null or invalid pointer, context or message",
            Error::Reentered => "called from within another call on the same socket",
            Error::NotSupported => "not supported by this socket",
            Error::State => "not allowed in the socket's current state",
            Error::Transport => "unknown transport",
            Error::NoTls => "this transport needs TLS, and the crate was built without its feature `tls`",
            Error::TransportForType => "this transport does not support this socket type",
            Error::NoEndpoint => "no such endpoint",
            Error::WouldBlock | Error::Deferred => "the call would block, or its timeout expired",
            Error::Unreachable => "no connected peer has this name, routing id or number",
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

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Invalid::UnknownOption => "no such option",
            Invalid::OptionOfOtherType => "this socket type does not have this option",
            Invalid::OptionReadOnly => "this option cannot be set",
            Invalid::OptionWriteOnly => "this option cannot be read",
            Invalid::Length => "the value has the wrong length, or the buffer is too short",
            Invalid::Range => "the value is out of range",
            Invalid::ValueType => "the option takes a value of another type",
            Invalid::Text => "the text is not valid UTF-8, too long, or has a NUL inside",
            Invalid::Key => "not a CURVE key: 32 bytes, or 40 characters of Z85",
            Invalid::NoSecretKey => "the certificate has no secret key",
            Invalid::Z85 => "not Z85, or a length that is not a multiple of 5 characters (4 bytes)",
            Invalid::Network => "not an IP network, such as 10.0.0.0/8",
            Invalid::Metadata => "not a property \"X-name:value\", or too many properties",
            Invalid::Endpoint => "not an endpoint \"transport://address\"",
            Invalid::Address => "not a valid address of this transport",
            Invalid::Host => "not a valid host name or IP address",
            Invalid::Port => "not a valid port number",
            Invalid::Interface => "not a valid network interface here",
            Invalid::Certificate => "no certificate could be read",
            Invalid::PrivateKey => "no private key could be read, or it does not match the certificate",
            Invalid::ServerName => "not a valid name of a TLS server",
            Invalid::EmptyMessage => "the message has no frames",
            Invalid::MultipartMessage => "this socket type sends messages of one frame",
            Invalid::DatagramMessage => "a message of DGRAM has two frames, address and body",
            Invalid::NotManual => "the socket does not manage subscriptions itself (ZMQ_XPUB_MANUAL)",
            Invalid::Group => "the group is too long, joined already, or not joined",
            Invalid::RoutingId => "0 is not a routing id",
            Invalid::Property => "the message has no such property",
            Invalid::Flags => "unknown flags",
            Invalid::Events => "unknown or missing events",
            Invalid::Count => "the number of items is out of range",
            Invalid::SocketType => "no such socket type",
            Invalid::Registered => "registered already",
            Invalid::NotRegistered => "not registered",
            Invalid::Timer => "no such timer",
            Invalid::MonitorEvents => "unknown version of monitor events, or one without these events",
            Invalid::MonitorType => "a monitor is a PAIR, PUB or PUSH socket",
            Invalid::NotMonitored => "this event is not monitored",
        })
    }
}

impl std::error::Error for Error {}
