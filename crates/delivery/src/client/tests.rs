//! Complete clients over disks that lose power: some of the written and unsynced data reaches the disk, and some does
//! not.

mod together;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Builder, Client, Durability, Options};
use crate::Error;
use crate::checker::{Message, Rules, STRICT, Shared, Sums, Twice, next, report};
use crate::environment::simulated::{Simulation, advance_to};
use crate::instance::Instance;
use crate::log::tests::faulty::Faulty;

/// Messages that a receiver may have acknowledged but not logged at a power cut: the connection's credit.
const UNDER_WAY: usize = (8 << 20) / (64 + 12);

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(60))
}

fn durability(number: u32) -> Durability {
    [Durability::Interval, Durability::Memory, Durability::Sync, Durability::Sync][number as usize % 4]
}

/// A client with a disk that can lose power.
struct Powered {
    name: &'static str,
    disk: Faulty,
    /// How often it was started.
    run: u32,
    client: Option<Arc<Client>>,
}

impl Powered {
    fn new(name: &'static str, seed: u64) -> Powered {
        Powered { name, disk: Faulty::new(seed), run: 0, client: None }
    }

    fn builder(&self, dir: &Path) -> Builder {
        let endpoint = |name: &str| format!("ipc://{}/{name}", dir.display());
        let builder = Client::builder(self.name, "t").registry("none").linger(Duration::ZERO);
        let builder = builder.peer("receiver", &endpoint("receiver"), &["news"]);
        builder.interval(Duration::from_millis(2)).listen(&endpoint(self.name))
    }

    fn start(&mut self, dir: &Path) -> Arc<Client> {
        let builder = self.builder(dir);
        let instance = Instance::over(Arc::new(self.disk.clone()), builder.settings()).unwrap();
        let client = Arc::new(builder.start_in(&Arc::new(instance)).unwrap());
        self.run += 1;
        self.client.insert(client).clone()
    }

    /// Cuts the power at once; the old client keeps running on a dead disk.
    fn cut(&mut self) {
        self.disk = self.disk.left_by_power();
        let _ = self.client.take().unwrap().close(Some(Instant::now()));
    }
}

/// Sends a message, and waits for room and for the disk, however slow this machine is, unless the disk is dead.
fn send_one(sender: &Client, disk: &Faulty, body: &[u8], options: Options) -> Result<(), Error> {
    let ticket = loop {
        let deadline = Some(Instant::now() + Duration::from_millis(200));
        match sender.send_async("news", body, &Options { deadline, ..options }) {
            // Nothing of it was accepted.
            Err(Error::NoRoom(_) | Error::TimedOut) if !disk.is_dead() => {}
            sent => break sent?,
        }
    };
    if options.durability == Durability::Sync { sender.wait(ticket, None) } else { Ok(()) }
}

/// Sends until the power is cut or `stop` is set. Messages count as accepted once a later `Sync` send returns Ok.
fn send(sender: &Client, disk: &Faulty, run: u32, books: &Shared, stop: &AtomicU32) {
    let mut waiting = Vec::new();
    for number in 0.. {
        let message = Message { flow: 0, run, number };
        let len = [12, 300, 3000, 12, 30_000][number as usize % 5];
        let len = if number % 400 == 151 { 2_200_000 } else { len };
        let options = Options { durability: durability(number), ..Options::default() };
        waiting.push(message);
        match send_one(sender, disk, &message.body(len), options) {
            Ok(()) if options.durability == Durability::Sync => {
                books.lock().accepted.append(&mut waiting);
                if stop.load(Relaxed) > 0 {
                    return;
                }
            }
            Ok(()) => {}
            Err(error) => return assert!(disk.is_dead(), "{error}"),
        }
        if number % 16 == 15 {
            // Limit the pending messages, so that all durabilities occur among them.
            while sender.pending() > 100 && !disk.is_dead() && stop.load(Relaxed) == 0 {
                std::thread::yield_now();
            }
        }
    }
}

fn receive(receiver: &Client, run: u32, books: &Shared) {
    // The deadline ends a test that has failed elsewhere.
    while let Ok(delivery) = receiver.recv(Some(Instant::now() + Duration::from_secs(120))) {
        books.handle(0, run, delivery.body());
        delivery.ack();
    }
}

