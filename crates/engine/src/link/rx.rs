//! The way in of a link: from the kernel to the incoming queue.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use pinnace_ring::{Bell, Body, Intake, Limits, Refused, Verdict};
use pinnace_sys::{Errno, net};
use pinnace_zmtp::command::{self, Command};
use pinnace_zmtp::sharing::Step;
use pinnace_zmtp::{Error, frame};

use super::codec::Decoder;
use super::packets::{Incoming, Packets};
use super::shared::{By, Shared};
use super::{Link, STREAMING_BYTES, Stream};
use crate::conflate::Outlet;
use crate::drops::Reason;
use crate::ends::Source;
use crate::hub::Mail;
use crate::pipe::Pipe;

/// Bytes that one call reads at most, so that nobody is held up for long, ...
const ROUND_BYTES: usize = 512 * 1024;
/// ... and that it reads into at once. Where a socket has many connections they share what few would have: what is read
/// of one should still be in the processor's cache when the others have been read.
const SEGMENT_BYTES: usize = 256 * 1024;
const MANY: usize = 64;
const SEGMENT_LEAST: usize = 8 * 1024;
/// Datagrams that one call takes away at most, where there is no room for them.
const LOSE_MAX: usize = 256;
/// Bytes of a frame that is not whole which show that its peer is there and sends it. Fewer may be no more than the
/// PINGs of a peer that has nothing to send, swallowed by a frame that never was one.
const PROGRESS_BYTES: usize = 4 * 1024;
/// Bytes that one read takes where they have to be decoded.
pub(crate) const RAW_BYTES: usize = 64 * 1024;

pub(super) struct Rx {
    pub(super) stream: Option<Arc<Stream>>,
    pub(super) way: Option<Way>,
    decoder: Option<Box<Decoding>>,
    packets: Option<Incoming>,
    /// Nothing more is taken in.
    stopped: bool,
    /// The queue is at its mark; its consumer reads on when it has made room.
    stalled: bool,
}

/// The incoming queue, and where only the newest message is kept, what empties it.
pub(super) struct Way {
    pub(super) intake: Intake,
    pub(super) outlet: Option<Box<Outlet>>,
    /// A step towards shared memory that the peer has taken.
    pub(super) step: Option<Step>,
    /// Bytes of a frame that is not whole, since the peer was heard of.
    dribbled: usize,
}

impl Way {
    pub(super) fn new(intake: Intake, outlet: Option<Box<Outlet>>) -> Way {
        Way { intake, outlet, step: None, dribbled: 0 }
    }
}

/// For what does not come in as it is to lie in the queue.
struct Decoding {
    decoder: Decoder,
    raw: Box<[u8]>,
    frames: Vec<u8>,
    replies: Vec<u8>,
}

/// What was found when input was read to be dropped.
pub(super) enum Discarded {
    /// The peer has ended its side.
    End,
    /// All that has come so far.
    All,
    /// More is there than a turn takes.
    Some,
}

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// Bytes.
    Some,
    /// Nothing: EAGAIN.
    None,
    /// The queue is full, or the connection has ended.
    Stopped,
}

impl Rx {
    pub(super) fn new(
        stream: Arc<Stream>,
        way: Way,
        decoder: Option<Decoder>,
        packets: Option<Packets>,
    ) -> Rx {
        let packets = packets.map(Incoming::new);
        let decoder = decoder.map(|decoder| {
            let raw = vec![0; RAW_BYTES].into();
            Box::new(Decoding { decoder, raw, frames: Vec::new(), replies: Vec::new() })
        });
        Rx { stream: Some(stream), way: Some(way), decoder, packets, stopped: false, stalled: false }
    }

    /// Whether there is something to read of which the kernel does not know.
    fn has_read(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.has_read())
    }

    pub(super) fn has_news(&self) -> bool {
        !self.stalled && self.has_read()
    }

    /// Whether who waits may sleep until the peer wakes it by the bell, or anybody else does.
    fn arm_bell(&self) -> bool {
        let sleeps = self.shared().is_none_or(|shared| shared.arm_bell());
        sleeps || self.stalled || self.stopped // What is there is read on when there is room, and not for its own sake.
    }

    pub(super) fn shared(&self) -> Option<&Shared> {
        self.stream.as_ref().and_then(|stream| stream.shared())
    }

    /// Makes the incoming queue small, where it is idle.
    pub(super) fn shrink(&mut self, pipe: &mut Pipe) -> bool {
        self.way.as_mut().is_none_or(|way| way.intake.queue().shrink(&mut pipe.rx))
    }

    /// The peer has taken a step towards shared memory, which waits to be answered.
    fn has_step(&self) -> bool {
        self.way.as_ref().is_some_and(|way| way.step.is_some())
    }

    /// Nothing more is read.
    pub(super) fn end(&mut self) -> Option<Source> {
        self.stream = None;
        let Way { intake, outlet, .. } = self.way.take()?;
        Some(Source { queue: intake.into_queue(), outlet })
    }
}

