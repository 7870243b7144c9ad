//! The queue: the state that its two ends share.
//!
//! Synchronisation, by name:
//! - PUBLISH: the producer writes records, links segments, then stores `published` with release; the consumer loads
//!   it with acquire before it reads any of them.
//! - PARK: the consumer sets PARKED in `parking`, then loads `published` again; the producer stores `published`, then
//!   loads `parking`. A heavy barrier on the consumer's side and a light one on the producer's lie in between, so
//!   that at least one of them sees the other's store. A consumer that parks often sets FULL_FENCES with a heavy
//!   barrier, once; from then on both sides use a full one.
//! - ROOM: the producer sets `wants_room`, then loads `released` again; the consumer stores `released`, then, each
//!   time it has consumed half the high-water mark, fences and loads `wants_room`.
//! - COUNT: the producer stores `messages_reach`, then `messages` with release, then publishes. A consumer that has
//!   read to an end loads them in the opposite order, and uses the number only if it reaches exactly to that end.
//! - CLOSE: the producer stores `messages_end` with release, then `closed_at`, which a rollback opens again; the
//!   consumer loads `closed_at` before and after it loads `messages_end`.
//! - SPARE: a consumed segment is put into a spare slot with release and taken out with acquire.

use crate::budget::{self, Budget, Share};
use crate::consumer::Consumer;
use crate::producer::Producer;
use crate::record;
use crate::segment::{MAX_BYTES, MIN_BYTES, Segment};
use crate::sync::{Arc, AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Line, Mutex, Ordering};
use crate::{Body, NoMemory};

/// What a queue accepts before its producer has to wait.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Whole messages (the high-water mark); 0 is no limit.
    pub messages: u64,
    /// Bytes that are accepted whatever the number of messages: what a link may take ahead.
    pub ahead_bytes: u64,
}

/// Messages, and their bytes as they are on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub messages: u64,
    pub bytes: u64,
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, more: Amount) {
        self.messages += more.messages;
        self.bytes += more.bytes;
    }
}

/// The consumer has found the queue empty and waits to be woken.
pub(crate) const PARKED: u8 = 1;
/// The consumer parks often: a full barrier per message on the producer's side costs less than a heavy one per park.
pub(crate) const FULL_FENCES: u8 = 2;

/// The most consumed segments that are kept for reuse.
const SPARES: usize = 4;

#[derive(Default)]
pub(crate) struct ByProducer {
    /// Bytes of records that the consumer may read, counted from the queue's beginning.
    pub(crate) published: AtomicU64,
    /// Messages in them, or in what is about to be published.
    pub(crate) messages: AtomicU64,
    /// How far `messages` reaches, in bytes as `published`.
    pub(crate) messages_reach: AtomicU64,
    /// The producer waits for room.
    pub(crate) wants_room: AtomicBool,
    /// Bytes that the budget was charged, if there is one.
    pub(crate) charged: AtomicU64,
}

#[derive(Default)]
pub(crate) struct ByConsumer {
    /// Messages consumed.
    pub(crate) released: AtomicU64,
    /// Bytes consumed, as they are on the wire.
    pub(crate) released_wire: AtomicU64,
    /// Bytes that were returned to the budget, if there is one.
    pub(crate) discharged: AtomicU64,
}

/// Rarely written fields lie between the two lines that the ends write for each message. They keep these lines so far
/// apart that no pair of lines, which the processor fetches together, contains both. Padding would be a good part of
/// the memory of a connection, which has two queues.
#[repr(C)]
pub(crate) struct Shared {
    pub(crate) producer: Line<ByProducer>,
    /// PARKED, FULL_FENCES. The producer reads it for each message. If it shared a cache line with what the consumer
    /// writes for each message, this read would be most of the cost of a message.
    pub(crate) parking: AtomicU8,
    pub(crate) spares: [AtomicPtr<Segment>; SPARES],
    /// Where the consumer stopped (segment, offset). The last end to be dropped cleans up from there.
    pub(crate) left: AtomicPtr<Segment>,
    pub(crate) left_at: AtomicU64,
    /// Offset of the end of the last segment's records, set by the producer when it is dropped.
    pub(crate) end_at: AtomicU64,
    /// Messages that were consumed without being delivered. The lock is held while they are consumed, so that a reader
    /// of this value sees both the consumption and the count, or neither.
    pub(crate) given_up: Mutex<Amount>,
    pub(crate) budget: Option<Arc<Budget>>,
    pub(crate) consumer: Line<ByConsumer>,
}

