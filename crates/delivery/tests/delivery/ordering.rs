//! Ordering keys: messages to one with the same key go to the same receiver while it lives.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pinnace_delivery::{Client, Durability, Error, Options};

use crate::common::{member, soon};

/// The messages of each key, as worker and number, in the order of handling.
type Handled = BTreeMap<String, Vec<(usize, u32)>>;

/// Sends messages `from..to`, each with one of `keys` keys in turn.
fn send_with_keys(sender: &Client, keys: u32, from: u32, to: u32, durability: Durability) {
    for number in from..to {
        let key = format!("key {}", number % keys);
        let options =
            Options { durability, deadline: soon(), ordering_key: Some(&key), ..Options::default() };
        sender.send("work", &number.to_le_bytes(), &options).unwrap();
    }
}

fn start_workers<const COUNT: usize>(dir: &Path, names: [&str; COUNT]) -> [Client; COUNT] {
    names.map(|name| member(dir, name, "work").reassign_after(Some(Duration::from_secs(2))).start().unwrap())
}

fn take(worker: &Client, number: usize, handled: &Mutex<Handled>, wait: Option<Instant>) -> bool {
    let Ok(delivery) = worker.recv(wait) else { return false };
    let key = delivery.ordering_key().unwrap().to_owned();
    let body = u32::from_le_bytes(delivery.body()[..4].try_into().unwrap());
    handled.lock().unwrap().entry(key).or_default().push((number, body));
    delivery.ack();
    true
}

/// Workers that handle messages until none is pending. Workers are numbered as in `workers`.
fn work(workers: &[(usize, &Client)], sender: &Client, handled: &Mutex<Handled>) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, worker) in workers {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    take(worker, *number, handled, Some(Instant::now() + Duration::from_millis(20)));
                }
            });
        }
        sender.wait_pending(0, soon()).unwrap();
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Each message of a key was handled once, in order. Returns the workers of each key, in their order.
fn workers_of(handled: &Handled, count: u32) -> BTreeMap<&str, Vec<usize>> {
    assert_eq!(handled.values().map(Vec::len).sum::<usize>(), count as usize, "each once");
    let workers = handled.iter().map(|(key, list)| {
        assert!(list.is_sorted_by_key(|(_, number)| *number), "{key}: {list:?}");
        let mut workers: Vec<usize> = list.iter().map(|(worker, _)| *worker).collect();
        workers.dedup();
        (key.as_str(), workers)
    });
    workers.collect()
}

#[test]
fn a_key_stays_with_its_worker_also_when_others_come() {
    let dir = tempfile::tempdir().unwrap();
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    let workers = start_workers(dir.path(), ["a", "b", "c"]);
    sender.wait_listeners("work", 3, soon()).unwrap();
    let (all, handled) = ([0, 1, 2].map(|at| (at, &workers[at])), Mutex::default());
    send_with_keys(&sender, 60, 0, 600, Durability::Interval);
    work(&all, &sender, &handled);
    let [late] = start_workers(dir.path(), ["d"]);
    sender.wait_listeners("work", 4, soon()).unwrap();
    send_with_keys(&sender, 60, 600, 1200, Durability::Interval);
    work(&[all[0], all[1], all[2], (3, &late)], &sender, &handled);
    let first = handled.into_inner().unwrap();
    let owners = workers_of(&first, 1200);
    assert!(owners.values().all(|workers| workers.len() == 1), "{owners:?}");
    for worker in 0..3 {
        let count = owners.values().filter(|workers| workers[0] == worker).count();
        assert!(count >= 5, "{owners:?}: worker {worker} has {count} of 60");
    }
    // A new worker gets new keys.
    let handled = Mutex::default();
    send_with_keys(&sender, 200, 0, 400, Durability::Interval);
    work(&[all[0], all[1], all[2], (3, &late)], &sender, &handled);
    let second = handled.into_inner().unwrap();
    let owners = workers_of(&second, 400);
    assert!(owners.values().filter(|workers| **workers == [3]).count() >= 10, "{owners:?}");
}

