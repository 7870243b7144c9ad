//! Clients with a registry server that is killed, hangs, loses its data, is restored from an old state, or is not
//! started yet.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pinnace_delivery::registry::RegistryError;
use pinnace_delivery::{Builder, Client, Error};
use redis::cmd;

use crate::checker::{STRICT, Sums, report};
use crate::place::until;
use crate::server::Server;

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(30))
}

fn builder(dir: &Path, server: &Server, name: &str, topic: &str) -> Builder {
    // The sender uses a different URL, as if it were in another process.
    let url = if name == "sender" { format!("{}/0", server.url()) } else { server.url() };
    Client::builder(name, topic).data_dir(dir.join(name)).registry(&url).lease(Duration::from_secs(2))
}

fn start(dir: &Path, server: &Server, name: &str, topic: &str) -> Client {
    builder(dir, server, name, topic).start().unwrap()
}

fn is_unreachable(client: &Client) -> bool {
    matches!(client.registry_error(), Some(RegistryError::Unreachable(_)))
}

/// In the sender's statistics, while its registry fails.
const DOWN: &str = "pinnace_delivery_registry_up{client=\"sender\"} 0\n";

/// Two clients that exchange numbered messages.
struct Pair {
    sender: Client,
    receiver: Client,
    sent: u32,
}

impl Pair {
    fn start(dir: &Path, server: &Server) -> Pair {
        let (sender, receiver) = (start(dir, server, "sender", "s"), start(dir, server, "receiver", "r"));
        until("the receiver", || sender.addresses_of("r").len() == 1);
        let mut pair = Pair { sender, receiver, sent: 0 };
        pair.exchange();
        pair
    }

    /// Sends and receives a hundred messages: each once, in order. Returns the longest time of one.
    fn exchange(&mut self) -> Duration {
        let mut slowest = Duration::ZERO;
        for _ in 0..100 {
            let begin = Instant::now();
            self.sender.send_to("r", &self.sent.to_be_bytes()).unwrap();
            let delivery = self.receiver.recv(soon()).unwrap();
            assert_eq!(delivery.body(), self.sent.to_be_bytes());
            delivery.ack();
            self.sent += 1;
            slowest = slowest.max(begin.elapsed());
        }
        slowest
    }

    /// Exchanges messages until a condition holds.
    fn exchange_until(&mut self, what: &str, is: impl Fn(&Pair) -> bool) {
        until(what, || {
            let slowest = self.exchange();
            assert!(slowest < Duration::from_secs(1), "while waiting for {what} a message took {slowest:?}");
            is(self)
        });
    }

    fn are_well(&self) -> bool {
        self.sender.registry_error().is_none() && self.receiver.registry_error().is_none()
    }

    /// Reports that each message arrived once and in order.
    fn report(&self, what: &str) {
        report(what, &Sums { sent: self.sent as usize, ..Sums::default() }, &STRICT, "");
    }

    /// A third client that starts now reaches both.
    fn meets(&self, dir: &Path, server: &Server) {
        let third = start(dir, server, "third", "t");
        until("all three", || third.addresses_of("r").len() + third.addresses_of("s").len() == 2);
        third.send_to("r", b"third").unwrap();
        let delivery = self.receiver.recv(soon()).unwrap();
        assert_eq!((delivery.from(), delivery.body()), ("third", &b"third"[..]));
        delivery.ack();
        third.wait_pending(0, soon()).unwrap();
        self.sender.wait_pending(0, soon()).unwrap();
    }
}

#[test]
fn killed_under_traffic_and_back_with_nothing() {
    let (dir, mut server) = (tempfile::tempdir().unwrap(), Server::start());
    let mut pair = Pair::start(dir.path(), &server);
    server.kill();
    pair.exchange_until("the outage", |pair| is_unreachable(&pair.sender) && is_unreachable(&pair.receiver));
    let told = pair.sender.statistics();
    assert!(told.registry_error.is_some() && told.to_prometheus().contains(DOWN), "{told:?}");
    // Longer than a lease.
    let over = Instant::now() + Duration::from_secs(3);
    pair.exchange_until("leases to end", |_| Instant::now() > over);
    server.revive();
    pair.exchange_until("the end of the outage", Pair::are_well);
    let told = pair.sender.statistics();
    assert!(told.registry_error.is_none() && !told.to_prometheus().contains(DOWN), "{told:?}");
    pair.meets(dir.path(), &server);
    pair.report("the registry killed, and back with nothing");
}

