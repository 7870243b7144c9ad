//! A message body by reference: shared, counted, freed by the last holder.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::arena::{Arena, Loan, Lodging};
use crate::{NoMemory, pool, sync};

/// A body of any size that several queues and messages may hold at once.
///
/// Cloning shares it. The bytes never move, so that [`Body::as_ptr`] stays good for as long as any holder
/// lives.
#[derive(Clone)]
pub struct Body(Arc<Storage>);

struct Storage {
    ptr: *mut u8,
    len: usize,
    owner: Owner,
}

enum Owner {
    /// A buffer of the pool, or the caller's own vector.
    Buffer(Vec<u8>),
    /// Memory that somebody else owns and frees when this is dropped.
    Foreign { _owner: Box<dyn Send + Sync> },
    /// Our side of memory that is shared with a peer, who reads there.
    Lodged(Lodging),
    /// The peer's side: the bytes may change at any time, so that only a copy of them is ever looked at.
    Lent(Loan),
    /// The same, of a peer that is trusted not to change them. They can only be read.
    Entrusted { _loan: Loan },
}

// SAFETY: the bytes are only read through a `Body`, and the owner is Send and Sync itself.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// The bytes; what is lent is copied at the first look.
    fn bytes(&self) -> &[u8] {
        // SAFETY: ptr and len describe memory that the owner keeps alive and unmoved.
        unsafe {
            match &self.owner {
                Owner::Lent(loan) => loan.copy(self.ptr, self.len),
                _ => std::slice::from_raw_parts(self.ptr, self.len),
            }
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Owner::Buffer(buffer) = &mut self.owner {
            pool::give(std::mem::take(buffer));
        }
    }
}

impl Body {
    /// A copy of `data` in a buffer of the pool.
    pub fn copy_of(data: &[u8]) -> Result<Body, NoMemory> {
        Ok(Body::of_buffer(pool::take_filled(data)?, data.len()))
    }

    /// A body of `len` bytes whose content is arbitrary (zeros, or what the buffer held before).
    pub fn with_len(len: usize) -> Result<Body, NoMemory> {
        Ok(Body::of_buffer(pool::take(len)?, len))
    }

    /// An empty vector with room for `len` bytes at least, to be filled and made a body: what it holds goes back to the
    /// pool when nobody holds that any more, so that the next one is not made of fresh pages.
    pub fn buffer(len: usize) -> Result<Vec<u8>, NoMemory> {
        pool::take_empty(len)
    }

    /// The first `len` bytes of `buffer`, which are set.
    pub(crate) fn of_buffer(mut buffer: Vec<u8>, len: usize) -> Body {
        let ptr = buffer.as_mut_ptr();
        Body(Arc::new(Storage { ptr, len, owner: Owner::Buffer(buffer) }))
    }

    /// A body in memory of somebody else's, which `owner` frees when the last holder drops it.
    ///
    /// # Safety
    /// `ptr` must be good for reads of `len` bytes, unmoved, until `owner` is dropped, on any thread.
    pub unsafe fn foreign(ptr: *mut u8, len: usize, owner: Box<dyn Send + Sync>) -> Body {
        Body(Arc::new(Storage { ptr, len, owner: Owner::Foreign { _owner: owner } }))
    }

    /// A body in our arena.
    ///
    /// # Safety
    /// As for `foreign`, with the lodging for the owner.
    pub(crate) unsafe fn lodged(ptr: *mut u8, len: usize, lodging: Lodging) -> Body {
        Body(Arc::new(Storage { ptr, len, owner: Owner::Lodged(lodging) }))
    }

    /// A body in a peer's arena.
    ///
    /// # Safety
    /// As for `foreign`, with the loan for the owner.
    pub(crate) unsafe fn lent(ptr: *mut u8, len: usize, loan: Loan) -> Body {
        Body(Arc::new(Storage { ptr, len, owner: Owner::Lent(loan) }))
    }

