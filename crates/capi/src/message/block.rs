//! Storage of a medium-sized message: one reference-counted allocation.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use pinnace_engine::Error;

/// Precedes the bytes, and aligns them as malloc does.
#[repr(C, align(16))]
struct Header {
    holders: AtomicUsize,
    len: usize,
}

/// A counted reference to a block. The last one frees it.
pub(super) struct Block(NonNull<Header>);

// SAFETY: the count is atomic. The bytes are shared by C, which must write them only as the sole holder.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

fn layout(len: usize) -> Result<Layout, Error> {
    let bytes = len.checked_add(size_of::<Header>()).ok_or(Error::NoMemory)?;
    Layout::from_size_align(bytes, align_of::<Header>()).map_err(|_| Error::NoMemory)
}

impl Block {
    /// A block of `len` bytes of unspecified content.
    pub(super) fn with_len(len: usize) -> Result<Block, Error> {
        // SAFETY: the layout is never empty.
        let at = NonNull::new(unsafe { alloc(layout(len)?) }).ok_or(Error::NoMemory)?.cast();
        // SAFETY: room for a header, aligned for it.
        unsafe { at.write(Header { holders: AtomicUsize::new(1), len }) };
        Ok(Block(at))
    }

    fn header(&self) -> &Header {
        // SAFETY: the header is valid as long as a reference exists.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn len(&self) -> usize {
        self.header().len
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        // SAFETY: the bytes start right after the header.
        unsafe { self.0.add(1).cast().as_ptr() }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.header().holders.load(Ordering::Relaxed) > 1
    }
}

impl Clone for Block {
    fn clone(&self) -> Block {
        self.header().holders.fetch_add(1, Ordering::Relaxed);
        Block(self.0)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // Acquire pairs with the Release below: the last holder sees the other holders' accesses to the bytes.
        if self.header().holders.load(Ordering::Acquire) != 1 {
            if self.header().holders.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        if let Ok(layout) = layout(self.len()) {
            // SAFETY: allocated with this layout, and this was the last holder.
            unsafe { dealloc(self.0.cast().as_ptr(), layout) }
        }
    }
}
