//! One minimal test for each bug that was found.

use crate::common::{Counted, drain, write};
use pinnace_ring::{Body, Intake, Limits, MORE, Verdict, queue};

const NO_LIMIT: Limits = Limits { messages: 0, ahead_bytes: 0 };

#[test]
fn a_consumer_dropped_inside_a_record_leaves_the_rest_to_be_freed() {
    let counted = Counted::default();
    let (mut tx, mut rx) = queue(NO_LIMIT);
    tx.push(0, &[0x80; 100]).unwrap();
    tx.commit();
    write(&mut rx, 50);
    tx.push_body(0, counted.body(300)).unwrap();
    tx.commit();
    drop(rx);
    drop(tx);
    assert_eq!(counted.alive(), 0);
}

#[test]
fn what_one_peer_left_unfinished_is_not_the_next_peers() {
    let (tx, mut rx) = queue(NO_LIMIT);
    let mut intake = Intake::new(tx, 1000);
    intake.feed(b"\0\x05hel").unwrap();
    assert_eq!(intake.parse(|_| Ok::<_, ()>(Verdict::Drop)), Ok(false));
    let mut tx = intake.into_queue();
    tx.push(0, b"between").unwrap();
    tx.commit();
    let mut intake = Intake::new(tx, 1000);
    intake.feed(b"\0\x05world").unwrap();
    assert_eq!(intake.parse(|_| Ok::<_, ()>(Verdict::Drop)), Ok(false));
    assert_eq!(drain(&mut rx), [(0, b"between".to_vec()), (0, b"world".to_vec())]);
}

#[test]
fn what_comes_behind_the_last_command_is_no_frame() {
    let (tx, mut rx) = queue(NO_LIMIT);
    let mut intake = Intake::new(tx, 1000);
    intake.feed(b"\0\x03one\x04\x04last!!!!\0\x05").unwrap();
    assert_eq!(intake.parse(|_| Ok::<_, ()>(Verdict::Last)), Ok(false));
    // Bytes read after this belong to another stream.
    intake.feed(b"\0\x03two").unwrap();
    assert_eq!(intake.parse(|_| Ok::<_, ()>(Verdict::Drop)), Ok(false));
    assert_eq!(drain(&mut rx), [(0, b"one".to_vec()), (0, b"two".to_vec())]);
}

#[test]
fn flags_that_mean_something_inside_are_not_the_callers() {
    let (mut tx, mut rx) = queue(NO_LIMIT);
    tx.push(0xff, &[1; 20]).unwrap();
    tx.push_body(0xfa, Body::from(vec![2; 20])).unwrap();
    tx.commit();
    assert_eq!(drain(&mut rx), [(5, vec![1; 20]), (0, vec![2; 20])]);
}

#[test]
fn a_writer_that_claims_more_than_it_was_given_is_not_believed() {
    let (mut tx, mut rx) = queue(NO_LIMIT);
    tx.push(0, b"abc").unwrap();
    tx.commit();
    rx.write_with(&mut Vec::new(), |_, bytes| (bytes + 1, ()));
    assert!(!rx.has_frame());
    tx.push_body(0, Body::from(vec![2; 20])).unwrap();
    tx.commit();
    rx.write_with(&mut Vec::new(), |_, bytes| (bytes + 1, ()));
    assert!(!rx.has_frame());
    assert_eq!((tx.backlog(), tx.backlog_wire()), (0, 0));
}

#[test]
fn a_reader_that_claims_more_than_there_is_room_is_not_believed() {
    let (tx, _rx) = queue(NO_LIMIT);
    let mut intake = Intake::new(tx, 1000);
    intake.space().unwrap();
    intake.filled(1 << 40);
    assert!(intake.parse(|_| Ok::<_, ()>(Verdict::Drop)).is_ok());
}

/// A queue of one message. Its first frame, a body, is written and gone; its last is not written
/// completely.
fn cut_behind_a_body(limits: Limits) -> (pinnace_ring::Producer, pinnace_ring::Consumer) {
    let (mut tx, mut rx) = queue(limits);
    tx.push_body(MORE, Body::from(vec![1; 300])).unwrap();
    tx.push(0, &[2; 100]).unwrap();
    tx.commit();
    assert_eq!(write(&mut rx, 320).len(), 320);
    (tx, rx)
}

#[test]
fn a_message_given_up_is_released() {
    let (mut tx, mut rx) = cut_behind_a_body(Limits { messages: 1, ahead_bytes: 1 });
    assert!(!tx.want_room());
    assert_eq!(rx.rewind(&mut Vec::new()).messages, 1);
    assert!(rx.take_room_wanted());
    assert_eq!((tx.backlog(), tx.backlog_wire()), (0, 0));
    assert!(tx.has_room());
}

