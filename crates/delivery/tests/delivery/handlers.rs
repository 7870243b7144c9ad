//! Handlers of messages, and their time limits.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use futures::StreamExt;
use pinnace_delivery::{Builder, Client, Delivery, Durability, Error, Full, Options, Pending, Settlement};

use crate::common::{client, soon};

/// A receiver configured by `build`, and a sender that knows it.
fn pair(dir: &Path, build: impl FnOnce(Builder) -> Builder) -> (Client, Client) {
    let retry = Duration::from_millis(1);
    let receiver = build(client("receiver", dir).retry(retry, retry)).start().unwrap();
    let sender = client("sender", dir).peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    (sender, receiver)
}

fn send(sender: &Client, bodies: &[&str]) {
    let options = Options { durability: Durability::Interval, ..Options::default() };
    bodies.iter().for_each(|body| sender.send("news", body.as_bytes(), &options).unwrap());
}

#[test]
fn who_takes_too_long_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path(), |builder| builder.ack_within(Duration::from_millis(50)));
    send(&sender, &["one", "two"]);
    let slow = receiver.recv(soon()).unwrap();
    let also_slow = receiver.recv(soon()).unwrap();
    let again = receiver.recv(soon()).unwrap();
    assert_eq!((again.body(), again.deliveries()), (&b"one"[..], 2));
    // A late failure is ignored; a late acknowledgement counts.
    drop(slow);
    again.ack();
    also_slow.ack();
    sender.wait_pending(0, soon()).unwrap();
    assert!(matches!(receiver.recv(Some(Instant::now())), Err(Error::TimedOut)), "it is not delivered again");
}

#[test]
fn who_says_that_it_goes_on_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let within = Duration::from_millis(200);
    let (sender, receiver) = pair(dir.path(), |builder| builder.ack_within(within));
    send(&sender, &["long"]);
    let delivery = receiver.recv(soon()).unwrap();
    let since = Instant::now();
    while since.elapsed() < within * 3 {
        delivery.in_progress();
        let next = receiver.recv(Some(Instant::now() + Duration::from_millis(20)));
        assert!(matches!(next, Err(Error::TimedOut)));
    }
    delivery.ack();
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn what_takes_too_long_too_often_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let limits = |builder: Builder| builder.ack_within(Duration::from_millis(5)).max_deliveries(3);
    let (sender, receiver) = pair(dir.path(), limits);
    send(&sender, &["hangs", "fine"]);
    let (mut hanging, mut others) = (Vec::new(), 0);
    while hanging.len() < 3 || others < 1 {
        let delivery = receiver.recv(soon()).unwrap();
        match delivery.body() {
            b"hangs" => hanging.push(delivery),
            _ => {
                delivery.ack();
                others += 1;
            }
        }
    }
    // The time limit works even though no call receives any more.
    let dead = |pending: &Pending| pending.topic == "news.dead" && pending.messages == 1;
    let until = soon().unwrap();
    while !sender.pending_by_peer().iter().any(dead) {
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
}

#[test]
fn others_go_first_where_that_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let second = Duration::from_secs(1);
    let (sender, receiver) = pair(dir.path(), |builder| builder.retry(second, second).skip_failing());
    send(&sender, &["fails", "fine"]);
    drop(receiver.recv(soon()).unwrap());
    for expected in ["fine", "fails"] {
        let delivery = receiver.recv(soon()).unwrap();
        assert_eq!(delivery.body(), expected.as_bytes());
        delivery.ack();
    }
}

#[test]
fn a_thread_handles_what_comes() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path(), |builder| builder);
    let (handled, seen) = channel();
    let mut is_first = true;
    receiver
        .listen(move |delivery| {
            handled.send(String::from_utf8(delivery.body().to_vec()).unwrap()).unwrap();
            match (delivery.body(), std::mem::replace(&mut is_first, false)) {
                (b"error", true) => Err("the first time"),
                (b"panic", _) if delivery.deliveries() == 1 => panic!("a handler that panics"),
                _ => Ok(()),
            }
        })
        .unwrap();
    send(&sender, &["error", "panic", "fine"]);
    for expected in ["error", "error", "panic", "panic", "fine"] {
        assert_eq!(seen.recv_timeout(Duration::from_secs(20)).unwrap(), expected);
    }
    sender.wait_pending(0, soon()).unwrap();
    drop(receiver);
    assert!(seen.recv().is_err(), "the thread has ended");
}

