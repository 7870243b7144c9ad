//! Statistics in Prometheus' text format, version 0.0.4 ("Exposition formats").

use std::fmt::Write;

use super::{Stats, Traffic};
use crate::drops::Reason;

/// One metric family: name, type, help text, and samples as (labels, value).
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: Vec<(String, u64)>,
}

/// The statistics of several sockets as one exposition. Each socket has a name, which becomes the label `socket`.
pub fn prometheus<'a>(sockets: impl IntoIterator<Item = (&'a str, &'a Stats)>) -> String {
    let mut families = families();
    for (name, stats) in sockets {
        let labels = format!("socket=\"{}\",type=\"{}\"", escaped(name), stats.socket_type.name());
        collect(&mut families, &labels, stats);
    }
    let mut text = String::new();
    for Family { name, kind, help, samples } in families {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
    }
    text
}

const MESSAGES: usize = 0;
const BYTES: usize = 1;
const QUEUED: usize = 2;
const DROPPED: usize = 3;
const EVENTS: usize = 4;
const UNTOLD: usize = 5;
const PEERS: usize = 6;
const ENDED: usize = 7;
const PEER_QUEUED: usize = 8;
const ROUND_TRIP: usize = 9;

fn families() -> [Family; 10] {
    let family = |name, kind, help| Family { name, kind, help, samples: Vec::new() };
    [
        family("pinnace_messages_total", "counter", "Messages received and sent."),
        family("pinnace_bytes_total", "counter", "Bytes received and sent, with ZMTP headers."),
        family("pinnace_queued_messages", "gauge", "Messages that wait in queues."),
        family("pinnace_dropped_messages_total", "counter", "Messages lost, by reason."),
        family("pinnace_events_total", "counter", "Events of connections."),
        family("pinnace_events_dropped_total", "counter", "Events that a monitor had no room for."),
        family("pinnace_peers", "gauge", "Peers that are connected."),
        family(
            "pinnace_ended_peers_total",
            "counter",
            "Peers that have gone, all of whose messages were received.",
        ),
        family("pinnace_peer_queued_messages", "gauge", "Messages that wait in one peer's queues."),
        family("pinnace_peer_round_trip_microseconds", "gauge", "Round trip time to one peer."),
    ]
}

fn collect(families: &mut [Family; 10], labels: &str, stats: &Stats) {
    let mut put = |family: usize, more: &str, value: u64| {
        let comma = if more.is_empty() { "" } else { "," };
        families[family].samples.push((format!("{labels}{comma}{more}"), value));
    };
    let ways: [(&str, Traffic); 2] = [("in", stats.received), ("out", stats.sent)];
    for (way, traffic) in ways {
        let way = format!("direction=\"{way}\"");
        put(MESSAGES, &way, traffic.messages);
        put(BYTES, &way, traffic.bytes);
        put(QUEUED, &way, traffic.queued);
    }
    for reason in Reason::ALL {
        put(DROPPED, &format!("reason=\"{}\"", reason.name()), stats.drops.of(reason));
    }
    for (event, count) in stats.events.iter() {
        put(EVENTS, &format!("event=\"{event}\""), count);
    }
    put(UNTOLD, "", stats.events_dropped);
    put(PEERS, "", stats.peers.iter().filter(|peer| peer.connected).count() as u64);
    put(ENDED, "", stats.ended_peers);
    for peer in &stats.peers {
        let of = format!("peer=\"{}\",address=\"{}\"", peer.number, escaped(&peer.address));
        put(PEER_QUEUED, &format!("{of},direction=\"in\""), peer.received.queued);
        put(PEER_QUEUED, &format!("{of},direction=\"out\""), peer.sent.queued);
        if let Some(time) = peer.round_trip {
            put(ROUND_TRIP, &of, time.as_micros() as u64);
        }
    }
}

/// A label value with backslashes, quotes and line feeds escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
