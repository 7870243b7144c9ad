//! How long messages are kept for receivers that are away, that are to come, and that were forgotten.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pinnace_delivery::{Builder, Client, Error};

use crate::common::soon;

fn builder(dir: &Path, name: &str) -> Builder {
    let registry = format!("dir://{}", dir.join("registry").display());
    Client::builder(name, &format!("{name}'s")).data_dir(dir.join(name)).registry(&registry)
}

/// A sender, and what `on_error` is told of dropped messages: receiver, topic, count.
fn sender(builder: Builder) -> (Client, Receiver<(Option<String>, String, u64)>) {
    let (tell, told) = channel();
    let notify = move |error: &Error| {
        if let Error::Dropped { receiver, topic, messages } = error {
            let _ = tell.send((receiver.clone(), topic.clone(), *messages));
        }
    };
    (builder.on_error(notify).compress_from(usize::MAX).start().unwrap(), told)
}

fn take(client: &Client, expected: &[&[u8]]) {
    for body in expected {
        let delivery = client.recv(soon()).unwrap();
        assert_eq!(&delivery.body(), body);
        delivery.ack();
    }
    assert_eq!(client.recv(Some(Instant::now())).err(), Some(Error::TimedOut));
}

fn until(what: &str, is: impl Fn() -> bool) {
    let deadline = soon();
    while !is() {
        assert!(Some(Instant::now()) < deadline, "waited for {what}");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_sent_to_nobody_goes_once_to_each_that_comes() {
    let dir = tempfile::tempdir().unwrap();
    let start = || builder(dir.path(), "sender").start().unwrap();
    let sender = start();
    let large = vec![7; 3_000_000];
    for body in [b"one", b"two", &large[..]] {
        assert_eq!(sender.send_all("news", body).unwrap(), 0);
    }
    // The sender is started again, and sends nothing: the first that comes has them nevertheless.
    drop(sender);
    let sender = start();
    let first = builder(dir.path(), "first").topics(&["news"]).start().unwrap();
    take(&first, &[b"one", b"two", &large]);
    until("the first", || sender.addresses_of("news").len() == 1);
    assert_eq!(sender.send_all("news", b"three").unwrap(), 1);
    take(&first, &[b"three"]);
    // Then one more, with the sender started again in between.
    drop(sender);
    let sender = start();
    let second = builder(dir.path(), "second").start().unwrap();
    second.subscribe("news").unwrap();
    take(&second, &[b"one", b"two", &large]);
    until("the second", || sender.addresses_of("news").len() == 2);
    assert_eq!(sender.send_all("news", b"four").unwrap(), 2);
    take(&first, &[b"four"]);
    take(&second, &[b"four"]);
    sender.wait_pending(0, soon()).unwrap();
    // One that has left and comes back gets what was sent to nobody meanwhile, and the rest not again.
    for client in [&first, &second] {
        client.unsubscribe("news").unwrap();
    }
    until("both to leave", || sender.send_all("news", b"five").unwrap() == 0);
    drop(first);
    let first = builder(dir.path(), "first").topics(&["news"]).start().unwrap();
    take(&first, &[b"five"]);
    until("its acknowledgement", || sender.pending() <= 1);
    drop(sender);
    let _sender = start();
    second.subscribe("news").unwrap();
    take(&second, &[b"five"]);
    take(&first, &[]);
}

#[test]
fn messages_that_are_too_old_are_dropped_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let away = builder(dir.path(), "away").topics(&["news"]).start().unwrap();
    let here = builder(dir.path(), "here").topics(&["news"]).start().unwrap();
    let age = Duration::from_millis(400);
    let (sender, told) = sender(builder(dir.path(), "sender").retain_for(Some(age)));
    until("both", || sender.addresses_of("news").len() == 2);
    away.close(soon()).unwrap();
    drop(away);
    until("one to leave", || sender.addresses_of("news").len() == 1);
    for body in [b"one", b"two"] {
        assert_eq!(sender.send_all("news", body).unwrap(), 2);
    }
    let mut dropped = 0;
    while dropped < 2 {
        let (receiver, topic, messages) = told.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!((receiver.as_deref(), topic.as_str()), (Some("away"), "news"));
        dropped += messages;
    }
    // The receiver that is connected has them, however old they are.
    take(&here, &[b"one", b"two"]);
    sender.wait_pending(0, soon()).unwrap();
    // The subscription goes on.
    assert_eq!(sender.send_all("news", b"three").unwrap(), 2);
    let away = builder(dir.path(), "away").start().unwrap();
    take(&away, &[b"three"]);
    take(&here, &[b"three"]);
    assert_eq!(dropped, 2);
}

#[test]
fn more_than_the_limit_drops_the_oldest_messages_whole() {
    let dir = tempfile::tempdir().unwrap();
    // Of three bodies of three parts each, and one of one part, two and the small one fit.
    let limit = 6_000_000 + 10_000;
    let (sender, told) = sender(builder(dir.path(), "sender").retain_bytes(limit));
    let large = |byte: u8| vec![byte; 2_500_000];
    for body in [&large(1)[..], &large(2), &large(3), b"small"] {
        assert_eq!(sender.send_all("news", body).unwrap(), 0);
    }
    // A member that changes has the limits checked at once.
    let _other = builder(dir.path(), "other").start().unwrap();
    let (receiver, topic, messages) = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!((receiver, topic.as_str(), messages), (None, "news", 1), "one message, of three parts");
    let late = builder(dir.path(), "late").topics(&["news"]).start().unwrap();
    take(&late, &[&large(2), &large(3), b"small"]);
}

#[test]
fn what_is_kept_and_was_taken_makes_room() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, told) = sender(builder(dir.path(), "sender").disk_limit(24 << 20));
    let body = vec![1; 1 << 20];
    (0..8).for_each(|_| assert_eq!(sender.send_all("news", &body).unwrap(), 0));
    let first = builder(dir.path(), "first").topics(&["news"]).start().unwrap();
    take(&first, &[&body[..]; 8]);
    sender.wait_pending(0, soon()).unwrap();
    // These need more room than what is kept leaves.
    for _ in 0..40 {
        sender.send_to("first's", &body).unwrap();
        take(&first, &[&body]);
    }
    assert!(told.try_recv().is_err(), "the first had it all");
}

#[test]
fn what_is_kept_for_a_forgotten_client_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, told) = sender(builder(dir.path(), "sender").reassign_after(None));
    let gone = builder(dir.path(), "gone").topics(&["news"]).start().unwrap();
    until("it", || sender.addresses_of("news").len() == 1);
    assert_eq!(sender.forget("gone"), Err(Error::NameTaken), "it lives");
    drop(gone);
    until("it to leave", || sender.addresses_of("news").is_empty());
    assert_eq!(sender.send_all("news", b"for all").unwrap(), 1);
    sender.send_to("news", b"for one").unwrap();
    sender.forget("gone").unwrap();
    let (receiver, topic, messages) = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!((receiver.as_deref(), topic.as_str(), messages), (Some("gone"), "news", 1));
    assert_eq!(sender.send_all("news", b"for those to come").unwrap(), 0);
    // What was sent to one client goes to another one.
    let other = builder(dir.path(), "other").topics(&["news"]).start().unwrap();
    let mut got: Vec<Vec<u8>> = Vec::new();
    for _ in 0..2 {
        let delivery = other.recv(soon()).unwrap();
        got.push(delivery.body().to_vec());
        delivery.ack();
    }
    got.sort();
    assert_eq!(got, [&b"for one"[..], b"for those to come"]);
    sender.wait_pending(0, soon()).unwrap();
}
