//! Reports the messages that a sending socket accepted and then lost, by the socket's own counts.
//!
//! Every message must arrive, or the exit code reports the loss. Publishers are different: by their pattern, a slow
//! subscriber misses messages, so drops of PUB, XPUB and RADIO are reported but are no failure. Messages left for a
//! subscriber that disconnects do not count as lost.

use pinnace::{Drops, Reason, SocketType};

use crate::outcome::{Failure, Outcome, say};

/// Reasons that count as losses on the sending side. `Malformed` counts only for types that need a leading address
/// frame; for the others it concerns incoming messages.
const LOST: [Reason; 7] = [
    Reason::Full,
    Reason::Unroutable,
    Reason::PeerLost,
    Reason::Cut,
    Reason::Limit,
    Reason::NoMemory,
    Reason::Expired,
];
const DROPPED_BY_PUBLISHERS: [Reason; 4] =
    [Reason::Full, Reason::Unroutable, Reason::Limit, Reason::NoMemory];

/// Whether this type drops messages by its pattern.
pub fn publishes(socket_type: SocketType) -> bool {
    matches!(socket_type, SocketType::Pub | SocketType::XPub | SocketType::Radio)
}

/// Fails if messages were lost, with their number and reasons. Drops of publishers are reported here, and are no
/// failure.
pub fn check(socket_type: SocketType, drops: &Drops) -> Outcome {
    let publishes = publishes(socket_type);
    let counts = |reason: &Reason| match (socket_type, reason) {
        (SocketType::Router | SocketType::Dgram, Reason::Malformed) => true,
        // For DGRAM this counts incoming datagrams that were not received.
        (SocketType::Dgram, Reason::Full) => false,
        _ if publishes => DROPPED_BY_PUBLISHERS.contains(reason),
        _ => LOST.contains(reason),
    };
    let lost: Vec<_> =
        Reason::ALL.into_iter().filter(counts).filter(|&reason| drops.of(reason) > 0).collect();
    let count: u64 = lost.iter().map(|&reason| drops.of(reason)).sum();
    let reasons = lost.iter().map(|reason| reason.name()).collect::<Vec<_>>().join(", ");
    match count {
        0 => Ok(()),
        _ if publishes => {
            say(format!("messages dropped, counted once per subscriber: {count} ({reasons})"));
            Ok(())
        }
        _ => Err(Failure::Failed(format!("messages lost: {count} ({reasons})"))),
    }
}
