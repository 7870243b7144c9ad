//! What can go wrong, by whose fault it is, and libzmq's number for it.

use crate::mechanism::{self, Refusal};
use crate::{SocketType, Version, command};
use std::fmt;

/// Why a connection cannot go on. Every one of them is final: the connection should be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The peer sent what no peer may send.
    PeerMisbehaved(Misbehaviour),
    /// The peer follows the rules, but the two sides have nothing to say to each other.
    PeerIncompatible(Incompatibility),
    /// The peer sent an ERROR command.
    PeerRefused {
        /// Text for people, or a status code of ZAP (RFC 27): 300, 400 or 500.
        reason: Vec<u8>,
    },
    /// We refused the peer: the answer to its authorization.
    PeerUnauthorized {
        /// The answer.
        refusal: Refusal,
        /// The security mechanism's name.
        mechanism: &'static str,
    },
    /// The arguments of this side are wrong.
    CallerMisuse(Misuse),
    /// There is no memory.
    NoMemory,
}

/// A peer's fault.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misbehaviour {
    /// A frame of ZMTP 1.0 whose length leaves no room for its flags.
    ZeroLengthFrame,
    /// A command frame without a body.
    EmptyCommand,
    /// A command whose name has no letters.
    EmptyCommandName,
    /// A command whose name is longer than its body.
    TruncatedCommandName,
    /// A PING without a time-to-live.
    MalformedPing,
    /// An ERROR whose reason is not as long as it says.
    MalformedError,
    /// A HELLO that is not formed as its mechanism wants it, or of another version of it.
    MalformedHello,
    /// A WELCOME with a body, which PLAIN's does not have.
    MalformedWelcome,
    /// An INITIATE that is too short.
    MalformedInitiate,
    /// A READY that is too short for the box that it should be.
    MalformedReady,
    /// A MESSAGE that is too short.
    MalformedMessage,
    /// A box that does not open with the keys that we have: another key, another connection, or a forgery.
    Unreadable {
        /// The command that it came in.
        command: &'static str,
    },
    /// A vouch for another connection or another server.
    WrongVouch,
    /// A MESSAGE whose number is not higher than that of the last one: a repetition, or out of order.
    OldMessage,
    /// A command that has no place here.
    UnexpectedCommand {
        /// Its name.
        name: Vec<u8>,
    },
    /// A message before the end of the handshake.
    UnexpectedMessage,
    /// A command that claims to have further frames.
    CommandWithMore,
    /// An identity frame of ZMTP 2.0 that is a command or claims to have further frames.
    IdentityFrameFlags,
    /// The handshake would take more bytes than we accept.
    HandshakeTooLarge {
        /// How many we accept.
        limit_bytes: usize,
    },
    /// More properties than we accept.
    TooManyProperties {
        /// How many we accept.
        limit: usize,
    },
    /// A property without a name.
    EmptyPropertyName,
    /// A property whose name has characters that names do not have.
    PropertyName {
        /// The name.
        name: Vec<u8>,
    },
    /// A property that is longer than the metadata it stands in.
    TruncatedProperty,
    /// A property whose value says that it has 2^31 bytes or more.
    PropertyTooLong {
        /// How many it says.
        len: usize,
    },
    /// A property that may stand there once stands there twice.
    DuplicateProperty {
        /// Its name.
        name: &'static str,
    },
    /// A routing id of more than 255 bytes.
    RoutingIdTooLong {
        /// How many bytes it has.
        len: u64,
    },
}

/// Nobody's fault, but no connection either.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incompatibility {
    /// The peer is older than we accept, or too old for our security mechanism.
    Version {
        /// What the peer speaks.
        theirs: Version,
        /// The oldest version we accept.
        oldest: Version,
    },
    /// The two sides want different security mechanisms.
    Mechanism {
        /// Our mechanism's name.
        ours: &'static str,
        /// The field of the peer's greeting, without the zeros at its end.
        theirs: Vec<u8>,
    },
    /// Both sides are the mechanism's servers, and would wait for each other.
    TwoServers {
        /// The mechanism's name.
        mechanism: &'static str,
    },
    /// The two kinds of socket do not belong together.
    SocketType {
        /// Our kind.
        ours: SocketType,
        /// The peer's kind.
        theirs: SocketType,
        /// The version that the connection speaks.
        version: Version,
    },
    /// The peer's kind of socket is one that we do not know.
    UnknownSocketType {
        /// The name it gave, or its first bytes; in ZMTP 2.0 a byte with its number.
        theirs: Vec<u8>,
        /// The version that the connection speaks.
        version: Version,
    },
}

/// The caller's fault.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// Our routing id has more than 255 bytes.
    RoutingIdTooLong {
        /// How many it has.
        len: usize,
    },
    /// A property's name is empty, too long, has characters that names do not have, or is one that we send
    /// ourselves.
    PropertyName,
    /// A property's value has 2^31 bytes or more.
    PropertyTooLong {
        /// How many it has.
        len: usize,
    },
    /// A name or password for PLAIN has more than 255 bytes.
    CredentialTooLong {
        /// How many it has.
        len: usize,
    },
    /// The server's public key for CURVE is none.
    WeakServerKey,
    /// A decision that nobody has asked for.
    NothingToAuthorize,
    /// A connection of CURVE has sent 2^64 frames.
    NoncesExhausted,
}

