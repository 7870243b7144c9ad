//! A local connection through shared memory. The socket stays, to carry wake-ups and to show that the peer is alive.
//!
//! After the switch each byte on the socket is a wake-up without content. A side writes one when the peer has
//! announced that it waits for what just happened; one byte ends one wait. The end of the socket is the end of the
//! connection, once the ring is drained.
//!
//! The poll set is edge-triggered (EPOLLET), so wake-ups need not be read each time ([`WAITS_MAX`]). Draining them may
//! swallow one that the link's other direction waits for, without any notification. So the drainer also checks the
//! other direction ([`SharedStream::take_drained_wakeup`]).

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use pinnace_ring::{Arena, Borrower, Doorbell, Incoming, Outgoing, PeerViolation, Taking};
use pinnace_sys::{Errno, OwnedFd, net, process};

/// Both directions.
pub(crate) struct SharedStream {
    out: Mutex<Out>,
    way_in: Mutex<Incoming>,
    /// Where the reader sleeps if it waits for nothing else. Absent if the peer runs as another user, which could use
    /// FUTEX_REQUEUE (futex(2)) to move the sleeper to a futex where we do not find it.
    doorbell: Option<Doorbell>,
    /// A reader slept on the doorbell since the socket was drained, so the socket may hold bytes that `waits` does
    /// not count.
    belled: AtomicBool,
    /// The socket has ended: the only input left is in the ring.
    ended: AtomicBool,
    /// The reader polls the ring itself, and the peer's next byte wakes nobody.
    wakeups_suppressed: AtomicBool,
    /// Waits begun since the socket was drained: the peer may have sent one wake-up for each.
    waits: AtomicU32,
    /// Set when the socket was drained by the reader, and by the writer (`By`).
    heard: [AtomicBool; 2],
}

/// The direction that drains the socket.
#[derive(Clone, Copy)]
pub(super) enum By {
    Reader,
    Writer,
}

/// The outgoing ring, and whether the peer is due to be woken.
struct Out {
    ring: Outgoing,
    due: bool,
    /// Bytes written since the last wake-up.
    since: usize,
}

/// Bytes after which a sleeping peer is woken even if more are about to follow.
const QUIET: usize = 256 * 1024;

/// Waits after which the socket is drained. The peer sends one wake-up for each wait, and a wake-up is lost if the
/// kernel takes no more bytes. The kernel takes hundreds of single bytes, and at least six with the smallest
/// SO_SNDBUF (socket(7)).
const WAITS_MAX: u32 = 4;
/// Bytes of one read while draining, and the most reads: a peer that has sent more breaks the rules.
const HEARD_BYTES: usize = 1024;
const HEARD_TIMES: usize = 16;

impl SharedStream {
    /// The shared memory beside the socket `fd`.
    pub(super) fn new(fd: &OwnedFd, (out, way_in): (Outgoing, Incoming)) -> SharedStream {
        let out = Mutex::new(Out { ring: out, due: false, since: 0 });
        let is_of_ours = net::peer_process(fd).is_some_and(|peer| peer.uid == process::user());
        let doorbell = is_of_ours.then(|| way_in.doorbell());
        SharedStream {
            out,
            way_in: Mutex::new(way_in),
            doorbell,
            belled: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            wakeups_suppressed: AtomicBool::new(false),
            waits: AtomicU32::new(1), // The incoming ring is armed.
            heard: Default::default(),
        }
    }

    /// The arena for large bodies.
    pub(super) fn arena(&self) -> Arc<Arena> {
        self.out.lock().ring.arena().clone()
    }

    /// Receives the peer's large bodies.
    pub(super) fn borrower(&self, taking: Taking, wake: Box<dyn Fn() + Send + Sync>) -> Borrower {
        self.way_in.lock().halves().borrower(taking, wake)
    }

