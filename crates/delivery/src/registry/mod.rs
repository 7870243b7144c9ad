//! Who is where: names, topics and addresses, in a place that clients share.
//!
//! What it is: a trait, [`Registry`], and three places: a directory of one host ([`Folder`]), a database in a file
//! ([`Sqlite`]) and a server that hosts share ([`Redis`]). [`open`] takes any by its address. Nothing here runs by
//! itself: who has a name renews it, and who wants to know of others asks now and then.
//!
//! What it guarantees:
//! - at no time two clients have one name with leases that live, whatever crashes between;
//! - what [`Registry::members`] shows of a client is all from one claim;
//! - what makes no sense in the place is an error or is passed over, and never a panic.
//!
//! What it does not: it believes whoever can write to the place. And what it shows may have changed a moment later.
//!
//! ```
//! use std::time::Duration;
//! use pinnace_delivery::registry::{self, Entry};
//!
//! let dir = tempfile::tempdir()?;
//! let mut mine = registry::open(&format!("dir://{}", dir.path().display()))?;
//! mine.claim(&Entry {
//!     name: "billing".into(),
//!     id: [7; 16],
//!     endpoint: "tcp://127.0.0.1:5555".into(),
//!     topics: vec!["invoices".into()],
//!     lease: Duration::from_secs(10),
//! })?;
//! let members = mine.members()?.ok_or("the first answer always tells")?;
//! assert_eq!(members.addresses_of("invoices").collect::<Vec<_>>(), ["tcp://127.0.0.1:5555"]);
//! assert_eq!(mine.members()?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod folder;
mod members;
mod redis;
mod sqlite;
mod watch;

use std::path::Path;
use std::time::Duration;

pub use crate::wire::Id;
pub use error::RegistryError;
pub use folder::Folder;
pub(crate) use folder::file_name;
pub use members::{ENDPOINT_MAX, Entry, LEASE_MAX, Member, Members, TOPICS_MAX};
pub use redis::Redis;
pub use sqlite::Sqlite;
pub(crate) use watch::{Tell, Trouble, Watch};

/// How long a call waits for others that have the place locked.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who is where; shared by clients that know of each other by it alone.
///
/// An object may hold several names, and several objects may be open on one place, in one process or many. One that
/// goes without giving its names back leaves them as a client does that was killed. Every call may fail with Busy,
/// Unreachable, Foreign, Damaged or Io.
pub trait Registry: Send {
    /// Takes the name for `lease` from now on. Called again by the same id, from this object or another, it changes
    /// what others see. Errors: NameTaken, while another id has the name and lives; Name, Endpoint, Topics, Lease.
    fn claim(&mut self, me: &Entry) -> Result<(), RegistryError>;

    /// The lease goes on, as long as was claimed, from now. Where it was over and nobody took the name since, it lives
    /// again, or is Lost. Error: Lost, another has the name, or nobody; then it is to be claimed anew.
    fn renew(&mut self, name: &str, id: &Id) -> Result<(), RegistryError>;

    /// Renews many names: for each what `renew` says. In a place that is far it takes a few questions in all.
    fn renew_all(&mut self, held: &[(&str, &Id)]) -> Vec<Result<(), RegistryError>> {
        held.iter().map(|(name, id)| self.renew(name, id)).collect()
    }

    /// Gives the name back at once; Ok also where nobody has it. Error: Lost, another has it and keeps it.
    fn release(&mut self, name: &str, id: &Id) -> Result<(), RegistryError>;

    /// All clients whose leases live, those of this object among them, and as away those that died and did not give
    /// their names back. Whatever was claimed or given back before is seen; a death, when its lease is over (in a
    /// [`Folder`], a moment after it). None: nothing has changed since this object was last asked, which costs little
    /// to find out.
    fn members(&mut self) -> Result<Option<Members>, RegistryError>;

    /// Clears away what the dead left that listened on a topic. Returns how many addresses that were. They are not away
    /// any more then, which else they are until their names are claimed again.
    fn clear(&mut self, topic: &str) -> Result<usize, RegistryError>;
}

/// Opens a registry, and makes it where there is none: `dir://PATH` or a bare path, with a `/` in it, is a [`Folder`],
/// `sqlite://PATH` a [`Sqlite`]. A path is taken as it is, to the end; a relative one from where the process is now.
/// `redis://` and `rediss://` are [`Redis`], which is opened whether or not there is a server.
pub fn open(url: &str) -> Result<Box<dyn Registry>, RegistryError> {
    match url.split_once("://") {
        Some((scheme, "")) => Err(RegistryError::Url(format!("{scheme}:// without a path"))),
        None if url.is_empty() => Err(RegistryError::Url("nothing".to_owned())),
        Some(("redis" | "rediss", _)) => Ok(Box::new(Redis::open(url)?)),
        scheme => match (path_of(url), scheme) {
            (Some(path), Some(("sqlite", _))) => Ok(Box::new(Sqlite::open(path)?)),
            (Some(path), _) => Ok(Box::new(Folder::open(path)?)),
            (None, Some((scheme, _))) => Err(RegistryError::Url(format!("{scheme}://"))),
            (None, None) => Err(RegistryError::Url(url.to_owned())),
        },
    }
}

/// The path of a registry that is one of this host's. A word alone is none, and none has a colon in its first part:
/// that may be meant as something else.
pub fn path_of(url: &str) -> Option<&Path> {
    let is_bare = || url.split_once('/').is_some_and(|(first, _)| !first.contains(':'));
    match url.split_once("://") {
        Some(("dir" | "sqlite", path)) if !path.is_empty() => Some(Path::new(path)),
        None if is_bare() => Some(Path::new(url)),
        _ => None,
    }
}
