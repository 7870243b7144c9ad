//! What is written is read again, and no bytes do harm.

use proptest::prelude::*;

use super::*;
use crate::wire::{BEGINS, DEAD, ENDS, VERSION};

#[test]
fn what_a_sender_says_comes_back() {
    let opening = Opening { epoch: 300, mark: u64::MAX };
    let version = VERSION | 1 << 63;
    let hello = FromSender::Hello { version, name: "a", id: [7; 16], opening, receiver: "ü" };
    let open = FromSender::Open { stream: 9, topic: "", gone: RangeSet::new(1 << 50, Vec::new()).unwrap() };
    let gone = FromSender::Gone { stream: 9, gone: RangeSet::new(3, vec![(5, 9)]).unwrap() };
    let share = FromSender::Share { stream: 9, topic: "a", gone: RangeSet::default() };
    let taken = FromSender::Taken { stream: 9, taken: RangeSet::new(0, vec![(5, 9)]).unwrap() };
    let next = FromSender::Next { stream: 9, generation: 300, index: 0 };
    for said in [hello, open, gone, share, taken, next] {
        let frame = said.write();
        assert_eq!(FromSender::read(&frame).as_ref(), Some(&said));
        for len in 0..frame.len() {
            assert_eq!(FromSender::read(&frame[..len]), None);
        }
        assert_eq!(FromSender::read(&[&frame[..], &[0]].concat()), None);
    }
}

#[test]
fn of_a_later_version_the_beginning_is_read() {
    let opening = Opening { epoch: 1, mark: 1 };
    let later = FromSender::Hello { version: 3, name: "a", id: [7; 16], opening, receiver: "b" };
    assert_eq!(FromSender::read(&[&later.write()[..], b"more"].concat()), Some(later));
}

#[test]
fn what_a_receiver_says_comes_back() {
    let done = RangeSet::new(4, vec![(6, 6), (9, 1 << 41)]).unwrap();
    let said = [
        FromReceiver::Welcome {
            version: 1,
            name: "b",
            id: [1; 16],
            known: Opening { epoch: 1, mark: 1 << 41 },
        },
        FromReceiver::Cursor { stream: 3, received: 1 << 41, done: done.clone() },
        FromReceiver::Ack { stream: 3, done },
        FromReceiver::Credit { bytes: 8 << 20 },
        FromReceiver::Again { stream: 1, received: 0 },
        FromReceiver::Final { stream: 1, first: 5, last: 7, verdict: Verdict::Deliveries, deliveries: 2 },
        FromReceiver::Refused { refusal: Refusal::Protocol, text: "no" },
        FromReceiver::Held {
            stream: 3,
            generation: 2,
            wanted: 1,
            held: RangeSet::new(0, vec![(5, 9)]).unwrap(),
            done: RangeSet::default(),
        },
        FromReceiver::Want { stream: 3, generation: 2, wanted: 300 },
    ];
    for said in said {
        let frame = said.write();
        assert_eq!(FromReceiver::read(&frame).as_ref(), Some(&said));
        for len in 0..frame.len() {
            assert_eq!(FromReceiver::read(&frame[..len]), None);
        }
        assert_eq!(FromReceiver::read(&[&frame[..], &[0]].concat()), None);
    }
}

#[test]
fn entries_come_back() {
    let entry = FrameEntry { seq: 11, accepted_ms: 1003, ttl_ms: None, flags: BEGINS | ENDS, body: b"one" };
    let other = FrameEntry { seq: 1 << 41, ttl_ms: Some(5), flags: BEGINS | DEAD, body: b"", ..entry };
    let mut frame = Vec::new();
    Data::begin(&mut frame, 2, 10, 1000);
    entry.put(&mut frame, 10, 1000);
    other.put(&mut frame, 11, 1000);
    let Some(FromSender::Data(data)) = FromSender::read(&frame) else { panic!() };
    assert_eq!((data.stream, data.prev), (2, 10));
    assert_eq!(data.entries().collect::<Vec<_>>(), [Some(entry), Some(other)]);
    frame.pop();
    let Some(FromSender::Data(data)) = FromSender::read(&frame) else { panic!() };
    assert_eq!(data.entries().collect::<Vec<_>>(), [Some(entry), None]);
}

proptest! {
    #[test]
    fn no_bytes_are_too_much(frame in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Some(said) = FromReceiver::read(&frame) {
            prop_assert_eq!(&said.write(), &frame);
        }
        match FromSender::read(&frame) {
            Some(FromSender::Data(data) | FromSender::Work { data, .. }) => {
                let numbers: Vec<u64> = data.entries().flatten().map(|entry| entry.seq).collect();
                prop_assert!(numbers.is_sorted_by(|a, b| a < b));
                prop_assert!(numbers.iter().all(|number| data.prev < *number));
            }
            Some(FromSender::Hello { version, .. }) if is_later(version) => {}
            Some(said) => prop_assert_eq!(&said.write(), &frame),
            None => {}
        }
    }
}
