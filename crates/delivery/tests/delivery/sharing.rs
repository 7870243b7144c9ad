//! Work queues: messages to one, which the clients that listen on a topic share.

use std::collections::BTreeSet;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use pinnace_delivery::{Client, Cursor, Durability, Options};

use crate::common::{member, soon};

fn send_numbers(sender: &Client, count: u32) {
    let options = Options { durability: Durability::Interval, deadline: soon(), ..Options::default() };
    (0..count).for_each(|number| sender.send("work", &number.to_le_bytes(), &options).unwrap());
}

fn number_of(body: &[u8]) -> u32 {
    u32::from_le_bytes(body.try_into().unwrap())
}

/// Workers that handle messages until all are handled. Returns what each has handled, in its order.
fn work(workers: &[(&Client, Duration)], sender: &Client) -> Vec<Vec<u32>> {
    let handled: Vec<Mutex<Vec<u32>>> = workers.iter().map(|_| Mutex::default()).collect();
    std::thread::scope(|scope| {
        for ((worker, each), handled) in workers.iter().zip(&handled) {
            scope.spawn(move || {
                while sender.pending() > 0 {
                    let wait = Instant::now() + Duration::from_millis(20);
                    let Ok(delivery) = worker.recv(Some(wait)) else { continue };
                    handled.lock().unwrap().push(number_of(delivery.body()));
                    busy(*each);
                    delivery.ack();
                }
            });
        }
    });
    handled.into_iter().map(|handled| handled.into_inner().unwrap()).collect()
}

/// Work that takes a time.
fn busy(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
    }
}

fn is_exact(handled: &[Vec<u32>], count: u32) {
    let all: BTreeSet<u32> = handled.iter().flatten().copied().collect();
    assert_eq!(handled.iter().map(Vec::len).sum::<usize>(), count as usize, "each once");
    assert_eq!(all, (0..count).collect());
}

#[test]
fn a_backlog_is_shared_by_those_that_come() {
    let dir = tempfile::tempdir().unwrap();
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    send_numbers(&sender, 1000);
    let workers = ["a", "b", "c"].map(|name| member(dir.path(), name, "work").start().unwrap());
    let each = Duration::from_millis(2);
    let handled = work(&[(&workers[0], each), (&workers[1], each), (&workers[2], each)], &sender);
    is_exact(&handled, 1000);
    let counts: Vec<usize> = handled.iter().map(Vec::len).collect();
    assert!(counts.iter().all(|count| *count >= 200), "{counts:?}");
    assert!(handled.iter().all(|numbers| numbers.is_sorted()), "each gets an increasing part");
}

#[test]
fn a_slow_worker_holds_up_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    let workers = ["slow", "b", "c"].map(|name| member(dir.path(), name, "work").start().unwrap());
    sender.wait_listeners("work", 3, soon()).unwrap();
    send_numbers(&sender, 900);
    let (slow, fast) = (Duration::from_millis(200), Duration::from_millis(1));
    let begin = Instant::now();
    let handled = work(&[(&workers[0], slow), (&workers[1], fast), (&workers[2], fast)], &sender);
    let took = begin.elapsed();
    is_exact(&handled, 900);
    let most = 2 + took.as_millis() as usize / 200;
    assert!(handled[0].len() <= most, "{} in {took:?}: they waited for the slow one", handled[0].len());
}

#[test]
fn what_waits_behind_a_handler_that_hangs_goes_to_another() {
    let dir = tempfile::tempdir().unwrap();
    let hanging = member(dir.path(), "hanging", "work").start().unwrap();
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    sender.wait_listeners("work", 1, soon()).unwrap();
    // It gets used to many at once.
    send_numbers(&sender, 20_000);
    for number in 0..5000 {
        let delivery = hanging.recv(soon()).unwrap();
        assert_eq!(number_of(delivery.body()), number);
        delivery.ack();
    }
    let in_hand = hanging.recv(soon()).unwrap();
    let other = member(dir.path(), "other", "work").start().unwrap();
    let mut handled = BTreeSet::new();
    for _ in 5001..20_000 {
        let delivery = other.recv(soon()).unwrap();
        assert!(handled.insert(number_of(delivery.body())), "each once");
        delivery.ack();
    }
    assert_eq!(handled, (5001..20_000).collect());
    sender.wait_pending(1, soon()).unwrap();
    in_hand.ack();
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn a_worker_that_cannot_be_reached_gets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // One refuses connections, and one accepts them and says nothing.
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let worker = member(dir.path(), "worker", "work").registry("none").start().unwrap();
    let sender = member(dir.path(), "sender", "done")
        .registry("none")
        .peer("refusing", &format!("tcp://{refusing}"), &["work"])
        .peer("silent", &format!("tcp://{}", silent.local_addr().unwrap()), &["work"])
        .peer("worker", worker.endpoint(), &["work"])
        .start()
        .unwrap();
    send_numbers(&sender, 100);
    let handled = work(&[(&worker, Duration::ZERO)], &sender);
    assert_eq!(handled, [(0..100).collect::<Vec<u32>>()]);
}

