//! The events of a socket's connections (zmq_socket_monitor(3)), and how often each has occurred.

use std::sync::atomic::{AtomicU64, Ordering};

/// libzmq's event numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Event {
    Connected = 0x1,
    ConnectDelayed = 0x2,
    ConnectRetried = 0x4,
    Listening = 0x8,
    BindFailed = 0x10,
    Accepted = 0x20,
    AcceptFailed = 0x40,
    Closed = 0x80,
    Disconnected = 0x200,
    MonitorStopped = 0x400,
    HandshakeFailedNoDetail = 0x800,
    HandshakeSucceeded = 0x1000,
    HandshakeFailedProtocol = 0x2000,
    HandshakeFailedAuth = 0x4000,
    PipesStats = 0x1_0000,
}

/// The number of occurrences of each event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Events([u64; EVENTS.len()]);

impl Events {
    /// All events: name and count.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        EVENTS.iter().zip(self.0).map(|(&(_, name), count)| (name, count))
    }

    /// The count of one event, by its name in `iter`.
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

/// Event counters, incremented where the events occur.
#[derive(Default)]
pub(crate) struct EventCounts([AtomicU64; EVENTS.len()]);

impl EventCounts {
    pub(crate) fn count(&self, event: Event) {
        if let Some(index) = EVENTS.iter().position(|&(other, _)| other == event) {
            self.0[index].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Events {
        Events(std::array::from_fn(|index| self.0[index].load(Ordering::Relaxed)))
    }
}
