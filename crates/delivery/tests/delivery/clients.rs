//! Clients of one process, each with its own store.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use pinnace_delivery::{Client, Dead, Durability, Error, Options, Verdict};

use crate::common::{client, pair, soon};

/// Restarts keep it, and the receiver sees it in the cursor.
#[test]
fn a_client_has_an_id_in_its_store() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path());
    let ids = [sender.store_id(), receiver.store_id()];
    assert_ne!(ids[0], ids[1]);
    assert!(
        ids.iter().all(|id| id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit())),
        "{ids:?}"
    );
    sender.send_to("news", b"one").unwrap();
    let delivery = receiver.recv(soon()).unwrap();
    assert_eq!(delivery.cursor().sender_text(), ids[0]);
    delivery.ack();
    drop((sender, receiver));
    let (sender, receiver) = pair(dir.path());
    assert_eq!([sender.store_id(), receiver.store_id()], ids);
    let other = client("sender", &dir.path().join("elsewhere")).start().unwrap();
    assert!(!ids.contains(&other.store_id()));
}

#[test]
fn messages_arrive_in_order_and_are_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path());
    let options = Options { durability: Durability::Interval, deadline: soon(), ..Options::default() };
    for number in 0..1000_u32 {
        sender.send("news", &number.to_le_bytes(), &options).unwrap();
    }
    for number in 0..1000_u32 {
        let delivery = receiver.recv(soon()).unwrap();
        assert_eq!(delivery.body(), number.to_le_bytes());
        assert_eq!((delivery.from(), delivery.topic()), ("sender", "news"));
        delivery.ack();
    }
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn what_was_accepted_outlives_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    {
        let sender = client("sender", dir.path()).start().unwrap();
        for number in 0..100_u32 {
            sender.send_to("news", &number.to_le_bytes()).unwrap();
        }
        assert_eq!(sender.pending(), 100);
    }
    for part in 0..4_u32 {
        let (sender, receiver) = pair(dir.path());
        assert_eq!(sender.pending(), u64::from(100 - part * 25));
        for number in part * 25..(part + 1) * 25 {
            let delivery = receiver.recv(soon()).unwrap();
            assert_eq!(delivery.body(), number.to_le_bytes());
            delivery.ack();
        }
        let left = u64::from(100 - (part + 1) * 25);
        sender.wait_pending(left, soon()).unwrap();
    }
}

#[test]
fn what_is_not_acknowledged_is_delivered_again() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path());
    sender.send_to("news", b"one").unwrap();
    drop(receiver.recv(soon()).unwrap());
    let again = receiver.recv(soon()).unwrap();
    assert_eq!((again.body(), again.deliveries()), (&b"one"[..], 2));
    drop(again);
    drop(receiver);
    let receiver = client("receiver", dir.path()).start().unwrap();
    drop(sender);
    let sender =
        client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    let delivery = receiver.recv(soon()).unwrap();
    assert_eq!(delivery.body(), b"one");
    delivery.ack();
    sender.wait_pending(0, soon()).unwrap();
    assert_eq!(receiver.recv(Some(Instant::now())).err(), Some(Error::TimedOut));
}

#[test]
fn a_name_is_one_client_s() {
    let dir = tempfile::tempdir().unwrap();
    let _first = client("one", dir.path()).start().unwrap();
    assert_eq!(client("one", dir.path()).start().err(), Some(Error::NameTaken));
}

