//! A stream of bytes between two processes, through memory that both have.
//!
//! Each process makes one piece of memory, a [`Half`], which it alone writes: the bytes that it sends, how far they
//! reach, how far it has read the other's, and what it waits for. It reads the other's half, and trusts nothing there:
//! a number is taken only where it goes with what is known ([`Lied`]), and bytes are copied out before anybody looks at
//! them. What a process decides by is what it remembers itself, never what lies in its own half.
//!
//! ```text
//!   0           HEAD                                  HEAD + ring                       HEAD + ring + arena
//!   | head      | ring: position p lies at p % ring   | arena: large bodies (`arena`)   |
//! ```
//! A writer who finds that all is taken, a page or more into the ring, goes back to the ring's beginning: it leaves out
//! the positions up to there and says so (`begin`). So a connection that never has much under way takes little memory,
//! and what it takes stays in the processors' caches.
//!
//! Who has found nothing says so in its half ([`Incoming::arm`], [`Outgoing::want_room`]), and the other one learns
//! when it has to wake it, which it does by other means (a byte on their socket); or it sleeps by its [`Bell`], where
//! it can be woken without ([`Incoming::arm_bell`], [`Outgoing::wakes`]).
//!
//! Synchronisation, by name:
//! - SEND: the bytes are copied, then `sent` is stored with release; it is loaded with acquire before they are read.
//! - TAKE: the same the other way round, with `taken`, before their place is written again.
//! - ARM: `armed` is made odd, fence, `sent` is looked at / `sent`, fence, `armed`: one of both sees the other.
//! - WANT: the same for room, with `wanting` and `taken`. `wanting` is stored with release and loaded with acquire, so
//!   that who wakes a writer knows all that it had sent when it began to wait, and wakes it for room that is there.
//!
//! `armed` and `wanting` are odd while somebody waits, and another odd number each time: one wait is ended once. Of
//! `armed` the second bit says that who waits sleeps by its bell.

use std::any::Any;
use std::io::IoSlice;
use std::sync::Arc;

use pinnace_sys::memory::Memory;

use crate::arena::{Arena, Halves};
use crate::bell::Bell;
use crate::sync::{self, AtomicU32, AtomicU64, Ordering, Padded, fence};
use crate::word::{Among, Word};

/// Where the ring begins, in bytes: a page, so that the pages behind it can be given back.
pub const HEAD: usize = 4096;
/// How many times as large as its ring an arena is; a power of two.
const ARENA: usize = 4;
/// The smallest and the largest ring that is taken, in bytes; powers of two. The largest is what we make ourselves.
pub const RING_MIN: usize = 64 * 1024;
pub const RING_MAX: usize = 1 << 20;
/// Bytes that are copied before the other side is told: it copies them out meanwhile, and they are still in a cache.
const STRIDE: usize = if cfg!(loom) { 2 } else { 16 * 1024 };
/// Bytes into the ring from which on a writer looks whether it can begin anew.
const NEAR: usize = if cfg!(loom) { 2 } else { 4096 };

/// What one process writes and the other reads, beside the ring.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Head {
    sent: Padded<Sent>,
    /// Bytes taken out of the other half's.
    taken: Padded<AtomicU64>,
    /// Odd: its writer waits for bytes of the other's.
    armed: Padded<AtomicU32>,
    /// Odd: its writer waits for room in its own ring.
    wanting: Padded<AtomicU32>,
    /// Up to where its writer is done with what lies in the other half's arena.
    pub(crate) repaid: Padded<AtomicU64>,
    /// Odd: its writer waits for room in its own arena.
    pub(crate) lacking: Padded<AtomicU32>,
    /// Where its writer sleeps.
    pub(crate) bell: Padded<Word>,
}

/// In `armed`: who waits sleeps by its bell.
const BY_BELL: u32 = 2;
/// Looks for who is about to sleep by its bell, each after so many pauses: it is a system call away from that.
const KNOCKS: u32 = if cfg!(loom) { 1 } else { 4 };
const PAUSES: u32 = 64;

/// How far a writer has come.
#[derive(Default)]
#[repr(C)]
struct Sent {
    /// Bytes sent through this half's ring, from the beginning, and positions that were left out.
    to: AtomicU64,
    /// Where the positions ended that were left out last.
    begin: AtomicU64,
}

/// One process's memory, as either of them has it.
#[derive(Clone)]
pub struct Half {
    at: *mut u8,
    ring: usize,
    pub(crate) arena: usize,
    /// What keeps it where it is.
    memory: Arc<dyn Any + Send + Sync>,
}

