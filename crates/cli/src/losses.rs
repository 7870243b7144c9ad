//! What a sender has lost of the messages that its socket accepted, by the socket's own counts.
//!
//! A message is to arrive, or the exit code tells. Publishers are different: a subscriber that is too slow misses
//! messages by their pattern, so what PUB, XPUB and RADIO have dropped is told and is no failure; what a subscriber
//! leaves behind that goes is nobody's loss.

use pinnace::{Drops, Reason, SocketType};

use crate::outcome::{Failure, Outcome, say};

/// What may be lost on the way out. `Malformed` is so for those types alone that want an address in front: of others
/// it is what came in.
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

/// Whether messages are dropped by the pattern of this type.
pub fn publishes(socket_type: SocketType) -> bool {
    matches!(socket_type, SocketType::Pub | SocketType::XPub | SocketType::Radio)
}

/// That nothing is lost; else how much, and why. What publishers have dropped is said here.
pub fn check(socket_type: SocketType, drops: &Drops) -> Outcome {
    let publishes = publishes(socket_type);
    let counts = |reason: &Reason| match (socket_type, reason) {
        (SocketType::Router | SocketType::Dgram, Reason::Malformed) => true,
        // Of datagrams: what came in, and was not received.
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
            say(format!("messages dropped, one for each subscriber that missed it: {count} ({reasons})"));
            Ok(())
        }
        _ => Err(Failure::Failed(format!("messages lost: {count} ({reasons})"))),
    }
}
