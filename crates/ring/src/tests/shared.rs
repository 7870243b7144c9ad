//! Tests of `shared`, over memory as two processes map it.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use pinnace_sys::memory::Memory;
use proptest::prelude::*;

use pinnace_sys::sleep::Slept;

use super::*;

fn halves(ring: usize) -> (Half, Half, Half, Half) {
    let side = || {
        let (ours, fd) = Memory::create(Half::size(ring)).unwrap();
        let theirs = Memory::open(&fd, Half::is_size).unwrap();
        (Half::new(ours).unwrap(), Half::new(theirs).unwrap())
    };
    let ((one, one_read), (other, other_read)) = (side(), side());
    (one, one_read, other, other_read)
}

/// One side's sending direction and the other's receiving direction, with the halves of both, to forge
/// values in.
fn joined(ring: usize) -> (Outgoing, Incoming, Half, Half) {
    let (one, one_read, other, other_read) = halves(ring);
    let (out, _) = shared(one.clone(), other_read);
    let (_, way_in) = shared(other.clone(), one_read);
    (out, way_in, one, other)
}

fn nobody() {
    panic!("nobody waits");
}

fn write(out: &mut Outgoing, bytes: &[u8]) -> usize {
    out.write(&[IoSlice::new(bytes)], 0, || {}).unwrap()
}

#[test]
fn a_wait_is_ended_once_and_only_when_there_is_one() {
    let (mut out, mut way_in, ..) = joined(RING_MIN);
    let mut woken = 0;
    out.write(&[IoSlice::new(b"first")], 0, || woken += 1).unwrap();
    out.write(&[IoSlice::new(b"second")], 0, nobody).unwrap();
    assert_eq!((woken, way_in.arm()), (1, Ok(false)), "there is something");
    let mut bytes = [0; 64];
    assert_eq!(way_in.read(&mut bytes, &mut [], nobody), Ok(11));
    assert_eq!((&bytes[..11], way_in.arm()), (&b"firstsecond"[..], Ok(true)));
    out.write(&[IoSlice::new(b"third")], 0, || woken += 1).unwrap();
    assert_eq!(woken, 2);
}

#[test]
fn a_waiting_writer_is_woken_for_half_of_the_ring() {
    let (mut out, mut way_in, ..) = joined(RING_MIN);
    let all = vec![7; RING_MIN + 1];
    assert_eq!(write(&mut out, &all), RING_MIN);
    assert_eq!((write(&mut out, &all), out.want_room()), (0, Ok(false)));
    let (mut woken, mut some) = (0, vec![0; RING_MIN / 2 - 1]);
    assert_eq!(way_in.read(&mut some, &mut [], || woken += 1), Ok(RING_MIN / 2 - 1));
    assert_eq!((woken, out.has_room()), (0, Ok(false)));
    assert_eq!(way_in.read(&mut [0; 2], &mut [], || woken += 1), Ok(2));
    assert_eq!((woken, out.has_room(), out.want_room()), (1, Ok(true), Ok(true)));
}

#[test]
fn a_writer_is_not_woken_for_room_filled_meanwhile() {
    let (mut out, mut way_in, ..) = joined(RING_MIN);
    assert_eq!(write(&mut out, &[7; 1000]), 1000);
    assert_eq!(way_in.read(&mut [0; 10], &mut [], nobody), Ok(10)); // Now the reader knows of a thousand bytes.
    assert_eq!(write(&mut out, &vec![7; RING_MIN]), RING_MIN - 990);
    assert_eq!(out.want_room(), Ok(false));
    assert_eq!(way_in.read(&mut [0; 10], &mut [], nobody), Ok(10));
    let mut woken = 0;
    assert_eq!(way_in.read(&mut vec![0; RING_MIN / 2], &mut [], || woken += 1), Ok(RING_MIN / 2));
    assert_eq!((woken, out.has_room()), (1, Ok(true)));
}

#[test]
fn a_waiting_reader_is_signalled_unless_it_is_at_its_doorbell() {
    let (mut out, mut way_in, ..) = joined(RING_MIN);
    let mut due = 0;
    out.write(&[IoSlice::new(b"first")], 0, || due += 1).unwrap();
    assert_eq!((due, out.wakes()), (1, false), "it waits, and not by the bell");
    assert_eq!((way_in.read(&mut [0; 8], &mut [], nobody), way_in.arm_doorbell()), (Ok(5), Ok(true)));
    assert!(out.wakes(), "it has begun to wait anew, and has looked");
    out.write(&[IoSlice::new(b"second")], 0, || due += 1).unwrap();
    assert_eq!((due, out.wakes()), (2, false), "it is about to sleep");
    way_in.disarm();
    assert!(out.wakes(), "it looks by itself");
    assert_eq!((way_in.read(&mut [0; 8], &mut [], nobody), way_in.arm()), (Ok(6), Ok(true)));
    out.write(&[IoSlice::new(b"third")], 0, || due += 1).unwrap();
    assert_eq!((due, out.wakes()), (3, false), "it waits, and not by the bell");
}

