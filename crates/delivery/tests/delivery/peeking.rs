//! Reading a store from outside, and sending dead letters again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pinnace_delivery::{
    Browse, DeadLetter, Durability, Error, LetterNumber, Options, Verdict, browse, dead_letters, peek,
};

use crate::common::{client, pair, soon};

/// Pending messages of the sender's store, by topic.
fn waiting(dir: &Path) -> BTreeMap<String, u64> {
    let senders = peek(&dir.join("sender")).unwrap();
    let pending = senders.into_iter().flat_map(|sender| sender.pending);
    pending.map(|pending| (pending.topic, pending.messages)).collect()
}

/// Waits until a condition holds.
fn wait_for(mut is_so: impl FnMut() -> bool) {
    let deadline = soon().unwrap();
    while !is_so() {
        assert!(Instant::now() < deadline, "it did not come");
    }
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

#[test]
fn what_waits_is_seen_beside_who_has_it_open_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let sender = client("sender", dir.path()).peer("absent", "ipc:///nowhere", &["news"]).start().unwrap();
    (0..10).for_each(|_| sender.send_to("news", b"one").unwrap());
    sender.send_to("olds", b"for whoever comes").unwrap();
    let seen = peek(&dir.path().join("sender")).unwrap();
    assert_eq!((seen.len(), seen[0].name.as_str()), (1, "sender"));
    assert_eq!(seen[0].pending, sender.pending_by_peer());
    assert_eq!(waiting(dir.path()), [("news".to_owned(), 10), ("olds".to_owned(), 1)].into());
    drop(sender);
    let before = files(&dir.path().join("sender"));
    assert_eq!(waiting(dir.path())["news"], 10);
    assert!(dead_letters(&dir.path().join("sender")).unwrap().is_empty());
    assert!(files(&dir.path().join("sender")) == before);
}

#[test]
fn a_store_that_is_written_to_and_whose_files_are_used_again_is_read_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path());
    receiver
        .listen(|delivery| {
            assert!(!delivery.body().is_empty());
            Ok::<(), Error>(())
        })
        .unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let options =
                Options { durability: Durability::Interval, deadline: soon(), ..Options::default() };
            while !stop.load(Ordering::Relaxed) {
                sender.send("news", &[7; 30_000], &options).unwrap();
                sender.wait_pending(50, soon()).unwrap();
            }
        });
        let reading = || {
            for _ in 0..40 {
                assert!(waiting(dir.path()).values().all(|messages| *messages < 1_000));
                assert_eq!(dead_letters(&dir.path().join("sender")), Ok(Vec::new()));
            }
        };
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(reading));
        stop.store(true, Ordering::Relaxed);
        read.unwrap();
    });
    sender.wait_pending(0, soon()).unwrap();
    wait_for(|| waiting(dir.path())["news"] == 0);
}

#[test]
fn what_is_no_store_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(peek(&dir.path().join("none")), Err(Error::Io(std::io::ErrorKind::NotFound)));
    assert_eq!(peek(dir.path()), Ok(Vec::new()));
    let sender = client("sender", dir.path()).start().unwrap();
    (0..100).for_each(|_| sender.send_to("news", &[1; 1000]).unwrap());
    drop(sender);
    for entry in std::fs::read_dir(dir.path().join("sender")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 20_000 {
            bytes[20_000] ^= 1;
            std::fs::write(path, bytes).unwrap();
        }
    }
    assert!(matches!(peek(&dir.path().join("sender")), Err(Error::Damaged(_))));
}

/// Two small bodies, one that does not compress, and one that does.
fn bodies() -> [Vec<u8>; 4] {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let shrinks = (0..700_000_u32).flat_map(|number| (number / 9).to_le_bytes()).collect();
    [Vec::new(), b"poison".to_vec(), (0..3 << 20).map(|_| random()).collect(), shrinks]
}