/// libzmq's ZMQ_PROTOCOL_ERROR_* numbers, which a monitor's HANDSHAKE_FAILED_PROTOCOL event carries.
mod code {
    pub const UNSPECIFIED: u32 = 0x1000_0000;
    pub const UNEXPECTED_COMMAND: u32 = 0x1000_0001;
    pub const INVALID_SEQUENCE: u32 = 0x1000_0002;
    pub const KEY_EXCHANGE: u32 = 0x1000_0003;
    pub const MALFORMED_COMMAND: u32 = 0x1000_0011;
    pub const MALFORMED_MESSAGE: u32 = 0x1000_0012;
    pub const MALFORMED_HELLO: u32 = 0x1000_0013;
    pub const MALFORMED_INITIATE: u32 = 0x1000_0014;
    pub const MALFORMED_ERROR: u32 = 0x1000_0015;
    pub const MALFORMED_READY: u32 = 0x1000_0016;
    pub const MALFORMED_WELCOME: u32 = 0x1000_0017;
    pub const INVALID_METADATA: u32 = 0x1000_0018;
    pub const CRYPTOGRAPHIC: u32 = 0x1100_0001;
    pub const MECHANISM_MISMATCH: u32 = 0x1100_0002;
}

impl Error {
    /// libzmq's ZMQ_PROTOCOL_ERROR_* number that fits best.
    pub fn protocol_code(&self) -> u32 {
        match self {
            Error::PeerMisbehaved(misbehaviour) => misbehaviour.protocol_code(),
            Error::PeerIncompatible(Incompatibility::Mechanism { .. }) => code::MECHANISM_MISMATCH,
            Error::PeerIncompatible(Incompatibility::Version { .. } | Incompatibility::TwoServers { .. }) => {
                code::UNSPECIFIED
            }
            Error::PeerIncompatible(_) => code::INVALID_METADATA,
            Error::PeerRefused { .. }
            | Error::PeerUnauthorized { .. }
            | Error::CallerMisuse(_)
            | Error::NoMemory => code::UNSPECIFIED,
        }
    }

    /// The ERROR frame to send, after all other output, before closing the connection.
    ///
    /// RFC 37 has it for socket types that do not fit ("The Socket-Type Property"); peers of ZMTP 3.x alone
    /// know it. libzmq closes without a word. A peer that we refused is told ZAP's status code, as libzmq does,
    /// but not that of a temporary failure: it is to try again.
    pub fn reply(&self) -> Option<Vec<u8>> {
        let reason = match self {
            Error::PeerUnauthorized { refusal: Refusal::Temporary, .. } => return None,
            Error::PeerUnauthorized { refusal, mechanism } => {
                return Some(mechanism::refusal(mechanism, *refusal));
            }
            Error::PeerIncompatible(Incompatibility::Mechanism { .. }) => "mechanism mismatch",
            Error::PeerIncompatible(
                Incompatibility::SocketType { version, .. }
                | Incompatibility::UnknownSocketType { version, .. },
            ) if version.has_commands() => "invalid socket type",
            _ => return None,
        };
        let mut out = Vec::new();
        command::encode_error(reason.as_bytes(), &mut out);
        Some(out)
    }

    /// The status code of ZAP (RFC 27) with which the peer refused us, or we the peer, if so it was: 300, 400 or
    /// 500.
    pub fn zap_status(&self) -> Option<u16> {
        match self {
            Error::PeerRefused { reason } => match reason.as_slice() {
                b"300" => Some(300),
                b"400" => Some(400),
                b"500" => Some(500),
                _ => None,
            },
            Error::PeerUnauthorized { refusal, .. } => Some(*refusal as u16),
            _ => None,
        }
    }
}

impl Misbehaviour {
    fn protocol_code(&self) -> u32 {
        use Misbehaviour::*;
        match self {
            ZeroLengthFrame | IdentityFrameFlags | HandshakeTooLarge { .. } => code::UNSPECIFIED,
            UnexpectedCommand { .. } | UnexpectedMessage => code::UNEXPECTED_COMMAND,
            EmptyCommand | EmptyCommandName | TruncatedCommandName | MalformedPing | CommandWithMore => {
                code::MALFORMED_COMMAND
            }
            MalformedError => code::MALFORMED_ERROR,
            MalformedHello => code::MALFORMED_HELLO,
            MalformedWelcome => code::MALFORMED_WELCOME,
            MalformedInitiate => code::MALFORMED_INITIATE,
            MalformedReady => code::MALFORMED_READY,
            MalformedMessage => code::MALFORMED_MESSAGE,
            Unreadable { .. } => code::CRYPTOGRAPHIC,
            WrongVouch => code::KEY_EXCHANGE,
            OldMessage => code::INVALID_SEQUENCE,
            TooManyProperties { .. }
            | EmptyPropertyName
            | PropertyName { .. }
            | TruncatedProperty
            | PropertyTooLong { .. }
            | DuplicateProperty { .. }
            | RoutingIdTooLong { .. } => code::INVALID_METADATA,
        }
    }
}

