//! The reading end of a queue, as a link uses it: runs of bytes for the kernel, each holding any number of frames.
//!
//! Where a segment holds no references, the run is all that is readable in it, and no frame is parsed. The kernel
//! may take part of a run. `write_with` advances by that part and counts the frames in it, so that the high-water
//! mark applies only to what is still in the queue. A link that writes another format reads the frames
//! ([`Consumer::show_frames`]) and reports how many of them are written ([`Consumer::pass_frames`]). Where the link
//! shares an arena with its peer ([`Consumer::lend_from`]), bodies in the arena are written as loans. When the
//! connection is lost, [`Consumer::rewind`] returns to the beginning of the message that was cut off, so that the
//! next connection starts with a whole message.

use std::io::IoSlice;

use crate::arena::Arena;
use crate::consumer::{Consumer, Frame, take_body};
use crate::record::{self, COMMAND, LOAN_LEN, MORE, REF, wire_len, write_header, write_loan};
use crate::segment::Segment;
use crate::sync::{Arc, Ordering, enter};
use crate::{Amount, Body};

/// The most slices in one gathered write.
const SLICES: usize = 32;
/// The most bytes in one gathered write that includes references.
const GATHER_MAX: usize = 1 << 20;

/// Buffers for the headers or loans of bodies outside the segment.
type Heads = [[u8; LOAN_LEN]; SLICES];

impl Consumer {
    /// From now on bodies in `arena` are written as loans, until `rewind`.
    pub fn lend_from(&mut self, arena: Arc<Arena>) {
        self.arena = Some(arena);
    }

