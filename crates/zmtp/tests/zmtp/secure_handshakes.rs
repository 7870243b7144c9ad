//! PLAIN, CURVE and authorization between two of our own sides, and the effect of changing any byte.

use crate::common::secure::*;
use crate::common::{cat, drain, frame, greeting, property, ready};
use pinnace_crypto::SecretBytes;
use pinnace_zmtp::SocketType::*;
use pinnace_zmtp::{
    Config, Decision, Error, Handshake, Incompatibility, Limits, MechanismConfig, Misbehaviour, Misuse,
    Refusal, SocketType, Traffic, Version,
};

type Make = fn(SocketType) -> Config;

const PAIRS: [(Make, Make, &str); 3] = [
    (Config::new, Config::new, "NULL"),
    (plain_client, plain_server, "PLAIN"),
    (curve_client, curve_server, "CURVE"),
];

/// The output of each side in a successful handshake, split into frames and greetings, with the sender (true:
/// client).
fn script(client: Config, server: Config) -> Vec<(bool, Vec<u8>)> {
    let (mut client, mut server) = (Handshake::new(client), Handshake::new(server));
    let mut script = Vec::new();
    while client.peer().is_none() || server.peer().is_none() {
        for from_client in [true, false] {
            let (from, to) =
                if from_client { (&mut client, &mut server) } else { (&mut server, &mut client) };
            let bytes = drain(from);
            if !bytes.is_empty() {
                assert_eq!(to.input(&bytes), Ok(bytes.len()));
                script.push((from_client, bytes));
            }
        }
    }
    script
}

#[test]
fn two_of_ours_meet() {
    for (client, server, name) in PAIRS {
        for authorize in [false, true] {
            let mut client = Handshake::new(Config { routing_id: b"me".to_vec(), ..client(Dealer) });
            let properties = vec![("X-name".to_string(), b"value".to_vec()), ("X-none".to_string(), vec![])];
            let mut server = Handshake::new(Config { authorize, properties, ..server(Router) });
            meet(&mut client, &mut server).unwrap();
            assert_eq!(server.authorization().is_some(), authorize, "{name}");
            if let Some(request) = server.authorization() {
                assert_eq!(request.mechanism, name);
                let expected: Vec<&[u8]> = match name {
                    "PLAIN" => vec![b"admin", b"secret"],
                    "CURVE" => vec![&[0; 32]],
                    _ => vec![],
                };
                let lens = |list: &[&[u8]]| list.iter().map(|item| item.len()).collect::<Vec<_>>();
                assert_eq!(lens(&request.credentials), lens(&expected));
                match name {
                    "CURVE" => assert_eq!(request.credentials, [client_keys().public]),
                    _ => assert_eq!(request.credentials, expected),
                }
                let shown = format!("{request:?} {server:?}");
                let password = format!("{:?}", b"secret");
                assert!(!shown.contains(password.trim_matches(['[', ']'])) && !shown.contains("\"secret\""));
                server.authorize(Decision::Accept).unwrap();
                meet(&mut client, &mut server).unwrap();
            }
            let (of_client, _) = client.into_parts().expect(name);
            let (of_server, traffic) = server.into_parts().expect(name);
            assert_eq!((of_client.mechanism, of_server.mechanism), (name, name));
            assert_eq!(of_client.property("x-NAME"), Some(&b"value"[..]));
            assert_eq!(of_client.property("X-none"), Some(&b""[..]));
            assert_eq!((of_client.as_server, of_server.as_server), (name != "NULL", false));
            assert_eq!((of_server.socket_type, &of_server.routing_id[..]), (Some(Dealer), &b"me"[..]));
            assert_eq!(matches!(traffic, Traffic::Sealed(..)), name == "CURVE");
        }
    }
}

