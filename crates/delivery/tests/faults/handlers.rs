//! A receiver with handlers that fail, hang and panic: each message is either handled or becomes a dead letter, never
//! both.

use std::collections::HashSet;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinnace_delivery::{Delivery, Verdict};

use crate::checker::{Message, Rules, STRICT, Shared, next};
use crate::common::{Closing, client, durability, kept, short_or_long, soon};

/// Long enough for any handler that does not hang, even on a busy machine.
const WITHIN: Duration = Duration::from_secs(1);
const DELIVERIES: u32 = 4;

/// What a handler does with a message, depending on the message and the delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Handle,
    Fail,
    Panic,
    Hang,
}

fn way(message: Message, delivery: u32) -> Way {
    let mut random = u64::from(message.number + 1) * 0x9e37_79b9 + u64::from(delivery) * 0x85eb_ca6b;
    for _ in 0..4 {
        next(&mut random);
    }
    // Some messages never succeed.
    match (random % 100, message.number % 37) {
        (0..10, _) => Way::Fail,
        (10..20, _) => Way::Panic,
        _ if message.number % 1000 == 500 && delivery == 1 => Way::Hang,
        (_, 3) => Way::Fail,
        _ => Way::Handle,
    }
}

/// Handles a message, or does not. A hanging handler returns in the end.
fn handle(delivery: &Delivery, books: &Shared, never: &Mutex<Receiver<()>>) -> Result<(), Way> {
    let message = Message::of(delivery.body());
    match way(message, delivery.deliveries()) {
        Way::Handle => {
            books.handle(0, 0, delivery.body());
            Ok(())
        }
        Way::Panic => resume_unwind(Box::new("a handler that panics")),
        Way::Hang => {
            let _ = never.lock().unwrap().recv_timeout(WITHIN * 5 / 4);
            Err(Way::Hang)
        }
        way => Err(way),
    }
}

/// Handles with `threads` handlers at once.
fn fail_at_random(what: &str, threads: u32, count: u32, rules: &Rules) {
    let dir = tempfile::tempdir().unwrap();
    let retry = Duration::from_millis(1);
    let receiver = client("receiver", dir.path()).retry(retry, retry * 4);
    let receiver = receiver.ack_within(WITHIN).max_deliveries(DELIVERIES).start().unwrap();
    let undertaker = client("undertaker", dir.path()).start().unwrap();
    let sender = client("sender", dir.path())
        .peer("receiver", receiver.endpoint(), &["news"])
        .peer("undertaker", undertaker.endpoint(), &["news.dead"])
        .start()
        .unwrap();
    let books = Arc::new(Shared::default());
    for _ in 0..threads {
        // A channel on which nothing is ever sent.
        let (books, (keep, never)) = (books.clone(), channel());
        let never = Mutex::new(never);
        let handler = move |delivery: &Delivery| {
            let _keep = &keep;
            handle(delivery, &books, &never)
        };
        receiver.listen(handler).unwrap();
    }
    for number in 0..count {
        let message = Message { flow: 0, run: 0, number };
        let len = if number % 500 == 77 { 2_500_000 } else { 12 };
        sender.send("news", &message.body(len), &kept(durability(number + number / 3))).unwrap();
        books.accept(message);
    }
    // A hanging handler delays the messages after its own, and may do so after all were sent.
    let hanging = WITHIN * 5 / 4 * (count / 1000);
    // Pending messages of both topics count.
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            let _closing = Closing(&undertaker);
            sender.wait_pending(0, soon().map(|at| at + hanging)).unwrap();
        });
        for letter in undertaker.iter() {
            let dead = letter.dead().unwrap().clone();
            assert_eq!((dead.topic.as_str(), dead.receiver.as_str()), ("news", "receiver"));
            assert_eq!((dead.reason, dead.deliveries), (Verdict::Deliveries, u64::from(DELIVERIES)));
            books.lock().dead.push(Message::of(letter.body()));
            letter.ack();
        }
        done.join().unwrap();
    });
    let books = books.lock();
    let dead: HashSet<Message> = books.dead.iter().copied().collect();
    let handled: HashSet<Message> = books.handled.iter().map(|handled| handled.message).collect();
    assert_eq!((dead.len(), handled.len()), (books.dead.len(), books.handled.len()), "each once");
    assert!(dead.is_disjoint(&handled));
    assert_eq!(dead.len() + handled.len(), count as usize);
    let of_four = (0..count).filter(|number| {
        let message = Message { flow: 0, run: 0, number: *number };
        (1..=DELIVERIES).all(|delivery| way(message, delivery) != Way::Handle)
    });
    assert_eq!(of_four.count(), dead.len(), "who never succeeds");
    books.close(what, rules, &format!("{} handled and {} dead letters", handled.len(), dead.len()));
}

#[test]
fn a_handler_that_fails_hangs_and_panics() {
    let count = short_or_long(3000, 100_000);
    fail_at_random("a handler that fails, hangs, panics", 1, count, &Rules { may_skip: true, ..STRICT });
}

#[test]
fn several_handlers_that_fail_hang_and_panic() {
    let count = short_or_long(3000, 100_000);
    // A message that is being handled while another fails precedes the other's next delivery.
    let rules = Rules { may_skip: true, may_reorder: true, ..STRICT };
    fail_at_random("four handlers that fail, hang, panic", 4, count, &rules);
}
