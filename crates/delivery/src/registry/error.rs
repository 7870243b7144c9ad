//! The errors of a registry, by their causes.

use std::fmt;
use std::io;
use std::mem::discriminant;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryError {
    /// The caller: the name is empty, has more than 255 bytes, or a NUL.
    Name,
    /// The caller: the endpoint is empty, has more than 1024 bytes, or a NUL.
    Endpoint,
    /// The caller: more than 65,534 topics, or one with more than 255 bytes, a NUL, or U+0001 at its begin.
    Topics,
    /// The caller: the lease is less than 1 ms, or more than 30 days.
    Lease,
    /// The caller: not the address of a registry. Only the kind of address is shown: the rest may hold a secret.
    Url(String),
    /// The caller: the address of a registry without which the crate was built: the feature that it needs.
    Feature(&'static str),
    /// Another client has the name, with a live lease.
    NameTaken,
    /// The lease had expired and another client has the name, or no client has it, and it must be claimed again.
    Lost,
    /// Other clients kept the registry locked for five seconds.
    Busy,
    /// The place: no answer, or not in time, or not now; the text says from where, and why. It may be reachable again
    /// at any time.
    Unreachable(String),
    /// The place: its content is something else, or was written by another version. Nothing was changed.
    Foreign(String),
    /// The place: its content is damaged.
    Damaged(String),
    /// An error of the operating system, or of the database because of it.
    Io { kind: io::ErrorKind, text: String },
}

impl RegistryError {
    /// An error of the system, with the operation that failed.
    pub(super) fn io(error: &io::Error, tried: impl fmt::Display) -> RegistryError {
        RegistryError::Io { kind: error.kind(), text: format!("{tried}: {error}") }
    }

    /// Returns true if both have the same cause, whatever their texts: an unreachable place fails in several ways.
    pub fn has_cause_of(&self, other: &RegistryError) -> bool {
        match (self, other) {
            (RegistryError::Io { kind, .. }, RegistryError::Io { kind: other, .. }) => kind == other,
            _ => discriminant(self) == discriminant(other),
        }
    }

    /// Returns true if the place may be intact, and the same call may succeed later.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, RegistryError::Busy | RegistryError::Unreachable(_))
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistryError::Name => f.write_str("invalid name: it must have 1 to 255 bytes, without NUL"),
            RegistryError::Endpoint => {
                f.write_str("invalid endpoint: it must have 1 to 1024 bytes, without NUL")
            }
            RegistryError::Topics => f.write_str(
                "invalid topics: at most 65534 are allowed, each of at most 255 bytes, without NUL or a leading U+0001",
            ),
            RegistryError::Lease => f.write_str("invalid lease: it must be 1 ms to 30 days"),
            RegistryError::Url(kind) => {
                write!(
                    f,
                    "invalid registry address: use dir://PATH, sqlite://PATH, redis://HOST, rediss://HOST or a path \
                     without a scheme, not {kind}"
                )
            }
            RegistryError::Feature(feature) => {
                write!(f, "this registry needs the feature `{feature}`, without which the crate was built")
            }
            RegistryError::NameTaken => f.write_str("another client uses this name"),
            RegistryError::Lost => f.write_str("this client no longer holds the name"),
            RegistryError::Busy => f.write_str("the registry is locked by other clients"),
            RegistryError::Unreachable(text) => write!(f, "the registry is unreachable: {text}"),
            RegistryError::Foreign(text) => write!(f, "not a compatible registry: {text}"),
            RegistryError::Damaged(text) => write!(f, "the registry is damaged: {text}"),
            RegistryError::Io { text, .. } => f.write_str(text),
        }
    }
}

impl std::error::Error for RegistryError {}
