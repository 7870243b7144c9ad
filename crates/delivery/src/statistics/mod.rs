//! Statistics of a client: what it has sent and received, by peer and topic, what is pending, and its store.
//!
//! ```
//! use pinnace_delivery::Client;
//! # let dir = tempfile::tempdir()?;
//! let shop = Client::builder("shop", "orders").data_dir(dir.path()).registry("none").start()?;
//! shop.send_to("invoices", b"3 pinnaces")?;
//! let statistics = shop.statistics();
//! assert_eq!((statistics.outgoing[0].topic.as_str(), statistics.outgoing[0].pending), ("invoices", 1));
//! println!("{}", statistics.to_prometheus());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Counters count whole messages since the client was started, except those of outgoing streams and of the store, which
//! count since the store was opened: by the first of the clients that share it in this process. They are kept under
//! locks that are taken in any case, or by the peer loop's thread, which is asked for them.

mod agent;
mod collect;
mod http;
mod prometheus;

use serde::Serialize;

pub(crate) use agent::OpenClients;
pub(crate) use collect::{ClientSource, Collector};
pub(crate) use http::{Source, StatisticsServer};
pub use prometheus::pending_to_prometheus;

/// The statistics of a client at one moment. The parts are read one after the other, while messages move.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// The client's name.
    pub client: String,
    /// How long ago it was started, in milliseconds.
    pub uptime_ms: u64,
    /// Why it is not registered, or does not know the other clients
    /// ([`Client::registry_error`](crate::Client::registry_error)); None: all is well, or it has no registry.
    pub registry_error: Option<String>,
    /// What it sends, sorted by topic and receiver.
    pub outgoing: Vec<OutgoingStatistics>,
    /// What it receives, sorted by topic and sender.
    pub incoming: Vec<IncomingStatistics>,
    /// Peers that tried to connect within the last 30 s and were not admitted; at most 64.
    pub not_admitted: Vec<NotAdmitted>,
    /// How often any peer was not admitted.
    pub not_admitted_total: u64,
    pub store: StoreStatistics,
}

/// Messages on one topic to one receiver. At any time `accepted`, and what was pending when the store was opened, are
/// the sum of `acknowledged`, `expired`, `expired_at_receiver`, `dead_letters`, `dropped`, `reassigned`, `cleared` and
/// `pending`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OutgoingStatistics {
    /// None: messages to one, which the clients of the topic share, and those that are kept for clients that will
    /// listen on it.
    pub receiver: Option<String>,
    pub topic: String,
    /// Messages that are not acknowledged yet.
    pub pending: u64,
    /// What they cost, in bytes ([`Pending::bytes`](crate::Pending::bytes)).
    pub pending_bytes: u64,
    /// How long ago the oldest of them was accepted, in milliseconds; None: none is pending
    /// ([`Pending::oldest_ms`](crate::Pending::oldest_ms)).
    pub oldest_age_ms: Option<u64>,
    /// None: there is no receiver yet.
    pub connection: Option<ReceiverState>,
    /// Why the receiver is not connected.
    pub reason: Option<String>,
    /// How many bytes may be sent to the receiver before it has handled more; None: it is not connected. The topics of
    /// a receiver share it.
    pub credit_bytes: Option<u64>,
    /// Of the messages to one, which are counted under no receiver, those that this receiver has.
    pub assigned: u64,
    /// Messages accepted from calls, from the stream of another receiver, or from what was kept for later subscribers.
    pub accepted: u64,
    /// Messages put on a connection for the first time, and again after a connection was lost, since the client was
    /// started. A message that follows a later one of its stream counts as sent again, even if it was never sent;
    /// after a restart all others count as sent for the first time.
    pub sent: u64,
    pub sent_again: u64,
    /// Messages that the receiver has handled.
    pub acknowledged: u64,
    /// Messages whose time to live was over, by this client's clock, before they were sent.
    pub expired: u64,
    /// Messages whose time to live was over, by the receiver's clock, when they arrived there or before they were
    /// handled. A receiver of an earlier version does not tell: these count as acknowledged.
    pub expired_at_receiver: u64,
    /// Messages that the receiver has given up; each is kept as a dead letter.
    pub dead_letters: u64,
    /// Messages dropped because of [`Builder::retain_for`](crate::Builder::retain_for),
    /// [`Builder::retain_bytes`](crate::Builder::retain_bytes) or [`Client::forget`](crate::Client::forget).
    pub dropped: u64,
    /// Messages copied to another receiver's stream.
    pub reassigned: u64,
    /// Messages removed by calls, as [`Client::clear_pending`](crate::Client::clear_pending), or by requeueing.
    pub cleared: u64,
}

