//! The reading end of a queue, one frame at a time.

use crate::Body;
use crate::arena::Arena;
use crate::budget::Share;
use crate::queue::{FULL_FENCES, Limits, PARKED, Shared};
use crate::record::{self, COMMAND, MORE, REF};
use crate::segment::Segment;
use crate::sync::{Arc, Ordering, fence, heavy};

/// A frame as it is passed to the reader.
#[derive(Debug)]
pub enum Frame<'a> {
    /// The bytes lie in the queue and are invalid once the reader returns.
    Bytes { flags: u8, data: &'a [u8] },
    /// The reader may take the body.
    Body { flags: u8, body: &'a mut Option<Body> },
}

impl Frame<'_> {
    /// MORE, COMMAND.
    #[inline(always)]
    pub fn flags(&self) -> u8 {
        match self {
            Frame::Bytes { flags, .. } | Frame::Body { flags, .. } => *flags,
        }
    }

    /// The body's bytes.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        match self {
            Frame::Bytes { data, .. } => data,
            Frame::Body { body, .. } => body.as_deref().unwrap_or_default(),
        }
    }

    /// Copies as much of the body as `room` holds; returns the body's size.
    #[inline(always)]
    pub fn copy_to(&self, room: &mut [u8]) -> usize {
        match self {
            Frame::Bytes { data, .. } => {
                // SAFETY: both have at least so many bytes.
                unsafe { record::copy(data.as_ptr(), room.as_mut_ptr(), data.len().min(room.len())) };
                data.len()
            }
            Frame::Body { body, .. } => body.as_ref().map_or(0, |body| body.copy_to(room)),
        }
    }
}

/// If a look finds fewer bytes than this, the consumer spins before the next one (`set_patient`). Several messages of
/// 1 KiB are still few.
const LITTLE_BYTES: usize = 8 * 1024;
/// Spins before the next look at `published`. Thus a receiver that is faster than its sender looks once for several
/// messages. Looking for each would make both wait for the same cache line. With a quarter of the spins and an eighth
/// of the bytes, inproc moved two thirds as many messages of 1 KiB.
const SPINS_BETWEEN_LOOKS: u32 = 16;
/// A consumer that parks after fewer than OFTEN messages switches to full fences (FULL_FENCES), and back after more
/// than SELDOM messages without a park. A heavy barrier interrupts other processors, which takes a hundred microseconds
/// if they are virtual; a full barrier takes some nanoseconds.
const OFTEN: u64 = if cfg!(loom) { 1 } else { 256 };
const SELDOM: u64 = if cfg!(loom) { 2 } else { 1024 };

/// The reading end. Used by one thread at a time.
pub struct Consumer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) segment: *mut Segment,
    /// Offsets in this segment: of the next record, and of the end of the readable bytes.
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// Position of `end`, in bytes of records from the queue's beginning.
    pub(crate) read_to_end: u64,
    /// Position at which reading stops, even if more is published (`stop_here`).
    stop_at: u64,
    pub(crate) messages: u64,
    /// Bytes consumed, as they are on the wire.
    pub(crate) wire: u64,
    /// Messages until the next check whether the producer waits for room.
    until_room_check: u64,
    low: u64,
    room_wanted: bool,
    patient: bool,
    /// Check for a waiting producer at each message.
    looks_often: bool,
    share: Option<Share>,
    /// The last look found too little to be worth its cost.
    found_little: bool,
    /// Messages consumed when it last parked, and whether it uses FULL_FENCES.
    parked_at: u64,
    uses_full_fences: bool,
    /// Offset of a record's beginning, at or before `at` (gather).
    pub(crate) boundary: usize,
    /// Bytes of the record at `at` that are already written, as on the wire (gather).
    pub(crate) partial: usize,
    /// Beginning of the message that `rewind` last returned to (in `wire`), and how often in a row it did (gather).
    pub(crate) cut_at: u64,
    pub(crate) cuts: u32,
    /// Messages that end before `counted_at`, which is the offset of a record in this segment (gather).
    pub(crate) counted: u64,
    pub(crate) counted_at: usize,
    /// Bodies in this arena are written as loans (gather).
    pub(crate) arena: Option<Arc<Arena>>,
}

