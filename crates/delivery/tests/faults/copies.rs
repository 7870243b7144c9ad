//! Copies of stores: one restored, two used in turn, two at once. Both assign the same numbers; no message of one is
//! taken for a message of the other.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use pinnace_delivery::{Client, Durability, Error};

use crate::checker::{Message, Rules, STRICT, Shared, Twice};
use crate::common::{Closing, client, copy, kept, soon, until};

/// Messages sent at a time.
const SOME: u32 = 60;

struct Day<'a> {
    dir: &'a Path,
    books: Shared,
    /// Errors reported to all senders.
    errors: Arc<Mutex<Vec<Error>>>,
}

/// A client named `sender`, in one of the stores.
struct Sender<'a> {
    day: &'a Day<'a>,
    client: Client,
    flow: u32,
    run: u32,
    sent: u32,
}

impl Day<'_> {
    fn endpoint(&self) -> String {
        format!("ipc://{}", self.dir.join("socket").display())
    }

    fn copy(&self, from: &str, to: &str) {
        let to = self.dir.join(to);
        let _ = std::fs::remove_dir_all(&to);
        copy(&self.dir.join(from), &to);
    }

    fn open(&self, store: &str, flow: u32, run: u32) -> Sender<'_> {
        let errors = self.errors.clone();
        let builder = client("sender", self.dir).data_dir(self.dir.join(store));
        let builder = builder.on_error(move |error| errors.lock().unwrap().push(error.clone()));
        let client = builder.peer("receiver", &self.endpoint(), &["news"]).start().unwrap();
        Sender { day: self, client, flow, run, sent: 0 }
    }

    /// Opens a store, sends messages, waits until they are handled, and closes it.
    fn use_once(&self, store: &str, flow: u32, run: u32) {
        let mut sender = self.open(store, flow, run);
        sender.send();
        sender.client.wait_pending(0, soon()).unwrap();
    }

    fn receiver(&self) -> Client {
        client("receiver", self.dir).listen(&self.endpoint()).start().unwrap()
    }

    /// Receives while `what` runs.
    fn while_receiving(&self, what: impl FnOnce()) {
        let receiver = self.receiver();
        std::thread::scope(|scope| {
            let _closing = Closing(&receiver);
            scope.spawn(|| {
                while let Ok(delivery) = receiver.recv(None) {
                    self.books.handle(0, 0, delivery.body());
                    delivery.ack();
                }
            });
            what();
        });
    }

    /// How often a sender was told that the receiver knows another copy.
    fn copies(&self) -> usize {
        let copied = Error::Copied { peer: "receiver".to_owned() };
        self.errors.lock().unwrap().iter().filter(|error| **error == copied).count()
    }

    /// How often a sender was refused.
    fn refusals(&self) -> usize {
        self.errors.lock().unwrap().iter().filter(|error| matches!(error, Error::Refused { .. })).count()
    }
}

impl Sender<'_> {
    fn send(&mut self) {
        for number in self.sent..self.sent + SOME {
            let message = Message { flow: self.flow, run: self.run, number };
            let durability = if number % 3 == 0 { Durability::Sync } else { Durability::Interval };
            self.client.send("news", &message.body(12 + number as usize % 300), &kept(durability)).unwrap();
            self.day.books.accept(message);
        }
        self.sent += SOME;
    }
}

fn on_a_day(play: impl FnOnce(&Day)) {
    let dir = tempfile::tempdir().unwrap();
    play(&Day { dir: dir.path(), books: Shared::default(), errors: Arc::default() });
}

#[test]
fn an_old_copy_that_is_put_back() {
    on_a_day(|day| {
        day.while_receiving(|| {
            day.use_once("store", 0, 0);
            day.copy("store", "old");
            // Use the store as often as the old copy will be used, and more often.
            for round in 0..3 {
                for later in 0..=round {
                    day.use_once("store", 0, 1 + round * 10 + later);
                }
                day.copy("old", "store");
                // The receiver does not hear from the first openings.
                (0..round * 2).for_each(|_| drop(day.open("store", 0, 0)));
                day.use_once("store", 0, 5 + round * 10);
                assert_eq!(day.copies(), 1 + round as usize);
                // It keeps its new id.
                day.use_once("store", 0, 6 + round * 10);
                assert_eq!(day.copies(), 1 + round as usize);
            }
        });
        day.books.lock().close("an old copy of a store, put back", &STRICT, "");
    });
}

