//! What a client records of its settings, and how an agent starts it by them.

use std::path::Path;

use pinnace_crypto::KeyPair;

use super::{Builder, Presence};
use crate::paths::absolute_registry;
use crate::registry::{Member, without_password};
use crate::store::SenderSettings;

impl Builder {
    /// What another process needs to send for this client.
    pub(super) fn sender_settings(&self, registry: Option<&str>) -> SenderSettings {
        let registry = registry.map(|url| without_password(&absolute_registry(url)));
        let mut trusted: Vec<_> = self.trusted.iter().map(|(name, key)| (name.clone(), *key)).collect();
        trusted.sort_unstable();
        let endpoint = |peer: &Member| absolute_endpoint(&peer.endpoint);
        let peers = self.peers.iter().map(|peer| Member { endpoint: endpoint(peer), ..peer.clone() });
        SenderSettings {
            has_password: registry.as_ref().is_some_and(|(_, has_password)| *has_password),
            registry: registry.map(|(url, _)| url),
            reassign_after: self.patience,
            retain: self.limits,
            keeps_expired: self.keeps_expired,
            disk_limit: self.most_on_disk(),
            key: self.keys.as_ref().map(|keys| keys.public),
            trusted,
            peers: peers.collect(),
        }
    }

    /// An agent's client: it sends what is pending and does nothing else. It does not wait for its registry, nor ask
    /// another agent for the store.
    pub(crate) fn for_agent(
        name: &str,
        store: &Path,
        settings: &SenderSettings,
        registry: Option<&str>,
        keys: Option<&KeyPair>,
    ) -> Builder {
        let mut builder = Builder::new(name, "")
            .data_dir(store)
            .registry(registry.unwrap_or("none"))
            .reassign_after(settings.reassign_after)
            .retain_for(settings.retain.age)
            .retain_bytes(settings.retain.bytes)
            .dead_letter_expired(settings.keeps_expired)
            .disk_limit(settings.disk_limit);
        builder.presence = Presence::Drained;
        builder.keys = keys.cloned();
        builder.trusted = settings.trusted.iter().cloned().collect();
        builder.peers = settings.peers.clone();
        builder
    }
}

/// An ipc path that does not depend on the current directory.
fn absolute_endpoint(endpoint: &str) -> String {
    let path = endpoint.strip_prefix("ipc://").filter(|path| !path.starts_with(['/', '@']));
    match path.and_then(|path| std::path::absolute(path).ok()) {
        Some(path) => format!("ipc://{}", path.display()),
        None => endpoint.to_owned(),
    }
}
