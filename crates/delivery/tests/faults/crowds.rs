//! Large numbers: ten thousand topics, a thousand clients in one process, and the cost of one that does nothing.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pinnace_delivery::{Client, Durability};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::checker::{Message, STRICT, Shared};
use crate::common::{client, command, kept, resident, short_or_long, soon, until};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Raises the limit of descriptors to the maximum. Returns it.
fn raise_descriptors() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    limit.maximum.unwrap_or(u64::MAX)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn ten_thousand_topics() {
    let dir = tempfile::tempdir().unwrap();
    let before = resident();
    let topics: Vec<String> = (0..10_000).map(|number| format!("topic {number}")).collect();
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let sender = client("sender", dir.path()).peer("receiver", receiver.endpoint(), &names).start().unwrap();
    let (books, begin) = (Shared::default(), Instant::now());
    let rounds = short_or_long(3, 30);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for run in 0..rounds {
                for (flow, topic) in (0..).zip(&names) {
                    let message = Message { flow, run: 0, number: run };
                    sender.send(topic, &message.body(100), &kept(Durability::Interval)).unwrap();
                    books.accept(message);
                }
            }
        });
        for _ in 0..rounds as usize * names.len() {
            let delivery = receiver.recv(soon()).unwrap();
            books.handle(0, 0, delivery.body());
            delivery.ack();
        }
    });
    sender.wait_pending(0, soon()).unwrap();
    let (took, bytes) = (begin.elapsed(), resident().saturating_sub(before));
    drop((sender, receiver));
    let begin = Instant::now();
    let again = client("sender", dir.path()).start().unwrap();
    assert_eq!(again.pending(), 0);
    let again = begin.elapsed();
    let more = format!("{took:.1?}, {} MiB more, {again:.1?} to start anew", bytes >> 20);
    assert!(took < Duration::from_secs(60) && again < Duration::from_secs(5), "{more}");
    books.lock().close("ten thousand topics", &STRICT, &more);
}

/// `count` clients, each of which sends to the next.
fn ring(what: &str, count: u32, start: impl Fn(&Path, &str, &str) -> Client) {
    let dir = tempfile::tempdir().unwrap();
    let (before, threads_before) = (resident(), threads());
    let begin = Instant::now();
    let clients: Vec<Client> =
        (0..count).map(|number| start(dir.path(), &format!("c{number}"), &format!("t{number}"))).collect();
    let started = begin.elapsed();
    let (books, rounds) = (Shared::default(), short_or_long(3, 20));
    let begin = Instant::now();
    for number in 0..rounds {
        for (flow, sender) in (0..count).zip(&clients) {
            let message = Message { flow, run: 0, number };
            let to = format!("t{}", (flow + 1) % count);
            sender.send(&to, &message.body(100), &kept(Durability::Interval)).unwrap();
            books.accept(message);
        }
        for (by, receiver) in (0..).zip(&clients) {
            let delivery = receiver.recv(soon()).unwrap();
            books.handle(by, 0, delivery.body());
            delivery.ack();
        }
    }
    clients.iter().for_each(|client| client.wait_pending(0, soon()).unwrap());
    let took = begin.elapsed();
    let (bytes, all_threads) = (resident(), threads());
    let open = descriptors();
    let begin = Instant::now();
    drop(clients);
    let more = format!(
        "started in {started:.1?}, sent in {took:.1?}, ended in {:.1?}; {} MiB and {} threads more, {open} descriptors",
        begin.elapsed(),
        bytes.saturating_sub(before) >> 20,
        all_threads.saturating_sub(threads_before)
    );
    books.lock().close(what, &STRICT, &more);
}

#[test]
fn hundreds_of_clients_in_one_process() {
    let most = raise_descriptors();
    let registry = |dir: &Path| format!("dir://{}", dir.join("registry").display());
    let shared = |dir: &Path, name: &str, topic: &str| {
        Client::builder(name, topic).data_dir(dir.join("store")).registry(&registry(dir)).start().unwrap()
    };
    let count = if most >= 12_000 { short_or_long(300, 1000) } else { 100 };
    ring(&format!("{count} clients in one process with one store"), count, shared);
    let own = |dir: &Path, name: &str, topic: &str| {
        Client::builder(name, topic).data_dir(dir.join(name)).registry(&registry(dir)).start().unwrap()
    };
    let count = if most >= 15_000 { short_or_long(30, 1000) } else { 30 };
    ring(&format!("{count} clients in one process with a store each"), count, own);
}

/// The process with the clients that do nothing.
pub fn idle(dir: &Path) {
    const COUNT: usize = 100;
    raise_descriptors();
    let registry = format!("dir://{}", dir.join("registry").display());
    let start = |name: &str| Client::builder(name, "t").data_dir(dir.join(name)).registry(&registry).start();
    let threads_before = threads();
    let _first = start("first").unwrap();
    let (bytes_before, descriptors_before) = (resident(), descriptors());
    let clients: Vec<Client> = (0..COUNT).map(|number| start(&format!("c{number}")).unwrap()).collect();
    // Each has written to its log before.
    clients.iter().for_each(|client| client.send("elsewhere", b"kept", &kept(Durability::Sync)).unwrap());
    until("the threads to end", || threads() - threads_before <= 8);
    let (open, bytes) = (descriptors() - descriptors_before, resident().saturating_sub(bytes_before));
    println!(
        "ok 100 clients with a store each that do nothing: {} threads, {:.2} descriptors and {} KiB each",
        threads() - threads_before,
        open as f64 / COUNT as f64,
        (bytes >> 10) / COUNT as u64
    );
    assert!(open <= 8 * COUNT, "{open} descriptors");
    assert!(bytes <= (2 << 20) * COUNT as u64, "{bytes} bytes");
}

#[test]
fn a_client_that_does_nothing_has_no_thread() {
    let dir = tempfile::tempdir().unwrap();
    let status = command("idle", dir.path(), 0).stdout(Stdio::inherit()).status().unwrap();
    assert!(status.success(), "{status}");
}