impl Shared {
    /// A segment of about `bytes` bytes with room for `record`: a spare one, or a new one.
    pub(crate) fn segment(&self, bytes: usize, record: usize) -> Result<*mut Segment, NoMemory> {
        for slot in &self.spares {
            let spare = slot.swap(std::ptr::null_mut(), Ordering::Acquire); // SPARE
            if spare.is_null() {
                continue;
            }
            // SAFETY: a segment in a slot belongs to the thread that takes it out.
            unsafe {
                if (*spare).room >= record && (*spare).room + size_of::<Segment>() >= bytes {
                    Segment::reset(spare);
                    return Ok(spare);
                }
                Segment::free(spare);
            }
        }
        Segment::create(bytes.clamp(MIN_BYTES, MAX_BYTES), record)
    }

    /// Frees the segments that are kept for reuse.
    pub(crate) fn free_spares(&self) {
        for slot in &self.spares {
            let spare = slot.swap(std::ptr::null_mut(), Ordering::Acquire); // SPARE
            if !spare.is_null() {
                // SAFETY: a segment in a slot belongs to the thread that takes it out.
                unsafe { Segment::free(spare) }
            }
        }
    }

    /// Keeps a consumed segment for reuse, or frees it.
    pub(crate) fn recycle(&self, segment: *mut Segment) {
        for slot in &self.spares {
            let empty = std::ptr::null_mut();
            if slot.compare_exchange(empty, segment, Ordering::Release, Ordering::Relaxed).is_ok() {
                return; // SPARE
            }
        }
        // SAFETY: the consumer has left it and no slot holds it.
        unsafe { Segment::free(segment) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut segment = self.left.load(Ordering::Acquire);
        let mut at = self.left_at.load(Ordering::Relaxed) as usize;
        let last_end = self.end_at.load(Ordering::Relaxed) as usize;
        while !segment.is_null() {
            // SAFETY: both ends are dropped, so the chain from where the consumer stopped belongs to this call. Whole
            // records lie between `at` and the segment's end.
            unsafe {
                let next = (*segment).next.load(Ordering::Acquire);
                let end =
                    if next.is_null() { last_end } else { (*segment).closed_at.load(Ordering::Relaxed) };
                take_bodies(segment, at, end, &mut drop);
                Segment::free(segment);
                segment = next;
            }
            at = 0;
        }
        self.free_spares();
        if let Some(budget) = &self.budget {
            let held = self.producer.0.charged.load(Ordering::Relaxed);
            budget::give_back(budget, held, self.consumer.0.discharged.load(Ordering::Relaxed));
        }
    }
}

/// Passes the bodies of the reference records between `at` and `end` to `left`.
///
/// # Safety
/// Whole records must lie there, and nothing may read them afterwards.
pub(crate) unsafe fn take_bodies(
    segment: *mut Segment,
    mut at: usize,
    end: usize,
    left: &mut impl FnMut(Body),
) {
    // SAFETY: the caller's promise.
    unsafe {
        if !(*segment).has_refs.load(Ordering::Relaxed) {
            return;
        }
        let data = Segment::data(segment);
        while at < end {
            let head = record::head(data.add(at));
            if head.flags & record::REF != 0 {
                let raw = record::raw_body(data.add(at));
                if raw != 0 {
                    left(Body::from_raw(raw));
                }
            }
            at += head.header + head.body;
        }
    }
}

/// Makes a queue. Its first segment, of 2 KiB, is allocated at the first push.
pub fn queue(limits: Limits) -> (Producer, Consumer) {
    queue_of(limits, None)
}

/// Makes a queue that shares a budget.
pub fn budgeted_queue(limits: Limits, budget: &Arc<Budget>) -> (Producer, Consumer) {
    let (mut producer, mut consumer) = queue_of(limits, Some(budget.clone()));
    producer.join(Share::new(budget.clone()));
    consumer.join(Share::new(budget.clone()));
    (producer, consumer)
}

fn queue_of(limits: Limits, budget: Option<Arc<Budget>>) -> (Producer, Consumer) {
    let shared = Arc::new(Shared {
        producer: Line::default(),
        parking: AtomicU8::default(),
        spares: Default::default(),
        left: AtomicPtr::default(),
        left_at: AtomicU64::default(),
        end_at: AtomicU64::default(),
        given_up: Mutex::new(Amount::default()),
        budget,
        consumer: Line::default(),
    });
    (Producer::new(shared.clone(), limits), Consumer::new(shared, limits))
}