    /// The same, of a peer that is trusted.
    ///
    /// # Safety
    /// As for `lent`; that the bytes do not change is the peer's word.
    pub(crate) unsafe fn entrusted(ptr: *mut u8, len: usize, loan: Loan) -> Body {
        Body(Arc::new(Storage { ptr, len, owner: Owner::Entrusted { _loan: loan } }))
    }

    /// Makes a body that is lent one in memory of our own, and gives the loan back; one of a peer that is trusted stays
    /// where it is.
    pub fn own(&mut self) -> Result<(), NoMemory> {
        if matches!(self.0.owner, Owner::Lent(_)) {
            let mut buffer = pool::take(self.0.len)?;
            self.copy_to(&mut buffer);
            *self = Body::of_buffer(buffer, self.0.len);
        }
        Ok(())
    }

    /// Its size in bytes. What is lent is not looked at for it.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Copies as much as there is room for; returns the body's size.
    pub fn copy_to(&self, room: &mut [u8]) -> usize {
        let count = self.0.len.min(room.len());
        // SAFETY: so many bytes are in both; if they change meanwhile, it is the peer's own message.
        unsafe { std::ptr::copy_nonoverlapping(self.0.ptr, room.as_mut_ptr(), count) };
        self.0.len
    }

    /// Where the bytes are. Writing is the right of a sole holder only.
    pub fn as_ptr(&self) -> *mut u8 {
        match &self.0.owner {
            Owner::Lent(_) => self.0.bytes().as_ptr().cast_mut(),
            _ => self.0.ptr,
        }
    }

    /// Whether others hold it too.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Whether somebody else's code runs when the last holder drops it.
    pub fn has_owner(&self) -> bool {
        matches!(self.0.owner, Owner::Foreign { .. })
    }

    /// The bytes, to be written, where this is the only holder and they can be.
    pub fn as_mut(&mut self) -> Option<&mut [u8]> {
        let storage = Arc::get_mut(&mut self.0)?;
        storage.bytes();
        match &mut storage.owner {
            Owner::Lent(loan) => return loan.copied().map(Vec::as_mut_slice),
            Owner::Entrusted { .. } => return None,
            _ => {}
        }
        // SAFETY: ptr and len describe the storage's own memory, and this is its only holder.
        Some(unsafe { std::slice::from_raw_parts_mut(storage.ptr, storage.len) })
    }

    pub(crate) fn into_raw(self) -> u64 {
        Arc::into_raw(self.0) as usize as u64
    }

    /// # Safety
    /// `raw` must come from `into_raw`, and be turned back once.
    pub(crate) unsafe fn from_raw(raw: u64) -> Body {
        // SAFETY: the caller's promise.
        Body(unsafe { Arc::from_raw(raw as usize as *const Storage) })
    }

    /// The bytes behind a raw reference that stays owned by whoever holds it.
    ///
    /// # Safety
    /// `raw` must come from `into_raw` and not have been turned back while the slice is used.
    pub(crate) unsafe fn peek_raw<'a>(raw: u64) -> &'a [u8] {
        // SAFETY: the caller's promise keeps the storage alive.
        unsafe { &*(raw as usize as *const Storage) }.bytes()
    }

    /// As `peek_raw`, of its size alone.
    ///
    /// # Safety
    /// As for `peek_raw`.
    pub(crate) unsafe fn len_raw(raw: u64) -> usize {
        // SAFETY: the caller's promise keeps the storage alive.
        unsafe { (*(raw as usize as *const Storage)).len }
    }

    /// Where the body behind a raw reference lies in `arena`, if it does.
    ///
    /// # Safety
    /// As for `peek_raw`.
    pub(crate) unsafe fn position_raw(raw: u64, arena: &sync::Arc<Arena>) -> Option<u64> {
        // SAFETY: the caller's promise keeps the storage alive.
        match unsafe { &(*(raw as usize as *const Storage)).owner } {
            Owner::Lodged(lodging) if sync::Arc::ptr_eq(&lodging.arena, arena) => Some(lodging.position),
            _ => None,
        }
    }
}

impl From<Vec<u8>> for Body {
    fn from(buffer: Vec<u8>) -> Body {
        let len = buffer.len();
        Body::of_buffer(buffer, len)
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.0.len)
    }
}
