//! `pinnace deliver peek`: the messages that a client has sent and that are not acknowledged yet, read from its store's
//! files. A process may have the store open, and nothing changes for it.

use std::time::{SystemTime, UNIX_EPOCH};

use pinnace::delivery::{Browse, PendingMessage, browse, paths};
use serde_json::{Value, json};

use super::columns::columns;
use super::letters::{SHOWN, whole_characters};
use super::recv::{add_properties, json_of_dead};
use super::stores::{require_client, stores, unseen};
use crate::outcome::{Outcome, say};
use crate::output::{hex, json_of, print};
use crate::table::deliver::Peek;

pub fn run(given: &Peek) -> Outcome {
    let store = given.data_dir.clone().unwrap_or_else(|| paths::store_of(&given.name));
    stores(Some(&store))?;
    let texts = |all: &'_ [String]| all.iter().map(String::clone).collect::<Vec<_>>();
    let (topics, receivers) = (texts(&given.topics), texts(&given.receivers));
    let found = browse(
        &store,
        &Browse {
            from: Some(&given.name),
            topics: &topics.iter().map(String::as_str).collect::<Vec<_>>(),
            receivers: &receivers.iter().map(String::as_str).collect::<Vec<_>>(),
            limit: given.count,
            preview: given.bytes,
        },
    );
    let found = found.map_err(|error| unseen(&store, error))?;
    if found.messages.is_empty() && found.omitted == 0 {
        require_client(&store, &given.name)?;
    }
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
    let text = match given.json {
        true => found.messages.iter().map(|message| format!("{}\n", to_json(given, message))).collect(),
        false => to_text(given, &found.messages, now_ms),
    };
    print(text.as_bytes())?;
    if found.omitted > 0 {
        say(format_args!("pending messages not shown: {} (--count)", found.omitted));
    }
    Ok(())
}

fn to_text(given: &Peek, messages: &[PendingMessage], now_ms: u64) -> String {
    let head = ["TOPIC", "RECEIVER", "NUMBER", "AGE", "BYTES", "BODY"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(messages.iter().map(|message| {
        let body = match given.hex {
            true => hex(&message.body),
            false => String::from_utf8_lossy(whole_characters(&message.body)).chars().take(SHOWN).collect(),
        };
        let receiver = message.receiver.clone().unwrap_or_default();
        let age = age(now_ms.saturating_sub(message.accepted_ms));
        let (number, bytes) = (message.number.to_string(), message.bytes.to_string());
        vec![message.topic.clone(), receiver, number, age, bytes, body]
    }));
    columns(&rows)
}

/// A time as its largest unit and the next: `3d4h`, `2m5s`, `0.250s`.
pub fn age(ms: u64) -> String {
    let (s, m, h) = (ms / 1000, ms / 60_000, ms / 3_600_000);
    match () {
        () if h >= 24 => format!("{}d{}h", h / 24, h % 24),
        () if h > 0 => format!("{h}h{}m", m % 60),
        () if m > 0 => format!("{m}m{}s", s % 60),
        () => format!("{s}.{:03}s", ms % 1000),
    }
}

fn to_json(given: &Peek, message: &PendingMessage) -> Value {
    let body = match given.hex {
        true => json!({ "hex": hex(&message.body) }),
        false if (message.body.len() as u64) < message.bytes => json_of(whole_characters(&message.body)),
        false => json_of(&message.body),
    };
    let mut object = json!({
        "number": message.number.to_string(),
        "topic": message.topic,
        "receiver": message.receiver,
        "accepted_ms": message.accepted_ms,
        "ttl_ms": message.ttl_ms,
        "bytes": message.bytes,
        "body": body,
    });
    let of = &message.properties;
    add_properties(
        &mut object,
        [of.id(), of.content_type(), of.traceparent(), of.tracestate(), of.ordering_key()],
        of.headers(),
    );
    if let Some(dead) = &message.dead {
        object["dead"] = json_of_dead(dead);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        let all = [0, 59_999, 60_000, 3_599_000, 3_600_000, 86_400_000, 100 * 86_400_000 + 7_200_000];
        assert_eq!(all.map(age), ["0.000s", "59.999s", "1m0s", "59m59s", "1h0m", "1d0h", "100d2h"]);
    }
}
