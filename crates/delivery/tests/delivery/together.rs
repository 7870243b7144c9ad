//! Consuming and producing in one step: the acknowledgement and the messages that follow from it count together.

use std::path::Path;
use std::time::{Duration, Instant};

use pinnace_delivery::{Client, Delivery, Durability, Error, Full, NewMessage, NotAcked, Options};

use crate::common::{client, member, soon};

/// A sender of orders, a worker that makes invoices of them, and a printer of invoices.
fn chain(dir: &Path) -> (Client, Client, Client) {
    let printer = client("printer", dir).start().unwrap();
    let worker = client("worker", dir).peer("printer", printer.endpoint(), &["invoices"]);
    let worker = worker.ack_within(Duration::from_secs(3600)).start().unwrap();
    let sender = client("sender", dir).peer("worker", worker.endpoint(), &["orders"]).start().unwrap();
    (sender, worker, printer)
}

fn invoice(body: &[u8]) -> NewMessage<'_> {
    let options = Options { deadline: soon(), ..Options::default() };
    NewMessage { topic: "invoices", body, options }
}

/// A body that does not compress.
fn random(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn order(sender: &Client, worker: &Client) -> Delivery {
    sender.send_to("orders", b"order").unwrap();
    worker.recv(soon()).unwrap()
}

/// The next message is this one, and it is acknowledged.
fn gets(client: &Client, body: &[u8]) {
    let delivery = client.recv(soon()).unwrap();
    assert!(delivery.body() == body, "{} bytes, {} expected", delivery.body().len(), body.len());
    delivery.ack();
}

/// The next messages are all that `printer` gets.
fn gets_only(worker: &Client, printer: &Client, bodies: &[&[u8]]) {
    worker.send_to("invoices", b"the last").unwrap();
    bodies.iter().chain(&[&b"the last"[..]]).for_each(|body| gets(printer, body));
}

/// Refused, with the delivery.
fn refused(done: Result<(), NotAcked>) -> (Delivery, Error) {
    let NotAcked { delivery, error } = done.unwrap_err();
    (*delivery.expect("it is still to be settled"), error)
}

#[test]
fn messages_follow_from_an_acknowledgement() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, worker, printer) = chain(dir.path());
    let (large, small) = (random(3 << 20), b"an invoice".to_vec());
    for durability in [Durability::Sync, Durability::Interval] {
        let delivery = order(&sender, &worker);
        let with = |body, headers| {
            let options =
                Options { durability, headers, content_type: Some("text/plain"), ..invoice(body).options };
            NewMessage { options, ..invoice(body) }
        };
        let messages = [with(&small, &[("a", b"1")]), with(&large, &[]), with(b"", &[]), with(&small, &[])];
        worker.ack_and_send(delivery, &messages).unwrap();
        let first = printer.recv(soon()).unwrap();
        assert_eq!((first.body(), first.header("a")), (&small[..], Some(&b"1"[..])));
        first.ack();
        [&large[..], b"", &small].iter().for_each(|body| gets(&printer, body));
        sender.wait_pending(0, soon()).unwrap();
        worker.wait_pending(0, soon()).unwrap();
    }
    // Without messages; and without waiting for the disk.
    worker.ack_and_send(order(&sender, &worker), &[]).unwrap();
    let ticket = worker.ack_and_send_async(order(&sender, &worker), &[invoice(b"async")]).unwrap();
    worker.wait(ticket, soon()).unwrap();
    gets_only(&worker, &printer, &[b"async"]);
    sender.wait_pending(0, soon()).unwrap();
    let counts = worker.statistics();
    assert_eq!((counts.incoming[0].acknowledged, worker.in_hand()), (4, 0));
}

