//! Clients in a registry: the entry that a client claims, and the member that others see.

use std::collections::BTreeMap;
use std::time::Duration;

use super::RegistryError;
use crate::wire::{Id, NAME_MAX};

/// The longest endpoint, in bytes.
pub const ENDPOINT_MAX: usize = 1024;
/// The most topics that one client listens on.
pub const TOPICS_MAX: usize = STORED_TOPICS_MAX - 2;
/// The most topics of an entry as a registry stores it, with the reserved ones.
pub(super) const STORED_TOPICS_MAX: usize = 1 << 16;
/// With this begin reserved topics, which hold an entry's further fields; topics of clients do not. Builds before they
/// were added take them for topics that nobody sends to.
const RESERVED: &str = "\u{1}";
const VERSION_TOPIC: &str = "\u{1}version ";
const TRANSIENT_TOPIC: &str = "\u{1}transient";
const FORGOTTEN_TOPIC: &str = "\u{1}forgotten";
/// The longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long the subscriptions of a client last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lasting {
    /// Until it unsubscribes: messages to all are kept for it while it is away.
    #[default]
    Durable,
    /// Until its process ends.
    Transient,
    /// The client was forgotten, and so is what is kept for it.
    Forgotten,
}

/// What a client publishes about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// 1 to 255 bytes, none of them NUL.
    pub name: String,
    /// Identifies the client, whatever its name.
    pub id: Id,
    /// Its endpoint: 1 to 1024 bytes, none of them NUL.
    pub endpoint: String,
    /// The topics it listens on, including its own: at most 65,534, each of at most 255 bytes, none of them NUL or
    /// beginning with U+0001. Their order has no meaning.
    pub topics: Vec<String>,
    /// How long it keeps the name without renewing: 1 ms to 30 days.
    pub lease: Duration,
    /// Grows with each change by the client, over all its starts, so that what an old copy of the registry shows is
    /// known to be old; 0: unknown.
    pub version: u64,
    pub lasting: Lasting,
}

/// A client as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// None: it was given by its endpoint, and its id is known only once it answers.
    pub id: Option<Id>,
    pub endpoint: String,
    /// The topics it listens on, including its own. From a registry: sorted by bytes, without duplicates.
    pub topics: Vec<String>,
    /// As in [`Entry::version`]; 0: unknown.
    pub version: u64,
    pub lasting: Lasting,
}

/// All known clients: the living, which all calls but two refer to, and those that are away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    living: BTreeMap<String, Member>,
    away: BTreeMap<String, Member>,
}

impl Entry {
    /// Checks that every field is within its range. Errors: Name, Endpoint, Topics, Lease.
    pub fn check(&self) -> Result<(), RegistryError> {
        check_name(&self.name)?;
        if self.endpoint.is_empty() || self.endpoint.len() > ENDPOINT_MAX || self.endpoint.contains('\0') {
            return Err(RegistryError::Endpoint);
        }
        let taken =
            |topic: &String| topic.len() <= NAME_MAX && !topic.contains('\0') && !topic.starts_with(RESERVED);
        if self.topics.len() > TOPICS_MAX || !self.topics.iter().all(taken) {
            return Err(RegistryError::Topics);
        }
        if self.lease < Duration::from_millis(1) || self.lease > LEASE_MAX {
            return Err(RegistryError::Lease);
        }
        Ok(())
    }

    /// The entry as others see it.
    pub fn to_member(&self) -> Member {
        let mut topics = self.topics.clone();
        topics.sort_unstable();
        topics.dedup();
        let (name, endpoint) = (self.name.clone(), self.endpoint.clone());
        Member { name, id: Some(self.id), endpoint, topics, version: self.version, lasting: self.lasting }
    }
}

/// Error: Name.
pub(super) fn check_name(name: &str) -> Result<(), RegistryError> {
    match name.is_empty() || name.len() > NAME_MAX || name.contains('\0') {
        true => Err(RegistryError::Name),
        false => Ok(()),
    }
}

