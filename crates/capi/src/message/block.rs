//! Memory of a message of middling size: one allocation, shared by counting.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use pinnace_engine::Error;

/// Before the bytes. It keeps them aligned as malloc does.
#[repr(C, align(16))]
struct Header {
    holders: AtomicUsize,
    len: usize,
}

/// One holder of a block. Cloning makes another; the last one frees it.
pub(super) struct Block(NonNull<Header>);

// SAFETY: the count is atomic; the bytes are C's to share, which is told to write them only as a sole holder.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

fn layout(len: usize) -> Result<Layout, Error> {
    let bytes = len.checked_add(size_of::<Header>()).ok_or(Error::NoMemory)?;
    Layout::from_size_align(bytes, align_of::<Header>()).map_err(|_| Error::NoMemory)
}

impl Block {
    /// A block of `len` bytes of any content.
    pub(super) fn with_len(len: usize) -> Result<Block, Error> {
        // SAFETY: the layout is never empty.
        let at = NonNull::new(unsafe { alloc(layout(len)?) }).ok_or(Error::NoMemory)?.cast();
        // SAFETY: room for a header, aligned for it.
        unsafe { at.write(Header { holders: AtomicUsize::new(1), len }) };
        Ok(Block(at))
    }

    fn header(&self) -> &Header {
        // SAFETY: a header lies there for as long as there is a holder.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn len(&self) -> usize {
        self.header().len
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        // SAFETY: the bytes begin where the header ends.
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
        // The last holder sees what the others did with the bytes.
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
