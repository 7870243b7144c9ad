//! Statistics of a client.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use pinnace_delivery::statistics::{IncomingStatistics, OutgoingStatistics};
use pinnace_delivery::{Client, Durability, Error, Options, ReceiverState, Statistics, peek};

use crate::common::{client, pair, soon};

/// Waits until the statistics fulfil a condition.
fn wait_for(client: &Client, is_so: impl Fn(&Statistics) -> bool) -> Statistics {
    let deadline = soon().unwrap();
    loop {
        let statistics = client.statistics();
        if is_so(&statistics) {
            return statistics;
        }
        assert!(Instant::now() < deadline, "it did not come: {statistics:?}");
        std::thread::yield_now();
    }
}

fn to_receiver(statistics: &Statistics) -> &OutgoingStatistics {
    let is_it = |of: &&OutgoingStatistics| of.receiver.as_deref() == Some("receiver") && of.topic == "news";
    statistics.outgoing.iter().find(is_it).unwrap()
}

fn from_sender(statistics: &Statistics) -> &IncomingStatistics {
    statistics.incoming.iter().find(|of| of.sender == "sender" && of.topic == "news").unwrap()
}

fn add_up(of: &OutgoingStatistics, before: u64) {
    let ended = of.acknowledged
        + of.expired
        + of.expired_at_receiver
        + of.dead_letters
        + of.dropped
        + of.reassigned
        + of.cleared
        + of.pending;
    assert_eq!(of.accepted + before, ended, "{of:?}");
}

#[test]
fn both_sides_count_what_becomes_of_each_message() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).max_deliveries(2);
    let receiver = receiver.retry(Duration::from_millis(1), Duration::from_millis(1)).start().unwrap();
    let sender =
        client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    let large = vec![7; 3 << 20];
    let bodies: [&[u8]; 4] = [b"one", b"two", &large, b"four"];
    bodies.iter().for_each(|body| assert_eq!(sender.send_all("news", body), Ok(1)));
    let arrived = wait_for(&receiver, |of| of.incoming.first().is_some_and(|of| of.received == 4));
    let of = from_sender(&arrived);
    assert_eq!((of.waiting, of.connected, of.duplicates), (4, true, 0));
    assert!((10..10 + (3 << 20)).contains(&of.waiting_bytes), "the large body is compressed: {of:?}");
    let sent = sender.statistics();
    let of = to_receiver(&sent);
    assert_eq!((of.pending, of.accepted, of.sent, of.sent_again), (4, 4, 4, 0));
    assert_eq!((of.connection, of.reason.as_deref()), (Some(ReceiverState::Connected), None));
    assert!(of.credit_bytes.is_some_and(|bytes| bytes > 0 && bytes < 8 << 20));
    assert!(of.pending_bytes > 4 * 64 && of.oldest_age_ms.is_some_and(|ms| ms < 20_000));

    // The first fails twice and is given up; the others are acknowledged, one of them late.
    (0..2).for_each(|_| drop(receiver.recv(soon()).unwrap()));
    let held = receiver.recv(soon()).unwrap();
    assert_eq!(held.body(), b"two");
    assert_eq!(from_sender(&receiver.statistics()).in_hand, 1);
    held.ack();
    (0..2).for_each(|_| receiver.recv(soon()).unwrap().ack());
    let of = wait_for(&sender, |of| to_receiver(of).pending == 0);
    let of = to_receiver(&of);
    assert_eq!((of.acknowledged, of.dead_letters, of.pending_bytes, of.oldest_age_ms), (3, 1, 0, None));
    add_up(of, 0);
    let all = receiver.statistics();
    let of = from_sender(&all);
    assert_eq!((of.delivered, of.redelivered, of.failed, of.given_up), (4, 1, 2, 1));
    assert_eq!((of.acknowledged, of.waiting, of.waiting_bytes, of.in_hand), (3, 0, 0, 0));
    let letters = sender.statistics();
    let letters = letters.outgoing.iter().find(|of| of.topic == "news.dead").unwrap();
    assert_eq!((letters.receiver.as_deref(), letters.pending, letters.connection), (None, 1, None));
    assert_eq!(sender.clear_pending("news.dead"), Ok(1));
    let letters = sender.statistics();
    let letters = letters.outgoing.iter().find(|of| of.topic == "news.dead").unwrap();
    assert_eq!((letters.cleared, letters.pending), (1, 0));
}

