//! What can go wrong, by whose doing.

use std::fmt;
use std::io;

use crate::log::{Damage, Failure, LogError};
use crate::registry::RegistryError;

/// How many places of damage an error's words tell of.
const DAMAGE_SHOWN: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A name or a topic of more than 255 bytes, or one that is sent to of more than 250, or an empty name.
    Name,
    /// A time to live of nothing, or of more than u32::MAX milliseconds, which are 49 days.
    Ttl,
    /// A setting of the client that is to be makes no sense: which, and why.
    Setting(&'static str),
    /// An address that cannot be used, with the engine's word on it.
    Endpoint(pinnace_engine::Error),
    /// The client of this name is one already, in this process or another.
    NameTaken,
    /// The registry cannot be used.
    Registry(RegistryError),
    /// The store's directory belongs to a process that runs.
    InUse,
    /// The operating system refuses.
    Io(io::ErrorKind),
    /// The store's log is damaged: these are the places. From a start: nothing was changed. From
    /// [`Builder::on_error`](crate::Builder::on_error): it was found now, and what lay there is not sent.
    Damaged(Vec<Damage>),
    /// A write to the disk failed; the store takes nothing more until it is opened anew.
    Failed(Failure),
    /// The disk is full, or a limit is reached, and it was so for as long as there was time.
    NoRoom,
    TimedOut,
    TooLarge,
    /// The client was closed.
    Closed,
    /// Another client does not take what this one sends; it is asked again now and then.
    Refused {
        peer: String,
        text: String,
    },
    /// Another client has had messages under the numbers of this one's from a copy of its store, or from this store
    /// before an old copy was put in its place. What waits for it is sent again under new ones, and may be handled
    /// twice.
    Copied {
        peer: String,
    },
    /// Another client cannot be connected to: its address cannot be used, or its key is not known.
    Unreachable {
        peer: String,
        error: pinnace_engine::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Name => f.write_str(
                "a name of 1 to 255 bytes is wanted, and a topic of at most 255, or 250 to send to",
            ),
            Error::Ttl => write!(f, "a message may live for 1 to {} ms, or for ever", u32::MAX),
            Error::Setting(text) => f.write_str(text),
            Error::Endpoint(error) => write!(f, "the endpoint cannot be used: {error}"),
            Error::NameTaken => f.write_str("another client has this name"),
            Error::Registry(error) => write!(f, "the registry: {error}"),
            Error::InUse => f.write_str("another process has the store open"),
            Error::Io(kind) => write!(f, "the system refuses: {kind}"),
            Error::Damaged(places) => {
                f.write_str("the store is damaged")?;
                let shown = places.iter().take(DAMAGE_SHOWN).enumerate();
                shown.into_iter().try_for_each(|(at, place)| match at {
                    0 => write!(f, ": {place}"),
                    _ => write!(f, "; {place}"),
                })?;
                match places.len().saturating_sub(DAMAGE_SHOWN) {
                    0 => Ok(()),
                    more => write!(f, "; and in {more} places more"),
                }
            }
            Error::Failed(failure) => write!(f, "the store failed: {}", failure.text),
            Error::NoRoom => f.write_str("there is no room for more"),
            Error::TimedOut => f.write_str("the time is over"),
            Error::TooLarge => f.write_str("larger than is taken"),
            Error::Closed => f.write_str("the client is closed"),
            Error::Refused { peer, text } => write!(f, "{peer} refuses: {text}"),
            Error::Copied { peer } => write!(
                f,
                "{peer} knows another copy of this store: what waits for it is sent anew, some perhaps twice"
            ),
            Error::Unreachable { peer, error } => write!(f, "{peer} cannot be connected to: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<RegistryError> for Error {
    fn from(error: RegistryError) -> Error {
        match error {
            RegistryError::NameTaken => Error::NameTaken,
            RegistryError::Name | RegistryError::Topics => Error::Name,
            error => Error::Registry(error),
        }
    }
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Error {
        match error {
            LogError::Io(io::ErrorKind::WouldBlock) => Error::InUse,
            LogError::Io(kind) => Error::Io(kind),
            LogError::Failed(failure) => Error::Failed(failure),
            LogError::Damaged(places) => Error::Damaged(places),
            LogError::NoRoom(_) => Error::NoRoom,
            LogError::TooLarge => Error::TooLarge,
            LogError::TimedOut => Error::TimedOut,
        }
    }
}
