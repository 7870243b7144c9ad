//! Messages held in memory.

use std::time::{Duration, Instant};

use pinnace_delivery::{Durability, Error, Options};

use crate::common::{client, soon};

fn in_memory() -> Options<'static> {
    Options { durability: Durability::Memory, deadline: soon(), ..Options::default() }
}

fn number(body: &[u8]) -> u32 {
    u32::from_le_bytes(body[..4].try_into().unwrap())
}

#[test]
fn they_arrive_in_order_with_those_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let sender =
        client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..20_000_u32 {
                let durability = match number % 7 {
                    0 => Durability::Interval,
                    _ => Durability::Memory,
                };
                let mut body = vec![7; 3000];
                body[..4].copy_from_slice(&number.to_le_bytes());
                sender.send("news", &body, &Options { durability, ..in_memory() }).unwrap();
            }
        });
        for expected in 0..20_000_u32 {
            let delivery = receiver.recv(soon()).unwrap();
            assert_eq!((number(delivery.body()), delivery.body().len()), (expected, 3000));
            delivery.ack();
        }
    });
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn they_wait_for_who_comes_later_and_outlive_it() {
    let dir = tempfile::tempdir().unwrap();
    // A path, which no other client can take between two rounds.
    let endpoint = format!("ipc://{}", dir.path().join("receiver.sock").display());
    let sender = client("sender", dir.path()).peer("receiver", &endpoint, &["news"]).start().unwrap();
    for number in 0..100_u32 {
        sender.send("news", &number.to_le_bytes(), &in_memory()).unwrap();
    }
    assert_eq!(sender.pending(), 100);
    let mut expected = 0;
    for round in 0..4 {
        let receiver = client("receiver", dir.path()).listen(&endpoint).start().unwrap();
        // Each round takes its last message without acknowledging it.
        for at in 0..26 {
            if round == 3 && at == 25 {
                break;
            }
            let delivery = receiver.recv(soon()).unwrap();
            assert_eq!(number(delivery.body()), expected + at);
            if at < 25 {
                delivery.ack();
            }
        }
        expected += 25;
        sender.wait_pending(u64::from(100 - expected), soon()).unwrap();
    }
}

#[test]
fn where_there_is_no_room_a_send_waits_or_fails() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let sender = client("sender", dir.path()).memory_limit(100_000);
    let sender = sender.peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    let at_once = Options { deadline: Some(Instant::now()), ..in_memory() };
    let mut sent = 0;
    while sender.send("news", &[1; 936], &at_once).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 100);
    let Err(Error::NoRoom(Some(shortage))) = sender.send("news", &[1; 936], &at_once) else { panic!() };
    assert_eq!(
        shortage.to_string(),
        "messages in memory have 100000 bytes, and may have 100000 (memory_limit); pending: 100000 bytes for \
         any receiver on news"
    );
    std::thread::scope(|scope| {
        // A message larger than the limit is accepted once nothing else is held.
        let large = scope.spawn(|| sender.send("news", &[2; 3_000_000], &in_memory()));
        (0..100).for_each(|_| receiver.recv(soon()).unwrap().ack());
        assert_eq!(large.join().unwrap(), Ok(()));
    });
    let delivery = receiver.recv(soon()).unwrap();
    assert!(delivery.body() == [2; 3_000_000]);
    delivery.ack();
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn what_is_too_old_makes_room() {
    let dir = tempfile::tempdir().unwrap();
    let sender = client("sender", dir.path()).memory_limit(10_000).linger(Duration::ZERO).start().unwrap();
    let ttl = Some(Duration::from_millis(1));
    for _ in 0..100 {
        sender.send("news", &[1; 936], &Options { ttl, ..in_memory() }).unwrap();
    }
}

#[test]
fn what_is_given_up_becomes_a_dead_letter() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let undertaker = client("undertaker", dir.path()).start().unwrap();
    let sender = client("sender", dir.path())
        .peer("receiver", receiver.endpoint(), &["news"])
        .peer("undertaker", undertaker.endpoint(), &["news.dead"])
        .start()
        .unwrap();
    sender.send("news", b"before", &in_memory()).unwrap();
    sender.send("news", &[5; 2_500_000], &in_memory()).unwrap();
    sender.send("news", b"behind", &in_memory()).unwrap();
    receiver.recv(soon()).unwrap().ack();
    receiver.recv(soon()).unwrap().terminate();
    receiver.recv(soon()).unwrap().ack();
    let dead = undertaker.recv(soon()).unwrap();
    assert!(dead.body() == [5; 2_500_000]);
    assert_eq!(dead.dead().unwrap().receiver, "receiver");
    dead.ack();
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn who_goes_waits_for_them_as_long_as_it_lingers() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let sender = client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]);
    let sender = sender.linger(Duration::from_secs(20)).start().unwrap();
    (0..1000).for_each(|_| sender.send("news", b"late", &in_memory()).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| drop(sender));
        (0..1000).for_each(|_| receiver.recv(soon()).unwrap().ack());
    });
}

#[test]
fn what_was_in_memory_is_not_waited_for_by_who_comes_after() {
    let dir = tempfile::tempdir().unwrap();
    let start = || client("sender", dir.path()).linger(Duration::ZERO).start().unwrap();
    let sender = start();
    for number in 0..1000_u32 {
        let durability = if number % 5 == 3 { Durability::Interval } else { Durability::Memory };
        sender.send("news", &[1; 3000], &Options { durability, ..in_memory() }).unwrap();
    }
    assert_eq!(sender.pending(), 1000);
    drop(sender);
    // First from the records, then from the checkpoint of the next opening.
    (0..2).for_each(|_| assert_eq!(start().pending(), 200));
    let sender = start();
    sender.send("news", b"and one more", &Options::default()).unwrap();
    assert_eq!(sender.pending(), 201);
}
