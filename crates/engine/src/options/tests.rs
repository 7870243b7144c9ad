//! Compares the table with libzmq 4.3, and tests every row at both ends of its range.

use super::access::spec;
use super::security::Mechanism;
use super::spec::Store;
use super::*;
use crate::error::{Error, Invalid};

/// libzmq's values for a new socket: number and int.
const INTS: &[(i32, i32)] = &[
    (8, 100),
    (9, 10_000),
    (11, -1),
    (12, -1),
    (17, -1),
    (18, 100),
    (19, 100),
    (21, 0),
    (23, 1000),
    (24, 1000),
    (25, 1),
    (27, -1),
    (28, -1),
    (31, 1),
    (34, -1),
    (35, -1),
    (36, -1),
    (37, -1),
    (39, 0),
    (42, 0),
    (44, 0),
    (47, 0),
    (54, 0),
    (57, 0),
    (66, 30_000),
    (74, 0),
    (75, 0),
    (76, 0),
    (77, -1),
    (79, 0),
    (80, 0),
    (84, 1500),
    (89, -1),
    (93, 0),
    (94, 0),
    (96, 1),
    (97, 0),
    (101, 8192),
    (102, 8192),
    (109, 0),
    (112, 0),
    (113, 0),
];
const TEXTS: &[i32] = &[45, 46, 55, 68, 92, 99, 100];
/// Options that libzmq has only if built with other libraries: GSSAPI, VMCI, NORM.
const ABSENT: &[i32] = &[62, 63, 64, 65, 85, 86, 87, 88, 90, 91, 117, 118, 119, 120, 121, 122, 123, 124];
/// Stable options that can only be set.
const WRITE_ONLY: &[i32] = &[6, 7, 33, 38, 40, 41, 51, 52, 53, 56, 58, 59, 60, 61, 69, 71, 72, 73, 78];

fn read(options: &Options, number: i32) -> Result<Vec<u8>, Error> {
    let mut value = [0xAA; 256];
    match spec(number).ok_or(Error::Invalid(Invalid::UnknownOption))?.read(options, &mut value)? {
        Lookup::Value(len) => Ok(value[..len].to_vec()),
        Lookup::Socket(_) => Err(Error::NotSocket),
    }
}

#[test]
fn rows_are_sorted_and_single() {
    assert!(TABLE.is_sorted_by(|a, b| a.number < b.number));
    assert!(TABLE.iter().all(|row| spec(row.number).is_some_and(|found| found.name == row.name)));
}

#[test]
fn defaults_are_libzmqs() {
    let options = Options::default();
    let mut value = [0; 256];
    for &(number, expected) in INTS {
        assert_eq!(get(&options, number, &mut value), Ok(Lookup::Value(4)), "option {number}");
        assert_eq!(value[..4], expected.to_ne_bytes(), "option {number}");
    }
    for &number in TEXTS {
        assert_eq!(get(&options, number, &mut value), Ok(Lookup::Value(1)), "option {number}");
        assert_eq!(value[0], 0);
    }
    assert_eq!(read(&options, 4), Ok(0u64.to_ne_bytes().to_vec()));
    assert_eq!(read(&options, 5), Ok(Vec::new()));
    assert_eq!(read(&options, 22), Ok((-1i64).to_ne_bytes().to_vec()));
    for &number in WRITE_ONLY {
        assert!(matches!(get(&options, number, &mut value), Err(Error::Invalid(_))), "option {number}");
    }
}

#[test]
fn the_table_says_the_defaults_that_options_have() {
    let options = Options::default();
    for row in TABLE {
        let Ok(value) = read(&options, row.number) else { continue };
        let mut expected = [0; 16];
        let len = row.kind.put_default(&mut expected).unwrap();
        assert_eq!(value, expected[..len], "{}", row.name);
    }
}

