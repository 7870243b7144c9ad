//! Collects the statistics of a client.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::{IncomingStatistics, NotAdmitted, OutgoingStatistics, Source, Statistics, StoreStatistics};
use crate::environment::{now, now_ms};
use crate::inbox::Inbox;
use crate::instance::Instance;
use crate::peer_loop::{LoopStatistics, Stranger};
use crate::registry::Trouble;
use crate::store::records::Receiver;
use crate::store::{State, Stream};

/// What the statistics of a client are read from, besides its store.
pub struct Collector {
    pub client: u32,
    pub name: String,
    pub inbox: Arc<Inbox>,
    pub started: Instant,
    pub memory_limit: u64,
    pub trouble: Trouble,
}

impl Collector {
    pub fn read(&self, instance: &Instance) -> Statistics {
        let known = instance.peer_loop.statistics(self.client);
        let incoming = self.incoming(&known);
        let usage = instance.store.log().usage();
        let state = instance.store.lock();
        let store = StoreStatistics {
            disk_bytes: usage.disk_bytes,
            disk_limit_bytes: Some(usage.disk_limit).filter(|limit| *limit < u64::MAX),
            segments: usage.segments,
            memory_bytes: state.outbox.held_cost(),
            memory_limit_bytes: self.memory_limit,
            syncs: usage.syncs.count,
            sync_us: usage.syncs.total.as_micros() as u64,
        };
        let outgoing = self.outgoing(&state, &known);
        drop(state);
        Statistics {
            client: self.name.clone(),
            uptime_ms: now().saturating_duration_since(self.started).as_millis() as u64,
            registry_error: self.trouble.current().map(|error| error.to_string()),
            outgoing,
            incoming,
            not_admitted: known.strangers.iter().map(not_admitted).collect(),
            not_admitted_total: known.not_admitted,
            store,
        }
    }

    fn outgoing(&self, state: &State, known: &LoopStatistics) -> Vec<OutgoingStatistics> {
        let now_ms = now_ms();
        let mut all: BTreeMap<(&str, Option<&str>), OutgoingStatistics> = BTreeMap::new();
        for of in state.outbox.iter().filter(|of| of.record.client == self.client) {
            let receiver = match &of.record.receiver {
                Receiver::Client(name) => Some(name.as_str()),
                Receiver::Anyone | Receiver::Later => None,
            };
            let topic = of.record.topic.as_str();
            let entry = all.entry((topic, receiver)).or_insert_with(|| empty(topic, receiver, known));
            add(entry, of, known, now_ms);
            for (name, assigned) in known.sharers.get(&of.record.number).into_iter().flatten() {
                let entry = all.entry((topic, Some(name))).or_insert_with(|| empty(topic, Some(name), known));
                entry.assigned += assigned;
            }
        }
        all.into_values().collect()
    }

    fn incoming(&self, known: &LoopStatistics) -> Vec<IncomingStatistics> {
        let mut all: BTreeMap<(String, String), IncomingStatistics> = BTreeMap::new();
        for flow in self.inbox.statistics() {
            let (sender, topic, counts) = (flow.from, flow.topic, flow.counts);
            let connected = known.senders.contains(&sender);
            let entry = all.entry((topic.clone(), sender.clone())).or_insert(IncomingStatistics {
                sender,
                topic,
                connected,
                received: 0,
                duplicates: 0,
                delivered: 0,
                redelivered: 0,
                acknowledged: 0,
                failed: 0,
                put_off: 0,
                given_up: 0,
                expired: 0,
                waiting: 0,
                waiting_bytes: 0,
                in_hand: 0,
            });
            entry.received += counts.received;
            entry.duplicates += counts.duplicates;
            entry.delivered += counts.delivered;
            entry.redelivered += counts.redelivered;
            entry.acknowledged += counts.acknowledged;
            entry.failed += counts.failed;
            entry.put_off += counts.put_off;
            entry.given_up += counts.given_up;
            entry.expired += counts.expired;
            entry.waiting += counts.queued;
            entry.waiting_bytes += counts.queued_bytes;
            entry.in_hand += counts.in_hand;
        }
        all.into_values().collect()
    }
}

/// A client's statistics for the server. It keeps neither the client nor its store open.
pub struct ClientSource {
    pub collector: Arc<Collector>,
    pub instance: Weak<Instance>,
}

impl ClientSource {
    fn read(&self) -> Option<Statistics> {
        Some(self.collector.read(&*self.instance.upgrade()?))
    }
}

/// Empty once the store is closed, which ends the server too.
impl Source for ClientSource {
    fn json(&self) -> String {
        self.read().map_or_else(String::new, |statistics| statistics.to_json())
    }

    fn prometheus(&self) -> String {
        self.read().map_or_else(String::new, |statistics| statistics.to_prometheus())
    }
}

fn not_admitted(of: &Stranger) -> NotAdmitted {
    let age_ms = now().saturating_duration_since(of.last).as_millis() as u64;
    NotAdmitted { address: of.address.clone(), reason: of.reason.clone(), attempts: of.attempts, age_ms }
}

fn empty(topic: &str, receiver: Option<&str>, known: &LoopStatistics) -> OutgoingStatistics {
    let status = receiver.and_then(|receiver| known.receivers.get(receiver));
    OutgoingStatistics {
        receiver: receiver.map(str::to_owned),
        topic: topic.to_owned(),
        pending: 0,
        pending_bytes: 0,
        oldest_age_ms: None,
        connection: status.map(|status| status.connection),
        reason: status.and_then(|status| status.reason.clone()),
        credit_bytes: status.and_then(|status| status.credit),
        assigned: 0,
        accepted: 0,
        sent: 0,
        sent_again: 0,
        acknowledged: 0,
        expired: 0,
        expired_at_receiver: 0,
        dead_letters: 0,
        dropped: 0,
        reassigned: 0,
        cleared: 0,
    }
}

fn add(to: &mut OutgoingStatistics, of: &Stream, known: &LoopStatistics, now_ms: u64) {
    let sent = known.sent.get(&of.record.number).copied().unwrap_or_default();
    to.pending += of.pending();
    to.pending_bytes += of.pending_cost();
    to.oldest_age_ms = to.oldest_age_ms.max(of.oldest_pending_ms().map(|ms| now_ms.saturating_sub(ms)));
    to.accepted += of.counts.accepted;
    to.sent += sent.first;
    to.sent_again += sent.again;
    to.acknowledged += of.counts.acknowledged;
    to.expired += of.counts.expired;
    to.expired_at_receiver += of.counts.expired_at_receiver;
    to.dead_letters += of.counts.dead;
    to.dropped += of.counts.dropped;
    to.reassigned += of.counts.reassigned;
    to.cleared += of.counts.cleared;
}
