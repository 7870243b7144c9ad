//! What the clients of this store listen on. A client that was killed starts with the same topics.

use super::Store;
use super::records::{Subscriptions, TOPICS};
use crate::log::{LogError, Urgency};

impl Store {
    /// The client's recorded topics. After an orderly close there are none, and only the version remains.
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
