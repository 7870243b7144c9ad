//! Statistics: what a socket and each of its peers have moved, hold and lost.
//!
//! They cost the way of a message nothing: the queues count anyhow, and everything else is counted where
//! something rare happens. Reading them takes the socket's lock for a moment.

mod json;
mod prometheus;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pinnace_ring::{Amount, Books};
use pinnace_zmtp::{SocketType, Version};

use crate::drops::Drops;
use crate::error::Error;
use crate::link::{Carrier, Link};
use crate::monitor::Event;
use crate::pipe::{Far, Pipe};
use crate::socket::{Core, Socket};

pub use prometheus::prometheus;

/// What went one way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages: in, those that the socket has received from the queue; out, those that the kernel has taken, or
    /// over inproc the peer. Subscriptions and other commands are none.
    pub messages: u64,
    /// Their bytes, with the headers of ZMTP 3 and before any encryption.
    pub bytes: u64,
    /// Messages that wait in the queue.
    pub queued: u64,
}

impl Traffic {
    fn add(&mut self, other: Traffic) {
        self.add_past(other);
        self.queued += other.queued;
    }

    /// Adds what a queue has moved that is gone.
    pub(crate) fn add_past(&mut self, other: Traffic) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// One peer, or an endpoint that is connecting.
#[derive(Debug, Clone)]
pub struct PeerStats {
    /// Stands for the peer in calls (`Socket::kick`); never used again.
    pub number: u64,
    /// The endpoint of ours that it came by; empty over inproc.
    pub endpoint: String,
    /// Where it is: an IP address, "localhost:uid:gid:pid" of a local process; empty over inproc, and while there
    /// is no connection.
    pub address: String,
    pub routing_id: Vec<u8>,
    /// None: not known, or not yet.
    pub socket_type: Option<String>,
    pub mechanism: &'static str,
    /// What a ZAP handler (RFC 27) called it.
    pub user_id: Vec<u8>,
    pub version: Version,
    /// It is there: connected, and its handshake is over.
    pub connected: bool,
    /// How often the connection was lost and made again.
    pub reconnects: u64,
    pub received: Traffic,
    pub sent: Traffic,
    pub drops: Drops,
    /// The round trip: of the last PING, else what the kernel estimates for tcp. None: not known.
    pub round_trip: Option<Duration>,
    /// How its messages move; None over inproc, and while there is no connection.
    pub carrier: Option<Carrier>,
}

/// A socket at one moment.
#[derive(Debug, Clone)]
pub struct Stats {
    pub socket_type: SocketType,
    /// Over all peers, those that have gone too.
    pub received: Traffic,
    pub sent: Traffic,
    pub drops: Drops,
    /// How often each event of zmq_socket_monitor(3) has happened, whether or not it was monitored.
    pub events: Events,
    /// Events that a monitor had no room for.
    pub events_dropped: u64,
    /// Peers that have come and are gone, and of which all was received.
    pub ended_peers: u64,
    pub peers: Vec<PeerStats>,
}

/// Counts of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Events([u64; EVENTS.len()]);

impl Events {
    /// All of them: name and count.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        EVENTS.iter().zip(self.0).map(|(&(_, name), count)| (name, count))
    }

    /// The count of an event by its name here.
    pub fn of(&self, name: &str) -> u64 {
        self.iter().find(|&(other, _)| other == name).map_or(0, |(_, count)| count)
    }
}

const EVENTS: [(Event, &str); 13] = [
    (Event::Connected, "connected"),
    (Event::ConnectDelayed, "connect_delayed"),
    (Event::ConnectRetried, "connect_retried"),
    (Event::Listening, "listening"),
    (Event::BindFailed, "bind_failed"),
    (Event::Accepted, "accepted"),
    (Event::AcceptFailed, "accept_failed"),
    (Event::Closed, "closed"),
    (Event::Disconnected, "disconnected"),
    (Event::HandshakeFailedNoDetail, "handshake_failed_no_detail"),
    (Event::HandshakeSucceeded, "handshake_succeeded"),
    (Event::HandshakeFailedProtocol, "handshake_failed_protocol"),
    (Event::HandshakeFailedAuth, "handshake_failed_auth"),
];

/// Where events are counted, by those who see them.
#[derive(Default)]
pub(crate) struct EventCounts([AtomicU64; EVENTS.len()]);