#[test]
fn whole_messages_are_counted_also_after_a_restart_and_from_outside() {
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        let absent = client("sender", dir.path()).compress_from(usize::MAX);
        absent.peer("receiver", "ipc:///nowhere/at/all", &["news"]).disk_limit(1 << 30).start().unwrap()
    };
    let sender = start();
    let body = vec![7; (5 << 20) / 2];
    // More than one file of the store, so that some are recovered from their summaries.
    for _ in 0..20 {
        sender.send_all("news", &body).unwrap();
        sender.send_all("news", b"small").unwrap();
    }
    let memory = Options { durability: Durability::Memory, all: true, ..Options::default() };
    sender.send("news", &body, &memory).unwrap();
    assert_eq!(sender.pending(), 41);
    let cost = 20 * (body.len() as u64 + 3 * 64 + 5 + 64);
    let held = body.len() as u64 + 3 * 64;
    let of = sender.statistics();
    assert!(of.store.segments > 1 && of.store.disk_bytes > cost, "{:?}", of.store);
    assert_eq!((of.store.memory_bytes, of.store.disk_limit_bytes), (held, Some(1 << 30)));
    assert!(of.store.syncs >= 20 && of.store.sync_us > 0);
    let of = to_receiver(&of);
    assert_eq!((of.pending, of.pending_bytes, of.sent), (41, cost + held, 0));
    let seen = peek(&dir.path().join("sender")).unwrap();
    assert_eq!((seen[0].pending[0].messages, seen[0].pending[0].bytes), (40, cost));
    sender.close(Some(Instant::now())).unwrap_err();
    drop(sender);

    let sender = start();
    let of = sender.statistics();
    let of = to_receiver(&of);
    assert_eq!((of.pending, of.pending_bytes, of.accepted), (40, cost, 0));
    assert!(of.oldest_age_ms.is_some_and(|ms| ms < 60_000));
    sender.send_all("news", b"later").unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    drop(sender);
    let sender =
        client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    for left in (0..41).rev() {
        receiver.recv(soon()).unwrap().ack();
        wait_for(&sender, |of| to_receiver(of).pending == left);
    }
    let of = sender.statistics();
    add_up(to_receiver(&of), 41);
}

#[test]
fn the_oldest_pending_message_has_its_own_age() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path());
    sender.send_all("news", b"first").unwrap();
    let first = Instant::now();
    let old = wait_for(&sender, |of| to_receiver(of).oldest_age_ms.is_some_and(|ms| ms >= 300));
    assert!(to_receiver(&old).oldest_age_ms <= Some(first.elapsed().as_millis() as u64 + 100));
    let delivery = receiver.recv(soon()).unwrap();
    sender.send_all("news", b"second").unwrap();
    let second = Instant::now();
    delivery.ack();
    let of = wait_for(&sender, |of| to_receiver(of).pending == 1);
    assert!(to_receiver(&of).oldest_age_ms <= Some(second.elapsed().as_millis() as u64 + 100));
}

#[test]
fn expired_and_put_off_messages_and_retries_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path());
    sender.send_all("news", b"one").unwrap();
    let delivery = receiver.recv(soon()).unwrap();
    delivery.nack(Some(Duration::ZERO));
    receiver.recv(soon()).unwrap().ack();
    let of = receiver.statistics();
    let of = from_sender(&of);
    assert_eq!((of.delivered, of.redelivered, of.put_off, of.failed), (1, 1, 1, 0));
    sender.wait_pending(0, soon()).unwrap();
    drop(receiver);
    let short = Options { ttl: Some(Duration::from_millis(1)), all: true, ..Options::default() };
    wait_for(&sender, |of| to_receiver(of).connection != Some(ReceiverState::Connected));
    sender.send("news", b"two", &short).unwrap();
    sender.send_all("news", b"three").unwrap();
    drop(sender);
    let (sender, receiver) = pair(dir.path());
    assert_eq!(receiver.recv(soon()).unwrap().body(), b"three", "and it fails");
    let of = wait_for(&sender, |of| to_receiver(of).pending == 1);
    assert_eq!((to_receiver(&of).expired, to_receiver(&of).sent), (1, 1));
    add_up(to_receiver(&of), 2);
}

