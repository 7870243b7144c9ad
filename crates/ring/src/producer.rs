//! The writing end of a queue: takes frames, and makes a message visible at its last frame.

use crate::budget::Share;
use crate::consumer::Consumer;
use crate::prefetch::{LINE, prefetch};
use crate::queue::{Amount, FULL_FENCES, Limits, PARKED, Shared, take_bodies};
use crate::record::{self, COMMAND, HEADER_MAX, MORE, REF, REF_LEN, wire_len};
use crate::segment::{MAX_BYTES, MIN_BYTES, Segment};
use crate::sync::{Arc, Ordering, enter, fence, light};
use crate::{Body, NoMemory};

/// With more messages in flight than this, the next segment is larger than the last.
const GROW_AT: u64 = 16;

/// The writing end. Used by one thread at a time.
pub struct Producer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) limits: Limits,
    pub(crate) segment: *mut Segment,
    /// Bytes for records in the segment.
    pub(crate) room: usize,
    /// Offset of the end of the records.
    pub(crate) at: usize,
    /// Beginning of the raw bytes that intake has not parsed yet.
    pub(crate) raw: usize,
    /// End of these raw bytes.
    pub(crate) filled: usize,
    /// Bytes of records written so far, published or not, from the queue's beginning.
    pub(crate) written: u64,
    pub(crate) messages: u64,
    /// Bytes pushed so far as on the wire, including the bodies of references.
    pub(crate) wire: u64,
    released: u64,
    released_wire: u64,
    /// With fewer messages in flight than this, there is room without further checks. 0 if bytes are limited too.
    unchecked_below: u64,
    /// The most bytes in flight; 0 is no limit.
    max_bytes: u64,
    share: Option<Share>,
    pub(crate) next_bytes: usize,
    /// The largest segment that the queue allocates for many small records, in bytes.
    pub(crate) segment_max: usize,
    /// The state at the last `close`, to which `rollback` returns.
    mark: Mark,
}

/// How many committed messages were taken and how many wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Books {
    /// The consumer has them, or has passed them on.
    pub taken: Amount,
    /// They are in the queue.
    pub waiting: Amount,
}

/// The number of messages in flight below which no other limit has to be checked.
fn unchecked_below(limits: Limits, max_bytes: u64, shares: bool) -> u64 {
    match limits.messages {
        _ if max_bytes > 0 || shares => 0,
        0 => u64::MAX,
        messages => messages,
    }
}

#[derive(Clone, Copy)]
struct Mark {
    segment: *mut Segment,
    at: usize,
    written: u64,
    wire: u64,
}

// SAFETY: the raw pointers are to segments that only the queue's two ends reach, each by the rules of `queue`.
unsafe impl Send for Producer {}

impl Producer {
    /// Makes the queue part of a budget.
    pub(crate) fn join(&mut self, share: Share) {
        self.share = Some(share);
        self.unchecked_below = 0;
    }

    pub(crate) fn new(shared: Arc<Shared>, limits: Limits) -> Producer {
        let none = std::ptr::null_mut();
        Producer {
            shared,
            limits,
            segment: none,
            room: 0,
            at: 0,
            raw: 0,
            filled: 0,
            written: 0,
            messages: 0,
            wire: 0,
            released: 0,
            released_wire: 0,
            unchecked_below: unchecked_below(limits, 0, false),
            max_bytes: 0,
            share: None,
            next_bytes: MIN_BYTES,
            segment_max: MAX_BYTES,
            mark: Mark { segment: none, at: 0, written: 0, wire: 0 },
        }
    }

    /// Returns true if another message is accepted.
    #[inline(always)]
    pub fn has_room(&mut self) -> bool {
        self.messages.wrapping_sub(self.released) < self.unchecked_below || self.has_room_slow()
    }

    #[cold]
    fn has_room_slow(&mut self) -> bool {
        self.released = self.shared.consumer.0.released.load(Ordering::Acquire);
        self.released_wire = self.shared.consumer.0.released_wire.load(Ordering::Acquire);
        // Count whole messages only: the consumer does not see an unfinished one, and cannot make room for its rest.
        let in_flight = self.mark.wire.saturating_sub(self.released_wire);
        let (limits, messages) = (&self.limits, self.messages.wrapping_sub(self.released));
        let by_messages =
            limits.messages == 0 || messages < limits.messages || in_flight < limits.ahead_bytes;
        let by_bytes = self.max_bytes == 0 || in_flight < self.max_bytes;
        // An empty queue has room whatever the other queues hold: else two queues that the same message passes
        // through could wait for each other.
        let budgeted = in_flight == 0 || self.share.as_ref().is_none_or(|share| share.budget().has_room());
        by_messages && by_bytes && budgeted
    }

