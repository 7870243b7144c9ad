//! Properties for arbitrary bytes: nothing panics, no more is consumed than is available and ours, and the split of
//! a stream into pieces makes no difference.

use crate::common::{Seen, cat, config, feed, frame, greeting, pieces, property, ready_with};
use pinnace_zmtp::command::{self, Command};
use pinnace_zmtp::frame::{COMMAND, LONG, MORE};
use pinnace_zmtp::{Config, Error, Limits, Misbehaviour, SocketType, Version, metadata, subscription, v1};
use proptest::collection::vec;
use proptest::prelude::*;

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=max)
}

/// Lengths of all magnitudes; ZMTP 1.0 cannot express the largest.
fn body_len() -> impl Strategy<Value = u64> {
    prop_oneof![0..600u64, 0..u64::MAX]
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V1_0), Just(Version::V2_0), Just(Version::V3_0), Just(Version::V3_1)]
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_.+-]{1,255}"
}

/// A possibly valid conversation: concatenated greetings and frames of all versions.
fn conversation() -> impl Strategy<Value = Vec<u8>> {
    let opening = prop_oneof![
        Just(vec![]),
        bytes(12),
        bytes(8).prop_map(|id| cat(&[&[id.len() as u8 + 1, 0], &id])),
        (0..4u8, 0..12u8).prop_map(|(revision, kind)| cat(&[crate::common::SIGNATURE, &[revision, kind]])),
        (0..3u8).prop_map(|minor| greeting(minor, "NULL")),
        (0..3u8).prop_map(|minor| greeting(minor, "NULL")),
    ];
    let part = prop_oneof![
        bytes(16),
        (0..8u8, bytes(16)).prop_map(|(flags, body)| frame(flags & !LONG, &body)),
        bytes(64).prop_map(|body| ready_with(&body)),
        vec(("[A-Za-z ]{0,12}", bytes(300)), 0..4).prop_map(|properties| {
            let encoded = properties.iter().map(|(name, value)| property(name, value));
            ready_with(&cat(&[&property("Socket-Type", b"PUSH"), &encoded.collect::<Vec<_>>().concat()]))
        }),
    ];
    (opening, vec(part, 0..4)).prop_map(|(opening, parts)| cat(&[&opening, &parts.concat()]))
}

/// A conversation with a few changed bytes.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    (conversation(), vec((any::<prop::sample::Index>(), any::<u8>()), 0..3)).prop_map(
        |(mut bytes, changes)| {
            for (at, byte) in changes.into_iter().filter(|_| !bytes.is_empty()).collect::<Vec<_>>() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        },
    )
}

fn limited(max_handshake_bytes: usize) -> Config {
    let limits = Limits { max_handshake_bytes, max_properties: 3, ..Limits::default() };
    Config { limits, ..config(SocketType::Pull, b"me") }
}

