//! Statistics in Prometheus' text format, version 0.0.4 ("Exposition formats").

use super::{Family, Stats, Traffic};
use crate::drops::Reason;

/// The statistics of several sockets as one exposition. Each socket has a name, which becomes the label `socket`.
pub fn prometheus<'a>(sockets: impl IntoIterator<Item = (&'a str, &'a Stats)>) -> String {
    let mut families = families();
    for (name, stats) in sockets {
        collect(&mut families, [("socket", name), ("type", stats.socket_type.name())], stats);
    }
    families.iter().map(Family::to_string).collect()
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
    let family = Family::new;
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

fn collect(families: &mut [Family; 10], labels: [(&str, &str); 2], stats: &Stats) {
    let mut put = |family: usize, more: &[(&str, &str)], value: u64| {
        families[family].add(&[&labels, more].concat(), value);
    };
    let ways: [(&str, Traffic); 2] = [("in", stats.received), ("out", stats.sent)];
    for (way, traffic) in ways {
        let way = [("direction", way)];
        put(MESSAGES, &way, traffic.messages);
        put(BYTES, &way, traffic.bytes);
        put(QUEUED, &way, traffic.queued);
    }
    for reason in Reason::ALL {
        put(DROPPED, &[("reason", reason.name())], stats.drops.of(reason));
    }
    for (event, count) in stats.events.iter() {
        put(EVENTS, &[("event", event)], count);
    }
    put(UNTOLD, &[], stats.events_dropped);
    put(PEERS, &[], stats.peers.iter().filter(|peer| peer.connected).count() as u64);
    put(ENDED, &[], stats.ended_peers);
    for peer in &stats.peers {
        let number = peer.number.to_string();
        let of = [("peer", number.as_str()), ("address", peer.address.as_str())];
        put(PEER_QUEUED, &[&of[..], &[("direction", "in")]].concat(), peer.received.queued);
        put(PEER_QUEUED, &[&of[..], &[("direction", "out")]].concat(), peer.sent.queued);
        if let Some(time) = peer.round_trip {
            put(ROUND_TRIP, &of, time.as_micros() as u64);
        }
    }
}
