//! Handshakes that succeed: every version, every split of the bytes, and two of our own sides with each other.

use crate::common::{
    SIGNATURE, cat, config, drain, feed, frame, greeting, handshake, property, ready, ready_with,
};
use pinnace_zmtp::SocketType::{self, *};
use pinnace_zmtp::{Config, Peer, Version};

/// Peers that a PULL socket with the routing id "me" accepts: the bytes they send, the bytes we send, and the
/// resulting [`Peer`].
fn accepted() -> Vec<(Vec<u8>, Vec<u8>, Peer)> {
    let ours = |rest: &[&[u8]]| cat(&[b"\xff\0\0\0\0\0\0\0\x03\x7f", &rest.concat()]);
    let v3 = ours(&[&greeting(1, "NULL")[10..], &ready("PULL")]);
    let peer = |version, socket_type, routing_id: &[u8]| Peer {
        version,
        mechanism: "NULL",
        socket_type,
        routing_id: routing_id.to_vec(),
        properties: vec![],
        as_server: false,
    };
    let v3_peer = |version, properties: &[(&str, &[u8])]| Peer {
        properties: properties.iter().map(|(name, value)| (name.to_string(), value.to_vec())).collect(),
        ..peer(version, Some(Push), b"")
    };
    let rich = [("socket-TYPE", &b"PUSH"[..]), ("X-a", b""), ("Identity", b"you"), ("x-a", b"\0\xff")];
    let rich_bytes: Vec<u8> = rich.iter().flat_map(|(name, value)| property(name, value)).collect();
    // A peer of a future version, with an as-server flag and filler bytes that are meaningful to it.
    let mut server = greeting(9, "NULL");
    server[10] = 4;
    server[32] = 1;
    server[63] = 7;
    vec![
        (b"\x01\0".to_vec(), ours(&[b"me"]), peer(Version::V1_0, None, b"")),
        (b"\x04\x7fyou".to_vec(), ours(&[b"me"]), peer(Version::V1_0, None, b"you")),
        (b"\xff\0\0\0\0\0\0\0\x04\0you".to_vec(), ours(&[b"me"]), peer(Version::V1_0, None, b"you")),
        (
            cat(&[b"\xff\0\0\0\0\0\0\x01\0\0", &[7; 255]]),
            ours(&[b"me"]),
            peer(Version::V1_0, None, &[7; 255]),
        ),
        (cat(&[SIGNATURE, b"\0\xff\x01\0"]), ours(&[b"\x03\x07\x03\0me"]), peer(Version::V1_0, None, b"")),
        (
            cat(&[SIGNATURE, b"\x01\x08\0\x04\0you"]),
            ours(&[b"\x03\x07\0\x02me"]),
            peer(Version::V2_0, Some(Push), b"\0you"),
        ),
        (
            cat(&[SIGNATURE, b"\x01\x08\x02\0\0\0\0\0\0\0\x03you"]),
            ours(&[b"\x03\x07\0\x02me"]),
            peer(Version::V2_0, Some(Push), b"you"),
        ),
        (
            cat(&[&greeting(0, "NULL"), &ready("PUSH")]),
            v3.clone(),
            v3_peer(Version::V3_0, &[("Socket-Type", b"PUSH")]),
        ),
        (cat(&[&greeting(1, "NULL"), &ready_with(b"")]), v3.clone(), peer(Version::V3_1, None, b"")),
        (
            cat(&[&server, &ready_with(&rich_bytes)]),
            v3.clone(),
            Peer { routing_id: b"you".to_vec(), as_server: true, ..v3_peer(Version::V3_1, &rich) },
        ),
        (
            cat(&[&greeting(1, "NULL"), &ready("PUSH")]),
            v3.clone(),
            v3_peer(Version::V3_1, &[("Socket-Type", b"PUSH")]),
        ),
        (
            cat(&[&greeting(1, "NULL"), &ready_with(&cat(&[&property("X-long", &[9; 300]), &rich_bytes]))]),
            v3,
            Peer {
                routing_id: b"you".to_vec(),
                ..v3_peer(Version::V3_1, &[&[("X-long", &[9; 300][..])][..], &rich].concat())
            },
        ),
    ]
}

#[test]
fn every_version_is_understood() {
    for (bytes, output, peer) in accepted() {
        let seen = feed(config(Pull, b"me"), [&bytes[..]]);
        assert_eq!(seen.result, Ok(Some(peer)));
        assert_eq!(seen.output, output);
        assert_eq!(seen.consumed, bytes.len());
    }
}

