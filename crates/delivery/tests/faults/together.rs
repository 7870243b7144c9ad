//! A process that consumes and produces in one step, killed at any moment: each input has its results once, in order.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pinnace_delivery::{Client, Durability, NewMessage, Options};

use crate::checker::{Message, STRICT, Shared};
use crate::common::{Closing, Running, client, kept, short_or_long, soon, spin, start, until};

/// Inputs that wait for the worker at most.
const AHEAD: u64 = 500;
/// The flows of the two results of an input.
const ONE: u32 = 1;
const ALL: u32 = 2;

fn endpoint(dir: &Path, name: &str) -> String {
    format!("ipc://{}/{name}.ipc", dir.display())
}

/// Makes two results of each input until it is killed: one to a receiver, at times in parts, and one to all.
pub fn work(dir: &Path) {
    let worker = client("worker", dir)
        .listen(&endpoint(dir, "worker"))
        .peer("receiver", &endpoint(dir, "receiver"), &["one", "all"])
        .start()
        .unwrap();
    loop {
        let delivery = worker.recv(None).unwrap();
        let input = Message::of(delivery.body());
        let len = if input.number % 64 == 5 { 2_200_000 } else { 12 };
        let (one, all) = (Message { flow: ONE, ..input }.body(len), Message { flow: ALL, ..input }.body(300));
        let durability = if input.number.is_multiple_of(2) { Durability::Sync } else { Durability::Interval };
        let options = Options { durability, ..Options::default() };
        let one = NewMessage { topic: "one", body: &one, options };
        let all = NewMessage { topic: "all", body: &all, options: Options { all: true, ..options } };
        worker.ack_and_send(delivery, &[one, all]).unwrap();
    }
}

/// Sends inputs until it is stopped.
fn send(sender: &Client, books: &Shared, stop: &AtomicBool) {
    for number in 0.. {
        if stop.load(Relaxed) {
            return;
        }
        let input = Message { flow: 0, run: 0, number };
        sender.send("orders", &input.body(12), &kept(Durability::Interval)).unwrap();
        books.accept(Message { flow: ONE, ..input });
        books.accept(Message { flow: ALL, ..input });
        if sender.pending() >= AHEAD {
            sender.wait_pending(AHEAD / 2, soon()).unwrap();
        }
    }
}

#[test]
fn results_follow_from_each_input_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let receiver = client("receiver", dir).listen(&endpoint(dir, "receiver")).start().unwrap();
    let sender = client("sender", dir).peer("worker", &endpoint(dir, "worker"), &["orders"]).start().unwrap();
    let (books, stop, kills) = (Shared::default(), AtomicBool::new(false), short_or_long(50, 1000));
    std::thread::scope(|scope| {
        let _closing = Closing(&receiver);
        let sends = scope.spawn(|| send(&sender, &books, &stop));
        scope.spawn(|| {
            for delivery in receiver.iter() {
                books.handle(0, 0, delivery.body());
                delivery.ack();
            }
        });
        let handled = || books.lock().handled.len();
        let mut worker: Running = start("worker", dir, 0);
        for round in 1..=kills {
            let before = handled();
            until("the worker to work", || handled() > before);
            spin(round);
            worker.kill();
            worker = start("worker", dir, round);
        }
        stop.store(true, Relaxed);
        sends.join().unwrap();
        sender.wait_pending(0, soon()).unwrap();
        until("all results", || handled() >= books.lock().accepted.len());
        worker.kill();
        let left = client("worker", dir)
            .peer("receiver", &endpoint(dir, "receiver"), &["one", "all"])
            .start()
            .unwrap();
        left.wait_pending(0, soon()).unwrap();
    });
    let books = std::mem::take(&mut *books.lock());
    books.close(&format!("SIGKILL of a worker that consumes and produces, {kills} times"), &STRICT, "");
}