/// The deadline is over before the disk has it.
#[test]
fn what_was_accepted_is_not_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, worker, printer) = chain(dir.path());
    let mut bodies = Vec::new();
    loop {
        bodies.push(&b"one"[..]);
        let options = Options { deadline: Some(Instant::now()), ..Options::default() };
        match worker.ack_and_send(order(&sender, &worker), &[NewMessage { options, ..invoice(b"one") }]) {
            Ok(()) => assert!(bodies.len() < 1000, "the disk is always faster"),
            Err(NotAcked { delivery, error }) => {
                assert_eq!((delivery.is_none(), error), (true, Error::TimedOut));
                break;
            }
        }
    }
    gets_only(&worker, &printer, &bodies);
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn a_message_from_memory_is_acknowledged_too() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, worker, printer) = chain(dir.path());
    let held = Options { durability: Durability::Memory, ..Options::default() };
    for number in 0..20_u8 {
        sender.send("orders", b"order", &held).unwrap();
        worker.ack_and_send(worker.recv(soon()).unwrap(), &[invoice(&[number])]).unwrap();
        gets(&printer, &[number]);
    }
    sender.wait_pending(0, soon()).unwrap();
}

/// To one of the receivers and to all, also to those to come.
#[test]
fn messages_to_one_and_to_all_go_together() {
    let dir = tempfile::tempdir().unwrap();
    let sender = member(dir.path(), "sender", "s").start().unwrap();
    let worker = member(dir.path(), "worker", "orders").start().unwrap();
    let start = |name: &str| member(dir.path(), name, "invoices").topics(&["news"]).start().unwrap();
    let (one, two) = (start("one"), start("two"));
    worker.wait_listeners("invoices", 2, soon()).unwrap();
    let all =
        |topic| NewMessage { topic, body: b"to all", options: Options { all: true, ..invoice(b"").options } };
    let to_one = NewMessage { topic: "news", ..invoice(b"to one") };
    worker.ack_and_send(order(&sender, &worker), &[to_one, all("invoices"), all("later")]).unwrap();
    let (mut of_one, deadline) = (0, soon().unwrap());
    let mut of_all = [0, 0];
    while of_one < 1 || of_all != [1, 1] {
        assert!(Instant::now() < deadline, "{of_one} and {of_all:?}");
        for (at, client) in [&one, &two].into_iter().enumerate() {
            let Some(delivery) = client.try_recv().unwrap() else { continue };
            match delivery.body() {
                b"to one" => of_one += 1,
                _ => of_all[at] += 1,
            }
            delivery.ack();
        }
    }
    gets(&member(dir.path(), "late", "later").start().unwrap(), b"to all");
    sender.wait_pending(0, soon()).unwrap();
}

/// Each of these messages is refused, and nothing of the call counts: the order is still in hand, nothing is sent.
#[test]
fn what_cannot_be_sent_acknowledges_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, worker, printer) = chain(dir.path());
    let other = client("other", dir.path()).start().unwrap();
    let (long, good) = ("x".repeat(251), invoice(b"good"));
    let with = |options| NewMessage { options, ..good };
    let held = with(Options { durability: Durability::Memory, ..good.options });
    let (no_time, no_id) = (Some(Duration::ZERO), Some(""));
    let bad = [
        NewMessage { topic: &long, ..good },
        with(Options { ttl: no_time, ..good.options }),
        with(Options { id: no_id, ..good.options }),
        held,
    ];
    let mut delivery = order(&sender, &worker);
    let mut errors = Vec::new();
    for message in bad {
        let error;
        (delivery, error) = refused(worker.ack_and_send(delivery, &[good, message, good]));
        errors.push(error);
    }
    assert!(
        matches!(&errors[..], [Error::Name, Error::Ttl, Error::Property(_), Error::Together(_)]),
        "{errors:?}"
    );
    let (delivery, error) = refused(other.ack_and_send(delivery, &[good]));
    assert!(matches!(error, Error::Together(_)), "{error}");
    assert_eq!((worker.pending(), other.pending(), worker.in_hand()), (0, 0, 1));
    worker.ack_and_send(delivery, &[good]).unwrap();
    gets_only(&worker, &printer, &[b"good"]);
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn messages_that_are_too_large_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (name, limit, most) in [("small", 16 << 20, 1 << 20), ("large", u64::MAX, 8 << 20)] {
        let dir = dir.path().join(name);
        let worker = client("worker", &dir).disk_limit(limit).start().unwrap();
        let sender = client("sender", &dir).peer("worker", worker.endpoint(), &["orders"]).start().unwrap();
        let third = random(most as usize / 3);
        let delivery = order(&sender, &worker);
        let (delivery, error) = refused(worker.ack_and_send(delivery, &[invoice(&third); 3]));
        assert_eq!((error, worker.pending()), (Error::TooLargeTogether(most), 0));
        worker.ack_and_send(delivery, &[invoice(&third[..third.len() - 1000]); 3]).unwrap();
        assert_eq!(worker.pending(), 3);
        sender.wait_pending(0, soon()).unwrap();
    }
}