#[test]
fn what_is_too_old_is_not_handled() {
    let dir = tempfile::tempdir().unwrap();
    {
        let sender = client("sender", dir.path()).start().unwrap();
        let brief = Options { ttl: Some(Duration::from_millis(1)), ..Options::default() };
        sender.send("news", b"old", &brief).unwrap();
        sender.send("news", b"news", &Options { ttl: Some(Duration::from_secs(3600)), ..brief }).unwrap();
        let never = Options { ttl: Some(Duration::ZERO), ..brief };
        assert_eq!(sender.send("news", b"never", &never), Err(Error::Ttl));
        let ever = Options { ttl: Some(Duration::from_millis(1 << 32)), ..brief };
        assert_eq!(sender.send("news", b"never", &ever), Err(Error::Ttl), "more than can be noted");
    }
    let over = Instant::now() + Duration::from_millis(2);
    while Instant::now() < over {
        std::thread::yield_now();
    }
    let (sender, receiver) = pair(dir.path());
    let delivery = receiver.recv(soon()).unwrap();
    assert_eq!(delivery.body(), b"news");
    delivery.ack();
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn one_of_several_or_all() {
    let dir = tempfile::tempdir().unwrap();
    let receivers: Vec<Client> =
        ["a", "b", "c"].into_iter().map(|name| client(name, dir.path()).start().unwrap()).collect();
    let mut sender = client("sender", dir.path());
    for receiver in &receivers {
        sender = sender.peer(receiver.name(), receiver.endpoint(), &["work"]);
    }
    let sender = sender.start().unwrap();
    for number in 0..9_u8 {
        sender.send_to("work", &[number]).unwrap();
    }
    sender.send_all("work", b"all").unwrap();
    let (mut numbers, mut to_all, end) = (Vec::new(), 0, soon().unwrap());
    while numbers.len() + to_all < 9 + 3 {
        assert!(Instant::now() < end, "{numbers:?}, {to_all} to all");
        for receiver in &receivers {
            let Ok(delivery) = receiver.recv(Some(Instant::now())) else { continue };
            match delivery.body() {
                b"all" => to_all += 1,
                body => numbers.push(body[0]),
            }
            delivery.ack();
        }
    }
    numbers.sort_unstable();
    assert_eq!((numbers, to_all), ((0..9).collect(), 3));
    sender.wait_pending(0, soon()).unwrap();
}

/// A receiver that retries at once, a client that receives dead letters, and a sender that knows both.
fn impatient(dir: &Path, deliveries: u32) -> (Client, Client, Client) {
    let receiver = client("receiver", dir).retry(Duration::from_millis(1), Duration::from_millis(10));
    let receiver = receiver.max_deliveries(deliveries).start().unwrap();
    let undertaker = client("undertaker", dir).start().unwrap();
    let sender = client("sender", dir)
        .peer("receiver", receiver.endpoint(), &["news"])
        .peer("undertaker", undertaker.endpoint(), &["news.dead"])
        .start()
        .unwrap();
    (sender, receiver, undertaker)
}

#[test]
fn what_fails_stays_ahead_of_what_follows() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver, _undertaker) = impatient(dir.path(), 100);
    for number in 0..5_u8 {
        sender.send_to("news", &[number]).unwrap();
    }
    let mut order = Vec::new();
    while order.len() < 8 {
        let delivery = receiver.recv(soon()).unwrap();
        order.push(delivery.body()[0]);
        match (delivery.body()[0], delivery.deliveries()) {
            (2, 1..=3) => drop(delivery),
            _ => delivery.ack(),
        }
    }
    assert_eq!(order, [0, 1, 2, 2, 2, 2, 3, 4]);
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn what_is_put_off_lets_others_go_first() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver, _undertaker) = impatient(dir.path(), 100);
    for number in 0..3_u8 {
        sender.send_to("news", &[number]).unwrap();
    }
    let first = receiver.recv(soon()).unwrap();
    assert_eq!(first.body(), [0]);
    first.nack(Some(Duration::from_millis(50)));
    for number in [1, 2, 0] {
        let delivery = receiver.recv(soon()).unwrap();
        assert_eq!(delivery.body(), [number]);
        delivery.ack();
    }
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn what_is_given_up_becomes_a_dead_letter() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver, undertaker) = impatient(dir.path(), 3);
    let large = vec![7; 3_000_000];
    for body in [&b"fails"[..], b"refused", &large, b"fine"] {
        sender.send_to("news", body).unwrap();
    }
    loop {
        let delivery = receiver.recv(soon()).unwrap();
        match delivery.body() {
            b"fails" => drop(delivery),
            b"fine" => break delivery.ack(),
            _ => delivery.terminate(),
        }
    }
    for (body, reason, deliveries) in [
        (&b"fails"[..], Verdict::Deliveries, 3),
        (b"refused", Verdict::Terminated, 1),
        (&large, Verdict::Terminated, 1),
    ] {
        let letter = undertaker.recv(soon()).unwrap();
        assert!(letter.body() == body, "{} bytes", letter.body().len());
        let (topic, receiver) = ("news".to_owned(), "receiver".to_owned());
        assert_eq!(letter.dead(), Some(&Dead { topic, receiver, reason, deliveries }));
        letter.ack();
    }
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn dead_letters_wait_for_who_wants_them() {
    let dir = tempfile::tempdir().unwrap();
    {
        let (sender, receiver) = pair(dir.path());
        sender.send_to("news", b"refused").unwrap();
        sender.send_to("news", b"fine").unwrap();
        receiver.recv(soon()).unwrap().terminate();
        receiver.recv(soon()).unwrap().ack();
        sender.wait_pending(1, soon()).unwrap();
    }
    let (sender, receiver, undertaker) = impatient(dir.path(), 1);
    let letter = undertaker.recv(soon()).unwrap();
    assert_eq!(letter.body(), b"refused");
    letter.ack();
    sender.wait_pending(0, soon()).unwrap();
    assert_eq!(receiver.recv(Some(Instant::now())).err(), Some(Error::TimedOut));
}