// SAFETY: the raw pointer is to a segment that only the queue's two ends reach, each by the rules of `queue`.
unsafe impl Send for Consumer {}

impl Consumer {
    pub(crate) fn new(shared: Arc<Shared>, limits: Limits) -> Consumer {
        let low = low_mark(limits.messages);
        Consumer {
            shared,
            segment: std::ptr::null_mut(),
            at: 0,
            end: 0,
            read_to_end: 0,
            stop_at: u64::MAX,
            messages: 0,
            wire: 0,
            until_room_check: low,
            low,
            room_wanted: false,
            patient: false,
            looks_often: false,
            share: None,
            found_little: false,
            parked_at: 0,
            uses_full_fences: false,
            boundary: 0,
            partial: 0,
            cut_at: 0,
            cuts: 0,
            counted: 0,
            counted_at: 0,
            arena: None,
        }
    }

    /// After a look that found little, spins for some 400 ns before the next one, so that more messages gather. Each
    /// look takes a cache line from the producer's processor and costs both sides as much as several messages. Only
    /// for a producer on another processor.
    pub fn set_patient(&mut self) {
        self.patient = true;
    }

    /// The high-water mark has changed. The caller must check `take_room_wanted` afterwards: the producer may already
    /// be waiting at the new one.
    pub fn set_mark(&mut self, messages: u64) {
        self.low = if self.looks_often { 1 } else { low_mark(messages) };
        self.at_low_mark();
    }

    /// All messages consumed so far, and their bytes as they are on the wire.
    pub fn consumed(&self) -> (u64, u64) {
        (self.messages, self.wire)
    }

    /// Messages that are published, or are being published now, and not consumed.
    pub fn backlog(&self) -> u64 {
        self.shared.producer.0.messages.load(Ordering::Acquire).saturating_sub(self.messages)
    }

    /// `on`: check for a waiting producer at each message, because it may wait for bytes and not for messages.
    /// Otherwise check at half the high-water mark. Takes effect with the next `set_mark`.
    pub fn check_room_at_each_message(&mut self, on: bool) {
        self.looks_often = on || self.share.is_some();
    }

    /// Returns true if a frame can be read.
    #[inline(always)]
    pub fn has_frame(&mut self) -> bool {
        self.at != self.end || self.look()
    }

    /// Updates `end`; advances to the next segment at the end of one. Returns false if there is nothing more to read.
    pub(crate) fn look(&mut self) -> bool {
        debug_assert_eq!(self.at, self.end);
        if self.patient && std::mem::take(&mut self.found_little) {
            if self.is_stopped() {
                return self.look_to_stop();
            }
            (0..SPINS_BETWEEN_LOOKS).for_each(|_| std::hint::spin_loop());
        }
        self.look_to(self.shared.producer.0.published.load(Ordering::Acquire)) // PUBLISH
    }

    /// `look` after `stop_here`. Reached only through flags that `stop_here` sets, so that other looks need no check.
    #[cold]
    fn look_to_stop(&mut self) -> bool {
        let is_more = self.look_to(self.stop_at);
        self.found_little = true;
        is_more
    }

    #[inline(always)]
    fn look_to(&mut self, published: u64) -> bool {
        if published == self.read_to_end {
            return false;
        }
        if self.segment.is_null() {
            self.segment = self.shared.left.load(Ordering::Acquire);
        }
        // SAFETY: the segment is alive until `recycle`. More is published than was read, so a segment that is closed
        // at the position read has its successor linked.
        unsafe {
            let mut closed_at = (*self.segment).closed_at.load(Ordering::Acquire);
            while closed_at == self.at {
                let next = (*self.segment).next.load(Ordering::Acquire);
                self.counted = (*self.segment).messages_end.load(Ordering::Relaxed);
                self.shared.recycle(self.segment);
                self.segment = next;
                (self.at, self.boundary, self.counted_at) = (0, 0, 0);
                closed_at = (*next).closed_at.load(Ordering::Acquire);
            }
            let readable = (published - self.read_to_end) as usize;
            let run = readable.min(closed_at - self.at);
            self.end = self.at + run;
            self.read_to_end += run as u64;
            self.found_little = run < LITTLE_BYTES;
        }
        true
    }