#[test]
fn dead_letters_are_listed_and_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("sender");
    let (sender, receiver) = pair(dir.path());
    for body in bodies() {
        sender.send_to("news", &body).unwrap();
        receiver.recv(soon()).unwrap().terminate();
    }
    sender.send_to("news", b"handled").unwrap();
    receiver.recv(soon()).unwrap().ack();
    let mut letters = Vec::new();
    wait_for(|| {
        letters = dead_letters(&store).unwrap();
        letters.len() == 4
    });
    for (letter, body) in letters.iter().zip(bodies()) {
        let DeadLetter { from, dead, bytes, preview, .. } = letter;
        assert_eq!(
            (from.as_str(), dead.topic.as_str(), dead.receiver.as_str()),
            ("sender", "news", "receiver")
        );
        assert_eq!((dead.reason, dead.deliveries), (Verdict::Terminated, 1));
        assert_eq!((*bytes, &preview[..]), (body.len() as u64, &body[..body.len().min(64)]));
        assert_eq!(letter.number.to_string().parse(), Ok(letter.number));
    }
    for (letter, body) in letters.iter().zip(bodies()) {
        assert_eq!(sender.requeue(letter.number, soon()), Ok(true));
        assert_eq!(sender.requeue(letter.number, soon()), Ok(false), "it is sent again");
        let delivery = receiver.recv(soon()).unwrap();
        assert!(delivery.body() == body && delivery.topic() == "news" && delivery.dead().is_none());
        delivery.ack();
    }
    wait_for(|| dead_letters(&store).unwrap().is_empty());
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn what_is_no_dead_letter_is_not_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let sender = client("sender", dir.path()).start().unwrap();
    sender.send_to("news.dead", b"alive").unwrap();
    assert_eq!(dead_letters(&dir.path().join("sender")), Ok(Vec::new()));
    for number in ["1.1.1", "1.1.2", "9.1.1", "1.0.0", "1.16777215.1099511627775"] {
        assert_eq!(sender.requeue(number.parse().unwrap(), soon()), Ok(false), "{number}");
    }
    assert_eq!(sender.pending(), 1);
    for number in
        ["", "1", "1.1", "1.1.1.1", "1.1.x", "4294967296.1.1", "1.16777216.1", "1.1.1099511627776", "-1.1.1"]
    {
        assert!(number.parse::<LetterNumber>().is_err(), "{number}");
    }
}

/// Letters, bodies in parts and compressed bodies are shown with their sizes, of the clients and topics wanted.
#[test]
fn pending_messages_are_read_with_their_bodies() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("sender");
    let (sender, receiver) = pair(dir.path());
    sender.send_to("news", b"poison").unwrap();
    receiver.recv(soon()).unwrap().terminate();
    wait_for(|| dead_letters(&store).unwrap().len() == 1);
    bodies().iter().for_each(|body| sender.send_to("olds", body).unwrap());
    let all = browse(&store, &Browse { preview: 10, ..Browse::default() }).unwrap();
    let letter = all.messages.iter().find(|message| message.topic == "news.dead").unwrap();
    assert_eq!((&letter.body[..], letter.bytes), (&b"poison"[..], 6));
    assert_eq!(letter.dead.as_ref().map(|dead| dead.topic.as_str()), Some("news"));
    let olds = browse(&store, &Browse { topics: &["olds"], preview: 10, limit: 3, ..Browse::default() });
    let olds = olds.unwrap();
    assert_eq!((olds.messages.len(), olds.omitted), (3, 1));
    for (message, body) in olds.messages.iter().zip(bodies()) {
        assert_eq!((&message.body[..], message.bytes), (&body[..body.len().min(10)], body.len() as u64));
        assert_eq!((message.from.as_str(), &message.receiver), ("sender", &None));
    }
    for other in [
        Browse { from: Some("else"), ..Browse::default() },
        Browse { receivers: &["a"], ..Browse::default() },
    ] {
        assert!(browse(&store, &other).unwrap().messages.is_empty());
    }
}

/// A client that only sends delivers what is pending, and neither receives nor subscribes.
#[test]
fn a_client_that_only_sends() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let only = client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]).send_only();
    let sender = only.start().unwrap();
    sender.send_to("news", b"one").unwrap();
    receiver.recv(soon()).unwrap().ack();
    sender.wait_pending(0, soon()).unwrap();
    assert_eq!(sender.recv(soon()).err(), Some(Error::Closed));
    assert!(matches!(sender.subscribe("news"), Err(Error::Setting(_))));
    assert_eq!(sender.endpoint(), "");
}