fn thorough() -> ProptestConfig {
    ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(thorough())]

    #[test]
    fn pieces_make_no_difference(
        bytes in damaged(),
        lengths in vec(0..40usize, 0..20),
        limit in 0..500usize,
    ) {
        let whole = feed(limited(limit), [&bytes[..]]);
        let cut = feed(limited(limit), pieces(&bytes, &lengths));
        prop_assert_eq!(&whole, &cut);
        let Seen { consumed, result, .. } = whole;
        prop_assert!(consumed <= limit, "{consumed} bytes taken, {limit} allowed");
        if let Ok(Some(peer)) = result {
            prop_assert!(peer.routing_id.len() <= 255);
            prop_assert!(peer.properties.len() <= 3);
            let held: usize = peer.properties.iter().map(|(name, value)| name.len() + value.len()).sum();
            prop_assert!(held <= limit);
        }
    }

    #[test]
    fn any_bytes_are_harmless(bytes in bytes(400), socket_type in 0..21u8) {
        let socket_type = SocketType::from_number(socket_type).unwrap();
        let whole = feed(Config::new(socket_type), [&bytes[..]]);
        prop_assert_eq!(whole, feed(Config::new(socket_type), bytes.chunks(1)));
    }

    #[test]
    fn bytes_behind_a_greeting_are_harmless(frames in bytes(200)) {
        let bytes = cat(&[&greeting(1, "NULL"), &frames]);
        let seen = feed(Config::new(SocketType::Pull), [&bytes[..]]);
        prop_assert!(!matches!(seen.result, Err(Error::CallerMisuse(_))));
    }

    #[test]
    fn frame_headers_come_back(flags in any::<u8>(), body_len in body_len()) {
        let mut out = [0; pinnace_zmtp::frame::MAX_HEADER];
        let len = pinnace_zmtp::frame::encode(flags, body_len, &mut out);
        let header = pinnace_zmtp::frame::parse(&out[..len]).unwrap();
        prop_assert_eq!((header.header_len, header.body_len), (len, body_len));
        prop_assert_eq!(header.flags & !LONG, flags & (MORE | COMMAND));
        prop_assert_eq!(header.flags & LONG != 0, body_len > 255);
    }

    #[test]
    fn v1_headers_come_back(flags in any::<u8>(), body_len in body_len()) {
        let mut out = [0; v1::MAX_HEADER];
        let len = v1::encode(flags, body_len, &mut out);
        let header = v1::parse(&out[..len]).unwrap().unwrap();
        prop_assert_eq!((header.header_len, header.body_len, header.flags), (len, body_len, flags & MORE));
    }

    #[test]
    fn header_parsers_look_at_no_more_than_they_say(bytes in bytes(12)) {
        if let Some(header) = pinnace_zmtp::frame::parse(&bytes) {
            prop_assert!(header.header_len <= bytes.len());
            prop_assert_eq!(pinnace_zmtp::frame::parse(&bytes[..header.header_len]), Some(header));
            prop_assert_eq!(pinnace_zmtp::frame::parse(&bytes[..header.header_len - 1]), None);
        }
        if let Ok(Some(header)) = v1::parse(&bytes) {
            prop_assert!(header.header_len <= bytes.len());
            prop_assert_eq!(v1::parse(&bytes[..header.header_len]), Ok(Some(header)));
            prop_assert_eq!(v1::parse(&bytes[..header.header_len - 1]), Ok(None));
        }
    }

    #[test]
    fn any_command_is_harmless(body in bytes(64), known in 0..9usize) {
        let names = "\n\x04PING\n\x04PONG\n\x09SUBSCRIBE\n\x06CANCEL\n\x05ERROR\n\x05READY\n\x04JOIN\n\x05LEAVE";
        let name = names.split('\n').nth(known).unwrap();
        let body = cat(&[name.as_bytes(), &body]);
        match command::parse(&body) {
            Ok(Command::Ping { context, .. } | Command::Pong { context }) => {
                prop_assert!(context.len() <= 16);
            }
            Ok(Command::Error { reason }) => prop_assert!(reason.len() <= 255),
            Ok(Command::Unknown { name, body: data }) => {
                prop_assert_eq!(1 + name.len() + data.len(), body.len());
            }
            Ok(Command::Subscribe(data) | Command::Cancel(data) | Command::Ready(data))
            | Ok(Command::Join(data) | Command::Leave(data)) => {
                prop_assert!(body.ends_with(data));
            }
            Err(error) => prop_assert!(matches!(error, Error::PeerMisbehaved(_))),
        }
    }

    #[test]
    fn commands_come_back(ttl_ds in any::<u16>(), data in bytes(400)) {
        let context = &data[..data.len().min(16)];
        let reason = &data[..data.len().min(255)];
        let mut frames = Vec::new();
        command::encode_ping(ttl_ds, &data, &mut frames);
        command::encode_pong(&data, &mut frames);
        command::encode_subscribe(&data, &mut frames);
        command::encode_cancel(&data, &mut frames);
        command::encode_error(&data, &mut frames);
        command::encode_ready(&data, &mut frames);
        let expected = [
            Command::Ping { ttl_ds, context },
            Command::Pong { context },
            Command::Subscribe(&data),
            Command::Cancel(&data),
            Command::Error { reason },
            Command::Ready(&data),
        ];
        let mut rest = &frames[..];
        for command in expected {
            let header = pinnace_zmtp::frame::parse(rest).unwrap();
            prop_assert!(header.is_command() && !header.has_more());
            let (frame, behind) = rest.split_at(header.header_len + header.body_len as usize);
            prop_assert_eq!(command::parse(&frame[header.header_len..]), Ok(command));
            rest = behind;
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn subscriptions_come_back(version in version(), subscribe in any::<bool>(), topic in bytes(300)) {
        let mut out = Vec::new();
        subscription::encode(version, subscribe, &topic, &mut out);
        let header = match version {
            Version::V1_0 => v1::parse(&out).unwrap().unwrap(),
            _ => pinnace_zmtp::frame::parse(&out).unwrap(),
        };
        let body = &out[header.header_len..];
        prop_assert_eq!(header.body_len, body.len() as u64);
        let read = match (header.is_command(), command::parse(body)) {
            (true, Ok(Command::Subscribe(topic))) => Some((true, topic)),
            (true, Ok(Command::Cancel(topic))) => Some((false, topic)),
            _ => subscription::from_message(body),
        };
        prop_assert_eq!(header.is_command(), version == Version::V3_1);
        prop_assert_eq!(read, Some((subscribe, &topic[..])));
    }

    #[test]
    fn metadata_comes_back(properties in vec((name(), bytes(50)), 0..8)) {
        let mut out = Vec::new();
        for (name, value) in &properties {
            metadata::encode(name, value, &mut out).unwrap();
        }
        prop_assert_eq!(metadata::parse(&out, properties.len()), Ok(properties.clone()));
        if let Some(fewer) = properties.len().checked_sub(1) {
            let error = Misbehaviour::TooManyProperties { limit: fewer };
            prop_assert_eq!(metadata::parse(&out, fewer), Err(error.into()));
        }
    }

    #[test]
    fn metadata_is_read_whole_or_not_at_all(bytes in bytes(100), limit in 0..10usize) {
        let Ok(properties) = metadata::parse(&bytes, limit) else { return Ok(()) };
        let mut again = Vec::new();
        for (name, value) in &properties {
            metadata::encode(name, value, &mut again).unwrap();
        }
        prop_assert_eq!(again, bytes);
    }
}
