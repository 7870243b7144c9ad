//! The pending messages of a store, read from its files, and the settings to send them with.

use std::path::Path;
use std::sync::Arc;

use pinnace_crypto::{KeyPair, PublicKey};

use super::Problem;
use super::stores::{Fingerprint, fingerprint};
use crate::Error;
use crate::client::Builder;
use crate::registry::{Member, Members, Watch, without_password};
use crate::store::records::Receiver;
use crate::store::{SenderSettings, State, view};

/// The clients of a store that have pending messages.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub clients: Vec<PlannedClient>,
}

#[derive(Debug, Clone)]
pub struct PlannedClient {
    pub name: String,
    /// None: an earlier version, or a later one, has written the store.
    settings: Option<SenderSettings>,
    /// Receivers and topics with pending messages.
    pending: Vec<(Receiver, String)>,
}

/// What an agent knows beside a store: the secrets that are not in it.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Addresses of registries with passwords.
    pub registries: Vec<String>,
    pub keys: Vec<KeyPair>,
}

/// A registry's address and its watch.
pub type OpenedWatch = (String, Arc<Watch>);

/// Why the messages of a client are not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// Its settings are not recorded: only this version, or a later one, records them when the client starts.
    Settings,
    /// The password of this registry.
    Password(String),
    /// The secret key of its public key.
    Key(PublicKey),
}

impl Plan {
    pub fn read(store: &Path) -> Result<Plan, Error> {
        let clients =
            view(store, |state, _| Ok(state.clients.iter().map(|client| of(state, client)).collect()));
        let mut clients: Vec<PlannedClient> = clients?;
        clients.retain(|client| !client.pending.is_empty());
        Ok(Plan { clients })
    }
}

fn of(state: &State, client: &crate::store::records::ClientRecord) -> PlannedClient {
    let own =
        state.outbox.iter().filter(|stream| stream.record.client == client.number && stream.pending() > 0);
    PlannedClient {
        name: client.name.clone(),
        settings: state.sender_settings(client.number),
        pending: own.map(|stream| (stream.record.receiver.clone(), stream.record.topic.clone())).collect(),
    }
}

impl PlannedClient {
    /// The address of its registry. None: it has none.
    pub fn registry(&self, secrets: &Secrets) -> Result<Option<String>, Missing> {
        let settings = self.settings.as_ref().ok_or(Missing::Settings)?;
        let Some(recorded) = &settings.registry else { return Ok(None) };
        let is_same = |url: &&String| without_password(url).0 == *recorded;
        match secrets.registries.iter().find(is_same) {
            Some(url) => Ok(Some(url.clone())),
            None if settings.has_password => Err(Missing::Password(recorded.clone())),
            None => Ok(Some(recorded.clone())),
        }
    }

    /// A client that sends what is pending.
    pub fn builder(&self, store: &Path, secrets: &Secrets) -> Result<Builder, Missing> {
        let registry = self.registry(secrets)?;
        let settings = self.settings.as_ref().ok_or(Missing::Settings)?;
        let keys = match settings.key {
            None => None,
            Some(key) => {
                let own = secrets.keys.iter().find(|keys| keys.public == key);
                Some(own.ok_or(Missing::Key(key))?)
            }
        };
        Ok(Builder::for_agent(&self.name, store, settings, registry.as_deref(), keys))
    }

    /// Returns true if a client is there that a pending message can be sent to, now or once it is reassigned.
    pub fn has_receiver(&self, members: Option<&Members>) -> bool {
        let Some(settings) = &self.settings else { return false };
        let known = || members.into_iter().flat_map(Members::iter).chain(&settings.peers);
        let listens =
            |topic: &str| known().any(|member: &Member| member.name != self.name && member.listens_on(topic));
        self.pending.iter().any(|(receiver, topic)| match receiver {
            Receiver::Client(name) => {
                known().any(|member| member.name == *name)
                    || (settings.reassign_after.is_some() && listens(topic))
            }
            Receiver::Anyone | Receiver::Later => listens(topic),
        })
    }
}

/// Reads a store that no process has open, and opens the watches of its registries.
pub fn read(store: &Path, secrets: &Secrets) -> (Fingerprint, Result<(Plan, Vec<OpenedWatch>), Problem>) {
    let files = fingerprint(store).ok().flatten().unwrap_or_default();
    let plan = match Plan::read(store) {
        Ok(plan) => plan,
        Err(error) => return (files, Err(Problem::Error(error))),
    };
    let mut watches = Vec::new();
    for client in &plan.clients {
        let opened = match client.builder(store, secrets).and_then(|_| client.registry(secrets)) {
            Ok(None) => continue,
            Ok(Some(url)) => Watch::open(&url).map(|watch| (url, watch)),
            Err(missing) => return (files, Err(problem_of(&client.name, missing))),
        };
        match opened {
            Ok(watch) => watches.push(watch),
            Err(error) => return (files, Err(Problem::Error(Error::Registry(error)))),
        }
    }
    (files, Ok((plan, watches)))
}

pub fn problem_of(client: &str, missing: Missing) -> Problem {
    match missing {
        Missing::Settings => Problem::NoSettings(client.to_owned()),
        Missing::Password(url) => Problem::NoPassword(url),
        Missing::Key(key) => Problem::NoKey(client.to_owned(), key),
    }
}
