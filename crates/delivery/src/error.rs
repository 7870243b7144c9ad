//! The errors of this crate, and their causes.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use pinnace_engine::Invalid;

use crate::client::Shortage;
use crate::log::{Damage, Failure, LogError};
use crate::peer_loop::Silence;
use crate::registry::RegistryError;

/// How a peer without a known public key is trusted.
pub const NO_KEY: &str = "give its certificate by trust_file or --trust";

/// The most damaged places that the error's text lists.
const DAMAGE_SHOWN: usize = 4;
/// The most receivers that it lists.
const RECEIVERS_SHOWN: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A name or topic of more than 255 bytes, a topic to send to of more than 250 bytes, or an empty name.
    Name,
    /// A time to live of zero, or of more than u32::MAX milliseconds (49 days).
    Ttl,
    /// An invalid id, content type, trace context or header of a message, or too much of them: which, and why.
    Property(&'static str),
    /// An invalid setting of the builder: which one, and why.
    Setting(&'static str),
    /// A certificate that cannot be read, or has no secret key where one is needed.
    Certificate {
        file: PathBuf,
        text: String,
    },
    /// An endpoint that cannot be used, with the engine's error.
    Endpoint(pinnace_engine::Error),
    /// Another client uses this name, in this process or another.
    NameTaken,
    /// The statistics cannot be served at this address.
    Metrics {
        address: String,
        kind: io::ErrorKind,
    },
    /// The registry cannot be used.
    Registry(RegistryError),
    /// A running process has the store's directory open.
    InUse,
    /// Every user can change the store's directory, or the one that it is in.
    Public(PathBuf),
    /// An error of the operating system.
    Io(io::ErrorKind),
    /// The store's log is damaged in these places. From a start: nothing was changed. From
    /// [`Builder::on_error`](crate::Builder::on_error): the damage was found while reading, and the records there are
    /// not sent.
    Damaged(Vec<Damage>),
    /// A write to the disk failed; the store accepts nothing until it is reopened.
    Failed(Failure),
    /// The disk is full or a limit is reached, and stayed so until the deadline; of a send, what uses the space.
    NoRoom(Option<Box<Shortage>>),
    TimedOut,
    TooLarge,
    /// Messages that are sent together with an acknowledgement have more bytes in all than this
    /// ([`Client::ack_and_send`](crate::Client::ack_and_send)).
    TooLargeTogether(u64),
    /// A message cannot be sent together with this acknowledgement: why.
    Together(&'static str),
    /// A delivery no longer counts: `ack_within` is over, the message is done already, or its client was closed and
    /// started again.
    Void,
    /// The client was closed.
    Closed,
    /// The peer refuses this client's messages; the client keeps asking it again.
    Refused {
        peer: String,
        text: String,
    },
    /// The peer has received messages under this client's numbers from a copy of its store, or from this store before
    /// an old copy replaced it. Pending messages are sent again under a new identity, and may be handled twice.
    Copied {
        peer: String,
    },
    /// The peer should be there, and does not answer: reported after 2 s, or after 4 s if it is not known why, and
    /// again when the reason is another one. The client goes on trying.
    NoAnswer {
        peer: String,
        endpoint: String,
        reason: Silence,
    },
    /// Messages to one on this topic that were pending when the client was started wait for receivers that may have
    /// handled some of them: until these answer, or for this time after the start (None: no limit). Reported after 2 s,
    /// once.
    HeldBack {
        topic: String,
        receivers: Vec<String>,
        reassign_after: Option<Duration>,
    },
    /// A peer with this address, or of this name, tries to connect to this client and cannot authenticate, or uses the
    /// name of another client. Reported once until it has not tried for 30 s.
    NotAdmitted {
        address: String,
        reason: String,
    },
    /// Messages were dropped that were kept for a receiver that is away (None: for receivers to come), because they
    /// exceeded the limits ([`Builder::retain_for`](crate::Builder::retain_for),
    /// [`Builder::retain_bytes`](crate::Builder::retain_bytes)) or the receiver was forgotten.
    Dropped {
        receiver: Option<String>,
        topic: String,
        messages: u64,
    },
    /// The peer is of an earlier version, and does not have this feature; what the client does instead. Reported once
    /// for each peer.
    PeerLacks {
        peer: String,
        feature: &'static str,
    },
    /// The peer cannot be connected to: its endpoint cannot be used, or its key is not known.
    Unreachable {
        peer: String,
        error: pinnace_engine::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Name => f.write_str(
                "invalid name or topic: a name has 1 to 255 bytes, a topic at most 255, or 250 to send to",
            ),
            Error::Ttl => write!(f, "a time to live must be 1 to {} ms, or absent for no limit", u32::MAX),
            Error::Setting(text) | Error::Property(text) | Error::Together(text) => f.write_str(text),
            Error::Certificate { file, text } => write!(f, "{}: {text}", file.display()),
            Error::Endpoint(error) => write!(f, "the endpoint cannot be used: {error}"),
            Error::Metrics { address, kind } => {
                write!(f, "statistics cannot be served at {address}: {kind}")
            }
            Error::NameTaken => f.write_str("another client uses this name"),
            Error::Registry(error) => write!(f, "registry: {error}"),
            Error::InUse => f.write_str("another process has the store open"),
            Error::Public(path) => write!(
                f,
                "every user can change the store's directory {}, or the one that it is in",
                path.display()
            ),
            Error::Io(kind) => write!(f, "system error: {kind}"),
            Error::Damaged(places) => write_damage(f, places),
            Error::Failed(failure) => write!(f, "the store failed and must be reopened: {}", failure.text),
            Error::NoRoom(None) => f.write_str("the disk is full, or a limit is reached"),
            Error::NoRoom(Some(shortage)) => write!(f, "no room: {shortage}"),
            Error::TimedOut => f.write_str("timed out"),
            Error::TooLarge => f.write_str("larger than max_body, or than a store of this disk_limit can hold"),
            Error::TooLargeTogether(most) => {
                write!(f, "messages that are sent with an acknowledgement have more than {most} bytes in all")
            }
            Error::Void => f.write_str(
                "the delivery no longer counts: its time is over, it is done, or its client was started again",
            ),
            Error::Closed => f.write_str("the client is closed"),
            Error::Refused { peer, text } => write!(f, "delivery to {peer} is refused: {text}"),
            Error::Copied { peer } => write!(
                f,
                "{peer} knows another copy of this store: pending messages are sent again, and may be handled twice"
            ),
            Error::NoAnswer { peer, endpoint, reason } => {
                write!(f, "{peer} does not answer at {endpoint}: {reason}")
            }
            Error::HeldBack { topic, receivers, reassign_after } => {
                write_held_back(f, topic, receivers, *reassign_after)
            }
            Error::NotAdmitted { address, reason } => write!(f, "{address} was not admitted: {reason}"),
            Error::Dropped { receiver, topic, messages } => {
                write!(f, "{messages} messages on {topic} were dropped, which were kept ")?;
                match receiver {
                    Some(receiver) => write!(f, "for {receiver}"),
                    None => f.write_str("for receivers to come"),
                }
            }
            Error::PeerLacks { peer, feature } => {
                write!(f, "{peer} is of an earlier version, without {feature}")
            }
            Error::Unreachable { peer, error: pinnace_engine::Error::Invalid(Invalid::Key) } => {
                write!(f, "{peer} is not trusted here: {NO_KEY}")
            }
            Error::Unreachable { peer, error } => write!(f, "cannot connect to {peer}: {error}"),
        }
    }
}

fn write_damage(f: &mut fmt::Formatter<'_>, places: &[Damage]) -> fmt::Result {
    f.write_str("the store is damaged")?;
    let shown = places.iter().take(DAMAGE_SHOWN).enumerate();
    shown.into_iter().try_for_each(|(at, place)| match at {
        0 => write!(f, ": {place}"),
        _ => write!(f, "; {place}"),
    })?;
    match places.len().saturating_sub(DAMAGE_SHOWN) {
        0 => Ok(()),
        more => write!(f, "; and in {more} more places"),
    }
}

fn write_held_back(
    f: &mut fmt::Formatter<'_>,
    topic: &str,
    receivers: &[String],
    time: Option<Duration>,
) -> fmt::Result {
    write!(f, "messages on {topic} from before the start wait")?;
    if let Some(time) = time {
        write!(f, " up to {} s", time.as_secs_f64().ceil())?;
    }
    write!(f, " for {}", receivers[..receivers.len().min(RECEIVERS_SHOWN)].join(", "))?;
    match receivers.len().saturating_sub(RECEIVERS_SHOWN) {
        0 => {}
        more => write!(f, " and {more} more")?,
    }
    f.write_str(", which may have handled some of them")
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
            LogError::NoRoom(_) => Error::NoRoom(None),
            LogError::TooLarge => Error::TooLarge,
            LogError::TimedOut => Error::TimedOut,
        }
    }
}
