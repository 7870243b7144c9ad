//! Messages that wait for receivers which may have handled them: those of the sender's earlier process until these have
//! reported, and those that a receiver had when it was lost.

use std::time::{Duration, Instant};

use pinnace_stream::RangeSet;

use super::super::Outward;
use crate::environment::now;
use crate::store::Store;

/// How long these receivers may take before the client is told.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Messages that wait, by topic, and the receivers that they wait for.
pub struct HeldBack {
    pub topic: String,
    pub receivers: Vec<String>,
}

impl Outward {
    /// The messages of a client that have waited for `REPORT_TIMEOUT`, those of each stream once. Also returns when to
    /// call it again.
    pub fn take_held_back(&mut self, store: &Store, client: u32) -> (Vec<HeldBack>, Option<Instant>) {
        let (time, mut held_back, mut next) = (now(), Vec::new(), None);
        let own = self.shared.iter_mut().filter(|(_, shared)| shared.client == client);
        for (stream, shared) in own.filter(|(_, shared)| !shared.is_told && !shared.unreported.is_empty()) {
            let tell_at = shared.since + REPORT_TIMEOUT;
            if tell_at > time {
                next = next.into_iter().chain([tell_at]).min();
                continue;
            }
            shared.is_told = true;
            let upto = shared.recovered_upto;
            if store.lock().outbox.get(*stream).is_some_and(|of| !of.is_gone_upto(upto)) {
                let (topic, receivers) = (shared.topic.clone(), shared.unreported.clone());
                held_back.push(HeldBack { topic, receivers });
            }
        }
        (held_back, next)
    }

    /// Frees the messages of a receiver that was forgotten, unless it is connected.
    pub fn forget_receiver(&mut self, store: &Store, stream: u32, peer: usize) {
        let Some(shared) = self.shared.get_mut(&stream).filter(|_| !self.lanes.is_connected(peer)) else {
            return;
        };
        let nothing = RangeSet::default();
        shared.dispatch.report(peer, 0, 0, &nothing, &nothing);
        shared.dispatch.disconnect(peer, now());
        self.resume_shared(store, stream);
    }
}
