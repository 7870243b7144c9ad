//! Errors of a connection through a proxy.

use std::fmt;

/// Why there is no connection through the proxy. Every error is final.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The proxy's first byte is not that of SOCKS5: another protocol or another version.
    NotSocks5(u8),
    /// The proxy accepts none of the methods that we offered.
    NoAcceptableMethod,
    /// The proxy chose a method that we did not offer.
    UnofferedMethod(u8),
    /// The proxy answered the credentials in a version other than 1.
    AuthenticationVersion(u8),
    /// The proxy rejected the credentials, with this status.
    AuthenticationFailed(u8),
    /// The proxy cannot make the connection, or its rules forbid it.
    Refused(Reply),
    /// The proxy's reply has an unknown address type.
    AddressType(u8),
    /// The caller's host name is empty, too long, or has a zero byte.
    HostName,
    /// The caller's user name is empty or too long.
    UserName,
    /// The caller's password is too long.
    Password,
}

/// The proxy's reply code for a failed request (RFC 1928, section 6).
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
    /// 9 to 255, which are unassigned.
    Unassigned(u8),
}

impl Reply {
    /// `None` for 0, which is success.
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
            Error::NoAcceptableMethod => f.write_str("the proxy accepts none of our authentication methods"),
            Error::UnofferedMethod(method) => {
                write!(f, "the proxy chose authentication method {method}, which we did not offer")
            }
            Error::AuthenticationVersion(version) => {
                write!(f, "the proxy answered the credentials in version {version} instead of 1")
            }
            Error::AuthenticationFailed(status) => {
                write!(f, "the proxy rejected the user name and password (status {status})")
            }
            Error::Refused(reply) => write!(f, "the proxy did not connect: {reply}"),
            Error::AddressType(kind) => {
                write!(f, "the proxy's answer has an address of the unknown type {kind}")
            }
            Error::HostName => {
                f.write_str("the host name is empty, longer than 255 bytes or has a zero byte")
            }
            Error::UserName => f.write_str("the user name is empty or longer than 255 bytes"),
            Error::Password => f.write_str("the password is longer than 255 bytes"),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reply::GeneralFailure => "general failure",
            Reply::NotAllowed => "its rules do not allow it",
            Reply::NetworkUnreachable => "network unreachable",
            Reply::HostUnreachable => "host unreachable",
            Reply::ConnectionRefused => "the host refused the connection",
            Reply::TtlExpired => "the time to live expired",
            Reply::CommandNotSupported => "command not supported",
            Reply::AddressTypeNotSupported => "address type not supported",
            Reply::Unassigned(code) => return write!(f, "unknown reply code {code}"),
        })
    }
}
