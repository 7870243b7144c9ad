//! Clocks that jump, by hours and in both directions: no message is lost, late or stuck. Messages that may live for a
//! month are handled, and messages expired by the local clock are not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pinnace_delivery::{Durability, Options, Verdict, dead_letters};

use crate::checker::{Books, Handled, Journal, Message, STRICT};
use crate::common::{Running, bytes, client, command, durability, short_or_long, soon, until, wait_for_more};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The library that fakes a process's clock (libfaketime), if it is installed.
fn library() -> Option<PathBuf> {
    let places = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path().join("faketime"));
    places.map(|place| place.join("libfaketimeMT.so.1")).find(|path| path.exists())
}

/// Starts a process with a clock controlled by a file.
fn start(role: &str, dir: &Path, library: &Path) -> Running {
    let mut command = command(role, dir, 0);
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", dir.join(format!("{role} clock")))
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Running::of(command)
}

fn set(dir: &Path, role: &str, offset: i64) {
    let path = dir.join(format!("{role} clock"));
    std::fs::write(path.with_extension("new"), format!("{offset:+}\n")).unwrap();
    std::fs::rename(path.with_extension("new"), path).unwrap();
}

fn endpoint(dir: &Path) -> String {
    format!("ipc://{}/receiver.ipc", dir.display())
}

/// Sends under a jumping clock, until it is stopped: a third in memory, a quarter with a time to live.
pub fn send(dir: &Path) {
    let sender = client("sender", dir).peer("receiver", &endpoint(dir), &["news"]).start().unwrap();
    let mut accepted = Journal::open(dir, "accepted");
    for number in 0.. {
        let message = Message { flow: 0, run: 0, number };
        let ttl = (number % 4 == 1).then_some(DAY * 30);
        let options = Options { durability: durability(number), ttl, deadline: soon(), ..Options::default() };
        sender.send("news", &message.body(12), &options).unwrap();
        accepted.write(&[Handled { by: 0, run: 0, message }]);
        if number % 50 == 0 {
            sender.wait_pending(100, soon()).unwrap();
        }
        if dir.join("stop").exists() {
            break;
        }
    }
    sender.wait_pending(0, soon()).unwrap();
    // These expire, because the clock is a day ahead when they are next looked at.
    let options = Options { ttl: Some(DAY / 2), ..Options::default() };
    for number in 0..100 {
        let message = Message { flow: 1, run: 0, number };
        let in_memory = Options { durability: Durability::Memory, ..options };
        let options = if number % 2 == 0 { options } else { in_memory };
        sender.send("later", &message.body(12), &options).unwrap();
    }
    let now = std::time::SystemTime::now();
    std::fs::write(dir.join("stopped"), b"").unwrap();
    until("the next day", || std::time::SystemTime::now() > now + DAY - DAY / 24);
    drop(sender);
    let sender = client("sender", dir).peer("receiver", &endpoint(dir), &["later"]).start().unwrap();
    sender.wait_pending(0, soon()).unwrap();
    std::fs::write(dir.join("done"), b"").unwrap();
    until("the end", || false);
}

/// Handles messages. One in twenty fails at first.
pub fn receive(dir: &Path) {
    let retry = Duration::from_millis(5);
    let receiver = client("receiver", dir).listen(&endpoint(dir)).retry(retry, retry * 4);
    let receiver = receiver.ack_within(Duration::from_secs(5)).start().unwrap();
    let mut handled = Journal::open(dir, "handled");
    loop {
        let delivery = receiver.recv(None).unwrap();
        let message = Message::of(delivery.body());
        if message.number % 20 == 7 && delivery.deliveries() == 1 {
            continue;
        }
        handled.write(&[Handled { by: 0, run: 0, message }]);
        delivery.ack();
    }
}

#[test]
fn clocks_that_jump() {
    let Some(library) = library() else {
        assert!(std::env::var_os("CI").is_none(), "libfaketime is missing: tools/setup test installs it");
        return println!("clocks that jump: libfaketime is missing");
    };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let roles = ["clock-sender", "clock-receiver"];
    roles.iter().for_each(|role| set(dir, role, 0));
    let mut sender = start(roles[0], dir, &library);
    let mut receiver = start(roles[1], dir, &library);
    let jumps = short_or_long(20, 400);
    for jump in 0..jumps {
        for name in ["accepted", "handled"] {
            wait_for_more(dir, name, bytes(dir, name) + 1000);
        }
        let offset = [86_400, -86_400, 3600, 0, -7 * 86_400, 7 * 86_400][jump % 6];
        set(dir, roles[jump / 2 % 2], offset);
    }
    roles.iter().for_each(|role| set(dir, role, 0));
    std::fs::write(dir.join("stop"), b"").unwrap();
    until("what was sent to be handled", || {
        sender.goes_on();
        dir.join("stopped").exists()
    });
    roles.iter().for_each(|role| set(dir, role, 86_400));
    until("what is too old to be forgotten", || {
        sender.goes_on();
        dir.join("done").exists()
    });
    sender.kill();
    receiver.kill();
    let books = Books::read(dir);
    assert!(books.handled.iter().all(|handled| handled.message.flow == 0), "what is too old is not handled");
    books.close(&format!("clocks that jump by days, {jumps} times"), &STRICT, "100 too old, and not handled");
}

/// What the sender's clock leaves time for has expired by the receiver's, which is a day ahead.
#[test]
fn a_receiver_s_clock_is_ahead() {
    let Some(library) = library() else {
        return println!("a receiver's clock that is ahead: libfaketime is missing");
    };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    set(dir, "clock-receiver", 86_400);
    let mut receiver = start("clock-receiver", dir, &library);
    let sender = client("sender", dir).peer("receiver", &endpoint(dir), &["news"]);
    let sender = sender.dead_letter_expired(true).start().unwrap();
    let message = |number| Message { flow: 0, run: 0, number }.body(12);
    for number in 0..100 {
        let options = Options { all: true, ttl: Some(DAY / 2), deadline: soon(), ..Options::default() };
        sender.send("news", &message(number), &options).unwrap();
    }
    sender.send_all("news", &message(100)).unwrap();
    let counts = || {
        let outgoing = sender.statistics().outgoing;
        let of = outgoing.into_iter().find(|of| of.receiver.is_some()).unwrap();
        (of.pending, of.expired, of.expired_at_receiver, of.acknowledged)
    };
    until("all to be settled", || {
        receiver.goes_on();
        counts().0 == 0
    });
    assert_eq!(counts(), (0, 0, 100, 1));
    // The sender's log is written a little later.
    let letters = || dead_letters(&dir.join("sender")).unwrap();
    until("100 dead letters", || letters().len() == 100);
    assert!(letters().iter().all(|letter| letter.dead.reason == Verdict::Expired), "{:?}", letters());
    receiver.kill();
}
