//! Limits in bytes: on one queue, and on several together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pinnace_ring::{Body, Budget, Consumer, Intake, Limits, Producer, Verdict, budgeted_queue, queue};

const NO_LIMIT: Limits = Limits { messages: 0, ahead_bytes: 0 };

fn put(tx: &mut Producer, bytes: usize) {
    if bytes > 32 * 1024 {
        tx.push_body(0, Body::from(vec![1; bytes])).unwrap();
    } else {
        tx.push(0, &vec![1; bytes]).unwrap();
    }
    tx.commit();
}

fn fill(tx: &mut Producer, bytes: usize) -> usize {
    let mut count = 0;
    while tx.has_room() {
        put(tx, bytes);
        count += 1;
        assert!(count < 100_000, "there is no limit");
    }
    count
}

#[test]
fn a_queue_takes_messages_while_it_holds_fewer_bytes() {
    for bytes in [0, 8, 300, 5_000, 100_000] {
        let (mut tx, mut rx) = queue(NO_LIMIT);
        tx.set_max_bytes(10_000);
        rx.check_room_at_each_message(true);
        rx.set_mark(0);
        let wire = bytes + if bytes < 256 { 2 } else { 9 };
        assert_eq!(fill(&mut tx, bytes), 10_000_usize.div_ceil(wire), "{bytes} bytes");
        assert!(!tx.want_room());
        rx.pop(|_| ()).unwrap();
        assert!(rx.take_room_wanted(), "the producer is told of each message");
        if wire < 10_000 {
            assert_eq!(fill(&mut tx, bytes), 1);
        }
    }
}

#[test]
fn both_limits_count() {
    let (mut tx, _rx) = queue(Limits { messages: 5, ahead_bytes: 0 });
    tx.set_max_bytes(1 << 20);
    assert_eq!(fill(&mut tx, 10), 5);
    let (mut tx, _rx) = queue(Limits { messages: 1000, ahead_bytes: 0 });
    tx.set_max_bytes(100);
    assert_eq!(fill(&mut tx, 98), 1);
    tx.set_max_bytes(0);
    assert_eq!(fill(&mut tx, 98), 999, "the limit is gone");
}

#[test]
fn what_is_read_from_a_peer_counts_too() {
    let (mut tx, mut rx) = queue(NO_LIMIT);
    tx.set_max_bytes(1000);
    let mut intake = Intake::new(tx, u64::MAX);
    let mut frames = Vec::new();
    for _ in 0..10 {
        frames.extend_from_slice(&[0, 98]);
        frames.extend_from_slice(&[7; 98]);
    }
    frames.extend_from_slice(&[2, 0, 0, 0, 0, 0, 1, 0, 0]);
    frames.extend_from_slice(&[7; 65_536]);
    intake.feed(&frames).unwrap();
    intake.parse(|_| Ok::<_, ()>(Verdict::Drop)).unwrap();
    assert!(!intake.queue().has_room());
    for left in (0..11).rev() {
        assert!(!intake.queue().has_room(), "{left}");
        rx.pop(|_| ()).unwrap();
    }
    assert!(intake.queue().has_room());
}

fn pair(budget: &Arc<Budget>) -> (Producer, Consumer) {
    budgeted_queue(NO_LIMIT, budget)
}

#[test]
fn queues_share_a_budget_and_give_it_back() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let on_room = Box::new(move || _ = counter.fetch_add(1, Ordering::SeqCst));
    let budget = Arc::new(Budget::new(1000, on_room));
    let ((mut a, mut from_a), (mut b, from_b)) = (pair(&budget), pair(&budget));
    assert_eq!(fill(&mut a, 98), 10);
    assert_eq!(fill(&mut b, 98), 1, "the other queue has used it up, but for one");
    assert_eq!(budget.used(), 1100);
    assert!(!b.want_room());
    from_a.pop(|_| ()).unwrap();
    assert_eq!((calls.load(Ordering::SeqCst), budget.used()), (0, 1000));
    from_a.pop(|_| ()).unwrap();
    assert_eq!((calls.load(Ordering::SeqCst), budget.used()), (1, 900), "told once");
    from_a.pop(|_| ()).unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(fill(&mut b, 98), 2);
    drop((b, from_b));
    assert_eq!(budget.used(), 700, "what nobody reads any more is given back");
    drop((from_a, a));
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_raised_budget_wakes_who_waits() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let budget = Arc::new(Budget::new(10, Box::new(move || _ = counter.fetch_add(1, Ordering::SeqCst))));
    let (mut tx, _rx) = pair(&budget);
    put(&mut tx, 50);
    assert!(!tx.want_room());
    budget.set_max(40);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    budget.set_max(0);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(tx.has_room() && tx.want_room());
}

/// Two producers, a queue each, one small budget: everything arrives, and in the end nothing is held.
#[test]
fn threads_share_a_budget() {
    const EACH: u64 = 20_000;
    let budget = Arc::new(Budget::new(4096, Box::new(|| ())));
    std::thread::scope(|threads| {
        for _ in 0..2 {
            let (mut tx, mut rx) = pair(&budget);
            threads.spawn(move || {
                for number in 0..EACH {
                    while !tx.has_room() {
                        std::thread::yield_now();
                    }
                    tx.push(0, &number.to_ne_bytes()).unwrap();
                    tx.commit();
                }
            });
            threads.spawn(move || {
                for number in 0..EACH {
                    while !rx.has_frame() {
                        std::thread::yield_now();
                    }
                    rx.pop(|frame| assert_eq!(frame.data(), number.to_ne_bytes())).unwrap();
                }
            });
        }
    });
    assert_eq!(budget.used(), 0);
}
