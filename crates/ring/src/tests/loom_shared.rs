//! Models of ARM, WANT and LACK: a sleeping side is woken. And of the end of the stream, which follows all data. The
//! models track positions, not bytes.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io::IoSlice;

use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::*;
use crate::loom_queue::model_of;
use crate::sync::AtomicBool;
use crate::{LOAN_MIN, Lender, Taking};

const RING: usize = 4;
const ARENA: usize = 4 * LOAN_MIN;

/// Memory of this process.
struct Block(*mut u8, Layout);

// SAFETY: an address that is used only through a `Half`.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated by `half`, which wrote a head there.
        unsafe {
            self.0.cast::<HalfHeader>().drop_in_place();
            dealloc(self.0, self.1);
        }
    }
}

fn half() -> Half {
    let layout = Layout::from_size_align(HEAD + RING + ARENA, 4096).unwrap();
    assert!(size_of::<HalfHeader>() <= HEAD);
    // SAFETY: the layout is not empty, and has room for a head, the ring and the arena.
    unsafe {
        let at = alloc_zeroed(layout);
        at.cast::<HalfHeader>().write(HalfHeader::default());
        Half::at(at, RING, ARENA, Arc::new(Block(at, layout)))
    }
}

/// Stands for the socket, with its bytes that wake.
#[derive(Default)]
struct Doorbell(Mutex<u32>, Condvar);

impl Doorbell {
    fn ring(&self) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_one();
    }

    fn hear(&self) {
        let mut rings = self.0.lock().unwrap();
        while *rings == 0 {
            rings = self.1.wait(rings).unwrap();
        }
        *rings = 0;
    }
}

fn crosses(bytes: usize) {
    let (one, other) = (half(), half());
    let (mut out, _) = shared(one.clone(), other.clone());
    let (_, mut way_in) = shared(other, one);
    let (to_reader, to_writer) =
        (loom::sync::Arc::new(Doorbell::default()), loom::sync::Arc::new(Doorbell::default()));
    let (ring_reader, wait_for_reader) = (to_reader.clone(), to_writer.clone());
    let writer = thread::spawn(move || {
        let mut sent = 0;
        while sent < bytes {
            sent += out.write(&[IoSlice::new(&[7; 8][..bytes - sent])], 0, || ring_reader.ring()).unwrap();
            if sent < bytes && !out.want_room().unwrap() {
                wait_for_reader.hear();
            }
        }
    });
    let mut taken = 0;
    while taken < bytes {
        let read = way_in.read(&mut [0; 8], &mut [], || to_writer.ring()).unwrap();
        taken += read;
        if read == 0 && way_in.arm().unwrap() {
            to_reader.hear();
        }
    }
    writer.join().unwrap();
}

#[test]
fn a_reader_waiting_for_bytes_is_woken() {
    loom::model(|| crosses(3));
}

#[test]
fn a_writer_waiting_for_room_is_woken() {
    model_of(3, || crosses(6));
}

