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

fn to_receiver(sender: &Client) -> OutgoingStatistics {
    let of = sender.statistics();
    of.outgoing.into_iter().find(|of| of.receiver.as_deref() == Some("receiver")).unwrap()
}

fn letters(dir: &Path) -> Vec<DeadLetter> {
    dead_letters(&dir.join("sender")).unwrap()
}

/// Small, and in three parts.
fn bodies() -> [Vec<u8>; 2] {
    [b"late".to_vec(), vec![7; 2_500_000]]
}

/// Sends messages that expire while their receiver is away. Returns the sender and the receiver, which has had the last
/// message, one that does not expire.
fn expire_here(dir: &Path, keep: bool) -> (Client, Client) {
    let receiver = client("receiver", dir).start().unwrap();
    let endpoint = receiver.endpoint().to_owned();
    receiver.close(soon()).unwrap();
    let sender = client("sender", dir).compress_from(usize::MAX).dead_letter_expired(keep);
    let sender = sender.peer("receiver", &endpoint, &["news"]).start().unwrap();
    for body in bodies() {
        sender.send("news", &body, &with_ttl(Duration::from_millis(1))).unwrap();
    }
    let over = Instant::now() + Duration::from_millis(2);
    until("the time to live", || Instant::now() > over);
    sender.send_all("news", b"last").unwrap();
    let receiver = client("receiver", dir).listen(&endpoint).start().unwrap();
    let delivery = receiver.recv(soon()).unwrap();
    assert_eq!(delivery.body(), b"last");
    delivery.ack();
    until("the acknowledgement", || to_receiver(&sender).pending == 0);
    (sender, receiver)
}

#[test]
fn by_the_sender_s_clock_a_message_is_counted_and_can_be_a_dead_letter() {
    for keep in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (sender, receiver) = expire_here(dir.path(), keep);
        let of = to_receiver(&sender);
        assert_eq!((of.expired, of.expired_at_receiver, of.acknowledged, of.dead_letters), (2, 0, 1, 0));
        sender.wait_pending(if keep { 2 } else { 0 }, soon()).unwrap();
        if !keep {
            assert_eq!(letters(dir.path()), []);
            continue;
        }
        until("both letters", || letters(dir.path()).len() == 2);
        for (letter, body) in letters(dir.path()).iter().zip(bodies()) {
            let dead = &letter.dead;
            assert_eq!((dead.topic.as_str(), dead.receiver.as_str()), ("news", "receiver"));
            assert_eq!((dead.reason, dead.deliveries), (Verdict::Expired, 0));
            assert_eq!(letter.bytes, body.len() as u64);
            // It has no time limit any more.
            assert_eq!(sender.requeue(letter.number, soon()), Ok(true));
            let delivery = receiver.recv(soon()).unwrap();
            assert!(delivery.body() == body);
            delivery.ack();
        }
        sender.wait_pending(0, soon()).unwrap();
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
