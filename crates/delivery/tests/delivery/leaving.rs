//! Clients that close or are dropped: last acknowledgements, and callers that wait.

use std::time::{Duration, Instant};

use pinnace_delivery::{Builder, Client, Durability, Error, Options};

use crate::common::soon;

#[test]
fn the_last_acknowledgement_is_said_before_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let client = |name: &str| Client::builder(name, name).data_dir(dir.path().join(name)).registry("none");
    let receiver = client("receiver").start().unwrap();
    let sender = client("sender").peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    sender.send_to("news", b"the last").unwrap();
    receiver.recv(soon()).unwrap().ack();
    drop(receiver);
    sender.wait_pending(0, soon()).unwrap();
}

/// Sends without a receiver until the calls wait for room. Closing the client ends the waits.
fn closing_ends_who_waits_for_room(durability: Durability, limit: impl FnOnce(Builder) -> Builder) {
    let dir = tempfile::tempdir().unwrap();
    let builder = Client::builder("sender", "s").data_dir(dir.path()).registry("none").linger(Duration::ZERO);
    let sender = limit(builder.compress_from(usize::MAX)).start().unwrap();
    let (said, ended) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for len in [30_000, 3_000_000] {
            let (sender, said) = (&sender, said.clone());
            scope.spawn(move || {
                let options = Options { durability, ..Options::default() };
                let error = loop {
                    if let Err(error) = sender.send("news", &vec![1; len], &options) {
                        break error;
                    }
                };
                said.send(error).unwrap();
            });
        }
        while sender.pending() == 0 {
            std::thread::yield_now();
        }
        let _ = sender.close(Some(Instant::now()));
        for _ in 0..2 {
            // A call that does not return would hang the scope, and this test.
            let error = ended.recv_timeout(Duration::from_secs(60));
            if error.is_err() {
                std::process::abort();
            }
            assert_eq!(error, Ok(Error::Closed));
        }
    });
    assert_eq!(sender.wait_pending(0, soon()), Err(Error::Closed));
}

#[test]
fn closing_ends_who_waits_for_room_on_the_disk() {
    closing_ends_who_waits_for_room(Durability::Interval, |builder| builder.disk_limit(24 << 20));
}

#[test]
fn closing_ends_who_waits_for_room_in_memory() {
    closing_ends_who_waits_for_room(Durability::Memory, |builder| builder.memory_limit(5_000_000));
}

/// A delivery in hand outlasts its client, until one of the same name is started.
#[test]
fn an_acknowledgement_after_the_close_counts() {
    let dir = tempfile::tempdir().unwrap();
    let registry = format!("dir://{}", dir.path().join("registry").display());
    let client = |name: &str| Client::builder(name, name).data_dir(dir.path().join(name)).registry(&registry);
    let receiver = || client("receiver").start().unwrap();
    let sender = client("sender").start().unwrap();
    for body in ["one", "two", "three"] {
        sender.send_to("receiver", body.as_bytes()).unwrap();
    }
    let first = receiver();
    let (one, two) = (first.recv(soon()).unwrap(), first.recv(soon()).unwrap());
    drop(first);
    one.ack();
    // With the last delivery in hand all of it is said, and the name is free.
    assert!(!two.is_void());
    two.ack();
    sender.wait_pending(1, soon()).unwrap();
    let second = receiver();
    let three = second.recv(soon()).unwrap();
    assert_eq!(three.body(), b"three");
    drop(second);
    // One that is started takes over: the delivery in hand has no effect any more, and comes again.
    let third = receiver();
    assert!(three.is_void());
    let again = third.recv(soon()).unwrap();
    assert_eq!(again.body(), b"three");
    three.ack();
    assert_eq!(sender.pending(), 1);
    again.ack();
    sender.wait_pending(0, soon()).unwrap();
}
