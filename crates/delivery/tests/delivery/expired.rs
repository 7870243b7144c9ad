//! Messages whose time to live is over: by the sender's clock, or by the receiver's. They are counted, and become dead
//! letters if the sender wants that.

use std::path::Path;
use std::time::{Duration, Instant};

use pinnace_delivery::statistics::OutgoingStatistics;
use pinnace_delivery::{Client, DeadLetter, Durability, Error, Options, Verdict, dead_letters};

use crate::common::{client, soon};

fn with_ttl(ttl: Duration) -> Options<'static> {
    Options {
        all: true,
        durability: Durability::Interval,
        ttl: Some(ttl),
        deadline: soon(),
        ..Options::default()
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = soon().unwrap();
    while !holds() {
        assert!(Instant::now() < end, "waited for {what} in vain");
        std::thread::yield_now();
    }
}

/// What became of the messages to all, or of those to one.
fn outgoing(sender: &Client, all: bool) -> OutgoingStatistics {
    let mut of = sender.statistics().outgoing.into_iter();
    of.find(|of| of.topic == "news" && of.receiver.is_some() == all).unwrap()
}

fn letters(dir: &Path) -> Vec<DeadLetter> {
    dead_letters(&dir.join("sender")).unwrap()
}

/// Small, and in three parts.
fn bodies() -> [Vec<u8>; 2] {
    [b"late".to_vec(), vec![7; 2_500_000]]
}

/// Two clients, of which the receiver is away. Returns the receiver's endpoint, and the sender.
fn begin(dir: &Path, keep: bool) -> (String, Client) {
    let receiver = client("receiver", dir).start().unwrap();
    let endpoint = receiver.endpoint().to_owned();
    receiver.close(soon()).unwrap();
    let sender = client("sender", dir).compress_from(usize::MAX).dead_letter_expired(keep);
    let sender = sender.disk_limit(32 << 20).peer("receiver", &endpoint, &["news"]).start().unwrap();
    (endpoint, sender)
}

/// Sends messages that expire, and then one that does not.
fn send_late(sender: &Client, all: bool) {
    for body in bodies() {
        sender.send("news", &body, &Options { all, ..with_ttl(Duration::from_millis(1)) }).unwrap();
    }
    let over = Instant::now() + Duration::from_millis(2);
    until("the time to live", || Instant::now() > over);
    sender.send("news", b"last", &Options { all, ttl: None, ..with_ttl(Duration::ZERO) }).unwrap();
}

/// The receiver, which gets the last message alone.
fn receive_last(dir: &Path, endpoint: &str) -> Client {
    let receiver = client("receiver", dir).listen(endpoint).topics(&["news"]).start().unwrap();
    let delivery = receiver.recv(soon()).unwrap();
    assert_eq!(delivery.body(), b"last");
    delivery.ack();
    receiver
}

/// Both letters come back as messages without a time limit.
fn letters_are_whole(dir: &Path, sender: &Client, receiver: &Client, named: &str) {
    until("both letters", || letters(dir).len() == 2);
    for (letter, body) in letters(dir).iter().zip(bodies()) {
        let dead = &letter.dead;
        assert_eq!((dead.topic.as_str(), dead.receiver.as_str()), ("news", named));
        assert_eq!((dead.reason, dead.deliveries), (Verdict::Expired, 0));
        assert_eq!(letter.bytes, body.len() as u64);
        assert_eq!(sender.requeue(letter.number, soon()), Ok(true));
        let delivery = receiver.recv(soon()).unwrap();
        assert!(delivery.body() == body);
        delivery.ack();
    }
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn by_the_sender_s_clock_a_message_is_counted_and_can_be_a_dead_letter() {
    for (keep, all) in [(false, true), (true, true), (false, false), (true, false)] {
        let dir = tempfile::tempdir().unwrap();
        let (endpoint, sender) = begin(dir.path(), keep);
        send_late(&sender, all);
        let receiver = receive_last(dir.path(), &endpoint);
        until("the end of all", || outgoing(&sender, all).pending == 0);
        let of = outgoing(&sender, all);
        assert_eq!((of.expired, of.expired_at_receiver, of.acknowledged, of.dead_letters), (2, 0, 1, 0));
        match keep {
            true => letters_are_whole(dir.path(), &sender, &receiver, if all { "receiver" } else { "" }),
            false => assert_eq!(letters(dir.path()), []),
        }
    }
}

/// The receiver's acknowledgement of a later message says nothing of those that expired before.
#[test]
fn a_letter_for_which_there_is_no_room_is_written_later() {
    for all in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (endpoint, sender) = begin(dir.path(), true);
        send_late(&sender, all);
        let filling = || {
            let deadline = Some(Instant::now() + Duration::from_secs(1));
            sender.send("fill", &[1; 500_000], &Options { ttl: None, deadline, ..with_ttl(Duration::ZERO) })
        };
        while filling().is_ok() {}
        let receiver = receive_last(dir.path(), &endpoint);
        until("the acknowledgement", || outgoing(&sender, all).acknowledged > 0);
        assert!(sender.clear_pending("fill").unwrap() > 0);
        letters_are_whole(dir.path(), &sender, &receiver, if all { "receiver" } else { "" });
        let of = outgoing(&sender, all);
        assert_eq!((of.expired, of.expired_at_receiver, of.dead_letters), (2, 0, 0));
    }
}

#[test]
fn by_the_receiver_s_clock_a_message_is_counted_and_can_be_a_dead_letter() {
    for keep in [false, true] {
        for all in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let receiver = client("receiver", dir.path()).start().unwrap();
            let sender = client("sender", dir.path()).compress_from(usize::MAX).dead_letter_expired(keep);
            let sender = sender.peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
            // It arrives in time, unless the machine is very slow, and waits for a handler for too long.
            let ttl = Duration::from_secs(1);
            let (mut sent, mut arrived) = (0, 0);
            while arrived == 0 {
                let over = Instant::now() + ttl;
                sender.send("news", b"late", &Options { all, ..with_ttl(ttl) }).unwrap();
                sent += 1;
                if !all {
                    // A receiver asks for a message to one only when it is free.
                    let first = receiver.recv(soon());
                    drop(first.map(|delivery| delivery.give_back()));
                }
                until("the time to live", || Instant::now() > over + Duration::from_millis(2));
                assert_eq!(receiver.recv(Some(Instant::now())).err(), Some(Error::TimedOut));
                sender.wait_pending(if keep { sent } else { 0 }, soon()).unwrap();
                let outgoing = sender.statistics().outgoing;
                let of = outgoing.iter().filter(|of| of.topic == "news");
                arrived = of.map(|of| of.expired_at_receiver).sum();
            }
            let counted: u64 = receiver.statistics().incoming.iter().map(|of| of.expired).sum();
            // On a slow machine a message may have expired at both.
            assert!(counted >= arrived, "{counted} of {arrived}");
            if keep {
                until("the letter", || letters(dir.path()).len() as u64 == sent);
                let letters = letters(dir.path());
                let dead = &letters.last().unwrap().dead;
                assert_eq!((dead.receiver.as_str(), dead.reason), ("receiver", Verdict::Expired));
            }
        }
    }
}
