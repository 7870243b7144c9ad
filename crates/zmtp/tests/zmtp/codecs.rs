//! Frame headers, commands, subscriptions, metadata and socket types, byte by byte.

use crate::common::cat;
use pinnace_zmtp::SocketType::{self, *};
use pinnace_zmtp::command::{self, Command};
use pinnace_zmtp::frame::{COMMAND, Header, LONG, MORE};
use pinnace_zmtp::{Error, Misbehaviour, Misuse, Version, frame, metadata, subscription, v1};

#[test]
fn frame_headers() {
    let cases: &[(u8, u64, &[u8])] = &[
        (0, 0, b"\0\0"),
        (MORE, 1, b"\x01\x01"),
        (COMMAND, 255, b"\x04\xff"),
        (LONG, 256, b"\x02\0\0\0\0\0\0\x01\0"),
        (LONG | MORE, 1 << 32, b"\x03\0\0\0\x01\0\0\0\0"),
        (LONG | COMMAND, 65_536, b"\x06\0\0\0\0\0\x01\0\0"),
        (LONG, u64::MAX, b"\x02\xff\xff\xff\xff\xff\xff\xff\xff"),
    ];
    for &(flags, body_len, bytes) in cases {
        let header = Header { flags, header_len: bytes.len(), body_len };
        assert_eq!(frame::parse(bytes), Some(header));
        assert_eq!(frame::parse(&cat(&[bytes, b"body"])), Some(header));
        for cut in 0..bytes.len() {
            assert_eq!(frame::parse(&bytes[..cut]), None);
        }
        for given in [flags, flags | LONG, flags & !LONG, flags | 0xf8] {
            let mut out = [0xaa; frame::MAX_HEADER];
            let len = frame::encode(given, body_len, &mut out);
            assert_eq!(&out[..len], bytes);
        }
    }
}

/// RFC 37, "Framing": bits 7-3 are reserved. libzmq ignores them, and so do we.
#[test]
fn reserved_flags_are_ignored() {
    for flags in 0..=255u8 {
        let header = frame::parse(&[flags, 0, 0, 0, 0, 0, 0, 0, 5]).unwrap();
        assert_eq!(header.flags, flags & 7);
        assert_eq!((header.header_len, header.body_len), if flags & LONG == 0 { (2, 0) } else { (9, 5) });
        assert_eq!((header.has_more(), header.is_command()), (flags & 1 != 0, flags & 4 != 0));
        assert_eq!(v1::parse(&[1, flags]).unwrap().unwrap().flags, flags & MORE);
    }
}

/// A long header is accepted for a length that fits a short one.
#[test]
fn long_headers_of_short_frames() {
    let header = frame::parse(b"\x02\0\0\0\0\0\0\0\x05hello").unwrap();
    assert_eq!((header.header_len, header.body_len), (9, 5));
    let header = v1::parse(b"\xff\0\0\0\0\0\0\0\x06\x01hello").unwrap().unwrap();
    assert_eq!((header.flags, header.header_len, header.body_len), (MORE, 10, 5));
}