/// The message of a worker that was killed has the same cursor at another worker.
#[test]
fn a_cursor_survives_reassignment() {
    let dir = tempfile::tempdir().unwrap();
    let sender = member(dir.path(), "sender", "done").reassign_after(Some(Duration::from_millis(50)));
    let sender = sender.start().unwrap();
    let mut effects: BTreeSet<([u8; 16], u64, u64)> = BTreeSet::new();
    let key = |cursor: Cursor| (cursor.sender, cursor.stream, cursor.number);
    let first = member(dir.path(), "first", "work").linger(Duration::ZERO).start().unwrap();
    sender.wait_listeners("work", 1, soon()).unwrap();
    send_numbers(&sender, 20);
    let mut in_hand = Vec::new();
    while in_hand.len() < 7 {
        let delivery = first.recv(soon()).unwrap();
        assert!(effects.insert(key(delivery.cursor())), "its first delivery");
        in_hand.push(delivery);
    }
    // It applied the effects, and ends without an acknowledgement.
    let _ = first.close(Some(Instant::now()));
    drop(in_hand);
    let second = member(dir.path(), "second", "work").start().unwrap();
    let mut again = 0;
    for _ in 0..20 {
        let delivery = second.recv(soon()).unwrap();
        assert!(delivery.cursor().settled < delivery.cursor().number);
        again += u32::from(!effects.insert(key(delivery.cursor())));
        delivery.ack();
    }
    assert_eq!((effects.len(), again), (20, 7), "each effect once, seven were recognized");
}

/// A sender that is started anew does not give the messages that a worker has to another.
#[test]
fn what_a_worker_has_stays_there_when_the_sender_starts_anew() {
    let dir = tempfile::tempdir().unwrap();
    let workers = ["a", "b"].map(|name| member(dir.path(), name, "work").start().unwrap());
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    sender.wait_listeners("work", 2, soon()).unwrap();
    send_numbers(&sender, 3);
    let in_hand = workers.each_ref().map(|worker| worker.recv(soon()).unwrap());
    // So that the sender has heard of both.
    let mut last = None;
    while last.is_none() {
        last = workers
            .iter()
            .find_map(|worker| worker.recv(Some(Instant::now() + Duration::from_millis(20))).ok());
    }
    last.unwrap().ack();
    sender.wait_pending(2, soon()).unwrap();
    drop(sender);
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    send_numbers(&sender, 2);
    let mut handled: Vec<u32> = in_hand
        .into_iter()
        .map(|delivery| {
            let number = number_of(delivery.body());
            delivery.ack();
            number
        })
        .collect();
    let later = work(&[(&workers[0], Duration::ZERO), (&workers[1], Duration::ZERO)], &sender);
    handled.sort_unstable();
    assert!(handled.iter().all(|number| *number < 3), "{handled:?}");
    assert_eq!(later.iter().map(Vec::len).sum::<usize>(), 2, "{later:?}: nothing came twice");
}

#[test]
fn a_worker_that_had_nothing_when_the_sender_ended_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let start = |name: &str, topic: &str| member(dir.path(), name, topic).start().unwrap();
    let (workers, sender) = (["a", "b"].map(|name| start(name, "work")), start("sender", "done"));
    sender.wait_listeners("work", 2, soon()).unwrap();
    send_numbers(&sender, 20);
    is_exact(&work(&[(&workers[0], Duration::ZERO), (&workers[1], Duration::ZERO)], &sender), 20);
    drop((sender, workers));
    // An opening in which neither is there changes nothing.
    send_numbers(&start("sender", "done"), 1);
    let (worker, sender) = (start("a", "work"), start("sender", "done"));
    // Less than `reassign_after`.
    let delivery = worker.recv(Some(Instant::now() + Duration::from_secs(10))).unwrap();
    delivery.ack();
    sender.wait_pending(0, soon()).unwrap();
}

/// The messages of a sender's earlier process may have been handled by a worker that has ended.
#[test]
fn a_sender_that_starts_anew_tells_for_whom_its_messages_wait() {
    let dir = tempfile::tempdir().unwrap();
    let [here, gone] = ["here", "gone"].map(|name| member(dir.path(), name, "work").start().unwrap());
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    sender.wait_listeners("work", 2, soon()).unwrap();
    send_numbers(&sender, 2);
    let [handled, lost] = [&here, &gone].map(|worker| worker.recv(soon()).unwrap());
    let number = number_of(lost.body());
    drop(sender);
    drop((lost, gone));
    let (tell, told) = channel();
    let (tell, time) = (Mutex::new(tell), Duration::from_secs(4));
    let builder = member(dir.path(), "sender", "done").reassign_after(Some(time));
    let builder = builder.on_error(move |error| tell.lock().unwrap().send(error.clone()).unwrap());
    let sender = builder.start().unwrap();
    handled.ack();
    let error = told.recv_timeout(Duration::from_secs(20)).unwrap();
    let text =
        "messages on work from before the start wait up to 4 s for gone, which may have handled some of them";
    assert_eq!(error.to_string(), text);
    let delivery = here.recv(soon()).unwrap();
    assert_eq!(number_of(delivery.body()), number);
    delivery.ack();
    sender.wait_pending(0, soon()).unwrap();
}