#[test]
fn a_handler_that_panics_has_failed() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver, _undertaker) = impatient(dir.path(), 100);
    sender.send_to("news", b"one").unwrap();
    let handle = || receiver.run(|_| -> ControlFlow<()> { panic!("on purpose") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(handle)).is_err());
    let deliveries = receiver.run(|delivery| ControlFlow::Break(delivery.deliveries())).unwrap();
    assert_eq!(deliveries, 2);
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn threads_do_not_mix_their_messages() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path());
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let sender = &sender;
            scope.spawn(move || {
                for number in 0..40_usize {
                    let len = if number.is_multiple_of(4) { 2_500_000 } else { number };
                    let body = [vec![thread, number as u8], vec![thread; len]].concat();
                    sender.send("news", &body, &Options { deadline: soon(), ..Options::default() }).unwrap();
                }
            });
        }
        let mut next = [0; 4];
        for _ in 0..160 {
            let delivery = receiver.recv(soon()).unwrap();
            let (thread, number) = (delivery.body()[0], delivery.body()[1]);
            assert_eq!(number, next[usize::from(thread)], "in the order of each thread");
            next[usize::from(thread)] += 1;
            assert!(delivery.body()[2..].iter().all(|byte| *byte == thread));
            delivery.ack();
        }
    });
    sender.wait_pending(0, soon()).unwrap();
}

/// A message that its sender drops while a handler has it costs no credit any more once it is acknowledged.
#[test]
fn what_is_dropped_while_it_is_in_hand_costs_no_credit() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path());
    let body = vec![7; 900_000];
    for _ in 0..20 {
        sender.send_all("news", &body).unwrap();
        let in_hand = receiver.recv(soon()).unwrap();
        assert_eq!(sender.clear_pending("news"), Ok(1));
        // It follows the news of that.
        sender.send_all("news", b"next").unwrap();
        let next = receiver.recv(soon()).unwrap();
        assert_eq!((in_hand.body().len(), next.body()), (body.len(), &b"next"[..]));
        next.ack();
        sender.wait_pending(0, soon()).unwrap();
        in_hand.ack();
    }
}

#[test]
fn what_expires_while_it_waits_costs_no_credit() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path());
    let brief = Options { ttl: Some(Duration::from_millis(20)), deadline: soon(), ..Options::default() };
    // Several times the send window.
    for _ in 0..40 {
        sender.send("news", &vec![1; 1 << 20], &brief).unwrap();
    }
    sender.send_to("news", b"last").unwrap();
    loop {
        let delivery = receiver.recv(soon()).unwrap();
        let is_last = delivery.body() == b"last";
        delivery.ack();
        if is_last {
            break;
        }
    }
    sender.wait_pending(0, soon()).unwrap();
}

/// A store in use cannot be opened by any path, even after all files but the log were removed.
#[test]
fn a_store_in_use_stays_one_s() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let first = Client::builder("first", "f").data_dir(&store).registry("none").start().unwrap();
    for file in std::fs::read_dir(&store).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "log") {
            std::fs::remove_file(path).unwrap();
        }
    }
    // As another process would lock it.
    let directory = std::fs::File::open(&store).unwrap();
    assert!(matches!(directory.try_lock(), Err(std::fs::TryLockError::WouldBlock)));
    drop(first);
    directory.try_lock().unwrap();
    let second = Client::builder("second", "s").data_dir(&store).registry("none").start();
    assert_eq!(second.err(), Some(Error::InUse));
}