#[test]
fn v1_headers() {
    let cases: &[(u8, u64, &[u8])] = &[
        (0, 0, b"\x01\0"),
        (MORE, 253, b"\xfe\x01"),
        (0, 254, b"\xff\0\0\0\0\0\0\0\xff\0"),
        (MORE, 255, b"\xff\0\0\0\0\0\0\x01\0\x01"),
        (0, u64::MAX - 1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\0"),
    ];
    for &(flags, body_len, bytes) in cases {
        assert_eq!(v1::parse(bytes), Ok(Some(Header { flags, header_len: bytes.len(), body_len })));
        for cut in 0..bytes.len() {
            assert_eq!(v1::parse(&bytes[..cut]), Ok(None));
        }
        for given in [flags, flags | 0xfe] {
            let mut out = [0xaa; v1::MAX_HEADER];
            let len = v1::encode(given, body_len, &mut out);
            assert_eq!(&out[..len], bytes);
        }
    }
    let zero = Err(Error::PeerMisbehaved(Misbehaviour::ZeroLengthFrame));
    assert_eq!(v1::parse(b"\0"), zero);
    assert_eq!(v1::parse(b"\xff\0\0\0\0\0\0\0\0\0"), zero);
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = b"before".to_vec();
    encode(&mut out);
    assert!(out.starts_with(b"before"), "encoders append");
    out.split_off(6)
}

/// PONGs as libzmq 4.3.4 answers them: no context, a short one, and one truncated to 16 bytes.
#[test]
fn heartbeats() {
    assert_eq!(encoded(|out| command::encode_ping(0, b"", out)), b"\x04\x07\x04PING\0\0");
    assert_eq!(encoded(|out| command::encode_ping(0x1234, b"abc", out)), b"\x04\x0a\x04PING\x12\x34abc");
    assert_eq!(encoded(|out| command::encode_pong(b"", out)), b"\x04\x05\x04PONG");
    let pong = cat(&[b"\x04\x15\x04PONG", &[b'a'; 16]]);
    assert_eq!(encoded(|out| command::encode_pong(&[b'a'; 20], out)), pong);

    let long = cat(&[b"\x04PING\0\x1e", &[b'a'; 20]]);
    assert_eq!(command::parse(&long), Ok(Command::Ping { ttl_ds: 30, context: &[b'a'; 16] }));
    let long = cat(&[b"\x04PONG", &[b'a'; 20]]);
    assert_eq!(command::parse(&long), Ok(Command::Pong { context: &[b'a'; 16] }));
}

#[test]
fn commands_are_read() {
    let cases: &[(&[u8], Command<'_>)] = &[
        (b"\x09SUBSCRIBE", Command::Subscribe(b"")),
        (b"\x09SUBSCRIBEtopic", Command::Subscribe(b"topic")),
        (b"\x06CANCELtopic", Command::Cancel(b"topic")),
        (b"\x04JOINgroup", Command::Join(b"group")),
        (b"\x04JOIN", Command::Join(b"")),
        (b"\x05LEAVEgroup", Command::Leave(b"group")),
        (b"\x05READY\x01x", Command::Ready(b"\x01x")),
        (b"\x05ERROR\0", Command::Error { reason: b"" }),
        (b"\x05ERROR\x03400", Command::Error { reason: b"400" }),
        (b"\x04JUMPgroup", Command::Unknown { name: b"JUMP", body: b"group" }),
        (b"\x04ping", Command::Unknown { name: b"ping", body: b"" }),
        (b"\x05PING\0\0", Command::Unknown { name: b"PING\0", body: b"\0" }),
        (b"\x01\xff", Command::Unknown { name: b"\xff", body: b"" }),
    ];
    for (body, expected) in cases {
        assert_eq!(command::parse(body), Ok(*expected));
    }
}

/// libzmq reads beyond the end of a PING of 5 or 6 bytes and of an empty command. Here these are errors.
#[test]
fn malformed_commands() {
    use Misbehaviour::*;
    let cases: &[(&[u8], Misbehaviour)] = &[
        (b"", EmptyCommand),
        (b"\0", EmptyCommandName),
        (b"\x05PING", TruncatedCommandName),
        (b"\xff", TruncatedCommandName),
        (b"\x04PING", MalformedPing),
        (b"\x04PING\0", MalformedPing),
        (b"\x05ERROR", MalformedError),
        (b"\x05ERROR\x01", MalformedError),
        (b"\x05ERROR\x01ab", MalformedError),
    ];
    for (body, expected) in cases {
        assert_eq!(command::parse(body), Err(Error::PeerMisbehaved(expected.clone())), "{body:?}");
    }
}

#[test]
fn errors_and_ready_are_written() {
    assert_eq!(encoded(|out| command::encode_error(b"400", out)), b"\x04\x0a\x05ERROR\x03400");
    let long = encoded(|out| command::encode_error(&[b'x'; 300], out));
    assert_eq!(long, crate::common::frame(4, &cat(&[b"\x05ERROR\xff", &[b'x'; 255]])));
    let ready = encoded(|out| command::encode_ready(&[1; 250], out));
    assert_eq!(ready, cat(&[b"\x06\0\0\0\0\0\0\x01\0\x05READY", &[1; 250]]));
}

/// As libzmq 4.3.4's SUB socket sends them to peers of each version.
#[test]
fn subscriptions_for_each_version() {
    let cases: &[(Version, bool, &[u8], &[u8])] = &[
        (Version::V3_1, true, b"", b"\x04\x0a\x09SUBSCRIBE"),
        (Version::V3_1, false, b"a", b"\x04\x08\x06CANCELa"),
        (Version::V3_0, true, b"", b"\0\x01\x01"),
        (Version::V3_0, false, b"a", b"\0\x02\0a"),
        (Version::V2_0, true, b"", b"\0\x01\x01"),
        (Version::V2_0, false, b"a", b"\0\x02\0a"),
        (Version::V1_0, true, b"", b"\x02\0\x01"),
        (Version::V1_0, false, b"a", b"\x03\0\0a"),
    ];
    for &(version, subscribe, topic, bytes) in cases {
        assert_eq!(encoded(|out| subscription::encode(version, subscribe, topic, out)), bytes, "{version}");
    }
    let long = encoded(|out| subscription::encode(Version::V1_0, true, &[7; 300], out));
    assert_eq!(long, cat(&[b"\xff\0\0\0\0\0\0\x01\x2e\0\x01", &[7; 300]]));
}

#[test]
fn subscriptions_in_messages() {
    assert_eq!(subscription::from_message(b"\x01"), Some((true, &b""[..])));
    assert_eq!(subscription::from_message(b"\0ab"), Some((false, &b"ab"[..])));
    assert_eq!(subscription::from_message(b""), None);
    assert_eq!(subscription::from_message(b"\x02ab"), None);
}

#[test]
fn metadata_that_cannot_be_sent() {
    let misuse = Err(Error::CallerMisuse(Misuse::PropertyName));
    for name in ["", "a b", "ä", "a:b", &"x".repeat(256)] {
        let mut out = Vec::new();
        assert_eq!(metadata::encode(name, b"", &mut out), misuse);
        assert!(out.is_empty());
    }
    assert_eq!(metadata::encode(&"x".repeat(255), b"", &mut Vec::new()), Ok(()));
    assert_eq!(metadata::encode("aZ09-_.+", b"", &mut Vec::new()), Ok(()));
}

#[test]
fn metadata_limits_count_properties() {
    let three = cat(&[
        &crate::common::property("a", b"1"),
        &crate::common::property("b", b""),
        &crate::common::property("A", b"3"),
    ]);
    let properties = metadata::parse(&three, 3).unwrap();
    assert_eq!(metadata::find(&properties, "A"), Some(&b"1"[..]));
    assert_eq!(metadata::find(&properties, "B"), Some(&b""[..]));
    assert_eq!(metadata::find(&properties, "c"), None);
    assert_eq!(metadata::parse(&three, 2), Err(Misbehaviour::TooManyProperties { limit: 2 }.into()));
    assert_eq!(metadata::parse(b"", 0), Ok(vec![]));
}

#[test]
fn socket_types_have_libzmqs_numbers_and_names() {
    let names = "PAIR PUB SUB REQ REP DEALER ROUTER PULL PUSH XPUB XSUB STREAM \
                 SERVER CLIENT RADIO DISH GATHER SCATTER DGRAM PEER CHANNEL";
    for (number, name) in names.split_whitespace().enumerate() {
        let socket_type = SocketType::from_number(number as u8).unwrap();
        assert_eq!((socket_type as usize, socket_type.name()), (number, name));
        assert_eq!(SocketType::from_name(name.as_bytes()), Some(socket_type));
        assert_eq!(SocketType::from_name(name.to_lowercase().as_bytes()), None);
    }
    assert_eq!(SocketType::from_number(21), None);
    assert_eq!(SocketType::from_name(b"XREQ"), None);
}

/// RFC 37, "The Socket-Type Property": the pairs of the table, each once.
#[test]
fn socket_types_that_fit() {
    let table = [
        (Req, Rep),
        (Req, Router),
        (Rep, Dealer),
        (Dealer, Dealer),
        (Dealer, Router),
        (Router, Router),
        (Pub, Sub),
        (Pub, XSub),
        (XPub, Sub),
        (XPub, XSub),
        (Push, Pull),
        (Pair, Pair),
        (Client, Server),
        (Radio, Dish),
        (Scatter, Gather),
        (Peer, Peer),
        (Channel, Channel),
    ];
    for (a, b) in SocketType::ALL.into_iter().flat_map(|a| SocketType::ALL.map(|b| (a, b))) {
        let fit = table.contains(&(a, b)) || table.contains(&(b, a));
        assert_eq!(a.compatible(b), fit, "{a} and {b}");
    }
}
