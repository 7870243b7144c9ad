//! Statistics in Prometheus' text format. Times are in seconds and sizes in bytes, as its conventions ask for.

use std::collections::BTreeMap;

use pinnace_engine::Family;

use super::{IncomingStatistics, OutgoingStatistics, ReceiverState, Statistics};
use crate::environment::now_ms;
use crate::{Pending, Sender};

/// Milliseconds as seconds.
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// A metric of an outgoing or incoming stream: name, type, help text, and its value; None: no sample.
type Metric<S> = (&'static str, &'static str, &'static str, fn(&S) -> Option<f64>);

const OUTGOING: &[Metric<OutgoingStatistics>] = &[
    ("pinnace_delivery_pending_messages", "gauge", PENDING_HELP, |of| Some(of.pending as f64)),
    ("pinnace_delivery_pending_bytes", "gauge", BYTES_HELP, |of| Some(of.pending_bytes as f64)),
    ("pinnace_delivery_oldest_pending_age_seconds", "gauge", AGE_HELP, |of| {
        Some(of.oldest_age_ms.map_or(0.0, seconds))
    }),
    ("pinnace_delivery_credit_bytes", "gauge", "Bytes that may be sent before more are handled.", |of| {
        of.credit_bytes.map(|bytes| bytes as f64)
    }),
    ("pinnace_delivery_assigned_messages", "gauge", "Messages to one that the receiver has.", |of| {
        of.receiver.as_ref().map(|_| of.assigned as f64)
    }),
    ("pinnace_delivery_accepted_messages_total", "counter", "Messages accepted to be sent.", |of| {
        Some(of.accepted as f64)
    }),
    ("pinnace_delivery_sent_messages_total", "counter", "Messages sent for the first time.", |of| {
        Some(of.sent as f64)
    }),
    (
        "pinnace_delivery_sent_again_messages_total",
        "counter",
        "Messages sent again, or after later ones.",
        |of| Some(of.sent_again as f64),
    ),
    ("pinnace_delivery_acknowledged_messages_total", "counter", "Messages that receivers handled.", |of| {
        Some(of.acknowledged as f64)
    }),
    ("pinnace_delivery_expired_messages_total", "counter", "Messages not sent in time.", |of| {
        Some(of.expired as f64)
    }),
    (
        "pinnace_delivery_expired_at_receiver_messages_total",
        "counter",
        "Messages not handled in time, by the receiver's clock.",
        |of| Some(of.expired_at_receiver as f64),
    ),
    ("pinnace_delivery_dead_letters_total", "counter", "Messages that receivers gave up.", |of| {
        Some(of.dead_letters as f64)
    }),
    ("pinnace_delivery_dropped_messages_total", "counter", "Messages dropped by limits.", |of| {
        Some(of.dropped as f64)
    }),
    ("pinnace_delivery_reassigned_messages_total", "counter", "Messages moved to other receivers.", |of| {
        Some(of.reassigned as f64)
    }),
    ("pinnace_delivery_cleared_messages_total", "counter", "Messages removed by calls.", |of| {
        Some(of.cleared as f64)
    }),
];

const INCOMING: &[Metric<IncomingStatistics>] = &[
    ("pinnace_delivery_sender_connected", "gauge", "Whether the sender is connected: 1 or 0.", |of| {
        Some(f64::from(u8::from(of.connected)))
    }),
    ("pinnace_delivery_received_messages_total", "counter", "Messages that arrived.", |of| {
        Some(of.received as f64)
    }),
    ("pinnace_delivery_duplicate_messages_total", "counter", "Messages that arrived again.", |of| {
        Some(of.duplicates as f64)
    }),
    ("pinnace_delivery_delivered_messages_total", "counter", "Messages delivered to handlers.", |of| {
        Some(of.delivered as f64)
    }),
    ("pinnace_delivery_redelivered_messages_total", "counter", "Further deliveries of messages.", |of| {
        Some(of.redelivered as f64)
    }),
    ("pinnace_delivery_handled_messages_total", "counter", "Messages acknowledged by handlers.", |of| {
        Some(of.acknowledged as f64)
    }),
    ("pinnace_delivery_failed_deliveries_total", "counter", "Deliveries that failed.", |of| {
        Some(of.failed as f64)
    }),
    ("pinnace_delivery_put_off_deliveries_total", "counter", "Deliveries that were put off.", |of| {
        Some(of.put_off as f64)
    }),
    ("pinnace_delivery_given_up_messages_total", "counter", "Messages that this client gave up.", |of| {
        Some(of.given_up as f64)
    }),
    ("pinnace_delivery_incoming_expired_messages_total", "counter", "Messages that came too late.", |of| {
        Some(of.expired as f64)
    }),
    ("pinnace_delivery_waiting_messages", "gauge", "Messages that wait to be delivered.", |of| {
        Some(of.waiting as f64)
    }),
    ("pinnace_delivery_waiting_bytes", "gauge", "Bytes of the messages that wait.", |of| {
        Some(of.waiting_bytes as f64)
    }),
    ("pinnace_delivery_in_hand_messages", "gauge", "Messages delivered and not settled.", |of| {
        Some(of.in_hand as f64)
    }),
];

const PENDING_HELP: &str = "Messages that are not acknowledged.";
const BYTES_HELP: &str = "What pending messages cost, in bytes.";
const AGE_HELP: &str = "Age of the oldest pending message; 0: there is none.";

/// The statistics of a client; the label `store` if there are several stores.
pub(super) type Labelled<'a> = (Option<&'a str>, &'a Statistics);

/// The statistics of clients as one exposition.
pub(super) fn statistics(all: &[Labelled<'_>]) -> String {
    let mut found = vec![
        each(all, "pinnace_delivery_uptime_seconds", "gauge", "Time since the client was started.", |of| {
            seconds(of.uptime_ms)
        }),
        each(
            all,
            "pinnace_delivery_registry_up",
            "gauge",
            "0: the client's registry fails; 1: it does not.",
            |of| f64::from(u8::from(of.registry_error.is_none())),
        ),
        each(
            all,
            "pinnace_delivery_not_admitted_total",
            "counter",
            "Attempts of peers to connect that were not admitted.",
            |of| of.not_admitted_total as f64,
        ),
    ];
    found.extend(families(
        OUTGOING,
        all,
        |of| &of.outgoing,
        |of| [("topic", of.topic.as_str()), ("receiver", of.receiver.as_deref().unwrap_or_default())],
    ));
    found.push(connections(all));
    found.extend(families(
        INCOMING,
        all,
        |of| &of.incoming,
        |of| [("topic", of.topic.as_str()), ("sender", of.sender.as_str())],
    ));
    found.extend(stores(all));
    found.iter().map(Family::to_string).collect()
}

/// The labels of a client, and further ones.
fn labels<'a>((store, of): &Labelled<'a>, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let store = store.map(|store| ("store", store));
    store.into_iter().chain([("client", of.client.as_str())]).chain(more.iter().copied()).collect()
}

/// A family with one sample for each client.
fn each(
    all: &[Labelled<'_>],
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: impl Fn(&Statistics) -> f64,
) -> Family {
    let mut family = Family::new(name, kind, help);
    for of in all {
        match value(of.1) {
            value if value.is_finite() => family.add(&labels(of, &[]), value),
            _ => family.add(&labels(of, &[]), "+Inf"),
        }
    }
    family
}

/// The families of some metrics, with the samples of all streams of all clients.
fn families<'s, S: 's>(
    metrics: &[Metric<S>],
    all: &[Labelled<'s>],
    streams: impl Fn(&'s Statistics) -> &'s [S],
    own: impl Fn(&'s S) -> [(&'s str, &'s str); 2],
) -> Vec<Family> {
    let family = |(name, kind, help, value): &Metric<S>| {
        let mut family = Family::new(name, kind, help);
        for client in all {
            for of in streams(client.1) {
                if let Some(value) = value(of) {
                    family.add(&labels(client, &own(of)), value);
                }
            }
        }
        family
    };
    metrics.iter().map(family).collect()
}

/// For each receiver one sample per state, of which one is 1.
fn connections(all: &[Labelled<'_>]) -> Family {
    let help = "The state of the connection to a receiver: 1, and 0 for the others.";
    let mut family = Family::new("pinnace_delivery_receiver_state", "gauge", help);
    for client in all {
        let known = client.1.outgoing.iter().filter_map(|of| Some((of.receiver.as_deref()?, of.connection?)));
        for (receiver, connection) in known.collect::<BTreeMap<&str, ReceiverState>>() {
            for state in ReceiverState::ALL {
                let own = [("receiver", receiver), ("state", state.name())];
                family.add(&labels(client, &own), u8::from(state == connection));
            }
        }
    }
    family
}

fn stores(all: &[Labelled<'_>]) -> Vec<Family> {
    let no_limit = "The most of them; +Inf: no limit.";
    let memory = "Bytes of messages that are held in memory.";
    vec![
        each(all, "pinnace_delivery_store_disk_bytes", "gauge", "Bytes of the store's files.", |of| {
            of.store.disk_bytes as f64
        }),
        each(all, "pinnace_delivery_store_disk_limit_bytes", "gauge", no_limit, |of| {
            of.store.disk_limit_bytes.map_or(f64::INFINITY, |bytes| bytes as f64)
        }),
        each(all, "pinnace_delivery_store_segments", "gauge", "Files of the log in use.", |of| {
            of.store.segments as f64
        }),
        each(all, "pinnace_delivery_store_memory_bytes", "gauge", memory, |of| of.store.memory_bytes as f64),
        each(all, "pinnace_delivery_store_memory_limit_bytes", "gauge", "The most of them.", |of| {
            of.store.memory_limit_bytes as f64
        }),
        each(all, "pinnace_delivery_store_syncs_total", "counter", "Syncs of the log.", |of| {
            of.store.syncs as f64
        }),
        each(
            all,
            "pinnace_delivery_store_sync_seconds_total",
            "counter",
            "Time that syncs of the log took.",
            |of| of.store.sync_us as f64 / 1e6,
        ),
    ]
}

/// The pending messages of stores' clients ([`peek`](crate::peek())) in Prometheus' text format, version 0.0.4, in the
/// families of [`Statistics::to_prometheus`]. Each store is a label.
pub fn pending_to_prometheus<'a>(stores: impl IntoIterator<Item = (&'a str, &'a [Sender])>) -> String {
    let now_ms = now_ms();
    let mut messages = Family::new("pinnace_delivery_pending_messages", "gauge", PENDING_HELP);
    let mut bytes = Family::new("pinnace_delivery_pending_bytes", "gauge", BYTES_HELP);
    let mut age = Family::new("pinnace_delivery_oldest_pending_age_seconds", "gauge", AGE_HELP);
    for (store, senders) in stores {
        for sender in senders {
            // A receiver may have several streams of a topic; a sample may appear once.
            let mut all: BTreeMap<(&str, Option<&str>), (u64, u64, u64)> = BTreeMap::new();
            for Pending { receiver, topic, messages, bytes, oldest_ms } in &sender.pending {
                let entry = all.entry((topic, receiver.as_deref())).or_default();
                let age = oldest_ms.map_or(0, |ms| now_ms.saturating_sub(ms));
                *entry = (entry.0 + messages, entry.1 + bytes, entry.2.max(age));
            }
            for ((topic, receiver), of) in all {
                let labels = [
                    ("store", store),
                    ("client", sender.name.as_str()),
                    ("topic", topic),
                    ("receiver", receiver.unwrap_or_default()),
                ];
                messages.add(&labels, of.0);
                bytes.add(&labels, of.1);
                age.add(&labels, seconds(of.2));
            }
        }
    }
    [messages, bytes, age].iter().map(Family::to_string).collect()
}