#[test]
fn plain_is_what_libzmq_says() {
    let said: Vec<u8> =
        script(plain_client(Push), plain_server(Pull)).into_iter().flat_map(|turn| turn.1).collect();
    let properties = |name: &[u8]| property("Socket-Type", name);
    let ends = [
        frame(4, b"\x05HELLO\x05admin\x06secret"),
        frame(4, b"\x07WELCOME"),
        frame(4, &cat(&[b"\x08INITIATE", &properties(b"PUSH")])),
        frame(4, &cat(&[b"\x05READY", &properties(b"PULL")])),
    ];
    assert!(said.ends_with(&cat(&[&ends[1], &ends[2], &ends[3]])));
    assert!(said.windows(ends[0].len()).any(|window| window == ends[0]));
    assert_eq!(said.len(), 2 * 64 + ends.concat().len());
}

/// Flips single bits of every byte that either side sends. A change may go unnoticed (padding, unchecked nonces,
/// unprotected properties), but a CURVE handshake that completes has received the intended content.
#[test]
fn every_byte_changed() {
    for (client, server, name) in PAIRS {
        let honest = script(client(Dealer), server(Dealer));
        let said: usize = honest.iter().map(|turn| turn.1.len()).sum();
        for at in 0..said {
            for bit in [1, 4, 0x80] {
                let (mut a, mut b) = (Handshake::new(client(Dealer)), Handshake::new(server(Dealer)));
                let outcome = meet_changed(&mut a, &mut b, at, bit);
                if let Err(error) = &outcome {
                    assert!(!matches!(error, Error::CallerMisuse(_)), "{name}, byte {at}: {error}");
                    let _ = (error.to_string(), error.protocol_code());
                }
                let both = a.peer().is_some() && b.peer().is_some();
                if name == "CURVE" && both {
                    let kinds = [&a, &b].map(|side| side.peer().unwrap().socket_type);
                    assert_eq!(kinds, [Some(Dealer); 2], "byte {at}");
                    let (sealed, opened) = (a.into_parts().unwrap().1, b.into_parts().unwrap().1);
                    let Traffic::Sealed(mut sealer, _) = sealed else { panic!() };
                    let Traffic::Sealed(_, mut opener) = opened else { panic!() };
                    let mut out = Vec::new();
                    sealer.seal(0, b"hello", &mut out).unwrap();
                    assert_eq!(opener.open(&mut out[2..]).unwrap().payload, b"hello", "byte {at}");
                }
            }
        }
    }
}