/// A reader that sleeps on its doorbell is woken by the peer, or by another thread of its process, the watcher. The
/// watcher waits on the socket, reads what the doorbell could not announce, and arms the ring for the socket. It
/// rings the reader's doorbell when all bytes are read.
#[test]
fn a_reader_at_its_doorbell_is_woken() {
    const BYTES: usize = 2;
    model_of(3, || {
        let (one, other) = (half(), half());
        let (mut out, _) = shared(one.clone(), other.clone());
        let (_, way_in) = shared(other, one);
        let (doorbell, way_in) = (way_in.doorbell(), loom::sync::Arc::new(Mutex::new((way_in, 0))));
        let socket = loom::sync::Arc::new(Doorbell::default());
        let closed = loom::sync::Arc::<AtomicBool>::default();
        let (to_writer, to_watcher) = (socket.clone(), socket.clone());
        let writer = thread::spawn(move || {
            for _ in 0..BYTES {
                let mut due = false;
                assert_eq!(out.write(&[IoSlice::new(&[7])], 0, || due = true).unwrap(), 1);
                if due && !out.wakes() {
                    to_writer.ring();
                }
            }
        });
        let (reader_doorbell, ended, watched) = (doorbell.clone(), closed.clone(), way_in.clone());
        let watcher = thread::spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                to_watcher.hear();
                let (way_in, taken) = &mut *watched.lock().unwrap();
                loop {
                    let read = way_in.read(&mut [0; 8], &mut [], || ()).unwrap();
                    *taken += read;
                    if read == 0 && way_in.arm().unwrap() {
                        break;
                    }
                }
                if *taken == BYTES {
                    reader_doorbell.ring();
                }
            }
        });
        loop {
            let rung = doorbell.listen();
            let sleeps = {
                let (way_in, taken) = &mut *way_in.lock().unwrap();
                way_in.disarm();
                *taken += way_in.read(&mut [0; 8], &mut [], || ()).unwrap();
                if *taken == BYTES {
                    break;
                }
                way_in.arm_doorbell().unwrap()
            };
            if sleeps {
                doorbell.wait(rung, None).unwrap();
            }
        }
        writer.join().unwrap();
        closed.store(true, Ordering::SeqCst);
        socket.ring();
        watcher.join().unwrap();
    });
}

#[test]
fn a_lender_without_room_is_woken() {
    model_of(3, || {
        let (one, other) = (half(), half());
        let (out, _) = shared(one.clone(), other.clone());
        let (_, far) = shared(other, one);
        let (arena, doorbell) = (out.arena().clone(), loom::sync::Arc::new(Doorbell::default()));
        let mut lender = Lender::new(arena.clone());
        for number in 0..2 {
            drop(lender.put(&[7; ARENA / 2], number, u64::MAX).expect("there is room"));
            arena.offer(number * ARENA as u64 / 2, ARENA / 2); // Its loan is written.
        }
        let ring = doorbell.clone();
        let reader = thread::spawn(move || {
            let mut borrower = far.halves().borrower(Taking::WhenWanted, Box::new(move || ring.ring()));
            let mut take = |position| borrower.borrow(position, ARENA as u64 / 2).ok().expect("a loan");
            drop([take(0), take(ARENA as u64 / 2)]);
        });
        if arena.lacks_room() {
            doorbell.hear();
        }
        assert!(!arena.lacks_room());
        reader.join().unwrap();
    });
}

/// The socket is closed after the last write. The thread that notices may be another than the reader.
#[test]
fn the_end_comes_behind_all_that_was_sent() {
    const BYTES: usize = 3;
    model_of(3, || {
        let (one, other) = (half(), half());
        let (mut out, _) = shared(one.clone(), other.clone());
        let (_, mut way_in) = shared(other, one);
        let (socket, reader) =
            (loom::sync::Arc::new(Doorbell::default()), loom::sync::Arc::new(Doorbell::default()));
        let (closed, ended) = (loom::sync::Arc::new(AtomicBool::new(false)), loom::sync::Arc::default());
        let writer = {
            let (socket, closed) = (socket.clone(), closed.clone());
            thread::spawn(move || {
                assert_eq!(out.write(&[IoSlice::new(&[7; BYTES])], 0, || socket.ring()).unwrap(), BYTES);
                closed.store(true, Ordering::Release); // Done by the kernel.
                socket.ring();
            })
        };
        let watcher = {
            let (reader, ended) = (reader.clone(), loom::sync::Arc::<AtomicBool>::clone(&ended));
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    socket.hear();
                    ended.store(closed.load(Ordering::Acquire), Ordering::Release);
                    reader.ring();
                }
            })
        };
        let mut taken = 0;
        loop {
            match way_in.read(&mut [0; 8], &mut [], || ()).unwrap() {
                0 if !way_in.arm().unwrap() => {}
                0 if ended.load(Ordering::Acquire) && !way_in.has_bytes() => break,
                0 if ended.load(Ordering::Acquire) => {}
                0 => reader.hear(),
                read => taken += read,
            }
        }
        assert_eq!(taken, BYTES);
        writer.join().unwrap();
        watcher.join().unwrap();
    });
}
