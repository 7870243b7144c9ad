//! Every error that a peer can cause in the handshake: our error, libzmq's code for it, and our reply.

use crate::common::{cat, config, feed, frame, greeting, property, ready, ready_with};
use pinnace_zmtp::SocketType::{self, *};
use pinnace_zmtp::{Config, Error, Handshake, Incompatibility, Limits, Misbehaviour, Misuse, Version};

const UNSPECIFIED: u32 = 0x1000_0000;
const UNEXPECTED_COMMAND: u32 = 0x1000_0001;
const MALFORMED_COMMAND: u32 = 0x1000_0011;
const MALFORMED_ERROR: u32 = 0x1000_0015;
const INVALID_METADATA: u32 = 0x1000_0018;
const MECHANISM_MISMATCH: u32 = 0x1100_0002;

fn refused(config: Config, bytes: &[u8]) -> Error {
    feed(config, [bytes]).result.expect_err("the handshake must fail")
}

fn after_greeting(frames: &[u8]) -> Vec<u8> {
    cat(&[&greeting(1, "NULL"), frames])
}

#[test]
fn misbehaviour_after_the_greeting() {
    use Misbehaviour::*;
    let raw_property = |name: &[u8], value: &[u8]| {
        ready_with(&cat(&[&[name.len() as u8], name, &(value.len() as u32).to_be_bytes(), value]))
    };
    let many: Vec<u8> = (0..65).flat_map(|n| property(&format!("X-{n}"), b"")).collect();
    let twice = cat(&[&property("Socket-Type", b"PUSH"), &property("SOCKET-TYPE", b"PUSH")]);
    let twice_id = cat(&[&property("Identity", b"a"), &property("identity", b"a")]);
    let cases = [
        (frame(0, b"hello"), UnexpectedMessage, UNEXPECTED_COMMAND),
        (frame(1, b"\x05READY"), UnexpectedMessage, UNEXPECTED_COMMAND),
        (frame(5, b"\x05READY"), CommandWithMore, MALFORMED_COMMAND),
        (frame(4, b""), EmptyCommand, MALFORMED_COMMAND),
        (frame(4, b"\0READY"), EmptyCommandName, MALFORMED_COMMAND),
        (frame(4, b"\x06READY"), TruncatedCommandName, MALFORMED_COMMAND),
        (frame(4, b"\x04PING\0"), MalformedPing, MALFORMED_COMMAND),
        (frame(4, b"\x05ERROR"), MalformedError, MALFORMED_ERROR),
        (frame(4, b"\x05ERROR\x04400"), MalformedError, MALFORMED_ERROR),
        (frame(4, b"\x05ERROR\x02400"), MalformedError, MALFORMED_ERROR),
        (frame(4, b"\x04PING\0\0"), UnexpectedCommand { name: b"PING".to_vec() }, UNEXPECTED_COMMAND),
        (frame(4, b"\x05ready"), UnexpectedCommand { name: b"ready".to_vec() }, UNEXPECTED_COMMAND),
        (frame(4, b"\x05HELLO"), UnexpectedCommand { name: b"HELLO".to_vec() }, UNEXPECTED_COMMAND),
        (raw_property(b"", b"x"), EmptyPropertyName, INVALID_METADATA),
        (raw_property(b"a b", b"x"), PropertyName { name: b"a b".to_vec() }, INVALID_METADATA),
        (raw_property(b"\xff", b"x"), PropertyName { name: vec![0xff] }, INVALID_METADATA),
        (ready_with(b"\x0bSocket"), TruncatedProperty, INVALID_METADATA),
        (ready_with(b"\x01X\0\0\0"), TruncatedProperty, INVALID_METADATA),
        (ready_with(b"\x01X\0\0\0\x02a"), TruncatedProperty, INVALID_METADATA),
        (ready_with(b"\x01X\0\0\0\x01ab"), TruncatedProperty, INVALID_METADATA),
        (ready_with(b"\x01X\x80\0\0\0"), PropertyTooLong { len: 1 << 31 }, INVALID_METADATA),
        (ready_with(&many), TooManyProperties { limit: 64 }, INVALID_METADATA),
        (ready_with(&twice), DuplicateProperty { name: "Socket-Type" }, INVALID_METADATA),
        (ready_with(&twice_id), DuplicateProperty { name: "Identity" }, INVALID_METADATA),
        (raw_property(b"IDENTITY", &[1; 256]), RoutingIdTooLong { len: 256 }, INVALID_METADATA),
    ];
    for (bytes, misbehaviour, code) in cases {
        let error = refused(Config::new(Pull), &after_greeting(&bytes));
        assert_eq!(error, Error::PeerMisbehaved(misbehaviour), "{bytes:?}");
        assert_eq!(error.protocol_code(), code, "{error}");
        assert_eq!(error.reply(), None, "{error}");
    }
}

