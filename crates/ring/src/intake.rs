//! Feeds bytes from a peer into a queue: they are read straight into its segments and parsed into frames in
//! place.
//!
//! ```text
//!   0          at        raw            filled        room
//!   | records  |  (gap)  | not parsed   |  space      |
//! ```
//! A gap opens where a command was removed or a large body was stored elsewhere. The bytes behind the gap are
//! moved down, each byte once. A peer can make this hold at most: whole messages up to the queue's high-water
//! mark (the caller reads only while there is room), one unfinished message of at most [`MAX_PARTS`] frames
//! of at most `max_body` bytes each, and one read.

use crate::arena::{Borrower, Declined};
use crate::producer::Producer;
use crate::record::{COMMAND, HEADER_MAX, LOAN, LOAN_LEN, LONG, MORE, REF_LEN, read_loan, wire_len};
use crate::segment::Segment;
use crate::{Body, INLINE_MAX, NoMemory};

/// The most frames in one message from a peer.
pub const MAX_PARTS: u32 = 1 << 20;
/// The largest command from a peer, in bytes: a subscription to a topic of 64 KiB.
pub const COMMAND_MAX: u64 = 64 * 1024 + 16;
/// The most bytes in one multi-frame message from a peer: this many times the largest frame, or MESSAGE_MIN,
/// whichever is larger.
const MESSAGE_BODIES: u64 = 64;
const MESSAGE_MIN: u64 = 16 << 20;
/// How many bytes after a large body are read by the same system call. They usually contain the next frame's header,
/// and are cheap to copy.
const BEHIND_BODY: usize = 512;
/// The producer advances to the next segment when less room than this is left.
const MIN_SPACE: usize = 512;

/// Why the peer's bytes are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused<E> {
    /// A frame of this many bytes is over the limit.
    TooLarge(u64),
    /// A message of more than [`MAX_PARTS`] frames.
    TooManyParts,
    /// A command with [`Verdict::Keep`] inside a message.
    CommandInsideMessage,
    /// An invalid loan.
    Loan,
    NoMemory,
    /// The caller refused a command.
    Command(E),
}

/// What to do with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Keep it in the queue, as a message of its own.
    Keep,
    /// Remove it from the queue.
    Drop,
    /// Remove it, and end the stream here: the bytes behind it are not frames and are dropped.
    Last,
}

/// The producer of a queue that is fed with bytes in wire format.
pub struct Intake {
    queue: Producer,
    pending: Option<Pending>,
    /// Takes the peer's loans, if the peer may lend.
    borrower: Option<Borrower>,
    max_body: u64,
    max_message: u64,
    /// Frames and bytes of the unfinished message.
    parts: u32,
    unfinished: u64,
}

struct Pending {
    flags: u8,
    body: Body,
    filled: usize,
}

impl Intake {
    /// `max_body`: the largest frame a peer may send, in bytes.
    pub fn new(mut queue: Producer, max_body: u64) -> Intake {
        (queue.raw, queue.filled) = (queue.at, queue.at); // Drop the unparsed bytes of an earlier peer.
        let max_message = max_body.saturating_mul(MESSAGE_BODIES).max(MESSAGE_MIN);
        Intake { queue, pending: None, borrower: None, max_body, max_message, parts: 0, unfinished: 0 }
    }

    /// Allows the peer to lend bodies.
    pub fn borrow_by(&mut self, borrower: Borrower) {
        self.borrower = Some(borrower);
    }

    /// The queue, to query and configure it. Frames pushed through this reference would mix with those that
    /// are being read.
    pub fn queue(&mut self) -> &mut Producer {
        &mut self.queue
    }

    /// Bytes of all complete frames so far, without commands that were not kept.
    pub fn whole_bytes(&self) -> u64 {
        self.queue.wire
    }

    /// Stops feeding the queue. An incomplete message is dropped.
    pub fn into_queue(mut self) -> Producer {
        self.pending = None;
        self.queue.rollback();
        self.queue
    }

