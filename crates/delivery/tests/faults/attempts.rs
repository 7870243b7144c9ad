//! A message that kills the process of its handler is given up at `max_deliveries`: deliveries are counted over
//! crashes. The messages before and after it are handled once.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use pinnace_delivery::{Durability, Options, Verdict};

use crate::common::{Running, client, kept, soon, start, until};

const MOST: u32 = 3;
/// The message that kills its handler, and how many there are.
const DEADLY: u32 = 10;
const COUNT: u32 = 21;

/// Handles messages: notes each, and aborts in the handler of the deadly one.
pub fn receive(dir: &Path) {
    let receiver = client("receiver", dir).max_deliveries(MOST);
    let receiver = receiver.listen(&format!("ipc://{}/receiver.ipc", dir.display())).start().unwrap();
    let mut seen = OpenOptions::new().append(true).create(true).open(dir.join("seen")).unwrap();
    let Err(error) = receiver.run(|delivery| {
        let number = std::str::from_utf8(delivery.body()).unwrap();
        // In one write: the test reads the file meanwhile.
        seen.write_all(format!("{number} {}\n", delivery.deliveries()).as_bytes()).unwrap();
        if number == DEADLY.to_string() {
            std::process::abort();
        }
    });
    panic!("{error}");
}

/// The counts of deliveries of one message, in order.
fn seen(dir: &Path, number: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(dir.join("seen")).unwrap_or_default();
    let lines = text.lines().map(|line| line.split_once(' ').unwrap());
    lines.filter(|(of, _)| *of == number.to_string()).map(|(_, count)| count.parse().unwrap()).collect()
}

fn kill_by_a_message(options: Options<'_>) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let undertaker = client("undertaker", dir).start().unwrap();
    let sender = client("sender", dir)
        .peer("receiver", &format!("ipc://{}/receiver.ipc", dir.display()), &["news"])
        .peer("undertaker", undertaker.endpoint(), &["news.dead"])
        .start()
        .unwrap();
    let send = |number: u32| sender.send("news", number.to_string().as_bytes(), &options).unwrap();
    let mut receiver: Running = start("crasher", dir, 0);
    (0..DEADLY).for_each(send);
    // What a crash would repeat, because its acknowledgement was not on the disk, is on the disk.
    sender.wait_pending(0, soon()).unwrap();
    (DEADLY..COUNT).for_each(send);
    let mut starts = 1;
    until("the last message to be handled", || {
        if receiver.has_ended() {
            starts += 1;
            assert!(starts < 20, "it is never given up: {:?}", seen(dir, DEADLY));
            receiver = start("crasher", dir, starts);
        }
        !seen(dir, COUNT - 1).is_empty()
    });
    let letter = undertaker.recv(soon()).unwrap();
    assert_eq!(letter.body(), DEADLY.to_string().as_bytes());
    let dead = letter.dead().unwrap().clone();
    assert_eq!((dead.reason, dead.deliveries), (Verdict::Deliveries, u64::from(MOST)));
    letter.ack();
    sender.wait_pending(0, soon()).unwrap();
    receiver.kill();
    // The first delivery is not recorded, since the store was new.
    assert_eq!(seen(dir, DEADLY), [1, 1, 2, 3]);
    for number in (0..COUNT).filter(|number| *number != DEADLY) {
        assert_eq!(seen(dir, number).len(), 1, "message {number}: {:?}", seen(dir, number));
    }
}

#[test]
fn a_message_to_one_that_kills_its_handler_is_given_up() {
    kill_by_a_message(kept(Durability::Sync));
}

#[test]
fn a_message_to_all_that_kills_its_handler_is_given_up() {
    kill_by_a_message(Options { all: true, ..kept(Durability::Sync) });
}

#[test]
fn a_message_in_memory_that_kills_its_handler_is_given_up() {
    kill_by_a_message(kept(Durability::Memory));
}

/// The first messages of other streams, which would be next, do not count with it, and none is given up.
#[test]
fn a_message_that_kills_its_handler_takes_no_others_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let undertaker = client("undertaker", dir).start().unwrap();
    let topics = ["news", "more", "most"];
    let sender = client("sender", dir)
        .peer("receiver", &format!("ipc://{}/receiver.ipc", dir.display()), &topics)
        .peer("undertaker", undertaker.endpoint(), &["news.dead", "more.dead", "most.dead"])
        .start()
        .unwrap();
    for number in 0..COUNT {
        let options = Options { all: number % 2 == 0, ..kept(Durability::Sync) };
        sender.send(topics[number as usize % 3], number.to_string().as_bytes(), &options).unwrap();
    }
    let mut receiver: Running = start("crasher", dir, 0);
    let mut starts = 0;
    until("all to be handled", || {
        if receiver.has_ended() {
            starts += 1;
            receiver = start("crasher", dir, starts);
        }
        (0..COUNT).all(|number| number == DEADLY || !seen(dir, number).is_empty())
            && undertaker.try_recv().unwrap().is_some_and(|letter| {
                assert_eq!(letter.body(), DEADLY.to_string().as_bytes());
                letter.ack();
                true
            })
    });
    sender.wait_pending(0, soon()).unwrap();
    receiver.kill();
    assert_eq!(seen(dir, DEADLY), [1, 1, 2, 3]);
    let most = (0..COUNT).filter(|number| *number != DEADLY).flat_map(|number| seen(dir, number)).max();
    assert!(most <= Some(2), "{most:?}: one whose acknowledgement was not on the disk may come again");
}