#[test]
fn messages_before_one_that_is_cut_are_released_though_it_is_not() {
    let (mut tx, mut rx) = queue(Limits { messages: 3, ahead_bytes: 0 });
    for _ in 0..2 {
        tx.push(0, b"whole").unwrap();
        tx.commit();
    }
    tx.push_body(MORE, Body::from(vec![1; 300])).unwrap();
    tx.push(0, &[2; 100]).unwrap();
    tx.commit();
    assert!(!tx.want_room());
    write(&mut rx, 2 * 7 + 320);
    assert_eq!((tx.backlog(), rx.take_room_wanted()), (1, true));
    assert_eq!(rx.rewind(&mut Vec::new()).messages, 1);
    assert_eq!(tx.backlog(), 0);
}

#[test]
fn bytes_that_are_to_be_written_again_count_again() {
    let (mut tx, mut rx) = queue(NO_LIMIT);
    tx.push(MORE, b"first").unwrap();
    tx.push(0, b"second").unwrap();
    tx.commit();
    write(&mut rx, 10);
    assert_eq!(rx.rewind(&mut Vec::new()).messages, 0);
    assert_eq!(tx.backlog_wire(), 15);
    assert_eq!(write(&mut rx, 100).len(), 15);
    assert_eq!(tx.backlog_wire(), 0);
}

#[test]
fn rewinding_what_was_popped_does_not_count_below_nothing() {
    let (mut tx, mut rx) = queue(Limits { messages: 1, ahead_bytes: 1 });
    tx.push(MORE, b"first").unwrap();
    tx.push(0, b"second").unwrap();
    tx.commit();
    rx.pop(|_| ()).unwrap();
    assert_eq!(rx.rewind(&mut Vec::new()).messages, 0);
    write(&mut rx, 1);
    assert!(!tx.has_room());
    assert_eq!(write(&mut rx, 100).len(), 14);
}

#[test]
fn a_mark_that_is_lowered_under_a_waiting_producer_wakes_it() {
    let (mut tx, mut rx) = queue(Limits { messages: 1000, ahead_bytes: 0 });
    tx.set_limits(Limits { messages: 1, ahead_bytes: 0 });
    tx.push(0, b"").unwrap();
    tx.commit();
    assert!(!tx.want_room());
    rx.pop(|_| ()).unwrap();
    assert!(!rx.take_room_wanted());
    rx.set_mark(1);
    assert!(rx.take_room_wanted());
}

#[test]
fn a_body_of_any_length_is_an_error_at_worst() {
    assert!(Body::with_len(usize::MAX).is_err());
    assert!(Body::with_len(usize::MAX / 2 + 2).is_err());
}

#[test]
fn a_link_that_reads_what_an_intake_fed_releases_all() {
    let (tx, mut rx) = queue(NO_LIMIT);
    let mut intake = Intake::new(tx, 1 << 20);
    let mut wire = Vec::new();
    while wire.len() < 1200 {
        wire.extend_from_slice(b"\0\x05hello");
    }
    // The last frame begins where the segment has no room for it.
    wire.extend_from_slice(&[0, 2, 0, 0]);
    wire.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0x10, 0]);
    intake.feed(&wire).unwrap();
    let _ = intake.parse(|_| Ok::<_, ()>(Verdict::Drop)).unwrap();
    while !write(&mut rx, usize::MAX).is_empty() {}
    assert_eq!(intake.queue().backlog(), 0);
}

#[test]
fn frames_that_were_shown_stay_until_they_are_passed() {
    let counted = Counted::default();
    let (mut tx, mut rx) = queue(Limits { messages: 2, ahead_bytes: 0 });
    tx.push(0, b"one").unwrap();
    tx.commit();
    tx.push(MORE, b"two").unwrap();
    tx.push_body(0, counted.body(300)).unwrap();
    tx.commit();
    let mut shown = Vec::new();
    rx.show_frames(|flags, body| {
        shown.push((flags, body.len()));
        true
    });
    assert_eq!(shown, [(0, 3), (MORE, 3), (0, 300)]);
    assert!(!tx.want_room());
    let mut done = Vec::new();
    rx.pass_frames(2, &mut done);
    assert_eq!((tx.backlog(), tx.backlog_wire(), rx.take_room_wanted()), (1, 309, true));
    assert_eq!(rx.rewind(&mut Vec::new()).messages, 0);
    assert_eq!(tx.backlog_wire(), 314, "the message begins again");
    rx.pass_frames(2, &mut done);
    assert_eq!((tx.backlog(), tx.backlog_wire(), done.len(), rx.has_frame()), (0, 0, 1, false));
}