impl Member {
    /// The topics as a registry stores them, with the reserved ones.
    pub(super) fn stored_topics(&self) -> Vec<String> {
        let version = (self.version > 0).then(|| format!("{VERSION_TOPIC}{}", self.version));
        let lasting = match self.lasting {
            Lasting::Durable => None,
            Lasting::Transient => Some(TRANSIENT_TOPIC.to_owned()),
            Lasting::Forgotten => Some(FORGOTTEN_TOPIC.to_owned()),
        };
        version.into_iter().chain(lasting).chain(self.topics.iter().cloned()).collect()
    }

    /// Takes the reserved topics out of stored ones.
    pub(super) fn with_stored_topics(mut self, topics: Vec<String>) -> Member {
        let version = |topic: &String| topic.strip_prefix(VERSION_TOPIC)?.parse().ok();
        self.version = topics.iter().find_map(version).unwrap_or(0);
        let has = |reserved: &str| topics.iter().any(|topic| topic == reserved);
        self.lasting = match () {
            () if has(FORGOTTEN_TOPIC) => Lasting::Forgotten,
            () if has(TRANSIENT_TOPIC) => Lasting::Transient,
            () => Lasting::Durable,
        };
        self.topics = topics;
        self.topics.retain(|topic| !topic.starts_with(RESERVED));
        self
    }

    /// The entry of a client that is away: its topics, unless they lasted only as long as its process.
    pub(super) fn once_away(mut self) -> Member {
        if self.lasting == Lasting::Transient {
            self.topics.clear();
        }
        self
    }

    /// Returns true if its values are within their ranges.
    pub(super) fn is_valid(&self) -> bool {
        let Member { name, id, endpoint, topics, version, lasting } = self.clone();
        let (id, lease) = (id.unwrap_or_default(), Duration::from_secs(1));
        Entry { name, id, endpoint, topics, lease, version, lasting }.check().is_ok()
    }

    pub fn listens_on(&self, topic: &str) -> bool {
        self.topics.iter().any(|other| other == topic)
    }
}

impl Members {
    /// The entry of a client, whether it lives or is away.
    pub fn find(&self, name: &str) -> Option<&Member> {
        self.living.get(name).or_else(|| self.away.get(name))
    }

    pub fn get(&self, name: &str) -> Option<&Member> {
        self.living.get(name)
    }

    /// All, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.living.values()
    }

    pub fn len(&self) -> usize {
        self.living.len()
    }

    pub fn is_empty(&self) -> bool {
        self.living.is_empty()
    }

    /// These, and those of `others` with names that are not among them.
    pub fn with(&self, others: &[Member]) -> Members {
        let mut all = self.clone();
        for other in others {
            all.living.entry(other.name.clone()).or_insert_with(|| other.clone());
            all.away.remove(&other.name);
        }
        all
    }

    /// Adds clients that are away: with the topics that they listen on, or without, if their subscriptions have ended.
    pub fn with_away(mut self, away: impl IntoIterator<Item = Member>) -> Members {
        self.away.extend(away.into_iter().map(|member| (member.name.clone(), member.once_away())));
        self
    }

    /// The clients that are away, sorted by name.
    pub fn away(&self) -> impl Iterator<Item = &Member> {
        self.away.values()
    }

    /// The clients away that listened on a topic.
    pub fn away_from(&self, topic: &str) -> impl Iterator<Item = &Member> {
        self.away.values().filter(move |member| member.listens_on(topic))
    }

    /// The clients that listen on a topic, sorted by name.
    pub fn of_topic(&self, topic: &str) -> impl Iterator<Item = &Member> {
        self.living.values().filter(move |member| member.listens_on(topic))
    }

    /// The endpoints of the clients that listen on a topic, sorted by their names.
    pub fn addresses_of(&self, topic: &str) -> impl Iterator<Item = &str> {
        self.of_topic(topic).map(|member| member.endpoint.as_str())
    }
}

impl FromIterator<Member> for Members {
    fn from_iter<I: IntoIterator<Item = Member>>(members: I) -> Members {
        let living = members.into_iter().map(|member| (member.name.clone(), member)).collect();
        Members { living, away: BTreeMap::new() }
    }
}
