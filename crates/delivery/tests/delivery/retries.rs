//! A sender that sends a message again because it does not know whether the first attempt has counted: with the same id
//! the message is stored once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pinnace_delivery::{Client, Durability, Error, Options};

use crate::common::{client, soon};

fn with_id(id: &str) -> Options<'_> {
    Options { id: Some(id), deadline: soon(), ..Options::default() }
}

/// A body of several parts, which does not compress.
fn in_parts() -> Vec<u8> {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..(3 << 20)).map(|_| random()).collect()
}

/// Takes the messages that have arrived: how many have each id. The last one sent has the id `end`.
fn effects(receiver: &Client) -> BTreeMap<String, u32> {
    let mut effects = BTreeMap::new();
    loop {
        let delivery = receiver.recv(soon()).unwrap();
        let id = delivery.id().unwrap().to_owned();
        delivery.ack();
        if id == "end" {
            return effects;
        }
        *effects.entry(id).or_default() += 1;
    }
}

#[test]
fn twenty_sends_with_ten_ids_have_ten_effects() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let sender =
        client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    for durability in [Durability::Sync, Durability::Interval, Durability::Memory] {
        for body in [b"one".to_vec(), in_parts()] {
            let run = format!("{durability:?} {}", body.len());
            let ids: Vec<String> = (0..10).map(|number| format!("{run} {number}")).collect();
            for number in 0..20 {
                let options = Options { durability, ..with_id(&ids[number * 7 % 10]) };
                sender.send("news", &body, &options).unwrap();
            }
            sender.send("news", b"", &with_id(&format!("{run} end"))).unwrap();
            let mut got = Vec::new();
            while got.last().is_none_or(|id: &String| !id.ends_with("end")) {
                let delivery = receiver.recv(soon()).unwrap();
                got.push(delivery.id().unwrap().to_owned());
                delivery.ack();
            }
            got.pop();
            got.sort_unstable();
            assert_eq!(got, ids);
        }
    }
}

/// The id counts for one client and one topic, to one receiver or to all.
#[test]
fn other_topics_and_other_clients_have_ids_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let registry = format!("dir://{}", dir.path().join("registry").display());
    let start = |name: &str| client(name, dir.path()).registry(&registry).start().unwrap();
    let (one, other) = (start("one"), start("other"));
    for sender in [&one, &other] {
        for topic in ["news", "olds"] {
            for _ in 0..3 {
                sender.send(topic, b"body", &with_id("7")).unwrap();
                let to_all = Options { all: true, ..with_id("7") };
                assert_eq!(
                    sender.send_and_wait(topic, b"body", &to_all).unwrap().receivers(),
                    1,
                    "as the first"
                );
            }
        }
        assert_eq!(sender.pending(), 2);
        sender.send("news", b"body", &Options::default()).unwrap();
        sender.send("news", b"body", &Options::default()).unwrap();
        assert_eq!(sender.pending(), 4, "without an id");
    }
}

/// Also after the first message was handled, and its file of the log was used again.
#[test]
fn ids_outlive_restarts_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let start =
        || client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    let ids: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let mut sender = start();
    sender.send("news", &in_parts(), &with_id("parts")).unwrap();
    for id in &ids {
        sender.send("news", b"one", &with_id(id)).unwrap();
    }
    sender.send("news", b"", &with_id("end")).unwrap();
    assert_eq!(effects(&receiver).len(), 51);
    for round in 0..3 {
        // Fills several files, all of which are free afterwards.
        for _ in 0..30 {
            sender.send_to("filler", &in_parts()[..1 << 20]).unwrap();
        }
        sender.clear_pending("filler").unwrap();
        for id in ids.iter().map(String::as_str).chain(["parts"]) {
            sender.send("news", b"again", &with_id(id)).unwrap();
        }
        sender.wait_pending(0, soon()).unwrap();
        if round % 2 == 0 {
            drop(sender);
            sender = start();
        }
    }
    assert_eq!(receiver.recv(Some(Instant::now())).err(), Some(Error::TimedOut), "nothing was sent again");
}

/// A message for which there was no room leaves no id behind.
#[test]
fn a_send_that_failed_may_be_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let sender = client("sender", dir.path()).disk_limit(24 << 20).memory_limit(100_000).start().unwrap();
    let body = in_parts();
    let brief = |id| Options { deadline: Some(Instant::now() + Duration::from_millis(20)), ..with_id(id) };
    let filler = || Options { id: None, durability: Durability::Interval, ..brief("") };
    // On a busy machine, a send may time out while there is room.
    while !matches!(sender.send("filler", &body[..1 << 20], &filler()), Err(Error::NoRoom(_))) {}
    while !matches!(sender.send("filler", &body[..10_000], &filler()), Err(Error::NoRoom(_))) {}
    sender.send("filler", &body[..90_000], &Options { durability: Durability::Memory, ..filler() }).unwrap();
    for _ in 0..2 {
        for (id, body, durability) in [
            ("small", &body[..20_000], Durability::Interval),
            ("parts", &body, Durability::Interval),
            ("held", &body[..50_000], Durability::Memory),
        ] {
            let sent = sender.send("news", body, &Options { durability, ..brief(id) });
            assert!(matches!(sent, Err(Error::NoRoom(_) | Error::TimedOut)), "{sent:?}");
        }
    }
    sender.clear_pending("filler").unwrap();
    for _ in 0..2 {
        sender.send("news", &body[..20_000], &with_id("small")).unwrap();
        sender.send("news", &body, &with_id("parts")).unwrap();
        sender
            .send("news", &body[..50_000], &Options { durability: Durability::Memory, ..with_id("held") })
            .unwrap();
    }
    assert_eq!(sender.pending(), 3);
}

