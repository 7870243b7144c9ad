//! Arbitrary raw bytes at a bound socket: the good peer's messages still arrive, memory stays bounded, and the
//! handshake deadline closes the connection.

use faults::{Victim, victim};
use support::child::long;
use support::filler::Chance;
use support::peer::RawPeer;
use support::wire::*;
use support::*;

support::roles!(victim);

over_wires!(
    survives_garbage,
    survives_garbage_after_the_handshake,
    cuts_half_a_greeting,
    survives_silent_connections,
    refuses_oversized_lengths,
    survives_a_flood_of_commands,
    survives_questions_from_peers_that_have_gone,
    bounds_an_endless_message,
    bounds_endless_empty_parts,
    bounds_commands_before_the_handshake,
    survives_malformed_ready,
);

const MIB: u64 = 1 << 20;

fn opened(victim: &Victim) -> RawPeer {
    let mut peer = RawPeer::connect(&victim.endpoint);
    peer.handshake(1, "PUSH");
    peer
}

fn survives_garbage(transport: Transport) {
    let mut victim = Victim::start(transport, 500, -1);
    let mut chance = Chance::new();
    for turn in 0..if long() { 5_000 } else { 200 } {
        let mut peer = RawPeer::connect(&victim.endpoint);
        let count = 1 + chance.below(3_000) as usize;
        let mut bytes = chance.bytes(count);
        // A third of them begin like ZMTP, so that the garbage gets further in.
        if turn % 3 == 1 {
            bytes.splice(..0, greeting(1, "NULL", false));
        }
        let _ = peer.try_send(&bytes);
    }
    victim.serves(1_000);
    victim.ends();
}

fn survives_garbage_after_the_handshake(transport: Transport) {
    let mut victim = Victim::start(transport, 500, 100_000);
    let mut chance = Chance::new();
    for _ in 0..if long() { 3_000 } else { 150 } {
        let mut peer = RawPeer::connect(&victim.endpoint);
        peer.handshake(1, "PULL-LIKE");
        let mut peer = opened(&victim);
        let flags = [COMMAND, LONG | COMMAND, LONG, LONG | MORE, 0xFC][chance.below(5) as usize];
        let mut bytes = vec![flags];
        bytes.extend(chance.bytes(7));
        bytes.push(0xFF);
        bytes.extend(chance.bytes(500));
        let _ = peer.try_send(&bytes);
    }
    victim.serves(1_000);
    victim.ends();
}

/// Peers that send PINGs and leave before the answer: the thread that reads writes the answer, which fails.
fn survives_questions_from_peers_that_have_gone(transport: Transport) {
    let mut victim = Victim::start(transport, 500, -1);
    let ping = command("PING", &[0, 0, b'?']);
    for count in 1..40 {
        let mut peer = opened(&victim);
        peer.send(&ping.repeat(count));
    }
    victim.serves(1_000);
    victim.ends();
}

/// A connection that stops half-way through the greeting is closed after HANDSHAKE_IVL.
fn cuts_half_a_greeting(transport: Transport) {
    let mut victim = Victim::start(transport, 300, -1);
    let whole = [greeting(1, "NULL", false), ready("PUSH")].concat();
    let mut peers: Vec<RawPeer> = [0, 1, 9, 10, 11, 12, 32, 63, 64, 65, 80, whole.len() - 1]
        .iter()
        .map(|count| {
            let mut peer = RawPeer::connect(&victim.endpoint);
            peer.send(&whole[..*count]);
            peer
        })
        .collect();
    victim.serves(1_000);
    peers.iter_mut().for_each(|peer| drop(peer.expect_end()));
    victim.ends();
}

/// Silent connections cost little, keep no other peer out, and are closed after the deadline.
/// The long form needs a limit of 12,000 descriptors or more.
fn survives_silent_connections(transport: Transport) {
    // Two transports at once would need more descriptors than a process is allowed.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let count = if long() { 10_000 } else { 500 };
    let mut victim = Victim::start(transport, if long() { 20_000 } else { 2_000 }, -1);
    let before = victim.status();
    let peers: Vec<RawPeer> = (0..count).map(|_| RawPeer::connect(&victim.endpoint)).collect();
    victim.serves(1_000);
    victim.has_not_grown(before, count * 32 * 1024 + 4 * MIB);
    let cut = |peer: &RawPeer| peer.stirs(30_000);
    for mut peer in peers {
        assert!(cut(&peer), "cut by the deadline");
        peer.expect_end();
    }
    until("descriptors return", || victim.status().descriptors <= before.descriptors + 2);
    victim.ends();
}

/// A length that no memory could hold is refused or waited for, but memory is not allocated in advance.
fn refuses_oversized_lengths(transport: Transport) {
    let mut victim = Victim::start(transport, 500, -1);
    let before = victim.status();
    let mut open = Vec::new();
    for size in [1 << 32, 1 << 40, i64::MAX as u64 - 1, i64::MAX as u64, 1 << 63, u64::MAX - 8, u64::MAX] {
        for flags in [0, MORE, COMMAND] {
            let mut peer = opened(&victim);
            let _ = peer.try_send(&long_header(flags, size));
            let _ = peer.try_send(&[1; 1_000]);
            open.push(peer);
            let mut peer = RawPeer::connect(&victim.endpoint);
            peer.send(&greeting(1, "NULL", false));
            let _ = peer.try_send(&long_header(flags, size));
            open.push(peer);
        }
    }
    victim.serves(1_000);
    victim.has_not_grown(before, 16 * MIB);
    drop(open);
    victim.ends();
}