/// The delivery has failed when its time was over, and is delivered again.
#[test]
fn a_delivery_whose_time_is_over_sends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let printer = client("printer", dir.path()).start().unwrap();
    let worker = client("worker", dir.path()).peer("printer", printer.endpoint(), &["invoices"]);
    let worker = worker.ack_within(Duration::from_millis(50)).retry(Duration::ZERO, Duration::ZERO);
    let worker = worker.start().unwrap();
    let sender = client("sender", dir.path()).peer("worker", worker.endpoint(), &["orders"]).start().unwrap();
    let late = order(&sender, &worker);
    let mut again = worker.recv(soon()).unwrap();
    let (late, error) = refused(worker.ack_and_send(late, &[invoice(b"late")]));
    assert_eq!(error, Error::Void);
    // On a slow machine, its time may be over as well.
    while let Err(NotAcked { error, .. }) = worker.ack_and_send(again, &[invoice(b"in time")]) {
        assert_eq!(error, Error::Void);
        again = worker.recv(soon()).unwrap();
    }
    sender.wait_pending(0, soon()).unwrap();
    let (late, error) = refused(worker.ack_and_send(late, &[invoice(b"late")]));
    assert_eq!(error, Error::Void);
    late.ack();
    gets_only(&worker, &printer, &[b"in time"]);
}

#[test]
fn a_delivery_of_a_client_that_was_started_again_sends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let printer = client("printer", dir.path()).start().unwrap();
    // A path, which is free again at once.
    let endpoint = format!("ipc://{}", dir.path().join("worker.sock").display());
    let start = || {
        let worker = client("worker", dir.path()).listen(&endpoint);
        worker.peer("printer", printer.endpoint(), &["invoices"]).start().unwrap()
    };
    let worker = start();
    let sender = client("sender", dir.path()).peer("worker", &endpoint, &["orders"]).start().unwrap();
    let delivery = order(&sender, &worker);
    assert_eq!(worker.close(Some(Instant::now())), Err(Error::TimedOut));
    let (delivery, error) = refused(worker.ack_and_send(delivery, &[invoice(b"closed")]));
    assert_eq!(error, Error::Closed);
    let next = start();
    let again = next.recv(soon()).unwrap();
    let (delivery, error) = refused(next.ack_and_send(delivery, &[invoice(b"void")]));
    assert_eq!(error, Error::Void);
    drop(delivery);
    next.ack_and_send(again, &[invoice(b"again")]).unwrap();
    gets_only(&next, &printer, &[b"again"]);
    sender.wait_pending(0, soon()).unwrap();
}

