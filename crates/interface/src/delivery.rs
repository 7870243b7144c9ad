//! Options of a client of guaranteed delivery.

use std::time::Duration;

use pinnace_cert::{KeyPair, PublicKey};
use pinnace_delivery::{Builder, Client};

use crate::values::{BYTES, DAY_MS, FLAG, Key, Kind, Settings, TIME, TIME_OR_NONE, Unset, Value};

/// The options as set; they serve for any number of clients.
#[derive(Default)]
pub struct DeliveryOptions {
    pub name: String,
    pub topic: String,
    pub topics: Vec<String>,
    /// Those of KEYS.
    values: Settings,
    pub peers: Vec<KnownPeer>,
    pub curve: Option<KeyPair>,
    pub trusted: Vec<(String, PublicKey)>,
}

/// Another client that is known in advance.
pub struct KnownPeer {
    pub name: String,
    pub endpoint: String,
    pub topics: Vec<String>,
}

/// A client being configured. `retry` is collected here because two options set it.
struct Plan {
    builder: Builder,
    retry: (Duration, Duration),
}

/// All options, one per entry.
const KEYS: &[Key<Plan>] = &[
    Key("data_dir", Kind::Path, |plan, value| plan.with(|builder| builder.data_dir(value.path()))),
    Key("registry", Kind::Text, |plan, value| plan.with(|builder| builder.registry(value.text()))),
    Key("listen", Kind::Text, |plan, value| plan.with(|builder| builder.listen(value.text()))),
    Key("advertise", Kind::Text, |plan, value| plan.with(|builder| builder.advertise(value.text()))),
    Key("metrics", Kind::Text, |plan, value| plan.with(|builder| builder.metrics(value.text()))),
    Key("lease_ms", Kind::Number { least: 1, most: 30 * DAY_MS }, |plan, value| {
        plan.with(|builder| builder.lease(value.time()))
    }),
    Key("send_only", FLAG, |plan, value| plan.with_some(value, Builder::send_only)),
    Key("interval_ms", TIME, |plan, value| plan.with(|builder| builder.interval(value.time()))),
    Key("retry_first_ms", TIME, |plan, value| Plan { retry: (value.time(), plan.retry.1), ..plan }),
    Key("retry_most_ms", TIME, |plan, value| Plan { retry: (plan.retry.0, value.time()), ..plan }),
    Key("max_deliveries", Kind::Number { least: 0, most: u32::MAX as u64 }, |plan, value| {
        plan.with_some(value, |builder| builder.max_deliveries(value.number() as u32))
    }),
    Key("dead_letter_expired", FLAG, |plan, value| {
        plan.with(|builder| builder.dead_letter_expired(value.number() > 0))
    }),
    Key("ack_within_ms", TIME_OR_NONE, |plan, value| {
        plan.with_some(value, |builder| builder.ack_within(value.time()))
    }),
    Key("reassign_after_ms", TIME_OR_NONE, |plan, value| {
        let after = Some(value.time()).filter(|time| !time.is_zero());
        plan.with(|builder| builder.reassign_after(after))
    }),
    Key("durable", FLAG, |plan, value| plan.with(|builder| builder.durable(value.number() > 0))),
    Key("retain_for_ms", Kind::Number { least: 0, most: 3650 * DAY_MS }, |plan, value| {
        let time = Some(value.time()).filter(|time| !time.is_zero());
        plan.with(|builder| builder.retain_for(time))
    }),
    Key("retain_bytes", BYTES, |plan, value| {
        plan.with(|builder| {
            builder.retain_bytes(Some(value.number()).filter(|bytes| *bytes > 0).unwrap_or(u64::MAX))
        })
    }),
    Key("skip_failing", FLAG, |plan, value| plan.with_some(value, Builder::skip_failing)),
    Key("skip_damage", FLAG, |plan, value| plan.with_some(value, Builder::skip_damage)),
    Key("memory_limit", BYTES, |plan, value| plan.with(|builder| builder.memory_limit(value.number()))),
    Key("deduplicate_for_ms", Kind::TimeOrForever, |plan, value| {
        plan.with(|builder| builder.deduplicate_for(value.time()))
    }),
    Key("linger_ms", TIME_OR_NONE, |plan, value| plan.with(|builder| builder.linger(value.time()))),
    Key("handler_linger_ms", TIME_OR_NONE, |plan, value| {
        plan.with(|builder| builder.handler_linger(value.time()))
    }),
    Key("disk_limit", BYTES, |plan, value| {
        plan.with(|builder| {
            builder.disk_limit(Some(value.number()).filter(|bytes| *bytes > 0).unwrap_or(u64::MAX))
        })
    }),
    Key("max_body", Kind::Number { least: 1, most: u64::MAX }, |plan, value| {
        plan.with(|builder| builder.max_body(value.number() as usize))
    }),
    Key("compress_from", BYTES, |plan, value| {
        plan.with(|builder| builder.compress_from(value.number() as usize))
    }),
];

impl Plan {
    fn with(self, change: impl FnOnce(Builder) -> Builder) -> Plan {
        Plan { builder: change(self.builder), ..self }
    }

    /// As `with`, but 0 leaves the default.
    fn with_some(self, value: &Value, change: impl FnOnce(Builder) -> Builder) -> Plan {
        if value.number() == 0 { self } else { self.with(change) }
    }
}

impl DeliveryOptions {
    /// Of a client with this name, which listens on this topic.
    pub fn new(name: &str, topic: &str) -> DeliveryOptions {
        DeliveryOptions { name: name.to_owned(), topic: topic.to_owned(), ..DeliveryOptions::default() }
    }

    /// Sets one option, given as text.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Unset> {
        self.values.set(KEYS, key, value)
    }

    pub fn builder<'a>(&'a self) -> Builder {
        let retry = (Duration::from_millis(100), Duration::from_secs(60));
        let plan = Plan { builder: Client::builder(&self.name, &self.topic), retry };
        let plan = self.values.apply(KEYS, plan);
        let mut builder = plan.builder.retry(plan.retry.0, plan.retry.1);
        let texts = |topics: &'a [String]| topics.iter().map(String::as_str).collect::<Vec<&str>>();
        builder = builder.topics(&texts(&self.topics));
        for peer in &self.peers {
            builder = builder.peer(&peer.name, &peer.endpoint, &texts(&peer.topics));
        }
        if let Some(keys) = &self.curve {
            builder = builder.curve(keys);
        }
        self.trusted.iter().fold(builder, |builder, (name, key)| builder.trust(name, key))
    }
}
