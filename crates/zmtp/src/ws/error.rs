//! What can go wrong over WebSocket, by whose fault it is.

use std::fmt;

/// Why a connection over WebSocket cannot go on. Every one of them is final.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The client's request cannot be answered with an upgrade. The output holds the answer that says so.
    BadRequest {
        /// The status of that answer: 400, 405, 414, 426 or 431.
        status: u16,
        /// What is wrong with the request.
        why: &'static str,
    },
    /// The server answered, but not with 101.
    Refused {
        /// Its status.
        status: u16,
        /// Its reason phrase, at most 64 bytes of it.
        reason: Vec<u8>,
    },
    /// The server's answer is none to our request, or none at all.
    BadResponse {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The peer broke a rule of the framing. The decoder's replies end with the close frame that says so.
    Violation(Violation),
    /// There is no memory for what the peer sends.
    NoMemory,
    /// Host or path have bytes that no request can carry.
    BadTarget,
}

/// A rule of the framing that a peer broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Reserved bits are set, although no extension was agreed on.
    ReservedBits,
    /// An opcode without a meaning.
    ReservedOpcode(u8),
    /// A client's frame without a mask.
    Unmasked,
    /// A server's frame with a mask.
    Masked,
    /// A length of 2^63 or more.
    Length,
    /// A ping, pong or close of more than 125 bytes.
    LongControl,
    /// A ping, pong or close in fragments.
    FragmentedControl,
    /// A continuation of nothing.
    StrayContinuation,
    /// A new message before the end of one in fragments.
    Interrupted,
    /// A text message.
    Text,
    /// A message without the flag byte that each of ZWS begins with.
    MissingFlags,
    /// A message over the limit.
    TooLarge {
        /// Its bytes, as far as they are known.
        len: u64,
        /// The limit that it breaks.
        limit: u64,
    },
    /// A close frame with one byte, or with a code that none may carry.
    CloseCode,
    /// A close frame whose reason is not UTF-8.
    CloseReason,
}

impl Violation {
    /// The code of the close frame that tells the peer (RFC 6455, section 7.4.1).
    pub fn close_code(self) -> u16 {
        match self {
            Violation::Text => 1003,
            Violation::CloseReason => 1007,
            Violation::TooLarge { .. } => 1009,
            _ => 1002,
        }
    }
}

impl Error {
    /// libzmq's ZMQ_PROTOCOL_ERROR_WS_UNSPECIFIED, which a monitor's event carries for all of these.
    pub fn protocol_code(&self) -> u32 {
        0x3000_0000
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Error::Violation(violation)
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::BadRequest { status, why } => {
                write!(f, "the client's request got the answer {status}: {why}")
            }
            Error::Refused { status, reason } => {
                write!(f, "the server refused the upgrade: {status} {}", reason.escape_ascii())
            }
            Error::BadResponse { why } => write!(f, "the server's answer to the upgrade is wrong: {why}"),
            Error::Violation(violation) => violation.fmt(f),
            Error::NoMemory => f.write_str("no memory for the peer's message"),
            Error::BadTarget => f.write_str("a host or path with characters that no request can carry"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Violation::*;
        f.write_str(match self {
            ReservedOpcode(opcode) => {
                return write!(f, "the peer sent a frame with the reserved opcode {opcode}");
            }
            TooLarge { len, limit } => {
                return write!(f, "the peer sent a message of {len} bytes, {limit} is the limit");
            }
            ReservedBits => "the peer sent a frame with reserved bits",
            Unmasked => "the client sent a frame without a mask",
            Masked => "the server sent a frame with a mask",
            Length => "the peer sent a frame of 2^63 bytes or more",
            LongControl => "the peer sent a control frame of more than 125 bytes",
            FragmentedControl => "the peer sent a control frame in fragments",
            StrayContinuation => "the peer continued a message that it had not begun",
            Interrupted => "the peer began a message before the end of another",
            Text => "the peer sent a text message",
            MissingFlags => "the peer sent a message without a flag byte",
            CloseCode => "the peer closed with an invalid code",
            CloseReason => "the peer closed with a reason that is not UTF-8",
        })
    }
}