#[test]
fn misbehaviour_of_old_peers() {
    use Misbehaviour::*;
    let v2 = |identity: &[u8]| cat(&[crate::common::SIGNATURE, b"\x01\x08", identity]);
    let cases = [
        (b"\0".to_vec(), ZeroLengthFrame, UNSPECIFIED),
        (b"\xff\0\0\0\0\0\0\0\0\0".to_vec(), ZeroLengthFrame, UNSPECIFIED),
        (b"\xff\0\0\0\0\0\0\x01\x01\0".to_vec(), RoutingIdTooLong { len: 256 }, INVALID_METADATA),
        (
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\0".to_vec(),
            RoutingIdTooLong { len: u64::MAX - 1 },
            INVALID_METADATA,
        ),
        (v2(b"\x01\0"), IdentityFrameFlags, UNSPECIFIED),
        (v2(b"\x04\0"), IdentityFrameFlags, UNSPECIFIED),
        (v2(b"\x02\0\0\0\0\0\0\x01\0"), RoutingIdTooLong { len: 256 }, INVALID_METADATA),
        (v2(b"\x02\xff\xff\xff\xff\xff\xff\xff\xff"), RoutingIdTooLong { len: u64::MAX }, INVALID_METADATA),
    ];
    for (bytes, misbehaviour, code) in cases {
        let error = refused(Config::new(Pull), &bytes);
        assert_eq!(error, Error::PeerMisbehaved(misbehaviour), "{bytes:?}");
        assert_eq!((error.protocol_code(), error.reply()), (code, None), "{error}");
    }
}

#[test]
fn mechanisms_must_be_equal() {
    for name in ["PLAIN", "CURVE", "", "null", "NULLX", "NUL", "NULL\0X"] {
        let seen = feed(Config::new(Pull), [&greeting(1, name)[..]]);
        let theirs = name.as_bytes().to_vec();
        let error = Error::PeerIncompatible(Incompatibility::Mechanism { ours: "NULL", theirs });
        assert_eq!(seen.result, Err(error.clone()));
        assert_eq!(error.protocol_code(), MECHANISM_MISMATCH);
        assert_eq!(error.reply().unwrap(), frame(4, b"\x05ERROR\x12mechanism mismatch"));
        // RFC 37: a side that reads a full greeting must also send one. No READY follows.
        assert_eq!(seen.output, greeting(1, "NULL"));
    }
}

#[test]
fn socket_types_must_fit() {
    for minor in [0, 1] {
        let version = if minor == 0 { Version::V3_0 } else { Version::V3_1 };
        let error = refused(Config::new(Pull), &cat(&[&greeting(minor, "NULL"), &ready("PUB")]));
        let expected = Incompatibility::SocketType { ours: Pull, theirs: Pub, version };
        assert_eq!(error, Error::PeerIncompatible(expected));
        assert_eq!(error.protocol_code(), INVALID_METADATA);
        assert_eq!(error.reply().unwrap(), frame(4, b"\x05ERROR\x13invalid socket type"));
        assert_eq!(error.to_string(), "the peer is a PUB socket, which cannot talk to a PULL socket");
    }
}

#[test]
fn socket_types_must_be_known() {
    let long = "X".repeat(10_000);
    for (name, shown) in [("PUSHY", "PUSHY"), ("push", "push"), ("", ""), (&*long, &long[..32])] {
        let error = refused(Config::new(Pull), &after_greeting(&ready(name)));
        let theirs = shown.as_bytes().to_vec();
        let expected = Incompatibility::UnknownSocketType { theirs, version: Version::V3_1 };
        assert_eq!(error, Error::PeerIncompatible(expected));
        assert!(error.reply().is_some());
    }
}