#[test]
fn what_is_sent_again_on_a_further_connection_is_counted_and_dropped_once() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path());
    (0..10).for_each(|_| assert_eq!(sender.send_all("news", b"held"), Ok(1)));
    wait_for(&receiver, |of| of.incoming.first().is_some_and(|of| of.received == 10));
    let endpoint = receiver.endpoint().to_owned();
    drop(receiver);
    let receiver = client("receiver", dir.path()).listen(&endpoint).start().unwrap();
    let of = wait_for(&sender, |of| to_receiver(of).sent_again == 10);
    assert_eq!(to_receiver(&of).sent, 10);
    (0..10).for_each(|_| receiver.recv(soon()).unwrap().ack());
    sender.wait_pending(0, soon()).unwrap();
    assert_eq!(to_receiver(&sender.statistics()).acknowledged, 10);
}

#[test]
fn a_callback_may_ask_for_statistics() {
    let dir = tempfile::tempdir().unwrap();
    let sender: &'static Mutex<Option<Client>> = Box::leak(Box::default());
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let builder = client("sender", dir.path()).peer("receiver", "tcp://127.0.0.1:9", &["news"]);
    let started = builder.on_error(move |error: &Error| {
        let sender = sender.lock().unwrap();
        let Some(of) = sender.as_ref().map(Client::statistics) else { return };
        let connection = to_receiver(&of).connection;
        tell.lock().unwrap().send((error.clone(), connection)).unwrap();
    });
    let mut place = sender.lock().unwrap();
    let started = place.insert(started.start().unwrap());
    started.send_all("news", b"waits").unwrap();
    drop(place);
    let began = Instant::now();
    let (error, connection) = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(matches!(error, Error::NoAnswer { .. }), "{error}");
    assert!(matches!(connection, Some(ReceiverState::Refused | ReceiverState::Unanswered)), "{connection:?}");
    assert!(began.elapsed() < Duration::from_secs(7), "it did not wait for itself");
    // Without the lock: the end of the client waits for calls.
    let sender = sender.lock().unwrap().take();
    drop(sender);
}

#[test]
fn json_and_prometheus_have_all_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path());
    sender.send_all("news", b"one").unwrap();
    sender.send_to("a \"topic\"\nwith\\all", b"two").unwrap();
    receiver.recv(soon()).unwrap().ack();
    sender.wait_pending(1, soon()).unwrap();
    let (sent, received) = (sender.statistics(), receiver.statistics());
    let json = sent.to_json();
    assert!(json.starts_with("{\"client\":\"sender\",\"uptime_ms\":") && !json.contains('\n'), "{json}");
    for text in [
        "\"receiver\":\"receiver\"",
        "\"connection\":\"connected\"",
        "\"receiver\":null",
        "\"acknowledged\":1",
    ] {
        assert!(json.contains(text), "{text} in {json}");
    }
    let text = sent.to_prometheus();
    let limit = sent.store.disk_limit_bytes.expect("the default");
    let limit = format!("pinnace_delivery_store_disk_limit_bytes{{client=\"sender\"}} {limit}\n");
    for line in [
        "pinnace_delivery_acknowledged_messages_total{client=\"sender\",topic=\"news\",receiver=\"receiver\"} 1\n",
        "pending_messages{client=\"sender\",topic=\"a \\\"topic\\\"\\nwith\\\\all\",receiver=\"\"} 1\n",
        "pinnace_delivery_receiver_state{client=\"sender\",receiver=\"receiver\",state=\"connected\"} 1\n",
        limit.as_str(),
        "# TYPE pinnace_delivery_sent_messages_total counter\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let line =
        "pinnace_delivery_handled_messages_total{client=\"receiver\",topic=\"news\",sender=\"sender\"} 1\n";
    assert!(received.to_prometheus().contains(line));
}

