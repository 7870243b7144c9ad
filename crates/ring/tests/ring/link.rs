//! Generated operations on a queue that a link reads, with partial writes by the kernel and lost
//! connections.

use crate::common::{Counted, encode, frame_size, pattern, wire_len, write};
use pinnace_ring::{Body, Consumer, INLINE_MAX, Limits, MORE, Producer, queue};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Push { len: usize, by_reference: bool, last: bool },
    Rollback,
    Write(Kernel),
    Rewind,
    WantRoom,
    Park,
}

/// How much the kernel takes of the bytes that it is offered.
#[derive(Debug, Clone, Copy)]
enum Kernel {
    Bytes(usize),
    /// In 256ths.
    Part(usize),
    AllBut(usize),
}

impl Kernel {
    fn takes(self, of: usize) -> usize {
        match self {
            Kernel::Bytes(bytes) => bytes.min(of),
            Kernel::Part(part) => of * part / 256,
            Kernel::AllBut(bytes) => of.saturating_sub(bytes),
        }
    }
}

fn op(len: impl Strategy<Value = usize> + 'static) -> impl Strategy<Value = Op> {
    let kernel = prop_oneof![
        2 => (0usize..30).prop_map(Kernel::Bytes),
        2 => (0usize..256).prop_map(Kernel::Part),
        1 => (0usize..12).prop_map(Kernel::AllBut),
        2 => Just(Kernel::AllBut(0)),
    ];
    prop_oneof![
        10 => (len, prop::bool::weighted(0.3), any::<bool>())
            .prop_map(|(len, by_reference, last)| Op::Push { len, by_reference, last }),
        1 => Just(Op::Rollback),
        6 => kernel.prop_map(Op::Write),
        2 => Just(Op::Rewind),
        1 => Just(Op::WantRoom),
        1 => Just(Op::Park),
    ]
}

struct Sent {
    wire: Vec<u8>,
    flags: u8,
    by_reference: bool,
    /// Offset of its beginning in the stream.
    from: usize,
}

impl Sent {
    fn end(&self) -> usize {
        self.from + self.wire.len()
    }
}

struct Link {
    tx: Producer,
    rx: Consumer,
    counted: Counted,
    limits: Limits,
    /// All frames that were ever committed, so that offsets in the stream stay valid.
    frames: Vec<Sent>,
    stream: Vec<u8>,
    open: Vec<(u8, Vec<u8>, bool)>,
    /// Offset in the stream up to which it is written.
    at: usize,
    waiting: bool,
    serial: u64,
    given_up: u64,
    given_up_bytes: u64,
}

impl Link {
    fn new(limits: Limits) -> Link {
        let (tx, rx) = queue(limits);
        Link {
            tx,
            rx,
            counted: Counted::default(),
            limits,
            frames: Vec::new(),
            stream: Vec::new(),
            open: Vec::new(),
            at: 0,
            waiting: false,
            serial: 0,
            given_up: 0,
            given_up_bytes: 0,
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Push { len, by_reference, last } => self.push(len, by_reference, last),
            Op::Rollback => {
                self.tx.rollback();
                self.open.clear();
            }
            Op::Write(kernel) => {
                self.write(kernel);
            }
            Op::Rewind => self.rewind(),
            Op::WantRoom => self.waiting = !self.tx.want_room(),
            Op::Park => assert_eq!(self.rx.park(), self.at == self.stream.len()),
        }
        self.check();
    }

    fn push(&mut self, len: usize, by_reference: bool, last: bool) {
        self.serial += 1;
        let data = pattern(len, self.serial);
        let flags = if last { 0 } else { MORE };
        if by_reference {
            self.tx.push_body(flags, self.counted.body_of(data.clone())).unwrap();
        } else {
            self.tx.push(flags, &data).unwrap();
        }
        self.open.push((flags, data, by_reference));
        if last {
            let _ = self.tx.commit();
            for (flags, data, by_reference) in self.open.drain(..) {
                let (mut wire, from) = (Vec::new(), self.stream.len());
                encode(flags, &data, &mut wire);
                self.stream.extend_from_slice(&wire);
                self.frames.push(Sent { wire, flags, by_reference, from });
            }
        }
    }

