//! CURVE's traffic: sealed frames open in order and once, and nothing else opens.

use crate::common::secure::*;
use crate::common::{cat, frame};
use crypto_box::aead::Aead;
use crypto_box::{PublicKey, SalsaBox, SecretKey};
use pinnace_zmtp::SocketType::Dealer;
use pinnace_zmtp::curve::{OVERHEAD, Opener, Sealer};
use pinnace_zmtp::frame::{COMMAND, LONG, MORE, parse};
use pinnace_zmtp::{Error, Handshake, Misbehaviour, Traffic};
use proptest::prelude::*;

const FORGED: Misbehaviour = Misbehaviour::Unreadable { command: "MESSAGE" };

fn ends(traffic: Traffic) -> (Sealer, Opener) {
    let Traffic::Sealed(sealer, opener) = traffic else { panic!("not sealed") };
    (sealer, opener)
}

/// The two ends of a connection: the client's, then the server's.
fn connection() -> [(Sealer, Opener); 2] {
    let (mut a, mut b) = (Handshake::new(curve_client(Dealer)), Handshake::new(curve_server(Dealer)));
    meet(&mut a, &mut b).unwrap();
    [a, b].map(|side| ends(side.into_parts().unwrap().1))
}

fn seal(sealer: &mut Sealer, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    sealer.seal(flags, body, &mut out).unwrap();
    out
}

/// The body of a sealed frame.
fn body(frame: &[u8]) -> Vec<u8> {
    let header = parse(frame).unwrap();
    assert_eq!(header.header_len as u64 + header.body_len, frame.len() as u64);
    assert_eq!(header.flags & !LONG, 0, "a message frame without flags");
    frame[header.header_len..].to_vec()
}

fn open(opener: &mut Opener, body: &[u8]) -> Result<(u8, Vec<u8>), Error> {
    let mut body = body.to_vec();
    let opened = opener.open(&mut body)?;
    let (flags, payload) = (opened.flags, opened.payload.to_vec());
    assert_eq!(payload, body[OVERHEAD..]);
    Ok((flags, payload))
}

#[test]
fn frames_come_back_both_ways() {
    let [(mut client, mut at_client), (mut server, mut at_server)] = connection();
    for len in (0..600).chain([1024, 65_535, 65_536, 1 << 20]) {
        let message: Vec<u8> = (0..len).map(|n: usize| (n ^ len) as u8).collect();
        for flags in [0, MORE, COMMAND] {
            let sealed = body(&seal(&mut client, flags, &message));
            assert_eq!(sealed.len(), message.len() + OVERHEAD);
            assert_eq!(open(&mut at_server, &sealed), Ok((flags, message.clone())));
            let sealed = body(&seal(&mut server, flags, &message));
            assert_eq!(open(&mut at_client, &sealed), Ok((flags, message.clone())));
        }
    }
}

/// The pure-Rust crate `crypto_box` makes the same bytes from the transient keys. Numbers continue from the
/// handshake.
#[test]
fn an_oracle_makes_the_same_frames() {
    let transient = |seed: u8| SecretKey::from(std::array::from_fn(|at| seed.wrapping_add(at as u8)));
    let (client, server) = (transient(3), transient(101));
    let key = SalsaBox::new(&server.public_key(), &client);
    let [(mut from_client, _), (mut from_server, _)] = connection();
    let sealers =
        [(&mut from_client, b"CurveZMQMESSAGEC", 3_u64), (&mut from_server, b"CurveZMQMESSAGES", 2)];
    for (sealer, prefix, first) in sealers {
        for (count, len) in [0, 1, 31, 32, 222, 223, 1000, 70_000].into_iter().enumerate() {
            let number = (first + count as u64).to_be_bytes();
            let message: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let nonce: [u8; 24] = cat(&[prefix, &number]).try_into().unwrap();
            let boxed = key.encrypt(&nonce.into(), &*cat(&[&[3], &message])).unwrap();
            let expected = frame(0, &cat(&[b"\x07MESSAGE", &number, &boxed]));
            assert_eq!(seal(sealer, MORE | COMMAND, &message), expected, "{len} bytes");
        }
    }
    assert_ne!(PublicKey::from([0; 32]), client.public_key());
}

#[test]
fn nothing_comes_twice_or_out_of_order() {
    let [(mut client, _), (_, mut server)] = connection();
    let sealed: Vec<_> = (0..5_u8).map(|n| body(&seal(&mut client, 0, &[n]))).collect();
    let old = Err(Misbehaviour::OldMessage.into());
    assert_eq!(open(&mut server, &sealed[0]), Ok((0, vec![0])));
    assert_eq!(open(&mut server, &sealed[0]), old, "again");
    // Gaps are allowed: libzmq's peers skip no numbers, but RFC 26 requires only increasing ones.
    assert_eq!(open(&mut server, &sealed[3]), Ok((0, vec![3])));
    for late in &sealed[..=3] {
        assert_eq!(open(&mut server, late), old);
    }
    assert_eq!(open(&mut server, &sealed[4]), Ok((0, vec![4])));
    assert_eq!(Error::from(Misbehaviour::OldMessage).protocol_code(), 0x1000_0002);
}

/// INITIATE and READY are numbered too, and traffic continues from them.
#[test]
fn numbers_go_on_from_the_handshake() {
    let [(mut client, _), (mut server, _)] = connection();
    for (sealer, first) in [(&mut client, 3), (&mut server, 2)] {
        for number in first..first + 3 {
            assert_eq!(body(&seal(sealer, 0, b""))[8..16], u64::to_be_bytes(number));
        }
    }
}