    /// Where to read to: first the rest of a large body, if one is pending, then the room behind the bytes
    /// read before.
    pub fn space(&mut self) -> Result<(&mut [u8], &mut [u8]), NoMemory> {
        let queue = &mut self.queue;
        let least = if self.pending.is_some() { REF_LEN + BEHIND_BODY } else { MIN_SPACE };
        if queue.room - queue.filled < least {
            let partial = queue.filled - queue.raw;
            // Ask for twice the minimum: else a frame that arrives byte by byte would move to a new segment
            // at each byte.
            move_on(queue, partial + 2 * MIN_SPACE)?;
        }
        // SAFETY: `filled..room` is initialised memory of our own segment, and no record lies in it.
        let behind = unsafe {
            let data = Segment::data(queue.segment);
            std::slice::from_raw_parts_mut(data.add(queue.filled), queue.room - queue.filled)
        };
        match &mut self.pending {
            None => Ok((behind, &mut [])),
            Some(pending) => {
                let body = pending.body.as_mut().expect("a body that is being filled has one holder");
                let most = BEHIND_BODY.min(behind.len());
                Ok((&mut body[pending.filled..], &mut behind[..most]))
            }
        }
    }

    /// Reports that `bytes` were read into the two slices of `space`, the first one first. A number larger than the
    /// space counts as all of it.
    pub fn filled(&mut self, bytes: usize) {
        let mut rest = bytes;
        if let Some(pending) = &mut self.pending {
            let taken = rest.min(pending.body.len() - pending.filled);
            pending.filled += taken;
            rest -= taken;
        }
        self.queue.filled += rest.min(self.queue.room - self.queue.filled);
        if self.queue.filled == self.queue.room {
            // The peer is streaming: make the next segment, and with it the next read, larger.
            self.queue.next_bytes = (self.queue.next_bytes * 4).min(self.queue.segment_max);
        }
    }

