//! A byte stream between two processes through shared memory.
//!
//! Each process makes one piece of memory, a [`Half`], which it alone writes: the bytes that it sends, how far they
//! reach, how far it has read the other half, and what it waits for. It reads the other half and trusts nothing in
//! it: a number is accepted only if it is consistent with what is known ([`PeerViolation`]), and bytes are copied out
//! before they are looked at. A process decides by what it remembers in private memory, never by what its own half
//! holds.
//!
//! ```text
//!   0           HEAD                                  HEAD + ring                       HEAD + ring + arena
//!   | head      | ring: position p lies at p % ring   | arena: large bodies (`arena`)   |
//! ```
//! If the reader has taken all bytes and the writer is a page or more into the ring, it returns to the beginning: it
//! skips the positions up to there and publishes that (`begin`). So a connection with few bytes in flight touches
//! little memory, which stays in the processors' caches.
//!
//! A side that finds nothing to do announces its wait in its half ([`Incoming::arm`], [`Outgoing::want_room`]). The
//! other side then learns when it has to wake it, which it does by other means (a byte on their socket). A receiver
//! that sleeps on its [`Doorbell`] can be woken without that ([`Incoming::arm_doorbell`], [`Outgoing::wakes`]).
//!
//! Synchronisation, by name:
//! - SEND: the writer copies the bytes, then stores `sent` with release; the reader loads it with acquire before it
//!   reads them.
//! - TAKE: the same in the other direction, with `taken`: the reader stores it after it has copied the bytes out, and
//!   the writer loads it before it overwrites them.
//! - ARM: the reader makes `armed` odd, fences, loads `sent`; the writer stores `sent`, fences, loads `armed`. At
//!   least one of them sees the other's store.
//! - WANT: the same for room, with `wanting` and `taken`. `wanting` is stored with release and loaded with acquire,
//!   so that the reader, before it wakes a writer, knows all that the writer had sent when it began to wait, and
//!   wakes it only if there is room.
//!
//! `armed` and `wanting` are odd during a wait, with another odd number for each wait: a wait is ended once. The
//! second bit of `armed` says that the waiting side sleeps on its doorbell.

use std::any::Any;
use std::io::IoSlice;
use std::sync::Arc;

use pinnace_sys::memory::Memory;

use crate::arena::{Arena, Halves};
use crate::doorbell::Doorbell;
use crate::futex_word::{Among, FutexWord};
use crate::sync::{self, AtomicU32, AtomicU64, Ordering, Padded, fence};

/// Offset of the ring, in bytes: a page, so that the pages behind it can be returned to the system.
pub const HEAD: usize = 4096;
/// Size of an arena as a multiple of its ring; a power of two.
const ARENA: usize = 4;
/// The smallest and the largest ring that is accepted, in bytes; powers of two. We make the largest.
pub const RING_MIN: usize = 64 * 1024;
pub const RING_MAX: usize = 1 << 20;
/// Bytes to copy before they are published: the other side copies them out meanwhile, while they are still in a
/// cache.
const STRIDE: usize = if cfg!(loom) { 2 } else { 16 * 1024 };
/// From this offset in the ring on, in bytes, a writer checks whether it can return to the beginning.
const RESTART_MIN: usize = if cfg!(loom) { 2 } else { 4096 };

/// The counters that one process writes and the other reads.
#[derive(Default)]
#[repr(C)]
pub(crate) struct HalfHeader {
    sent: Padded<Sent>,
    /// Bytes that its writer has taken out of the other half.
    taken: Padded<AtomicU64>,
    /// Odd: its writer waits for bytes from the other half.
    armed: Padded<AtomicU32>,
    /// Odd: its writer waits for room in its own ring.
    wanting: Padded<AtomicU32>,
    /// The position in the other half's arena up to which its writer is done with everything.
    pub(crate) repaid: Padded<AtomicU64>,
    /// Odd: its writer waits for room in its own arena.
    pub(crate) lacking: Padded<AtomicU32>,
    /// The futex word on which its writer sleeps.
    pub(crate) doorbell: Padded<FutexWord>,
}

