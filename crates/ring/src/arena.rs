//! Large bodies between two processes: the sender copies them in once, the receiver copies them out once.
//!
//! Each half has an arena behind its ring, which its writer fills from beginning to end, over and over. A body is
//! copied into the arena when it is put in a queue ([`Lender::put`]). A loan goes through the ring in its place:
//!
//! ```text
//! loan        flags|LOAN   position(8, BE)   len(8, BE)     (the bytes lie at position % arena)
//! ```
//! The receiver copies the bytes when they are wanted ([`Body::copy_to`]) or, if it trusts the peer, reads them in
//! place ([`Taking`]). It publishes up to which position it is done with them (`repaid`). Bodies may be dropped in
//! any order; loans are repaid in the order in which they were made. A sender that finds everything repaid returns to
//! the arena's beginning, so that a sender with few bytes on loan touches little memory. If the arena has no room, a
//! body goes through the ring like any other. Neither side blocks on the other here, but a sender that can wait may
//! ask for room ([`Arena::lacks_room`]).
//!
//! Synchronisation, by name:
//! - LEND: the bytes are copied before their loan is; the loan is published by SEND.
//! - REPAY: the receiver reads the bytes, then stores `repaid` with release; the sender loads it with acquire before
//!   it overwrites them.
//! - LACK: the sender makes `lacking` odd, fences, loads `repaid`; the receiver stores `repaid`, fences, loads
//!   `lacking`. At least one of them sees the other's store.

use std::collections::VecDeque;
use std::sync::OnceLock;

use crate::shared::Half;
use crate::sync::{Arc, AtomicU32, AtomicU64, Mutex, Ordering, enter, fence};
use crate::{Body, NoMemory, pool};

/// Smaller bodies are copied through the ring, which costs less than the bookkeeping of a loan. In bytes.
pub const LOAN_MIN: usize = if cfg!(loom) { 64 } else { 4096 };
/// Alignment of bodies in the arena, in bytes.
const ALIGN: u64 = 64;
/// The sender checks whether it can return to the arena's beginning each time it crosses a multiple of this, in
/// bytes.
const LAP: u64 = 64 * 1024;

/// The bookkeeping of our arena, shared by the threads of this process that use it.
pub struct Arena {
    ours: Half,
    theirs: Half,
    /// Where the next body goes.
    put: AtomicU64,
    /// The end of the last body with a completely written loan.
    offered: AtomicU64,
    /// Position at which the sender last returned to the arena's beginning. Everything before it is free.
    begin: AtomicU64,
    /// Bodies that are queued.
    queued: AtomicU64,
    /// The next value for `lacking`: always odd, a new one for each request for room.
    next_room_request: AtomicU32,
}

impl Arena {
    pub(crate) fn new(ours: Half, theirs: Half) -> Arena {
        let (put, offered, begin, queued) = Default::default();
        Arena { ours, theirs, put, offered, begin, queued, next_room_request: AtomicU32::new(1) }
    }

    /// The position up to which the arena is free.
    fn free_to(&self) -> u64 {
        let queued = self.queued.load(Ordering::Acquire);
        let offered = self.offered.load(Ordering::Acquire);
        // Do not trust a peer that has repaid more than it was offered.
        let repaid = self.theirs.head().repaid.0.load(Ordering::Acquire).min(offered); // REPAY
        match queued {
            // Nothing is queued and all that was offered is repaid: bodies put after those were rolled back, never
            // sent.
            0 if repaid == offered => self.put.load(Ordering::Relaxed),
            _ => repaid.max(self.begin.load(Ordering::Relaxed)),
        }
    }

    /// Returns true if nothing in it can still be read by either side.
    pub(crate) fn is_idle(&self) -> bool {
        self.free_to() == self.put.load(Ordering::Relaxed)
    }

    /// Returns true if more than half of it is in use.
    pub fn is_short(&self) -> bool {
        self.put.load(Ordering::Relaxed).saturating_sub(self.free_to()) > self.ours.arena as u64 / 2
    }

    /// As `is_short`; if true, the peer also wakes us when that changes.
    pub fn lacks_room(&self) -> bool {
        if !self.is_short() {
            return false;
        }
        let wish = self.next_room_request.fetch_add(2, Ordering::Relaxed);
        self.ours.head().lacking.0.store(wish, Ordering::Relaxed);
        fence(Ordering::SeqCst); // LACK
        self.is_short()
    }

    /// The loan of these bytes has been written completely.
    pub(crate) fn offer(&self, position: u64, len: usize) {
        self.offered.fetch_max(position + len as u64, Ordering::Release);
    }
}