/// The messages of a slow worker's keys wait, and those of other keys do not.
#[test]
fn a_key_whose_worker_is_busy_holds_up_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    let workers = start_workers(dir.path(), ["a", "b"]);
    sender.wait_listeners("work", 2, soon()).unwrap();
    send_with_keys(&sender, 40, 0, 40, Durability::Sync);
    let in_hand = workers[0].recv(soon()).unwrap();
    send_with_keys(&sender, 40, 40, 4000, Durability::Interval);
    let handled = Mutex::new(Handled::new());
    while sender.pending() > 1 {
        take(&workers[1], 1, &handled, soon());
        let own = handled.lock().unwrap().len() as u64;
        // All of the other worker's keys are done, and all of this one's wait.
        if handled.lock().unwrap().values().all(|list| list.len() == 100) && own > 0 {
            break;
        }
    }
    let of_other = handled.lock().unwrap().len();
    assert!((1..40).contains(&of_other), "{of_other} keys");
    assert!(!handled.lock().unwrap().contains_key(in_hand.ordering_key().unwrap()));
    let key = in_hand.ordering_key().unwrap().to_owned();
    let first = u32::from_le_bytes(in_hand.body().try_into().unwrap());
    handled.lock().unwrap().entry(key).or_default().push((0, first));
    in_hand.ack();
    work(&[(0, &workers[0]), (1, &workers[1])], &sender, &handled);
    let handled = handled.into_inner().unwrap();
    let owners = workers_of(&handled, 4000);
    assert!(owners.values().all(|workers| workers.len() == 1), "{owners:?}");
}

#[test]
fn the_keys_of_a_worker_that_ends_go_to_others_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    let [first, second] = start_workers(dir.path(), ["a", "b"]);
    sender.wait_listeners("work", 2, soon()).unwrap();
    let handled = Mutex::default();
    send_with_keys(&sender, 20, 0, 400, Durability::Interval);
    for _ in 0..50 {
        take(&first, 0, &handled, soon());
        take(&second, 1, &handled, soon());
    }
    first.close(soon()).unwrap();
    work(&[(1, &second)], &sender, &handled);
    let [returned] = start_workers(dir.path(), ["a"]);
    sender.wait_listeners("work", 2, soon()).unwrap();
    send_with_keys(&sender, 20, 400, 800, Durability::Interval);
    work(&[(0, &returned), (1, &second)], &sender, &handled);
    let handled = handled.into_inner().unwrap();
    let owners = workers_of(&handled, 800);
    let expected: [&[usize]; 2] = [&[0, 1], &[1]];
    assert!(owners.values().all(|workers| expected.contains(&&workers[..])), "{owners:?}");
    assert!(owners.values().any(|workers| *workers == [0, 1]), "{owners:?}");
}

/// A sender that starts again learns from the workers which keys they have.
#[test]
fn keys_in_hand_stay_when_the_sender_starts_anew() {
    let dir = tempfile::tempdir().unwrap();
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    let workers = start_workers(dir.path(), ["a", "b", "c"]);
    sender.wait_listeners("work", 3, soon()).unwrap();
    send_with_keys(&sender, 30, 0, 300, Durability::Sync);
    let in_hand = workers.each_ref().map(|worker| worker.recv(soon()).unwrap());
    drop(sender);
    // One more worker, which rendezvous hashing would give some of the keys in hand.
    let [late] = start_workers(dir.path(), ["d"]);
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    sender.wait_listeners("work", 4, soon()).unwrap();
    send_with_keys(&sender, 30, 300, 600, Durability::Memory);
    let handled = Mutex::new(Handled::new());
    for (worker, delivery) in in_hand.into_iter().enumerate() {
        let number = u32::from_le_bytes(delivery.body().try_into().unwrap());
        let key = delivery.ordering_key().unwrap().to_owned();
        handled.lock().unwrap().entry(key).or_default().push((worker, number));
        delivery.ack();
    }
    work(&[(0, &workers[0]), (1, &workers[1]), (2, &workers[2]), (3, &late)], &sender, &handled);
    workers_of(&handled.into_inner().unwrap(), 600);
}

#[test]
fn large_messages_have_keys_too() {
    let dir = tempfile::tempdir().unwrap();
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    let workers = start_workers(dir.path(), ["a", "b"]);
    sender.wait_listeners("work", 2, soon()).unwrap();
    for number in 0..20_u32 {
        let key = format!("key {}", number % 4);
        let options = Options { deadline: soon(), ordering_key: Some(&key), ..Options::default() };
        let mut body = vec![7; 3 << 20];
        body[..4].copy_from_slice(&number.to_le_bytes());
        sender.send("work", &body, &options).unwrap();
    }
    let handled = Mutex::default();
    work(&[(0, &workers[0]), (1, &workers[1])], &sender, &handled);
    let handled = handled.into_inner().unwrap();
    let owners = workers_of(&handled, 20);
    assert!(owners.values().all(|workers| workers.len() == 1), "{owners:?}");
}

#[test]
fn an_invalid_key_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sender = member(dir.path(), "sender", "done").start().unwrap();
    for key in ["", "a\0b", &"k".repeat(256)] {
        let options = Options { ordering_key: Some(key), ..Options::default() };
        assert!(matches!(sender.send("work", b"", &options), Err(Error::Property(_))), "{key:?}");
    }
}