#[test]
fn both_ends_of_each_range_are_taken_and_what_is_outside_is_not() {
    for row in TABLE {
        let (Store::Int(..), OptionKind::Int { min, max, .. }) = (&row.store, row.kind) else { continue };
        for end in [min, max] {
            let mut options = Options::default();
            set(&mut options, row.number, &end.to_ne_bytes()).unwrap();
            let mut value = [0; 4];
            row.read(&options, &mut value).unwrap();
            assert_eq!(i32::from_ne_bytes(value), stored(row, end), "{} at {end}", row.name);
        }
        let outside = [min.checked_sub(1), max.checked_add(1)];
        for value in outside.into_iter().flatten() {
            let bytes = value.to_ne_bytes();
            let outcome = set(&mut Options::default(), row.number, &bytes);
            assert!(matches!(outcome, Err(Error::Invalid(_))), "{} at {value}", row.name);
        }
    }
}

/// The value that is read back: switches become 0 or 1, the TTL whole deciseconds.
fn stored(row: &OptionSpec, value: i32) -> i32 {
    const COUNTED: &[&str] =
        &["XPUB_VERBOSE", "XPUB_VERBOSER", "XPUB_NODROP", "XPUB_MANUAL", "XPUB_MANUAL_LAST_VALUE"];
    const OTHERS: &[&str] = &[
        "ROUTER_MANDATORY",
        "ROUTER_RAW",
        "ROUTER_HANDOVER",
        "PROBE_ROUTER",
        "REQ_CORRELATE",
        "REQ_RELAXED",
        "INVERT_MATCHING",
        "ONLY_FIRST_SUBSCRIBE",
    ];
    match row.name {
        "HEARTBEAT_TTL" => value / 100 * 100,
        name if COUNTED.contains(&name) || OTHERS.contains(&name) => i32::from(value != 0),
        _ => value,
    }
}

#[test]
fn wrong_lengths_are_refused() {
    for row in TABLE.iter().filter(|row| !matches!(row.store, Store::Absent | Store::Socket(_))) {
        let bad: &[usize] = match row.kind {
            OptionKind::Int { .. } => &[0, 1, 3, 5, 8],
            OptionKind::Int64 { .. } | OptionKind::Bits { .. } => &[0, 4, 7, 9],
            OptionKind::Text { max: 255 } | OptionKind::Bytes { max: 255, .. } => &[256],
            OptionKind::Text { max: 16 } => &[17],
            OptionKind::Bytes { min: 0, max: 4 } => &[5],
            _ => &[],
        };
        for &len in bad {
            let bytes = vec![b'a'; len];
            let outcome = set(&mut Options::default(), row.number, &bytes);
            assert!(matches!(outcome, Err(Error::Invalid(_))), "{} of {len} bytes", row.name);
        }
    }
    assert!(
        matches!(set(&mut Options::default(), 5, b""), Err(Error::Invalid(_))),
        "an identity has a byte at least"
    );
}

#[test]
fn a_buffer_may_be_longer_than_the_value_and_never_shorter() {
    let mut options = Options::default();
    set(&mut options, 5, b"name").unwrap();
    set(&mut options, 92, b"eth0\0").unwrap();
    for (number, len) in [(5, 4), (92, 5), (23, 4), (22, 8), (4, 8)] {
        assert!(
            matches!(get(&options, number, &mut vec![0; len - 1]), Err(Error::Invalid(_))),
            "option {number}"
        );
        assert_eq!(get(&options, number, &mut vec![0; len]), Ok(Lookup::Value(len)), "option {number}");
        assert_eq!(get(&options, number, &mut vec![0; len + 9]), Ok(Lookup::Value(len)), "option {number}");
    }
    assert_eq!(read(&options, 92), Ok(b"eth0\0".to_vec()));
}

#[test]
fn texts_are_text() {
    let mut options = Options::default();
    assert!(matches!(set(&mut options, 92, b"\xff\xfe"), Err(Error::Invalid(_))));
    assert!(matches!(set(&mut options, 92, b"a\0b"), Err(Error::Invalid(_))));
    assert_eq!(set(&mut options, 92, b""), Ok(Effect::Stored));
}