/// A body's place in our arena, held while the body is queued.
pub(crate) struct ArenaPlace {
    pub(crate) arena: Arc<Arena>,
    pub(crate) position: u64,
}

impl Drop for ArenaPlace {
    fn drop(&mut self) {
        self.arena.queued.fetch_sub(1, Ordering::Release);
    }
}

/// The sender's end: puts bodies into the arena.
pub struct Lender {
    arena: Arc<Arena>,
    put: u64,
    /// The last known value of `Arena::free_to`.
    free_to: u64,
    /// The last message with bodies in the arena, by its number, and where the first of these bodies begins.
    message: u64,
    begins: u64,
    /// For the last body: true if it found no room, or if the next one of its size would not. None once reported.
    short: Option<bool>,
}

impl Lender {
    pub fn new(arena: Arc<Arena>) -> Lender {
        Lender { arena, put: 0, free_to: 0, message: 0, begins: 0, short: None }
    }

    /// Copies a body of message `message` in, if no more than `limit` bytes are in use afterwards. Returns None if
    /// there is no room now, or if the body's size is unsuitable for the arena.
    pub fn put(&mut self, data: &[u8], message: u64, limit: u64) -> Option<Body> {
        let (arena, len) = (self.arena.ours.arena as u64, data.len() as u64);
        let limit = limit.min(arena);
        if len < LOAN_MIN as u64 || len > limit / 2 {
            return None;
        }
        let mut at = self.put.next_multiple_of(ALIGN);
        if at / LAP != (at + len) / LAP && self.arena.is_idle() {
            at = at.next_multiple_of(arena);
            (self.put, self.free_to) = (at, at);
            self.arena.begin.store(at, Ordering::Relaxed);
            self.arena.put.store(at, Ordering::Relaxed);
        }
        if at % arena + len > arena {
            at = at.next_multiple_of(arena);
        }
        if !self.reaches(at + len, limit) {
            self.short = Some(true);
            return None;
        }
        if self.message != message {
            (self.message, self.begins) = (message, self.put);
        }
        self.put = at + len;
        self.short = Some(!self.reaches(self.put + len, limit));
        self.arena.put.store(self.put, Ordering::Relaxed);
        self.arena.queued.fetch_add(1, Ordering::Relaxed);
        // SAFETY: so many bytes of our own arena. They are free, so the peer reads none of them.
        unsafe {
            let to = self.arena.ours.in_arena(at);
            std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len());
            let lodging = ArenaPlace { arena: self.arena.clone(), position: at };
            Some(Body::lodged(to, data.len(), lodging)) // LEND
        }
    }

    /// Takes back the bodies of message `message`.
    pub fn rollback(&mut self, message: u64) {
        if self.message == message {
            self.put = self.begins.max(self.arena.begin.load(Ordering::Relaxed));
            self.arena.put.store(self.put, Ordering::Relaxed);
        }
    }

    /// Returns whether the last body found no room, or the next one of its size would not. Reports that once; None if
    /// no body was put since.
    #[inline(always)]
    pub fn take_short(&mut self) -> Option<bool> {
        self.short.take()
    }

    /// Returns true if no more than `limit` bytes would be in use up to `end`.
    fn reaches(&mut self, end: u64, limit: u64) -> bool {
        if end - self.free_to > limit {
            self.free_to = self.arena.free_to();
        }
        end - self.free_to <= limit
    }
}

/// The peer's arena, and our loans from it.
pub(crate) struct Loans {
    ours: Half,
    theirs: Half,
    book: Mutex<Book>,
    /// Wakes the peer, which may wait for room in its arena.
    wake: Box<dyn Fn() + Send + Sync>,
}

/// The loans that are not repaid yet, and the number of the first of them.
#[derive(Default)]
struct Book {
    first: u64,
    /// For each loan, where it ends and whether we are done with it.
    open: VecDeque<(u64, bool)>,
    /// The last request for room of the peer that was answered (its `lacking`).
    answered: u32,
}

impl Loans {
    fn open(&self, end: u64) -> Result<u64, NoMemory> {
        let mut book = enter(&self.book);
        book.open.try_reserve(1).map_err(|_| NoMemory)?;
        book.open.push_back((end, false));
        Ok(book.first + book.open.len() as u64 - 1)
    }

