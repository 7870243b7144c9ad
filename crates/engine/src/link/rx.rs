//! The receive direction of a link: from the kernel to the incoming queue.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use pinnace_ring::{Body, Doorbell, Limits};
use pinnace_sys::{Errno, net};
use pinnace_zmtp::frame;

use super::codec::{Decoder, RAW_BYTES};
use super::incoming::{Decoding, Incoming};
use super::packets::{PacketReader, Packets};
use super::shared::{By, SharedStream};
use super::{Link, STREAMING_BYTES, Stream};
use crate::drops::Reason;
use crate::pipe::Pipe;
use crate::queue::Source;

/// The most bytes that one call reads, so that it does not hold up others for long, ...
const ROUND_BYTES: usize = 512 * 1024;
/// ... and the most bytes of one read. The connections of a socket share this if they are many, so that the first
/// one's data is still in the CPU cache when the others have been read.
const SEGMENT_BYTES: usize = 256 * 1024;
const MANY: usize = 64;
const SEGMENT_LEAST: usize = 8 * 1024;
/// The most datagrams that one call discards when there is no room for them.
const LOSE_MAX: usize = 256;

pub(super) struct Rx {
    pub(super) stream: Option<Arc<Stream>>,
    pub(super) incoming: Option<Incoming>,
    decoder: Option<Box<Decoding>>,
    packets: Option<PacketReader>,
    /// Nothing more is read.
    stopped: bool,
    /// Stalled at the high-water mark; the consumer resumes reading.
    stalled: bool,
}

/// The result of discarding input.
pub(super) enum Discarded {
    /// The peer has ended its side.
    End,
    /// All input so far was discarded.
    All,
    /// There is more input than one call discards.
    More,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// Bytes were read.
    Bytes,
    /// Nothing to read: EAGAIN.
    Empty,
    /// The queue is full, or the connection has ended.
    Stopped,
}

impl Rx {
    pub(super) fn new(
        stream: Arc<Stream>,
        incoming: Incoming,
        decoder: Option<Decoder>,
        packets: Option<Packets>,
    ) -> Rx {
        let packets = packets.map(PacketReader::new);
        let decoder = decoder.map(|decoder| Box::new(Decoding::new(decoder)));
        Rx {
            stream: Some(stream),
            incoming: Some(incoming),
            decoder,
            packets,
            stopped: false,
            stalled: false,
        }
    }

    /// Whether there is input that the kernel does not know of.
    fn has_read(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.has_read())
    }

    pub(super) fn has_unpolled_input(&self) -> bool {
        !self.stalled && self.has_read()
    }

    /// Arms the doorbell. True: the caller may sleep until the peer, or another thread, wakes it.
    fn arm_doorbell(&self) -> bool {
        let sleeps = self.shared().is_none_or(|shared| shared.arm_doorbell());
        sleeps || self.stalled || self.stopped // If stalled, the consumer resumes reading.
    }

    pub(super) fn shared(&self) -> Option<&SharedStream> {
        self.stream.as_ref().and_then(|stream| stream.shared())
    }

    /// Shrinks the incoming queue if it is idle.
    pub(super) fn shrink(&mut self, pipe: &mut Pipe) -> bool {
        self.incoming.as_mut().is_none_or(|incoming| incoming.intake.queue().shrink(&mut pipe.rx.queue))
    }

    /// Whether a step of the peer towards shared memory waits for an answer.
    fn has_step(&self) -> bool {
        self.incoming.as_ref().is_some_and(|incoming| incoming.step.is_some())
    }

    /// Ends reading, and returns the incoming queue.
    pub(super) fn end(&mut self) -> Option<Source> {
        self.stream = None;
        let Incoming { intake, outlet, .. } = self.incoming.take()?;
        Some(Source { queue: intake.into_queue(), outlet })
    }
}

impl Link {
    /// Reads the available input, as far as the queue has room for it.
    pub(crate) fn read(&self) -> ReadOutcome {
        // Bodies that an answer to the peer has written out. Their owners' code runs last, with no lock held.
        let mut done = Vec::new();
        let mut rx = self.rx.lock();
        let outcome = self.read_round(&mut rx, &mut done);
        self.write_if_room(&rx, &mut done);
        outcome
    }