#[test]
fn what_the_socket_has_to_do_is_said() {
    let mut options = Options::default();
    let one = 1i32.to_ne_bytes();
    assert_eq!(set(&mut options, 6, b"topic"), Ok(Effect::Subscribe(b"topic")));
    assert_eq!(set(&mut options, 7, b""), Ok(Effect::Unsubscribe(b"")));
    assert_eq!(set(&mut options, 23, &one), Ok(Effect::Hwm));
    assert_eq!(set(&mut options, 24, &one), Ok(Effect::Hwm));
    assert_eq!(set(&mut options, 33, &one), Ok(Effect::Patterns));
    assert_eq!(set(&mut options, 27, &one), Ok(Effect::Stored));
    for (number, known) in [
        (13, SocketValue::ReceiveMore),
        (14, SocketValue::Fd),
        (15, SocketValue::Events),
        (16, SocketValue::Type),
        (32, SocketValue::LastEndpoint),
        (43, SocketValue::Mechanism),
        (81, SocketValue::ThreadSafe),
    ] {
        assert_eq!(get(&options, number, &mut [0; 4]), Ok(Lookup::Socket(known)));
        assert!(matches!(set(&mut options, number, &one), Err(Error::Invalid(_))));
    }
}

#[test]
fn what_is_absent_is_unknown() {
    for &number in ABSENT {
        assert!(
            matches!(set(&mut Options::default(), number, &[0; 4]), Err(Error::Invalid(_))),
            "option {number}"
        );
        assert!(
            matches!(get(&Options::default(), number, &mut [0; 64]), Err(Error::Invalid(_))),
            "option {number}"
        );
    }
    let absent = TABLE.iter().filter(|row| matches!(row.store, Store::Absent)).map(|row| row.number);
    assert!(absent.eq(ABSENT.iter().copied()));
}

#[test]
fn the_mechanism_is_that_of_the_option_set_last() {
    let (one, zero, key) = (1i32.to_ne_bytes(), 0i32.to_ne_bytes(), [7; 32]);
    let steps: &[(i32, &[u8], Mechanism, bool)] = &[
        (44, &one, Mechanism::Plain, true),
        (44, &zero, Mechanism::Null, false),
        (45, b"name", Mechanism::Plain, false),
        (46, b"s3cret", Mechanism::Plain, false),
        (45, b"", Mechanism::Null, false),
        (47, &one, Mechanism::Curve, true),
        (48, &key, Mechanism::Curve, true),
        (49, &key, Mechanism::Curve, true),
        (50, &key, Mechanism::Curve, false),
        (44, &one, Mechanism::Plain, true),
    ];
    let mut options = Options::default();
    for (number, value, mechanism, as_server) in steps {
        assert_eq!(set(&mut options, *number, value), Ok(Effect::Stored), "option {number}");
        let now = (options.security.mechanism, options.security.as_server);
        assert_eq!(now, (*mechanism, *as_server), "option {number}");
    }
    let shown = format!("{options:?}");
    assert!(!shown.contains("s3cret") && !shown.contains("7, 7"), "secrets are not shown: {shown}");
}

#[test]
fn keys_are_bytes_or_text() {
    let text = b"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7\0";
    let mut options = Options::default();
    for number in 48..=50 {
        assert_eq!(set(&mut options, number, text), Ok(Effect::Stored));
        assert_eq!(set(&mut options, number, &text[..40]), Ok(Effect::Stored));
        let (mut bytes, mut back) = ([0; 32], [0; 41]);
        assert_eq!(get(&options, number, &mut bytes), Ok(Lookup::Value(32)));
        assert_eq!(get(&options, number, &mut back), Ok(Lookup::Value(41)));
        assert_eq!(&back, text);
        assert_eq!(set(&mut options, number, &bytes), Ok(Effect::Stored));
        for len in [0, 31, 33, 39, 40, 42] {
            assert!(
                matches!(get(&options, number, &mut vec![0; len]), Err(Error::Invalid(_))),
                "{len} bytes"
            );
        }
        let bad: [&[u8]; 5] = [b"", &[1; 31], &[1; 33], &[b','; 40], &[b'a'; 41]];
        for value in bad {
            assert!(matches!(set(&mut options, number, value), Err(Error::Invalid(_))), "{value:?}");
        }
    }
}