    /// Marks a loan as done with, and repays the loans at the front that are.
    fn repay(&self, number: u64) {
        if !self.ours.belongs_to_this_process() {
            return; // In a child of fork(2): the loan is its parent's.
        }
        let mut book = enter(&self.book);
        let index = (number - book.first) as usize;
        if let Some(loan) = book.open.get_mut(index) {
            loan.1 = true;
        }
        let mut repaid = None;
        while let Some(&(end, true)) = book.open.front() {
            book.open.pop_front();
            book.first += 1;
            repaid = Some(end);
        }
        let Some(repaid) = repaid else { return };
        self.ours.head().repaid.0.store(repaid, Ordering::Release); // REPAY
        let last = book.open.back().map_or(repaid, |&(end, _)| end);
        if last - repaid > self.theirs.arena as u64 / 2 {
            return; // A peer that lacks room is woken only when there is much of it.
        }
        fence(Ordering::SeqCst); // LACK
        let lacking = self.theirs.head().lacking.0.load(Ordering::Relaxed);
        if lacking & 1 == 1 && lacking != book.answered {
            book.answered = lacking;
            drop(book);
            (self.wake)();
        }
    }
}

/// A body's bytes in the peer's arena. The peer may change them at any time.
pub(crate) struct Loan {
    loans: Arc<Loans>,
    number: u64,
    /// The bytes as they were at the first access.
    copy: OnceLock<Vec<u8>>,
}

impl Loan {
    /// Returns a copy of the `len` bytes at `ptr`, made once.
    ///
    /// # Safety
    /// These must be the loan's bytes.
    pub(crate) unsafe fn copy(&self, ptr: *const u8, len: usize) -> &Vec<u8> {
        self.copy.get_or_init(|| {
            let mut bytes = Vec::with_capacity(len);
            // SAFETY: the caller's promise; the vector has room for `len` bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(ptr, bytes.as_mut_ptr(), len);
                bytes.set_len(len);
            }
            bytes
        })
    }

    /// The copy, if made, for the loan's only holder.
    pub(crate) fn copied(&mut self) -> Option<&mut Vec<u8>> {
        self.copy.get_mut()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.loans.repay(self.number);
    }
}

/// How the receiver takes an incoming loan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// Copies it at once.
    AtOnce,
    /// Leaves it in the arena until it is wanted. Any access is to a copy.
    WhenWanted,
    /// Reads it in place: the peer is trusted not to change it. It cannot be written.
    InPlace,
}

/// The receiver's end: takes loans.
pub struct Borrower {
    loans: Arc<Loans>,
    /// Where the last loan ended.
    end: u64,
    taking: Taking,
}

/// Why a loan is declined.
pub(crate) enum Declined {
    PeerViolation,
    NoMemory,
}

impl Borrower {
    /// Makes the body of a loan from the peer.
    pub(crate) fn borrow(&mut self, position: u64, len: u64) -> Result<Body, Declined> {
        let arena = self.loans.theirs.arena as u64;
        let end = position.checked_add(len).ok_or(Declined::PeerViolation)?;
        if len == 0 || position < self.end || len > arena || position % arena + len > arena {
            return Err(Declined::PeerViolation);
        }
        self.end = end;
        let (from, len) = (self.loans.theirs.in_arena(position), len as usize);
        let copy = match self.taking {
            Taking::AtOnce => Some(pool::take(len).map_err(|NoMemory| Declined::NoMemory)?),
            Taking::WhenWanted | Taking::InPlace => None,
        };
        let number = self.loans.open(end).map_err(|NoMemory| Declined::NoMemory)?;
        let loan = Loan { loans: self.loans.clone(), number, copy: OnceLock::new() };
        // SAFETY: so many bytes of the peer's arena, mapped for as long as the loan is kept. Their content is up to
        // the peer. A buffer of the pool has room for as many.
        unsafe {
            match copy {
                None if self.taking == Taking::InPlace => Ok(Body::entrusted(from, len, loan)),
                None => Ok(Body::lent(from, len, loan)),
                Some(mut buffer) => {
                    std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), len);
                    Ok(Body::of_buffer(buffer, len))
                }
            }
        }
    }
}

/// Both halves, to make a [`Borrower`] from.
pub struct Halves {
    pub(crate) ours: Half,
    pub(crate) theirs: Half,
}

impl Halves {
    /// `wake` wakes the peer. It is called on any thread.
    pub fn borrower(self, taking: Taking, wake: Box<dyn Fn() + Send + Sync>) -> Borrower {
        let (Halves { ours, theirs }, book) = (self, Mutex::new(Book::default()));
        Borrower { loans: Arc::new(Loans { ours, theirs, book, wake }), end: 0, taking }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/arena.rs"]
mod tests;