impl EventCounts {
    pub(crate) fn count(&self, event: Event) {
        if let Some(index) = EVENTS.iter().position(|&(other, _)| other == event) {
            self.0[index].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&self) -> Events {
        Events(std::array::from_fn(|index| self.0[index].load(Ordering::Relaxed)))
    }
}

impl Socket {
    /// The socket's statistics.
    pub fn stats(self) -> Result<Stats, Error> {
        self.look(|core| Ok(core.stats()))
    }
}

impl Core {
    fn stats(&mut self) -> Stats {
        let mut drops = self.pipes.drops;
        drops.absorb(&self.hub.lost.read());
        let (mut received, mut sent) = self.pipes.past();
        let mut peers = Vec::new();
        let ids: Vec<_> = self.pipes.ids().collect();
        for id in ids {
            let endpoint = self.endpoint_of(id).unwrap_or_default().to_owned();
            if let Some(pipe) = self.pipes.get(id) {
                let peer = peer(pipe, endpoint);
                received.add(peer.received);
                sent.add(peer.sent);
                peers.push(peer);
            }
        }
        Stats {
            socket_type: self.kind.socket_type,
            received,
            sent,
            drops,
            events: self.hub.events.read(),
            events_dropped: self.hub.events_dropped.load(Ordering::Relaxed),
            ended_peers: self.ended_peers(),
            peers,
        }
    }
}

/// What a pipe has moved so far: in, out.
fn traffic(pipe: &Pipe) -> (Traffic, Traffic) {
    let (consumed, bytes) = pipe.rx.consumed();
    let (dropped, waiting) =
        pipe.inlet.as_ref().map_or_else(Default::default, |inlet| (inlet.dropped(), inlet.waiting()));
    let received = Traffic {
        messages: consumed.saturating_sub(pipe.commands_in + dropped.messages),
        bytes: bytes.saturating_sub(dropped.bytes),
        queued: pipe.rx.backlog() + waiting.messages,
    };
    let Books { taken, waiting } = books(pipe);
    (received, sent(pipe, taken, waiting.messages))
}

/// The same of one that goes. What waits in it is its peer's, where that is still there (inproc).
pub(crate) fn past(pipe: &Pipe) -> (Traffic, Traffic) {
    let Books { mut taken, waiting } = books(pipe);
    let is_abandoned =
        pipe.outlet.as_ref().map_or_else(|| pipe.tx.is_abandoned(), |outlet| outlet.is_abandoned());
    if !is_abandoned {
        taken += waiting;
    }
    (traffic(pipe).0, sent(pipe, taken, 0))
}

/// What has become of all that was sent into a pipe.
fn books(pipe: &Pipe) -> Books {
    pipe.outlet.as_ref().map_or_else(|| pipe.tx.books(), |outlet| outlet.books(&pipe.tx))
}

fn sent(pipe: &Pipe, taken: Amount, queued: u64) -> Traffic {
    Traffic { messages: taken.messages.saturating_sub(pipe.commands_out), bytes: taken.bytes, queued }
}

fn peer(pipe: &Pipe, endpoint: String) -> PeerStats {
    let about = |name: &str| pipe.peer.about.as_ref().and_then(|about| about.get(name)).unwrap_or_default();
    let text = |name: &str| String::from_utf8_lossy(about(name)).into_owned();
    let link: Option<&Link> = match &pipe.far {
        Far::Link(link) => link.as_deref(),
        Far::Socket { .. } => None,
    };
    let (received, sent) = traffic(pipe);
    PeerStats {
        number: pipe.number,
        endpoint: link.map_or(endpoint, |link| link.config.ends.ours().to_owned()),
        address: text("Peer-Address"),
        routing_id: pipe.peer.routing_id.clone(),
        socket_type: Some(text("Socket-Type")).filter(|name| !name.is_empty()),
        mechanism: pipe.peer.mechanism,
        user_id: about("User-Id").to_vec(),
        version: pipe.peer.version,
        connected: pipe.up && !pipe.ended,
        reconnects: link.map_or(0, |link| link.config.connection),
        received,
        sent,
        drops: pipe.drops.as_deref().copied().unwrap_or_default(),
        round_trip: link.and_then(Link::round_trip),
        carrier: link.map(Link::carrier),
    }
}