#[test]
fn every_bit_counts() {
    let [(mut client, _), (_, mut server)] = connection();
    let sealed = body(&seal(&mut client, MORE, &[7; 70]));
    for bit in 0..sealed.len() * 8 {
        let mut changed = sealed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let error = open(&mut server, &changed).unwrap_err();
        let expected = match bit / 8 {
            0..8 => 0x1000_0001,
            _ if error == Misbehaviour::OldMessage.into() => 0x1000_0002,
            _ => 0x1100_0001,
        };
        // A changed name length may reach beyond the body.
        assert!(error.protocol_code() == expected || bit / 8 == 0, "bit {bit}: {error}");
    }
    assert_eq!(open(&mut server, &sealed), Ok((MORE, vec![7; 70])), "a forgery leaves no trace");
}

#[test]
fn every_truncation_is_refused() {
    let [(mut client, _), (_, mut server)] = connection();
    let sealed = body(&seal(&mut client, 0, b"hello"));
    for len in 0..sealed.len() {
        let error = open(&mut server, &sealed[..len]).unwrap_err();
        let expected: Error = match len {
            0 => Misbehaviour::EmptyCommand.into(),
            1..8 => Misbehaviour::TruncatedCommandName.into(),
            8..33 => Misbehaviour::MalformedMessage.into(),
            _ => FORGED.into(),
        };
        assert_eq!(error, expected, "{len} bytes");
    }
    assert_eq!(open(&mut server, &cat(&[&sealed, b"!"])), Err(FORGED.into()));
}

#[test]
fn other_commands_are_not_traffic() {
    let [_, (_, mut server)] = connection();
    for (command, name) in [
        (&b"\x04PING\0\0"[..], &b"PING"[..]),
        (b"\x05ERROR\x03400", b"ERROR"),
        (b"\x07MESSAGF", b"MESSAGF"),
        (b"\x08INITIATE", b"INITIATE"),
    ] {
        let error = open(&mut server, command).unwrap_err();
        assert_eq!(error, Misbehaviour::UnexpectedCommand { name: name.to_vec() }.into());
    }
    assert!(open(&mut server, b"hello").is_err());
}

/// A bug of libzmq 4.3: anyone on the path can set MORE or COMMAND on the frame around a box. Here those flags are
/// not even an argument; the flags in the box count, whatever the other bits of its flags byte.
#[test]
fn flags_are_those_in_the_box() {
    let transient = |seed: u8| SecretKey::from(std::array::from_fn(|at| seed.wrapping_add(at as u8)));
    let key = SalsaBox::new(&transient(3).public_key(), &transient(101));
    let [_, (_, mut server)] = connection();
    for (number, flags) in (0..=255_u8).enumerate() {
        let number = (number as u64 + 10).to_be_bytes();
        let nonce: [u8; 24] = cat(&[b"CurveZMQMESSAGEC", &number]).try_into().unwrap();
        let boxed = key.encrypt(&nonce.into(), &[flags, b'x'][..]).unwrap();
        let expected = [0, MORE, COMMAND, MORE | COMMAND][usize::from(flags & 3)];
        let opened = open(&mut server, &cat(&[b"\x07MESSAGE", &number, &boxed]));
        assert_eq!(opened, Ok((expected, b"x".to_vec())));
    }
}

#[test]
fn connections_and_directions_have_keys_of_their_own() {
    let [(mut client, mut at_client), _] = connection();
    let sealed = body(&seal(&mut client, 0, b"hello"));
    assert_eq!(open(&mut at_client, &sealed), Err(FORGED.into()), "reflected");
    let (keys, server_key) = (client_keys(), server_keys().public);
    let mechanism = pinnace_zmtp::MechanismConfig::CurveClient { keys, server_key, entropy: entropy(55) };
    let (mut a, mut b) = (Handshake::new(with(Dealer, mechanism)), Handshake::new(curve_server(Dealer)));
    meet(&mut a, &mut b).unwrap();
    let (_, mut elsewhere) = ends(b.into_parts().unwrap().1);
    assert_eq!(open(&mut elsewhere, &sealed), Err(FORGED.into()), "another connection");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn streams_of_frames_come_back(
        frames in prop::collection::vec(
            (prop::sample::select(vec![0, MORE, COMMAND]), prop::collection::vec(any::<u8>(), 0..400)), 1..20,
        ),
    ) {
        let [(mut client, _), (_, mut server)] = connection();
        let mut line = Vec::new();
        for (flags, message) in &frames {
            client.seal(*flags, message, &mut line).unwrap();
        }
        let mut rest = &mut line[..];
        for (flags, message) in &frames {
            let header = parse(rest).unwrap();
            let (frame, behind) = rest.split_at_mut(header.header_len + header.body_len as usize);
            rest = behind;
            let opened = server.open(&mut frame[header.header_len..]).unwrap();
            prop_assert_eq!((opened.flags, opened.payload), (*flags, &message[..]));
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn any_body_is_harmless(mut bytes in prop::collection::vec(any::<u8>(), 0..200), named: bool) {
        if named {
            bytes.splice(..0, *b"\x07MESSAGE");
        }
        let [_, (_, mut server)] = connection();
        prop_assert!(matches!(server.open(&mut bytes), Err(Error::PeerMisbehaved(_))));
    }
}