// SAFETY: what it points to is read and written as atomics, or copied by one thread at a time as the positions say.
unsafe impl Send for Half {}
// SAFETY: as above.
unsafe impl Sync for Half {}

/// The peer has written what cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lied;

impl Half {
    /// What keeps the memory mapped.
    #[cfg(not(loom))]
    pub(crate) fn owner(&self) -> Arc<dyn Any + Send + Sync> {
        self.memory.clone()
    }

    /// The size of a half whose ring has so many bytes.
    pub fn size(ring: usize) -> usize {
        HEAD + ring * (1 + ARENA)
    }

    /// Whether memory of so many bytes can be a half.
    pub fn is_size(bytes: u64) -> bool {
        Half::ring_of(bytes).is_some()
    }

    fn ring_of(bytes: u64) -> Option<usize> {
        let ring = usize::try_from(bytes.saturating_sub(HEAD as u64)).ok()? / (1 + ARENA);
        let is_ring = ring.is_power_of_two() && (RING_MIN..=RING_MAX).contains(&ring);
        (is_ring && Half::size(ring) as u64 == bytes).then_some(ring)
    }

    /// A half in `memory`; None where its size is none.
    pub fn new(memory: Memory) -> Option<Half> {
        let (at, ring) = (memory.as_ptr(), Half::ring_of(memory.size() as u64)?);
        // SAFETY: so many bytes of zeros, or of whatever the peer has made of them, for as long as it is kept.
        Some(unsafe { Half::at(at, ring, ring * ARENA, Arc::new(memory)) })
    }

    /// # Safety
    /// A `Head`, and `ring` and `arena` bytes behind `HEAD` must lie at `at` for as long as `memory` is kept.
    unsafe fn at(at: *mut u8, ring: usize, arena: usize, memory: Arc<dyn Any + Send + Sync>) -> Half {
        Half { at, ring, arena, memory }
    }

