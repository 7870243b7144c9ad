//! Message ids, content types, trace context and headers, from a sender's options to a receiver's delivery.

use std::time::{Duration, Instant};

use pinnace_delivery::{Delivery, Durability, Error, Options, dead_letters};

use crate::common::{client, soon};

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const HEADERS: [(&str, &[u8]); 3] = [("region", b"north"), ("empty", b""), ("ü", b"\0\xff")];

/// All properties, and an id of its own.
fn with_all(id: &str) -> Options<'_> {
    Options {
        id: Some(id),
        content_type: Some("text/plain"),
        traceparent: Some(TRACEPARENT),
        tracestate: Some("vendor=1"),
        headers: &HEADERS,
        deadline: soon(),
        ..Options::default()
    }
}

fn has_all(delivery: &Delivery, id: &str) {
    assert_eq!((delivery.id(), delivery.content_type()), (Some(id), Some("text/plain")));
    assert_eq!((delivery.traceparent(), delivery.tracestate()), (Some(TRACEPARENT), Some("vendor=1")));
    assert_eq!(delivery.headers().collect::<Vec<_>>(), HEADERS);
    assert_eq!((delivery.header("region"), delivery.header("none")), (Some(&b"north"[..]), None));
}

/// Bodies without and with parts, and one that is compressed.
fn bodies() -> [Vec<u8>; 4] {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let shrinks = (0..700_000_u32).flat_map(|number| (number / 9).to_le_bytes()).collect();
    [Vec::new(), vec![7; 1000], (0..(2 << 20)).map(|_| random()).collect(), shrinks]
}

#[test]
fn properties_go_with_bodies_of_any_size() {
    let dir = tempfile::tempdir().unwrap();
    // A body of exactly the limit: the properties do not count.
    let receiver = client("receiver", dir.path()).max_body(2_800_000).start().unwrap();
    let sender = client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]);
    let sender = sender.max_body(2_800_000).start().unwrap();
    for durability in [Durability::Sync, Durability::Interval, Durability::Memory] {
        for (number, body) in bodies().iter().enumerate() {
            let id = format!("{durability:?} {number}");
            sender.send("news", body, &Options { durability, ..with_all(&id) }).unwrap();
            sender.send("news", b"plain", &Options { durability, ..Options::default() }).unwrap();
            let delivery = receiver.recv(soon()).unwrap();
            assert!(delivery.body() == body, "{id}");
            has_all(&delivery, &id);
            delivery.ack();
            let plain = receiver.recv(soon()).unwrap();
            assert_eq!((plain.body(), plain.id(), plain.headers().count()), (&b"plain"[..], None, 0));
            plain.ack();
        }
    }
    let limit = vec![0; 2_800_000];
    let uncompressed = client("other", dir.path()).compress_from(usize::MAX);
    let uncompressed = uncompressed.peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    uncompressed.send("news", &limit, &with_all("limit")).unwrap();
    let delivery = receiver.recv(soon()).unwrap();
    assert!(delivery.body() == limit);
    has_all(&delivery, "limit");
}

#[test]
fn properties_outlive_a_restart_of_the_sender_and_a_failed_handler() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).retry(Duration::ZERO, Duration::ZERO).start().unwrap();
    let sender = client("sender", dir.path()).start().unwrap();
    for (number, body) in bodies().iter().enumerate() {
        sender.send("news", body, &with_all(&number.to_string())).unwrap();
    }
    drop(sender);
    let sender = client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]);
    let sender = sender.start().unwrap();
    for (number, body) in bodies().iter().enumerate() {
        drop(receiver.recv(soon()).unwrap());
        let delivery = receiver.recv(soon()).unwrap();
        assert!(delivery.body() == body);
        assert_eq!(delivery.deliveries(), 2);
        has_all(&delivery, &number.to_string());
        delivery.ack();
    }
    sender.wait_pending(0, soon()).unwrap();
}

/// Also if the client that handles dead letters gives one up: the next letter has one envelope, and the same body.
#[test]
fn dead_letters_keep_the_properties() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let (first, second) =
        (client("first", dir.path()).start().unwrap(), client("second", dir.path()).start().unwrap());
    let sender = client("sender", dir.path())
        .peer("receiver", receiver.endpoint(), &["news"])
        .peer("first", first.endpoint(), &["news.dead"])
        .peer("second", second.endpoint(), &["news.dead.dead"])
        .start()
        .unwrap();
    for durability in [Durability::Sync, Durability::Memory] {
        for (number, body) in bodies().iter().enumerate() {
            let id = format!("{durability:?} {number}");
            sender.send("news", body, &Options { durability, ..with_all(&id) }).unwrap();
            receiver.recv(soon()).unwrap().terminate();
            for (undertaker, receiver, topic) in
                [(&first, "receiver", "news"), (&second, "first", "news.dead")]
            {
                let letter = undertaker.recv(soon()).unwrap();
                assert!(letter.body() == body, "{id}");
                has_all(&letter, &id);
                let dead = letter.dead().unwrap();
                assert_eq!((dead.receiver.as_str(), dead.topic.as_str()), (receiver, topic));
                if topic == "news" { letter.terminate() } else { letter.ack() }
            }
        }
    }
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn dead_letters_are_listed_and_sent_again_with_their_properties() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let sender =
        client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    for (number, body) in bodies().iter().enumerate() {
        sender.send("news", body, &with_all(&number.to_string())).unwrap();
        receiver.recv(soon()).unwrap().terminate();
    }
    let (mut letters, deadline) = (Vec::new(), soon().unwrap());
    while letters.len() < bodies().len() {
        assert!(Instant::now() < deadline, "the letters did not come");
        letters = dead_letters(&dir.path().join("sender")).unwrap();
    }
    for (number, (letter, body)) in letters.iter().zip(bodies()).enumerate() {
        assert_eq!((letter.bytes, &letter.preview[..]), (body.len() as u64, &body[..body.len().min(64)]));
        let properties = &letter.properties;
        assert_eq!(
            (properties.id(), properties.header("ü")),
            (Some(&*number.to_string()), Some(&b"\0\xff"[..]))
        );
        assert_eq!(sender.requeue(letter.number, soon()), Ok(true));
        let delivery = receiver.recv(soon()).unwrap();
        assert!(delivery.body() == body && delivery.dead().is_none());
        has_all(&delivery, &number.to_string());
        delivery.ack();
    }
}

#[test]
fn a_message_with_invalid_properties_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sender = client("sender", dir.path()).start().unwrap();
    let all = with_all("1");
    let large = vec![0; 16 << 10];
    let wrong = [
        Options { id: Some(""), ..all },
        Options { content_type: Some("a\0b"), ..all },
        Options { traceparent: Some("00"), ..all },
        Options { traceparent: None, ..all },
        Options { headers: &[("a", b"1"), ("a", b"2")], ..all },
        Options { headers: &[("", b"1")], ..all },
        Options { headers: &[("a", &large)], ..all },
    ];
    for options in wrong {
        let sent = sender.send("news", b"body", &options);
        assert!(matches!(sent, Err(Error::Property(_))), "{sent:?} for {options:?}");
    }
    assert_eq!(sender.pending(), 0);
}
