//! Large bodies between two processes: copied once in, by who sends, and once out, by who receives.
//!
//! Behind the ring each half has an arena, which its writer goes through from the beginning to the end, and again. A
//! body is copied there when it is put in a queue ([`Lender::put`]), and what goes through the ring in its place is a
//! loan:
//!
//! ```text
//! loan        flags|LOAN   position(8, BE)   len(8, BE)     (the bytes lie at position % arena)
//! ```
//! Who receives has the bytes copied when they are wanted ([`Body::copy_to`]), or, where it trusts the peer, looks at
//! them where they lie ([`Taking`]), and says when it is done with them (`repaid`, a position up to which all is free
//! again). Bodies may be let go in any order; what was lent first is repaid first. A
//! sender who finds that all is repaid goes back to the arena's beginning, so that one that never lends much at a time
//! takes little memory. Where there is no room in the arena a body goes through the ring like any other. Nobody waits
//! for the other here, but a sender that has time may wait for room ([`Arena::lacks_room`]).
//!
//! Synchronisation, by name:
//! - LEND: the bytes are copied before their loan is, and that is SEND's.
//! - REPAY: bytes are read, then `repaid` is stored with release; it is loaded with acquire before their place is
//!   written again.
//! - LACK: `lacking` is made odd, fence, `repaid` is looked at / `repaid`, fence, `lacking`: one of both sees the
//!   other.

use std::collections::VecDeque;
use std::sync::OnceLock;

use crate::shared::Half;
use crate::sync::{Arc, AtomicU32, AtomicU64, Mutex, Ordering, enter, fence};
use crate::{Body, NoMemory, pool};

/// Bodies of fewer bytes than this are copied through the ring: it costs less than to keep account of them.
pub const LOAN_MIN: usize = if cfg!(loom) { 64 } else { 4096 };
/// Bodies begin at multiples of this.
const ALIGN: u64 = 64;
/// A sender looks whether it can begin anew when it comes to a multiple of this, in bytes.
const LAP: u64 = 64 * 1024;

/// Our arena, as all who have to do with it know it.
pub struct Arena {
    ours: Half,
    theirs: Half,
    /// Where the next body goes.
    put: AtomicU64,
    /// The end of the last body whose loan was written whole.
    offered: AtomicU64,
    /// Where it began anew last: what lies before is free.
    begin: AtomicU64,
    /// Bodies that lie in queues.
    queued: AtomicU64,
    /// Wishes for room so far, twice.
    wishes: AtomicU32,
}

impl Arena {
    pub(crate) fn new(ours: Half, theirs: Half) -> Arena {
        let (put, offered, begin, queued) = Default::default();
        Arena { ours, theirs, put, offered, begin, queued, wishes: AtomicU32::new(1) }
    }

    /// Up to where it is free.
    fn free_to(&self) -> u64 {
        let queued = self.queued.load(Ordering::Acquire);
        let offered = self.offered.load(Ordering::Acquire);
        // A peer that says more than it can know is not believed.
        let repaid = self.theirs.head().repaid.0.load(Ordering::Acquire).min(offered); // REPAY
        match queued {
            // What was put after these and is not there any more was never sent: it was taken back.
            0 if repaid == offered => self.put.load(Ordering::Relaxed),
            _ => repaid.max(self.begin.load(Ordering::Relaxed)),
        }
    }

    /// Whether nothing is in it that anybody may still read.
    pub(crate) fn is_idle(&self) -> bool {
        self.free_to() == self.put.load(Ordering::Relaxed)
    }

    /// Whether more than half of it is in use.
    pub fn is_short(&self) -> bool {
        self.put.load(Ordering::Relaxed).saturating_sub(self.free_to()) > self.ours.arena as u64 / 2
    }

    /// The same; if so, the peer wakes us when that is over.
    pub fn lacks_room(&self) -> bool {
        if !self.is_short() {
            return false;
        }
        let wish = self.wishes.fetch_add(2, Ordering::Relaxed);
        self.ours.head().lacking.0.store(wish, Ordering::Relaxed);
        fence(Ordering::SeqCst); // LACK
        self.is_short()
    }

    /// A loan of these bytes was written whole.
    pub(crate) fn offer(&self, position: u64, len: usize) {
        self.offered.fetch_max(position + len as u64, Ordering::Release);
    }
}

/// A body's place in our arena, for as long as it is queued.
pub(crate) struct Lodging {
    pub(crate) arena: Arc<Arena>,
    pub(crate) position: u64,
}

impl Drop for Lodging {
    fn drop(&mut self) {
        self.arena.queued.fetch_sub(1, Ordering::Release);
    }
}

/// Who puts bodies in: the sender's end.
pub struct Lender {
    arena: Arc<Arena>,
    put: u64,
    /// As far as is known.
    free_to: u64,
    /// A message, by its number, of which bodies were put in, and where the first of them begins.
    message: u64,
    begins: u64,
    /// Of the last body: it found no room, or the next one like it will not. None: that was told.
    short: Option<bool>,
}

impl Lender {
    pub fn new(arena: Arc<Arena>) -> Lender {
        Lender { arena, put: 0, free_to: 0, message: 0, begins: 0, short: None }
    }