/// Messages on one topic from one sender.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct IncomingStatistics {
    pub sender: String,
    pub topic: String,
    /// The sender has a connection to this client.
    pub connected: bool,
    /// Messages that have arrived, each once.
    pub received: u64,
    /// Messages that were dropped, since they had arrived before.
    pub duplicates: u64,
    /// First deliveries to handlers and callers, and further ones of the same messages.
    pub delivered: u64,
    pub redelivered: u64,
    pub acknowledged: u64,
    /// Deliveries that failed, or took longer than [`Builder::ack_within`](crate::Builder::ack_within).
    pub failed: u64,
    /// Deliveries that were put off ([`Delivery::nack`](crate::Delivery::nack)).
    pub put_off: u64,
    /// Messages that this client has given up, too large ones among them.
    pub given_up: u64,
    /// Messages whose time to live was over on arrival, or while they waited.
    pub expired: u64,
    /// Messages that wait to be delivered, for the first time or again, and the bytes of their bodies.
    pub waiting: u64,
    pub waiting_bytes: u64,
    /// Messages that were delivered and are not settled.
    pub in_hand: u64,
}

/// A peer that is not admitted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NotAdmitted {
    /// Its address without a port; or its name, if it has authenticated and uses the name of another client.
    pub address: String,
    pub reason: String,
    /// How often it has tried.
    pub attempts: u64,
    /// How long ago it tried last, in milliseconds.
    pub age_ms: u64,
}

/// The store that a client shares with the others of its directory in this process.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StoreStatistics {
    /// Bytes of its files, with spare ones.
    pub disk_bytes: u64,
    /// [`Builder::disk_limit`](crate::Builder::disk_limit); None: without limit.
    pub disk_limit_bytes: Option<u64>,
    /// Files in use.
    pub segments: u64,
    /// What messages of [`Durability::Memory`](crate::Durability::Memory) cost: their bytes, and 64 for each part.
    pub memory_bytes: u64,
    /// [`Builder::memory_limit`](crate::Builder::memory_limit) of this client.
    pub memory_limit_bytes: u64,
    /// How often the log was synced, and the time that took in all, in microseconds.
    pub syncs: u64,
    pub sync_us: u64,
}

/// The connection to a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiverState {
    /// The registry does not know the receiver.
    Unknown,
    /// The registry shows it as away.
    Away,
    /// It should be there, and has not answered yet.
    Connecting,
    Connected,
    /// It is there and does not take messages, or its endpoint cannot be connected to.
    Refused,
    /// It has not answered for several seconds.
    Unanswered,
}

impl ReceiverState {
    pub const ALL: [ReceiverState; 6] = [
        ReceiverState::Unknown,
        ReceiverState::Away,
        ReceiverState::Connecting,
        ReceiverState::Connected,
        ReceiverState::Refused,
        ReceiverState::Unanswered,
    ];

    /// Its name in JSON and in Prometheus' label `state`.
    pub fn name(self) -> &'static str {
        match self {
            ReceiverState::Unknown => "unknown",
            ReceiverState::Away => "away",
            ReceiverState::Connecting => "connecting",
            ReceiverState::Connected => "connected",
            ReceiverState::Refused => "refused",
            ReceiverState::Unanswered => "unanswered",
        }
    }
}

impl Statistics {
    /// As JSON, on one line: an object with the names of the structs.
    pub fn to_json(&self) -> String {
        // A struct of numbers and texts can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// In Prometheus' text format, version 0.0.4.
    pub fn to_prometheus(&self) -> String {
        prometheus::statistics(&[(None, self)])
    }
}
