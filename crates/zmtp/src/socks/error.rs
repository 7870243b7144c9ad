//! Why a proxy gives no connection.

use std::fmt;

/// Why there is no connection through the proxy. Every one of them is final.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// What answers speaks another protocol, or another version; this is the first byte.
    NotSocks5(u8),
    /// The proxy takes none of the methods that we offered: it wants credentials, or others.
    NoAcceptableMethod,
    /// The proxy chose a method that we did not offer.
    UnofferedMethod(u8),
    /// The proxy's answer to the credentials has another version than 1.
    AuthenticationVersion(u8),
    /// The proxy does not take the credentials; this is its status.
    AuthenticationFailed(u8),
    /// The proxy cannot or may not make the connection.
    Refused(Reply),
    /// The proxy's answer has a kind of address that does not exist.
    AddressType(u8),
    /// The caller's host name is empty, too long, or has a zero byte.
    HostName,
    /// The caller's user name is empty or too long.
    UserName,
    /// The caller's password is too long.
    Password,
}

/// What a proxy says of a connection that it does not make (RFC 1928, section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// 1
    GeneralFailure,
    /// 2
    NotAllowed,
    /// 3
    NetworkUnreachable,
    /// 4
    HostUnreachable,
    /// 5
    ConnectionRefused,
    /// 6
    TtlExpired,
    /// 7
    CommandNotSupported,
    /// 8
    AddressTypeNotSupported,
    /// 9 to 255, which have no meaning.
    Unassigned(u8),
}

impl Reply {
    /// None for 0, which is success.
    pub(super) fn from_code(code: u8) -> Option<Reply> {
        Some(match code {
            0 => return None,
            1 => Reply::GeneralFailure,
            2 => Reply::NotAllowed,
            3 => Reply::NetworkUnreachable,
            4 => Reply::HostUnreachable,
            5 => Reply::ConnectionRefused,
            6 => Reply::TtlExpired,
            7 => Reply::CommandNotSupported,
            8 => Reply::AddressTypeNotSupported,
            other => Reply::Unassigned(other),
        })
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotSocks5(byte) => {
                write!(f, "the proxy does not speak SOCKS5: its answer begins with {byte:#04x}")
            }
            Error::NoAcceptableMethod => f.write_str("the proxy takes none of our methods of authentication"),
            Error::UnofferedMethod(method) => {
                write!(f, "the proxy chose the method of authentication {method}, which we did not offer")
            }
            Error::AuthenticationVersion(version) => {
                write!(f, "the proxy answered the credentials in version {version} instead of 1")
            }
            Error::AuthenticationFailed(status) => {
                write!(f, "the proxy does not take the user name and password (status {status})")
            }
            Error::Refused(reply) => write!(f, "the proxy made no connection: {reply}"),
            Error::AddressType(kind) => {
                write!(f, "the proxy's answer has an address of the unknown type {kind}")
            }
            Error::HostName => {
                f.write_str("a host name that is empty, longer than 255 bytes or has a zero byte")
            }
            Error::UserName => f.write_str("a user name that is empty or longer than 255 bytes"),
            Error::Password => f.write_str("a password longer than 255 bytes"),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reply::GeneralFailure => "general failure",
            Reply::NotAllowed => "its rules do not allow it",
            Reply::NetworkUnreachable => "the network cannot be reached",
            Reply::HostUnreachable => "the host cannot be reached",
            Reply::ConnectionRefused => "the host refused it",
            Reply::TtlExpired => "the time to live expired",
            Reply::CommandNotSupported => "it does not know the command",
            Reply::AddressTypeNotSupported => "it does not know this type of address",
            Reply::Unassigned(code) => return write!(f, "for the unknown reason {code}"),
        })
    }
}
