//! A queue fed by an intake and by pushes in turn, with a reader that lags; either end may be dropped at any
//! time.

use crate::common::peer::{Way, expect, on_command, put};
use crate::common::{Counted, encode, frame_size, pattern, write};
use pinnace_ring::{Consumer, Intake, Limits, MORE, Producer, queue};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Turn {
    /// A peer connects and sends these frames (length, MORE). `part` 256ths of them arrive, `piece` bytes at
    /// a time.
    Peer {
        frames: Vec<(usize, bool)>,
        part: usize,
        piece: usize,
        way: Way,
    },
    /// A message of our own.
    Push(Vec<(usize, bool)>),
    /// Frames that are pushed and rolled back.
    TakeBack(Vec<(usize, bool)>),
    Read(usize),
    Shrink,
}

fn frames(most: usize) -> impl Strategy<Value = Vec<(usize, bool)>> {
    prop::collection::vec((frame_size(), prop::bool::weighted(0.3)), 1..most)
}

fn turn() -> impl Strategy<Value = Turn> {
    let way = prop_oneof![Just(Way::Feed), Just(Way::Read), Just(Way::ReadFirst)];
    prop_oneof![
        3 => (frames(20), 0usize..257, 1usize..5000, way)
            .prop_map(|(frames, part, piece, way)| Turn::Peer { frames, part, piece, way }),
        2 => frames(5).prop_map(Turn::Push),
        1 => frames(5).prop_map(Turn::TakeBack),
        3 => (0usize..40).prop_map(Turn::Read),
        1 => Just(Turn::Shrink),
    ]
}

struct Mixed {
    tx: Option<Producer>,
    rx: Consumer,
    counted: Counted,
    /// Frames that can be read; true for counted bodies.
    frames: std::collections::VecDeque<(u8, Vec<u8>, bool)>,
    serial: u64,
}

impl Mixed {
    fn new() -> Mixed {
        let (tx, rx) = queue(Limits { messages: 0, ahead_bytes: 0 });
        Mixed { tx: Some(tx), rx, counted: Counted::default(), frames: Default::default(), serial: 0 }
    }

    fn take(&mut self, turn: &Turn) {
        match turn {
            Turn::Peer { frames, part, piece, way } => self.peer(frames, *part, *piece, *way),
            Turn::Push(frames) => {
                let pushed = self.push(frames);
                self.tx().commit();
                self.frames.extend(pushed);
            }
            Turn::TakeBack(frames) => {
                self.push(frames);
                self.tx().rollback();
            }
            Turn::Read(frames) => (0..*frames).for_each(|_| self.read()),
            Turn::Shrink => {
                let idle = self.tx.as_mut().unwrap().shrink(&mut self.rx);
                assert!(!idle || self.frames.is_empty());
            }
        }
        assert_eq!(self.counted.alive(), self.frames.iter().filter(|frame| frame.2).count());
        assert_eq!(self.rx.has_frame(), !self.frames.is_empty());
        let whole = self.frames.iter().filter(|frame| frame.0 & MORE == 0).count();
        assert_eq!(self.tx().backlog(), whole as u64);
    }

    fn tx(&mut self) -> &mut Producer {
        self.tx.as_mut().unwrap()
    }

    fn data(&mut self, len: usize) -> Vec<u8> {
        self.serial += 1;
        pattern(len, self.serial)
    }

    fn peer(&mut self, frames: &[(usize, bool)], part: usize, piece: usize, way: Way) {
        let mut stream = Vec::new();
        for (len, more) in frames {
            let data = self.data(*len);
            encode(if *more { MORE } else { 0 }, &data, &mut stream);
        }
        stream.truncate(stream.len() * part / 256);
        let mut intake = Intake::new(self.tx.take().unwrap(), u64::MAX);
        let mut at = 0;
        while at < stream.len() {
            at += put(&mut intake, &stream[at..stream.len().min(at + piece)], way);
            let _ = intake.parse(on_command).unwrap();
        }
        self.tx = Some(intake.into_queue());
        let expected = expect(&stream, u64::MAX).frames;
        self.frames.extend(expected.into_iter().map(|(_, flags, data)| (flags, data, false)));
    }

    /// Pushes the frames as one message, uncommitted.
    fn push(&mut self, frames: &[(usize, bool)]) -> Vec<(u8, Vec<u8>, bool)> {
        let mut pushed = Vec::new();
        for (part, (len, by_reference)) in frames.iter().enumerate() {
            let flags = if part + 1 < frames.len() { MORE } else { 0 };
            let data = self.data(*len);
            if *by_reference {
                let body = self.counted.body_of(data.clone());
                self.tx().push_body(flags, body).unwrap();
            } else {
                self.tx().push(flags, &data).unwrap();
            }
            pushed.push((flags, data, *by_reference));
        }
        pushed
    }

    fn read(&mut self) {
        let frame = self.rx.pop(|frame| (frame.flags(), frame.data().to_vec()));
        let expected = self.frames.pop_front().map(|(flags, data, _)| (flags, data));
        assert!(frame == expected, "{:?}", expected.map(|frame| (frame.0, frame.1.len())));
    }
}

proptest! {
    #![proptest_config(crate::common::config(256))]

    #[test]
    fn peers_come_and_go(turns in prop::collection::vec(turn(), 1..25)) {
        let mut mixed = Mixed::new();
        for turn in &turns {
            mixed.take(turn);
        }
        while !mixed.frames.is_empty() {
            mixed.read();
        }
        prop_assert_eq!(mixed.counted.alive(), 0);
    }

    /// Either end is dropped first, the reader while the producer still pushes, whatever the queue holds.
    #[test]
    fn either_end_goes_first(
        turns in prop::collection::vec(turn(), 1..15),
        more in prop::collection::vec(frames(5), 0..5),
        producer_first in any::<bool>(),
        taken in 0usize..3000,
        open in frames(5),
    ) {
        let mut mixed = Mixed::new();
        for turn in &turns {
            mixed.take(turn);
        }
        // Like a link that wrote part of the queue; the reader stops anywhere in a record.
        write(&mut mixed.rx, taken);
        if producer_first {
            mixed.push(&open);
            mixed.tx = None;
            let Mixed { rx, counted, .. } = mixed;
            drop(rx);
            prop_assert_eq!(counted.alive(), 0);
        } else {
            let (_, other) = queue(Limits { messages: 0, ahead_bytes: 0 });
            drop(std::mem::replace(&mut mixed.rx, other));
            for frames in &more {
                mixed.push(frames);
                mixed.tx().commit();
            }
            mixed.push(&open);
            mixed.tx = None;
            prop_assert_eq!(mixed.counted.alive(), 0);
        }
    }
}