#[test]
fn copies_that_are_used_in_turn() {
    on_a_day(|day| {
        day.while_receiving(|| {
            day.use_once("store", 0, 0);
            day.copy("store", "copy");
            // The copy is opened as often, more often, or less often.
            for (round, (first, second)) in [(1, 1), (1, 3), (5, 1), (1, 1)].into_iter().enumerate() {
                (0..first).for_each(|run| day.use_once("store", 0, 1 + round as u32 * 10 + run));
                (0..second).for_each(|run| day.use_once("copy", 1, 1 + round as u32 * 10 + run));
            }
        });
        assert_eq!(day.copies(), 1, "one of them is somebody else");
        day.books.lock().close("two copies of a store, in turn", &STRICT, "");
    });
}

#[test]
fn copies_that_wait_for_the_same_receiver() {
    on_a_day(|day| {
        day.while_receiving(|| day.use_once("store", 0, 0));
        // These messages are pending in both stores.
        let mut sender = day.open("store", 0, 1);
        sender.send();
        drop(sender);
        day.copy("store", "copy");
        for run in 2..4 {
            for (flow, store) in [(0, "store"), (1, "copy")] {
                let mut sender = day.open(store, flow, run);
                sender.send();
                drop(sender);
            }
        }
        day.while_receiving(|| {
            for (store, flow) in [("copy", 1), ("store", 0), ("copy", 1)] {
                day.use_once(store, flow, 4 + day.copies() as u32);
            }
        });
        let rules = Rules { twice: Twice::Ever(SOME as usize), ..STRICT };
        let sums = day.books.lock().close("two copies of a store that have the same to send", &rules, "");
        assert_eq!((day.copies(), sums.duplicated), (1, SOME as usize));
    });
}

#[test]
fn copies_that_are_used_at_once() {
    on_a_day(|day| {
        day.while_receiving(|| {
            day.use_once("store", 0, 0);
            let mut first = day.open("store", 0, 1);
            first.send();
            first.client.wait_pending(0, soon()).unwrap();
            day.copy("store", "copy");
            // The copy is opened later, and has the name while it is connected.
            let mut second = day.open("copy", 1, 1);
            second.send();
            second.client.wait_pending(0, soon()).unwrap();
            first.send();
            until("the first to be told", || day.copies() == 1);
            until("the name to be taken", || day.refusals() == 1);
            assert_eq!(first.client.wait_pending(0, Some(Instant::now())), Err(Error::TimedOut));
            second.send();
            second.client.wait_pending(0, soon()).unwrap();
            drop(second);
            first.client.wait_pending(0, soon()).unwrap();
            // Now the first one has it.
            let mut second = day.open("copy", 1, 2);
            second.send();
            until("the name to be taken", || day.refusals() == 2);
            drop(first);
            second.client.wait_pending(0, soon()).unwrap();
        });
        assert_eq!(day.copies(), 1, "{:?}", day.errors.lock().unwrap());
        day.books.lock().close("two copies of a store, at once", &STRICT, "");
    });
}

#[test]
fn a_copy_that_is_not_the_later_one() {
    on_a_day(|day| {
        day.while_receiving(|| {
            day.use_once("store", 0, 0);
            day.copy("store", "copy");
            let mut first = day.open("store", 0, 1);
            first.send();
            first.client.wait_pending(0, soon()).unwrap();
            // It was opened as often as the first, and does not displace it.
            let mut second = day.open("copy", 1, 1);
            second.send();
            until("the second to be told", || day.copies() == 1 && day.refusals() == 1);
            first.send();
            first.client.wait_pending(0, soon()).unwrap();
            assert_eq!(second.client.wait_pending(0, Some(Instant::now())), Err(Error::TimedOut));
            drop(first);
            second.client.wait_pending(0, soon()).unwrap();
        });
        assert_eq!((day.copies(), day.refusals()), (1, 1), "{:?}", day.errors.lock().unwrap());
        day.books.lock().close("a copy beside the store that is in use", &STRICT, "");
    });
}