/// The first attempt was accepted, and the call did not wait for the disk.
#[test]
fn a_retry_after_a_timeout_waits_for_the_first_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let sender = client("sender", dir.path()).start().unwrap();
    for (number, body) in [b"one".to_vec(), in_parts()].iter().enumerate() {
        let id = number.to_string();
        let mut attempts = 0;
        loop {
            attempts += 1;
            // Too short for the disk.
            let deadline = Some(Instant::now() + Duration::from_micros(attempts * attempts));
            match sender.send("news", body, &Options { deadline, ..with_id(&id) }) {
                Ok(()) => break,
                Err(error) => assert_eq!(error, Error::TimedOut),
            }
        }
        assert_eq!(sender.pending(), number as u64 + 1, "after {attempts} attempts");
    }
}

#[test]
fn threads_with_one_id_send_one_message() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let second = client("second", dir.path()).start().unwrap();
    // In turn: each of two attempts would go to another stream.
    let sender = client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]).peer(
        "second",
        second.endpoint(),
        &["news"],
    );
    let sender = sender.start().unwrap();
    let body = in_parts();
    for durability in [Durability::Sync, Durability::Interval, Durability::Memory] {
        for (number, body) in [&b"one"[..], &body].iter().enumerate() {
            let id = format!("{durability:?} {number}");
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    let options = Options { durability, ..with_id(&id) };
                    let (sender, body) = (&sender, *body);
                    scope.spawn(move || sender.send("news", body, &options).unwrap());
                }
            });
            let deadline = soon().unwrap();
            let mut got = 0;
            while got == 0 || sender.pending() > 0 {
                for client in [&receiver, &second] {
                    if let Ok(delivery) = client.recv(Some(Instant::now())) {
                        assert_eq!((delivery.id(), delivery.body() == *body), (Some(&*id), true));
                        delivery.ack();
                        got += 1;
                    }
                }
                assert!(Instant::now() < deadline, "{id}");
            }
            assert_eq!(got, 1, "{id}");
        }
    }
}

#[test]
fn with_a_window_of_zero_ids_do_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let sender = client("sender", dir.path()).deduplicate_for(Duration::ZERO).start().unwrap();
    for _ in 0..3 {
        sender.send("news", b"one", &with_id("7")).unwrap();
    }
    assert_eq!(sender.pending(), 3);
}

/// Messages in memory are gone with their client, and a retry counts again.
#[test]
fn ids_in_memory_are_gone_with_their_messages() {
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("shared");
    // Another client keeps the store open.
    let _other = client("other", dir.path()).data_dir(&shared).start().unwrap();
    let start = || client("sender", dir.path()).data_dir(&shared).linger(Duration::ZERO).start().unwrap();
    let in_memory = Options { durability: Durability::Memory, ..with_id("7") };
    let sender = start();
    sender.send("news", b"one", &in_memory).unwrap();
    sender.send("news", b"one", &with_id("7")).unwrap();
    assert_eq!(sender.pending(), 1);
    drop(sender);
    let sender = start();
    assert_eq!(sender.pending(), 0);
    sender.send("news", b"one", &with_id("7")).unwrap();
    assert_eq!(sender.pending(), 1);
}

/// More ids than are kept: the newest count, and the store does not grow without bound.
#[test]
fn the_newest_ids_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    receiver.listen(|_| Ok::<(), Error>(())).unwrap();
    let start = || {
        let sender = client("sender", dir.path()).disk_limit(16 << 20);
        sender.peer("receiver", receiver.endpoint(), &["news"]).start().unwrap()
    };
    let sender = start();
    let kept = (16 << 20) / 1280;
    let ids: Vec<String> = (0..kept * 2).map(|number: u32| number.to_string()).collect();
    let mut last = None;
    for id in &ids {
        let options = Options { durability: Durability::Interval, ..with_id(id) };
        last = Some(sender.send_async("news", &[7; 1000], &options).unwrap());
    }
    sender.wait(last.unwrap(), soon()).unwrap();
    sender.wait_pending(0, soon()).unwrap();
    drop(sender);
    let sender = start();
    drop(receiver);
    for id in &ids[kept as usize..] {
        sender.send("news", b"again", &with_id(id)).unwrap();
    }
    assert_eq!(sender.pending(), 0);
    sender.send("news", b"forgotten", &with_id(&ids[0])).unwrap();
    assert_eq!(sender.pending(), 1);
}
