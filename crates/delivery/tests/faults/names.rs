//! Names claimed twice: while the first client lives, the second is refused and traffic goes on; after its death the
//! second gets the name. A copy of a store in use does not disturb the first client.

use std::path::Path;
use std::time::{Duration, Instant};

use pinnace_delivery::{Builder, Client, Durability, Error};

use crate::checker::{Books, Handled, Journal, Message, Rules, STRICT, Twice};
use crate::common::{Running, copy, kept, soon, start, until};
use crate::server::Server;

const LEASE: Duration = Duration::from_secs(2);

fn builder(dir: &Path, name: &str, topic: &str, url: &str) -> Builder {
    Client::builder(name, topic).data_dir(dir.join(name)).registry(url).lease(LEASE)
}

/// Handles messages under the name `one` until it is killed.
pub fn hold(dir: &Path, run: u32) {
    let url = std::fs::read_to_string(dir.join("url")).unwrap();
    let one = builder(dir, "one", "news", &url).start().unwrap();
    receive(&one, dir, run, u32::MAX);
}

fn receive(one: &Client, dir: &Path, run: u32, upto: u32) {
    let mut handled = Journal::open(dir, "handled");
    loop {
        let delivery = one.recv(None).unwrap();
        let message = Message::of(delivery.body());
        handled.write(&[Handled { by: 0, run, message }]);
        delivery.ack();
        if message.number >= upto {
            return;
        }
    }
}

/// Sends messages, and waits until they are handled.
fn exchange(sender: &Client, accepted: &mut Vec<Message>) {
    for number in accepted.len() as u32..accepted.len() as u32 + 200 {
        let message = Message { flow: 0, run: 0, number };
        sender.send("news", &message.body(12), &kept(Durability::Interval)).unwrap();
        accepted.push(message);
    }
    sender.wait_pending(0, soon()).unwrap();
}

fn claimed_twice(what: &str, dir: &Path, url: &str) {
    std::fs::write(dir.join("url"), url).unwrap();
    let mut first: Running = start("holder", dir, 0);
    let sender = builder(dir, "sender", "s", url).start().unwrap();
    until("the first", || sender.addresses_of("news").len() == 1);
    let mut accepted = Vec::new();
    exchange(&sender, &mut accepted);
    // A client with another store tries repeatedly, for longer than a lease.
    let begin = Instant::now();
    let mut refused = 0;
    while begin.elapsed() < LEASE + Duration::from_millis(500) {
        let second = builder(dir, "one", "news", url).data_dir(dir.join("other")).start();
        assert_eq!(second.err(), Some(Error::NameTaken));
        refused += 1;
        exchange(&sender, &mut accepted);
    }
    // The same directory is in use by another process.
    assert_eq!(builder(dir, "one", "news", url).start().err(), Some(Error::InUse));
    first.kill();
    let begin = Instant::now();
    let second = loop {
        match builder(dir, "one", "news", url).data_dir(dir.join("other")).start() {
            Ok(second) => break second,
            Err(error) => assert_eq!(error, Error::NameTaken),
        }
        assert!(begin.elapsed() < LEASE * 3, "the lease is over");
    };
    let taken_over = begin.elapsed();
    std::thread::scope(|scope| {
        let (second, last) = (&second, accepted.len() as u32 + 199);
        scope.spawn(move || receive(second, dir, 1, last));
        exchange(&sender, &mut accepted);
    });
    let books = Books { accepted, ..Books::read(dir) };
    let rules = Rules { twice: Twice::BetweenRuns(200), ..STRICT };
    let more = format!("{refused} refused, and the name another's {taken_over:.1?} after a kill");
    books.close(what, &rules, &more);
}

/// A copy of a store in use is the same client, as if that had been killed: it may start. Connected senders stay with
/// the first one.
#[test]
fn a_copy_of_a_store_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let url = format!("dir://{}", dir.join("registry").display());
    std::fs::write(dir.join("url"), &url).unwrap();
    let mut first: Running = start("holder", dir, 0);
    let sender = builder(dir, "sender", "s", &url).start().unwrap();
    until("the first", || sender.addresses_of("news").len() == 1);
    let mut accepted = Vec::new();
    exchange(&sender, &mut accepted);
    copy(&dir.join("one"), &dir.join("copy"));
    exchange(&sender, &mut accepted);
    let copied = builder(dir, "one", "news", &url).data_dir(dir.join("copy")).start().unwrap();
    exchange(&sender, &mut accepted);
    assert_eq!(copied.recv(Some(Instant::now())).err(), Some(Error::TimedOut));
    drop(copied);
    exchange(&sender, &mut accepted);
    first.kill();
    let books = Books { accepted, ..Books::read(dir) };
    books.close("a store copied while it is used, and the copy started", &STRICT, "");
}

#[test]
fn in_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("dir://{}", dir.path().join("registry").display());
    claimed_twice("a name claimed twice, in a directory", dir.path(), &url);
}

#[test]
fn in_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", dir.path().join("registry").display());
    claimed_twice("a name claimed twice, in SQLite", dir.path(), &url);
}

#[test]
fn in_redis() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start());
    claimed_twice("a name claimed twice, in Redis", dir.path(), &server.url());
}