    /// Copies bytes in as if they had been read: those that arrived together with the handshake.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), NoMemory> {
        while !bytes.is_empty() {
            let (first, second) = self.space()?;
            let one = first.len().min(bytes.len());
            first[..one].copy_from_slice(&bytes[..one]);
            let two = second.len().min(bytes.len() - one);
            second[..two].copy_from_slice(&bytes[one..one + two]);
            self.filled(one + two);
            bytes = &bytes[one + two..];
            if self.queue.filled == self.queue.room && !bytes.is_empty() {
                self.queue.next_bytes = self.queue.segment_max;
            }
        }
        Ok(())
    }

    /// Parses the bytes that were read into frames, and publishes whole messages. Returns true if the
    /// consumer is parked and has to be woken.
    pub fn parse<E>(
        &mut self,
        mut on_command: impl FnMut(&[u8]) -> Result<Verdict, E>,
    ) -> Result<bool, Refused<E>> {
        let mut messages = 0;
        let outcome = self.parse_frames(&mut messages, &mut on_command);
        self.close_gap();
        let told = messages > 0 && self.queue.publish_counted(messages);
        outcome.map(|()| told)
    }

    fn parse_frames<E>(
        &mut self,
        messages: &mut u64,
        on_command: &mut impl FnMut(&[u8]) -> Result<Verdict, E>,
    ) -> Result<(), Refused<E>> {
        if self.pending.as_ref().is_some_and(|pending| pending.filled < pending.body.len()) {
            return Ok(());
        }
        self.put_body(messages)?;
        loop {
            let available = self.queue.filled - self.queue.raw;
            if available < 2 {
                return Ok(());
            }
            // SAFETY: `available` bytes lie behind `raw`; nine are read only where `available` is at least
            // nine.
            let (flags, header, body) = unsafe {
                let at = Segment::data(self.queue.segment).add(self.queue.raw);
                let flags = *at & (MORE | LONG | COMMAND);
                if *at != flags {
                    if *at & LOAN != 0 && self.borrower.is_some() {
                        if available < LOAN_LEN {
                            return Ok(());
                        }
                        self.borrow(messages)?;
                        continue;
                    }
                    *at = flags; // Ignore the wire's reserved bits: here REF has a meaning.
                }
                if flags & LONG != 0 && available < HEADER_MAX {
                    return Ok(());
                }
                let length = *at.add(1) as u64;
                let length = if flags & LONG == 0 {
                    length
                } else {
                    u64::from_be_bytes(at.add(1).cast::<[u8; 8]>().read_unaligned())
                };
                (flags, if flags & LONG == 0 { 2 } else { HEADER_MAX }, length)
            };
            if body > self.max_body {
                return Err(Refused::TooLarge(body));
            }
            if flags & COMMAND != 0 {
                if body > COMMAND_MAX {
                    return Err(Refused::TooLarge(body));
                }
            } else if body > INLINE_MAX as u64 {
                if !self.start_body(flags, body as usize, messages)? {
                    return Ok(());
                }
                continue;
            }
            let record = header + body as usize;
            if available < record {
                if self.queue.room - self.queue.raw < record {
                    move_on(&mut self.queue, record + MIN_SPACE).map_err(|NoMemory| Refused::NoMemory)?;
                }
                return Ok(());
            }
            if flags & COMMAND == 0 {
                self.accept(record);
                self.count(flags, record, messages)?;
            } else {
                self.command(header, record, messages, on_command)?;
            }
        }
    }

    /// Accepts the next `record` bytes as a record.
    #[inline(always)]
    fn accept(&mut self, record: usize) {
        let queue = &mut self.queue;
        if queue.at != queue.raw {
            // SAFETY: both ranges lie in our segment, and `at` is before `raw`.
            unsafe {
                let data = Segment::data(queue.segment);
                std::ptr::copy(data.add(queue.raw), data.add(queue.at), record);
            }
        }
        queue.at += record;
        queue.raw += record;
        queue.written += record as u64;
        queue.wire += record as u64;
    }

    #[inline(always)]
    fn count<E>(&mut self, flags: u8, bytes: usize, messages: &mut u64) -> Result<(), Refused<E>> {
        if flags & MORE == 0 {
            *messages += 1;
            self.parts = 0;
            self.unfinished = 0;
            self.queue.set_mark();
            return Ok(());
        }
        self.parts += 1;
        self.unfinished = self.unfinished.saturating_add(bytes as u64);
        if self.unfinished > self.max_message {
            return Err(Refused::TooLarge(self.unfinished));
        }
        if self.parts >= MAX_PARTS { Err(Refused::TooManyParts) } else { Ok(()) }
    }

    #[cold]
    fn command<E>(
        &mut self,
        header: usize,
        record: usize,
        messages: &mut u64,
        on_command: &mut impl FnMut(&[u8]) -> Result<Verdict, E>,
    ) -> Result<(), Refused<E>> {
        // SAFETY: a whole record lies at `raw`.
        let body = unsafe {
            let at = Segment::data(self.queue.segment).add(self.queue.raw);
            std::slice::from_raw_parts(at.add(header), record - header)
        };
        match on_command(body).map_err(Refused::Command)? {
            Verdict::Drop => self.queue.raw += record,
            Verdict::Last => {
                self.queue.raw += record;
                self.queue.filled = self.queue.raw;
            }
            Verdict::Keep if self.queue.is_inside_message() => return Err(Refused::CommandInsideMessage),
            Verdict::Keep => {
                // SAFETY: as above. A command is one frame, so MORE is cleared.
                unsafe { *Segment::data(self.queue.segment).add(self.queue.raw) &= !MORE };
                self.accept(record);
                self.count(COMMAND, record, messages)?;
            }
        }
        Ok(())
    }

    /// A frame too large for the queue begins at `raw`. Returns false if its bytes have not all arrived.
    #[cold]
    fn start_body<E>(&mut self, flags: u8, len: usize, messages: &mut u64) -> Result<bool, Refused<E>> {
        let queue = &mut self.queue;
        let mut body = Body::with_len(len).map_err(|NoMemory| Refused::NoMemory)?;
        let from = queue.raw + HEADER_MAX;
        let there = (queue.filled - from).min(len);
        // SAFETY: `there` bytes lie behind the header.
        let bytes = unsafe { std::slice::from_raw_parts(Segment::data(queue.segment).add(from), there) };
        body.as_mut().expect("a fresh body has one holder")[..there].copy_from_slice(bytes);
        queue.raw = from + there;
        self.pending = Some(Pending { flags: flags & MORE, body, filled: there });
        if there == len {
            // The reference record (nine bytes) takes the place of the frame's header, which has nine bytes as well.
            self.put_body(messages)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// A loan lies at `raw`: replaces it by a reference to its body.
    #[cold]
    fn borrow<E>(&mut self, messages: &mut u64) -> Result<(), Refused<E>> {
        let (queue, Some(borrower)) = (&mut self.queue, &mut self.borrower) else { return Ok(()) };
        // SAFETY: a whole loan lies at `raw`.
        let (flags, (position, len)) = unsafe {
            let at = Segment::data(queue.segment).add(queue.raw);
            (*at & !LOAN, read_loan(at))
        };
        if flags & !MORE != 0 {
            return Err(Refused::Loan);
        }
        if len > self.max_body {
            return Err(Refused::TooLarge(len));
        }
        let body = borrower.borrow(position, len).map_err(|declined| match declined {
            Declined::PeerViolation => Refused::Loan,
            Declined::NoMemory => Refused::NoMemory,
        })?;
        queue.raw += LOAN_LEN;
        queue.wire += wire_len(body.len()) as u64;
        let bytes = body.len();
        queue.push_reference(flags, body); // It is no longer than the loan was.
        self.count(flags, bytes, messages)
    }

    /// Puts a reference to a large body in the queue, once the body is complete.
    fn put_body<E>(&mut self, messages: &mut u64) -> Result<(), Refused<E>> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let bytes = pending.body.len();
        self.queue.wire += wire_len(bytes) as u64;
        self.queue.push_reference(pending.flags, pending.body);
        self.count(pending.flags, bytes, messages)
    }

    /// Moves the unparsed bytes down to the end of the records.
    fn close_gap(&mut self) {
        let reserved = if self.pending.is_some() { REF_LEN } else { 0 };
        let queue = &mut self.queue;
        let to = queue.at + reserved;
        if queue.segment.is_null() || queue.raw <= to {
            return;
        }
        let rest = queue.filled - queue.raw;
        // SAFETY: both ranges lie in our segment.
        unsafe {
            let data = Segment::data(queue.segment);
            std::ptr::copy(data.add(queue.raw), data.add(to), rest);
        }
        queue.raw = to;
        queue.filled = to + rest;
    }
}

/// Advances to another segment with room for `record` bytes, and moves the unparsed bytes there.
fn move_on(queue: &mut Producer, record: usize) -> Result<(), NoMemory> {
    let (old, from, rest) = (queue.segment, queue.raw, queue.filled - queue.raw);
    let reserved = queue.raw.saturating_sub(queue.at).min(REF_LEN);
    queue.advance_to(queue.next_bytes, record + reserved)?;
    queue.raw = reserved;
    queue.filled = reserved + rest;
    if rest > 0 {
        // SAFETY: the old segment stays alive: the consumer leaves it only when something is published in the
        // new one, and nothing is yet. The new one has room for `record`, which is at least `rest`.
        unsafe {
            let data = Segment::data(queue.segment);
            std::ptr::copy_nonoverlapping(Segment::data(old).add(from), data.add(reserved), rest);
        }
    }
    Ok(())
}
