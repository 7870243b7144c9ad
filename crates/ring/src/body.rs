//! A message body by reference: shared, counted, freed by the last holder.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::{NoMemory, pool};

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
}

// SAFETY: the bytes are only read through a `Body`, and the owner is Send and Sync itself.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

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
    fn of_buffer(mut buffer: Vec<u8>, len: usize) -> Body {
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

    /// Where the bytes are. Writing is the right of a sole holder only.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.ptr
    }

    /// Whether others hold it too.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Whether somebody else's code runs when the last holder drops it.
    pub fn has_owner(&self) -> bool {
        matches!(self.0.owner, Owner::Foreign { .. })
    }

    /// The bytes, to be written, where this is the only holder.
    pub fn as_mut(&mut self) -> Option<&mut [u8]> {
        let storage = Arc::get_mut(&mut self.0)?;
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
        let storage = unsafe { &*(raw as usize as *const Storage) };
        // SAFETY: ptr and len describe the storage's memory.
        unsafe { std::slice::from_raw_parts(storage.ptr, storage.len) }
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
        // SAFETY: ptr and len describe memory that the owner keeps alive and unmoved.
        unsafe { std::slice::from_raw_parts(self.0.ptr, self.0.len) }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.len())
    }
}
