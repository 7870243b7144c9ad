//! The queue and the event count under every interleaving that loom explores: `RUSTFLAGS="--cfg loom"`,
//! `cargo test --release -p pinnace-ring --lib loom`. The tests are named after the pairs in `queue`.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::{Body, Consumer, EventCount, Limits, MORE, Producer, queue};

/// The most preemptions in an interleaving that is explored.
const SWITCHES: usize = 4;

pub(crate) fn model(test: impl Fn() + Sync + Send + 'static) {
    model_of(SWITCHES, test);
}

pub(crate) fn model_of(switches: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // LOOM_MAX_PREEMPTIONS may ask for fewer, to save time.
    builder.preemption_bound = Some(builder.preemption_bound.map_or(switches, |most| most.min(switches)));
    builder.check(test);
}

fn limits(messages: u64) -> Limits {
    Limits { messages, ahead_bytes: 0 }
}

fn send(tx: &mut Producer, number: u8) -> bool {
    tx.push(0, &[number]).unwrap();
    tx.commit()
}

fn receive(rx: &mut Consumer) -> Option<u8> {
    rx.pop(|frame| frame.data()[0])
}

/// Writes all that one call offers; returns the number of frames, which are of three bytes each.
fn write_all(rx: &mut Consumer) -> usize {
    rx.write_with(&mut Vec::new(), |_, bytes| (bytes, bytes / 3)).unwrap_or(0)
}

/// What PUBLISH guarantees: a consumer that sees a message sees what was written before its commit.
#[test]
fn publish_shows_what_was_written_before() {
    model(|| {
        let (mut tx, mut rx) = queue(limits(0));
        let cells = Arc::new([UnsafeCell::new(0), UnsafeCell::new(0)]); // Stand for the records.
        let producer = {
            let cells = cells.clone();
            thread::spawn(move || {
                cells[0].with_mut(|_| ());
                send(&mut tx, 1);
                cells[1].with_mut(|_| ());
                tx.push(0, &[2]).unwrap();
                tx.commit_quietly();
            })
        };
        for _ in 0..2 {
            if let Some(number) = receive(&mut rx) {
                cells[number as usize - 1].with(|_| ());
            }
        }
        producer.join().unwrap();
    });
}

/// What PARK guarantees: a consumer that saw nothing and parked is woken (here: counted).
#[test]
fn park_loses_no_message() {
    model(|| {
        let (mut tx, mut rx) = queue(limits(0));
        let told = Arc::new(AtomicUsize::new(0));
        let producer = {
            let told = told.clone();
            thread::spawn(move || {
                for number in 1..=2 {
                    if send(&mut tx, number) {
                        told.fetch_add(1, Ordering::Release);
                    }
                }
                tx
            })
        };
        let mut got = 0;
        while let Some(number) = receive(&mut rx) {
            got += 1;
            assert_eq!(number, got);
        }
        let parked = rx.park();
        let _tx = producer.join().unwrap();
        if parked {
            // Messages since then have reported the parked consumer.
            assert!(!rx.has_frame() || told.load(Ordering::Acquire) > 0);
        } else {
            assert!(rx.has_frame());
        }
    });
}

/// What ROOM guarantees: a producer that found no room is notified when the consumer has made some.
#[test]
fn room_wakes_the_producer() {
    model(|| {
        let (mut tx, mut rx) = queue(limits(2));
        send(&mut tx, 1);
        send(&mut tx, 2);
        assert!(!tx.has_room());
        let producer = thread::spawn(move || {
            let room = tx.want_room();
            (tx, room)
        });
        assert_eq!((receive(&mut rx), receive(&mut rx)), (Some(1), Some(2)));
        let told = rx.take_room_wanted();
        let (mut tx, room) = producer.join().unwrap();
        assert!(room || told);
        assert!(tx.has_room());
    });
}

/// As above, for a link that writes everything at once.
#[test]
fn room_wakes_the_producer_of_a_link() {
    model(|| {
        let (mut tx, mut rx) = queue(limits(1));
        send(&mut tx, 1);
        let producer = thread::spawn(move || {
            let room = tx.want_room();
            (tx, room)
        });
        assert_eq!(write_all(&mut rx), 1);
        let told = rx.take_room_wanted();
        let (tx, room) = producer.join().unwrap();
        assert!(room || told);
        assert_eq!((tx.backlog(), tx.backlog_wire()), (0, 0));
    });
}

/// What COUNT guarantees: a message is released only after it was written.
#[test]
fn count_releases_no_message_that_was_not_written() {
    model(|| {
        let (mut tx, mut rx) = queue(limits(0));
        send(&mut tx, 1);
        let producer = thread::spawn(move || {
            send(&mut tx, 2);
            tx.push(0, &[3]).unwrap();
            tx.commit_quietly();
            tx
        });
        let written = write_all(&mut rx);
        let tx = producer.join().unwrap();
        assert!(tx.backlog() >= 3 - written as u64);
        while write_all(&mut rx) != 0 {}
        assert_eq!(tx.backlog(), 0);
    });
}

/// Commits one message, after which the first segment has room for one more of one byte. Returns its bytes.
fn fill_segment(tx: &mut Producer) -> usize {
    tx.push(MORE, &[]).unwrap();
    let bytes = tx.room - tx.at - 10;
    tx.push(0, &vec![0; bytes - 9]).unwrap();
    tx.commit();
    2 + bytes
}