/// ZMTP 2.0 has no commands, so there is no reply.
#[test]
fn socket_types_of_zmtp_2_must_fit() {
    for number in (0..=255).filter(|&number| number != SocketType::Push as u8) {
        let error = refused(Config::new(Pull), &cat(&[crate::common::SIGNATURE, &[1, number]]));
        assert!(matches!(error, Error::PeerIncompatible(_)), "{error}");
        assert_eq!((error.protocol_code(), error.reply()), (INVALID_METADATA, None));
    }
}

#[test]
fn old_versions_can_be_refused() {
    let peers = [
        (Version::V1_0, b"\x01".to_vec()),
        (Version::V1_0, b"\xff\0\0\0\0\0\0\0\x02\0".to_vec()),
        (Version::V1_0, cat(&[crate::common::SIGNATURE, &[0]])),
        (Version::V2_0, cat(&[crate::common::SIGNATURE, &[1]])),
        (Version::V3_0, greeting(0, "NULL")),
        (Version::V3_1, greeting(1, "NULL")),
    ];
    for oldest in [Version::V1_0, Version::V2_0, Version::V3_0, Version::V3_1] {
        for (theirs, bytes) in &peers {
            let theirs = *theirs;
            let limits = Limits { oldest_version: oldest, ..Limits::default() };
            let seen = feed(Config { limits, ..config(Pull, b"me") }, [&bytes[..]]);
            if theirs >= oldest {
                assert_eq!(seen.result, Ok(None));
                continue;
            }
            let error = seen.result.unwrap_err();
            assert_eq!(error, Incompatibility::Version { theirs, oldest }.into());
            assert_eq!((error.protocol_code(), error.reply()), (UNSPECIFIED, None));
            assert!(!seen.output.ends_with(b"me"), "a refused peer learns our identity");
        }
    }
}

#[test]
fn a_peer_that_sends_error_has_refused() {
    for (reason, status) in
        [("300", Some(300)), ("400", Some(400)), ("500", Some(500)), ("no", None), ("", None)]
    {
        let body = cat(&[b"\x05ERROR", &[reason.len() as u8], reason.as_bytes()]);
        let error = refused(Config::new(Pull), &after_greeting(&frame(4, &body)));
        assert_eq!(error, Error::PeerRefused { reason: reason.into() });
        assert_eq!((error.zap_status(), error.reply()), (status, None));
    }
}

#[test]
fn no_peer_gets_more_than_the_limit() {
    let default = Limits::default().max_handshake_bytes;
    let body_len = default - 64 - 9;
    let fits = cat(&[&greeting(1, "NULL"), b"\x06", &(body_len as u64).to_be_bytes()]);
    assert_eq!(feed(Config::new(Pull), [&fits[..]]).result, Ok(None));
    let too_large = cat(&[&greeting(1, "NULL"), b"\x06", &(body_len as u64 + 1).to_be_bytes()]);
    let expected = Misbehaviour::HandshakeTooLarge { limit_bytes: default };
    assert_eq!(refused(Config::new(Pull), &too_large), expected.into());

    for max_handshake_bytes in 0..64 + ready("PUSH").len() {
        let limits = Limits { max_handshake_bytes, ..Limits::default() };
        let config = Config { limits, ..Config::new(Pull) };
        let error = refused(config, &after_greeting(&ready("PUSH")));
        assert_eq!(error, Misbehaviour::HandshakeTooLarge { limit_bytes: max_handshake_bytes }.into());
        assert_eq!((error.protocol_code(), error.reply()), (UNSPECIFIED, None));
    }
}

#[test]
fn a_routing_id_of_ours_that_cannot_be_sent_is_our_fault() {
    let mut handshake = Handshake::new(config(Dealer, &[7; 256]));
    assert_eq!(handshake.output(), b"");
    let error = handshake.input(b"").unwrap_err();
    assert_eq!(error, Error::CallerMisuse(Misuse::RoutingIdTooLong { len: 256 }));
}
