//! Streams with many gaps: more than a frame or a record can name, and more than can be walked for each message.

use std::path::Path;
use std::time::Instant;

use pinnace_delivery::{Client, Durability, Options};

use crate::common::{member, soon};

/// More than twice the ranges that a frame or a record can name.
const GAPS: u32 = 2_100;

fn start(dir: &Path) -> (Client, Client) {
    let receiver = member(dir, "receiver", "news").start().unwrap();
    let sender = member(dir, "sender", "replies").start().unwrap();
    sender.wait_listeners("news", 1, soon()).unwrap();
    (sender, receiver)
}

/// Every other message is acknowledged; both sides end and start again; then the others are.
fn every_other(all: bool) {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = start(dir.path());
    let options = Options { durability: Durability::Interval, deadline: soon(), all, ..Options::default() };
    (0..2 * GAPS).for_each(|number| sender.send("news", &number.to_le_bytes(), &options).unwrap());
    let mut others = Vec::new();
    for number in 0..2 * GAPS {
        let delivery = receiver.recv(soon()).unwrap();
        assert_eq!(delivery.body(), number.to_le_bytes());
        match number % 2 {
            0 => others.push(delivery),
            _ => delivery.ack(),
        }
    }
    sender.wait_pending(u64::from(GAPS), soon()).unwrap();
    drop(others);
    sender.close(soon()).unwrap();
    receiver.close(soon()).unwrap();

    let (sender, receiver) = start(dir.path());
    assert_eq!(sender.pending(), u64::from(GAPS));
    for number in (0..2 * GAPS).step_by(2) {
        let delivery = receiver.recv(soon()).unwrap();
        assert_eq!(delivery.body(), number.to_le_bytes());
        delivery.ack();
    }
    sender.wait_pending(0, soon()).unwrap();
    assert!(receiver.try_recv().unwrap().is_none());
}

#[test]
fn every_other_message_to_one_is_acknowledged() {
    every_other(false);
}

#[test]
fn every_other_message_to_all_is_acknowledged() {
    every_other(true);
}

/// The numbers of messages that were in memory alone when their sender ended are gaps: here a third of all. The time
/// that an acknowledgement takes must not grow with their count.
#[test]
fn many_gaps_do_not_slow_a_stream_down() {
    const MESSAGES: u32 = 600_000;
    let is_in_memory = |number: &u32| number % 3 == 2;
    let dir = tempfile::tempdir().unwrap();
    let sender = member(dir.path(), "sender", "replies").start().unwrap();
    for number in 0..MESSAGES {
        let durability = if is_in_memory(&number) { Durability::Memory } else { Durability::Interval };
        let options = Options { durability, deadline: soon(), ..Options::default() };
        sender.send("news", &number.to_le_bytes(), &options).unwrap();
    }
    sender.close(Some(Instant::now())).unwrap_err();

    let (sender, receiver) = start(dir.path());
    let deadline = soon();
    for number in (0..MESSAGES).filter(|number| !is_in_memory(number)) {
        let delivery = receiver.recv(deadline).unwrap();
        assert_eq!(delivery.body(), number.to_le_bytes());
        delivery.ack();
    }
    sender.wait_pending(0, deadline).unwrap();
}