/// An HTTP request, and the answer.
fn request(client: &Client, text: &str) -> String {
    let mut stream = TcpStream::connect(client.metrics_address().unwrap()).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn statistics_are_served_over_http() {
    let dir = tempfile::tempdir().unwrap();
    let sender = client("sender", dir.path()).metrics("0").start().unwrap();
    assert!(sender.metrics_address().unwrap().ip().is_loopback());
    sender.send_all("news", b"one").unwrap();
    let answer = request(&sender, "GET /metrics?x=1 HTTP/1.1\r\nHost: here\r\n\r\n");
    let (head, content) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
    );
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", content.len())), "{head}");
    assert!(
        content.contains("pending_messages{client=\"sender\",topic=\"news\",receiver=\"\"} 1\n"),
        "{content}"
    );
    let answer = request(&sender, "GET /statistics HTTP/1.0\r\n\r\n");
    let (head, content) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("application/json") && content.starts_with("{\"client\":\"sender\","), "{answer}");
    let answer = request(&sender, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
    let long = format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(8 << 10));
    for (text, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405 Method Not Allowed"),
        ("metrics, please\r\n\r\n", "400 Bad Request"),
        ("\u{1}\u{2}\r\n", "400 Bad Request"),
        (&many, "431 Request Header Fields Too Large"),
        (&long, "431 Request Header Fields Too Large"),
    ] {
        let answer = request(&sender, text);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{status}: {answer}");
    }
}

#[test]
fn a_slow_scraper_is_dropped_and_does_not_keep_others_away_or_the_client_open() {
    let dir = tempfile::tempdir().unwrap();
    let sender = client("sender", dir.path()).metrics("127.0.0.1:0").start().unwrap();
    let address = sender.metrics_address().unwrap();
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(b"GET /metr").unwrap();
    let began = Instant::now();
    assert!(request(&sender, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(slow.read(&mut [0; 10]).unwrap(), 0, "it got no answer");
    // The address is in use, which a second client is told.
    let taken = client("other", dir.path()).metrics(&address.to_string()).start().err();
    assert_eq!(taken, Some(Error::Metrics { address: address.to_string(), kind: ErrorKind::AddrInUse }));
    assert!(matches!(client("other", dir.path()).metrics("here").start().err(), Some(Error::Setting(_))));
    sender.close(soon()).unwrap();
    assert_eq!(sender.metrics_address(), None);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let other = client("other", dir.path()).metrics(&address.to_string()).start().unwrap();
    assert_eq!(other.metrics_address(), Some(address));
}

/// Messages to one are counted under no receiver, and each receiver has those that it took.
#[test]
fn messages_to_one_are_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = pair(dir.path());
    (0..3).for_each(|_| sender.send_to("news", b"one").unwrap());
    let in_hand = receiver.recv(soon()).unwrap();
    let statistics = wait_for(&sender, |now| to_receiver(now).assigned >= 1);
    let to_receiver = to_receiver(&statistics);
    assert_eq!((to_receiver.connection, to_receiver.pending), (Some(ReceiverState::Connected), 0));
    let shared = statistics.outgoing.iter().find(|of| of.receiver.is_none()).unwrap();
    assert_eq!((shared.pending, shared.accepted), (3, 3));
    in_hand.ack();
    (0..2).for_each(|_| receiver.recv(soon()).unwrap().ack());
    sender.wait_pending(0, soon()).unwrap();
    let statistics = sender.statistics();
    let shared = statistics.outgoing.iter().find(|of| of.receiver.is_none()).unwrap();
    add_up(shared, 0);
    assert_eq!((shared.acknowledged, shared.sent), (3, 3));
}
