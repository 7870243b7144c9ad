//! Generated operations on a queue, frame by frame, compared with a VecDeque.

use std::collections::VecDeque;

use crate::common::{Counted, frame_size, pattern, wire_len};
use pinnace_ring::{COMMAND, Consumer, Limits, MORE, Producer, queue};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    /// A frame; `last` ends the message.
    Push {
        len: usize,
        by_reference: bool,
        last: Option<Commit>,
    },
    Rollback,
    Pop(usize),
    Peek,
    Park,
    HasRoom,
    WantRoom,
    Limit(u64),
    Shrink,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Commit {
    Telling,
    Quiet,
    /// A command. It is a message of its own if no frames of a message precede it.
    Command,
}

fn op() -> impl Strategy<Value = Op> {
    let last = prop_oneof![
        1 => Just(None),
        2 => Just(Some(Commit::Telling)),
        1 => Just(Some(Commit::Quiet)),
        1 => Just(Some(Commit::Command)),
    ];
    prop_oneof![
        10 => (frame_size(), any::<bool>(), last)
            .prop_map(|(len, by_reference, last)| Op::Push { len, by_reference, last }),
        1 => Just(Op::Rollback),
        4 => (1usize..6).prop_map(Op::Pop),
        1 => Just(Op::Peek),
        2 => Just(Op::Park),
        2 => Just(Op::HasRoom),
        2 => Just(Op::WantRoom),
        1 => (0u64..6).prop_map(Op::Limit),
        1 => Just(Op::Shrink),
    ]
}

/// The queue under test, and its expected content.
struct Pair {
    tx: Producer,
    rx: Consumer,
    counted: Counted,
    limits: Limits,
    /// Frames that can be read.
    visible: VecDeque<(u8, Vec<u8>)>,
    /// Frames of the uncommitted message.
    open: Vec<(u8, Vec<u8>)>,
    in_flight: u64,
    wire: u64,
    /// Bytes popped, and the part of them that belongs to whole messages.
    popped: u64,
    released: u64,
    /// The consumer has parked and was not woken since, even if it has seen a message by itself.
    parked: bool,
    /// The producer waits for room, and was not notified yet.
    waiting: bool,
    serial: u64,
}

impl Pair {
    fn new(limits: Limits) -> Pair {
        let (tx, rx) = queue(limits);
        Pair {
            tx,
            rx,
            counted: Counted::default(),
            limits,
            visible: VecDeque::new(),
            open: Vec::new(),
            in_flight: 0,
            wire: 0,
            popped: 0,
            released: 0,
            parked: false,
            waiting: false,
            serial: 0,
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Push { len, by_reference, last } => self.push(len, by_reference, last),
            Op::Rollback => {
                self.tx.rollback();
                self.wire -= self.open.drain(..).map(|(_, data)| wire_len(data.len()) as u64).sum::<u64>();
            }
            Op::Pop(frames) => (0..frames).for_each(|_| self.pop()),
            Op::Peek => assert_eq!(self.rx.peek(), self.visible.front().map(|frame| frame.0)),
            Op::Park => {
                assert_eq!(self.rx.park(), self.visible.is_empty());
                self.parked |= self.visible.is_empty();
            }
            Op::HasRoom => assert_eq!(self.tx.has_room(), self.has_room()),
            Op::WantRoom => {
                assert_eq!(self.tx.want_room(), self.has_room());
                self.waiting = !self.has_room();
            }
            Op::Limit(messages) => {
                self.limits.messages = messages;
                self.tx.set_limits(self.limits);
                self.rx.set_mark(messages);
                self.look_for_wish();
            }
            Op::Shrink => {
                assert!(!self.tx.shrink(&mut self.rx) || self.visible.is_empty() && self.open.is_empty())
            }
        }
        assert_eq!(self.rx.has_frame(), !self.visible.is_empty());
        assert_eq!(self.tx.is_inside_message(), !self.open.is_empty());
        assert_eq!((self.tx.backlog(), self.tx.wire()), (self.in_flight, self.wire));
    }