/// In `armed`: the waiting side sleeps on its doorbell.
const BY_DOORBELL: u32 = 2;
/// Attempts to wake a peer that has announced its sleep and has not reached futex(2) yet, and the spins between them.
const WAKE_ATTEMPTS: u32 = if cfg!(loom) { 1 } else { 4 };
const PAUSES: u32 = 64;

/// How far a writer has come.
#[derive(Default)]
#[repr(C)]
struct Sent {
    /// Bytes sent through this half's ring, from the beginning, plus the positions that were skipped.
    to: AtomicU64,
    /// The end of the positions that were skipped last.
    begin: AtomicU64,
}

/// One process's memory, as mapped by either process.
#[derive(Clone)]
pub struct Half {
    at: *mut u8,
    ring: usize,
    pub(crate) arena: usize,
    /// Keeps the memory mapped.
    memory: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory is accessed as atomics, or copied by one thread at a time as the positions say.
unsafe impl Send for Half {}
// SAFETY: as above.
unsafe impl Sync for Half {}

/// The peer has written an impossible value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerViolation;

impl Half {
    /// The owner, which keeps the memory mapped.
    #[cfg(not(loom))]
    pub(crate) fn owner(&self) -> Arc<dyn Any + Send + Sync> {
        self.memory.clone()
    }

    /// The size of a half with a ring of `ring` bytes.
    pub fn size(ring: usize) -> usize {
        HEAD + ring * (1 + ARENA)
    }

    /// Returns true if memory of `bytes` bytes can be a half.
    pub fn is_size(bytes: u64) -> bool {
        Half::ring_of(bytes).is_some()
    }

    fn ring_of(bytes: u64) -> Option<usize> {
        let ring = usize::try_from(bytes.saturating_sub(HEAD as u64)).ok()? / (1 + ARENA);
        let is_ring = ring.is_power_of_two() && (RING_MIN..=RING_MAX).contains(&ring);
        (is_ring && Half::size(ring) as u64 == bytes).then_some(ring)
    }

    /// A half in `memory`. None if the memory's size is not that of a half.
    pub fn new(memory: Memory) -> Option<Half> {
        let (at, ring) = (memory.as_ptr(), Half::ring_of(memory.size() as u64)?);
        // SAFETY: so many bytes, zeros or whatever the peer has written there, mapped for as long as `memory` is
        // kept.
        Some(unsafe { Half::at(at, ring, ring * ARENA, Arc::new(memory)) })
    }

    /// # Safety
    /// A `HalfHeader`, and `ring` and `arena` bytes behind `HEAD` must lie at `at` for as long as `memory` is kept.
    unsafe fn at(at: *mut u8, ring: usize, arena: usize, memory: Arc<dyn Any + Send + Sync>) -> Half {
        Half { at, ring, arena, memory }
    }

    /// Returns true if this process has the memory. A child of fork(2) has not.
    pub(crate) fn belongs_to_this_process(&self) -> bool {
        self.memory.downcast_ref::<Memory>().is_none_or(Memory::belongs_to_this_process)
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> &HalfHeader {
        // SAFETY: a head lies there. It consists of atomics, for which any bytes are valid.
        unsafe { &*self.at.cast::<HalfHeader>() }
    }

    /// Returns the pages of ring and arena to the system. Neither side may need their content any more.
    fn give_back(&self) {
        if let Some(memory) = self.memory.downcast_ref::<Memory>() {
            memory.give_back(HEAD);
        }
    }

    /// The address of position `position`, and the number of bytes up to the ring's end.
    #[inline(always)]
    fn place(&self, position: u64) -> (*mut u8, usize) {
        let offset = position as usize & (self.ring - 1);
        // SAFETY: within the ring.
        (unsafe { self.at.add(HEAD + offset) }, self.ring - offset)
    }

    /// The address of position `position` of the arena.
    pub(crate) fn in_arena(&self, position: u64) -> *mut u8 {
        // SAFETY: within the arena.
        unsafe { self.at.add(HEAD + self.ring + (position as usize & (self.arena - 1))) }
    }
}

/// The sending direction: our half's ring, and how far the peer has taken it.
pub struct Outgoing {
    ours: Half,
    theirs: Half,
    arena: sync::Arc<Arena>,
    sent: u64,
    /// The peer's read position: as it last reported, or the end of the skipped positions if that is larger.
    taken: u64,
    /// The peer's read position, as it last reported.
    reported: u64,
    /// The end of the positions that were skipped last.
    begin: u64,
    /// The value of the peer's `armed` for which we last sent a wake-up; the peer uses a new value for each wait.
    ended: u32,
    /// Our own `wanting`.
    wanting: u32,
}

/// The receiving direction: the peer's ring, and how far we have taken it.
pub struct Incoming {
    ours: Half,
    theirs: Half,
    taken: u64,
    /// As the peer last reported.
    sent: u64,
    /// Our own `armed`.
    armed: u32,
    /// The peer's wait for room that was ended last (its `wanting`).
    ended: u32,
}

/// Both directions of a connection. `ours` was made by this process. The receiving direction is armed.
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
        reported: 0,
        begin: 0,
        ended: 0,
        wanting: 0,
    };
    (out, Incoming { ours, theirs, taken: 0, sent: 0, armed: 1, ended: 0 })
}