#[test]
fn a_reader_at_its_doorbell_is_woken_from_either_side() {
    let (mut out, mut way_in, ..) = joined(RING_MIN);
    let doorbell = way_in.doorbell();
    let sleeper = |rung| {
        let doorbell = doorbell.clone();
        std::thread::spawn(move || doorbell.sleep(rung, Some(Instant::now() + Duration::from_secs(30))).run())
    };
    assert_eq!(way_in.arm_doorbell(), Ok(true));
    let asleep = sleeper(doorbell.listen());
    write(&mut out, b"first");
    while !out.wakes() {} // Until the thread is asleep.
    assert_eq!(asleep.join().unwrap(), Slept::Woken);
    let rung = doorbell.listen();
    doorbell.ring();
    assert_eq!(sleeper(rung).join().unwrap(), Slept::Woken, "it was rung before");
    let late = doorbell.sleep(doorbell.listen(), Some(Instant::now() + Duration::from_millis(1))).run();
    assert_eq!(late, Slept::TimedOut);
}

#[test]
fn an_empty_ring_is_given_back() {
    let (mut out, mut way_in, ..) = joined(RING_MIN);
    write(&mut out, &[7; 100]);
    assert!(!out.shrink());
    assert_eq!(way_in.read(&mut [0; 100], &mut [], || {}), Ok(100));
    assert!(out.shrink());
    write(&mut out, b"and on");
    let mut bytes = [0; 6];
    assert_eq!((way_in.read(&mut bytes, &mut [], || {}), &bytes), (Ok(6), b"and on"));
}

#[test]
fn small_writes_stay_at_the_beginning() {
    let (mut out, mut way_in, one, _) = joined(RING_MIN);
    for round in 0..RING_MIN {
        let bytes = [round as u8; 100];
        assert_eq!(write(&mut out, &bytes), 100);
        assert!(out.sent as usize % RING_MIN <= RESTART_MIN + 100, "round {round}");
        let mut room = [0; 200];
        assert_eq!((way_in.read(&mut room, &mut [], || {}), &room[..100]), (Ok(100), &bytes[..]));
    }
    assert!(one.head().sent.0.begin.load(Ordering::Relaxed) >= RING_MIN as u64);
    // The whole ring is available.
    assert_eq!((out.has_room(), write(&mut out, &vec![1; 2 * RING_MIN])), (Ok(true), RING_MIN));
    assert_eq!(way_in.read(&mut vec![0; RING_MIN / 2], &mut [], || {}), Ok(RING_MIN / 2));
    assert_eq!(write(&mut out, &vec![1; RING_MIN]), RING_MIN / 2, "it goes on, and not anew");
}

#[test]
fn a_beginning_that_cannot_be_costs_the_peer_its_own_bytes() {
    for begin in [1, 3, 4, RING_MIN as u64, u64::MAX] {
        let (mut out, mut way_in, one, _) = joined(RING_MIN);
        write(&mut out, b"four");
        one.head().sent.0.begin.store(begin, Ordering::Relaxed);
        let left = if begin <= 4 { 4 - begin as usize } else { 4 };
        assert_eq!(way_in.read(&mut [0; 8], &mut [], || {}), Ok(left), "{begin}");
    }
}

#[test]
fn numbers_that_cannot_be_are_lies() {
    for sent in [RING_MIN as u64 + 1, u64::MAX] {
        let (_, mut way_in, one, _) = joined(RING_MIN);
        one.head().sent.0.to.store(sent, Ordering::Relaxed);
        assert_eq!(way_in.read(&mut [0; 8], &mut [], || {}), Err(PeerViolation));
    }
    let (mut out, mut way_in, one, other) = joined(RING_MIN);
    write(&mut out, b"four");
    assert_eq!(way_in.read(&mut [0; 8], &mut [], || {}), Ok(4));
    one.head().sent.0.to.store(3, Ordering::Relaxed);
    assert_eq!((way_in.arm(), way_in.has_bytes()), (Err(PeerViolation), true));
    assert_eq!(out.has_room(), Ok(true));
    for taken in [3, 5, u64::MAX] {
        other.head().taken.0.store(taken, Ordering::Relaxed);
        assert_eq!((out.want_room(), out.has_room()), (Err(PeerViolation), Err(PeerViolation)));
    }
    // We do not read back what we have written, so overwriting it has no effect.
    one.head().sent.0.to.store(u64::MAX, Ordering::Relaxed);
    other.head().taken.0.store(4, Ordering::Relaxed);
    assert_eq!(write(&mut out, b"on"), 2);
}