impl From<Misbehaviour> for Error {
    fn from(misbehaviour: Misbehaviour) -> Self {
        Error::PeerMisbehaved(misbehaviour)
    }
}

impl From<Incompatibility> for Error {
    fn from(incompatibility: Incompatibility) -> Self {
        Error::PeerIncompatible(incompatibility)
    }
}

impl From<Misuse> for Error {
    fn from(misuse: Misuse) -> Self {
        Error::CallerMisuse(misuse)
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::PeerMisbehaved(misbehaviour) => misbehaviour.fmt(f),
            Error::PeerIncompatible(incompatibility) => incompatibility.fmt(f),
            Error::PeerRefused { reason } => write!(f, "the peer refused: \"{}\"", reason.escape_ascii()),
            Error::PeerUnauthorized { refusal, .. } => {
                write!(f, "the peer was refused with status {}", *refusal as u16)
            }
            Error::CallerMisuse(misuse) => misuse.fmt(f),
            Error::NoMemory => f.write_str("there is no memory"),
        }
    }
}

impl fmt::Display for Misbehaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Misbehaviour::*;
        match self {
            ZeroLengthFrame => f.write_str("the peer sent a ZMTP 1.0 frame of length 0"),
            EmptyCommand => f.write_str("the peer sent an empty command"),
            EmptyCommandName => f.write_str("the peer sent a command without a name"),
            TruncatedCommandName => f.write_str("the peer sent a command whose name exceeds its frame"),
            MalformedPing => f.write_str("the peer sent a PING without a time-to-live"),
            MalformedError => f.write_str("the peer sent an ERROR whose reason does not fill its frame"),
            MalformedHello => f.write_str("the peer sent a malformed HELLO"),
            MalformedWelcome => f.write_str("the peer sent a malformed WELCOME"),
            MalformedInitiate => f.write_str("the peer sent a malformed INITIATE"),
            MalformedReady => f.write_str("the peer sent a malformed READY"),
            MalformedMessage => f.write_str("the peer sent a malformed MESSAGE"),
            Unreadable { command } => write!(f, "the peer's {command} does not open with our keys"),
            WrongVouch => f.write_str("the peer's vouch is for another connection or another server"),
            OldMessage => f.write_str("the peer sent a MESSAGE again, or out of order"),
            UnexpectedCommand { name } => {
                write!(f, "the peer sent the command \"{}\" where it has no place", name.escape_ascii())
            }
            UnexpectedMessage => f.write_str("the peer sent a message before the end of the handshake"),
            CommandWithMore => f.write_str("the peer sent a command that claims to have further frames"),
            IdentityFrameFlags => f.write_str("the peer's identity frame has flags that it must not have"),
            HandshakeTooLarge { limit_bytes } => {
                write!(f, "the peer's handshake exceeds {limit_bytes} bytes")
            }
            TooManyProperties { limit } => write!(f, "the peer sent more than {limit} properties"),
            EmptyPropertyName => f.write_str("the peer sent a property without a name"),
            PropertyName { name } => {
                write!(f, "the peer sent a property with the invalid name \"{}\"", name.escape_ascii())
            }
            TruncatedProperty => f.write_str("the peer sent a property that exceeds its command"),
            PropertyTooLong { len } => write!(f, "the peer announced a property of {len} bytes"),
            DuplicateProperty { name } => write!(f, "the peer sent the property {name} twice"),
            RoutingIdTooLong { len } => write!(f, "the peer's routing id has {len} bytes, more than 255"),
        }
    }
}

impl fmt::Display for Incompatibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Incompatibility::*;
        match self {
            Version { theirs, oldest } => {
                write!(f, "the peer speaks ZMTP {theirs}, but this socket needs {oldest} or later")
            }
            Mechanism { ours, theirs } => write!(
                f,
                "the peer's security mechanism is \"{}\", but this socket's is {ours}",
                theirs.escape_ascii()
            ),
            TwoServers { mechanism } => write!(f, "both sides are servers of {mechanism}"),
            SocketType { ours, theirs, .. } => {
                write!(f, "the peer is a {theirs} socket, which cannot talk to a {ours} socket")
            }
            UnknownSocketType { theirs, .. } => {
                write!(f, "the peer's socket type is \"{}\", which is unknown", theirs.escape_ascii())
            }
        }
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misuse::RoutingIdTooLong { len } => write!(f, "a routing id of {len} bytes, more than 255"),
            Misuse::PropertyName => {
                f.write_str("a property name that is empty, too long, reserved or has invalid characters")
            }
            Misuse::PropertyTooLong { len } => write!(f, "a property value of {len} bytes, 2^31 or more"),
            Misuse::CredentialTooLong { len } => {
                write!(f, "a name or password of {len} bytes, more than 255")
            }
            Misuse::WeakServerKey => f.write_str("the server's public key is none"),
            Misuse::NothingToAuthorize => f.write_str("no peer waits for a decision"),
            Misuse::NoncesExhausted => f.write_str("the connection has sent 2^64 frames"),
        }
    }
}