impl Outgoing {
    /// Copies in as much of `slices` as there is room for, without their first `skip` bytes; returns how much. Calls
    /// `wake` whenever the peer has to be woken.
    pub fn write(
        &mut self,
        slices: &[IoSlice<'_>],
        mut skip: usize,
        mut wake: impl FnMut(),
    ) -> Result<usize, PeerViolation> {
        let mut written = 0;
        if self.sent as usize & (self.ours.ring - 1) >= RESTART_MIN {
            self.restart_at_beginning()?;
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

    /// Returns to the beginning of the ring if everything is taken.
    fn restart_at_beginning(&mut self) -> Result<(), PeerViolation> {
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

    /// Wakes a peer that sleeps on its doorbell. Returns true if it was woken, or no longer waits for this. Returns
    /// false if it has to be woken by other means.
    pub fn wakes(&self) -> bool {
        let theirs = self.theirs.head();
        for knock in 0..WAKE_ATTEMPTS {
            let armed = theirs.armed.0.load(Ordering::Relaxed);
            if armed != self.ended {
                return true; // It has ended that wait. If it began another, it has loaded `sent` since (ARM) or will.
            }
            if armed & BY_DOORBELL == 0 {
                return false;
            }
            if theirs.doorbell.0.wake_one(Among::Processes) {
                return true;
            }
            if knock + 1 < WAKE_ATTEMPTS {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
            }
        }
        false
    }

    /// Loads how far the peer has read; returns how much room there is.
    fn look_for_room(&mut self) -> Result<usize, PeerViolation> {
        let taken = self.theirs.head().taken.0.load(Ordering::Acquire); // TAKE
        if taken < self.reported || taken > self.sent {
            return Err(PeerViolation);
        }
        self.reported = taken;
        self.taken = taken.max(self.begin);
        Ok(self.ours.ring - (self.sent - self.taken) as usize)
    }

    /// Asks to be woken when half of the ring is free. Returns true if it is already.
    pub fn want_room(&mut self) -> Result<bool, PeerViolation> {
        self.wanting = next_odd(self.wanting);
        self.ours.head().wanting.0.store(self.wanting, Ordering::Release); // After `sent`.
        fence(Ordering::SeqCst); // WANT
        self.has_room()
    }

    /// Returns true if half of the ring is free: a waiting writer is not woken for less.
    pub fn has_room(&mut self) -> Result<bool, PeerViolation> {
        Ok(self.look_for_room()? >= self.ours.ring / 2)
    }

    /// The arena for large bodies.
    pub fn arena(&self) -> &sync::Arc<Arena> {
        &self.arena
    }

    /// Returns the memory of ring and arena to the system if the peer has taken everything. Returns true if it has.
    /// Nothing may be put in the arena meanwhile.
    pub fn shrink(&mut self) -> bool {
        let is_empty = self.look_for_room() == Ok(self.ours.ring) && self.arena.is_idle();
        if is_empty {
            self.ours.give_back();
        }
        is_empty
    }
}

impl Incoming {
    /// Both halves, to make a [`Borrower`](crate::Borrower) of the peer's bodies from.
    pub fn halves(&self) -> Halves {
        Halves { ours: self.ours.clone(), theirs: self.theirs.clone() }
    }

    /// Copies out as much as there is, into both buffers in turn; returns how much. Calls `wake` whenever the peer
    /// has to be woken.
    pub fn read(
        &mut self,
        first: &mut [u8],
        second: &mut [u8],
        mut wake: impl FnMut(),
    ) -> Result<usize, PeerViolation> {
        let mut read = 0;
        for mut rest in [first, second] {
            while !rest.is_empty() {
                if self.sent == self.taken && !self.look()? {
                    return Ok(read);
                }
                let (from, until_end) = self.theirs.place(self.taken);
                let there = (self.sent - self.taken) as usize;
                let count = rest.len().min(there).min(until_end).min(STRIDE);
                // SAFETY: `count` bytes of the peer's ring. The peer may break the rules and write them meanwhile:
                // then they are not the bytes that it has sent, but nothing worse happens.
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
            return; // A writer that waits for room is woken only for half of the ring.
        }
        fence(Ordering::SeqCst); // WANT
        let wanting = self.theirs.head().wanting.0.load(Ordering::Acquire);
        if wanting & 1 == 1 && wanting != self.ended {
            // The peer may have sent more than we know of before it began to wait, and its wait is ended only once:
            // check again. The next read reports an impossible value.
            if self.look().is_ok() && !self.is_half_full() {
                self.ended = wanting;
                wake();
            }
        }
    }

    /// Returns true if more than half of the peer's ring is in use, as far as we know.
    fn is_half_full(&self) -> bool {
        (self.sent - self.taken) as usize > self.theirs.ring / 2
    }

    /// Loads how far the peer has sent. Returns false if there is nothing to read.
    fn look(&mut self) -> Result<bool, PeerViolation> {
        let line = &self.theirs.head().sent.0;
        let sent = line.to.load(Ordering::Acquire); // SEND
        let begin = line.begin.load(Ordering::Relaxed);
        // A `begin` ahead of `sent` belongs to bytes that are sent later.
        let taken = if begin <= sent { self.taken.max(begin) } else { self.taken };
        if sent < self.sent || sent - taken > self.theirs.ring as u64 {
            return Err(PeerViolation);
        }
        (self.sent, self.taken) = (sent, taken);
        Ok(sent != self.taken)
    }

    /// Returns true if there is something to read, or an impossible value to report.
    #[inline]
    pub fn has_bytes(&mut self) -> bool {
        self.sent != self.taken || self.look() != Ok(false)
    }

    /// Withdraws the request for a wake-up: the reader looks for bytes by itself.
    pub fn disarm(&mut self) {
        if self.armed & 1 == 1 {
            self.armed &= !1;
            self.ours.head().armed.0.store(self.armed, Ordering::Relaxed);
        }
    }

    /// Asks to be woken by the next byte. Returns false if there is one already.
    pub fn arm(&mut self) -> Result<bool, PeerViolation> {
        self.arm_as(0)
    }

    /// As `arm`, for a caller that is about to sleep on the doorbell and has called `listen` on it before.
    pub fn arm_doorbell(&mut self) -> Result<bool, PeerViolation> {
        self.arm_as(BY_DOORBELL)
    }

    fn arm_as(&mut self, how: u32) -> Result<bool, PeerViolation> {
        let wait = (self.armed | 3).wrapping_add(1); // The bits above the lowest two tell the waits apart.
        self.armed = wait | how | 1;
        self.ours.head().armed.0.store(self.armed, Ordering::Relaxed);
        fence(Ordering::SeqCst); // ARM
        self.look().map(|found| !found)
    }

    /// The doorbell that we sleep on.
    pub fn doorbell(&self) -> Doorbell {
        Doorbell::of(&self.ours)
    }
}

fn next_odd(number: u32) -> u32 {
    number.wrapping_add(1) | 1
}

#[cfg(all(test, loom))]
#[path = "tests/loom_shared.rs"]
mod loom_shared;
#[cfg(all(test, not(loom)))]
#[path = "tests/shared.rs"]
mod tests;