#[test]
fn properties_of_our_own_have_a_form() {
    let mut options = Options::default();
    for good in [&b"X-hello:world"[..], b"X-a:b:c\0", b"X-hello:again"] {
        assert_eq!(set(&mut options, 95, good), Ok(Effect::Stored));
    }
    let kept: Vec<_> =
        options.metadata.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    assert_eq!(kept, [("X-a", &b"b:c"[..]), ("X-hello", b"again")]);
    for bad in [&b""[..], b"hello:world", b"X-:x", b"X-a", b"X-a:", b"X-a b:c", b"X-\xff:c"] {
        assert!(matches!(set(&mut options, 95, bad), Err(Error::Invalid(_))), "{bad:?}");
    }
    for number in 0..40 {
        let _ = set(&mut options, 95, format!("X-{number}:x").as_bytes());
    }
    assert_eq!(options.metadata.len(), 32);
}

#[test]
fn secrets_are_marked() {
    let secrets: Vec<_> = TABLE.iter().filter(|row| row.is_secret()).map(|row| row.name).collect();
    assert_eq!(secrets, ["PLAIN_PASSWORD", "CURVE_SECRETKEY", "SOCKS_PASSWORD", "WSS_KEY_PEM"]);
    let named =
        |row: &&OptionSpec| ["PASSWORD", "SECRET", "KEY_PEM"].iter().any(|part| row.name.contains(part));
    assert!(TABLE.iter().filter(named).all(OptionSpec::is_secret), "a name that tells of a secret");
}

#[test]
fn unknown_numbers_are_refused() {
    for number in [i32::MIN, -1, 0, 1, 10, 20, 26, 29, 30, 67, 70, 82, 83, 125, i32::MAX] {
        assert!(
            matches!(set(&mut Options::default(), number, &[0; 4]), Err(Error::Invalid(_))),
            "option {number}"
        );
        assert!(
            matches!(get(&Options::default(), number, &mut [0; 4]), Err(Error::Invalid(_))),
            "option {number}"
        );
    }
}

#[test]
fn patterns_options_belong_to_their_types() {
    let one = 1i32.to_ne_bytes();
    let allowed = [
        (33, SocketType::Router),
        (33, SocketType::Rep),
        (51, SocketType::Req),
        (52, SocketType::Req),
        (40, SocketType::XPub),
        (69, SocketType::Pub),
    ];
    for (number, kind) in allowed {
        assert_eq!(set(&mut Options::new(kind), number, &one), Ok(Effect::Patterns), "{number} {kind:?}");
    }
    for (number, kind) in [(33, SocketType::Dealer), (52, SocketType::Dealer), (40, SocketType::XSub)] {
        assert!(
            matches!(set(&mut Options::new(kind), number, &one), Err(Error::Invalid(_))),
            "{number} {kind:?}"
        );
    }
}

#[test]
fn subscribers_do_not_linger() {
    assert_eq!(Options::new(SocketType::Sub).linger, Some(Duration::ZERO));
    assert_eq!(Options::new(SocketType::XSub).linger, Some(Duration::ZERO));
    assert_eq!(Options::new(SocketType::Dish).linger, Some(Duration::ZERO));
    assert_eq!(Options::new(SocketType::Push).linger, None);
}

#[test]
fn verboser_says_more_than_verbose() {
    let mut options = Options::default();
    set(&mut options, 78, &1i32.to_ne_bytes()).unwrap();
    assert!(options.xpub.verbose && options.xpub.verboser);
    set(&mut options, 40, &1i32.to_ne_bytes()).unwrap();
    assert!(options.xpub.verbose && !options.xpub.verboser);
}
