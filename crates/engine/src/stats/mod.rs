//! Statistics: the messages that a socket and each of its peers have transferred, queued and lost.
//!
//! They cost nothing on the message path: the queues count in any case, and everything else is counted at rare
//! events. Reading them takes the socket's lock briefly.

mod family;
mod json;
mod prometheus;

use std::sync::atomic::Ordering;
use std::time::Duration;

use pinnace_zmtp::{SocketType, Version};

use crate::drops::Drops;
use crate::error::Error;
use crate::events::Events;
use crate::link::Link;
use crate::medium::Medium;
use crate::pipe::{Far, Pipe, Traffic, traffic};
use crate::socket::{Core, Socket};

pub use family::Family;
pub use prometheus::prometheus;

/// One peer, or an endpoint that is being connected.
#[derive(Debug, Clone)]
pub struct PeerStats {
    /// Identifies the peer in calls (`Socket::kick`); never reused.
    pub number: u64,
    /// Our endpoint of the connection; empty over inproc.
    pub endpoint: String,
    /// The peer's IP address, or "localhost:uid:gid:pid" for a local process; empty over inproc and while not
    /// connected.
    pub address: String,
    pub routing_id: Vec<u8>,
    /// None: unknown, or not known yet.
    pub socket_type: Option<String>,
    pub mechanism: &'static str,
    /// Assigned by the ZAP handler (RFC 27).
    pub user_id: Vec<u8>,
    pub version: Version,
    /// Connected, with the handshake completed.
    pub connected: bool,
    /// How often the connection was lost and re-established.
    pub reconnects: u64,
    pub received: Traffic,
    pub sent: Traffic,
    pub drops: Drops,
    /// Round-trip time of the last PING, else the kernel's estimate for tcp. None: unknown.
    pub round_trip: Option<Duration>,
    /// The medium that carries the messages; None over inproc and while not connected.
    pub medium: Option<Medium>,
}

/// Statistics of a socket at one moment.
#[derive(Debug, Clone)]
pub struct Stats {
    pub socket_type: SocketType,
    /// Over all peers, including those that are gone.
    pub received: Traffic,
    pub sent: Traffic,
    pub drops: Drops,
    /// How often each event of zmq_socket_monitor(3) has occurred, monitored or not.
    pub events: Events,
    /// Events dropped because the monitor had no room.
    pub events_dropped: u64,
    /// Peers that are gone, with all their messages received.
    pub ended_peers: u64,
    pub peers: Vec<PeerStats>,
}

impl Socket {
    /// The socket's statistics.
    pub fn stats(self) -> Result<Stats, Error> {
        self.visit(|core| Ok(core.stats()))
    }
}

impl Core {
    fn stats(&mut self) -> Stats {
        let mut drops = self.pipes.drops;
        drops.absorb(&self.mailbox.lost.read());
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
            events: self.mailbox.monitoring.events.read(),
            events_dropped: self.mailbox.monitoring.dropped.load(Ordering::Relaxed),
            ended_peers: self.ended_peers(),
            peers,
        }
    }
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
        medium: link.map(Link::medium),
    }
}