/// Passes on one connection to a port, until both ends are shut down.
fn one_connection(listener: TcpListener, port: u16) -> (TcpStream, TcpStream) {
    let (from, to) = (listener.accept().unwrap().0, TcpStream::connect(("127.0.0.1", port)).unwrap());
    for (from, to) in [(&from, &to), (&to, &from)] {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    }
    (from, to)
}

/// No other event wakes the sender when `reassign_after` is over.
#[test]
fn what_a_lost_worker_had_goes_to_another_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    let sender = member(dir.path(), "sender", "done").reassign_after(Some(Duration::from_secs(3)));
    let sender = sender.start().unwrap();
    let [here, there] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [own, port] = [&here, &there].map(|listener| listener.local_addr().unwrap().port());
    drop(there);
    let endpoint = |port: u16| format!("tcp://127.0.0.1:{port}");
    let lost = member(dir.path(), "lost", "work").listen(&endpoint(port)).advertise(&endpoint(own));
    let lost = lost.start().unwrap();
    send_numbers(&sender, 1);
    let ends = one_connection(here, port);
    let in_hand = lost.recv(soon()).unwrap();
    let other = member(dir.path(), "other", "work").start().unwrap();
    sender.wait_listeners("work", 2, soon()).unwrap();
    // Away by the registry, and not answered: the connection is lost before the delivery is settled.
    let _ = lost.close(Some(Instant::now()));
    let cut = Instant::now();
    [ends.0, ends.1].iter().for_each(|end| end.shutdown(Shutdown::Both).unwrap());
    let delivery = other.recv(soon()).unwrap();
    assert!(cut.elapsed() < Duration::from_secs(7), "after {:?}", cut.elapsed());
    assert_eq!(number_of(delivery.body()), 0);
    delivery.ack();
    sender.wait_pending(0, soon()).unwrap();
    drop(in_hand);
}

/// A receiver of the topics "bad" and "good", and a sender of large messages to all.
fn two_topics(dir: &Path, pause: Duration) -> (Client, Client) {
    let receiver = member(dir, "receiver", "bad").retry(pause, pause).start().unwrap();
    receiver.subscribe("good").unwrap();
    let sender = member(dir, "sender", "done").start().unwrap();
    sender.wait_listeners("good", 1, soon()).unwrap();
    (receiver, sender)
}

fn send_large(sender: &Client, topic: &str, count: u32) {
    let all = Options { all: true, durability: Durability::Interval, deadline: soon(), ..Options::default() };
    for number in 0..count {
        sender.send(topic, &[&number.to_le_bytes()[..], &[7; 50_000]].concat(), &all).unwrap();
    }
}

/// One topic is not handled, and has used all credit; the other topic of its sender goes on.
#[test]
fn a_topic_that_is_not_handled_does_not_starve_others() {
    let dir = tempfile::tempdir().unwrap();
    let (receiver, sender) = two_topics(dir.path(), Duration::from_secs(3600));
    send_large(&sender, "bad", 400);
    let bad = receiver.recv(soon()).unwrap();
    assert_eq!((bad.topic(), number_of(&bad.body()[..4])), ("bad", 0));
    // It failed: it is put back, and holds up what follows it.
    drop(bad);
    send_large(&sender, "good", 200);
    for number in 0..200 {
        let delivery = receiver.recv(soon()).unwrap();
        assert_eq!((delivery.topic(), number_of(&delivery.body()[..4])), ("good", number));
        delivery.ack();
    }
    sender.wait_pending(400, soon()).unwrap();
}

/// The same, and the first topic is handled after a while: its messages come in order, with those dropped before.
#[test]
fn a_topic_that_was_parked_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (receiver, sender) = two_topics(dir.path(), Duration::from_secs(2));
    send_large(&sender, "bad", 400);
    drop(receiver.recv(soon()).unwrap());
    send_large(&sender, "good", 20);
    let (mut bad, mut good) = (0, 0);
    while bad < 400 || good < 20 {
        let delivery = receiver.recv(soon()).unwrap();
        let next = if delivery.topic() == "bad" { &mut bad } else { &mut good };
        assert_eq!(number_of(&delivery.body()[..4]), *next, "{} in order", delivery.topic());
        *next += 1;
        delivery.ack();
    }
    sender.wait_pending(0, soon()).unwrap();
}
