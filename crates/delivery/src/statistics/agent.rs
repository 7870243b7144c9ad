//! The statistics of the clients whose stores an agent has open.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::prometheus;
use super::{Source, Statistics};
use crate::Client;

/// A client, and the directory of its store.
type OpenClient = (PathBuf, Weak<Client>);

/// The clients of open stores.
#[derive(Clone, Default)]
pub struct OpenClients(Arc<Mutex<Vec<OpenClient>>>);

impl OpenClients {
    fn lock(&self) -> MutexGuard<'_, Vec<OpenClient>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client, until it ends.
    pub fn add(&self, store: &Path, client: &Arc<Client>) {
        let mut all = self.lock();
        all.retain(|(_, client)| client.strong_count() > 0);
        all.push((store.to_owned(), Arc::downgrade(client)));
    }

    /// Sorted by store and name.
    fn read(&self) -> Vec<(String, Statistics)> {
        let open: Vec<OpenClient> = self.lock().clone();
        let read = |(store, client): &OpenClient| {
            Some((store.to_string_lossy().into_owned(), client.upgrade()?.statistics()))
        };
        let mut all: Vec<(String, Statistics)> = open.iter().filter_map(read).collect();
        all.sort_by(|one, other| (&one.0, &one.1.client).cmp(&(&other.0, &other.1.client)));
        // A store that was closed and opened again while it was read.
        all.dedup_by(|one, other| (&one.0, &one.1.client) == (&other.0, &other.1.client));
        all
    }
}

impl Source for OpenClients {
    fn json(&self) -> String {
        let all = self.read();
        let clients = all.iter().map(|(store, of)| {
            // The members of the client, after the directory of its store.
            let members = of.to_json();
            let dir = serde_json::Value::from(store.as_str());
            format!("{{\"dir\":{dir},{}", members.trim_start_matches('{'))
        });
        format!("{{\"clients\":[{}]}}", clients.collect::<Vec<String>>().join(","))
    }

    fn prometheus(&self) -> String {
        let all = self.read();
        let labelled: Vec<prometheus::Labelled<'_>> =
            all.iter().map(|(store, of)| (Some(store.as_str()), of)).collect();
        prometheus::statistics(&labelled)
    }
}
