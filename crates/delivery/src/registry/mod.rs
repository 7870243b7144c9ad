//! The registry: names, topics and endpoints, in a place that clients share.
//!
//! It is a trait, [`Registry`], with three implementations: a directory of one host ([`Folder`]), a database in a file
//! ([`Sqlite`]) and a server shared by hosts ([`Redis`]). [`open`] chooses one by its address. A registry has no thread
//! of its own: the holder of a name renews it, and clients poll for changes.
//!
//! Guarantees:
//! - two clients never have one name with live leases at the same time, whatever crashes;
//! - what [`Registry::members`] shows of a client comes from one claim;
//! - invalid content is an error or is skipped, and never a panic.
//!
//! Not guaranteed: a process that can write to the place is trusted. And members may have changed a moment later.
//!
//! ```
//! use std::time::Duration;
//! use pinnace_delivery::registry::{self, Entry, Lasting};
//!
//! let dir = tempfile::tempdir()?;
//! let mut mine = registry::open(&format!("dir://{}", dir.path().display()))?;
//! mine.claim(&Entry {
//!     name: "billing".into(),
//!     id: [7; 16],
//!     endpoint: "tcp://127.0.0.1:5555".into(),
//!     topics: vec!["invoices".into()],
//!     lease: Duration::from_secs(10),
//!     version: 1,
//!     lasting: Lasting::Durable,
//! })?;
//! let members = mine.members()?.ok_or("the first answer always tells")?;
//! assert_eq!(members.addresses_of("invoices").collect::<Vec<_>>(), ["tcp://127.0.0.1:5555"]);
//! assert_eq!(mine.members()?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod folder;
mod hosts;
mod members;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;
mod watch;

use std::path::Path;
use std::time::Duration;

use crate::environment::{now_ms, random};
pub use crate::wire::Id;
pub use error::RegistryError;
pub use folder::Folder;
pub(crate) use folder::file_name;
pub(crate) use hosts::{is_of_several_hosts, is_reachable};
pub use members::{ENDPOINT_MAX, Entry, LEASE_MAX, Lasting, Member, Members, TOPICS_MAX};
#[cfg(feature = "redis")]
pub use redis::Redis;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
pub(crate) use watch::{JOIN_TIMEOUT, MembersCallback, Trouble, Watch};

/// How long the entry of a client that gave its name back is kept.
pub const LEFT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// The id in such an entry, and in one that was cleared: no client has it, so the entry cannot be renewed.
pub(crate) const NO_ID: Id = [0; 16];
/// The endpoint in the entry of a client that was forgotten.
const FORGOTTEN_ENDPOINT: &str = "inproc://forgotten";
/// How long a call waits while others have the place locked.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The place where clients publish their names, topics and endpoints.
///
/// An object may hold several names, and several objects may be open on one place, in one process or many. Dropping an
/// object without giving its names back leaves them as a killed client does. Every call may fail with Busy,
/// Unreachable, Foreign, Damaged or Io.
pub trait Registry: Send {
    /// Claims the name for `lease` from now on. Called again with the same id, from this object or another, it updates
    /// the entry. Errors: NameTaken, another id has the name with a live lease; Name, Endpoint, Topics, Lease.
    fn claim(&mut self, me: &Entry) -> Result<(), RegistryError>;

    /// Extends the lease, by the time that was claimed, from now. If it had expired and no other client took the name,
    /// it lives again, or is Lost. Error: Lost, another client has the name, or none has; then it must be claimed
    /// again.
    fn renew(&mut self, name: &str, id: &Id) -> Result<(), RegistryError>;

    /// Renews many names: for each the result of `renew`. A remote registry needs only a few round trips in all.
    fn renew_all(&mut self, held: &[(&str, &Id)]) -> Vec<Result<(), RegistryError>> {
        held.iter().map(|(name, id)| self.renew(name, id)).collect()
    }

    /// Gives the name back at once, and ends the client's subscriptions; Ok also if no client has it. The entry stays
    /// for [`LEFT_FOR`] as that of a client that is away and listens on nothing, so that others can tell that it has
    /// left from that the registry has lost it. Error: Lost, another client has the name and keeps it.
    fn release(&mut self, name: &str, id: &Id) -> Result<(), RegistryError>;

    /// As `release`, but the client still listens on its topics: it is away.
    fn detach(&mut self, name: &str, id: &Id) -> Result<(), RegistryError>;

    /// Ends the subscriptions of a client that is away, or is unknown here, and has others drop what they keep for it.
    /// `id` is one that no client has; `version` grows as that of an entry. Error: NameTaken, the client lives.
    fn forget(&mut self, name: &str, id: &Id, version: u64) -> Result<(), RegistryError> {
        self.claim(&Entry {
            name: name.to_owned(),
            id: *id,
            endpoint: FORGOTTEN_ENDPOINT.to_owned(),
            topics: Vec::new(),
            lease: LOCK_TIMEOUT,
            version,
            lasting: Lasting::Forgotten,
        })?;
        self.release(name, id)
    }

    /// All clients with live leases, including those of this object, and as away those that died, were detached or
    /// released. Every completed claim and release is visible; a death once its lease has expired (in a [`Folder`], a
    /// moment after the death). None: nothing has changed since this object's last call, which is cheap to find out.
    fn members(&mut self) -> Result<Option<Members>, RegistryError>;

