//! Two real threads on one queue, for part of a second: nothing is lost, all is in order, no thread stays
//! asleep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::peer::on_command;
use crate::common::{Counted, encode};
use pinnace_ring::{Body, Consumer, EventCount, Intake, Limits, MORE, Producer, Unnotified, queue};

const RUN: Duration = Duration::from_millis(if cfg!(miri) { 1 } else { 300 });
/// A sleep of this length means that a wake-up was lost.
const LOST: Duration = Duration::from_secs(20);

/// The event counts on which the two ends sleep.
#[derive(Default)]
struct Events {
    message: EventCount,
    room: EventCount,
    ended: AtomicBool,
}

fn sleep_on(event: &EventCount, ready: impl FnOnce() -> bool) {
    let ticket = event.listen();
    if ready() {
        event.cancel(ticket);
        return;
    }
    let outcome = event.wait(ticket, Some(Instant::now() + LOST));
    assert_ne!(outcome, Err(Unnotified::TimedOut), "a wake-up was lost");
}

impl Events {
    fn wait_for_room(&self, tx: &mut Producer) {
        while !tx.has_room() {
            sleep_on(&self.room, || tx.want_room());
        }
    }

    /// Wakes the consumer after a commit, if it is parked.
    fn tell(&self, told: bool) {
        if told {
            self.message.notify();
        }
    }

    /// Returns false at the end: there are no more messages, and none will come.
    fn wait_for_message(&self, rx: &mut Consumer) -> bool {
        while !rx.has_frame() {
            if self.ended.load(Ordering::Acquire) {
                return rx.has_frame();
            }
            sleep_on(&self.message, || !rx.park() || self.ended.load(Ordering::SeqCst));
        }
        true
    }

    fn look_for_wish(&self, rx: &mut Consumer) {
        if rx.take_room_wanted() {
            self.room.notify();
        }
    }

    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.message.notify();
    }
}

/// A generator of small numbers, the same on both sides.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Runs both ends; the producer's returns how many messages it sent, the consumer's how many it received.
fn run(
    limits: Limits,
    produce: impl FnOnce(Producer, &Events) -> u64 + Send,
    consume: impl FnOnce(Consumer, &Events) -> u64,
) {
    let (tx, rx) = queue(limits);
    let events = Events::default();
    thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let sent = produce(tx, &events);
            events.end();
            sent
        });
        let got = consume(rx, &events);
        let sent = producer.join().unwrap();
        assert_eq!(sent, got);
    });
}

fn until_end(mut each: impl FnMut(u64)) -> u64 {
    let (start, mut number) = (Instant::now(), 0);
    while number % 64 != 0 || start.elapsed() < RUN {
        each(number);
        number += 1;
    }
    number
}

#[test]
fn numbers_come_in_order_and_the_mark_is_kept() {
    for mark in [1, 2, 3, 10, 1000] {
        run(
            Limits { messages: mark, ahead_bytes: 0 },
            |mut tx, events| {
                until_end(|number| {
                    events.wait_for_room(&mut tx);
                    tx.push(0, &number.to_le_bytes()).unwrap();
                    events.tell(tx.commit());
                    assert!(tx.backlog() <= mark);
                })
            },
            |mut rx, events| {
                let mut expected = 0u64;
                while events.wait_for_message(&mut rx) {
                    rx.pop(|frame| assert_eq!(frame.data(), expected.to_le_bytes()));
                    expected += 1;
                    events.look_for_wish(&mut rx);
                }
                expected
            },
        );
    }
}

/// The frames of message `number`: length, and whether it is by reference.
fn shape(number: u64) -> impl Iterator<Item = (usize, bool)> {
    let mut numbers = Numbers(number);
    (0..1 + numbers.next(3)).map(move |_| {
        let len = if numbers.next(8) == 0 { numbers.next(6000) } else { numbers.next(40) };
        (len as usize, numbers.next(10) == 0)
    })
}

/// Receives until the end and checks that every message is as `shape` says; returns their number.
fn expect_shapes(mut rx: Consumer, events: &Events) -> u64 {
    let mut number = 0;
    while events.wait_for_message(&mut rx) {
        for (len, _) in shape(number) {
            let right = |data: &[u8]| data.len() == len && data.iter().all(|b| *b == number as u8);
            assert_eq!(rx.pop(|frame| right(frame.data())), Some(true));
        }
        number += 1;
        events.look_for_wish(&mut rx);
    }
    number
}