    /// Requests a notification when there is room (the consumer's `take_room_wanted`). Returns true if there is room
    /// already.
    pub fn want_room(&mut self) -> bool {
        self.shared.producer.0.wants_room.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst); // ROOM
        if let Some(share) = &self.share {
            share.budget().want_room();
        }
        let room = self.has_room();
        if room {
            self.shared.producer.0.wants_room.store(false, Ordering::Relaxed);
        }
        room
    }

    /// Sets the largest size of a segment, in bytes. A larger record gets a segment of its own.
    pub fn set_segment_max(&mut self, bytes: usize) {
        self.segment_max = bytes.clamp(MIN_BYTES, MAX_BYTES);
        self.next_bytes = self.next_bytes.min(self.segment_max);
    }

    /// Changes the limits for the following messages.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.unchecked_below = unchecked_below(self.limits, self.max_bytes, self.share.is_some());
    }

    /// Limits the bytes in flight, as on the wire, in addition to the messages: another message is accepted while
    /// fewer are in flight. 0 is no limit. The consumer must be told (`Consumer::set_mark`).
    pub fn set_max_bytes(&mut self, max_bytes: u64) {
        self.max_bytes = max_bytes;
        self.unchecked_below = unchecked_below(self.limits, max_bytes, self.share.is_some());
    }

    /// How many bytes of bodies of `len` bytes may lie outside the queue, in an arena: as many as the queue itself may
    /// hold, and no more than the budget has left.
    pub fn limit_elsewhere(&self, len: usize) -> u64 {
        let by_messages = match self.limits.messages {
            0 => u64::MAX,
            messages => messages.saturating_mul(len as u64).max(self.limits.ahead_bytes),
        };
        let by_bytes = if self.max_bytes == 0 { u64::MAX } else { self.max_bytes };
        let budgeted = self.share.as_ref().map_or(u64::MAX, |share| share.budget().left());
        by_messages.min(by_bytes).min(budgeted)
    }

    /// Messages that are committed and not consumed.
    pub fn backlog(&self) -> u64 {
        self.messages.wrapping_sub(self.shared.consumer.0.released.load(Ordering::Acquire))
    }

    /// Returns true if the consumer is dropped: nothing reads the queue any more.
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    /// Bytes on the wire that were pushed and that the link has not written yet.
    pub fn backlog_wire(&self) -> u64 {
        self.wire.saturating_sub(self.shared.consumer.0.released_wire.load(Ordering::Relaxed))
    }

    /// How much was taken so far, and how much waits. Messages that were given up or abandoned count as neither.
    pub fn books(&self) -> Books {
        let given_up = enter(&self.shared.given_up);
        let line = &self.shared.consumer.0;
        let messages = line.released.load(Ordering::Acquire);
        let bytes = line.released_wire.load(Ordering::Relaxed);
        let taken = Amount {
            messages: messages.saturating_sub(given_up.messages),
            bytes: bytes.saturating_sub(given_up.bytes),
        };
        let waiting = Amount {
            messages: self.messages.saturating_sub(messages),
            bytes: self.wire.saturating_sub(bytes),
        };
        Books { taken, waiting }
    }

    /// If the consumer is dropped, gives up the content of the queue; returns how much that is. Else does nothing.
    pub fn give_up_abandoned(&mut self) -> Amount {
        if !self.is_abandoned() {
            return Amount::default();
        }
        let mut given_up = enter(&self.shared.given_up);
        let line = &self.shared.consumer.0;
        let left = Amount {
            messages: self.messages - line.released.load(Ordering::Acquire),
            bytes: self.mark.wire.saturating_sub(line.released_wire.load(Ordering::Relaxed)),
        };
        line.released.store(self.messages, Ordering::Release);
        line.released_wire.store(self.mark.wire, Ordering::Release);
        *given_up += left;
        left
    }

    /// Messages committed so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns true for one message in 64, at an offset given by `first`: then the caller reads the clock.
    #[inline(always)]
    pub fn is_64th(&self, first: u64) -> bool {
        self.messages.wrapping_add(first).is_multiple_of(64)
    }

    /// Bytes pushed so far, as they are on the wire.
    #[inline(always)]
    pub fn wire(&self) -> u64 {
        self.wire
    }

    /// Prefetches the memory that the next push writes.
    #[inline(always)]
    pub fn prefetch_next(&self) {
        if !self.segment.is_null() {
            // SAFETY: the segment is alive as long as it is the present one.
            prefetch(unsafe { Segment::data(self.segment) }.wrapping_add(self.at), 2 * LINE);
        }
        prefetch(&raw const self.shared.producer, LINE);
        prefetch(&raw const self.shared.consumer, LINE);
    }

    /// Copies one frame in (`flags`: MORE, COMMAND). It becomes visible with `commit`.
    #[inline(always)]
    pub fn push(&mut self, flags: u8, data: &[u8]) -> Result<(), NoMemory> {
        let to = self.make_room(data.len())?;
        self.add(wire_len(data.len()));
        // SAFETY: there is room for a header and `data`.
        unsafe { record::write(to, flags & (MORE | COMMAND), data) };
        Ok(())
    }

    /// `push` of a message's last frame, and `close`.
    #[inline(always)]
    pub fn push_last(&mut self, data: &[u8]) -> Result<(), NoMemory> {
        let to = self.make_room(data.len())?;
        self.add(wire_len(data.len()));
        self.close();
        // SAFETY: there is room for a header and `data`.
        unsafe { record::write(to, 0, data) };
        Ok(())
    }

    /// The address of the next record, with room for a body of `len` bytes.
    #[inline(always)]
    fn make_room(&mut self, len: usize) -> Result<*mut u8, NoMemory> {
        let most = HEADER_MAX + len;
        if self.room - self.at < most {
            self.advance(most)?;
        }
        // SAFETY: `room - at` bytes are free behind `at`, at least `most`.
        Ok(unsafe { Segment::data(self.segment).add(self.at) })
    }

    /// Counts a record of `bytes` bytes that was written or is about to be.
    #[inline(always)]
    fn add(&mut self, bytes: usize) {
        self.at += bytes;
        self.written += bytes as u64;
        self.wire += bytes as u64;
    }

    /// Pushes one frame by reference.
    pub fn push_body(&mut self, flags: u8, body: Body) -> Result<(), NoMemory> {
        if self.room - self.at < REF_LEN {
            self.advance(REF_LEN)?;
        }
        let bytes = wire_len(body.len());
        self.push_reference(flags, body);
        self.wire += bytes as u64;
        Ok(())
    }

    /// Writes a reference record. The caller has made room for it.
    pub(crate) fn push_reference(&mut self, flags: u8, body: Body) {
        debug_assert!(self.room - self.at >= REF_LEN);
        // SAFETY: there is room for the record.
        unsafe {
            (*self.segment).has_refs.store(true, Ordering::Relaxed);
            let to = Segment::data(self.segment).add(self.at);
            *to = flags & (MORE | COMMAND) | REF;
            to.add(1).cast::<[u8; 8]>().write_unaligned(body.into_raw().to_ne_bytes());
        }
        self.at += REF_LEN;
        self.written += REF_LEN as u64;
    }

    /// Makes what was pushed visible as one message. Returns true if the consumer is parked and has to be woken.
    #[inline(always)]
    pub fn commit(&mut self) -> bool {
        self.close();
        self.publish()
    }

    /// As `commit`, for a consumer that is woken by other means: it does not report whether it is parked.
    #[inline(always)]
    pub fn commit_quietly(&mut self) {
        self.close();
        self.publish_quietly();
    }

    /// Ends the message that was pushed. It becomes visible with the next `publish`.
    #[inline(always)]
    pub fn close(&mut self) {
        self.messages += 1;
        self.set_mark();
        if self.share.is_some() {
            self.charge();
        }
    }

    /// Makes the closed messages visible. Returns true if the consumer is parked and has to be woken.
    #[inline(always)]
    pub fn publish(&mut self) -> bool {
        self.publish_quietly();
        light(); // PARK
        self.shared.parking.load(Ordering::Relaxed) != 0 && self.was_parked()
    }

    /// Returns true if the consumer is parked and has to be woken, and marks it as not parked.
    #[cold]
    #[inline(never)]
    fn was_parked(&self) -> bool {
        let parking = &self.shared.parking;
        if parking.load(Ordering::Relaxed) & FULL_FENCES != 0 {
            fence(Ordering::SeqCst); // PARK
        }
        parking.load(Ordering::Relaxed) & PARKED != 0
            && parking.fetch_and(!PARKED, Ordering::AcqRel) & PARKED != 0
    }

    /// As `publish`, for a consumer that is woken by other means: it does not report whether it is parked.
    #[inline(always)]
    pub fn publish_quietly(&mut self) {
        let line = &self.shared.producer.0;
        line.messages_reach.store(self.mark.written, Ordering::Relaxed);
        line.messages.store(self.messages, Ordering::Release); // COUNT
        line.published.store(self.mark.written, Ordering::Release); // PUBLISH
    }

    /// Counts `messages` more, and publishes up to the mark.
    #[inline(always)]
    pub(crate) fn publish_counted(&mut self, messages: u64) -> bool {
        self.messages += messages;
        if self.share.is_some() {
            self.charge();
        }
        self.publish()
    }

    /// Charges the budget for what is about to become visible.
    #[cold]
    fn charge(&mut self) {
        let Some(share) = &mut self.share else { return };
        share.held(self.mark.wire);
        self.shared.producer.0.charged.store(share.reported(), Ordering::Relaxed);
    }

    /// Records that a message ends here.
    #[inline(always)]
    pub(crate) fn set_mark(&mut self) {
        self.mark = Mark { segment: self.segment, at: self.at, written: self.written, wire: self.wire };
    }

    /// Returns true if frames were pushed that are not committed.
    pub fn is_inside_message(&self) -> bool {
        self.written != self.mark.written
    }

    /// Removes the frames that are not committed.
    pub fn rollback(&mut self) {
        self.rollback_leaving(&mut drop);
    }

    /// As `rollback`. Bodies go to `left`, because dropping them may run their owners' code and the caller may have
    /// to defer that.
    pub fn rollback_leaving(&mut self, left: &mut impl FnMut(Body)) {
        if !self.is_inside_message() {
            return;
        }
        let (mut segment, mut from) = (self.mark.segment, self.mark.at);
        if segment.is_null() {
            // Nothing was ever committed: keep the first segment, from its beginning.
            segment = self.shared.left.load(Ordering::Relaxed);
            from = 0;
        }
        // SAFETY: nothing behind the mark was published, so the consumer does not look at it.
        unsafe {
            let first = &*segment;
            let mut next = first.next.swap(std::ptr::null_mut(), Ordering::Relaxed);
            let end = if next.is_null() { self.at } else { first.closed_at.load(Ordering::Relaxed) };
            take_bodies(segment, from, end, left);
            first.closed_at.store(crate::segment::OPEN, Ordering::Relaxed);
            while !next.is_null() {
                let after = (*next).next.load(Ordering::Relaxed);
                let end = if after.is_null() { self.at } else { (*next).closed_at.load(Ordering::Relaxed) };
                take_bodies(next, 0, end, left);
                Segment::free(next);
                next = after;
            }
            self.room = first.room;
        }
        self.segment = segment;
        self.at = from;
        self.raw = from;
        self.filled = from;
        self.written = self.mark.written;
        self.wire = self.mark.wire;
    }

    /// Advances to a segment with room for a record of `record` bytes.
    #[cold]
    pub(crate) fn advance(&mut self, record: usize) -> Result<(), NoMemory> {
        let in_flight = self.messages - self.shared.consumer.0.released.load(Ordering::Relaxed);
        if in_flight > GROW_AT || record * 8 > self.next_bytes {
            self.next_bytes = (self.next_bytes * 2).max(record * 2).min(self.segment_max);
        }
        self.advance_to(self.next_bytes, record)
    }

    pub(crate) fn advance_to(&mut self, bytes: usize, record: usize) -> Result<(), NoMemory> {
        let next = self.shared.segment(bytes, record)?;
        // SAFETY: `next` is fresh and ours; the present segment stays alive until the consumer has read it to its
        // end.
        unsafe {
            (*next).starts_inside.store(self.is_inside_message(), Ordering::Relaxed);
            if self.segment.is_null() {
                self.shared.left.store(next, Ordering::Release);
            } else {
                let old = &*self.segment;
                old.messages_end.store(self.messages, Ordering::Release); // CLOSE
                old.next.store(next, Ordering::Release);
                old.closed_at.store(self.at, Ordering::Release);
            }
            self.room = (*next).room;
        }
        self.segment = next;
        self.at = 0;
        self.raw = 0;
        self.filled = 0;
        Ok(())
    }

    /// Shrinks an idle queue; the caller has both ends. Frees spare segments, and a large segment that was consumed
    /// completely. Returns false if the queue is not empty.
    pub fn shrink(&mut self, consumer: &mut Consumer) -> bool {
        self.next_bytes = MIN_BYTES;
        self.shared.free_spares();
        let unparsed = self.filled > self.at;
        if unparsed || self.is_inside_message() || self.backlog() > 0 || consumer.has_frame() {
            return false;
        }
        if consumer.segment.is_null() || !Arc::ptr_eq(&self.shared, &consumer.shared) {
            return true; // Nothing was ever read.
        }
        if self.room > MIN_BYTES {
            let _ = self.advance_to(MIN_BYTES, 0); // Without memory the large one stays.
        }
        self.set_mark(); // A rollback must not return to what is freed here.
        consumer.go_on_to(self.segment);
        true
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.rollback();
        self.shared.end_at.store(self.at as u64, Ordering::Release);
    }
}