/// Cuts the power of either or both clients repeatedly.
fn live(seed: u64, cuts: u32) -> Sums {
    let dir = tempfile::tempdir().unwrap();
    let (mut sender, mut receiver) = (Powered::new("sender", seed), Powered::new("receiver", seed + 1));
    let (books, stop, mut random) = (Shared::default(), AtomicU32::new(0), seed * 77);
    let mut receivers_cut = 0;
    std::thread::scope(|scope| {
        let (books, stop) = (&books, &stop);
        let (mut sends, mut receives) = (None, None);
        for cut in 0..=cuts {
            if sender.client.is_none() {
                let (client, disk, run) = (sender.start(dir.path()), sender.disk.clone(), sender.run);
                sends = Some(scope.spawn(move || send(&client, &disk, run, books, stop)));
            }
            if receiver.client.is_none() {
                let (client, run) = (receiver.start(dir.path()), receiver.run);
                receives = Some(scope.spawn(move || receive(&client, run, books)));
            }
            let until = Instant::now() + Duration::from_secs(60);
            let handled = books.lock().handled.len() + 1 + next(&mut random) as usize % 200;
            while books.lock().handled.len() < handled {
                assert!(Instant::now() < until, "seed {seed}: nothing comes");
                std::thread::yield_now();
            }
            if cut == cuts {
                break;
            }
            let whom = next(&mut random) % 3;
            if whom != 0 {
                sender.cut();
            }
            if whom != 1 {
                receiver.cut();
                receivers_cut += 1;
            }
            // The old thread must end before a new client starts.
            if whom != 0 {
                sends.take().unwrap().join().unwrap();
            }
            if whom != 1 {
                receives.take().unwrap().join().unwrap();
            }
        }
        stop.store(1, Relaxed);
        sends.take().unwrap().join().unwrap();
        sender.client.take().unwrap().wait_pending(0, soon()).unwrap();
        receiver.client.take().unwrap().close(soon()).unwrap();
    });
    let twice = Twice::BetweenRuns(receivers_cut * UNDER_WAY);
    let may_lose = |message: Message| durability(message.number) == Durability::Memory;
    books.lock().sums(&Rules { twice, may_lose, ..STRICT })
}

#[test]
fn power_cuts_of_either_or_both() {
    let long = std::env::var("FAULTS").is_ok_and(|value| value == "long");
    let (lives, cuts) = if long { (300, 8) } else { (12, 5) };
    let mut sums = Sums::default();
    for seed in 1..=lives {
        let life = live(seed, cuts);
        sums.sent += life.sent;
        sums.lost += life.lost;
        sums.duplicated += life.duplicated;
    }
    let rules = Rules { twice: Twice::BetweenRuns(0), ..STRICT };
    let cuts = lives * u64::from(cuts);
    report(
        &format!("power cuts of either or both clients, {cuts} times"),
        &sums,
        &rules,
        "a quarter in memory",
    );
}

/// Its guard file, which only some messages need, could not be made.
#[test]
fn a_stream_is_served_although_its_first_message_found_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let (mut sender, mut receiver) = (Powered::new("sender", 1), Powered::new("receiver", 2));
    let (client, receiver) = (sender.start(dir.path()), receiver.start(dir.path()));
    sender.disk.refuse_files(Some(ErrorKind::StorageFull));
    let with_id = Options { id: Some("1"), ..Options::default() };
    let brief = Options { deadline: Some(Instant::now() + Duration::from_millis(20)), ..with_id };
    assert_eq!(client.send("news", b"one", &brief), Err(Error::NoRoom(None)));
    sender.disk.refuse_files(None);
    client.send("news", b"one", &Options { deadline: soon(), ..with_id }).unwrap();
    assert_eq!(receiver.recv(soon()).unwrap().body(), b"one");
}

