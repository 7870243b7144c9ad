//! Errors, the side at fault, and the corresponding libzmq numbers.

use crate::mechanism::{self, Refusal};
use crate::{SocketType, Version, command};
use std::fmt;

/// Why a connection failed. Every error is final: the caller should close the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The peer violated the protocol.
    PeerMisbehaved(Misbehaviour),
    /// The peer follows the protocol, but the two sides cannot talk to each other.
    PeerIncompatible(Incompatibility),
    /// The peer sent an ERROR command.
    PeerRefused {
        /// Free text, or a ZAP status code (RFC 27): 300, 400 or 500.
        reason: Vec<u8>,
    },
    /// We refused the peer, because its authorization was denied.
    PeerUnauthorized {
        /// The answer.
        refusal: Refusal,
        /// The security mechanism's name.
        mechanism: &'static str,
    },
    /// The caller's arguments are wrong.
    CallerMisuse(Misuse),
    /// Out of memory.
    NoMemory,
}

/// A peer's fault.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misbehaviour {
    /// A ZMTP 1.0 frame with a length of 0, which leaves no room for the flags.
    ZeroLengthFrame,
    /// A command frame without a body.
    EmptyCommand,
    /// A command with an empty name.
    EmptyCommandName,
    /// A command whose name is longer than the command's body.
    TruncatedCommandName,
    /// A PING without a time-to-live.
    MalformedPing,
    /// An ERROR with a reason that does not have the stated length.
    MalformedError,
    /// A HELLO that its mechanism cannot parse, or one of another version of the mechanism.
    MalformedHello,
    /// A WELCOME with a body; PLAIN's WELCOME has none.
    MalformedWelcome,
    /// An INITIATE that is too short.
    MalformedInitiate,
    /// A READY that is too short to be a box.
    MalformedReady,
    /// A MESSAGE that is too short.
    MalformedMessage,
    /// A box that does not open with our keys: another key, another connection, or a forgery.
    Unreadable {
        /// The command that contained the box.
        command: &'static str,
    },
    /// A vouch for another connection or another server.
    WrongVouch,
    /// A MESSAGE with a number that is not higher than the last one: repeated or out of order.
    OldMessage,
    /// A command that is not allowed in this state.
    UnexpectedCommand {
        /// Its name.
        name: Vec<u8>,
    },
    /// A message before the end of the handshake.
    UnexpectedMessage,
    /// A command with the MORE flag.
    CommandWithMore,
    /// A ZMTP 2.0 identity frame that is a command or has the MORE flag.
    IdentityFrameFlags,
    /// The handshake takes more bytes than the limit.
    HandshakeTooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// More properties than the limit.
    TooManyProperties {
        /// The limit.
        limit: usize,
    },
    /// A property without a name.
    EmptyPropertyName,
    /// A property with invalid characters in its name.
    PropertyName {
        /// The name.
        name: Vec<u8>,
    },
    /// A property that reaches beyond the end of the metadata.
    TruncatedProperty,
    /// A property with a stated value length of 2^31 bytes or more.
    PropertyTooLong {
        /// The stated length.
        len: usize,
    },
    /// A property that may occur only once occurs twice.
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

/// Neither side is at fault, but they cannot connect.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incompatibility {
    /// The peer's version is older than we accept, or too old for our security mechanism.
    Version {
        /// The peer's version.
        theirs: Version,
        /// The oldest version we accept.
        oldest: Version,
    },
    /// The two sides want different security mechanisms.
    Mechanism {
        /// Our mechanism's name.
        ours: &'static str,
        /// The field of the peer's greeting, without the trailing zeros.
        theirs: Vec<u8>,
    },
    /// Both sides are the mechanism's servers, so each would wait for the other.
    TwoServers {
        /// The mechanism's name.
        mechanism: &'static str,
    },
    /// The two socket types are not compatible.
    SocketType {
        /// Our socket type.
        ours: SocketType,
        /// The peer's socket type.
        theirs: SocketType,
        /// The version that the connection speaks.
        version: Version,
    },
    /// The peer's socket type is unknown.
    UnknownSocketType {
        /// The name it sent, at most its first 32 bytes; in ZMTP 2.0 one byte, its number.
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
    /// A property's name is empty, too long, has invalid characters, or is reserved because we send it ourselves.
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
    /// The server's public key for CURVE is not a usable key.
    WeakServerKey,
    /// A decision without a pending request.
    NothingToAuthorize,
    /// A CURVE connection has sent 2^64 frames.
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
    /// RFC 37 defines it for incompatible socket types ("The Socket-Type Property"); only peers of ZMTP 3.x
    /// understand it. libzmq closes without a reply. A peer that we refused gets ZAP's status code, as from libzmq.
    /// For a temporary failure there is no reply, so that the peer tries again.
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

    /// The ZAP status code (RFC 27) of a refusal by either side: 300, 400 or 500. `None` for other errors.
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
                write!(f, "we refused the peer with ZAP status {}", *refusal as u16)
            }
            Error::CallerMisuse(misuse) => misuse.fmt(f),
            Error::NoMemory => f.write_str("out of memory"),
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
            MalformedError => f.write_str("the peer sent an ERROR with a wrong length of its reason"),
            MalformedHello => f.write_str("the peer sent a malformed HELLO"),
            MalformedWelcome => f.write_str("the peer sent a malformed WELCOME"),
            MalformedInitiate => f.write_str("the peer sent a malformed INITIATE"),
            MalformedReady => f.write_str("the peer sent a malformed READY"),
            MalformedMessage => f.write_str("the peer sent a malformed MESSAGE"),
            Unreadable { command } => write!(f, "the peer's {command} cannot be decrypted with our keys"),
            WrongVouch => f.write_str("the peer's vouch is for another connection or another server"),
            OldMessage => f.write_str("the peer sent a MESSAGE again, or out of order"),
            UnexpectedCommand { name } => {
                write!(f, "the peer sent an unexpected command \"{}\"", name.escape_ascii())
            }
            UnexpectedMessage => f.write_str("the peer sent a message before the end of the handshake"),
            CommandWithMore => f.write_str("the peer sent a command with the MORE flag"),
            IdentityFrameFlags => f.write_str("the peer's identity frame has invalid flags"),
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
            TwoServers { mechanism } => write!(f, "both sides are {mechanism} servers"),
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
            Misuse::RoutingIdTooLong { len } => write!(f, "the routing id has {len} bytes, more than 255"),
            Misuse::PropertyName => {
                f.write_str("a property name is empty, too long, reserved or has invalid characters")
            }
            Misuse::PropertyTooLong { len } => write!(f, "a property value has {len} bytes, 2^31 or more"),
            Misuse::CredentialTooLong { len } => {
                write!(f, "the user name or password has {len} bytes, more than 255")
            }
            Misuse::WeakServerKey => f.write_str("the server's public key is not a usable key"),
            Misuse::NothingToAuthorize => f.write_str("no peer is waiting for a decision"),
            Misuse::NoncesExhausted => f.write_str("the connection has sent 2^64 frames"),
        }
    }
}