/// Pushes message `number`. If that is a multiple of 7, it is first pushed and rolled back once, which must
/// have no effect.
fn push_shape(tx: &mut Producer, number: u64, counted: &Counted) {
    for attempt in 0..2 {
        let parts = shape(number).count();
        for (part, (len, by_reference)) in shape(number).enumerate() {
            let flags = if part + 1 < parts { MORE } else { 0 };
            let data = vec![number as u8; len];
            if by_reference {
                tx.push_body(flags, counted.body_of(data)).unwrap();
            } else {
                tx.push(flags, &data).unwrap();
            }
        }
        if attempt == 1 || !number.is_multiple_of(7) {
            break;
        }
        tx.rollback();
    }
}

#[test]
fn messages_of_all_shapes_come_whole() {
    let counted = Counted::default();
    run(
        Limits { messages: 50, ahead_bytes: 0 },
        |mut tx, events| {
            until_end(|number| {
                events.wait_for_room(&mut tx);
                push_shape(&mut tx, number, &counted);
                events.tell(tx.commit());
            })
        },
        expect_shapes,
    );
    assert_eq!(counted.alive(), 0);
}

#[test]
fn a_link_writes_all_and_releases_all() {
    let counted = Counted::default();
    run(
        Limits { messages: 20, ahead_bytes: 3000 },
        |mut tx, events| {
            let sent = until_end(|number| {
                events.wait_for_room(&mut tx);
                push_shape(&mut tx, number, &counted);
                events.tell(tx.commit());
                assert!(tx.backlog_wire() <= tx.wire());
            });
            while tx.backlog() > 0 || tx.backlog_wire() > 0 {
                thread::yield_now();
            }
            sent
        },
        |mut rx, events| {
            let mut done: Vec<Body> = Vec::new();
            let (mut expected, mut number, mut numbers) = (Vec::new(), 0u64, Numbers(1));
            while events.wait_for_message(&mut rx) {
                let most = numbers.next(9000) as usize;
                rx.write_with(&mut done, |slices, bytes| {
                    while expected.len() < bytes {
                        append(number, &mut expected);
                        number += 1;
                    }
                    let mut at = 0;
                    for slice in slices {
                        assert!(expected[at..].starts_with(slice));
                        at += slice.len();
                    }
                    let taken = most.min(bytes);
                    expected.drain(..taken);
                    (taken, ())
                });
                done.clear();
                events.look_for_wish(&mut rx);
            }
            assert!(expected.is_empty());
            number
        },
    );
    assert_eq!(counted.alive(), 0);
}

fn append(number: u64, wire: &mut Vec<u8>) {
    let parts = shape(number).count();
    for (part, (len, _)) in shape(number).enumerate() {
        encode(if part + 1 < parts { MORE } else { 0 }, &vec![number as u8; len], wire);
    }
}

#[test]
fn what_an_intake_reads_comes_whole() {
    run(
        Limits { messages: 100, ahead_bytes: 0 },
        |tx, events| {
            let mut intake = Intake::new(tx, 10_000);
            let (mut wire, mut numbers) = (Vec::new(), Numbers(2));
            let sent = until_end(|number| {
                append(number, &mut wire);
                wire.extend_from_slice(b"\x04\x05Dropx");
                if wire.len() < 3000 {
                    return;
                }
                let piece = numbers.next(wire.len() as u64) as usize;
                events.wait_for_room(intake.queue());
                intake.feed(&wire[..piece]).unwrap();
                wire.drain(..piece);
                events.tell(intake.parse(on_command).unwrap());
            });
            intake.feed(&wire).unwrap();
            events.tell(intake.parse(on_command).unwrap());
            sent
        },
        expect_shapes,
    );
}

#[test]
fn either_end_may_go_at_any_time() {
    let counted = Counted::default();
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < RUN {
        let (mut tx, mut rx) = queue(Limits { messages: 0, ahead_bytes: 0 });
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..rounds % 90 {
                    push_shape(&mut tx, number, &counted);
                    tx.commit();
                }
                push_shape(&mut tx, 3, &counted);
                drop(tx);
            });
            for _ in 0..rounds % 70 {
                let _ = rx.pop(|frame| frame.data().len());
            }
            drop(rx);
        });
        assert_eq!(counted.alive(), 0);
        rounds += 1;
    }
}

#[test]
fn all_who_sleep_are_woken() {
    let (event, turn) = (EventCount::default(), std::sync::atomic::AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut seen = 0;
                while !stop.load(Ordering::SeqCst) {
                    let is_new = || turn.load(Ordering::SeqCst) != seen || stop.load(Ordering::SeqCst);
                    sleep_on(&event, is_new);
                    seen = turn.load(Ordering::SeqCst);
                }
            });
        }
        until_end(|_| {
            turn.fetch_add(1, Ordering::SeqCst);
            event.notify();
        });
        stop.store(true, Ordering::SeqCst);
        event.notify();
    });
}
