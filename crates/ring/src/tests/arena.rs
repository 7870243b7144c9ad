//! Tests of `arena`: bodies travel from one process's queue to another's, through memory as each of them maps
//! it.

use std::sync::atomic::AtomicUsize;

use pinnace_sys::memory::Memory;
use proptest::prelude::*;

use super::*;
use crate::record;
use crate::shared::{RING_MIN, shared};
use crate::{Consumer, Frame, INLINE_MAX, Intake, Limits, MORE, Producer, Refused, Verdict, queue};

const ARENA: usize = 4 * RING_MIN;
const NO_LIMITS: Limits = Limits { messages: 0, ahead_bytes: 0 };

/// All stages that a body passes. A vector stands for the ring.
struct Way {
    lender: Lender,
    tx: Producer,
    out: Consumer,
    wire: Vec<u8>,
    intake: Intake,
    rx: Consumer,
    woken: Arc<AtomicUsize>,
    ours: Half,
    theirs: Half,
}

impl Way {
    fn new(taking: Taking) -> Way {
        let half = || {
            let (ours, fd) = Memory::create(Half::size(RING_MIN)).unwrap();
            let theirs = Memory::open(&fd, Half::is_size).unwrap();
            (Half::new(ours).unwrap(), Half::new(theirs).unwrap())
        };
        let ((ours, ours_read), (theirs, theirs_read)) = (half(), half());
        let (near, _) = shared(ours.clone(), theirs_read);
        let (_, far) = shared(theirs.clone(), ours_read);
        let ((tx, mut out), (into, rx)) = (queue(NO_LIMITS), queue(NO_LIMITS));
        out.lend_from(near.arena().clone());
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        let wake = move || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let mut intake = Intake::new(into, 1 << 30);
        intake.borrow_by(far.halves().borrower(taking, Box::new(wake)));
        let lender = Lender::new(near.arena().clone());
        Way { lender, tx, out, wire: Vec::new(), intake, rx, woken, ours, theirs }
    }

    /// Pushes a frame, as a pipe does.
    fn push(&mut self, flags: u8, data: &[u8]) -> bool {
        let lodged = self.lender.put(data, self.tx.messages(), self.tx.limit_elsewhere(data.len()));
        let is_lodged = lodged.is_some();
        match lodged {
            Some(body) => self.tx.push_body(flags, body).unwrap(),
            None if data.len() <= INLINE_MAX => self.tx.push(flags, data).unwrap(),
            None => self.tx.push_body(flags, Body::copy_of(data).unwrap()).unwrap(),
        }
        is_lodged
    }

    fn send(&mut self, data: &[u8]) -> bool {
        let is_lodged = self.push(0, data);
        self.tx.commit();
        is_lodged
    }

    /// Moves all that is queued, at most `bytes` at a time.
    fn carry(&mut self, bytes: usize) -> Result<(), Refused<()>> {
        let mut done = Vec::new();
        let wire = &mut self.wire;
        while let Some(()) = self.out.write_with(&mut done, |slices, _| {
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            let taken = bytes.min(all.len());
            wire.extend(&all[..taken]);
            (taken, ())
        }) {}
        for piece in std::mem::take(wire).chunks(bytes) {
            self.intake.feed(piece).unwrap();
            self.intake.parse(|_| Ok(Verdict::Drop))?;
        }
        Ok(())
    }

    /// Copies the next body out, as the C API does.
    fn take(&mut self) -> Option<Vec<u8>> {
        self.rx.pop(|frame| {
            let mut room = vec![0; 2 << 20];
            let len = frame.copy_to(&mut room);
            room.truncate(len);
            room
        })
    }

    fn keep(&mut self) -> Body {
        let body = self.rx.pop(|frame| match frame {
            Frame::Body { body, .. } => body.take(),
            Frame::Bytes { .. } => None,
        });
        body.flatten().expect("a body")
    }
}

fn bytes(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ number.wrapping_mul(7)) as u8).collect()
}

