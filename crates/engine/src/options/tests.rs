//! The table against what libzmq 4.3 answers, and every row at both ends of its range.

use super::access::spec;
use super::spec::Store;
use super::*;
use crate::error::Error;

/// What libzmq gives for a fresh socket: number and int.
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
    (62, 0),
    (65, 0),
    (66, 30_000),
    (74, 0),
    (75, 0),
    (76, 0),
    (77, -1),
    (79, 0),
    (80, 0),
    (84, 1500),
    (89, -1),
    (90, 0),
    (91, 0),
];
const TEXTS: &[i32] = &[45, 46, 55, 63, 64, 68, 92];
/// Stable options that can only be set.
const WRITE_ONLY: &[i32] = &[6, 7, 33, 38, 40, 41, 51, 52, 53, 56, 58, 59, 60, 61, 69, 71, 72, 73, 78];

fn read(options: &Options, number: i32) -> Result<Vec<u8>, Error> {
    let mut value = [0xAA; 256];
    match spec(number).ok_or(Error::Invalid)?.read(options, &mut value)? {
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
        assert_eq!(get(&options, number, &mut value), Err(Error::Invalid), "option {number}");
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
        let (Store::Int(..), Kind::Int { min, max, .. }) = (&row.store, row.kind) else { continue };
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
            assert_eq!(outcome, Err(Error::Invalid), "{} at {value}", row.name);
        }
    }
}

/// What is left of a value: switches know 0 and 1, the TTL whole deciseconds.
fn stored(row: &OptionSpec, value: i32) -> i32 {
    const COUNTED: &[&str] = &["ROUTER_MANDATORY", "XPUB_VERBOSE", "XPUB_VERBOSER", "XPUB_NODROP"];
    const OTHERS: &[&str] =
        &["PROBE_ROUTER", "REQ_CORRELATE", "REQ_RELAXED", "ROUTER_HANDOVER", "INVERT_MATCHING"];
    match row.name {
        "HEARTBEAT_TTL" => value / 100 * 100,
        name if COUNTED.contains(&name) || OTHERS.contains(&name) => i32::from(value != 0),
        _ => value,
    }
}

#[test]
fn wrong_lengths_are_refused() {
    for row in TABLE.iter().filter(|row| !matches!(row.store, Store::Nowhere | Store::Socket(_))) {
        let bad: &[usize] = match row.kind {
            Kind::Int { .. } => &[0, 1, 3, 5, 8],
            Kind::Int64 { .. } | Kind::Bits { .. } => &[0, 4, 7, 9],
            Kind::Text { max: 255 } | Kind::Bytes { max: 255, .. } => &[256],
            Kind::Text { max: 16 } => &[17],
            Kind::Bytes { min: 0, max: 4 } => &[5],
            _ => &[],
        };
        for &len in bad {
            let bytes = vec![b'a'; len];
            let outcome = set(&mut Options::default(), row.number, &bytes);
            assert_eq!(outcome, Err(Error::Invalid), "{} of {len} bytes", row.name);
        }
    }
    assert_eq!(set(&mut Options::default(), 5, b""), Err(Error::Invalid), "an identity has a byte at least");
}

#[test]
fn a_buffer_may_be_longer_than_the_value_and_never_shorter() {
    let mut options = Options::default();
    set(&mut options, 5, b"name").unwrap();
    set(&mut options, 92, b"eth0\0").unwrap();
    for (number, len) in [(5, 4), (92, 5), (23, 4), (22, 8), (4, 8)] {
        assert_eq!(get(&options, number, &mut vec![0; len - 1]), Err(Error::Invalid), "option {number}");
        assert_eq!(get(&options, number, &mut vec![0; len]), Ok(Lookup::Value(len)), "option {number}");
        assert_eq!(get(&options, number, &mut vec![0; len + 9]), Ok(Lookup::Value(len)), "option {number}");
    }
    assert_eq!(read(&options, 92), Ok(b"eth0\0".to_vec()));
}

#[test]
fn texts_are_text() {
    let mut options = Options::default();
    assert_eq!(set(&mut options, 92, b"\xff\xfe"), Err(Error::Invalid));
    assert_eq!(set(&mut options, 92, b"a\0b"), Err(Error::Invalid));
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
        assert_eq!(set(&mut options, number, &one), Err(Error::Invalid));
    }
}

#[test]
fn what_is_not_built_takes_its_default_alone() {
    let (mut options, one) = (Options::default(), 1i32.to_ne_bytes());
    for number in [41, 44, 47, 54, 62, 65, 71, 90] {
        assert_eq!(set(&mut options, number, &0i32.to_ne_bytes()), Ok(Effect::Stored), "option {number}");
        assert_eq!(set(&mut options, number, &one), Err(Error::NotSupported), "option {number}");
    }
    for number in [38, 45, 46, 55, 58, 63, 68, 72] {
        assert_eq!(set(&mut options, number, b""), Ok(Effect::Stored), "option {number}");
        assert_eq!(set(&mut options, number, b"abcd"), Err(Error::NotSupported), "option {number}");
    }
    for number in (48..=50).chain(85..=88).chain(93..=124) {
        assert_eq!(set(&mut options, number, &[1; 32]), Err(Error::NotSupported), "option {number}");
        assert_eq!(get(&options, number, &mut [0; 64]), Err(Error::NotSupported), "option {number}");
    }
}

#[test]
fn unknown_numbers_are_refused() {
    for number in [i32::MIN, -1, 0, 1, 10, 20, 26, 29, 30, 67, 70, 82, 83, 125, i32::MAX] {
        assert_eq!(set(&mut Options::default(), number, &[0; 4]), Err(Error::Invalid), "option {number}");
        assert_eq!(get(&Options::default(), number, &mut [0; 4]), Err(Error::Invalid), "option {number}");
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
        assert_eq!(set(&mut Options::new(kind), number, &one), Err(Error::Invalid), "{number} {kind:?}");
    }
}

#[test]
fn subscribers_do_not_linger() {
    assert_eq!(Options::new(SocketType::Sub).linger, Some(Duration::ZERO));
    assert_eq!(Options::new(SocketType::XSub).linger, Some(Duration::ZERO));
    assert_eq!(Options::new(SocketType::Push).linger, None);
}

#[test]
fn verboser_says_more_than_verbose() {
    let mut options = Options::default();
    set(&mut options, 78, &1i32.to_ne_bytes()).unwrap();
    assert!(options.xpub_verbose && options.xpub_verboser);
    set(&mut options, 40, &1i32.to_ne_bytes()).unwrap();
    assert!(options.xpub_verbose && !options.xpub_verboser);
}

/// The page for users says what is not built, and nothing else.
#[test]
fn the_page_on_compatibility_is_true() {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md"));
    const FIRST_DRAFT: i32 = 93;
    for row in TABLE.iter().filter(|row| row.number < FIRST_DRAFT) {
        let kind = match row.store {
            Store::Default => Some("its default alone"),
            Store::Nowhere => Some("not at all"),
            _ => None,
        };
        for claim in ["its default alone", "not at all"] {
            let line = format!("| `ZMQ_{}` | {claim} |\n", row.name);
            assert_eq!(page.contains(&line), kind == Some(claim), "{line}");
        }
    }
    assert!(
        TABLE.iter().filter(|row| row.number >= FIRST_DRAFT).all(|row| matches!(row.store, Store::Nowhere))
    );
    assert_eq!(TABLE.last().map(|row| row.number), Some(124));
}
