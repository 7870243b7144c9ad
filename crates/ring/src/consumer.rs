//! The reading end of a queue, a frame at a time.

use crate::Body;
use crate::arena::Arena;
use crate::budget::Share;
use crate::queue::{EVEN, Limits, PARKED, Shared};
use crate::record::{self, COMMAND, MORE, REF};
use crate::segment::Segment;
use crate::sync::{Arc, Ordering, fence, heavy};

/// A frame as it is handed to its reader.
#[derive(Debug)]
pub enum Frame<'a> {
    /// The bytes lie in the queue and are gone when the reader returns.
    Bytes { flags: u8, data: &'a [u8] },
    /// The body is the reader's if it takes it out.
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

    /// Copies as much of the body as there is room for; returns its size.
    #[inline(always)]
    pub fn copy_to(&self, room: &mut [u8]) -> usize {
        match self {
            Frame::Bytes { data, .. } => {
                // SAFETY: so many bytes are in both.
                unsafe { record::copy(data.as_ptr(), room.as_mut_ptr(), data.len().min(room.len())) };
                data.len()
            }
            Frame::Body { body, .. } => body.as_ref().map_or(0, |body| body.copy_to(room)),
        }
    }
}

/// A run of fewer bytes is little: some messages of 1 KiB, too.
const LITTLE_BYTES: usize = 8 * 1024;
/// Pauses of the processor before the next look: a receiver that is faster than its sender looks once for several
/// messages, and not for each, at which both would wait for the same line. With a quarter of the pauses, and an eighth
/// of the bytes, inproc moved two thirds as many messages of 1 KiB.
const PATIENCE: u32 = 16;
/// Who parks after fewer messages than this parks often, and then seldom only after more than that. A heavy barrier
/// interrupts another processor, which takes a virtual one a hundred microseconds, and a full one some nanoseconds.
const OFTEN: u64 = if cfg!(loom) { 1 } else { 256 };
const SELDOM: u64 = if cfg!(loom) { 2 } else { 1024 };