    /// Returns the bytes that were offered.
    fn write(&mut self, kernel: Kernel) -> usize {
        let mut done: Vec<Body> = Vec::new();
        let rest = &self.stream[self.at..];
        let offered = self.rx.write_with(&mut done, |slices, bytes| {
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            assert_eq!(all.len(), bytes);
            assert!(bytes > 0, "nothing to write, and said otherwise");
            assert!(rest.starts_with(&all), "not what was sent");
            let taken = kernel.takes(bytes);
            (taken, (bytes, taken))
        });
        let (offered, taken) = offered.unwrap_or_default();
        assert_eq!(offered == 0, rest.is_empty());
        let passed = self.at..self.at + taken;
        let whole =
            self.frames.iter().filter(|frame| frame.by_reference && passed.contains(&(frame.end() - 1)));
        assert_eq!(done.len(), whole.count(), "bodies written whole are handed out, and no other");
        self.at = passed.end;
        offered
    }

    /// The frames of a partly written message.
    fn cut(&self) -> Option<&[Sent]> {
        let in_it = self.frames.iter().position(|frame| frame.from <= self.at && self.at < frame.end())?;
        let is_last = |frame: &Sent| frame.flags & MORE == 0;
        let first = self.frames[..in_it].iter().rposition(is_last).map_or(0, |before| before + 1);
        let last = in_it + self.frames[in_it..].iter().position(is_last)?;
        (self.frames[first].from < self.at).then(|| &self.frames[first..=last])
    }

    fn rewind(&mut self) {
        let given_up = self.rx.rewind(&mut Vec::new()).messages;
        let Some(cut) = self.cut() else {
            assert_eq!(given_up, 0, "no message was cut");
            return;
        };
        let (from, end) = (cut[0].from, cut[cut.len() - 1].end());
        let body_gone = cut.iter().any(|frame| frame.by_reference && frame.end() <= self.at);
        match given_up {
            0 => {
                assert!(!body_gone);
                self.at = from;
            }
            1 => {
                let one_segment = self.frames.last().is_some_and(|frame| frame.end() < 1900);
                assert!(body_gone || !one_segment, "all of it was still there");
                self.given_up_bytes += (end - self.at) as u64;
                self.at = end;
                self.given_up += 1;
            }
            more => panic!("{more} messages given up"),
        }
    }

    fn check(&mut self) {
        let open: usize = self.open.iter().map(|(_, data, _)| wire_len(data.len())).sum();
        let left = self.stream.len() - self.at;
        assert_eq!(self.tx.backlog_wire(), (left + open) as u64);
        let bodies = self.frames.iter().filter(|frame| frame.by_reference && frame.end() > self.at).count();
        let open_bodies = self.open.iter().filter(|frame| frame.2).count();
        assert_eq!(self.counted.alive(), bodies + open_bodies);
        let not_written =
            self.frames.iter().filter(|frame| frame.flags & MORE == 0 && frame.end() > self.at).count()
                as u64;
        let backlog = self.tx.backlog();
        assert_eq!(backlog, not_written, "a message counts until its last byte is written, and no longer");
        let books = self.tx.books();
        assert_eq!(books.taken.bytes, self.at as u64 - self.given_up_bytes);
        assert_eq!((books.waiting.messages, books.waiting.bytes), (backlog, (left + open) as u64));
        assert_eq!(books.taken.messages + self.given_up + backlog, self.tx.messages());
        // An unfinished message does not count against its own room.
        let wire = left as u64;
        let has_room =
            self.limits.messages == 0 || backlog < self.limits.messages || wire < self.limits.ahead_bytes;
        assert_eq!(self.tx.has_room(), has_room);
        if self.rx.take_room_wanted() {
            self.waiting = false;
        }
        // Room by bytes alone is reported with the next message that is written.
        assert!(!self.waiting || left > 0 || !has_room, "told at the latest when all is written");
    }

    fn finish(&mut self) {
        self.apply(&Op::Rollback);
        while self.write(Kernel::AllBut(0)) > 0 {
            self.check();
        }
        assert_eq!((self.tx.backlog(), self.tx.backlog_wire(), self.counted.alive()), (0, 0, 0));
    }
}