    /// Whether this process has the memory: a child of the one that has does not.
    pub(crate) fn is_here(&self) -> bool {
        self.memory.downcast_ref::<Memory>().is_none_or(Memory::is_here)
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> &Head {
        // SAFETY: a head lies there, of atomics alone, for which any bytes are good.
        unsafe { &*self.at.cast::<Head>() }
    }

    /// Gives the pages of the ring and the arena back to the system. Nothing may be in them that anybody still wants.
    fn give_back(&self) {
        if let Some(memory) = self.memory.downcast_ref::<Memory>() {
            memory.give_back(HEAD);
        }
    }

    /// Where position `position` lies, and how many bytes follow until the ring's end.
    #[inline(always)]
    fn place(&self, position: u64) -> (*mut u8, usize) {
        let offset = position as usize & (self.ring - 1);
        // SAFETY: within the ring.
        (unsafe { self.at.add(HEAD + offset) }, self.ring - offset)
    }

    /// Where position `position` of the arena lies.
    pub(crate) fn in_arena(&self, position: u64) -> *mut u8 {
        // SAFETY: within the arena.
        unsafe { self.at.add(HEAD + self.ring + (position as usize & (self.arena - 1))) }
    }
}

/// The way out: our half's ring, and how far the peer has taken it.
pub struct Outgoing {
    ours: Half,
    theirs: Half,
    arena: sync::Arc<Arena>,
    sent: u64,
    /// As the peer said last, or as far as positions were left out behind that.
    taken: u64,
    /// As the peer said last.
    said: u64,
    /// Where the positions ended that were left out last.
    begin: u64,
    /// The wait of the peer's that was ended last.
    ended: u32,
    /// Our own `wanting`.
    wanting: u32,
}

/// The way in: the peer's ring, and how far we have taken it.
pub struct Incoming {
    ours: Half,
    theirs: Half,
    taken: u64,
    /// As the peer said last.
    sent: u64,
    /// Our own `armed`.
    armed: u32,
    /// The wait for room of the peer's that was ended last.
    ended: u32,
}

/// Both ways of a connection; `ours` was made by this process. The way in is armed.
pub fn shared(ours: Half, theirs: Half) -> (Outgoing, Incoming) {
    let head = ours.head();
    head.armed.0.store(1, Ordering::SeqCst);
    let arena = sync::Arc::new(Arena::new(ours.clone(), theirs.clone()));
    let (near, far) = (ours.clone(), theirs.clone());
    let out = Outgoing {
        ours: near,
        theirs: far,
        arena,
        sent: 0,
        taken: 0,
        said: 0,
        begin: 0,
        ended: 0,
        wanting: 0,
    };
    (out, Incoming { ours, theirs, taken: 0, sent: 0, armed: 1, ended: 0 })
}

impl Outgoing {
    /// Copies as much in as there is room for, but for the first `skip` bytes; returns how much. `wake` is called where
    /// the peer has to be woken.
    pub fn write(
        &mut self,
        slices: &[IoSlice<'_>],
        mut skip: usize,
        mut wake: impl FnMut(),
    ) -> Result<usize, Lied> {
        let mut written = 0;
        if self.sent as usize & (self.ours.ring - 1) >= NEAR {
            self.begin_anew()?;
        }
        for slice in slices {
            let mut rest: &[u8] = slice.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(slice.len());
            while !rest.is_empty() {
                let mut room = self.ours.ring - (self.sent - self.taken) as usize;
                if room < rest.len().min(STRIDE) {
                    room = self.look_for_room()?;
                }
                let (to, until_end) = self.ours.place(self.sent);
                let count = rest.len().min(room).min(until_end).min(STRIDE);
                if count == 0 {
                    return Ok(written);
                }
                // SAFETY: `count` bytes of the ring that the peer has taken, or was never given.
                unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), to, count) };
                rest = &rest[count..];
                written += count;
                self.sent += count as u64;
                self.publish(&mut wake);
            }
        }
        Ok(written)
    }

    /// Goes back to the beginning of the ring, where all is taken.
    fn begin_anew(&mut self) -> Result<(), Lied> {
        if self.look_for_room()? == self.ours.ring {
            self.begin = self.sent.next_multiple_of(self.ours.ring as u64);
            (self.sent, self.taken) = (self.begin, self.begin);
            self.ours.head().sent.0.begin.store(self.begin, Ordering::Relaxed); // With the next SEND.
        }
        Ok(())
    }

    fn publish(&mut self, wake: &mut impl FnMut()) {
        self.ours.head().sent.0.to.store(self.sent, Ordering::Release); // SEND
        fence(Ordering::SeqCst); // ARM
        let armed = self.theirs.head().armed.0.load(Ordering::Relaxed);
        if armed & 1 == 1 && armed != self.ended {
            self.ended = armed;
            wake();
        }
    }

    /// Wakes the peer, where it sleeps by its bell or has found by itself what it was to be woken for. False: it waits,
    /// and has to be told by other means.
    pub fn wakes(&self) -> bool {
        let theirs = self.theirs.head();
        for knock in 0..KNOCKS {
            let armed = theirs.armed.0.load(Ordering::Relaxed);
            if armed != self.ended {
                return true; // It has begun another wait since, and has looked (ARM), or will before it does.
            }
            if armed & BY_BELL == 0 {
                return false;
            }
            if theirs.bell.0.wake_one(Among::Processes) {
                return true;
            }
            if knock + 1 < KNOCKS {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
            }
        }
        false
    }

    /// Looks how far the peer is; returns how much room there is.
    fn look_for_room(&mut self) -> Result<usize, Lied> {
        let taken = self.theirs.head().taken.0.load(Ordering::Acquire); // TAKE
        if taken < self.said || taken > self.sent {
            return Err(Lied);
        }
        self.said = taken;
        self.taken = taken.max(self.begin);
        Ok(self.ours.ring - (self.sent - self.taken) as usize)
    }

    /// Asks to be woken when there is much room. True: there is already.
    pub fn want_room(&mut self) -> Result<bool, Lied> {
        self.wanting = next_odd(self.wanting);
        self.ours.head().wanting.0.store(self.wanting, Ordering::Release); // Behind `sent`.
        fence(Ordering::SeqCst); // WANT
        self.has_room()
    }

    /// Whether there is as much room as who waited for it is woken for.
    pub fn has_room(&mut self) -> Result<bool, Lied> {
        Ok(self.look_for_room()? >= self.ours.ring / 2)
    }

    /// Where large bodies go.
    pub fn arena(&self) -> &sync::Arc<Arena> {
        &self.arena
    }

    /// Gives the memory of ring and arena back to the system, where the peer has taken all that was sent. Nobody may
    /// put anything in the arena meanwhile.
    pub fn shrink(&mut self) -> bool {
        let is_empty = self.look_for_room() == Ok(self.ours.ring) && self.arena.is_idle();
        if is_empty {
            self.ours.give_back();
        }
        is_empty
    }
}

