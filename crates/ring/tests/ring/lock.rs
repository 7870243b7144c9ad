//! The lock with real threads: one at a time inside, no thread waits for ever, whichever is the owner.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use pinnace_ring::{BiasedLock, Reentered};
use pinnace_sys::barrier;

/// More visits than it takes to become the owner.
const MANY: u32 = 100;

fn add(lock: &BiasedLock<Cell<u64>>) {
    let count = lock.lock().unwrap();
    let before = count.get();
    std::hint::black_box(&*count);
    count.set(before + 1);
}

/// Reads and writes each count separately: two threads inside together would lose one.
#[test]
fn one_at_a_time() {
    barrier::prepare();
    for (threads, runs, run) in [(2, 5_000, 40_u32), (2, 200, 5_000), (4, 50_000, 1), (8, 500, MANY)] {
        let lock = BiasedLock::new(Cell::new(0));
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..runs {
                        (0..run).for_each(|_| add(&lock));
                        thread::yield_now();
                    }
                });
            }
        });
        assert_eq!(lock.lock().unwrap().get(), threads * runs * u64::from(run));
    }
}

/// The owner stays inside while another thread waits: that thread enters once the owner has left.
#[test]
fn who_waits_for_the_owner_is_woken() {
    barrier::prepare();
    let lock = BiasedLock::new(Cell::new(0));
    for round in 1..=200 {
        (0..MANY * round / 10).for_each(|_| add(&lock));
        let before = lock.lock().unwrap().get();
        thread::scope(|scope| {
            let inside = lock.lock().unwrap();
            let (begins, begun) = mpsc::channel();
            let lock = &lock;
            scope.spawn(move || {
                begins.send(()).unwrap();
                add(lock);
            });
            begun.recv().unwrap();
            (0..round % 5).for_each(|_| thread::yield_now());
            assert_eq!(inside.get(), before);
        });
        assert_eq!(lock.lock().unwrap().get(), before + 1);
    }
}

/// More threads than there are seats own the lock one after another.
#[test]
fn owners_come_and_go() {
    barrier::prepare();
    let lock = BiasedLock::new(Cell::new(0));
    for thread in 0..20 {
        thread::scope(|scope| {
            scope.spawn(|| {
                (0..MANY).for_each(|_| add(&lock));
                if thread % 2 == 0 {
                    lock.leave_to_others();
                }
            });
        });
    }
    assert_eq!(lock.lock().unwrap().get(), 20 * u64::from(MANY));
}

#[test]
fn a_second_time_is_told() {
    barrier::prepare();
    let lock = BiasedLock::new(Cell::new(0));
    for _ in 0..MANY {
        let inside = lock.lock().unwrap();
        assert_eq!(lock.lock().err(), Some(Reentered));
        inside.set(inside.get() + 1);
    }
    assert_eq!(lock.lock().unwrap().get(), u64::from(MANY));
}

/// A panic inside unlocks it.
#[test]
fn a_panic_opens_it() {
    barrier::prepare();
    let lock = BiasedLock::new(Cell::new(0));
    for visits in [1, MANY] {
        (0..visits).for_each(|_| add(&lock));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _inside = lock.lock().unwrap();
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(panicked.is_err());
        thread::scope(|scope| {
            scope.spawn(|| add(&lock)).join().unwrap();
        });
    }
}

/// A thread visits now and then while the owner works: no count is lost, and neither starves.
#[test]
fn a_guest_now_and_then() {
    barrier::prepare();
    let lock = Arc::new(BiasedLock::new(Cell::new(0)));
    let (ended, guests) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let guest = {
        let (lock, ended, guests) = (lock.clone(), ended.clone(), guests.clone());
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                add(&lock);
                guests.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            }
        })
    };
    let mut own = 0;
    while guests.load(Ordering::Relaxed) < 2_000 {
        add(&lock);
        own += 1;
    }
    ended.store(true, Ordering::Relaxed);
    guest.join().unwrap();
    assert_eq!(lock.lock().unwrap().get(), own + u64::from(guests.load(Ordering::Relaxed)));
}
