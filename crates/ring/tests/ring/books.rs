//! A producer's accounts: its messages were taken, or wait. Messages that were given up are neither.

use pinnace_ring::{Amount, Books, COMMAND, Consumer, Limits, MORE, Producer, queue};

const UNLIMITED: Limits = Limits { messages: 0, ahead_bytes: 0 };

fn books(taken: (u64, u64), waiting: (u64, u64)) -> Books {
    let amount = |(messages, bytes)| Amount { messages, bytes };
    Books { taken: amount(taken), waiting: amount(waiting) }
}

/// Messages of two frames and 7 bytes in total.
fn with_messages(count: u64) -> (Producer, Consumer) {
    let (mut tx, rx) = queue(UNLIMITED);
    for _ in 0..count {
        tx.push(MORE, b"a").unwrap();
        tx.push(0, b"bc").unwrap();
        tx.commit_quietly();
    }
    (tx, rx)
}

#[test]
fn what_was_given_up_was_not_taken() {
    let (mut tx, mut rx) = with_messages(10);
    for _ in 0..6 {
        rx.pop(|_| ());
    }
    assert_eq!(tx.books(), books((3, 21), (7, 49)));
    assert_eq!(rx.give_up(&mut Vec::new()), Amount { messages: 7, bytes: 49 });
    assert_eq!(tx.books(), books((3, 21), (0, 0)));
    // Later messages are counted as before.
    tx.push(0, b"later").unwrap();
    tx.commit_quietly();
    assert_eq!(tx.books(), books((3, 21), (1, 7)));
    rx.pop(|_| ());
    assert_eq!(tx.books(), books((4, 28), (0, 0)));
}

/// A consumer that drains in order to receive takes the messages.
#[test]
fn what_was_drained_was_taken() {
    let (tx, mut rx) = with_messages(10);
    assert_eq!(rx.drain(&mut Vec::new()).messages, 10);
    assert_eq!(tx.books(), books((10, 70), (0, 0)));
}

/// Commands do not count as lost messages, but their bytes are not taken either.
#[test]
fn commands_are_given_up_too() {
    let (mut tx, mut rx) = with_messages(1);
    tx.push(COMMAND, b"command").unwrap();
    tx.commit_quietly();
    assert_eq!(rx.give_up(&mut Vec::new()), Amount { messages: 1, bytes: 7 });
    assert_eq!(tx.books(), books((1, 0), (0, 0)), "the command is one of those that went");
}

#[test]
fn what_nobody_can_read_any_more_is_given_up_once() {
    let (mut tx, mut rx) = with_messages(10);
    rx.pop(|_| ());
    rx.pop(|_| ());
    assert_eq!(tx.give_up_abandoned(), Amount::default(), "somebody can");
    drop(rx);
    assert_eq!(tx.give_up_abandoned(), Amount { messages: 9, bytes: 63 });
    assert_eq!(tx.give_up_abandoned(), Amount::default());
    assert_eq!(tx.books(), books((1, 7), (0, 0)));
}

/// While it is given up, a producer finds all of it waiting, or none. It is never counted as taken.
#[test]
fn at_no_moment_it_seems_to_be_taken() {
    const COUNT: u64 = 50_000;
    let (tx, mut rx) = with_messages(COUNT);
    let giving_up = std::thread::spawn(move || rx.give_up(&mut Vec::new()).messages);
    while tx.books() == books((0, 0), (COUNT, 7 * COUNT)) {
        std::thread::yield_now();
    }
    assert_eq!(tx.books(), books((0, 0), (0, 0)));
    assert_eq!(giving_up.join().unwrap(), COUNT);
}