impl Incoming {
    /// What the borrower of the peer's bodies is made of.
    pub fn halves(&self) -> Halves {
        Halves { ours: self.ours.clone(), theirs: self.theirs.clone() }
    }

    /// Copies as much out as there is, into both buffers in turn; returns how much. `wake` is called where the peer has
    /// to be woken.
    pub fn read(
        &mut self,
        first: &mut [u8],
        second: &mut [u8],
        mut wake: impl FnMut(),
    ) -> Result<usize, Lied> {
        let mut read = 0;
        for mut rest in [first, second] {
            while !rest.is_empty() {
                if self.sent == self.taken && !self.look()? {
                    return Ok(read);
                }
                let (from, until_end) = self.theirs.place(self.taken);
                let there = (self.sent - self.taken) as usize;
                let count = rest.len().min(there).min(until_end).min(STRIDE);
                // SAFETY: `count` bytes of the peer's ring. It may write them meanwhile, against the rules: then these
                // are other bytes than it has sent, and no more than that.
                unsafe { std::ptr::copy_nonoverlapping(from, rest.as_mut_ptr(), count) };
                rest = &mut rest[count..];
                read += count;
                self.taken += count as u64;
                self.release(&mut wake);
            }
        }
        Ok(read)
    }

    fn release(&mut self, wake: &mut impl FnMut()) {
        self.ours.head().taken.0.store(self.taken, Ordering::Release); // TAKE
        if self.is_half_full() {
            return; // Who waits for room is woken for much of it.
        }
        fence(Ordering::SeqCst); // WANT
        let wanting = self.theirs.head().wanting.0.load(Ordering::Acquire);
        if wanting & 1 == 1 && wanting != self.ended {
            // It may have sent more than we know of before it began to wait, and is woken once. What cannot be, the
            // next read finds.
            if self.look().is_ok() && !self.is_half_full() {
                self.ended = wanting;
                wake();
            }
        }
    }

    /// Whether more than half of the peer's ring is in use, as far as we know.
    fn is_half_full(&self) -> bool {
        (self.sent - self.taken) as usize > self.theirs.ring / 2
    }

    /// Looks how far the peer has sent. False: nothing new.
    fn look(&mut self) -> Result<bool, Lied> {
        let line = &self.theirs.head().sent.0;
        let sent = line.to.load(Ordering::Acquire); // SEND
        let begin = line.begin.load(Ordering::Relaxed);
        // One that is ahead of `sent` is that of what comes next.
        let taken = if begin <= sent { self.taken.max(begin) } else { self.taken };
        if sent < self.sent || sent - taken > self.theirs.ring as u64 {
            return Err(Lied);
        }
        (self.sent, self.taken) = (sent, taken);
        Ok(sent != self.taken)
    }

    /// Whether there is something to read.
    #[inline]
    pub fn has_bytes(&mut self) -> bool {
        self.sent != self.taken || self.look() != Ok(false)
    }

    /// Takes back that the next byte is to wake us: whoever reads looks by itself.
    pub fn disarm(&mut self) {
        if self.armed & 1 == 1 {
            self.armed &= !1;
            self.ours.head().armed.0.store(self.armed, Ordering::Relaxed);
        }
    }

    /// Asks to be woken by the next byte. False: there is one already.
    pub fn arm(&mut self) -> Result<bool, Lied> {
        self.arm_as(0)
    }

    /// The same for who is going to sleep by its bell, and has listened there before.
    pub fn arm_bell(&mut self) -> Result<bool, Lied> {
        self.arm_as(BY_BELL)
    }

    fn arm_as(&mut self, how: u32) -> Result<bool, Lied> {
        let wait = (self.armed | 3).wrapping_add(1); // Other bits than those say which wait it is.
        self.armed = wait | how | 1;
        self.ours.head().armed.0.store(self.armed, Ordering::Relaxed);
        fence(Ordering::SeqCst); // ARM
        self.look().map(|found| !found)
    }

    /// Where we sleep.
    pub fn bell(&self) -> Bell {
        Bell::of(&self.ours)
    }
}

fn next_odd(number: u32) -> u32 {
    number.wrapping_add(1) | 1
}

#[cfg(all(test, loom))]
#[path = "shared_loom_tests.rs"]
mod loom_tests;
#[cfg(all(test, not(loom)))]
#[path = "shared_tests.rs"]
mod tests;