    /// Messages published from now on are not read, until `resume`.
    pub fn stop_here(&mut self) {
        self.stop_at = self.shared.producer.0.published.load(Ordering::Acquire); // PUBLISH
        (self.patient, self.found_little) = (true, true);
    }

    /// Returns true after `stop_here`, until `resume`.
    pub fn is_stopped(&self) -> bool {
        self.stop_at != u64::MAX
    }

    /// Ends `stop_here`.
    pub fn resume(&mut self) {
        self.stop_at = u64::MAX;
    }

    /// The flags of the next frame (MORE, COMMAND).
    #[inline(always)]
    pub fn peek(&mut self) -> Option<u8> {
        // SAFETY: a whole record lies at `at`.
        self.has_frame().then(|| unsafe { *Segment::data(self.segment).add(self.at) } & (MORE | COMMAND))
    }

    /// Passes the next frame to `reader`. If a link has written part of a frame with `write_with`, call `rewind`
    /// before this and before `peek`: else the rest would be read as a frame.
    #[inline(always)]
    pub fn pop<R>(&mut self, reader: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        self.pop_leaving(drop, reader)
    }

    /// As `pop`. A body that `reader` does not take goes to `left`, because dropping it may run its owner's code and
    /// the caller may have to defer that.
    #[inline(always)]
    pub fn pop_leaving<R>(
        &mut self,
        left: impl FnOnce(Body),
        reader: impl FnOnce(Frame<'_>) -> R,
    ) -> Option<R> {
        if !self.has_frame() {
            return None;
        }
        // SAFETY: a whole record lies at `at`; it stays there until the segment is recycled, which takes
        // `&mut self`.
        let (flags, result) = unsafe {
            let record = Segment::data(self.segment).add(self.at);
            let head = record::head(record);
            let flags = head.flags & (MORE | COMMAND);
            self.at += head.header + head.body;
            let result = if head.flags & REF == 0 {
                self.wire += (head.header + head.body) as u64;
                let data = std::slice::from_raw_parts(record.add(head.header), head.body);
                reader(Frame::Bytes { flags, data })
            } else {
                let body = take_body(record);
                self.wire += record::wire_len(body.len()) as u64;
                let mut body = Some(body);
                let result = reader(Frame::Body { flags, body: &mut body });
                if let Some(body) = body {
                    left(body);
                }
                result
            };
            (flags, result)
        };
        if flags & MORE == 0 {
            self.count_message();
        }
        Some(result)
    }

    #[inline(always)]
    fn count_message(&mut self) {
        self.messages += 1;
        let line = &self.shared.consumer.0;
        line.released_wire.store(self.wire, Ordering::Relaxed);
        line.released.store(self.messages, Ordering::Release);
        if self.share.is_some() {
            self.discharge();
        }
        self.until_room_check -= 1;
        if self.until_room_check == 0 {
            self.at_low_mark();
        }
    }

    /// Returns to the budget what was consumed.
    #[cold]
    pub(crate) fn discharge(&mut self) {
        let Some(share) = &mut self.share else { return };
        share.consumed(self.wire);
        self.shared.consumer.0.discharged.store(share.reported(), Ordering::Relaxed);
    }

    /// Makes the queue part of a budget.
    pub(crate) fn join(&mut self, share: Share) {
        self.share = Some(share);
        (self.looks_often, self.low, self.until_room_check) = (true, 1, 1);
    }

    /// Counts everything up to `messages` as consumed, in one step, with `wire` more bytes as on the wire.
    pub(crate) fn release(&mut self, messages: u64, wire: u64) {
        self.wire += wire;
        self.shared.consumer.0.released_wire.store(self.wire, Ordering::Release);
        self.discharge();
        let more = messages.wrapping_sub(self.messages);
        if more == 0 || more > i64::MAX as u64 {
            return;
        }
        self.messages = messages;
        self.shared.consumer.0.released.store(messages, Ordering::Release);
        self.at_low_mark();
    }

    #[cold]
    fn at_low_mark(&mut self) {
        self.until_room_check = self.low;
        self.look_after_room();
        if self.uses_full_fences && self.messages.saturating_sub(self.parked_at) > SELDOM {
            self.uses_full_fences = false;
            self.shared.parking.fetch_and(!FULL_FENCES, Ordering::Relaxed); // PARK
        }
    }

    /// Checks whether the producer waits for room.
    pub(crate) fn look_after_room(&mut self) {
        fence(Ordering::SeqCst); // ROOM
        let wants = &self.shared.producer.0.wants_room;
        if wants.load(Ordering::Relaxed) && wants.swap(false, Ordering::Relaxed) {
            self.room_wanted = true;
        }
    }

    /// Returns true if the producer waits for room that was made. Reports that once.
    #[inline(always)]
    pub fn take_room_wanted(&mut self) -> bool {
        self.room_wanted && std::mem::take(&mut self.room_wanted)
    }

    /// Advances to the producer's segment and frees the ones before it, which were read completely
    /// (`Producer::shrink`).
    pub(crate) fn go_on_to(&mut self, last: *mut Segment) {
        while self.segment != last {
            // SAFETY: the producer never returns to this segment, and has linked the next ones, up to `last`. All
            // frames in these segments were read.
            unsafe {
                let next = (*self.segment).next.load(Ordering::Acquire);
                Segment::free(self.segment);
                self.segment = next;
            }
            (self.at, self.end, self.boundary) = (0, 0, 0);
            (self.counted, self.counted_at) = (self.messages, 0);
        }
    }

    /// Asks to be woken for the next message (`Producer::commit`). Returns false if there is one already.
    pub fn park(&mut self) -> bool {
        if self.has_frame() {
            return false;
        }
        let since = self.messages.saturating_sub(std::mem::replace(&mut self.parked_at, self.messages));
        let was_even = self.uses_full_fences;
        self.uses_full_fences = since < if was_even { SELDOM } else { OFTEN };
        let mode = if self.uses_full_fences { FULL_FENCES } else { 0 };
        // A store would do, but loom orders only a read-modify-write after the producer's.
        self.shared.parking.swap(PARKED | mode, Ordering::AcqRel);
        if was_even && self.uses_full_fences {
            fence(Ordering::SeqCst); // PARK
        } else {
            heavy(); // PARK
        }
        if self.has_frame() {
            self.shared.parking.store(mode, Ordering::Relaxed);
            return false;
        }
        true
    }
}

/// Takes the body out of the reference record at `record`, and marks the record as taken (pointer 0).
///
/// # Safety
/// A whole, live reference record must lie there.
pub(crate) unsafe fn take_body(record: *mut u8) -> Body {
    // SAFETY: the caller's promise; a published record belongs to the consumer.
    unsafe {
        let body = Body::from_raw(record::raw_body(record));
        record.add(1).cast::<[u8; 8]>().write_unaligned([0; 8]);
        body
    }
}

fn low_mark(messages: u64) -> u64 {
    if messages == 0 { u64::MAX } else { messages.div_ceil(2) }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if !self.segment.is_null() {
            // Not `at`, which may lie inside a partly written record. Bodies that were read behind `boundary` are
            // marked as taken.
            self.shared.left.store(self.segment, Ordering::Release);
            self.shared.left_at.store(self.boundary as u64, Ordering::Release);
        }
    }
}