#[test]
fn a_store_that_has_failed_keeps_nobody_busy() {
    let dir = tempfile::tempdir().unwrap();
    let (mut sender, mut receiver) = (Powered::new("sender", 1), Powered::new("receiver", 2));
    let client = receiver.start(dir.path());
    let sender = sender.start(dir.path());
    let interval = Options { durability: Durability::Interval, ..Options::default() };
    // Fail between two writes of the receiver's progress, so that some progress waits to be logged.
    receiver.disk.fail_in(12, ErrorKind::Other);
    let until = soon().unwrap();
    while !receiver.disk.is_dead() {
        sender.send("news", b"one of many", &interval).unwrap();
        // The disk may fail after the check: then nothing is delivered any more.
        while !receiver.disk.is_dead() {
            assert!(Instant::now() < until, "nothing is noted");
            if let Ok(delivery) = client.recv(Some(Instant::now() + Duration::from_millis(20))) {
                delivery.ack();
                break;
            }
        }
    }
    while !matches!(client.send_to("elsewhere", b"mine"), Err(Error::Failed(_))) {
        assert!(Instant::now() < until, "its disk has failed");
    }
    // One that had arrived may still be delivered.
    while let Ok(delivery) = client.recv(Some(Instant::now() + Duration::from_millis(50))) {
        delivery.ack();
    }
    let turns = || client.instance.doorbell.turns.load(Relaxed);
    let before = turns();
    let half_a_second = Some(Instant::now() + Duration::from_millis(500));
    assert_eq!(client.recv(half_a_second).err(), Some(Error::TimedOut));
    assert!(turns() - before <= 50, "{} turns", turns() - before);
    assert!(sender.pending() > 0);
}

/// A durable client listens on its topics until it unsubscribes, whether it is closed or its power is cut.
#[test]
fn topics_outlive_a_power_cut_and_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let registry = format!("dir://{}", dir.path().join("registry").display());
    let start = |disk: &Faulty, name: &str| {
        let builder = Client::builder(name, "t").registry(&registry).topics(&["given"]);
        let instance = Instance::over(Arc::new(disk.clone()), builder.settings()).unwrap();
        builder.start_in(&Arc::new(instance))
    };
    let disk = Faulty::new(1);
    let client = start(&disk, "one").unwrap();
    client.subscribe("more").unwrap();
    client.subscribe("less").unwrap();
    client.unsubscribe("less").unwrap();
    let disk = disk.left_by_power();
    drop(client);
    let client = start(&disk, "one").unwrap();
    assert_eq!(client.topics(), ["given", "more", "t"]);
    // A start that fails, because the name is taken, ends nothing.
    let disk = disk.left_by_power();
    drop(client);
    let holder = start(&Faulty::new(2), "one").unwrap();
    assert!(start(&disk, "one").is_err());
    drop(holder);
    let client = start(&disk, "one").unwrap();
    assert_eq!(client.topics(), ["given", "more", "t"]);
    client.unsubscribe("given").unwrap();
    drop(client);
    let client = start(&disk, "one").unwrap();
    assert_eq!(client.topics(), ["given", "more", "t"], "the settings name it again");
    drop(client);
    let transient = Client::builder("one", "t").registry(&registry).durable(false);
    let instance = Arc::new(Instance::over(Arc::new(disk.clone()), transient.settings()).unwrap());
    assert_eq!(transient.start_in(&instance).unwrap().topics(), ["t"]);
}

/// An id counts for as long as the builder says, by the clock of the day, and also after a power cut.
#[test]
fn ids_count_for_a_while() {
    let _simulation = Simulation::begin(7);
    let mut powered = Powered::new("sender", 1);
    let dir = tempfile::tempdir().unwrap();
    let start = |powered: &mut Powered, window| {
        let builder = powered.builder(dir.path()).deduplicate_for(window).retain_for(None);
        let instance = Instance::over(Arc::new(powered.disk.clone()), builder.settings()).unwrap();
        powered.client.insert(Arc::new(builder.start_in(&Arc::new(instance)).unwrap())).clone()
    };
    let (minute, century_s) = (Duration::from_secs(60), 100 * 365 * 24 * 60 * 60);
    let for_a_minute = [(1, 1), (30, 1), (60, 1), (61, 2), (120, 2), (121, 3)].map(|at| (minute, "7", at));
    let for_ever = [(122, 4), (century_s, 4)].map(|at| (Duration::MAX, "8", at));
    for (window, id, (second, pending)) in for_a_minute.into_iter().chain(for_ever) {
        let mut sender = start(&mut powered, window);
        let options = Options { id: Some(id), ..Options::default() };
        advance_to(Duration::from_secs(second));
        for _ in 0..2 {
            sender.send("news", b"one", &options).unwrap();
            assert_eq!(sender.pending(), pending, "after {second} s");
            powered.cut();
            sender = start(&mut powered, window);
        }
        powered.cut();
    }
}

