//! A sender that is killed again and again, and after each start sends everything again under the same ids, since it
//! does not know what has counted. Each message has one effect.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use pinnace_delivery::{Durability, Options};

use crate::checker::next;
use crate::common::{Running, client, kept, short_or_long, soon, start};

/// A message of several parts among some hundred short ones.
fn body(number: u64) -> Vec<u8> {
    let len = if number % 100 == 50 { (2 << 20) + 9 } else { number as usize % 3000 };
    let mut random = number;
    (0..len).map(|_| next(&mut random) as u8).collect()
}

fn count() -> u64 {
    short_or_long(400, 4000)
}

/// Sends all messages in order, and then waits to be killed.
pub fn send(dir: &Path) {
    let endpoint = std::fs::read_to_string(dir.join("endpoint")).unwrap();
    let sender = client("sender", dir).peer("receiver", &endpoint, &["news"]).start().unwrap();
    for number in 0..count() {
        let durability = if number % 3 == 0 { Durability::Sync } else { Durability::Interval };
        let id = number.to_string();
        sender.send("news", &body(number), &Options { id: Some(&id), ..kept(durability) }).unwrap();
    }
    sender.send("news", b"end", &kept(Durability::Sync)).unwrap();
    std::thread::park();
}

#[test]
fn what_is_sent_again_after_a_kill_has_one_effect() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    std::fs::write(dir.path().join("endpoint"), receiver.endpoint()).unwrap();
    let (mut effects, mut random, mut kills) = (BTreeSet::new(), 7, 0);
    let mut sender: Running = start("retry-sender", dir.path(), 0);
    // Kills the sender after some messages, while those that follow are on their way.
    let mut left = 0;
    loop {
        let delivery = receiver.recv(soon()).unwrap();
        match delivery.id() {
            Some(id) => {
                let number: u64 = id.parse().unwrap();
                assert!(delivery.body() == body(number), "{number}");
                assert!(effects.insert(number), "{number} has come again after {kills} kills");
            }
            None => break,
        }
        delivery.ack();
        left += 1;
        if left > next(&mut random) % 100 + 20 {
            sender.kill();
            (left, kills) = (0, kills + 1);
            sender = start("retry-sender", dir.path(), kills);
        }
    }
    sender.kill();
    eprintln!("{} messages, {kills} kills of the sender: each has come once", effects.len());
    assert_eq!(effects.len() as u64, count());
    assert!(kills > 2, "{kills} kills show nothing");
    assert!(receiver.recv(Some(std::time::Instant::now() + Duration::from_millis(1))).is_err());
}
