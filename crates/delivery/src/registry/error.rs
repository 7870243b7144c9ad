//! What can go wrong with a registry, by whose doing.

use std::fmt;
use std::io;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryError {
    /// The caller: a name that is empty, has more than 255 bytes, or a NUL.
    Name,
    /// The caller: an endpoint that is empty, has more than 1024 bytes, or a NUL.
    Endpoint,
    /// The caller: more than 65,536 topics, or one with more than 255 bytes or a NUL.
    Topics,
    /// The caller: a lease of less than 1 ms, or of more than 30 days.
    Lease,
    /// The caller: an address of no registry. Of it only the kind is told here: the rest may hold a secret.
    Url(String),
    /// Another client: it has the name, and lives.
    NameTaken,
    /// Another client: it has the name, whose lease was over; or nobody has it, and it is to be claimed anew.
    Lost,
    /// Other clients: they kept the registry locked for five seconds.
    Busy,
    /// The place: nobody answers there, or not in time, or not now; who, and why. It may be there again at any time.
    Unreachable(String),
    /// The place: it holds something else, or what another version wrote. Nothing was changed.
    Foreign(String),
    /// The place: what it holds is spoiled.
    Damaged(String),
    /// The operating system, or the database on its behalf, refuses.
    Io { kind: io::ErrorKind, text: String },
}

impl RegistryError {
    /// An error of the system, with what was tried.
    pub(super) fn io(error: &io::Error, tried: impl fmt::Display) -> RegistryError {
        RegistryError::Io { kind: error.kind(), text: format!("{tried}: {error}") }
    }

    /// Whether the place may be well, and the same call succeed a while later.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, RegistryError::Busy | RegistryError::Unreachable(_))
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistryError::Name => f.write_str("a name of 1 to 255 bytes without NUL is wanted"),
            RegistryError::Endpoint => f.write_str("an endpoint of 1 to 1024 bytes without NUL is wanted"),
            RegistryError::Topics => {
                f.write_str("at most 65536 topics are taken, each of at most 255 bytes without NUL")
            }
            RegistryError::Lease => f.write_str("a lease of 1 ms to 30 days is wanted"),
            RegistryError::Url(kind) => {
                write!(
                    f,
                    "a registry is dir://PATH, sqlite://PATH, redis://HOST, rediss://HOST or a path without a scheme, \
                     not {kind}"
                )
            }
            RegistryError::NameTaken => f.write_str("another client has this name"),
            RegistryError::Lost => f.write_str("the name is not this client's any more"),
            RegistryError::Busy => f.write_str("others keep the registry locked"),
            RegistryError::Unreachable(text) => write!(f, "the registry is not reached: {text}"),
            RegistryError::Foreign(text) => write!(f, "this is no registry of ours: {text}"),
            RegistryError::Damaged(text) => write!(f, "the registry is spoiled: {text}"),
            RegistryError::Io { text, .. } => f.write_str(text),
        }
    }
}

impl std::error::Error for RegistryError {}
