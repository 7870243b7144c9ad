//! Consuming and producing in one step, over power cuts.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Powered, soon};
use crate::checker::{Message, STRICT, Shared, Sums, next, report};
use crate::instance::Instance;
use crate::log::tests::faulty::Faulty;
use crate::{Client, Durability, NewMessage, NotAcked, Options};

/// It ends a test that has failed elsewhere.
fn last_moment() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(120))
}

/// Starts a client that knows the worker and the receiver.
fn start(powered: &mut Powered, dir: &Path) -> Arc<Client> {
    let worker = format!("ipc://{}/worker", dir.display());
    let builder = powered.builder(dir).peer("worker", &worker, &["orders"]);
    let instance = Instance::over(Arc::new(powered.disk.clone()), builder.settings()).unwrap();
    powered.client.insert(Arc::new(builder.start_in(&Arc::new(instance)).unwrap())).clone()
}

/// Makes results of orders until the power is cut.
fn work(worker: &Client, disk: &Faulty) {
    while let Ok(delivery) = worker.recv(last_moment()) {
        let input = Message::of(delivery.body());
        let durability = [Durability::Sync, Durability::Interval][input.number as usize % 2];
        let options = Options { durability, ..Options::default() };
        let len = if input.number % 100 == 7 { 1_500_000 } else { 12 };
        let bodies = [1, 2].map(|flow| Message { flow, ..input }.body(len));
        let messages = [0, 1].map(|at| NewMessage { topic: "news", body: &bodies[at], options });
        if let Err(NotAcked { error, .. }) = worker.ack_and_send(delivery, &messages) {
            return assert!(disk.is_dead(), "{error}");
        }
    }
}

fn send(sender: &Client, books: &Shared, stop: &AtomicU32) {
    let interval = Options { durability: Durability::Interval, deadline: soon(), ..Options::default() };
    for number in 0.. {
        if stop.load(Relaxed) > 0 {
            return;
        }
        let input = Message { flow: 0, run: 0, number };
        sender.send("orders", &input.body(12), &interval).unwrap();
        books.accept(Message { flow: 1, ..input });
        books.accept(Message { flow: 2, ..input });
        if number % 16 == 15 {
            sender.wait_pending(200, soon()).unwrap();
        }
    }
}

/// Cuts the power of the worker repeatedly, at times after its disk has failed. Each order has its results once, and
/// in order: both messages or none, with the acknowledgement.
fn live(seed: u64, cuts: u32) -> Sums {
    let dir = tempfile::tempdir().unwrap();
    let [mut sender, mut worker, mut receiver] =
        [("sender", 1), ("worker", 2), ("receiver", 3)].map(|(name, at)| Powered::new(name, seed * 10 + at));
    let (books, stop, mut random) = (Shared::default(), AtomicU32::new(0), seed * 77);
    let (sending, receiving) = (start(&mut sender, dir.path()), start(&mut receiver, dir.path()));
    std::thread::scope(|scope| {
        let (books, stop) = (&books, &stop);
        let sends = scope.spawn(|| send(&sending, books, stop));
        scope.spawn(|| {
            while let Ok(delivery) = receiving.recv(last_moment()) {
                books.handle(0, 0, delivery.body());
                delivery.ack();
            }
        });
        for cut in 0..=cuts {
            let client = start(&mut worker, dir.path());
            let disk = worker.disk.clone();
            let works = scope.spawn(move || work(&client, &disk));
            let until = soon().unwrap();
            let handled = books.lock().handled.len() + 1 + next(&mut random) as usize % 200;
            while books.lock().handled.len() < handled {
                assert!(Instant::now() < until, "seed {seed}: nothing comes");
                std::thread::yield_now();
            }
            if cut == cuts {
                stop.store(1, Relaxed);
                sends.join().unwrap();
                sending.wait_pending(0, soon()).unwrap();
                let worker = worker.client.take().unwrap();
                worker.wait_pending(0, soon()).unwrap();
                worker.close(soon()).unwrap();
                works.join().unwrap();
                break;
            }
            if next(&mut random).is_multiple_of(2) {
                worker.disk.fail_in(next(&mut random) % 20, ErrorKind::Other);
                while !worker.disk.is_dead() {
                    assert!(Instant::now() < until, "seed {seed}: the disk is not used");
                    std::thread::yield_now();
                }
            }
            worker.cut();
            works.join().unwrap();
        }
        receiving.close(soon()).unwrap();
    });
    books.lock().sums(&STRICT)
}

#[test]
fn power_cuts_leave_an_acknowledgement_and_its_messages_or_neither() {
    let long = std::env::var("FAULTS").is_ok_and(|value| value == "long");
    let (lives, cuts) = if long { (200, 10) } else { (8, 6) };
    let mut sums = Sums::default();
    for seed in 1..=lives {
        let life = live(seed, cuts);
        sums.sent += life.sent;
        sums.duplicated += life.duplicated;
    }
    let cuts = lives * u64::from(cuts);
    report(&format!("power cuts of a worker that consumes and produces, {cuts} times"), &sums, &STRICT, "");
}