    fn read_round(&self, rx: &mut Rx, done: &mut Vec<Body>) -> ReadOutcome {
        let (round, segment) = self.portions();
        let mut left = round;
        let mut outcome = ReadOutcome::Empty;
        // The poll set does not report data that TLS has decrypted: read all of it, and past the round's limit do not
        // decrypt any more.
        while (left > 0 || rx.has_read()) && !self.is_broken() {
            if rx.stopped {
                return ReadOutcome::Stopped;
            }
            let Some(Incoming { intake, .. }) = &mut rx.incoming else { return ReadOutcome::Stopped };
            let messages = self.mailbox.hwm.receive.load(Ordering::Relaxed).into();
            intake.queue().set_limits(Limits { messages, ahead_bytes: 0 });
            intake.queue().set_max_bytes(self.mailbox.hwm.receive_bytes());
            intake.queue().set_segment_max(segment);
            if !intake.queue().has_room() && !intake.queue().want_room() {
                if self.discard_packets(rx) {
                    return ReadOutcome::Stopped;
                }
                // The poll set does not report input in a ring, so only a socket is unregistered.
                if !std::mem::replace(&mut rx.stalled, true) && !self.reads_memory() {
                    self.set_interest(|registration| registration.read = false);
                }
                return ReadOutcome::Stopped;
            }
            let read = match self.read_once(rx, left == 0, done) {
                Ok(found) if rx.has_step() => self.take_step(rx, done).map(|()| found),
                read => read,
            };
            let (taken, room) = match read {
                Ok(found) => found,
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    self.refuse(error);
                    return ReadOutcome::Stopped;
                }
            };
            outcome = ReadOutcome::Bytes;
            // After a large read the next one finds input, too.
            self.read_pays.store(taken >= STREAMING_BYTES, Ordering::Relaxed);
            self.moved(taken);
            left = left.saturating_sub(taken);
            // A ring is read until it is empty, since the empty read arms the wake-up.
            if taken < room && !rx.has_read() && !self.reads_memory() {
                break;
            }
        }
        if rx.stream.as_ref().is_some_and(|stream| stream.wants_write()) {
            self.write_out(done); // TLS itself has output, or memory is to be offered.
        }
        if left == 0 && rx.stream.as_ref().is_some_and(|stream| !stream.sleeps()) {
            self.mailbox.read_again(self);
        }
        if std::mem::take(&mut rx.stalled) && !self.reads_memory() {
            self.set_interest(|registration| registration.read = true);
        }
        outcome
    }

    /// The reader may have drained the wake-up of a writer that waits for room: write if there is room now.
    fn write_if_room(&self, rx: &Rx, done: &mut Vec<Body>) {
        if rx.stream.as_ref().is_some_and(|stream| stream.take_drained_wakeup(By::Reader)) {
            fence(Ordering::SeqCst); // As in `serve`.
            if self.is_blocked() {
                self.write_out(done);
            }
        }
    }

    /// Has the peer wake us again. False: there is input.
    pub(crate) fn resume_wakeups(&self) -> bool {
        let mut done = Vec::new();
        let rx = self.rx.lock();
        let sleeps = rx.stream.as_ref().is_none_or(|stream| stream.resume_wakeups());
        self.write_if_room(&rx, &mut done);
        drop(rx); // Then drop the written bodies: their owners' code runs with no lock held.
        sleeps
    }

    /// The doorbell to sleep on, if input from shared memory is all that the caller waits for.
    pub(crate) fn doorbell(&self) -> Option<Doorbell> {
        if self.is_blocked() {
            return None; // The peer reports room through the socket.
        }
        self.rx.lock().shared()?.doorbell().cloned()
    }

    /// Arms the doorbell, after the caller has called `listen` on it. False: there is input.
    pub(crate) fn arm_doorbell(&self) -> bool {
        self.is_broken() || self.rx.lock().arm_doorbell()
    }

    /// The most bytes that one call reads, and the most bytes of one read.
    fn portions(&self) -> (usize, usize) {
        let share = (self.mailbox.links() as usize / MANY).max(1);
        let segment = (SEGMENT_BYTES / share).max(SEGMENT_LEAST);
        (segment * (ROUND_BYTES / SEGMENT_BYTES), segment)
    }

    /// Reads input that came with the handshake but is not part of it, once the link has joined.
    pub(crate) fn read_early(&self) {
        let early = self.rx.lock().has_read();
        if early {
            self.read();
        }
    }

    /// Reads what a full queue has left unread. Does nothing before the link has joined: input that came behind the
    /// handshake must be read first.
    pub(crate) fn read_on(&self) {
        if self.token.get().is_some() {
            self.read();
        }
    }

    /// Whether reading before a notification is likely to find input.
    pub(crate) fn reading_pays(&self) -> bool {
        self.read_pays.load(Ordering::Relaxed)
    }

    /// Reads for a receiver that has no message. If that finds nothing, the next receiver waits for a notification.
    pub(crate) fn try_read(&self) {
        if self.read() != ReadOutcome::Bytes {
            self.read_pays.store(false, Ordering::Relaxed);
        }
    }

    /// One system call, or none for the `rest` of the decrypted input. Returns the bytes read and the bytes that
    /// would have fitted.
    fn read_once(&self, rx: &mut Rx, rest: bool, done: &mut Vec<Body>) -> Result<(usize, usize), Errno> {
        let (Some(stream), Some(incoming)) = (&rx.stream, &mut rx.incoming) else { return Err(Errno::AGAIN) };
        let read = if rest { Stream::read_rest } else { Stream::read };
        if let Some(decoding) = &mut rx.decoder {
            let taken = read(stream, &mut decoding.raw, &mut [])?;
            if taken == 0 {
                return Err(Errno::PIPE);
            }
            let mut raw = std::mem::take(&mut decoding.raw);
            let decoded = self.decode(decoding, &mut raw[..taken], incoming, done);
            decoding.raw = raw;
            return decoded.map(|()| (taken, RAW_BYTES));
        }
        if let Some(packets) = &mut rx.packets {
            let lost = |reason| self.mailbox.lost.add(reason, 1);
            let cost = packets.receive(stream, &mut incoming.intake, self.config.max_body, lost)?;
            self.after_read(incoming, cost, done)?;
            return Ok((cost, cost)); // There may be another packet.
        }
        let (first, second) = incoming.intake.space().map_err(|_| Errno::NOMEM)?;
        let room = first.len() + second.len();
        let taken = read(stream, first, second)?;
        if taken == 0 {
            return Err(Errno::PIPE);
        }
        incoming.intake.filled(taken);
        self.after_read(incoming, taken, done)?;
        Ok((taken, room))
    }

    /// Discards datagrams that the queue has no room for. The kernel would drop them uncounted. False: the link has
    /// none to discard.
    fn discard_packets(&self, rx: &mut Rx) -> bool {
        let (Some(stream), Some(packets)) = (&rx.stream, &mut rx.packets) else { return false };
        for _ in 0..LOSE_MAX {
            let lost = |reason| self.mailbox.lost.add(reason, 1);
            match packets.discard(stream, self.config.max_body, lost) {
                None => return false,
                Some(Err(_)) => return true,
                Some(Ok(_)) => {}
            }
        }
        true
    }

    /// Takes in bytes that came behind the handshake.
    pub(crate) fn feed(&self, bytes: &[u8]) {
        self.take_in(|rx, done| {
            let (Some(incoming), Some(decoding)) = (&mut rx.incoming, &mut rx.decoder) else {
                return self.feed_frames(rx, bytes, done);
            };
            self.decode(decoding, &mut bytes.to_vec(), incoming, done)
        });
    }

    /// Appends a message of one frame to the incoming queue that no peer has sent (ZMQ_ROUTER_NOTIFY,
    /// ZMQ_STREAM_NOTIFY).
    pub(crate) fn append_own_message(&self, message: &[u8]) {
        let mut bytes = Vec::new();
        frame::append(0, &[message], &mut bytes);
        self.take_in(|rx, done| self.feed_frames(rx, &bytes, done));
    }

    fn take_in(&self, work: impl FnOnce(&mut Rx, &mut Vec<Body>) -> Result<(), Errno>) {
        let mut done = Vec::new();
        let mut rx = self.rx.lock();
        let outcome = work(&mut rx, &mut done).and_then(|()| self.take_step(&mut rx, &mut done));
        drop(rx);
        drop(done);
        if let Err(error) = outcome {
            self.refuse(error);
        }
    }

    /// Ends the connection for an error in the input. A message over a limit, or without memory for it, counts as
    /// lost.
    fn refuse(&self, error: Errno) {
        match error {
            Errno::MSGSIZE => self.mailbox.lost.add(Reason::Limit, 1),
            Errno::NOMEM => self.mailbox.lost.add(Reason::NoMemory, 1),
            _ => {}
        }
        self.fail();
    }

    fn feed_frames(&self, rx: &mut Rx, bytes: &[u8], done: &mut Vec<Body>) -> Result<(), Errno> {
        let Some(incoming) = &mut rx.incoming else { return Ok(()) };
        self.feed_incoming(incoming, bytes, bytes.len(), done)
    }

    /// Stops reading. Messages that have come in can still be received.
    pub(super) fn stop_reading(&self) {
        if !std::mem::replace(&mut self.rx.lock().stopped, true) {
            self.set_interest(|registration| registration.read = false);
        }
    }

    /// Whether there is unread input that the queue has no room for.
    pub(crate) fn has_unread(&self) -> bool {
        let is_unread =
            |stream: &Arc<Stream>| (!self.reads_memory() && net::unread(stream) > 0) || stream.has_read();
        self.rx.lock().stream.as_ref().is_some_and(is_unread)
    }

    /// Reads and drops the available input.
    pub(super) fn discard_input(&self) -> Discarded {
        let mut sink = [0; 16 * 1024];
        let rx = self.rx.lock();
        let Some(stream) = &rx.stream else { return Discarded::End };
        stream.on_wakeup(true);
        for _ in 0..64 {
            match stream.read(&mut sink, &mut []) {
                Err(Errno::AGAIN) => return Discarded::All,
                Ok(0) | Err(_) => return Discarded::End,
                Ok(_) => {}
            }
        }
        Discarded::More
    }
}