    fn push(&mut self, len: usize, by_reference: bool, last: Option<Commit>) {
        self.serial += 1;
        let data = pattern(len, self.serial);
        let flags = match last {
            None => MORE,
            Some(Commit::Command) if self.open.is_empty() => COMMAND,
            Some(_) => 0,
        };
        if by_reference {
            self.tx.push_body(flags, self.counted.body_of(data.clone())).unwrap();
        } else {
            self.tx.push(flags, &data).unwrap();
        }
        self.wire += wire_len(len) as u64;
        self.open.push((flags, data));
        let Some(commit) = last else { return };
        if commit == Commit::Quiet {
            self.tx.commit_quietly();
        } else {
            assert_eq!(self.tx.commit(), std::mem::take(&mut self.parked));
        }
        self.visible.extend(self.open.drain(..));
        self.in_flight += 1;
    }

    fn pop(&mut self) {
        let popped = self.rx.pop(|frame| (frame.flags(), frame.data().to_vec()));
        let expected = self.visible.pop_front();
        assert!(popped == expected, "{:?}", popped.map(|frame| (frame.0, frame.1.len())));
        if let Some((flags, data)) = expected {
            self.popped += wire_len(data.len()) as u64;
            if flags & MORE == 0 {
                self.in_flight -= 1;
                self.released = self.popped;
            }
        }
        self.look_for_wish();
    }

    /// Only a waiting producer is notified, at the latest when everything is consumed.
    fn look_for_wish(&mut self) {
        if self.rx.take_room_wanted() {
            assert!(std::mem::take(&mut self.waiting));
        }
        assert!(!self.waiting || self.in_flight > 0 || !self.has_room());
    }

    /// An unfinished message does not count.
    fn has_room(&self) -> bool {
        let open: u64 = self.open.iter().map(|(_, data)| wire_len(data.len()) as u64).sum();
        self.limits.messages == 0
            || self.in_flight < self.limits.messages
            || self.wire - open - self.released < self.limits.ahead_bytes
    }
}

proptest! {
    #![proptest_config(crate::common::config(256))]

    #[test]
    fn a_queue_does_what_a_deque_does(
        messages in 0u64..6,
        ahead_bytes in prop_oneof![Just(0u64), 0u64..5000],
        ops in prop::collection::vec(op(), 1..120),
        producer_first in any::<bool>(),
    ) {
        let mut pair = Pair::new(Limits { messages, ahead_bytes });
        for op in ops {
            pair.apply(op);
        }
        let Pair { tx, rx, counted, .. } = pair;
        if producer_first {
            drop(tx);
            drop(rx);
        } else {
            drop(rx);
            drop(tx);
        }
        prop_assert_eq!(counted.alive(), 0);
    }

    /// For any size and position of a frame, in any segment.
    #[test]
    fn every_size_at_every_place(before in 0usize..2100, len in frame_size(), by_reference in any::<bool>()) {
        let mut pair = Pair::new(Limits { messages: 0, ahead_bytes: 0 });
        pair.push(before, false, None);
        pair.push(len, by_reference, Some(Commit::Telling));
        pair.push(len, !by_reference, Some(Commit::Telling));
        for _ in 0..3 {
            pair.pop();
        }
        prop_assert_eq!((pair.counted.alive(), pair.rx.has_frame()), (0, false));
    }
}

#[test]
fn the_mark_is_exact() {
    for mark in 1..40 {
        let mut pair = Pair::new(Limits { messages: mark, ahead_bytes: 0 });
        for _ in 0..mark {
            assert!(pair.tx.has_room());
            pair.push(3, false, Some(Commit::Quiet));
        }
        for _ in 0..3 * mark {
            assert!(!pair.tx.want_room());
            pair.waiting = true;
            while pair.waiting {
                pair.pop();
            }
            while pair.tx.has_room() {
                pair.push(3, false, Some(Commit::Quiet));
            }
            assert_eq!(pair.in_flight, mark);
        }
    }
}

#[test]
fn a_rollback_across_segments_frees_all_and_goes_on() {
    for committed in [false, true] {
        let mut pair = Pair::new(Limits { messages: 0, ahead_bytes: 0 });
        if committed {
            pair.push(100, true, Some(Commit::Quiet));
        }
        for round in 0..4 {
            for _ in 0..40 {
                pair.push(300, round % 2 == 0, None);
                pair.push(10, true, None);
            }
            pair.apply(Op::Rollback);
            assert_eq!(pair.counted.alive(), usize::from(committed));
        }
        pair.push(200, true, Some(Commit::Quiet));
        while !pair.visible.is_empty() {
            pair.pop();
        }
        assert_eq!(pair.counted.alive(), 0);
    }
}