#[test]
fn hung_under_traffic() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    let mut pair = Pair::start(dir.path(), &server);
    server.hang();
    pair.exchange_until("the outage", |pair| is_unreachable(&pair.sender) && is_unreachable(&pair.receiver));
    // Starting, subscribing and leaving must not block for long.
    let begin = Instant::now();
    let late = start(dir.path(), &server, "late", "l");
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    // It knows the members that the other clients of its process know.
    late.send_to("r", b"late").unwrap();
    let delivery = pair.receiver.recv(soon()).unwrap();
    assert_eq!((delivery.from(), delivery.body()), ("late", &b"late"[..]));
    delivery.ack();
    let begin = Instant::now();
    pair.receiver.subscribe("more").unwrap();
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    pair.exchange();
    server.go_on();
    pair.exchange_until("the end of the outage", Pair::are_well);
    until("the topic", || late.addresses_of("more").len() == 1);
    server.hang();
    let begin = Instant::now();
    drop(late);
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    pair.report("the registry hung");
    let begin = Instant::now();
    drop(pair);
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
}

#[test]
fn emptied_under_traffic() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    let mut pair = Pair::start(dir.path(), &server);
    for _ in 0..5 {
        cmd("FLUSHALL").exec(&mut server.connect()).unwrap();
        let begin = Instant::now();
        pair.exchange_until("both to be there", |_| {
            let count: usize = cmd("HLEN").arg("{pinnace}:clients").query(&mut server.connect()).unwrap();
            count == 2
        });
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    }
    pair.meets(dir.path(), &server);
    pair.report("the registry emptied, 5 times");
}

#[test]
fn gone_back_under_traffic() {
    let (dir, mut server) = (tempfile::tempdir().unwrap(), Server::start());
    // The receiver had another endpoint when the snapshot was made.
    let old = builder(dir.path(), &server, "receiver", "r").lease(Duration::from_secs(600)).start().unwrap();
    cmd("SAVE").exec(&mut server.connect()).unwrap();
    let old_endpoint = old.endpoint().to_owned();
    drop(old);
    let mut pair = Pair::start(dir.path(), &server);
    assert_ne!(pair.receiver.endpoint(), old_endpoint);
    server.kill();
    server.revive();
    pair.exchange_until("the way back", |pair| {
        pair.are_well() && pair.sender.addresses_of("r") == [pair.receiver.endpoint()]
    });
    pair.meets(dir.path(), &server);
    pair.report("the registry restored from an old snapshot");
}

#[test]
fn absent_at_the_start() {
    let (dir, mut server) = (tempfile::tempdir().unwrap(), Server::absent(&[]));
    let begin = Instant::now();
    let receiver = start(dir.path(), &server, "receiver", "r");
    let knows =
        builder(dir.path(), &server, "knows", "k").peer("receiver", receiver.endpoint(), &["r"]).start();
    let (knows, waits) = (knows.unwrap(), start(dir.path(), &server, "waits", "w"));
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert!(is_unreachable(&receiver) && is_unreachable(&knows) && is_unreachable(&waits));
    knows.send_to("r", b"known").unwrap();
    let delivery = receiver.recv(soon()).unwrap();
    assert_eq!(delivery.from(), "knows");
    delivery.ack();
    waits.send_to("r", b"stored").unwrap();
    assert_eq!(waits.pending(), 1);
    server.revive();
    let delivery = receiver.recv(soon()).unwrap();
    assert_eq!((delivery.from(), delivery.body()), ("waits", &b"stored"[..]));
    delivery.ack();
    waits.wait_pending(0, soon()).unwrap();
    until("all to be well", || [&receiver, &knows, &waits].iter().all(|one| one.registry_error().is_none()));
    let sums = Sums { sent: 2, ..Sums::default() };
    report("the registry absent at the start", &sums, &STRICT, "");
}