impl Link {
    /// Reads what is there, as far as the queue has room for it.
    pub(crate) fn read(&self) -> ReadOutcome {
        // Bodies that an answer to the peer has pushed out. Their owners' code runs last of all, with no lock held.
        let mut done = Vec::new();
        let mut rx = self.rx.lock();
        let outcome = self.read_round(&mut rx, &mut done);
        self.tell_writer(&rx, &mut done);
        outcome
    }

    fn read_round(&self, rx: &mut Rx, done: &mut Vec<Body>) -> ReadOutcome {
        let (round, segment) = self.portions();
        let mut left = round;
        let mut outcome = ReadOutcome::None;
        // What TLS has decrypted the poll set does not tell of: it is read to its end, and beyond the round nothing is
        // added to it.
        while (left > 0 || rx.has_read()) && !self.is_broken() {
            if rx.stopped {
                return ReadOutcome::Stopped;
            }
            let Some(Way { intake, .. }) = &mut rx.way else { return ReadOutcome::Stopped };
            let messages = self.hub.marks.receive.load(Ordering::Relaxed).into();
            intake.queue().set_limits(Limits { messages, ahead_bytes: 0 });
            intake.queue().set_max_bytes(self.hub.marks.receive_bytes());
            intake.queue().set_segment_max(segment);
            if !intake.queue().has_room() && !intake.queue().want_room() {
                if self.lose_packets(rx) {
                    return ReadOutcome::Stopped;
                }
                // What is in a ring the poll set does not tell of.
                if !std::mem::replace(&mut rx.stalled, true) && !self.reads_memory() {
                    self.watch_for(|watching| watching.read = false);
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
            outcome = ReadOutcome::Some;
            // The next read finds something too, where this one found much.
            self.read_pays.store(taken >= STREAMING_BYTES, Ordering::Relaxed);
            self.moved(taken);
            left = left.saturating_sub(taken);
            // The last look at a ring is one that finds nothing, and has the peer wake us.
            if taken < room && !rx.has_read() && !self.reads_memory() {
                break;
            }
        }
        if rx.stream.as_ref().is_some_and(|stream| stream.wants_write()) {
            self.write_out(done); // TLS itself has something to say, or memory is to be offered.
        }
        if left == 0 && rx.stream.as_ref().is_some_and(|stream| !stream.sleeps()) {
            self.hub.read_again(self);
        }
        if std::mem::take(&mut rx.stalled) && !self.reads_memory() {
            self.watch_for(|watching| watching.read = true);
        }
        outcome
    }

    /// Who reads has taken away what may have woken who waits for room: it looks whether there is some.
    fn tell_writer(&self, rx: &Rx, done: &mut Vec<Body>) {
        if rx.stream.as_ref().is_some_and(|stream| stream.take_heard(By::Reader)) {
            fence(Ordering::SeqCst); // As in `serve`.
            if self.is_blocked() {
                self.write_out(done);
            }
        }
    }

    /// The peer rings again. False: there is something to read.
    pub(crate) fn rouse(&self) -> bool {
        let mut done = Vec::new();
        let rx = self.rx.lock();
        let sleeps = rx.stream.as_ref().is_none_or(|stream| stream.rouse());
        self.tell_writer(&rx, &mut done);
        drop(rx); // And then the bodies that are written, whose owners' code runs.
        sleeps
    }

    /// Where to sleep for what comes in, where it is memory that is waited for and nothing else.
    pub(crate) fn bell(&self) -> Option<Bell> {
        if self.is_blocked() {
            return None; // For room the peer rings by the socket.
        }
        self.rx.lock().shared()?.bell().cloned()
    }

    /// Whether the peer wakes who sleeps by the bell from here on, where it has listened. False: there is something to
    /// read.
    pub(crate) fn arm_bell(&self) -> bool {
        self.is_broken() || self.rx.lock().arm_bell()
    }

    /// Bytes that one call reads, and that it reads into at once.
    fn portions(&self) -> (usize, usize) {
        let share = (self.hub.links() as usize / MANY).max(1);
        let segment = (SEGMENT_BYTES / share).max(SEGMENT_LEAST);
        (segment * (ROUND_BYTES / SEGMENT_BYTES), segment)
    }

    /// Reads what came with the handshake and was not part of it, once the link has joined.
    pub(crate) fn read_early(&self) {
        let early = self.rx.lock().has_read();
        if early {
            self.read();
        }
    }

    /// Reads what a full queue has left unread. A link that has not joined has read nothing yet: what came
    /// behind its handshake comes first.
    pub(crate) fn read_on(&self) {
        if self.token.get().is_some() {
            self.read();
        }
    }

    /// Whether to read before being told that there is something to read.
    pub(crate) fn reading_pays(&self) -> bool {
        self.read_pays.load(Ordering::Relaxed)
    }

    /// Reads for a receiver that has nothing: if that finds nothing, the next one waits to be told.
    pub(crate) fn try_read(&self) {
        if self.read() != ReadOutcome::Some {
            self.read_pays.store(false, Ordering::Relaxed);
        }
    }

    /// One system call, or none for the `rest` of what was decrypted: how many bytes it gave, and how many it could
    /// have given.
    fn read_once(&self, rx: &mut Rx, rest: bool, done: &mut Vec<Body>) -> Result<(usize, usize), Errno> {
        let (Some(stream), Some(way)) = (&rx.stream, &mut rx.way) else { return Err(Errno::AGAIN) };
        let read = if rest { Stream::read_rest } else { Stream::read };
        if let Some(decoding) = &mut rx.decoder {
            let taken = read(stream, &mut decoding.raw, &mut [])?;
            if taken == 0 {
                return Err(Errno::PIPE);
            }
            let mut raw = std::mem::take(&mut decoding.raw);
            let decoded = self.decode(decoding, &mut raw[..taken], way, done);
            decoding.raw = raw;
            return decoded.map(|()| (taken, RAW_BYTES));
        }
        if let Some(packets) = &mut rx.packets {
            let lost = |reason| self.hub.lost.add(reason, 1);
            let cost = packets.receive(stream, &mut way.intake, self.config.max_body, lost)?;
            self.after_read(way, cost, done)?;
            return Ok((cost, cost)); // There may be another one.
        }
        let (first, second) = way.intake.space().map_err(|_| Errno::NOMEM)?;
        let room = first.len() + second.len();
        let taken = read(stream, first, second)?;
        if taken == 0 {
            return Err(Errno::PIPE);
        }
        way.intake.filled(taken);
        self.after_read(way, taken, done)?;
        Ok((taken, room))
    }

    /// Takes away datagrams that there is no room for; else they would be lost all the same, and not counted. False:
    /// there are none such.
    fn lose_packets(&self, rx: &mut Rx) -> bool {
        let (Some(stream), Some(packets)) = (&rx.stream, &mut rx.packets) else { return false };
        for _ in 0..LOSE_MAX {
            let lost = |reason| self.hub.lost.add(reason, 1);
            match packets.discard(stream, self.config.max_body, lost) {
                None => return false,
                Some(Err(_)) => return true,
                Some(Ok(_)) => {}
            }
        }
        true
    }

    /// Bytes that came behind the handshake.
    pub(crate) fn feed(&self, bytes: &[u8]) {
        self.take_in(|rx, done| {
            let (Some(way), Some(decoding)) = (&mut rx.way, &mut rx.decoder) else {
                return self.feed_frames(rx, bytes, done);
            };
            self.decode(decoding, &mut bytes.to_vec(), way, done)
        });
    }

    /// A message of one frame that our side puts in itself, behind what has come in.
    pub(crate) fn bring(&self, message: &[u8]) {
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

    /// The connection ends: what came last is not taken. A message that is too large is lost, and counts.
    fn refuse(&self, error: Errno) {
        match error {
            Errno::MSGSIZE => self.hub.lost.add(Reason::Limit, 1),
            Errno::NOMEM => self.hub.lost.add(Reason::NoMemory, 1),
            _ => {}
        }
        self.fail();
    }

    fn feed_frames(&self, rx: &mut Rx, bytes: &[u8], done: &mut Vec<Body>) -> Result<(), Errno> {
        let Some(way) = &mut rx.way else { return Ok(()) };
        self.feed_way(way, bytes, bytes.len(), done)
    }

    /// Copies bytes in that `taken` bytes on the wire have brought: in pieces, so that a large body goes to where it is
    /// to lie as soon as its header was seen.
    fn feed_way(&self, way: &mut Way, bytes: &[u8], taken: usize, done: &mut Vec<Body>) -> Result<(), Errno> {
        for piece in bytes.chunks(RAW_BYTES) {
            way.intake.feed(piece).map_err(|_| Errno::NOMEM)?;
            self.after_read(way, 0, done)?;
        }
        self.after_read(way, taken, done)
    }

    /// Takes in bytes that are not frames yet.
    fn decode(
        &self,
        decoding: &mut Decoding,
        raw: &mut [u8],
        way: &mut Way,
        done: &mut Vec<Body>,
    ) -> Result<(), Errno> {
        let Decoding { decoder, frames, replies, .. } = decoding;
        frames.clear();
        replies.clear();
        let decoded = decoder.decode(raw, frames, replies);
        if decoder.is_web() {
            self.heard(); // A PONG of WebSocket's leaves no frame.
        }
        if !replies.is_empty() {
            self.send_reply(replies, done);
        }
        self.feed_way(way, frames, raw.len(), done)?; // What was right before the peer broke the rules is delivered.
        decoded
    }

    /// What `taken` bytes on the wire bring. What an answer to the peer pushes out goes to `done`.
    fn after_read(&self, way: &mut Way, taken: usize, done: &mut Vec<Body>) -> Result<(), Errno> {
        let (mut answers, before, mut commands) = (Vec::new(), way.intake.whole_bytes(), 0);
        let step = &mut way.step;
        let parsed = way.intake.parse(|body| {
            commands += 1;
            self.note_step(body, step).unwrap_or_else(|| self.on_command(body, &mut answers))
        });
        way.dribbled += taken;
        if commands > 0 || way.intake.whole_bytes() != before || way.dribbled >= PROGRESS_BYTES {
            way.dribbled = 0;
            self.heard();
        }
        let passed = way.outlet.as_mut().map(|outlet| outlet.pass_on(done)).unwrap_or_default();
        self.hub.lost.add(Reason::Conflated, passed.replaced);
        self.hub.lost.add(Reason::NoMemory, passed.no_memory);
        match parsed {
            Ok(told) => {
                if told || passed.told {
                    self.hub.post(Mail::Readable(self.pipe));
                }
                // Behind what it came behind: to who asked, it says that all of that is here.
                answers.iter().for_each(|answer| self.answer(answer, done));
                Ok(())
            }
            Err(refused) => {
                // Whole messages before it are delivered; a consumer that is parked looks again when the pipe
                // ends.
                self.hub.post(Mail::Readable(self.pipe));
                Err(match refused {
                    Refused::TooLarge(_) | Refused::TooManyParts => Errno::MSGSIZE,
                    Refused::NoMemory => Errno::NOMEM,
                    Refused::CommandInsideMessage | Refused::Loan | Refused::Command(_) => Errno::PROTO,
                })
            }
        }
    }

    /// What becomes of a command. Answers to the peer, whole frames, are appended to `answers`.
    fn on_command(&self, body: &[u8], answers: &mut Vec<Vec<u8>>) -> Result<Verdict, Error> {
        match command::parse(body)? {
            Command::Ping { context, ttl_ds } => {
                self.peer_ttl_ds.store(ttl_ds.into(), Ordering::Relaxed);
                if ttl_ds > 0 && self.begin_beats() {
                    self.io.send(crate::reactor::Command::AwaitPeer(self.hub.clone(), self.pipe));
                }
                let mut pong = Vec::new();
                command::encode_pong(context, &mut pong);
                answers.push(pong);
            }
            Command::Subscribe(_) | Command::Cancel(_) if self.config.keeps_subscriptions => {
                return Ok(Verdict::Keep);
            }
            Command::Join(_) | Command::Leave(_) if self.config.keeps_groups => return Ok(Verdict::Keep),
            Command::Pong { context } => self.ponged(context),
            // What nobody knows is passed over, as libzmq does.
            _ => {}
        }
        Ok(Verdict::Drop)
    }

    /// Nothing more is taken in; what came in before stays to be received.
    pub(super) fn stop_reading(&self) {
        if !std::mem::replace(&mut self.rx.lock().stopped, true) {
            self.watch_for(|watching| watching.read = false);
        }
    }

    /// Whether bytes wait that the queue has no room for.
    pub(crate) fn has_unread(&self) -> bool {
        let is_unread =
            |stream: &Arc<Stream>| (!self.reads_memory() && net::unread(stream) > 0) || stream.has_read();
        self.rx.lock().stream.as_ref().is_some_and(is_unread)
    }

    /// Reads and drops what is there.
    pub(super) fn discard_input(&self) -> Discarded {
        let mut sink = [0; 16 * 1024];
        let rx = self.rx.lock();
        let Some(stream) = &rx.stream else { return Discarded::End };
        stream.hear(true);
        for _ in 0..64 {
            match stream.read(&mut sink, &mut []) {
                Err(Errno::AGAIN) => return Discarded::All,
                Ok(0) | Err(_) => return Discarded::End,
                Ok(_) => {}
            }
        }
        Discarded::Some
    }
}