/// As `meet`, with one byte of the exchange changed.
fn meet_changed(a: &mut Handshake, b: &mut Handshake, at: usize, bit: u8) -> Result<(), Error> {
    let mut seen = 0;
    loop {
        let mut silent = true;
        for from_a in [true, false] {
            let (from, to) = if from_a { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
            let mut bytes = drain(from);
            if let Some(byte) = at.checked_sub(seen).and_then(|at| bytes.get_mut(at)) {
                *byte ^= bit;
            }
            seen += bytes.len();
            silent &= bytes.is_empty();
            to.input(&bytes)?;
        }
        if silent {
            return Ok(());
        }
    }
}

/// In CURVE only the greeting and HELLO's padding can be changed without detection.
#[test]
fn every_byte_of_curves_commands_counts() {
    let honest = script(curve_client(Dealer), curve_server(Dealer));
    let mut offset = 0;
    let mut unnoticed = Vec::new();
    for (_, bytes) in &honest {
        for at in 0..bytes.len() {
            let (mut a, mut b) = (Handshake::new(curve_client(Dealer)), Handshake::new(curve_server(Dealer)));
            let _ = meet_changed(&mut a, &mut b, offset + at, 1);
            if a.peer().is_some() && b.peer().is_some() {
                unnoticed.push((offset + at, bytes.len()));
            }
        }
        offset += bytes.len();
    }
    // Both greetings: 8 bytes of the signature, the minor version, as-server of the server, the filler. 72 bytes of
    // padding. The only other candidate is READY's own number, which is part of the box's nonce.
    let in_commands = unnoticed.iter().filter(|(_, len)| *len >= 168).count();
    assert_eq!(in_commands, 72, "{unnoticed:?}");
}

#[test]
fn every_truncation_waits() {
    for (client, server, name) in PAIRS {
        for (to_server, make) in [(true, server), (false, client)] {
            let heard: Vec<u8> = script(client(Dealer), server(Dealer))
                .into_iter()
                .filter(|turn| turn.0 == to_server)
                .flat_map(|turn| turn.1)
                .collect();
            for cut in 0..heard.len() {
                let mut side = Handshake::new(make(Dealer));
                assert_eq!(side.input(&heard[..cut]), Ok(cut), "{name}, {cut} bytes");
                assert!(side.peer().is_none(), "{name}, {cut} bytes");
            }
            let mut side = Handshake::new(make(Dealer));
            for byte in heard.chunks(1) {
                assert_eq!(side.input(byte), Ok(1), "{name}");
            }
            assert!(side.peer().is_some(), "{name}");
        }
    }
}

/// A recorded handshake is useless on the next connection, which has other randomness.
#[test]
fn replayed_handshakes_are_refused() {
    let heard: Vec<u8> = script(curve_client(Dealer), curve_server(Dealer))
        .into_iter()
        .filter(|turn| turn.0)
        .flat_map(|turn| turn.1)
        .collect();
    let (keys, entropy) = (server_keys(), entropy(200));
    let mut server = Handshake::new(with(Dealer, MechanismConfig::CurveServer { keys, entropy }));
    assert_eq!(server.input(&heard), Err(Misbehaviour::Unreadable { command: "INITIATE" }.into()));
}

#[test]
fn a_decision_holds_the_bytes_back() {
    for (client, server, name) in PAIRS {
        let mut heard: Vec<u8> = script(client(Push), server(Pull))
            .into_iter()
            .filter(|turn| turn.0)
            .flat_map(|turn| turn.1)
            .collect();
        heard.extend(b"\0\x05hello");
        let mut server = Handshake::new(asking(server(Pull)));
        let before = server.input(&heard).unwrap();
        assert!(before < heard.len() - 7 || name == "CURVE", "{name}");
        assert!(server.authorization().is_some() && server.peer().is_none());
        assert_eq!(server.input(&heard[before..]), Ok(0), "{name}");
        let output = server.output().len();
        server.authorize(Decision::Accept).unwrap();
        assert!(server.output().len() > output && server.authorization().is_none());
        assert_eq!(server.authorize(Decision::Accept), Err(Misuse::NothingToAuthorize.into()));
        assert_eq!(server.input(&heard[before..]), Ok(heard.len() - before - 7), "{name}");
        assert_eq!(server.peer().unwrap().socket_type, Some(Push));
    }
}

#[test]
fn a_refusal_is_final() {
    for (client, server, name) in PAIRS {
        for (refusal, reply) in [
            (Refusal::Temporary, None),
            (Refusal::Denied, Some(&b"400"[..])),
            (Refusal::Failed, Some(b"500")),
        ] {
            let mut client = Handshake::new(client(Dealer));
            let mut server = Handshake::new(asking(server(Dealer)));
            meet(&mut client, &mut server).unwrap();
            let error = server.authorize(Decision::Refuse(refusal)).unwrap_err();
            assert_eq!(error, Error::PeerUnauthorized { refusal, mechanism: name });
            assert_eq!(error.zap_status(), Some(refusal as u16));
            assert_eq!(server.input(b""), Err(error.clone()));
            assert_eq!(server.output(), b"", "{name}");
            let spelling: &[u8] = if name == "PLAIN" { b"^RROR\x03" } else { b"\x05ERROR\x03" };
            assert_eq!(error.reply(), reply.map(|status| frame(4, &cat(&[spelling, status]))));
            if let (Some(bytes), Some(status)) = (error.reply(), reply) {
                assert_eq!(client.input(&bytes), Err(Error::PeerRefused { reason: status.to_vec() }));
            }
        }
    }
}

/// The spelling of RFC 24 is accepted as well; a server accepts neither.
#[test]
fn errors_come_from_servers() {
    for spelling in [&b"\x05ERROR\x03400"[..], b"^RROR\x03400"] {
        let mut client = Handshake::new(plain_client(Dealer));
        client.input(&greeting(1, "PLAIN")).unwrap();
        assert_eq!(client.input(&frame(4, spelling)).unwrap_err().zap_status(), Some(400));
    }
    for (_, server, name) in &PAIRS[1..] {
        let mut server = Handshake::new(server(Dealer));
        server.input(&greeting(1, name)).unwrap();
        let error = server.input(&frame(4, b"\x05ERROR\x03400")).unwrap_err();
        assert_eq!(error, Misbehaviour::UnexpectedCommand { name: b"ERROR".to_vec() }.into());
    }
}

#[test]
fn lies_in_plain() {
    use Misbehaviour::*;
    let to_server = [
        (&b"\x05HELLO"[..], MalformedHello, 0x1000_0013),
        (b"\x05HELLO\x05admi", MalformedHello, 0x1000_0013),
        (b"\x05HELLO\x05admin", MalformedHello, 0x1000_0013),
        (b"\x05HELLO\x05admin\x06secre", MalformedHello, 0x1000_0013),
        (b"\x05HELLO\x05admin\x06secret!", MalformedHello, 0x1000_0013),
        (b"\x08INITIATE", UnexpectedCommand { name: b"INITIATE".to_vec() }, 0x1000_0001),
        (b"\x05READY", UnexpectedCommand { name: b"READY".to_vec() }, 0x1000_0001),
    ];
    for (body, misbehaviour, code) in to_server {
        let mut server = Handshake::new(asking(plain_server(Dealer)));
        let error = server.input(&cat(&[&greeting(1, "PLAIN"), &frame(4, body)])).unwrap_err();
        assert_eq!((error.protocol_code(), error), (code, misbehaviour.into()));
    }
    let to_client = [
        (vec![frame(4, b"\x07WELCOME!")], MalformedWelcome, 0x1000_0017),
        (vec![frame(4, b"\x05READY")], UnexpectedCommand { name: b"READY".to_vec() }, 0x1000_0001),
        (vec![frame(4, b"\x07WELCOME"); 2], UnexpectedCommand { name: b"WELCOME".to_vec() }, 0x1000_0001),
        (vec![frame(4, b"\x07WELCOME"), frame(4, b"\x05READY\x01")], TruncatedProperty, 0x1000_0018),
        (vec![frame(4, b"^RROR\x04400")], MalformedError, 0x1000_0015),
    ];
    for (frames, misbehaviour, code) in to_client {
        let mut client = Handshake::new(plain_client(Dealer));
        let error = client.input(&cat(&[&greeting(1, "PLAIN"), &frames.concat()])).unwrap_err();
        assert_eq!((error.protocol_code(), error), (code, misbehaviour.into()));
    }
}

/// Limits also hold inside boxes, and socket types are checked after the decision.
#[test]
fn limits_and_types_hold_for_every_mechanism() {
    for (client, server, name) in PAIRS {
        let many: Vec<_> = (0..65).map(|n| (format!("X-{n}"), Vec::new())).collect();
        let mut a = Handshake::new(Config { properties: many, ..client(Dealer) });
        let error = meet(&mut a, &mut Handshake::new(server(Dealer))).unwrap_err();
        assert_eq!(error, Misbehaviour::TooManyProperties { limit: 64 }.into(), "{name}");

        let large = vec![("X-large".to_string(), vec![0; 5000])];
        let limits = Limits { max_handshake_bytes: 4096, ..Limits::default() };
        let mut a = Handshake::new(Config { properties: large, ..client(Dealer) });
        let error = meet(&mut a, &mut Handshake::new(Config { limits, ..server(Dealer) })).unwrap_err();
        assert_eq!(error, Misbehaviour::HandshakeTooLarge { limit_bytes: 4096 }.into(), "{name}");

        let error = meet(&mut Handshake::new(client(Push)), &mut Handshake::new(server(Push))).unwrap_err();
        assert!(matches!(error, Error::PeerIncompatible(Incompatibility::SocketType { .. })), "{name}");
    }
}

#[test]
fn older_peers_stay_out_where_who_comes_matters() {
    let makes: [fn() -> Config; 5] = [
        || asking(Config::new(Pull)),
        || plain_client(Pull),
        || plain_server(Pull),
        || curve_client(Pull),
        || curve_server(Pull),
    ];
    for make in makes {
        for bytes in [&b"\x01\0"[..], b"\xff\0\0\0\0\0\0\0\x01\x7f\x01\x08"] {
            let error = Handshake::new(make()).input(bytes).unwrap_err();
            let expected = |theirs| Incompatibility::Version { theirs, oldest: Version::V3_0 };
            let theirs = if bytes.len() == 2 { Version::V1_0 } else { Version::V2_0 };
            assert_eq!(error, expected(theirs).into());
        }
    }
    let mut server = Handshake::new(plain_server(Pull));
    let bytes = cat(&[&greeting(0, "PLAIN"), &frame(4, b"\x05HELLO\0\0"), &frame(4, b"\x08INITIATE")]);
    assert_eq!(server.input(&bytes), Ok(bytes.len()));
    assert_eq!(server.peer().unwrap().version, Version::V3_0);
}

#[test]
fn what_cannot_be_sent_is_our_fault() {
    let plain = |username: usize, password: usize| {
        let (username, password) = (vec![b'a'; username], SecretBytes::from(&vec![b'a'; password][..]));
        with(Pull, MechanismConfig::PlainClient { username, password })
    };
    assert!(Handshake::new(plain(255, 255)).input(&greeting(1, "PLAIN")).is_ok());
    for config in [plain(256, 0), plain(0, 256)] {
        let error = Handshake::new(config).input(b"").unwrap_err();
        assert_eq!(error, Misuse::CredentialTooLong { len: 256 }.into());
    }
    for name in ["", "a b", "Socket-Type", "identity"] {
        let properties = vec![(name.to_string(), vec![])];
        let error = Handshake::new(Config { properties, ..Config::new(Pull) }).input(b"").unwrap_err();
        assert_eq!(error, Misuse::PropertyName.into(), "{name}");
    }
    let weak = MechanismConfig::CurveClient { keys: client_keys(), server_key: [0; 32], entropy: entropy(1) };
    let error = Handshake::new(with(Pull, weak)).input(&greeting(1, "CURVE")).unwrap_err();
    assert_eq!(error, Misuse::WeakServerKey.into());
}

/// Only the server announces its role; libzmq's 0 is accepted from everyone.
#[test]
fn as_server_is_said_by_servers() {
    for (make, expected) in
        [(Config::new as Make, 0), (plain_client, 0), (plain_server, 1), (curve_client, 0), (curve_server, 1)]
    {
        let config = make(Pull);
        let theirs = greeting(1, config.mechanism.name());
        let mut side = Handshake::new(config);
        side.input(&theirs).unwrap();
        assert_eq!(drain(&mut side)[32], expected);
    }
}

#[test]
fn null_waits_for_the_decision_with_its_ready() {
    let mut pull = Handshake::new(asking(Config::new(Pull)));
    let bytes = cat(&[&greeting(1, "NULL"), &ready("PUSH")]);
    assert_eq!(pull.input(&bytes), Ok(64));
    assert_eq!(drain(&mut pull).len(), 64);
    pull.authorize(Decision::Accept).unwrap();
    assert_eq!(drain(&mut pull), ready("PULL"));
    assert_eq!(pull.input(&bytes[64..]), Ok(bytes.len() - 64));
    assert!(pull.peer().is_some());
}