#[test]
fn traffic_stays_with_the_caller() {
    for (bytes, output, peer) in accepted() {
        let with_traffic = cat(&[&bytes, b"\x00\x05hello"]);
        let seen = feed(config(Pull, b"me"), [&with_traffic[..]]);
        assert_eq!((seen.result, seen.output, seen.consumed), (Ok(Some(peer)), output, bytes.len()));
    }
}

#[test]
fn every_split_gives_the_same() {
    for (bytes, _, _) in accepted() {
        let whole = feed(config(Pull, b"me"), [&bytes[..]]);
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(feed(config(Pull, b"me"), [head, tail]), whole, "split at {at}");
            // One byte less than the whole is never enough.
            let cut = feed(config(Pull, b"me"), [head]);
            assert_eq!(cut.result.unwrap().is_some(), at == bytes.len(), "cut at {at}");
        }
        assert_eq!(feed(config(Pull, b"me"), bytes.chunks(1)), whole, "byte by byte");
    }
}

/// RFC 37, "Version Negotiation": our output must not run ahead of the peer's version.
#[test]
fn the_greeting_leaves_in_stages() {
    let mut pull = handshake(Pull, b"");
    let theirs = cat(&[&greeting(1, "NULL"), &ready("PUSH")]);
    let mut sent = vec![drain(&mut pull).len()];
    for byte in theirs.chunks(1) {
        pull.input(byte).unwrap();
        sent.push(drain(&mut pull).len());
    }
    let stages: Vec<_> = sent.into_iter().enumerate().filter(|&(_, len)| len > 0).collect();
    assert_eq!(stages, [(0, 10), (10, 1), (11, 53), (64, ready("PULL").len())]);
}

#[test]
fn sent_counts_in_pieces() {
    let mut pull = handshake(Pull, b"");
    pull.sent(3);
    assert_eq!(pull.output(), &SIGNATURE[3..]);
    pull.input(&SIGNATURE[..10]).unwrap();
    assert_eq!(pull.output(), cat(&[&SIGNATURE[3..], b"\x03"]));
    pull.sent(usize::MAX);
    assert_eq!(pull.output(), b"");
}

/// Two of our handshakes; bytes are passed in pieces of a fixed size.
fn meet(a: Config, b: Config, piece: usize) -> Option<(Peer, Peer)> {
    let (mut a, mut b) = (pinnace_zmtp::Handshake::new(a), pinnace_zmtp::Handshake::new(b));
    for _ in 0..2_000 {
        for (from, to) in [(0, 1), (1, 0)] {
            let sides = [&mut a, &mut b];
            let bytes: Vec<u8> = sides[from].output().iter().copied().take(piece).collect();
            sides[from].sent(bytes.len());
            if sides[to].input(&bytes).ok()? != bytes.len() {
                return None;
            }
        }
        if a.peer().is_some() && b.peer().is_some() && a.output().is_empty() && b.output().is_empty() {
            return Some((a.into_parts()?.0, b.into_parts()?.0));
        }
    }
    panic!("the two wait for each other");
}

#[test]
fn all_pairs_of_types_agree_with_the_table() {
    for (a, b) in SocketType::ALL.into_iter().flat_map(|a| SocketType::ALL.map(|b| (a, b))) {
        let met = meet(config(a, b"left"), config(b, b""), 7);
        assert_eq!(met.is_some(), a.compatible(b), "{a} and {b}");
        if let Some((of_a, of_b)) = met {
            assert_eq!((of_a.socket_type, of_b.socket_type), (Some(b), Some(a)));
            let announced = matches!(a, Req | Dealer | Router);
            assert_eq!(of_b.routing_id, if announced { &b"left"[..] } else { b"" }, "{a}");
            assert_eq!(of_b.property("Identity").is_some(), announced, "{a}");
        }
    }
}

#[test]
fn two_of_ours_meet_in_pieces_of_any_size() {
    for piece in 1..120 {
        let (of_dealer, of_router) =
            meet(config(Dealer, &[9; 255]), config(Router, b"r"), piece).expect("compatible");
        assert_eq!((of_dealer.version, of_dealer.routing_id), (Version::V3_1, b"r".to_vec()));
        assert_eq!(of_router.routing_id, [9; 255]);
    }
}

/// The peer's READY may arrive before all of our output is written.
#[test]
fn the_peer_is_known_while_output_waits() {
    let mut pull = handshake(Pull, b"");
    let bytes = cat(&[&greeting(1, "NULL"), &ready("PUSH"), &frame(0, b"hello")]);
    assert_eq!(pull.input(&bytes), Ok(bytes.len() - 7));
    assert_eq!(pull.output().len(), 64 + ready("PULL").len());
    assert_eq!(pull.peer().unwrap().socket_type, Some(Push));
    assert_eq!(pull.input(b"hello"), Ok(0));
}