#[test]
fn a_large_body_crosses_as_a_loan_and_a_small_one_does_not() {
    let mut way = Way::new(Taking::WhenWanted);
    assert!(!way.send(&bytes(0, LOAN_MIN - 1)) && way.send(&bytes(1, LOAN_MIN)));
    assert!(way.send(&bytes(2, ARENA / 2)) && !way.send(&bytes(3, ARENA / 2 + 1)));
    way.carry(usize::MAX).unwrap();
    for (number, len) in [LOAN_MIN - 1, LOAN_MIN, ARENA / 2, ARENA / 2 + 1].into_iter().enumerate() {
        assert_eq!(way.take(), Some(bytes(number, len)));
    }
    assert_eq!(way.take(), None);
    assert!(way.lender.arena.is_idle());
    // Both ends count the bytes as on the wire.
    assert_eq!(way.tx.backlog_wire(), 0);
    assert_eq!(way.rx.consumed().1, way.tx.wire());
}

#[test]
fn a_full_arena_lets_bodies_go_through_the_ring_until_there_is_room() {
    let mut way = Way::new(Taking::WhenWanted);
    assert!((0..4).all(|number| way.send(&bytes(number, ARENA / 4))));
    assert_eq!((way.lender.take_short(), way.lender.take_short()), (Some(true), None), "said once");
    assert_eq!((way.send(&bytes(4, ARENA / 4)), way.lender.take_short()), (false, Some(true)));
    way.carry(usize::MAX).unwrap();
    let lacks = || way.lender.arena.lacks_room();
    assert!(lacks() && lacks());
    assert_eq!(way.take(), Some(bytes(0, ARENA / 4)));
    assert_eq!(way.woken.load(Ordering::Relaxed), 0, "not for so little");
    assert_eq!(way.take(), Some(bytes(1, ARENA / 4)));
    assert_eq!(way.woken.load(Ordering::Relaxed), 1);
    assert!(!way.lender.arena.lacks_room());
    assert!(way.send(&bytes(5, ARENA / 4)));
    way.carry(usize::MAX).unwrap();
    for number in 2..6 {
        assert_eq!(way.take(), Some(bytes(number, ARENA / 4)), "in order, whichever way it went");
    }
    assert_eq!(way.woken.load(Ordering::Relaxed), 1, "nobody waits any more");
}

#[test]
fn a_limit_on_bytes_is_one_on_the_arena() {
    let mut way = Way::new(Taking::WhenWanted);
    way.tx.set_max_bytes(3 * LOAN_MIN as u64);
    assert!((0..3).all(|number| way.send(&bytes(number, LOAN_MIN))));
    assert!(!way.send(&bytes(3, LOAN_MIN)) && !way.send(&bytes(4, 2 * LOAN_MIN)));
    way.carry(usize::MAX).unwrap();
    assert!((0..2).all(|number| way.take() == Some(bytes(number, LOAN_MIN))));
    assert!(way.send(&bytes(5, LOAN_MIN)));
    // A limit on messages limits the arena too, by their size.
    let mut way = Way::new(Taking::WhenWanted);
    way.tx.set_limits(Limits { messages: 10, ahead_bytes: 0 });
    assert!((0..10).all(|number| way.send(&bytes(number, LOAN_MIN))) && !way.send(&bytes(10, LOAN_MIN)));
}

#[test]
fn what_is_kept_stays_and_what_was_lent_first_is_repaid_first() {
    let mut way = Way::new(Taking::WhenWanted);
    assert!((0..4).all(|number| way.send(&bytes(number, ARENA / 4))));
    way.carry(usize::MAX).unwrap();
    let (first, second) = (way.keep(), way.keep());
    drop(second);
    assert_eq!((way.take().is_some(), way.take().is_some()), (true, true));
    assert!(!way.send(&bytes(4, LOAN_MIN)), "the first one still lies there");
    assert_eq!(*first, *bytes(0, ARENA / 4));
    drop(first);
    assert!(way.send(&bytes(5, ARENA / 2)));
}

#[test]
fn a_reader_of_a_body_sees_it_unchanged() {
    let mut way = Way::new(Taking::WhenWanted);
    way.send(&bytes(0, LOAN_MIN));
    way.send(&bytes(1, LOAN_MIN));
    way.carry(usize::MAX).unwrap();
    let (mut looked_at, mut owned) = (way.keep(), way.keep());
    owned.own().unwrap();
    let before = looked_at.to_vec();
    // SAFETY: the arena's first bytes. This stands for a process that breaks the rules.
    unsafe { way.ours.in_arena(0).write_bytes(0xee, 2 * LOAN_MIN) };
    assert_eq!((looked_at.to_vec(), owned.to_vec()), (before, bytes(1, LOAN_MIN)));
    assert_eq!(looked_at.as_ptr().cast_const(), looked_at.as_ref().as_ptr());
    looked_at.as_mut().unwrap()[0] = 9;
    assert_eq!(looked_at[0], 9);
}