/// What CLOSE guarantees, where a rollback reopens the segment and the producer continues in it.
#[test]
fn close_and_rollback_release_no_message_that_was_not_written() {
    model(|| {
        let (mut tx, mut rx) = queue(limits(0));
        let first = fill_segment(&mut tx);
        let producer = thread::spawn(move || {
            tx.push(MORE, &[0; 40]).unwrap(); // Advances to the next segment.
            tx.rollback(); // Returns to the first.
            send(&mut tx, 1);
            tx.push(0, &[0; 40]).unwrap();
            tx.commit();
            tx
        });
        let written = rx.write_with(&mut Vec::new(), |_, bytes| (bytes, bytes)).unwrap();
        // One message, two, or all three if the next segment is included.
        let messages = [first, first + 3, first + 3 + 42].iter().position(|&bytes| bytes == written).unwrap();
        let messages = messages as u64 + 1;
        let tx = producer.join().unwrap();
        assert!(tx.backlog() >= 3 - messages);
        while write_all(&mut rx) != 0 {}
        assert_eq!(tx.backlog(), 0);
    });
}

/// What SPARE guarantees: a recycled segment belongs to one side at a time.
#[test]
fn spare_segments_are_had_by_one_side_at_a_time() {
    model(|| {
        let (mut tx, mut rx) = queue(limits(0));
        fill_segment(&mut tx);
        let first = tx.segment as usize;
        let access = Arc::new(UnsafeCell::new(())); // Stands for the bytes of the first segment.
        tx.push(0, &[7; 40]).unwrap(); // A second segment.
        tx.commit();
        fill_segment(&mut tx);
        let producer = {
            let access = access.clone();
            thread::spawn(move || {
                tx.push(0, &[8; 40]).unwrap(); // A third: the spare one, if available.
                let again = tx.segment as usize == first;
                if again {
                    access.with_mut(|_| ());
                }
                tx.commit();
                tx.shared.free_spares();
                (tx, again)
            })
        };
        for _ in 0..2 {
            rx.pop(|_| access.with(|_| ())).unwrap();
        }
        assert_eq!(receive(&mut rx), Some(7));
        let (_tx, again) = producer.join().unwrap();
        AGAIN.fetch_or(again, std::sync::atomic::Ordering::Relaxed);
        let rest: Vec<u8> =
            std::iter::from_fn(|| rx.pop(|frame| frame.data().first().copied())).flatten().collect();
        assert_eq!(rest, [0, 8]);
    });
    assert!(AGAIN.load(std::sync::atomic::Ordering::Relaxed), "it never went round");
}

static AGAIN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Either end may be dropped last: bodies are freed once, by either end.
#[test]
fn both_ends_dropped_at_once_free_the_bodies_once() {
    struct Owner(std::sync::Arc<std::sync::atomic::AtomicUsize>);
    impl Drop for Owner {
        fn drop(&mut self) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }
    model(|| {
        let freed = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let body = || {
            static mut BYTE: u8 = 0;
            // SAFETY: a static of one byte, which is never written.
            unsafe { Body::foreign(&raw mut BYTE, 1, Box::new(Owner(freed.clone()))) }
        };
        let (mut tx, mut rx) = queue(limits(0));
        tx.push_body(0, body()).unwrap();
        tx.commit();
        let (second, third) = (body(), body());
        let producer = thread::spawn(move || {
            tx.push_body(0, second).unwrap();
            tx.commit();
            tx.push_body(MORE, third).unwrap();
        });
        assert!(rx.pop(|_| ()).is_some());
        let _ = rx.has_frame();
        drop(rx);
        producer.join().unwrap();
        assert_eq!(freed.load(std::sync::atomic::Ordering::SeqCst), 3);
    });
}

/// The event count alone: a thread that checks after `listen` sees the change, or is woken.
#[test]
fn event_count_wakes_the_sleeper() {
    model(|| {
        let event = Arc::new(EventCount::default());
        let thing = Arc::new(AtomicUsize::new(0));
        let waker = {
            let (event, thing) = (event.clone(), thing.clone());
            thread::spawn(move || {
                thing.store(1, Ordering::Relaxed);
                event.notify()
            })
        };
        while thing.load(Ordering::Relaxed) == 0 {
            let ticket = event.listen();
            if thing.load(Ordering::Relaxed) != 0 {
                event.cancel(ticket);
                break;
            }
            assert!(event.wait(ticket, None).is_ok());
        }
        waker.join().unwrap();
        assert!(!event.notify(), "nobody is left asleep");
    });
}

/// Two sleepers, one waker: both are woken.
#[test]
fn event_count_wakes_all() {
    model(|| {
        let event = Arc::new(EventCount::default());
        let thing = Arc::new(AtomicUsize::new(0));
        let wait = {
            let (event, thing) = (event.clone(), thing.clone());
            move || {
                let ticket = event.listen();
                if thing.load(Ordering::Relaxed) == 0 {
                    assert!(event.wait(ticket, None).is_ok());
                    assert_eq!(thing.load(Ordering::Relaxed), 1);
                } else {
                    event.cancel(ticket);
                }
            }
        };
        let sleeper = thread::spawn(wait.clone());
        let waker = thread::spawn(move || {
            thing.store(1, Ordering::Relaxed);
            event.notify();
        });
        wait();
        sleeper.join().unwrap();
        waker.join().unwrap();
    });
}

/// Together: a consumer that parks and sleeps, a producer that wakes it.
#[test]
fn park_and_event_count_deliver_all() {
    model(|| {
        let (mut tx, mut rx) = queue(limits(0));
        let event = Arc::new(EventCount::default());
        let producer = {
            let event = event.clone();
            thread::spawn(move || {
                for number in 1..=2 {
                    if send(&mut tx, number) {
                        event.notify();
                    }
                }
            })
        };
        for number in 1..=2 {
            while !rx.has_frame() {
                let ticket = event.listen();
                if rx.park() {
                    assert!(event.wait(ticket, None).is_ok());
                } else {
                    event.cancel(ticket);
                }
            }
            assert_eq!(receive(&mut rx), Some(number));
        }
        producer.join().unwrap();
    });
}