    /// Writes as to a socket; `wake` must follow. `rings`: the peer can send a wake-up when there is room again.
    pub(super) fn write(&self, fd: &OwnedFd, slices: &[IoSlice<'_>], rings: bool) -> Result<usize, Errno> {
        if self.ended.load(Ordering::Relaxed) {
            return Err(Errno::PIPE);
        }
        let mut locked = self.out.lock();
        let out = &mut *locked;
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut taken = 0;
        loop {
            taken += out.ring.write(slices, taken, || out.due = true).map_err(lied)?;
            if taken == bytes {
                out.since += taken;
                if out.since >= QUIET {
                    out.wake(fd);
                }
                return Ok(taken);
            }
            out.wake(fd);
            // The peer wakes us, unless it has made room meanwhile.
            if rings {
                self.begin_wait(fd, By::Writer);
            }
            if !rings || !out.ring.want_room().map_err(lied)? {
                return if taken > 0 { Ok(taken) } else { Err(Errno::AGAIN) };
            }
        }
    }

    /// Wakes a sleeping peer for what was written, since no write follows at once.
    pub(super) fn wake(&self, fd: &OwnedFd) {
        self.out.lock().wake(fd);
    }

    /// Reads as from a socket. EAGAIN: the ring is empty, and the next byte wakes us or the caller polls the ring.
    pub(super) fn read(&self, fd: &OwnedFd, first: &mut [u8], second: &mut [u8]) -> Result<usize, Errno> {
        let mut way_in = self.way_in.lock();
        loop {
            match way_in.read(first, second, || ring(fd)).map_err(lied)? {
                0 if self.wakeups_suppressed.load(Ordering::Relaxed)
                    && !self.ended.load(Ordering::Acquire) =>
                {
                    return Err(Errno::AGAIN);
                }
                0 if !self.arm(&mut way_in, fd).map_err(lied)? => {}
                0 if self.ended.load(Ordering::Acquire) && !way_in.has_bytes() => return Ok(0),
                0 if self.ended.load(Ordering::Acquire) => {}
                0 => return Err(Errno::AGAIN),
                taken => return Ok(taken),
            }
        }
    }

    /// Whether there is input in the ring.
    pub(super) fn has_read(&self) -> bool {
        self.way_in.lock().has_bytes()
    }

    /// Whether half of the ring is free, after it was full.
    pub(super) fn has_room(&self) -> bool {
        self.out.lock().ring.has_room() != Ok(false)
    }

    /// Whether the next byte wakes us, or the caller polls for it. False: there is a byte, or the end, to read.
    pub(super) fn sleeps(&self, fd: &OwnedFd) -> bool {
        let sleeps = self.wakeups_suppressed.load(Ordering::Relaxed)
            || self.arm(&mut self.way_in.lock(), fd) == Ok(true);
        sleeps && !self.ended.load(Ordering::Acquire) // `arm` may have found the end.
    }

    /// Asks the peer to wake us for the next byte. False: there is one.
    fn arm(&self, way_in: &mut Incoming, fd: &OwnedFd) -> Result<bool, PeerViolation> {
        self.begin_wait(fd, By::Reader);
        way_in.arm()
    }

    /// The doorbell, if the reader may sleep on it.
    pub(super) fn doorbell(&self) -> Option<&Doorbell> {
        self.doorbell.as_ref()
    }

    /// Asks the peer to ring the doorbell for the next byte. If the peer finds no sleeper there, it sends a wake-up
    /// on the socket; the thread that then finds the ring empty arms the next wake-up. False: there is a byte, or the
    /// end, to read.
    pub(super) fn arm_doorbell(&self) -> bool {
        self.belled.store(true, Ordering::Relaxed);
        let mut way_in = self.way_in.lock();
        self.wakeups_suppressed.store(false, Ordering::Relaxed);
        way_in.arm_doorbell() == Ok(true) && !self.ended.load(Ordering::Acquire)
    }

    /// Counts a wait, for which the peer may send one wake-up, and makes room for that on the socket.
    fn begin_wait(&self, fd: &OwnedFd, by: By) {
        if self.waits.fetch_add(1, Ordering::Relaxed) >= WAITS_MAX {
            self.on_wakeup(fd, false);
            self.heard[by as usize].store(true, Ordering::Relaxed);
        }
    }

    /// Whether the direction `by` has drained the socket since the last call. Then it may have swallowed a wake-up of
    /// the other direction, so the caller checks that direction.
    pub(super) fn take_drained_wakeup(&self, by: By) -> bool {
        let heard = &self.heard[by as usize];
        heard.load(Ordering::Relaxed) && heard.swap(false, Ordering::SeqCst)
    }

    /// Whether large bodies find little room. If so, the peer wakes us when they find more. Called by the writer.
    pub(super) fn lacks_room(&self, fd: &OwnedFd) -> bool {
        let arena = self.arena();
        if arena.is_short() {
            self.begin_wait(fd, By::Writer);
        }
        arena.lacks_room()
    }

    /// Tells the peer that it need not wake us.
    pub(super) fn suppress_wakeups(&self) {
        let mut way_in = self.way_in.lock();
        if !self.wakeups_suppressed.swap(true, Ordering::Relaxed) {
            way_in.disarm();
        }
    }

    /// Asks the peer again to wake us for the next byte. False: there is one.
    pub(super) fn resume_wakeups(&self, fd: &OwnedFd) -> bool {
        self.wakeups_suppressed.store(false, Ordering::Relaxed);
        self.sleeps(fd)
    }

    /// Whether the socket is to be drained now: not at each wake-up, but before the kernel takes no more, or if there
    /// may be bytes that were not counted.
    pub(super) fn is_loud(&self) -> bool {
        self.waits.load(Ordering::Relaxed) >= WAITS_MAX || self.belled.load(Ordering::Relaxed)
    }

    /// Drains the socket, up to its end if it has ended (`ended`). True: the socket has ended, or is useless because
    /// the peer floods it.
    pub(super) fn on_wakeup(&self, fd: &OwnedFd, ended: bool) -> bool {
        self.belled.store(false, Ordering::Relaxed);
        self.waits.store(0, Ordering::Relaxed); // A wait that begins meanwhile counts, drained or not.
        let mut bytes = [0; HEARD_BYTES];
        for _ in 0..HEARD_TIMES {
            match net::read(fd, &mut bytes, &mut []) {
                Ok(count) if count == HEARD_BYTES || count > 0 && ended => {}
                Ok(1..) | Err(Errno::AGAIN) => return false,
                _ => break,
            }
        }
        self.ended.store(true, Ordering::Release);
        true
    }

    /// Returns our ring's memory to the kernel if the ring is idle. False: it is not.
    pub(super) fn shrink(&self) -> bool {
        self.out.lock().ring.shrink()
    }
}

impl Out {
    fn wake(&mut self, fd: &OwnedFd) {
        self.since = 0;
        if std::mem::take(&mut self.due) && !self.ring.wakes() {
            ring(fd);
        }
    }
}

fn lied(_: PeerViolation) -> Errno {
    Errno::PROTO
}

/// Wakes the peer. A full socket is ignored: then the peer did not drain as it should (`WAITS_MAX`).
pub(super) fn ring(fd: &OwnedFd) {
    let _ = net::write(fd, &[IoSlice::new(&[0])]);
}