#[test]
fn a_body_of_who_is_trusted_is_looked_at_where_it_lies() {
    let mut way = Way::new(Taking::InPlace);
    way.send(&bytes(0, LOAN_MIN));
    way.carry(usize::MAX).unwrap();
    let mut body = way.keep();
    body.own().unwrap();
    assert_eq!(*body, *bytes(0, LOAN_MIN));
    // SAFETY: the arena's first bytes. This stands for a process that breaks its promise.
    unsafe { way.ours.in_arena(0).write_bytes(0xee, LOAN_MIN) };
    assert_eq!(*body, [0xee; LOAN_MIN], "no copy was made");
    assert!(body.as_mut().is_none(), "nobody can write there");
    let shared = body.clone();
    drop(body);
    assert!(!way.lender.arena.is_idle(), "somebody has it");
    drop(shared);
    assert!(way.lender.arena.is_idle());
}

#[test]
fn without_keeping_the_arena_is_free_at_once() {
    let mut way = Way::new(Taking::AtOnce);
    for number in 0..8 {
        assert!(way.send(&bytes(number, ARENA / 2)));
        way.carry(usize::MAX).unwrap();
    }
    assert!(way.lender.arena.is_idle());
    for number in 0..8 {
        assert_eq!(*way.keep(), *bytes(number, ARENA / 2));
    }
}

#[test]
fn small_loans_stay_at_the_beginning() {
    let mut way = Way::new(Taking::WhenWanted);
    for number in 0..100 {
        // The second body is rolled back, whether or not putting it returned to the beginning.
        assert!(way.send(&bytes(number, 9000)) && way.push(MORE, &bytes(1, 9000)));
        way.tx.rollback();
        way.lender.rollback(way.tx.messages());
        assert!(way.lender.put % (ARENA as u64) <= LAP + 9000, "body {number}");
        way.carry(usize::MAX).unwrap();
        assert_eq!(way.take(), Some(bytes(number, 9000)));
    }
    assert!(way.lender.arena.is_idle());
    assert!(way.lender.put > 3 * ARENA as u64, "{}", way.lender.put);
    // The whole arena is available, and no more.
    let sent = (0..2 * ARENA).take_while(|_| way.send(&bytes(7, ARENA / 8))).count();
    assert!((7..=8).contains(&sent), "{sent} eighths");
}

#[test]
fn what_is_taken_back_leaves_no_hole() {
    let mut way = Way::new(Taking::WhenWanted);
    assert!(way.send(&bytes(0, ARENA / 4)));
    for _ in 0..10 {
        assert!(way.push(MORE, &bytes(1, ARENA / 4)) && way.push(MORE, &bytes(2, ARENA / 4)));
        way.tx.rollback();
        way.lender.rollback(way.tx.messages());
    }
    assert!((3..6).all(|number| way.send(&bytes(number, ARENA / 4))));
    way.carry(usize::MAX).unwrap();
    for number in [0, 3, 4, 5] {
        assert_eq!(way.take(), Some(bytes(number, ARENA / 4)));
    }
    // Nor do loaned bodies that are sent through the ring after all.
    assert!(way.send(&bytes(6, ARENA / 2)));
    way.out.arena = None;
    way.carry(usize::MAX).unwrap();
    assert_eq!(way.take(), Some(bytes(6, ARENA / 2)));
    assert!(way.lender.arena.is_idle() && way.send(&bytes(7, ARENA / 2)));
}