/// Endless PINGs from a peer that does not read the answers; subscriptions sent to a PULL.
fn survives_a_flood_of_commands(transport: Transport) {
    let mut victim = Victim::start(transport, 500, -1);
    let before = victim.status();
    let mut peer = opened(&victim);
    let flood: Vec<u8> = [
        command("PING", b"\0\0sixteen bytes ab"),
        command("SUBSCRIBE", b"to what?"),
        command("NONSENSE", &[7; 200]),
        command("PONG", b""),
        command("", b""),
        frame(COMMAND, b""),
    ]
    .concat();
    let many = flood.repeat(200);
    // The library may stop reading or hang up: either ends the flood. The peer gives up soon if its bytes are not read.
    peer.give_up_writing_after_ms(1_000);
    for _ in 0..if long() { 2_000 } else { 200 } {
        if peer.try_send(&many).is_err() {
            break;
        }
    }
    victim.serves(1_000);
    victim.has_not_grown(before, 16 * MIB);
    victim.ends();
}

/// Sends the same frames repeatedly, up to a total of bytes; the library may hang up.
fn pour(peer: &mut RawPeer, frames: &[u8], total: u64) {
    peer.give_up_writing_after_ms(2_000);
    let mut sent = 0;
    while sent < total && peer.try_send(frames).is_ok() {
        sent += frames.len() as u64;
    }
}

/// MAXMSGSIZE also bounds a message of endless parts.
///
/// Fails with libzmq 4.3.4, which applies the limit to each part and keeps all of them.
fn bounds_an_endless_message(transport: Transport) {
    let mut victim = Victim::start(transport, 500, 10_000);
    let before = victim.status();
    let mut peer = opened(&victim);
    pour(&mut peer, &frame(MORE, &[5; 1_000]).repeat(100), 128 * MIB);
    victim.serves(1_000);
    victim.has_not_grown(before, 32 * MIB);
    drop(peer);
    victim.ends();
}

/// Empty parts cost memory as well: MAXMSGSIZE also bounds their number.
///
/// Fails with libzmq 4.3.4, which keeps 64 bytes for each.
fn bounds_endless_empty_parts(transport: Transport) {
    let mut victim = Victim::start(transport, 500, 10_000);
    let before = victim.status();
    let mut peer = opened(&victim);
    pour(&mut peer, &frame(MORE, b"").repeat(10_000), 8 * MIB);
    victim.serves(1_000);
    victim.has_not_grown(before, 64 * MIB);
    drop(peer);
    victim.ends();
}

/// A peer that has not finished the handshake cannot make the library buffer much: no large READY, no stream of
/// commands.
///
/// Fails with libzmq 4.3.4, which has only MAXMSGSIZE as a limit before the handshake.
fn bounds_commands_before_the_handshake(transport: Transport) {
    let mut victim = Victim::start(transport, 5_000, -1);
    let before = victim.status();
    let mut peer = RawPeer::connect(&victim.endpoint);
    peer.send(&greeting(1, "NULL", false));
    let _ = peer.try_send(&long_header(COMMAND, 256 * MIB));
    pour(&mut peer, &[0; 100_000], 64 * MIB);
    victim.has_not_grown(before, 16 * MIB);
    let mut peer = RawPeer::connect(&victim.endpoint);
    peer.send(&greeting(1, "NULL", false));
    pour(&mut peer, &command("UNHEARD-OF", &[0; 60_000]), 64 * MIB);
    victim.serves(1_000);
    victim.has_not_grown(before, 16 * MIB);
    drop(peer);
    victim.ends();
}

/// READY with wrong lengths, without a type, with two types: only this connection is closed.
fn survives_malformed_ready(transport: Transport) {
    let mut victim = Victim::start(transport, 300, -1);
    let valid = metadata(&[("Socket-Type", b"PUSH")]);
    let mut lies: Vec<Vec<u8>> = (1..valid.len()).map(|count| valid[..count].to_vec()).collect();
    lies.push(vec![255; 300]);
    lies.push([&[0][..], &[0; 4]].concat());
    lies.push([&b"\x0bSocket-Type"[..], &u32::MAX.to_be_bytes(), b"PUSH"].concat());
    lies.push([&b"\x0bSocket-Type"[..], &0x7FFF_FFFFu32.to_be_bytes(), b"PUSH"].concat());
    lies.push(metadata(&[("Socket-Type", b"PUSH"), ("Identity", &[1; 70_000])]));
    lies.push(metadata(&[("Socket-Type", b"")]));
    for lie in &lies {
        let mut peer = RawPeer::connect(&victim.endpoint);
        peer.send(&greeting(1, "NULL", false));
        let _ = peer.try_send(&command("READY", lie));
    }
    for name in ["READ", "READYY", "ready", "HELLO", "INITIATE", "WELCOME", "ERROR"] {
        let mut peer = RawPeer::connect(&victim.endpoint);
        peer.send(&greeting(1, "NULL", false));
        let _ = peer.try_send(&command(name, &valid));
    }
    victim.serves(1_000);
    victim.ends();
}
