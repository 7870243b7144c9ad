//! A message body passed by reference: shared, reference-counted, freed by the last holder.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::arena::{Arena, ArenaPlace, Loan};
use crate::{NoMemory, pool, sync};

/// A body of any size that several queues and messages may hold at once.
///
/// Cloning shares it. The bytes never move: [`Body::as_ptr`] stays valid for as long as any holder lives.
#[derive(Clone)]
pub struct Body(Arc<Storage>);

struct Storage {
    ptr: *mut u8,
    len: usize,
    owner: Owner,
}

enum Owner {
    /// A buffer of the pool, or a vector of the caller's.
    Buffer(Vec<u8>),
    /// Memory of another owner, which frees it when this is dropped.
    Foreign { _owner: Box<dyn Send + Sync> },
    /// Memory in our arena, which the peer reads.
    InOurArena(ArenaPlace),
    /// Memory in the peer's arena. The peer may change it at any time, so only a copy of it is accessed.
    Lent(Loan),
    /// As `Lent`, from a peer that is trusted not to change the bytes. They cannot be written.
    Entrusted { _loan: Loan },
}

// SAFETY: the bytes are only read through a `Body`, and the owner is Send and Sync itself.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// The bytes; a lent body is copied at the first access.
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

    /// A body of `len` bytes with arbitrary content (zeros, or what the buffer held before).
    pub fn with_len(len: usize) -> Result<Body, NoMemory> {
        Ok(Body::of_buffer(pool::take(len)?, len))
    }

    /// An empty vector with room for at least `len` bytes, to be filled and turned into a body. The last holder
    /// returns its memory to the pool, so that the next buffer need not be made of fresh pages.
    pub fn buffer(len: usize) -> Result<Vec<u8>, NoMemory> {
        pool::take_empty(len)
    }

    /// The first `len` bytes of `buffer`, which must be initialised.
    pub(crate) fn of_buffer(mut buffer: Vec<u8>, len: usize) -> Body {
        let ptr = buffer.as_mut_ptr();
        Body(Arc::new(Storage { ptr, len, owner: Owner::Buffer(buffer) }))
    }

    /// A body in foreign memory, which `owner` frees when the last holder drops the body.
    ///
    /// # Safety
    /// `ptr` must be valid for reads of `len` bytes, at the same address, until `owner` is dropped, on any thread.
    pub unsafe fn foreign(ptr: *mut u8, len: usize, owner: Box<dyn Send + Sync>) -> Body {
        Body(Arc::new(Storage { ptr, len, owner: Owner::Foreign { _owner: owner } }))
    }

    /// A body in our arena.
    ///
    /// # Safety
    /// As for `foreign`, with the lodging as the owner.
    pub(crate) unsafe fn lodged(ptr: *mut u8, len: usize, lodging: ArenaPlace) -> Body {
        Body(Arc::new(Storage { ptr, len, owner: Owner::InOurArena(lodging) }))
    }

    /// A body in a peer's arena.
    ///
    /// # Safety
    /// As for `foreign`, with the loan as the owner.
    pub(crate) unsafe fn lent(ptr: *mut u8, len: usize, loan: Loan) -> Body {
        Body(Arc::new(Storage { ptr, len, owner: Owner::Lent(loan) }))
    }

    /// A body in the arena of a trusted peer.
    ///
    /// # Safety
    /// As for `lent`. That the bytes do not change rests on the peer.
    pub(crate) unsafe fn entrusted(ptr: *mut u8, len: usize, loan: Loan) -> Body {
        Body(Arc::new(Storage { ptr, len, owner: Owner::Entrusted { _loan: loan } }))
    }

    /// Moves a lent body into our own memory and returns the loan. A body of a trusted peer stays in place.
    pub fn own(&mut self) -> Result<(), NoMemory> {
        if matches!(self.0.owner, Owner::Lent(_)) {
            let mut buffer = pool::take(self.0.len)?;
            self.copy_to(&mut buffer);
            *self = Body::of_buffer(buffer, self.0.len);
        }
        Ok(())
    }

    /// Its size in bytes. Does not access a lent body's bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Copies as much as `room` holds; returns the body's size.
    pub fn copy_to(&self, room: &mut [u8]) -> usize {
        let count = self.0.len.min(room.len());
        // SAFETY: both have `count` bytes. If the peer changes them meanwhile, it only spoils its own message.
        unsafe { std::ptr::copy_nonoverlapping(self.0.ptr, room.as_mut_ptr(), count) };
        self.0.len
    }

    /// Address of the bytes. Only a sole holder may write to them.
    pub fn as_ptr(&self) -> *mut u8 {
        match &self.0.owner {
            Owner::Lent(_) => self.0.bytes().as_ptr().cast_mut(),
            _ => self.0.ptr,
        }
    }

    /// Returns true if it has other holders.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Returns true if foreign code (the owner's) runs when the last holder drops it.
    pub fn has_owner(&self) -> bool {
        matches!(self.0.owner, Owner::Foreign { .. })
    }

    /// The bytes for writing, if this is the only holder and they are writable.
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
    /// `raw` must come from `into_raw`, and be converted back once.
    pub(crate) unsafe fn from_raw(raw: u64) -> Body {
        // SAFETY: the caller's promise.
        Body(unsafe { Arc::from_raw(raw as usize as *const Storage) })
    }

    /// The bytes behind a raw reference, which keeps its ownership.
    ///
    /// # Safety
    /// `raw` must come from `into_raw` and must not be converted back while the slice is used.
    pub(crate) unsafe fn peek_raw<'a>(raw: u64) -> &'a [u8] {
        // SAFETY: the caller's promise keeps the storage alive.
        unsafe { &*(raw as usize as *const Storage) }.bytes()
    }

    /// The body's size, as `peek_raw`.
    ///
    /// # Safety
    /// As for `peek_raw`.
    pub(crate) unsafe fn len_raw(raw: u64) -> usize {
        // SAFETY: the caller's promise keeps the storage alive.
        unsafe { (*(raw as usize as *const Storage)).len }
    }

    /// The body's position in `arena`, if it lies there.
    ///
    /// # Safety
    /// As for `peek_raw`.
    pub(crate) unsafe fn position_raw(raw: u64, arena: &sync::Arc<Arena>) -> Option<u64> {
        // SAFETY: the caller's promise keeps the storage alive.
        match unsafe { &(*(raw as usize as *const Storage)).owner } {
            Owner::InOurArena(lodging) if sync::Arc::ptr_eq(&lodging.arena, arena) => Some(lodging.position),
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