    /// Calls `write` with the next bytes, and advances by as many as it reports written. Bodies that were written
    /// completely go to `done` (dropping them may run their owners' code). Returns None if there is nothing to write.
    pub fn write_with<R>(
        &mut self,
        done: &mut Vec<Body>,
        write: impl FnOnce(&[IoSlice<'_>], usize) -> (usize, R),
    ) -> Option<R> {
        if !self.has_frame() {
            return None;
        }
        // SAFETY: there is a segment, and it stays until `look` recycles it.
        if unsafe { !(*self.segment).has_refs.load(Ordering::Relaxed) } {
            return Some(self.write_runs(write));
        }
        // SAFETY: the bytes between `at` and `end` are readable.
        let (wire, result) = unsafe {
            self.find_boundary();
            let (mut heads, mut slices) = ([[0; LOAN_LEN]; SLICES], [IoSlice::new(&[]); SLICES]);
            let (count, bytes) = self.gather(&mut heads, &mut slices);
            let (taken, result) = write(&slices[..count], bytes);
            (self.pass(taken.min(bytes), self.arena.clone(), done), result)
        };
        self.account(wire);
        Some(result)
    }

    /// `write_with` for a segment without references: writes what is readable in it and in the next one, so that the
    /// content of two small segments is one write.
    fn write_runs<R>(&mut self, write: impl FnOnce(&[IoSlice<'_>], usize) -> (usize, R)) -> R {
        // SAFETY: the bytes between `at` and `end` are readable; `look` recycles the segment, but only after the
        // write.
        let run = unsafe {
            std::slice::from_raw_parts(Segment::data(self.segment).add(self.at), self.end - self.at)
        };
        let next = self.next_run();
        let slices = [IoSlice::new(run), IoSlice::new(next)];
        let (here, bytes) = (run.len(), run.len() + next.len());
        let (taken, result) = write(&slices[..1 + usize::from(!next.is_empty())], bytes);
        let taken = taken.min(bytes);
        self.wrote(taken.min(here));
        if taken > here && self.look() {
            self.wrote(taken - here);
        }
        result
    }

    /// What is readable in the next segment. Empty if the producer is still in the present one, or if the next holds
    /// references.
    fn next_run(&self) -> &[u8] {
        let published = self.shared.producer.0.published.load(Ordering::Acquire); // PUBLISH
        let readable = (published - self.read_to_end) as usize;
        // SAFETY: more is published than was read to `end`, so where the segment is closed at `end`, the next is
        // linked and holds the rest. It stays until `look` recycles it.
        unsafe {
            if readable == 0 || (*self.segment).closed_at.load(Ordering::Acquire) != self.end {
                return &[];
            }
            let next = (*self.segment).next.load(Ordering::Acquire);
            if (*next).has_refs.load(Ordering::Relaxed) {
                return &[];
            }
            let run = readable.min((*next).closed_at.load(Ordering::Acquire));
            std::slice::from_raw_parts(Segment::data(next), run)
        }
    }

    /// Advances by `bytes` that the kernel has taken from the segment, without parsing frames.
    fn wrote(&mut self, bytes: usize) {
        self.at += bytes;
        if self.at == self.end {
            self.boundary = self.at;
        }
        self.account(bytes);
    }

    /// The number of messages that end at or before `at`. Looks at each frame once.
    fn count_messages(&mut self) -> u64 {
        // SAFETY: there is a segment, and whole records lie in it up to `end`, which is not before `at`.
        unsafe {
            let data = Segment::data(self.segment);
            while self.counted_at < self.at {
                let head = record::head(data.add(self.counted_at));
                let next = self.counted_at + head.header + head.body;
                if next > self.at {
                    break;
                }
                self.counted_at = next;
                self.counted += u64::from(head.flags & MORE == 0);
            }
        }
        self.counted
    }

    /// Passes the next frames to `reader` (flags, body), for a link that writes another format, until `reader`
    /// returns false or the run ends. The frames stay in the queue until `pass_frames`.
    pub fn show_frames(&mut self, mut reader: impl FnMut(u8, &[u8]) -> bool) {
        if !self.has_frame() {
            return;
        }
        let mut at = self.at;
        // SAFETY: whole records lie between `at` and `end`, and `at` is at one; the bodies they refer to live
        // until `pass` takes them out.
        unsafe {
            let data: *const u8 = Segment::data(self.segment);
            while at < self.end {
                let head = record::head(data.add(at));
                let body = if head.flags & REF == 0 {
                    std::slice::from_raw_parts(data.add(at + head.header), head.body)
                } else {
                    Body::peek_raw(record::raw_body(data.add(at)))
                };
                at += head.header + head.body;
                if !reader(head.flags & (MORE | COMMAND), body) {
                    return;
                }
            }
        }
    }

    /// Advances by `count` of the frames that were shown: they are written completely. Their bodies go to `done`.
    pub fn pass_frames(&mut self, count: usize, done: &mut Vec<Body>) {
        let (mut wire, mut left) = (0, count);
        self.show_frames(|_, body| {
            if left > 0 {
                left -= 1;
                wire += wire_len(body.len());
            }
            left > 0
        });
        if wire > 0 {
            // SAFETY: frames were shown, so there is a segment, with whole records from `at` on.
            let wire = unsafe { self.pass(wire, None, done) };
            self.account(wire);
        }
    }

    /// Returns true if what was written so far is known, without looking at frames, to end with a whole frame.
    pub fn is_at_frame(&self) -> bool {
        self.boundary == self.at && self.partial == 0
    }

    /// Moves `at` back to the beginning of the record that it lies in, and keeps the difference in `partial`.
    fn find_boundary(&mut self) {
        let target = self.at;
        let mut from = self.boundary;
        if from < target {
            // SAFETY: whole records lie from `boundary` on.
            unsafe {
                let data = Segment::data(self.segment);
                loop {
                    let head = record::head(data.add(from));
                    let next = from + head.header + head.body;
                    if next > target {
                        break;
                    }
                    from = next;
                    if from == target {
                        break;
                    }
                }
            }
            self.partial = target - from;
        }
        self.at = from;
        self.boundary = from;
    }

    /// Fills `slices`, starting with the record at `at`; returns their number and their bytes.
    unsafe fn gather<'a>(&self, heads: &'a mut Heads, slices: &mut [IoSlice<'a>; SLICES]) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        let (mut at, mut skip) = (self.at, self.partial);
        let mut heads = heads.iter_mut();
        // SAFETY: whole records lie between `at` and `end`; the bodies they refer to live until `pass` takes
        // them out.
        unsafe {
            let data: *const u8 = Segment::data(self.segment);
            let mut plain = at + skip;
            while at < self.end && count + 3 <= SLICES && bytes < GATHER_MAX {
                let head = record::head(data.add(at));
                let next = at + head.header + head.body;
                if head.flags & REF == 0 {
                    at = next;
                    skip = 0;
                    continue;
                }
                if at > plain {
                    slices[count] = IoSlice::new(std::slice::from_raw_parts(data.add(plain), at - plain));
                    count += 1;
                    bytes += at - plain;
                }
                let raw = record::raw_body(data.add(at));
                let Some(room) = heads.next() else { break };
                let (header, body) = match self.position(raw) {
                    Some(position) => {
                        write_loan(room, head.flags, position, Body::len_raw(raw));
                        (LOAN_LEN, &[][..])
                    }
                    None => {
                        let body = Body::peek_raw(raw);
                        (write_header(room.as_mut_ptr(), head.flags & !REF, body.len()), body)
                    }
                };
                if skip < header {
                    slices[count] = IoSlice::new(&room[skip..header]);
                    bytes += header - skip;
                    count += 1;
                }
                let body = &body[skip.saturating_sub(header)..];
                if !body.is_empty() {
                    slices[count] = IoSlice::new(body);
                    bytes += body.len();
                    count += 1;
                }
                at = next;
                skip = 0;
                plain = at;
            }
            if at > plain && count < SLICES {
                slices[count] = IoSlice::new(std::slice::from_raw_parts(data.add(plain), at - plain));
                bytes += at - plain;
                count += 1;
            }
        }
        (count, bytes)
    }

    /// The arena position of a body that is written as a loan.
    ///
    /// # Safety
    /// As for `Body::peek_raw`.
    unsafe fn position(&self, raw: u64) -> Option<u64> {
        // SAFETY: the caller's promise.
        self.arena.as_ref().and_then(|arena| unsafe { Body::position_raw(raw, arena) })
    }

    /// Advances by `taken` written bytes, record by record, where bodies in `arena` were written as loans. Returns
    /// how many bytes that is on the wire.
    unsafe fn pass(&mut self, taken: usize, arena: Option<Arc<Arena>>, done: &mut Vec<Body>) -> usize {
        let mut left = taken + self.partial;
        let (mut passed, before) = (0, self.partial);
        self.partial = 0;
        // SAFETY: whole records lie between `at` and `end`.
        unsafe {
            let data = Segment::data(self.segment);
            while self.at < self.end {
                let head = record::head(data.add(self.at));
                let (mut wire, mut loan) = (head.header + head.body, None);
                if head.flags & REF != 0 {
                    let raw = record::raw_body(data.add(self.at));
                    wire = wire_len(Body::len_raw(raw));
                    loan = arena.as_ref().and_then(|arena| Some((arena, Body::position_raw(raw, arena)?)));
                }
                let written = if loan.is_some() { LOAN_LEN } else { wire };
                if left < written {
                    break;
                }
                if head.flags & REF != 0 {
                    let body = take_body(data.add(self.at));
                    if let Some((arena, position)) = loan {
                        arena.offer(position, body.len());
                    }
                    done.push(body);
                }
                left -= written;
                passed += wire;
                self.at += head.header + head.body;
            }
        }
        self.partial = left;
        self.boundary = self.at;
        passed + left - before
    }

    /// Reports to the producer what was written. If that ends inside a run, counts the run's frames: only what is
    /// still in the queue may hold up a producer at its high-water mark.
    fn account(&mut self, taken: usize) {
        let known = if self.at == self.end { self.messages_to_end() } else { None };
        let messages = known.unwrap_or_else(|| self.count_messages());
        self.release(messages, taken as u64);
    }

    /// The number of messages that end at or before `end`, if it is known.
    fn messages_to_end(&self) -> Option<u64> {
        let line = &self.shared.producer.0;
        let all = line.messages.load(Ordering::Acquire); // COUNT
        if line.messages_reach.load(Ordering::Relaxed) == self.read_to_end {
            return Some(all);
        }
        // SAFETY: the segment is alive.
        let segment = unsafe { &*self.segment };
        let is_closed = || segment.closed_at.load(Ordering::Acquire) == self.end;
        is_closed().then(|| segment.messages_end.load(Ordering::Acquire)).filter(|_| is_closed()) // CLOSE
    }

    /// Removes everything that is left, starting at a message boundary. Bodies go to `done`. Returns how much that
    /// was, without commands.
    pub fn drain(&mut self, done: &mut Vec<Body>) -> Amount {
        let mut amount = Amount::default();
        let mut count = |frame: Frame<'_>| {
            if frame.flags() & COMMAND == 0 {
                amount.messages += u64::from(frame.flags() & MORE == 0);
                amount.bytes += record::wire_len(frame.data().len()) as u64;
            }
        };
        while self.pop_leaving(|body| done.push(body), &mut count).is_some() {}
        if !self.segment.is_null() {
            self.boundary = self.at;
            self.account(0);
        }
        amount
    }

    /// As `drain`, for messages that are delivered to nobody: the producer counts them as given up
    /// (`Producer::books`).
    pub fn give_up(&mut self, done: &mut Vec<Body>) -> Amount {
        let shared = self.shared.clone();
        let mut given_up = enter(&shared.given_up);
        let before = self.wire;
        let amount = self.drain(done);
        *given_up += Amount { messages: amount.messages, bytes: self.wire - before };
        amount
    }

    /// Reports that the messages consumed last were not delivered: the producer counts them as given up.
    pub fn count_given_up(&mut self, amount: Amount) {
        *enter(&self.shared.given_up) += amount;
    }

    /// Returns to the beginning of the message that was cut off. If part of it is already gone, advances to the next
    /// message instead, and its remaining bodies go to `done`. Returns what the producer then counts as given up: one
    /// message or none, and those of its bytes that were not written.
    pub fn rewind(&mut self, done: &mut Vec<Body>) -> Amount {
        self.arena = None;
        if self.segment.is_null() {
            return Amount::default();
        }
        self.find_boundary();
        let (mut from, mut start) = (0, None);
        // SAFETY: whole records lie from the segment's beginning to `at`, and the bytes of consumed ones are still
        // intact.
        unsafe {
            let data = Segment::data(self.segment);
            if !(*self.segment).starts_inside.load(Ordering::Relaxed) {
                start = Some(0);
            }
            while from < self.at {
                let head = record::head(data.add(from));
                if head.flags & MORE != 0 && head.flags & REF != 0 {
                    start = None; // Its body was written and is gone.
                }
                from += head.header + head.body;
                if head.flags & MORE == 0 {
                    start = Some(from);
                }
            }
        }
        if let Some(start) = start {
            let is_cut = self.at != start || self.partial > 0;
            // What was written of the message no longer counts.
            self.wire = self.wire.saturating_sub((self.at - start + self.partial) as u64);
            self.shared.consumer.0.released_wire.store(self.wire, Ordering::Release);
            self.discharge();
            self.at = start;
            self.boundary = start;
            self.partial = 0;
            self.note_cut(is_cut);
            return Amount::default();
        }
        let shared = self.shared.clone();
        let mut given_up = enter(&shared.given_up);
        // The written part of the first frame is counted already.
        let written = std::mem::take(&mut self.partial) as u64;
        self.wire = self.wire.saturating_sub(written);
        let bytes = self.skip_message(done).saturating_sub(written);
        let amount = Amount { messages: 1, bytes };
        *given_up += amount;
        amount
    }

    fn note_cut(&mut self, is_cut: bool) {
        match is_cut {
            true if self.cuts > 0 && self.cut_at == self.wire => self.cuts += 1,
            true => (self.cut_at, self.cuts) = (self.wire, 1),
            false => self.cuts = 0,
        }
    }

    /// How many times in a row `rewind` returned to the beginning of the next message.
    pub fn cuts(&self) -> u32 {
        self.cuts
    }

    /// Removes the next message without delivering it: the producer counts it as given up. Its bodies go to `done`.
    pub fn give_up_one(&mut self, done: &mut Vec<Body>) -> Amount {
        let shared = self.shared.clone();
        let mut given_up = enter(&shared.given_up);
        let amount = Amount { messages: 1, bytes: self.skip_message(done) };
        self.cuts = 0;
        *given_up += amount;
        amount
    }

    /// Removes a message, or the rest of one, and returns its bytes as on the wire.
    fn skip_message(&mut self, done: &mut Vec<Body>) -> u64 {
        let mut bytes = 0;
        let mut skip = |frame: Frame<'_>| {
            bytes += record::wire_len(frame.data().len()) as u64;
            frame.flags() & MORE != 0
        };
        while self.pop_leaving(|body| done.push(body), &mut skip) == Some(true) {}
        self.boundary = self.at;
        self.account(0);
        bytes
    }
}