/// An acknowledgement counts after its client was closed, but the client sends nothing more.
#[test]
fn a_closed_client_gives_the_delivery_back() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, worker, _printer) = chain(dir.path());
    let delivery = order(&sender, &worker);
    assert_eq!(worker.drain(Some(Instant::now())), Err(Error::TimedOut));
    assert_eq!(worker.close(Some(Instant::now())), Err(Error::TimedOut));
    let (delivery, error) = refused(worker.ack_and_send(delivery, &[invoice(b"closed")]));
    assert_eq!((error, worker.pending()), (Error::Closed, 0));
    delivery.ack();
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn a_client_that_is_drained_still_sends() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, worker, printer) = chain(dir.path());
    let delivery = order(&sender, &worker);
    assert_eq!(worker.drain(Some(Instant::now())), Err(Error::TimedOut));
    worker.ack_and_send(delivery, &[invoice(b"the result")]).unwrap();
    assert_eq!(worker.drain(soon()), Ok(()));
    gets(&printer, b"the result");
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn without_room_nothing_counts() {
    let dir = tempfile::tempdir().unwrap();
    let limit = 24 << 20;
    let worker = client("worker", dir.path()).disk_limit(limit).start().unwrap();
    let sender = client("sender", dir.path()).peer("worker", worker.endpoint(), &["orders"]).start().unwrap();
    let body = random(1 << 20);
    let brief = || Some(Instant::now() + Duration::from_millis(20));
    let filler = || Options { durability: Durability::Interval, deadline: brief(), ..Options::default() };
    // On a busy machine, a send may time out while there is room.
    while !matches!(worker.send("filler", &body, &filler()), Err(Error::NoRoom(_))) {}
    while !matches!(worker.send("filler", &body[..10_000], &filler()), Err(Error::NoRoom(_))) {}
    let mut delivery = order(&sender, &worker);
    let shortage = loop {
        let options = Options { deadline: brief(), ..Options::default() };
        let message = NewMessage { options, ..invoice(&body[..20_000]) };
        let error;
        (delivery, error) = refused(worker.ack_and_send(delivery, &[message]));
        match error {
            Error::NoRoom(shortage) => break shortage.unwrap(),
            error => assert_eq!(error, Error::TimedOut),
        }
    };
    assert_eq!((shortage.full, shortage.largest[0].topic.as_str()), (Full::DiskLimit(limit), "filler"));
    let pending = worker.pending();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| worker.ack_and_send(delivery, &[invoice(&body[..20_000])]));
        assert_eq!(worker.clear_pending("filler"), Ok(pending));
        waits.join().unwrap().unwrap();
    });
    assert_eq!(worker.pending(), 1);
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn a_message_whose_id_was_sent_is_not_stored_again() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, worker, printer) = chain(dir.path());
    let with_id = |id, body| {
        let options = Options { id: Some(id), ..invoice(body).options };
        NewMessage { options, ..invoice(body) }
    };
    let (one, two) = (with_id("1", b"one"), with_id("2", b"two"));
    worker.send("invoices", b"one", &one.options).unwrap();
    worker.ack_and_send(order(&sender, &worker), &[one, two, two, invoice(b"three")]).unwrap();
    worker.ack_and_send(order(&sender, &worker), &[two, one]).unwrap();
    worker.send("invoices", b"two", &two.options).unwrap();
    sender.wait_pending(0, soon()).unwrap();
    gets_only(&worker, &printer, &[b"one", b"two", b"three"]);
    // One in memory would be lost in a crash that keeps the acknowledgement.
    let held = with_id("held", b"held");
    worker.send("invoices", b"held", &Options { durability: Durability::Memory, ..held.options }).unwrap();
    let (delivery, error) = refused(worker.ack_and_send(order(&sender, &worker), &[held]));
    assert!(matches!(error, Error::Together(_)), "{error}");
    delivery.ack();
}

/// Messages of several parts, of other threads, on the same streams.
#[test]
fn whole_messages_of_other_threads_come_in_between() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, worker, printer) = chain(dir.path());
    let (large, of_both) = (random(2 << 20), random((2 << 20) + 1));
    let count = 10;
    for _ in 0..count {
        sender.send_to("orders", b"order").unwrap();
    }
    std::thread::scope(|scope| {
        let others = || (0..count).for_each(|_| worker.send_to("invoices", &large).unwrap());
        scope.spawn(others);
        scope.spawn(others);
        scope.spawn(|| {
            for _ in 0..count {
                let delivery = worker.recv(soon()).unwrap();
                worker.ack_and_send(delivery, &[invoice(&of_both), invoice(b"small")]).unwrap();
            }
        });
        let (mut of_others, mut own) = (0, Vec::new());
        while of_others < 2 * count || own.len() < 2 * count {
            let delivery = printer.recv(soon()).unwrap();
            match delivery.body().len() {
                len if len == large.len() => of_others += 1,
                len => own.push(len),
            }
            assert!([&large, &of_both, &b"small".to_vec()].contains(&&delivery.body().to_vec()));
            delivery.ack();
        }
        let expected = [of_both.len(), 5].repeat(count);
        assert_eq!((of_others, own), (2 * count, expected));
    });
    sender.wait_pending(0, soon()).unwrap();
}
