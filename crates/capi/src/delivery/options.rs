//! Options of a client, set by name as text, so that new options need no new functions.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use parking_lot::Mutex;
use pinnace_cert::{KeyPair, PublicKey};
use pinnace_delivery::{Builder, Client};
use pinnace_engine::Error;

use super::call_error::{CallError, delivery_call};
use crate::call_error::given;
pub(super) use crate::call_error::string;
use crate::registry::Registry;
use crate::settings::{
    BYTES, DAY_MS, FLAG, Key, Kind, Settings, TIME, TIME_OR_NONE, Value, keys_of, keys_of_file, public_key,
    public_key_of_file,
};

pub(super) static OPTIONS: Registry<Mutex<Options>> = Registry::new();

/// The options as set; they serve for any number of clients.
#[derive(Default)]
pub(super) struct Options {
    name: String,
    topic: String,
    topics: Vec<String>,
    /// Those of KEYS.
    values: Settings,
    peers: Vec<Peer>,
    curve: Option<KeyPair>,
    trusted: Vec<(String, PublicKey)>,
}

struct Peer {
    name: String,
    endpoint: String,
    topics: Vec<String>,
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

impl Options {
    pub(super) fn builder<'a>(&'a self) -> Builder {
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

pub(super) fn no_options(_: Error) -> CallError {
    CallError::new(libc::EFAULT, "not an options handle, or it was destroyed")
}

/// Creates the options of a client; NULL on an error.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_new(
    name: *const c_char,
    topic: *const c_char,
) -> *mut c_void {
    delivery_call(|| {
        // SAFETY: the caller's promise.
        let (name, topic) = unsafe { (string(name, "the name")?, string(topic, "the topic")?) };
        let (name, topic) = (name.to_owned(), topic.to_owned());
        Ok(OPTIONS.insert(Mutex::new(Options { name, topic, ..Options::default() })))
    })
}

/// Sets one option, given as text.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_set(
    handle: *mut c_void,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { (given(key, "the option")?, given(value, "the value")?) };
        options.lock().values.set(KEYS, key, value)?;
        Ok(0)
    })
}

/// Adds a topic that the client listens on from its start.
///
/// # Safety
/// `topic` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_topic(handle: *mut c_void, topic: *const c_char) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let topic = unsafe { string(topic, "the topic") }?.to_owned();
        options.lock().topics.push(topic);
        Ok(0)
    })
}

/// Adds another client that is known in advance, with its topics.
///
/// # Safety
/// The strings must be null or C strings, `topics` null or point to `count` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_peer(
    handle: *mut c_void,
    name: *const c_char,
    endpoint: *const c_char,
    topics: *const *const c_char,
    count: usize,
) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let (name, endpoint) =
            unsafe { (string(name, "the peer's name")?, string(endpoint, "its endpoint")?) };
        if topics.is_null() && count > 0 {
            return Err(CallError::new(libc::EFAULT, "the topics are NULL"));
        }
        let mut known = Vec::new();
        for at in 0..count {
            // SAFETY: the caller's promise.
            known.push(unsafe { string(*topics.add(at), "a topic") }?.to_owned());
        }
        let peer = Peer { name: name.to_owned(), endpoint: endpoint.to_owned(), topics: known };
        options.lock().peers.push(peer);
        Ok(0)
    })
}

/// Encrypts all of the client's traffic (CURVE) with the keys of a certificate (pinnace_cert_load).
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_options_curve(handle: *mut c_void, certificate: *mut c_void) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        let keys = keys_of(certificate)?;
        options.lock().curve = Some(keys);
        Ok(0)
    })
}

/// Adds the public key of another client, as 40 characters of Z85.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_trust(
    handle: *mut c_void,
    name: *const c_char,
    key: *const c_char,
) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let (name, key) = unsafe { (string(name, "the name")?, public_key(key)?) };
        options.lock().trusted.push((name.to_owned(), key));
        Ok(0)
    })
}

/// Encrypts all of the client's traffic (CURVE) with the keys of a certificate's file.
///
/// # Safety
/// `file` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_cert(handle: *mut c_void, file: *const c_char) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let keys = unsafe { keys_of_file(file) }?;
        options.lock().curve = Some(keys);
        Ok(0)
    })
}

/// Adds the public key of another client, from its certificate's file.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_trust_file(
    handle: *mut c_void,
    name: *const c_char,
    file: *const c_char,
) -> c_int {
    delivery_call(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let (name, key) = unsafe { (string(name, "the name")?, public_key_of_file(file)?) };
        options.lock().trusted.push((name.to_owned(), key));
        Ok(0)
    })
}

/// Destroys options. Clients started with them are unaffected.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_options_destroy(handle: *mut c_void) -> c_int {
    delivery_call(|| OPTIONS.remove(handle).map(|_| 0).map_err(no_options))
}
