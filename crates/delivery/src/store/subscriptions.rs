//! What the clients of this store listen on. A client that was killed starts with the same topics.

use super::Store;
use super::records::{Subscriptions, TOPICS};
use crate::log::{LogError, Urgency};

impl Store {
    /// What a client listened on when it was killed; of one that was closed, the version alone.
    pub fn subscriptions(&self, client: u32) -> Subscriptions {
        self.lock().subscriptions.get(&client).cloned().unwrap_or_default()
    }

    /// Records what a client listens on. Returns the batch of the log.
    pub fn subscribe(&self, client: u32, subscriptions: Subscriptions) -> Result<u64, LogError> {
        let mut state = self.lock();
        let record = subscriptions.write(client);
        state.subscriptions.insert(client, subscriptions);
        self.append(&mut state, Urgency::Sync, TOPICS, &[&record])
    }
}
