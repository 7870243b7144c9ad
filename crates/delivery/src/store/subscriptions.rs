//! The topics that the clients of this store listen on. A durable client starts with them again.

use super::Store;
use super::records::{Subscriptions, TOPICS};
use crate::log::{LogError, Urgency};

impl Store {
    /// The client's recorded topics and the version of its entry. A client that is not durable records no topics.
    pub fn subscriptions(&self, client: u32) -> Subscriptions {
        self.lock().subscriptions.get(&client).cloned().unwrap_or_default()
    }

    /// Replaces the client's recorded topics. Returns the batch of the log that contains the record.
    pub fn set_subscriptions(&self, client: u32, subscriptions: Subscriptions) -> Result<u64, LogError> {
        let mut state = self.lock();
        let record = subscriptions.write(client);
        state.subscriptions.insert(client, subscriptions);
        self.append(&mut state, Urgency::Sync, TOPICS, &[&record])
    }
}
