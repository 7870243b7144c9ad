//! The queue: what its two ends share.
//!
//! Synchronisation, by name:
//! - PUBLISH: the producer writes records, links segments, then stores `published` with release; the consumer
//!   loads it with acquire before it reads any of them.
//! - PARK: the consumer sets PARKED in `parking`, then looks at `published` again; the producer stores `published`,
//!   then looks at `parking`. A heavy and a light barrier lie in between, so that at least one of them sees the other.
//!   A consumer that parks often sets EVEN with a heavy barrier, once, and from then on both sides have a full one.
//! - ROOM: the producer sets `wants_room`, then looks at `released` again; the consumer stores `released`,
//!   then, each time it has consumed half the mark, fences and looks at `wants_room`.
//! - COUNT: the producer stores `messages_reach`, then `messages` with release, then publishes; a consumer
//!   that has read to an end loads them in the opposite order, and takes the number only where it reaches to
//!   that end.
//! - CLOSE: the producer stores `messages_end` with release, then `closed_at`, which a rollback opens again;
//!   the consumer looks at `closed_at` before and after it loads the number.
//! - SPARE: a consumed segment is put into a spare slot with release and taken from it with acquire.

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
    /// Bytes that are accepted whatever their number of messages: what a link may have taken ahead.
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

/// The consumer has seen the queue empty and waits to be told.
pub(crate) const PARKED: u8 = 1;
/// It does so often: a full barrier of the producer's for each message costs less than a heavy one each time.
pub(crate) const EVEN: u8 = 2;

/// Consumed segments that wait for their next use.
const SPARES: usize = 4;

#[derive(Default)]
pub(crate) struct ByProducer {
    /// Bytes of records that the consumer may read, counted from the queue's beginning.
    pub(crate) published: AtomicU64,
    /// Messages in them, or in what is just about to be published ...
    pub(crate) messages: AtomicU64,
    /// ... and how far these messages reach, in bytes as `published`.
    pub(crate) messages_reach: AtomicU64,
    /// The producer waits for room.
    pub(crate) wants_room: AtomicBool,
    /// Bytes that the budget was charged with, where there is one.
    pub(crate) charged: AtomicU64,
}

#[derive(Default)]
pub(crate) struct ByConsumer {
    /// Messages consumed.
    pub(crate) released: AtomicU64,
    /// Bytes consumed, as they are on the wire.
    pub(crate) released_wire: AtomicU64,
    /// Bytes that were given back to the budget, where there is one.
    pub(crate) discharged: AtomicU64,
}

/// What changes seldom lies between the lines that the two ends write for each message, and keeps them so far apart
/// that no pair of lines, which the processor fetches together, has both. A connection has two queues: lines that hold
/// nothing would be a good part of its memory.
#[repr(C)]
pub(crate) struct Shared {
    pub(crate) producer: Line<ByProducer>,
    /// PARKED, EVEN. The producer reads it for each message: on a line that the consumer writes for each message it
    /// would cost most of the way.
    pub(crate) parking: AtomicU8,
    pub(crate) spares: [AtomicPtr<Segment>; SPARES],
    /// Where the consumer stopped (segment, offset), left for the last of both ends to clean up.
    pub(crate) left: AtomicPtr<Segment>,
    pub(crate) left_at: AtomicU64,
    /// Where the last segment's records end, left by the producer.
    pub(crate) end_at: AtomicU64,
    /// What was consumed without anybody's getting it. It is locked for as long as that is consumed, so that who looks
    /// with it locked finds both or neither.
    pub(crate) given_up: Mutex<Amount>,
    pub(crate) budget: Option<Arc<Budget>>,
    pub(crate) consumer: Line<ByConsumer>,
}

impl Shared {
    /// A segment of about `bytes` with room for `record`: a spare one, or a new one.
    pub(crate) fn segment(&self, bytes: usize, record: usize) -> Result<*mut Segment, NoMemory> {
        for slot in &self.spares {
            let spare = slot.swap(std::ptr::null_mut(), Ordering::Acquire); // SPARE
            if spare.is_null() {
                continue;
            }
            // SAFETY: a segment in a slot belongs to whoever takes it out.
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

    /// Frees the segments that wait for their next use.
    pub(crate) fn free_spares(&self) {
        for slot in &self.spares {
            let spare = slot.swap(std::ptr::null_mut(), Ordering::Acquire); // SPARE
            if !spare.is_null() {
                // SAFETY: a segment in a slot belongs to whoever takes it out.
                unsafe { Segment::free(spare) }
            }
        }
    }

    /// Keeps a consumed segment for its next use, or frees it.
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
            // SAFETY: both ends are gone, so that the chain from where the consumer stopped belongs to this
            // call; records lie whole between `at` and the segment's end.
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
            budget::settle(budget, held, self.consumer.0.discharged.load(Ordering::Relaxed));
        }
    }
}

/// Hands the bodies that the records between `at` and `end` refer to to `left`.
///
/// # Safety
/// Whole records must lie there, and nobody may read them afterwards.
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

/// Makes a queue. Its memory is a segment of 2 KiB, had at the first push.
pub fn queue(limits: Limits) -> (Producer, Consumer) {
    queue_of(limits, None)
}

/// Makes a queue of a budget.
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