/// The reading end. It belongs to one thread at a time.
pub struct Consumer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) segment: *mut Segment,
    /// Where the next record begins, and where what is known to be readable in this segment ends.
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// Bytes of records read, up to `end` exclusive of what lies between `at` and `end`, from the queue's
    /// beginning.
    pub(crate) read_to_end: u64,
    /// Of what is published, nothing behind this is read (`stop_here`).
    stop_at: u64,
    pub(crate) messages: u64,
    /// Bytes as on the wire that were read.
    pub(crate) wire: u64,
    /// Messages until the producer is looked after again.
    until_low: u64,
    low: u64,
    room_wanted: bool,
    patient: bool,
    /// Looks after the producer at each message.
    looks_often: bool,
    share: Option<Share>,
    /// The last look found less than makes a look worth its cost.
    found_little: bool,
    /// Messages consumed when it parked last, and whether it does so often.
    parked_at: u64,
    is_even: bool,
    /// A record begins here, at or before `at` (gather).
    pub(crate) boundary: usize,
    /// Bytes, as on the wire, of the record at `at` that are written already (gather).
    pub(crate) partial: usize,
    /// Where the message begins that `rewind` went back to last (in `wire`), and how often in a row (gather).
    pub(crate) cut_at: u64,
    pub(crate) cuts: u32,
    /// All messages that end before `counted_at`, where a record of this segment begins (gather).
    pub(crate) counted: u64,
    pub(crate) counted_at: usize,
    /// Bodies that lie there go as loans (gather).
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
            until_low: low,
            low,
            room_wanted: false,
            patient: false,
            looks_often: false,
            share: None,
            found_little: false,
            parked_at: 0,
            is_even: false,
            boundary: 0,
            partial: 0,
            cut_at: 0,
            cuts: 0,
            counted: 0,
            counted_at: 0,
            arena: None,
        }
    }

    /// Lets a little more gather before looking again, after a look that found little: some 400 ns. Each look
    /// takes a cache line from the producer's processor and costs both sides as much as several messages; for
    /// a producer on another processor only.
    pub fn set_patient(&mut self) {
        self.patient = true;
    }

    /// The high-water mark has changed. Look at `take_room_wanted` after this: the producer may know already,
    /// and wait.
    pub fn set_mark(&mut self, messages: u64) {
        self.low = if self.looks_often { 1 } else { low_mark(messages) };
        self.at_low_mark();
    }

    /// All messages consumed so far, and their bytes as they are on the wire.
    pub fn consumed(&self) -> (u64, u64) {
        (self.messages, self.wire)
    }

    /// Messages that were published, or are just being, and not yet consumed.
    pub fn backlog(&self) -> u64 {
        self.shared.producer.0.messages.load(Ordering::Acquire).saturating_sub(self.messages)
    }

    /// The producer may wait for bytes, and not for messages: look after it at each message (`on`), or at the mark.
    /// It counts from the next `set_mark` on.
    pub fn look_often(&mut self, on: bool) {
        self.looks_often = on || self.share.is_some();
    }

    /// Whether a frame can be read.
    #[inline(always)]
    pub fn has_frame(&mut self) -> bool {
        self.at != self.end || self.look()
    }

    /// Finds out how much more there is to read; goes on to the next segment at the end of one. False:
    /// nothing.
    pub(crate) fn look(&mut self) -> bool {
        debug_assert_eq!(self.at, self.end);
        if self.patient && std::mem::take(&mut self.found_little) {
            if self.is_stopped() {
                return self.look_to_stop();
            }
            (0..PATIENCE).for_each(|_| std::hint::spin_loop());
        }
        self.look_to(self.shared.producer.0.published.load(Ordering::Acquire)) // PUBLISH
    }

    /// `look` after `stop_here`. It is found by the two flags, so that other looks do not pay for it.
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
        // SAFETY: the segment is alive until `recycle`; more is published than was read, so that where this
        // one is closed at what was read, the next is linked.
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

    /// Messages that are published from now on are not read, until `resume`.
    pub fn stop_here(&mut self) {
        self.stop_at = self.shared.producer.0.published.load(Ordering::Acquire); // PUBLISH
        (self.patient, self.found_little) = (true, true);
    }

    /// Whether `stop_here` was the last of the two.
    pub fn is_stopped(&self) -> bool {
        self.stop_at != u64::MAX
    }

    /// All is read again.
    pub fn resume(&mut self) {
        self.stop_at = u64::MAX;
    }

    /// The flags of the next frame (MORE, COMMAND).
    #[inline(always)]
    pub fn peek(&mut self) -> Option<u8> {
        // SAFETY: a whole record lies at `at`.
        self.has_frame().then(|| unsafe { *Segment::data(self.segment).add(self.at) } & (MORE | COMMAND))
    }

    /// Hands the next frame to `reader`. Where a link wrote part of a frame with `write_with`, `rewind` comes
    /// first (as before `peek`): the rest would be read as a frame.
    #[inline(always)]
    pub fn pop<R>(&mut self, reader: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        self.pop_leaving(drop, reader)
    }

    /// As `pop`; a body that `reader` does not take goes to `left`, which may have to put off its end: its
    /// owner's code runs then.
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
        self.until_low -= 1;
        if self.until_low == 0 {
            self.at_low_mark();
        }
    }

    /// Gives the budget back what was consumed.
    #[cold]
    pub(crate) fn discharge(&mut self) {
        let Some(share) = &mut self.share else { return };
        share.consumed(self.wire);
        self.shared.consumer.0.discharged.store(share.reported(), Ordering::Relaxed);
    }

    /// The queue is one of a budget's.
    pub(crate) fn join(&mut self, share: Share) {
        self.share = Some(share);
        (self.looks_often, self.low, self.until_low) = (true, 1, 1);
    }

    /// Counts `messages` as consumed at once, with their bytes on the wire.
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
        self.until_low = self.low;
        self.look_after_room();
        if self.is_even && self.messages.saturating_sub(self.parked_at) > SELDOM {
            self.is_even = false;
            self.shared.parking.fetch_and(!EVEN, Ordering::Relaxed); // PARK
        }
    }

    /// Finds out whether the producer waits for room.
    pub(crate) fn look_after_room(&mut self) {
        fence(Ordering::SeqCst); // ROOM
        let wants = &self.shared.producer.0.wants_room;
        if wants.load(Ordering::Relaxed) && wants.swap(false, Ordering::Relaxed) {
            self.room_wanted = true;
        }
    }

    /// Whether the producer waits for the room that was made; says so once.
    #[inline(always)]
    pub fn take_room_wanted(&mut self) -> bool {
        self.room_wanted && std::mem::take(&mut self.room_wanted)
    }

    /// Goes on to the segment that the producer is in, and frees those before it, of which all was read
    /// (`Producer::shrink`).
    pub(crate) fn go_on_to(&mut self, last: *mut Segment) {
        while self.segment != last {
            // SAFETY: the producer has left this segment for good and linked the next, up to `last`; no frame
            // in any of them was not read.
            unsafe {
                let next = (*self.segment).next.load(Ordering::Acquire);
                Segment::free(self.segment);
                self.segment = next;
            }
            (self.at, self.end, self.boundary) = (0, 0, 0);
            (self.counted, self.counted_at) = (self.messages, 0);
        }
    }

    /// Asks to be told of the next message (`Producer::commit`). False: there is one already.
    pub fn park(&mut self) -> bool {
        if self.has_frame() {
            return false;
        }
        let since = self.messages.saturating_sub(std::mem::replace(&mut self.parked_at, self.messages));
        let was_even = self.is_even;
        self.is_even = since < if was_even { SELDOM } else { OFTEN };
        let mode = if self.is_even { EVEN } else { 0 };
        // A store would do; but of an exchange loom, too, knows that it comes behind the producer's.
        self.shared.parking.swap(PARKED | mode, Ordering::AcqRel);
        if was_even && self.is_even {
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

/// Takes the body out of the reference record at `record`, and leaves the record dead.
///
/// # Safety
/// A whole, live reference record must lie there.
pub(crate) unsafe fn take_body(record: *mut u8) -> Body {
    // SAFETY: the caller's promise; the record is the consumer's own once it is published.
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
            // `at` may lie inside a record that a link wrote in part. Bodies that were read from here on are
            // marked as taken.
            self.shared.left.store(self.segment, Ordering::Release);
            self.shared.left_at.store(self.boundary as u64, Ordering::Release);
        }
    }
}