#[test]
fn only_a_power_of_two_behind_the_head_is_a_half() {
    for ring in [RING_MIN, 2 * RING_MIN, RING_MAX] {
        let bytes = Half::size(ring) as u64;
        assert!(Half::is_size(bytes) && !Half::is_size(bytes - 1) && !Half::is_size(bytes + 1), "{ring}");
    }
    for ring in [0, RING_MIN / 2, RING_MIN + 4096, RING_MIN * 3, 2 * RING_MAX] {
        assert!(!Half::is_size(Half::size(ring) as u64), "{ring}");
    }
    assert!([0, HEAD as u64, u64::MAX].into_iter().all(|bytes| !Half::is_size(bytes)));
}

proptest! {
    /// However the bytes are written and read, the stream stays the same.
    #[test]
    fn bytes_come_out_as_they_went_in(steps in prop::collection::vec((0..200_000usize, 0..200_000usize), 1..40)) {
        let (mut out, mut way_in, ..) = joined(RING_MIN);
        let (mut sent, mut taken) = (0usize, 0usize);
        let byte = |at: usize| (at.wrapping_mul(2_654_435_761) >> 13) as u8;
        for (to_write, to_read) in steps {
            let bytes: Vec<u8> = (sent..sent + to_write).map(byte).collect();
            let (first, second) = bytes.split_at(to_write / 3);
            let wrote = out.write(&[IoSlice::new(first), IoSlice::new(second)], 0, || {}).unwrap();
            prop_assert!(wrote == to_write || sent + wrote - taken == RING_MIN);
            sent += wrote;
            let mut room = vec![0; to_read];
            let (first, second) = room.split_at_mut(to_read / 2);
            let read = way_in.read(first, second, || {}).unwrap();
            prop_assert_eq!(read, to_read.min(sent - taken));
            prop_assert!(room[..read].iter().enumerate().all(|(index, &one)| one == byte(taken + index)));
            taken += read;
        }
    }

    /// A write continues where the previous one ended.
    #[test]
    fn what_was_taken_is_skipped(cut in 0..300usize) {
        let (mut out, mut way_in, ..) = joined(RING_MIN);
        let all: Vec<u8> = (0..300).map(|at| at as u8).collect();
        let slices = [IoSlice::new(&all[..100]), IoSlice::new(&all[100..250]), IoSlice::new(&all[250..])];
        prop_assert_eq!(out.write(&slices, cut, || {}), Ok(300 - cut));
        let mut room = [0; 300];
        prop_assert_eq!(way_in.read(&mut room, &mut [], || {}), Ok(300 - cut));
        prop_assert_eq!(&room[..300 - cut], &all[cut..]);
    }
}

/// Both sides wait and are woken, each with mappings of its own.
#[test]
fn a_stream_crosses_with_sleeps_and_wake_ups() {
    use std::os::unix::net::UnixStream;
    const BYTES: usize = 8 << 20;
    let (one, one_read, other, other_read) = halves(RING_MIN);
    let (ours, theirs) = UnixStream::pair().unwrap();
    for socket in [&ours, &theirs] {
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    }
    let ring_doorbell = |socket: &UnixStream| std::io::Write::write_all(&mut &*socket, b"!").unwrap();
    let await_doorbell = |socket: &UnixStream| std::io::Read::read_exact(&mut &*socket, &mut [0]).unwrap();
    let writer = std::thread::spawn(move || {
        let (mut out, _) = shared(one, other_read);
        let bytes: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
        let mut sent = 0;
        while sent < BYTES {
            sent += out.write(&[IoSlice::new(&bytes[sent..])], 0, || ring_doorbell(&theirs)).unwrap();
            if sent < BYTES && !out.want_room().unwrap() {
                await_doorbell(&theirs);
            }
        }
    });
    let (_, mut way_in) = shared(other, one_read);
    let (mut room, mut taken) = (vec![0; 10_000], 0);
    while taken < BYTES {
        let read = way_in.read(&mut room, &mut [], || ring_doorbell(&ours)).unwrap();
        assert!(room[..read].iter().enumerate().all(|(at, &byte)| byte == ((taken + at) % 251) as u8));
        taken += read;
        if read == 0 && way_in.arm().unwrap() {
            await_doorbell(&ours);
        }
    }
    writer.join().unwrap();
}
