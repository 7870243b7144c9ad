//! Blocks of memory that a queue links into a chain.
//!
//! The producer writes each byte of a segment once and the consumer reads it once. The queue decides which
//! bytes are visible (`Shared::published`). A record never straddles two segments.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use crate::NoMemory;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Size of a queue's first segment, in bytes, header included. An idle connection holds two such segments.
pub(crate) const MIN_BYTES: usize = 2 * 1024;
/// Size of the largest segment, in bytes: the most that one system call moves.
pub(crate) const MAX_BYTES: usize = 256 * 1024;

/// `Segment::closed_at` of the segment that the producer is still writing to.
pub(crate) const OPEN: usize = usize::MAX;

pub(crate) struct Segment {
    /// The next segment. It is set before anything in that segment is published.
    pub(crate) next: AtomicPtr<Segment>,
    /// Offset of the end of its records, once the producer has advanced to the next segment. OPEN before.
    pub(crate) closed_at: AtomicUsize,
    /// Messages that the producer had committed when it closed this segment.
    pub(crate) messages_end: AtomicU64,
    /// True if it holds a reference record. Then the consumer must look at each record.
    pub(crate) has_refs: AtomicBool,
    /// True if its first record continues a message.
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
    /// Allocates a zeroed segment (its room is handed out as a slice to read into) of `bytes` bytes, or
    /// more if a record of `record` bytes needs more.
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

    /// Resets a consumed segment for reuse.
    ///
    /// # Safety
    /// No other thread may hold it.
    pub(crate) unsafe fn reset(segment: *mut Segment) {
        // SAFETY: the caller's promise.
        let this = unsafe { &*segment };
        this.next.store(std::ptr::null_mut(), Ordering::Relaxed);
        this.closed_at.store(OPEN, Ordering::Relaxed);
        this.has_refs.store(false, Ordering::Relaxed);
        this.starts_inside.store(false, Ordering::Relaxed);
    }

    /// # Safety
    /// `segment` must come from `create`, and nothing may use it afterwards.
    pub(crate) unsafe fn free(segment: *mut Segment) {
        // SAFETY: the caller's promise; the layout is the one it was allocated with.
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
        // SAFETY: the data follows the header in the same allocation.
        unsafe { segment.cast::<u8>().add(HEADER) }
    }
}