/// Deliveries are counted over power cuts; and not recorded in advance after an orderly end.
#[test]
fn deliveries_are_counted_over_power_cuts() {
    let dir = tempfile::tempdir().unwrap();
    let (mut sender, mut receiver) = (Powered::new("sender", 1), Powered::new("receiver", 2));
    let start = |powered: &mut Powered| {
        let builder = powered.builder(dir.path()).max_deliveries(3);
        let instance = Instance::over(Arc::new(powered.disk.clone()), builder.settings()).unwrap();
        powered.client.insert(Arc::new(builder.start_in(&Arc::new(instance)).unwrap())).clone()
    };
    // Whether the process before ended in order, and the counts that the store has.
    let counts = |client: &Client| {
        let (was_clean, counts) = client.instance.store.begin_receiving(client.record.number);
        (was_clean, counts.iter().map(|count| count.deliveries).collect::<Vec<u32>>())
    };
    let sender = sender.start(dir.path());
    sender.send_to("news", b"deadly").unwrap();
    sender.send_to("news", b"next").unwrap();
    for (life, expected) in [(1, vec![]), (1, vec![1]), (2, vec![2]), (3, vec![3])] {
        let client = start(&mut receiver);
        let delivery = client.recv(soon()).unwrap();
        assert_eq!((delivery.body(), delivery.deliveries()), (&b"deadly"[..], life));
        assert_eq!(counts(&client), (expected.is_empty(), expected));
        receiver.cut();
    }
    let client = start(&mut receiver);
    let delivery = client.recv(soon()).unwrap();
    assert_eq!((delivery.body(), delivery.deliveries()), (&b"next"[..], 1));
    delivery.ack();
    // The dead letter is left, for which there is no receiver.
    sender.wait_pending(1, soon()).unwrap();
    let letters = sender.pending();
    assert_eq!(letters, 1);
    // It ends in order: the next one records nothing in advance, but what has failed.
    drop((client, receiver.client.take()));
    let client = start(&mut receiver);
    sender.send_to("news", b"more").unwrap();
    let delivery = client.recv(soon()).unwrap();
    assert_eq!((delivery.deliveries(), counts(&client)), (1, (true, vec![])));
    drop((delivery, client, receiver.client.take()));
    let client = start(&mut receiver);
    let delivery = client.recv(soon()).unwrap();
    assert_eq!((delivery.body(), delivery.deliveries()), (&b"more"[..], 2), "it has failed once");
    assert_eq!(counts(&client), (true, vec![2]));
    delivery.ack();
    sender.wait_pending(letters, soon()).unwrap();
    assert_eq!(counts(&client), (true, vec![]));
}

/// A message that was recorded for a handler which then asks for none does not wait for it.
#[test]
fn what_is_recorded_and_not_taken_goes_to_another() {
    let dir = tempfile::tempdir().unwrap();
    let (mut receiver, mut other) = (Powered::new("receiver", 2), Powered::new("other", 3));
    let start = |powered: &mut Powered| {
        let other = format!("ipc://{}/other", dir.path().display());
        let builder = powered.builder(dir.path()).peer("other", &other, &["news"]).max_deliveries(3);
        let instance = Instance::over(Arc::new(powered.disk.clone()), builder.settings()).unwrap();
        powered.client.insert(Arc::new(builder.start_in(&Arc::new(instance)).unwrap())).clone()
    };
    let sender = start(&mut Powered::new("sender", 1));
    drop(start(&mut receiver));
    receiver.cut();
    let client = start(&mut receiver);
    sender.send_to("news", b"one").unwrap();
    let counts = || client.instance.store.begin_receiving(client.record.number).1;
    let until = soon().unwrap();
    while counts().is_empty() {
        assert!(Instant::now() < until, "it is not recorded");
        // The first call asks for it; the one that finds it waiting has it recorded.
        if !client.inbox.is_aside() {
            assert_eq!(client.recv(Some(Instant::now())).err(), Some(Error::TimedOut));
        }
    }
    let other = start(&mut other);
    let delivery = other.recv(soon()).unwrap();
    assert_eq!((delivery.body(), delivery.deliveries()), (&b"one"[..], 1));
    delivery.ack();
    sender.wait_pending(0, soon()).unwrap();
    // The receiver records it after it has returned the message.
    let until = soon().unwrap();
    while counts().iter().any(|count| count.deliveries > 0) {
        assert!(Instant::now() < until, "the count is not lowered");
        std::thread::yield_now();
    }
    assert_eq!((counts().len(), client.owed_credit().len()), (1, 0));
}