#[test]
fn what_a_lost_connection_had_not_sent_goes_through_the_next_one() {
    let mut way = Way::new(Taking::WhenWanted);
    assert!(way.send(&bytes(0, LOAN_MIN)) && way.send(&bytes(1, LOAN_MIN)));
    let next = Way::new(Taking::WhenWanted);
    way.out.rewind(&mut Vec::new());
    (way.intake, way.rx) = (next.intake, next.rx);
    way.out.lend_from(next.lender.arena.clone());
    way.carry(1000).unwrap();
    assert_eq!((way.take(), way.take()), (Some(bytes(0, LOAN_MIN)), Some(bytes(1, LOAN_MIN))));
    // A partly written loan was not sent, either.
    assert_eq!((way.tx.backlog(), way.tx.backlog_wire()), (0, 0));
}

#[test]
fn a_loan_of_what_cannot_be_is_refused() {
    let (arena, loan) = (ARENA as u64, LOAN_MIN as u64);
    for (position, len) in [
        (0, 0),
        (0, arena + 1),
        (1, arena),
        (arena - loan + 1, loan),
        (u64::MAX, loan),
        (u64::MAX - loan + 1, loan),
    ] {
        let mut way = Way::new(Taking::WhenWanted);
        let mut wire = [0; record::LOAN_LEN];
        record::write_loan(&mut wire, 0, position, len as usize);
        way.wire = wire.into();
        assert_eq!(way.carry(usize::MAX), Err(Refused::Loan), "{position} {len}");
    }
    let mut way = Way::new(Taking::WhenWanted);
    let mut wire = [0; record::LOAN_LEN];
    for (position, outcome) in [(loan, Ok(())), (loan, Err(Refused::Loan))] {
        record::write_loan(&mut wire, 0, position, LOAN_MIN);
        way.wire = wire.into();
        assert_eq!(way.carry(usize::MAX), outcome, "not backwards");
    }
    let mut way = Way::new(Taking::WhenWanted);
    record::write_loan(&mut wire, 0, 0, 1 << 31);
    way.wire = wire.into();
    assert_eq!(way.carry(usize::MAX), Err(Refused::TooLarge(1 << 31)));
}

#[test]
fn a_false_count_of_repayments_overwrites_nothing() {
    let mut way = Way::new(Taking::WhenWanted);
    assert!(way.send(&bytes(0, ARENA / 2)) && way.send(&bytes(1, ARENA / 2)));
    for lie in [ARENA as u64, u64::MAX] {
        way.theirs.head().repaid.0.store(lie, Ordering::Relaxed);
        assert!(!way.send(&bytes(2, LOAN_MIN)), "nothing was sent yet");
    }
    way.carry(usize::MAX).unwrap();
    assert_eq!((way.take(), way.take()), (Some(bytes(0, ARENA / 2)), Some(bytes(1, ARENA / 2))));
}

proptest! {
    /// However the messages are sent, moved and received, they come out whole and in order.
    #[test]
    fn messages_come_out_as_they_went_in(
        taking in prop::sample::select(vec![Taking::AtOnce, Taking::WhenWanted, Taking::InPlace]),
        piece in 1..40_000usize,
        steps in prop::collection::vec((0..120_000usize, 0..4u8), 1..60),
    ) {
        let (mut way, mut expected) = (Way::new(taking), VecDeque::new());
        let mut kept = VecDeque::new();
        for (number, (len, what)) in steps.into_iter().enumerate() {
            let body = bytes(number, len);
            let more = what == 3;
            way.push(if more { MORE } else { 0 }, &body);
            if more {
                way.push(0, b"end");
            }
            way.tx.commit();
            expected.push_back(body);
            if more {
                expected.push_back(b"end".to_vec());
            }
            if what > 0 {
                way.carry(piece).unwrap();
            }
            if what > 1 {
                prop_assert_eq!(way.take(), expected.pop_front());
                kept.truncate(3);
                way.rx.pop(|frame| if let Frame::Body { body, .. } = frame {
                    kept.push_front((body.take().unwrap(), expected.pop_front().unwrap()));
                } else {
                    assert_eq!(frame.data(), expected.pop_front().unwrap());
                });
            }
            prop_assert!(kept.iter().all(|(body, bytes)| **body == **bytes));
        }
        way.carry(piece).unwrap();
        while let Some(body) = way.take() {
            prop_assert_eq!(Some(body), expected.pop_front());
        }
        drop(kept);
        prop_assert!(expected.is_empty() && way.lender.arena.is_idle());
        prop_assert_eq!(way.rx.consumed().1, way.tx.wire());
    }
}
