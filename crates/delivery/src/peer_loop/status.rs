//! What the peer loop knows of a client's peers, for the client's statistics.

use std::collections::{HashMap, HashSet};

use super::PeerLoop;
use super::outward::SentCounts;
use super::strangers::Stranger;
use crate::statistics::ReceiverState;
use crate::store::records::Receiver;

/// The connections and lanes of one client.
#[derive(Debug, Clone, Default)]
pub struct LoopStatistics {
    /// By stream.
    pub sent: HashMap<u32, SentCounts>,
    /// The receivers of shared streams, and how many messages each of them has.
    pub sharers: HashMap<u32, Vec<(String, u64)>>,
    /// By receiver.
    pub receivers: HashMap<String, PeerStatus>,
    /// Senders that are connected.
    pub senders: HashSet<String>,
    /// Peers that were not admitted lately, and how often any was not.
    pub strangers: Vec<Stranger>,
    pub not_admitted: u64,
}

/// The connection to a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerStatus {
    pub connection: ReceiverState,
    /// Why it is not connected.
    pub reason: Option<String>,
    /// Credit left, in bytes; None: it is not connected.
    pub credit: Option<u64>,
}

impl PeerLoop {
    pub(super) fn statistics(&self, client: u32) -> LoopStatistics {
        let mut statistics = LoopStatistics::default();
        let streams: Vec<(u32, Receiver)> = {
            let state = self.store.lock();
            let own = state.outbox.iter().filter(|of| of.record.client == client);
            own.map(|of| (of.record.number, of.record.receiver.clone())).collect()
        };
        for (stream, receiver) in streams {
            statistics.sent.insert(stream, self.outward.sent_of(stream));
            let mut names = Vec::new();
            if let Receiver::Client(name) = receiver {
                names.push(name);
            }
            let name_of = |index: usize| Some(self.outward.peers.get(index)?.as_ref()?.name.clone());
            let loads = self.outward.loads(stream).into_iter();
            let sharers: Vec<(String, u64)> =
                loads.filter_map(|(index, load)| Some((name_of(index)?, load))).collect();
            names.extend(sharers.iter().map(|(name, _)| name.clone()));
            statistics.sharers.insert(stream, sharers);
            for name in names {
                let status = || self.status_of(client, &name);
                statistics.receivers.entry(name.clone()).or_insert_with(status);
            }
        }
        if let Some(inward) = self.inward.iter().find(|inward| inward.client.number == client) {
            (statistics.strangers, statistics.not_admitted) =
                (inward.strangers.recent(), inward.strangers.total());
            statistics.senders = inward.senders().map(str::to_owned).collect();
        }
        statistics
    }

    fn status_of(&self, client: u32, name: &str) -> PeerStatus {
        let index = self.outward.find(client, name);
        let peer = index.and_then(|index| self.outward.peers.get(index)?.as_ref());
        let credit = index.and_then(|index| self.outward.lanes.credit_left(index));
        let problem = peer.and_then(|peer| peer.problem.as_ref());
        let (connection, reason) = match (credit, self.by_registry(client, name), problem) {
            (Some(_), _, _) => (ReceiverState::Connected, None),
            (None, (ReceiverState::Connecting, _), Some(problem)) => {
                (problem.connection, Some(problem.text.clone()))
            }
            // A peer that is away may have had a problem before.
            (None, state, _) => state,
        };
        PeerStatus { connection, reason, credit }
    }

    /// The state of a receiver by the registry alone.
    fn by_registry(&self, client: u32, name: &str) -> (ReceiverState, Option<String>) {
        let members = self.members.iter().find(|(other, _)| *other == client).map(|(_, members)| members);
        let is_alive = members.is_some_and(|members| members.get(name).is_some());
        let is_known = members.is_some_and(|members| members.find(name).is_some());
        match (is_alive, is_known, self.unreachable.get(&(client, name.to_owned()))) {
            (true, _, Some(why)) => (ReceiverState::Refused, Some(why.text.clone())),
            (true, _, None) => (ReceiverState::Connecting, None),
            (false, true, _) => (ReceiverState::Away, Some("the registry shows it as away".to_owned())),
            (false, false, _) => (ReceiverState::Unknown, Some("the registry does not know it".to_owned())),
        }
    }
}
