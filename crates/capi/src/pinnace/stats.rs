//! Statistics as structs, as JSON and in Prometheus' text format.

use std::ffi::{c_char, c_int, c_void};

use pinnace_engine::{Drops, Error, Medium, PeerStats, Reason, Stats, Traffic, prometheus};

use super::put_text;
use crate::arguments::{SizedStruct, text};
use crate::guard::guard;
use crate::handle::socket;

/// pinnace_traffic_t.
#[repr(C)]
#[derive(Default)]
pub struct TrafficT {
    messages: u64,
    bytes: u64,
    queued: u64,
}

/// pinnace_stats_t. Later versions append members.
#[repr(C)]
pub struct StatsT {
    size: usize,
    received: TrafficT,
    sent: TrafficT,
    dropped: ByReason,
    connected: u64,
    accepted: u64,
    disconnected: u64,
    retried: u64,
    handshakes_succeeded: u64,
    handshakes_failed: u64,
    events_dropped: u64,
    peers: u64,
    ended_peers: u64,
}

/// pinnace_peer_t.
#[repr(C)]
pub struct PeerT {
    number: u64,
    received: TrafficT,
    sent: TrafficT,
    dropped: u64,
    reconnects: u64,
    round_trip_us: u64,
    connected: c_int,
    mechanism: c_int,
    routing_id_size: usize,
    routing_id: [u8; ID_MAX],
    socket_type: [c_char; 16],
    address: [c_char; 128],
    user_id: [c_char; 256],
    endpoint: [c_char; 256],
    medium: [c_char; 16],
    fallback_reason: [c_char; 64],
}

/// PINNACE_REASONS: more than there are reasons, so that a new one changes neither structs nor arrays of programs.
const REASONS: usize = 32;
/// Numbers of messages by reason.
pub(super) type ByReason = [u64; REASONS];
/// The longest routing id (255 bytes) and one unused byte.
const ID_MAX: usize = 256;

/// The numbers of `drops`; 0 in the elements that have no reason yet.
pub(super) fn by_reason(drops: &Drops) -> ByReason {
    const { assert!(Reason::ALL.len() <= REASONS) };
    let mut numbers = [0; REASONS];
    for (number, reason) in numbers.iter_mut().zip(Reason::ALL) {
        *number = drops.of(reason);
    }
    numbers
}

impl From<Traffic> for TrafficT {
    fn from(Traffic { messages, bytes, queued }: Traffic) -> TrafficT {
        TrafficT { messages, bytes, queued }
    }
}

impl StatsT {
    fn of(stats: &Stats) -> StatsT {
        let event = |name| stats.events.of(name);
        let failed = ["handshake_failed_no_detail", "handshake_failed_protocol", "handshake_failed_auth"];
        StatsT {
            size: size_of::<StatsT>(),
            received: stats.received.into(),
            sent: stats.sent.into(),
            dropped: by_reason(&stats.drops),
            connected: event("connected"),
            accepted: event("accepted"),
            disconnected: event("disconnected"),
            retried: event("connect_retried"),
            handshakes_succeeded: event("handshake_succeeded"),
            handshakes_failed: failed.into_iter().map(event).sum(),
            events_dropped: stats.events_dropped,
            peers: stats.peers.iter().filter(|peer| peer.connected).count() as u64,
            ended_peers: stats.ended_peers,
        }
    }
}

impl PeerT {
    fn of(peer: &PeerStats) -> PeerT {
        let id = &peer.routing_id[..peer.routing_id.len().min(ID_MAX)];
        let mut routing_id = [0; ID_MAX];
        routing_id[..id.len()].copy_from_slice(id);
        PeerT {
            number: peer.number,
            received: peer.received.into(),
            sent: peer.sent.into(),
            dropped: peer.drops.total(),
            reconnects: peer.reconnects,
            round_trip_us: peer.round_trip.map_or(0, |time| time.as_micros() as u64),
            connected: peer.connected.into(),
            mechanism: match peer.mechanism {
                "PLAIN" => 1,
                "CURVE" => 2,
                _ => 0,
            },
            routing_id_size: id.len(),
            routing_id,
            socket_type: c_text(peer.socket_type.as_deref().unwrap_or_default().as_bytes()),
            address: c_text(peer.address.as_bytes()),
            user_id: c_text(&peer.user_id),
            endpoint: c_text(peer.endpoint.as_bytes()),
            medium: c_text(peer.medium.map_or("", Medium::name).as_bytes()),
            fallback_reason: c_text(
                peer.medium.and_then(Medium::fallback_reason).unwrap_or_default().as_bytes(),
            ),
        }
    }
}

/// Copies as much of a text as fits, and a NUL.
fn c_text<const N: usize>(text: &[u8]) -> [c_char; N] {
    let mut bytes = [0; N];
    for (to, from) in bytes[..N - 1].iter_mut().zip(text) {
        *to = *from as c_char;
    }
    bytes
}

/// Writes the socket's statistics. On entry `stats->size` is the size of the caller's struct, and at most that much is
/// written; on return it is the size of this version's struct.
///
/// # Safety
/// `stats` must be null or point to as many bytes as its first member specifies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_socket_stats(handle: *mut c_void, stats: *mut StatsT) -> c_int {
    guard(|| {
        let socket = socket(handle)?;
        // SAFETY: the caller's promise.
        let stats = unsafe { SizedStruct::at(stats) }?;
        stats.write(&StatsT::of(&socket.stats()?));
        Ok(0)
    })
}

/// Writes at most `*count` of the socket's peers; `*count` receives the number of all peers. NULL with 0 queries only
/// the number.
///
/// # Safety
/// `count` must be null or point to a size_t, and `peers` to that many peers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_socket_peers(
    handle: *mut c_void,
    peers: *mut PeerT,
    count: *mut usize,
) -> c_int {
    guard(|| {
        let socket = socket(handle)?;
        if count.is_null() {
            return Err(Error::Fault);
        }
        // SAFETY: not null, and the caller's promise.
        let room = unsafe { count.read() };
        if peers.is_null() && room > 0 {
            return Err(Error::Fault);
        }
        let all = socket.stats()?.peers;
        for (index, peer) in all.iter().take(room).enumerate() {
            // SAFETY: the caller has room for `room` peers.
            unsafe { peers.add(index).write(PeerT::of(peer)) };
        }
        // SAFETY: as above.
        unsafe { count.write(all.len()) };
        Ok(0)
    })
}

/// The socket's statistics as JSON.
///
/// # Safety
/// `size` must be null or point to the number of bytes at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_socket_stats_json(
    handle: *mut c_void,
    buffer: *mut c_char,
    size: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| unsafe { put_text(&socket(handle)?.stats()?.to_json(), buffer, size) })
}

/// The socket's statistics in Prometheus' text format; `name` becomes the label `socket`.
///
/// # Safety
/// `name` must be null or a C string, `size` be null or point to the number of bytes at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_socket_stats_prometheus(
    handle: *mut c_void,
    name: *const c_char,
    buffer: *mut c_char,
    size: *mut usize,
) -> c_int {
    guard(|| {
        let stats = socket(handle)?.stats()?;
        // SAFETY: the caller's promises.
        unsafe { put_text(&prometheus([(text(name)?, &stats)]), buffer, size) }
    })
}
