//! Blocks of memory that a queue strings together.
//!
//! A segment's bytes are written once by the producer and read once by the consumer; which of them are
//! visible is the queue's business (`Shared::published`). A record never straddles two segments.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use crate::NoMemory;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The first segment of a queue, in bytes of memory: what an idle connection holds, twice.
pub(crate) const MIN_BYTES: usize = 2 * 1024;
/// The largest segment: what one system call moves at most.
pub(crate) const MAX_BYTES: usize = 256 * 1024;

/// `Segment::closed_at` of the segment that is still written to.
pub(crate) const OPEN: usize = usize::MAX;

pub(crate) struct Segment {
    /// The one that follows; set before anything in it is published.
    pub(crate) next: AtomicPtr<Segment>,
    /// Where its records end, once the producer has gone on to the next; OPEN before.
    pub(crate) closed_at: AtomicUsize,
    /// Messages that the queue had taken when this was closed.
    pub(crate) messages_end: AtomicU64,
    /// Whether a reference record lies in it: then the consumer must look at each record.
    pub(crate) has_refs: AtomicBool,
    /// Whether its first record continues a message.
    pub(crate) starts_inside: AtomicBool,
    /// Room for records, in bytes.
    pub(crate) room: usize,
}

const HEADER: usize = size_of::<Segment>();

fn layout(room: usize) -> Result<Layout, NoMemory> {
    let bytes = HEADER.checked_add(room).ok_or(NoMemory)?;
    Layout::from_size_align(bytes, align_of::<Segment>()).map_err(|_| NoMemory)
}

impl Segment {
    /// A new segment, all zeros (so that its room can be lent as bytes to read into), of `bytes` of memory,
    /// or of as much as a record of `record` bytes needs.
    pub(crate) fn create(bytes: usize, record: usize) -> Result<*mut Segment, NoMemory> {
        let room = (bytes - HEADER).max(record);
        // SAFETY: the layout is not empty.
        let segment = unsafe { alloc_zeroed(layout(room)?) }.cast::<Segment>();
        if segment.is_null() {
            return Err(NoMemory);
        }
        // SAFETY: fresh memory of the right size and alignment.
        unsafe {
            segment.write(Segment {
                next: AtomicPtr::new(std::ptr::null_mut()),
                closed_at: AtomicUsize::new(OPEN),
                messages_end: AtomicU64::new(0),
                has_refs: AtomicBool::new(false),
                starts_inside: AtomicBool::new(false),
                room,
            });
        }
        Ok(segment)
    }

    /// Makes a consumed segment as new.
    ///
    /// # Safety
    /// Nobody else may hold it.
    pub(crate) unsafe fn reset(segment: *mut Segment) {
        // SAFETY: the caller's promise.
        let this = unsafe { &*segment };
        this.next.store(std::ptr::null_mut(), Ordering::Relaxed);
        this.closed_at.store(OPEN, Ordering::Relaxed);
        this.has_refs.store(false, Ordering::Relaxed);
        this.starts_inside.store(false, Ordering::Relaxed);
    }

    /// # Safety
    /// `segment` must come from `create`, and nobody may use it afterwards.
    pub(crate) unsafe fn free(segment: *mut Segment) {
        // SAFETY: the caller's promise; the layout is the one it was made with.
        unsafe {
            let room = (*segment).room;
            std::ptr::drop_in_place(segment);
            dealloc(segment.cast(), layout(room).expect("the layout it was made with"));
        }
    }

    /// The first byte for records.
    ///
    /// # Safety
    /// `segment` must be alive.
    #[inline(always)]
    pub(crate) unsafe fn data(segment: *mut Segment) -> *mut u8 {
        // SAFETY: the data follow the header in the same allocation.
        unsafe { segment.cast::<u8>().add(HEADER) }
    }
}
