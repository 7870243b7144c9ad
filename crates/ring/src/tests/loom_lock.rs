//! The lock under every interleaving that loom explores. The tests are named after the pairs in `biased`.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::loom_queue::{model, model_of};
use crate::{BiasedLock, Reentered};

/// Thread ids, as the lock sees them.
const ANNE: usize = 0x100;
const BOB: usize = 0x200;
const CAROL: usize = 0x300;

/// Visits after which a new thread is the owner: the first counts nothing, the second earns it.
const TO_OWN: u32 = 2;

type Counted = BiasedLock<UnsafeCell<u32>>;

/// Loom fails the test if another thread is inside.
fn visit(lock: &Counted, thread: usize) {
    let guard = lock.lock_as(thread).unwrap();
    guard.with_mut(|count| {
        // SAFETY: loom checks that no other thread has access.
        unsafe { *count += 1 }
    });
}

fn count(lock: &Counted, thread: usize) -> u32 {
    // SAFETY: as above.
    lock.lock_as(thread).unwrap().with(|count| unsafe { *count })
}

fn owned_by(thread: usize) -> Arc<Counted> {
    let lock = Arc::new(BiasedLock::new(UnsafeCell::new(0)));
    (0..TO_OWN).for_each(|_| visit(&lock, thread));
    lock
}

fn visits(lock: &Arc<Counted>, thread: usize, times: u32) -> thread::JoinHandle<()> {
    let lock = lock.clone();
    thread::spawn(move || (0..times).for_each(|_| visit(&lock, thread)))
}

/// What ENTER and LEAVE guarantee: the owner and another thread are never inside together, and neither waits
/// for ever.
#[test]
fn another_comes_while_the_owner_goes_in_and_out() {
    model(|| {
        let lock = owned_by(ANNE);
        let bob = visits(&lock, BOB, 1);
        visit(&lock, ANNE);
        visit(&lock, ANNE);
        bob.join().unwrap();
        assert_eq!(count(&lock, ANNE), TO_OWN + 3);
    });
}

/// What GRANT guarantees: a thread that enters sees a thread that has just become the owner.
#[test]
fn another_comes_while_the_owner_becomes_it() {
    model(|| {
        let lock = Arc::new(BiasedLock::new(UnsafeCell::new(0)));
        let bob = visits(&lock, BOB, 1);
        (0..=TO_OWN).for_each(|_| visit(&lock, ANNE));
        bob.join().unwrap();
        assert_eq!(count(&lock, ANNE), TO_OWN + 2);
    });
}

/// A former owner that was on the fast path does not unlock the lock for the next owner.
#[test]
fn a_former_owner_is_late() {
    // Three threads: with one more preemption it takes minutes.
    model_of(3, || {
        let lock = owned_by(ANNE);
        let anne = visits(&lock, ANNE, 1);
        (0..TO_OWN).for_each(|_| visit(&lock, BOB));
        let carol = visits(&lock, CAROL, 1);
        visit(&lock, BOB);
        anne.join().unwrap();
        carol.join().unwrap();
        assert_eq!(count(&lock, BOB), 2 * TO_OWN + 3);
    });
}

/// What RETURN guarantees: owner and visitor are never inside together, and the owner stays the owner.
#[test]
fn a_visitor_comes_while_the_owner_goes_in_and_out() {
    model(|| {
        let lock = owned_by(ANNE);
        let bob = {
            let lock = lock.clone();
            thread::spawn(move || {
                // SAFETY: loom checks that no other thread has access.
                lock.visit_as(BOB).unwrap().with_mut(|count| unsafe { *count += 1 })
            })
        };
        visit(&lock, ANNE);
        visit(&lock, ANNE);
        bob.join().unwrap();
        assert!(lock.is_owned_by(ANNE));
        assert_eq!(count(&lock, ANNE), TO_OWN + 3);
    });
}

/// A visitor, and a thread that ends the ownership.
#[test]
fn a_visitor_and_another_come() {
    model_of(3, || {
        let lock = owned_by(ANNE);
        let carol = visits(&lock, CAROL, 1);
        let bob = {
            let lock = lock.clone();
            // SAFETY: as above.
            thread::spawn(move || lock.visit_as(BOB).unwrap().with_mut(|count| unsafe { *count += 1 }))
        };
        visit(&lock, ANNE);
        carol.join().unwrap();
        bob.join().unwrap();
        assert!(!lock.is_owned_by(BOB));
        assert_eq!(count(&lock, ANNE), TO_OWN + 3);
    });
}

/// The owner gives up its ownership while another thread enters.
#[test]
fn the_owner_leaves_to_others() {
    model(|| {
        let lock = owned_by(ANNE);
        let bob = visits(&lock, BOB, TO_OWN);
        visit(&lock, ANNE);
        lock.leave_to_others_as(ANNE);
        visit(&lock, ANNE);
        bob.join().unwrap();
        assert_eq!(count(&lock, BOB), 2 * TO_OWN + 2);
    });
}

/// A re-entrant lock is an error, whichever path the first one took.
#[test]
fn a_thread_does_not_wait_for_itself() {
    model(|| {
        let lock = owned_by(ANNE);
        for thread in [ANNE, BOB] {
            let _inside = lock.lock_as(thread).unwrap();
            assert_eq!(lock.lock_as(thread).err(), Some(Reentered));
        }
    });
}
