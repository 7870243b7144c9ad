//! A local connection whose bytes go through shared memory: the socket stays as a doorbell, and as the sign that the
//! peer lives.
//!
//! What is written to the socket from now on are bytes without a meaning, each of which wakes the peer: it has said
//! that it waits for what has just happened, and each wait is ended once. The end of the socket is the end of the
//! connection, once the ring is read to its end.
//!
//! The poll set tells of a byte when it comes, and not that it is there (EPOLLET), so that it need not be read each
//! time ([`WAITS_MAX`]). Who takes bytes away may take one that the other way of the link waits for, and that nobody is
//! told of then: so that is seen to afterwards ([`Shared::take_heard`]).

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use pinnace_ring::{Arena, Bell, Borrower, Incoming, Lied, Outgoing, Taking};
use pinnace_sys::{Errno, OwnedFd, net, process};

/// Both ways.
pub(crate) struct Shared {
    out: Mutex<Out>,
    way_in: Mutex<Incoming>,
    /// Where who reads sleeps, if nothing else has to be waited for. Another user's process gets no hold of a sleeper:
    /// FUTEX_REQUEUE (futex(2)) could put it where we do not find it.
    bell: Option<Bell>,
    /// It was slept there since the socket's bytes were taken away: there may be some that are not counted.
    belled: AtomicBool,
    /// The socket has ended: nothing more comes but what is in the ring.
    ended: AtomicBool,
    /// Whoever reads looks by itself, and the next byte wakes nobody.
    hushed: AtomicBool,
    /// Waits that were begun since the socket's bytes were taken away: the peer may have rung for each.
    waits: AtomicU32,
    /// They were, by who reads, and by who writes.
    heard: [AtomicBool; 2],
}

/// Who takes the socket's bytes away.
#[derive(Clone, Copy)]
pub(super) enum By {
    Reader,
    Writer,
}

/// The way out, and whether the peer has to be woken for what was written.
struct Out {
    ring: Outgoing,
    due: bool,
    /// Bytes that were written since.
    since: usize,
}

/// Bytes that a sleeping peer is not woken for as long as more are about to follow.
const QUIET: usize = 256 * 1024;

/// Waits after which what has gathered on the socket is taken away: the peer rings once for each, and where the kernel
/// takes no more nobody would be told. It holds hundreds of bytes that are sent one by one, and six at least, as few as
/// SO_SNDBUF (socket(7)) may say.
const WAITS_MAX: u32 = 4;
/// Bytes that are taken away at once, and how many times: a peer that has sent more breaks the rules.
const HEARD_BYTES: usize = 1024;
const HEARD_TIMES: usize = 16;

impl Shared {
    /// What goes through memory beside `fd`.
    pub(super) fn new(fd: &OwnedFd, (out, way_in): (Outgoing, Incoming)) -> Shared {
        let out = Mutex::new(Out { ring: out, due: false, since: 0 });
        let is_of_ours = net::peer_process(fd).is_some_and(|peer| peer.uid == process::user());
        let bell = is_of_ours.then(|| way_in.bell());
        Shared {
            out,
            way_in: Mutex::new(way_in),
            bell,
            belled: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            hushed: AtomicBool::new(false),
            waits: AtomicU32::new(1), // The way in is armed.
            heard: Default::default(),
        }
    }

    /// Where large bodies go.
    pub(super) fn arena(&self) -> Arc<Arena> {
        self.out.lock().ring.arena().clone()
    }

    /// Takes the peer's large bodies.
    pub(super) fn borrower(&self, taking: Taking, wake: Box<dyn Fn() + Send + Sync>) -> Borrower {
        self.way_in.lock().halves().borrower(taking, wake)
    }

    /// As of a socket; `wake` follows. `rings`: the peer rings when there is room again.
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

    /// A peer that sleeps is woken for what was written: nothing more follows at once.
    pub(super) fn wake(&self, fd: &OwnedFd) {
        self.out.lock().wake(fd);
    }