#[test]
fn a_handler_settles_its_message_by_what_it_returns() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path(), |builder| builder);
    let (handled, seen) = channel();
    let heard = move |delivery: &Delivery| {
        handled.send((String::from_utf8(delivery.body().to_vec()).unwrap(), delivery.deliveries())).unwrap();
    };
    let (first, hear) = (heard.clone(), heard.clone());
    receiver
        .listen(move |delivery| {
            first(delivery);
            let settlement = match (delivery.body(), delivery.deliveries()) {
                (b"put off", 1) => Settlement::Nack(Some(Duration::ZERO)),
                (b"fails", 1) => Settlement::Fail,
                (b"refused", _) => Settlement::Terminate,
                _ => Settlement::Ack,
            };
            let is_last = delivery.body() == b"last";
            (settlement, if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
        .unwrap();
    send(&sender, &["put off", "fails", "refused", "last", "not handled"]);
    let mut found: Vec<_> =
        (0..6).map(|_| seen.recv_timeout(Duration::from_secs(20)).expect("a message")).collect();
    found.sort();
    let texts = [("fails", 1), ("fails", 2), ("last", 1), ("put off", 1), ("put off", 2), ("refused", 1)];
    assert_eq!(found, texts.map(|(text, count)| (text.to_owned(), count)));
    // The dead letter, and the one after the break.
    sender.wait_pending(2, soon()).unwrap();
    let stopped = receiver.run(|delivery| ControlFlow::Break(delivery.body().to_vec()));
    assert_eq!(stopped, Ok(b"not handled".to_vec()));
    sender.wait_pending(1, soon()).unwrap();
    receiver.listen(move |delivery| hear(delivery)).unwrap();
    send(&sender, &["nothing"]);
    assert_eq!(seen.recv_timeout(Duration::from_secs(20)), Ok(("nothing".to_owned(), 1)));
    sender.wait_pending(1, soon()).unwrap();
}

#[test]
fn a_handler_may_hold_the_last_of_its_client() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path(), |builder| builder);
    let receiver = std::sync::Arc::new(receiver);
    let (own, (done, is_done)) = (receiver.clone(), channel());
    let mut own = Some(own);
    receiver
        .listen(move |_| {
            // Closes the client from its own handler.
            drop(own.take());
            done.send(()).unwrap();
            Ok::<(), Infallible>(())
        })
        .unwrap();
    drop(receiver);
    send(&sender, &["goodbye"]);
    is_done.recv_timeout(Duration::from_secs(20)).unwrap();
}

#[test]
fn tasks_wait_for_messages_and_for_their_time() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path(), |builder| builder);
    std::thread::scope(|scope| {
        scope.spawn(|| send(&sender, &["late", "one", "two"]));
        futures::executor::block_on(async {
            receiver.recv_async().await.unwrap().nack(Some(Duration::from_millis(100)));
            let mut stream = receiver.stream();
            for expected in ["one", "two", "late"] {
                let delivery = stream.next().await.unwrap();
                assert_eq!(delivery.body(), expected.as_bytes());
                delivery.ack();
            }
        });
        scope.spawn(|| receiver.close(soon()));
        assert!(futures::executor::block_on(receiver.recv_async()).is_err());
    });
}

#[test]
fn an_iterator_ends_with_its_client() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path(), |builder| builder);
    send(&sender, &["one", "two", "three"]);
    let mut count = 0;
    for delivery in receiver.iter() {
        delivery.ack();
        count += 1;
        if count == 3 {
            receiver.close(soon()).unwrap();
        }
    }
    assert_eq!(count, 3);
}

#[test]
fn what_waits_is_told_by_receiver_and_can_be_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let sender = client("sender", dir.path())
        .peer("absent", "tcp://127.0.0.1:9", &["news", "sport"])
        .linger(Duration::ZERO)
        .start()
        .unwrap();
    let memory = Options { durability: Durability::Memory, ..Options::default() };
    sender.send_all("news", b"one").unwrap();
    sender.send_all("news", b"two").unwrap();
    sender.send("news", b"three", &Options { all: true, ..memory }).unwrap();
    // A message to one is bound to no receiver before one takes it.
    sender.send("sport", b"four", &memory).unwrap();
    sender.send("nobody's", b"five", &Options::default()).unwrap();
    let all =
        [(Some("absent"), "news", 3, 3 * 64 + 11), (None, "sport", 1, 64 + 4), (None, "nobody's", 1, 64 + 4)];
    let found = sender.pending_by_peer();
    let told = |of: &Pending| (of.receiver.clone(), of.topic.clone(), of.messages, of.bytes);
    let wanted = all.map(|of| (of.0.map(str::to_owned), of.1.to_owned(), of.2, of.3));
    assert_eq!(found.iter().map(told).collect::<Vec<_>>(), wanted);
    assert!(found.iter().all(|of| of.oldest_ms.is_some()));
    assert_eq!(sender.clear_pending("news"), Ok(3));
    assert_eq!(sender.clear_pending("news"), Ok(0));
    assert_eq!((sender.pending(), sender.pending_by_peer()[0].messages), (2, 0));
    drop(sender);
    let sender = client("sender", dir.path()).start().unwrap();
    assert_eq!(sender.pending(), 1, "what was forgotten stays so, and memory is not kept");
}

#[test]
fn the_disk_takes_no_more_than_it_may() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let most = 8 << 20;
    let sender = client("sender", dir.path()).disk_limit(most);
    let sender = sender.peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    let body = vec![7; 100_000];
    let options =
        || Options { deadline: Some(Instant::now() + Duration::from_millis(300)), ..Options::default() };
    let mut sent = 0;
    let refused = loop {
        match sender.send("news", &body, &options()) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    let Error::NoRoom(Some(shortage)) = refused else { panic!("{refused}") };
    assert_eq!((shortage.full, shortage.others), (Full::DiskLimit(most), 0));
    let [of] = &shortage.largest[..] else { panic!("{shortage}") };
    assert_eq!((of.receiver.as_deref(), of.topic.as_str()), (None, "news"));
    assert!((sent * 100_000..=shortage.used_bytes).contains(&of.bytes), "{shortage}");
    assert!(shortage.to_string().ends_with(" bytes for any receiver on news"), "{shortage}");
    let files = std::fs::read_dir(dir.path().join("sender")).unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= most && sent * 100_000 >= most / 4, "{bytes} bytes of files, {sent} messages");
    // Handled messages free space.
    (0..sent).for_each(|_| receiver.recv(soon()).unwrap().ack());
    sender.send("news", &body, &Options { deadline: soon(), ..Options::default() }).unwrap();
    receiver.recv(soon()).unwrap().ack();
    sender.wait_pending(0, soon()).unwrap();
}