    /// Copies a body of message `message` in, where no more than `limit` bytes are in use then. None: there is no room
    /// for it now, or it is not of a size for this.
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
        // SAFETY: so many bytes of our own arena, of which the peer reads none: they are free.
        unsafe {
            let to = self.arena.ours.in_arena(at);
            std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len());
            let lodging = Lodging { arena: self.arena.clone(), position: at };
            Some(Body::lodged(to, data.len(), lodging)) // LEND
        }
    }

    /// What was put in of message `message` is taken back.
    pub fn rollback(&mut self, message: u64) {
        if self.message == message {
            self.put = self.begins.max(self.arena.begin.load(Ordering::Relaxed));
            self.arena.put.store(self.put, Ordering::Relaxed);
        }
    }

    /// Whether the last body found no room, or the next one like it will not as things are; says so once, and None
    /// where there was no body since.
    #[inline(always)]
    pub fn take_short(&mut self) -> Option<bool> {
        self.short.take()
    }

    /// Whether no more than `limit` bytes would be in use up to `end`.
    fn reaches(&mut self, end: u64, limit: u64) -> bool {
        if end - self.free_to > limit {
            self.free_to = self.arena.free_to();
        }
        end - self.free_to <= limit
    }
}

/// The peer's arena, and what we have of it.
pub(crate) struct Loans {
    ours: Half,
    theirs: Half,
    book: Mutex<Book>,
    /// Wakes the peer.
    wake: Box<dyn Fn() + Send + Sync>,
}

/// Loans that are not repaid, the first of them by its number.
#[derive(Default)]
struct Book {
    first: u64,
    /// Where each ends, and whether we are done with it.
    open: VecDeque<(u64, bool)>,
    /// The peer's wish for room that was answered last.
    answered: u32,
}

impl Loans {
    fn open(&self, end: u64) -> Result<u64, NoMemory> {
        let mut book = enter(&self.book);
        book.open.try_reserve(1).map_err(|_| NoMemory)?;
        book.open.push_back((end, false));
        Ok(book.first + book.open.len() as u64 - 1)
    }

    /// We are done with a loan.
    fn repay(&self, number: u64) {
        if !self.ours.is_here() {
            return; // In a child of fork(2); it is its parent's loan.
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
            return; // Who lacks room is woken for much of it.
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

/// A body's bytes in the peer's arena, which may change at any time.
pub(crate) struct Loan {
    loans: Arc<Loans>,
    number: u64,
    /// The bytes as they were when somebody wanted to look at them.
    copy: OnceLock<Vec<u8>>,
}

impl Loan {
    /// A copy of the `len` bytes at `ptr`, made once.
    ///
    /// # Safety
    /// They must be the loan's.
    pub(crate) unsafe fn copy(&self, ptr: *const u8, len: usize) -> &Vec<u8> {
        self.copy.get_or_init(|| {
            let mut bytes = Vec::with_capacity(len);
            // SAFETY: the caller's promise; there is room for as many.
            unsafe {
                std::ptr::copy_nonoverlapping(ptr, bytes.as_mut_ptr(), len);
                bytes.set_len(len);
            }
            bytes
        })
    }

    /// The same, for its only holder.
    pub(crate) fn copied(&mut self) -> Option<&mut Vec<u8>> {
        self.copy.get_mut()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.loans.repay(self.number);
    }
}

/// What becomes of a loan that comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// It is copied at once.
    AtOnce,
    /// It is left where it is until it is wanted. Whoever looks, looks at a copy.
    WhenWanted,
    /// It is looked at where it lies: the peer is trusted not to change it. It can only be read.
    InPlace,
}

/// Who takes loans: the receiver's end.
pub struct Borrower {
    loans: Arc<Loans>,
    /// Where the last loan ended.
    end: u64,
    taking: Taking,
}

/// Why a loan is not taken.
pub(crate) enum Declined {
    Lied,
    NoMemory,
}

impl Borrower {
    /// The body of a loan that the peer has written.
    pub(crate) fn borrow(&mut self, position: u64, len: u64) -> Result<Body, Declined> {
        let arena = self.loans.theirs.arena as u64;
        let end = position.checked_add(len).ok_or(Declined::Lied)?;
        if len == 0 || position < self.end || len > arena || position % arena + len > arena {
            return Err(Declined::Lied);
        }
        self.end = end;
        let (from, len) = (self.loans.theirs.in_arena(position), len as usize);
        let copy = match self.taking {
            Taking::AtOnce => Some(pool::take(len).map_err(|NoMemory| Declined::NoMemory)?),
            Taking::WhenWanted | Taking::InPlace => None,
        };
        let number = self.loans.open(end).map_err(|NoMemory| Declined::NoMemory)?;
        let loan = Loan { loans: self.loans.clone(), number, copy: OnceLock::new() };
        // SAFETY: so many bytes of the peer's arena, for as long as the loan is kept. What they are is the peer's
        // affair; a buffer of the pool has room for as many.
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

/// Both halves, of which a [`Borrower`] is made.
pub struct Halves {
    pub(crate) ours: Half,
    pub(crate) theirs: Half,
}

impl Halves {
    /// `wake` wakes the peer; any thread calls it.
    pub fn borrower(self, taking: Taking, wake: Box<dyn Fn() + Send + Sync>) -> Borrower {
        let (Halves { ours, theirs }, book) = (self, Mutex::new(Book::default()));
        Borrower { loans: Arc::new(Loans { ours, theirs, book, wake }), end: 0, taking }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "arena_tests.rs"]
mod tests;