proptest! {
    #![proptest_config(crate::common::config(256))]

    #[test]
    fn what_a_link_writes_is_the_encoding_of_what_was_pushed(
        messages in 0u64..5,
        ahead_bytes in prop_oneof![Just(0u64), 0u64..5000],
        ops in prop::collection::vec(op(frame_size()), 1..100),
    ) {
        let mut link = Link::new(Limits { messages, ahead_bytes });
        for op in ops {
            link.apply(&op);
        }
        link.finish();
    }

    /// All frames lie in one segment: a message is given up only if one of its bodies is gone.
    #[test]
    fn in_one_segment_nothing_is_given_up_without_need(
        ops in prop::collection::vec(op(0usize..40), 1..60),
    ) {
        let mut link = Link::new(Limits { messages: 3, ahead_bytes: 0 });
        for op in ops {
            link.apply(&op);
        }
        link.finish();
    }

    /// One stream, cut off at every position in turn.
    #[test]
    fn every_cut_begins_again_at_a_message(
        frames in prop::collection::vec((0usize..400, prop::bool::weighted(0.3), any::<bool>()), 1..12),
        step in 1usize..40,
    ) {
        let mut cut_at = 0;
        loop {
            let mut link = Link::new(Limits { messages: 0, ahead_bytes: 0 });
            for (len, by_reference, last) in &frames {
                link.push(*len, *by_reference, *last);
            }
            link.push(5, false, true);
            while link.at < cut_at && link.write(Kernel::Bytes(cut_at - link.at)) > 0 {}
            link.apply(&Op::Rewind);
            link.apply(&Op::Rewind); // A second rewind changes nothing.
            link.finish();
            cut_at += step;
            if cut_at > link.stream.len() {
                break;
            }
        }
    }
}

#[test]
fn a_body_behind_what_was_written_in_part_comes_next() {
    let counted = Counted::default();
    for taken in 0..60 {
        let (mut tx, mut rx) = queue(Limits { messages: 0, ahead_bytes: 0 });
        tx.push(0, &[1; 20]).unwrap();
        tx.push(0, &[2; 30]).unwrap();
        tx.commit();
        let mut wire = write(&mut rx, taken);
        tx.push_body(MORE, counted.body_of(vec![3; 300])).unwrap();
        tx.push(0, &[4; 10]).unwrap();
        tx.commit();
        loop {
            let more = write(&mut rx, 7);
            if more.is_empty() {
                break;
            }
            wire.extend(more);
        }
        let mut expected = Vec::new();
        for (flags, data) in [(0, vec![1; 20]), (0, vec![2; 30]), (MORE, vec![3; 300]), (0, vec![4; 10])] {
            encode(flags, &data, &mut expected);
        }
        assert!(wire == expected, "after {taken}");
    }
    assert_eq!(counted.alive(), 0);
}

#[test]
fn many_large_bodies_go_in_few_calls_and_bounded_ones() {
    let mut link = Link::new(Limits { messages: 0, ahead_bytes: 0 });
    for _ in 0..100 {
        link.push(INLINE_MAX + 1, true, true);
    }
    let mut calls = 0;
    loop {
        let offered = link.write(Kernel::AllBut(0));
        assert!(offered <= (1 << 20) + INLINE_MAX + 10);
        if offered == 0 {
            break;
        }
        calls += 1;
    }
    assert!(calls <= 8, "{calls} calls");
    link.finish();
}

#[test]
fn what_has_gathered_in_two_segments_is_one_write() {
    let mut link = Link::new(Limits { messages: 0, ahead_bytes: 0 });
    // The first segment has 2 KiB, the next one 4 KiB.
    for _ in 0..70 {
        link.push(64, false, true);
    }
    assert_eq!(link.write(Kernel::Bytes(2500)), 70 * 66);
    assert_eq!(link.tx.backlog(), 70 - 2500 / 66);
    assert_eq!(link.write(Kernel::AllBut(0)), 70 * 66 - 2500);
    assert_eq!((link.tx.backlog(), link.tx.backlog_wire()), (0, 0));
}