    /// Ends the subscription of a topic by dead clients, whose entries stay. Returns how many there were. Without this
    /// they listen until their names are claimed again. One that lives after all has lost its name, and claims it
    /// again.
    fn clear(&mut self, topic: &str) -> Result<usize, RegistryError>;
}

/// Opens a registry, and creates it if there is none: `dir://PATH` or a bare path that contains a `/` is a [`Folder`],
/// `sqlite://PATH` a [`Sqlite`]. A path is used literally, to the end; a relative one is relative to the current
/// directory. `redis://` and `rediss://` are [`Redis`], which opens whether or not the server is reachable. Errors:
/// Url; Feature, the crate was built without this kind of registry; of the place.
pub fn open(url: &str) -> Result<Box<dyn Registry>, RegistryError> {
    match url.split_once("://") {
        Some((scheme, "")) => Err(RegistryError::Url(format!("{scheme}:// without a path"))),
        None if url.is_empty() => Err(RegistryError::Url("nothing".to_owned())),
        #[cfg(feature = "redis")]
        Some(("redis" | "rediss", _)) => Ok(Box::new(Redis::open(url)?)),
        #[cfg(not(feature = "redis"))]
        Some(("redis" | "rediss", _)) => Err(RegistryError::Feature("redis")),
        scheme => match (path_of(url), scheme) {
            #[cfg(feature = "sqlite")]
            (Some(path), Some(("sqlite", _))) => Ok(Box::new(Sqlite::open(path)?)),
            #[cfg(not(feature = "sqlite"))]
            (Some(_), Some(("sqlite", _))) => Err(RegistryError::Feature("sqlite")),
            (Some(path), _) => Ok(Box::new(Folder::open(path)?)),
            (None, Some((scheme, _))) => Err(RegistryError::Url(format!("{scheme}://"))),
            (None, None) => Err(RegistryError::Url(url.to_owned())),
        },
    }
}

/// Ends the subscriptions of a client that is gone for good ([`Registry::forget`]), in the registry at this address.
/// Errors: those of `open`; NameTaken, it lives; Name.
pub fn forget(url: &str, name: &str) -> Result<(), RegistryError> {
    let mut registry = open(url)?;
    let id = random().map_err(|error| RegistryError::io(&error, "random bytes"))?;
    // Later than each entry of the client, also if its clock was ahead.
    let shown = registry.members()?.and_then(|members| members.find(name).map(|member| member.version));
    registry.forget(name, &id, now_ms().max(shown.unwrap_or(0) + 1))
}

/// The address without its password, and whether it had one.
pub(crate) fn without_password(url: &str) -> (String, bool) {
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| scheme.starts_with("redis")) else {
        return (url.to_owned(), false);
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let Some((login, host)) = authority.rsplit_once('@') else { return (url.to_owned(), false) };
    match login.split_once(':') {
        None => (url.to_owned(), false),
        Some(("", _)) => (format!("{scheme}://{host}{path}"), true),
        Some((user, _)) => (format!("{scheme}://{user}@{host}{path}"), true),
    }
}

/// The path of a registry on this host. A bare word is not a path, and a bare path has no colon in its first component,
/// which may be meant as something else.
pub fn path_of(url: &str) -> Option<&Path> {
    let is_bare = || url.split_once('/').is_some_and(|(first, _)| !first.contains(':'));
    match url.split_once("://") {
        Some(("dir" | "sqlite", path)) if !path.is_empty() => Some(Path::new(path)),
        None if is_bare() => Some(Path::new(url)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[cfg(not(any(feature = "redis", feature = "sqlite", feature = "tls", feature = "zstd")))]
    #[test]
    fn without_features_addresses_that_need_one_are_refused() {
        use super::{RegistryError, open};
        use crate::{Client, Error};

        for (url, feature) in [("redis://h", "redis"), ("rediss://h", "redis"), ("sqlite:///db", "sqlite")] {
            let error = open(url).err();
            assert_eq!(error, Some(RegistryError::Feature(feature)));
            assert!(error.is_some_and(|error| error.to_string().contains(&format!("`{feature}`"))));
        }
        let dir = tempfile::tempdir().unwrap();
        let client = || Client::builder("one", "t").data_dir(dir.path()).listen("tcp://127.0.0.1:*");
        let refused = client().registry("redis://127.0.0.1").start().map(drop);
        assert_eq!(refused, Err(Error::Registry(RegistryError::Feature("redis"))));
        let refused = client().registry("none").listen("tls+tcp://127.0.0.1:*").start().map(drop);
        assert_eq!(refused, Err(Error::Endpoint(pinnace_engine::Error::NoTls)));
        assert_eq!(pinnace_engine::check_endpoint("wss://127.0.0.1:1"), Err(pinnace_engine::Error::NoTls));
        assert!(pinnace_engine::Error::NoTls.to_string().contains("`tls`"));
        client().registry("none").start().unwrap();
    }

    #[test]
    fn a_password_is_left_out() {
        for (url, rest, has_password) in [
            ("redis://host:1/2", "redis://host:1/2", false),
            ("redis://user@host", "redis://user@host", false),
            ("redis://:se:cr@et@host:1/2", "redis://host:1/2", true),
            ("rediss://user:secret@host/?ca=/x:y@z", "rediss://user@host/?ca=/x:y@z", true),
            ("dir:///a:b@c", "dir:///a:b@c", false),
        ] {
            assert_eq!(without_password(url), (rest.to_owned(), has_password));
        }
    }
}