#[test]
fn a_name_that_is_taken_when_the_server_comes() {
    let (dir, mut server) = (tempfile::tempdir().unwrap(), Server::start());
    let first = start(dir.path(), &server, "one", "t");
    let elsewhere = |server: &Server| builder(&dir.path().join("elsewhere"), server, "one", "t").start();
    assert_eq!(elsewhere(&server).err(), Some(Error::NameTaken));
    server.kill();
    let second = elsewhere(&server).unwrap();
    assert!(is_unreachable(&second));
    server.revive();
    let taken = |client: &Client| client.registry_error() == Some(RegistryError::NameTaken);
    until("one of them to have it", || taken(&first) != taken(&second));
    let (winner, loser) = if taken(&first) { (second, first) } else { (first, second) };
    until("the winner to be well", || winner.registry_error().is_none());
    assert!(taken(&loser));
    drop(winner);
    until("the other to have it", || loser.registry_error().is_none());
}

#[test]
fn who_is_not_let_in_is_told_when_it_starts() {
    let (dir, mut server) = (tempfile::tempdir().unwrap(), Server::absent(&["--requirepass", "secret"]));
    server.revive_unseen();
    let with = |password: &str| {
        let url = server.url().replace("redis://", &format!("redis://:{password}@"));
        Client::builder("one", "t").data_dir(dir.path().join("one")).registry(&url).start()
    };
    until("the server", || with("secret").is_ok_and(|client| client.registry_error().is_none()));
    match with("wrong-one").err() {
        Some(Error::Registry(
            error @ RegistryError::Io { kind: std::io::ErrorKind::PermissionDenied, .. },
        )) => {
            assert!(!format!("{error} {error:?}").contains("wrong-one"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_thousand_clients_of_one_process_keep_their_names() {
    const CLIENTS: usize = 1000;
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    let begin = Instant::now();
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|number| builder(dir.path(), &server, &format!("client{number}"), "all"))
        .map(|builder| builder.data_dir(dir.path().join("all")).start().unwrap())
        .collect();
    println!("started in {:?}", begin.elapsed());
    until("all", || clients[0].addresses_of("all").len() == CLIENTS);
    println!("known in {:?}", begin.elapsed());
    let mut theirs = server.connect();
    // No lease expires in more than a lease's time.
    let over = Instant::now() + Duration::from_secs(3);
    let mut least = f64::MAX;
    until("leases to end", || {
        let count: usize = cmd("ZCARD").arg("{pinnace}:leases").query(&mut theirs).unwrap();
        let first: Vec<(String, f64)> = cmd("ZRANGE")
            .arg("{pinnace}:leases")
            .arg("0")
            .arg("0")
            .arg("WITHSCORES")
            .query(&mut theirs)
            .unwrap();
        let (seconds, micros): (f64, f64) = cmd("TIME").query(&mut theirs).unwrap();
        least = least.min(first[0].1 - (seconds * 1e3 + micros / 1e3));
        assert_eq!(count, CLIENTS);
        Instant::now() > over
    });
    println!("the least that was left of a lease: {least} ms");
    assert!(least > 0.0, "a lease was over for {} ms", -least);
    assert_eq!(clients[0].addresses_of("all").len(), CLIENTS);
    let begin = Instant::now();
    cmd("FLUSHALL").exec(&mut theirs).unwrap();
    until("all to be there again", || {
        let count: usize = cmd("ZCARD").arg("{pinnace}:leases").query(&mut theirs).unwrap();
        count == CLIENTS
    });
    println!("claimed anew in {:?}", begin.elapsed());
    let begin = Instant::now();
    drop(clients);
    println!("gone in {:?}", begin.elapsed());
}

#[test]
fn who_goes_by_the_same_id_is_not_chased() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    drop(start(dir.path(), &server, "one", "t"));
    // A copied store, as if the machine had been copied.
    let copied = Command::new("cp").args(["-r", "one", "copy"]).current_dir(dir.path()).status();
    assert!(copied.unwrap().success());
    let _one = start(dir.path(), &server, "one", "t");
    let elsewhere = builder(dir.path(), &server, "one", "t").registry(&format!("{}/0", server.url()));
    let _copy = elsewhere.data_dir(dir.path().join("copy")).start().unwrap();
    let (mut theirs, mut versions) = (server.connect(), HashSet::new());
    let over = Instant::now() + Duration::from_secs(2);
    until("two seconds", || {
        versions.insert(cmd("GET").arg("{pinnace}:version").query::<u64>(&mut theirs).unwrap());
        Instant::now() > over
    });
    println!("{} claims", versions.len());
    assert!(versions.len() < 15, "{} claims in two seconds", versions.len());
}
