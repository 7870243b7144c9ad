//! Errors over WebSocket, and the side at fault.

use std::fmt;

/// Why a connection over WebSocket failed. Every error is final.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The client's request cannot be upgraded. The output holds the HTTP response for the client.
    BadRequest {
        /// The status of that response: 400, 405, 414, 426 or 431.
        status: u16,
        /// What is wrong with the request.
        why: &'static str,
    },
    /// The server answered with a status other than 101.
    Refused {
        /// The server's status.
        status: u16,
        /// The server's reason phrase, truncated to 64 bytes.
        reason: Vec<u8>,
    },
    /// The server's response does not match our request, or is not HTTP.
    BadResponse {
        /// What is wrong with the response.
        why: &'static str,
    },
    /// The peer broke a rule of the framing. The decoder's replies end with the close frame for it.
    Violation(Violation),
    /// Out of memory for the peer's data.
    NoMemory,
    /// Host or path contain bytes that are not allowed in a request.
    BadTarget,
}

/// A rule of the framing that a peer broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Reserved bits are set, although no extension was negotiated.
    ReservedBits,
    /// An undefined opcode.
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
    /// A continuation frame without a message to continue.
    StrayContinuation,
    /// A new message before the end of a fragmented one.
    Interrupted,
    /// A text message.
    Text,
    /// A message without the flag byte of ZWS.
    MissingFlags,
    /// A message over the limit.
    TooLarge {
        /// Its length in bytes, as far as known.
        len: u64,
        /// The exceeded limit.
        limit: u64,
    },
    /// A close frame with a body of one byte, or with an invalid code.
    CloseCode,
    /// A close frame with a reason that is not UTF-8.
    CloseReason,
}

impl Violation {
    /// The code of the close frame for the peer (RFC 6455, section 7.4.1).
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
    /// libzmq's ZMQ_PROTOCOL_ERROR_WS_UNSPECIFIED, the code of all these errors in a monitor's event.
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
                write!(f, "the client's request was answered with {status}: {why}")
            }
            Error::Refused { status, reason } => {
                write!(f, "the server refused the upgrade: {status} {}", reason.escape_ascii())
            }
            Error::BadResponse { why } => write!(f, "the server's answer to the upgrade is invalid: {why}"),
            Error::Violation(violation) => violation.fmt(f),
            Error::NoMemory => f.write_str("out of memory for the peer's message"),
            Error::BadTarget => f.write_str("the host or path has characters that are invalid in a request"),
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
                return write!(f, "the peer sent a message of {len} bytes, more than the limit of {limit}");
            }
            ReservedBits => "the peer sent a frame with reserved bits",
            Unmasked => "the client sent a frame without a mask",
            Masked => "the server sent a frame with a mask",
            Length => "the peer sent a frame of 2^63 bytes or more",
            LongControl => "the peer sent a control frame of more than 125 bytes",
            FragmentedControl => "the peer sent a control frame in fragments",
            StrayContinuation => "the peer sent a continuation without a message before it",
            Interrupted => "the peer began a message before the end of the previous one",
            Text => "the peer sent a text message",
            MissingFlags => "the peer sent a message without a flag byte",
            CloseCode => "the peer closed with an invalid code",
            CloseReason => "the peer closed with a reason that is not UTF-8",
        })
    }
}
