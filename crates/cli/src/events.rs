//! The events of a monitor: their names, and what their values mean.

use pinnace::EventKind;

/// The event kinds that are printed.
const KINDS: [EventKind; 14] = [
    EventKind::Connected,
    EventKind::ConnectDelayed,
    EventKind::ConnectRetried,
    EventKind::Listening,
    EventKind::BindFailed,
    EventKind::Accepted,
    EventKind::AcceptFailed,
    EventKind::Closed,
    EventKind::Disconnected,
    EventKind::Stopped,
    EventKind::HandshakeFailed,
    EventKind::HandshakeSucceeded,
    EventKind::HandshakeFailedProtocol,
    EventKind::HandshakeFailedAuth,
];

/// The meaning of an event's value.
pub fn meaning(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Connected
        | EventKind::Listening
        | EventKind::Accepted
        | EventKind::Closed
        | EventKind::Disconnected => "fd",
        EventKind::ConnectDelayed
        | EventKind::BindFailed
        | EventKind::AcceptFailed
        | EventKind::HandshakeFailed => "errno",
        EventKind::ConnectRetried => "interval_ms",
        EventKind::HandshakeFailedProtocol => "code",
        EventKind::HandshakeFailedAuth => "status",
        _ => "value",
    }
}

/// The names of all events.
pub fn names() -> Vec<&'static str> {
    KINDS.map(EventKind::name).to_vec()
}