    /// As of a socket; EAGAIN where the next byte will wake us, or is looked for.
    pub(super) fn read(&self, fd: &OwnedFd, first: &mut [u8], second: &mut [u8]) -> Result<usize, Errno> {
        let mut way_in = self.way_in.lock();
        loop {
            match way_in.read(first, second, || ring(fd)).map_err(lied)? {
                0 if self.hushed.load(Ordering::Relaxed) && !self.ended.load(Ordering::Acquire) => {
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

    /// Whether there is something in the ring.
    pub(super) fn has_read(&self) -> bool {
        self.way_in.lock().has_bytes()
    }

    /// Whether there is much room, after there was none.
    pub(super) fn has_room(&self) -> bool {
        self.out.lock().ring.has_room() != Ok(false)
    }

    /// Whether the next byte will wake us, or is looked for; else there is one, or the end, which only a read finds.
    pub(super) fn sleeps(&self, fd: &OwnedFd) -> bool {
        let sleeps = self.hushed.load(Ordering::Relaxed) || self.arm(&mut self.way_in.lock(), fd) == Ok(true);
        sleeps && !self.ended.load(Ordering::Acquire) // Which `arm` may have found.
    }

    /// Asks to be woken by the next byte. False: there is one.
    fn arm(&self, way_in: &mut Incoming, fd: &OwnedFd) -> Result<bool, Lied> {
        self.begin_wait(fd, By::Reader);
        way_in.arm()
    }

    /// Where who reads sleeps, unless it may not.
    pub(super) fn bell(&self) -> Option<&Bell> {
        self.bell.as_ref()
    }

    /// Asks to be woken by the next byte, for who is going to sleep by the bell. The socket rings all the same where
    /// the peer found nobody asleep there; whoever reads then, and finds nothing more, has it ring for the next one.
    /// False: there is one, or the end, which only a read finds.
    pub(super) fn arm_bell(&self) -> bool {
        self.belled.store(true, Ordering::Relaxed);
        let mut way_in = self.way_in.lock();
        self.hushed.store(false, Ordering::Relaxed);
        way_in.arm_bell() == Ok(true) && !self.ended.load(Ordering::Acquire)
    }

    /// The peer may ring once more from here on, and there is room for that.
    fn begin_wait(&self, fd: &OwnedFd, by: By) {
        if self.waits.fetch_add(1, Ordering::Relaxed) >= WAITS_MAX {
            self.hear(fd, false);
            self.heard[by as usize].store(true, Ordering::Relaxed);
        }
    }

    /// Whether the socket's bytes were taken away since the last call, by who reads or writes; that is who asks. The
    /// other way may have been woken by one of them, and nobody is told.
    pub(super) fn take_heard(&self, by: By) -> bool {
        let heard = &self.heard[by as usize];
        heard.load(Ordering::Relaxed) && heard.swap(false, Ordering::SeqCst)
    }

    /// Whether large bodies find little room. If so, the peer wakes us when they find more. For who writes.
    pub(super) fn lacks_room(&self, fd: &OwnedFd) -> bool {
        let arena = self.arena();
        if arena.is_short() {
            self.begin_wait(fd, By::Writer);
        }
        arena.lacks_room()
    }

    /// From here on nobody has to wake us.
    pub(super) fn hush(&self) {
        let mut way_in = self.way_in.lock();
        if !self.hushed.swap(true, Ordering::Relaxed) {
            way_in.disarm();
        }
    }

    /// From here on the next byte wakes us again. False: there is one.
    pub(super) fn rouse(&self, fd: &OwnedFd) -> bool {
        self.hushed.store(false, Ordering::Relaxed);
        self.sleeps(fd)
    }

    /// Whether it is time to take away what has gathered on the socket: not each time that it rings, but before the
    /// kernel takes no more; or where there may be some that were not counted.
    pub(super) fn is_loud(&self) -> bool {
        self.waits.load(Ordering::Relaxed) >= WAITS_MAX || self.belled.load(Ordering::Relaxed)
    }

    /// Takes away what the socket holds, to its end where it has one (`ended`). True: it has ended, or is of no use,
    /// because the peer floods it.
    pub(super) fn hear(&self, fd: &OwnedFd, ended: bool) -> bool {
        self.belled.store(false, Ordering::Relaxed);
        self.waits.store(0, Ordering::Relaxed); // One that begins meanwhile counts, whether or not its byte is taken.
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

    /// Gives the memory of our ring back, where it is idle.
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

fn lied(_: Lied) -> Errno {
    Errno::PROTO
}

/// Wakes the peer. Where the kernel takes no more the peer has not taken away what it should have (`WAITS_MAX`).
pub(super) fn ring(fd: &OwnedFd) {
    let _ = net::write(fd, &[IoSlice::new(&[0])]);
}
