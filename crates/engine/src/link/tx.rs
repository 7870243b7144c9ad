//! The way out of a link: from the outgoing queue to the kernel.

use pinnace_ring::{Amount, Arena, Body, Consumer};
use pinnace_sys::{Errno, net};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::anew::Anew;
use super::packets::{Outgoing, Packets};
use super::rx::Discarded;
use super::shared::By;
use super::switch::StepFrame;
use super::{Link, Stream, clock};
use crate::conflate::Inlet;
use crate::ends::Sink;
use crate::pipe::Pipe;

/// Bytes that one call writes at most, so that nobody is held up for long.
const ROUND_BYTES: usize = 1 << 20;
/// Bytes of answers to PING that may wait; a peer that sends more without reading is cut off.
const CONTROL_MAX: usize = 16 * 1024;

pub(super) struct Tx {
    pub(super) stream: Option<Arc<Stream>>,
    outgoing: Option<Consumer>,
    /// Where only the newest message is kept: what the queue is filled from.
    inlet: Option<Box<Inlet>>,
    /// Commands of the link's own; they go before anything in the queue.
    control: Vec<u8>,
    /// Bytes that may wait there.
    control_max: usize,
    /// Behind these, a step towards shared memory.
    pub(super) step: Option<StepFrame>,
    /// For what does not go out as it lies in the queue.
    anew: Anew,
    packets: Option<Outgoing>,
    /// Bytes that packets were made of since the end of a message.
    begun: u64,
    /// What the peer is told before our end is shut is written, or under way.
    said_farewell: bool,
    /// Nothing more is going to be written.
    shut: bool,
}

enum Round {
    /// The queue is empty.
    Empty,
    /// The kernel takes no more: EAGAIN.
    Blocked,
    /// A round's share was written; there may be more.
    Enough,
    Failed,
}

impl Tx {
    /// The peer gets `hello` before all else, unless it is empty.
    pub(super) fn new(
        stream: Arc<Stream>,
        outgoing: Sink,
        mut anew: Anew,
        packets: Option<Packets>,
        hello: &[u8],
    ) -> Tx {
        let mut control = Vec::new();
        if !hello.is_empty() && anew.encode_message(hello, &mut control).is_err() {
            control.clear(); // A sealer that cannot begin fails the first write, too.
        }
        let packets = packets.map(|packets| Outgoing::new(packets, &stream));
        Tx {
            stream: Some(stream),
            outgoing: Some(outgoing.queue),
            inlet: outgoing.inlet,
            control_max: control.len() + CONTROL_MAX,
            control,
            step: None,
            anew,
            packets,
            begun: 0,
            said_farewell: false,
            shut: false,
        }
    }

    /// Nothing more is written. The queue, at the beginning of a message, and what was given up for that; the bodies
    /// go to `done`.
    pub(super) fn end(&mut self, done: &mut Vec<Body>) -> Option<(Sink, Amount)> {
        (self.stream, self.step) = (None, None);
        let mut outgoing = Sink { queue: self.outgoing.take()?, inlet: self.inlet.take() };
        let given_up = outgoing.rewind(done);
        Some((outgoing, given_up))
    }

    /// Where large bodies go, where it goes through shared memory.
    pub(super) fn arena(&self) -> Option<Arc<Arena>> {
        Some(self.stream.as_ref()?.shared()?.arena())
    }

    /// Bodies that lie there are sent as loans.
    pub(super) fn lend(&mut self) {
        if let (Some(arena), Some(outgoing)) = (self.arena(), &mut self.outgoing) {
            outgoing.lend_from(arena);
        }
    }

    /// Whether large bodies find little room there. If so, the peer wakes us when they find more.
    pub(super) fn lacks_room(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.lacks_room())
    }

    /// Whether who writes has taken away what may have woken who reads.
    pub(super) fn take_heard(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.take_heard(By::Writer))
    }

    fn refill(&mut self) -> bool {
        self.inlet.as_mut().is_some_and(|inlet| inlet.refill())
    }

    /// Makes the outgoing queue small, where it is idle.
    pub(super) fn shrink(&mut self, pipe: &mut Pipe) -> bool {
        self.anew.shrink();
        let is_empty = self.stream.as_ref().is_none_or(|stream| stream.shrink());
        self.outgoing.as_mut().is_none_or(|outgoing| pipe.tx.shrink(outgoing)) & is_empty
    }

    fn has_work(&mut self) -> bool {
        !self.control.is_empty()
            || self.stream.as_ref().is_some_and(|stream| stream.wants_write())
            || self.outgoing.as_mut().is_some_and(|queue| queue.has_frame())
            || self.inlet.as_ref().is_some_and(|inlet| inlet.is_full())
    }
}

/// How far the close of a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Done,
    /// There is more to do at once; others have their turn before that.
    GoesOn,
    /// The descriptor tells when there is more to do.
    Waits,
    /// The same, but there is no memory to have the descriptor watched.
    Unwatched,
}

impl Link {
    /// Writes what has gathered.
    pub(crate) fn flush(&self) {
        let mut done = Vec::new();
        let taken = self.write_out(&mut done);
        drop(done); // Their owners' code runs here, with no lock held.
        if !taken {
            self.read();
        }
    }

    /// The same, for who reads already; the bodies that are written go to `done`, to be let go with no lock held.
    /// False: the peer takes nothing more; what it sent before it went can still be read, and the end of that is the
    /// end of the link.
    pub(crate) fn write_out(&self, done: &mut Vec<Body>) -> bool {
        let mut tx = self.tx.lock();
        if self.is_broken() || tx.outgoing.is_none() || self.deaf.load(Ordering::Relaxed) {
            return true;
        }
        self.gathering.store(false, Ordering::Relaxed);
        if tx.stream.as_ref().is_some_and(|stream| stream.is_due()) {
            self.offer(&mut tx);
        }
        let mut round = self.round(&mut tx, done);
        if matches!(round, Round::Blocked) && self.is_half_switched() {
            self.retry_later(); // The peer cannot tell of room yet.
        }
        // The peer may have woken us before it was known that we wait for it; then there is room.
        while matches!(round, Round::Blocked) && self.is_shared() {
            self.blocked.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if !tx.stream.as_ref().is_some_and(|stream| stream.has_room()) {
                break;
            }
            round = self.round(&mut tx, done);
        }
        let wanted = tx.outgoing.as_mut().is_some_and(|queue| queue.take_room_wanted());
        if tx.take_heard() {
            self.hub.read_again(self);
        }
        let blocked = matches!(round, Round::Blocked);
        if blocked != self.blocked.load(Ordering::Relaxed) {
            self.blocked.store(blocked, Ordering::Relaxed);
            if !self.tells_by_input() {
                self.watch_for(|watching| watching.write = blocked);
            }
            if !blocked {
                self.be_watched(); // A sender may have seen it blocked just now, and left its message.
            }
        }
        drop(tx);
        let failed = matches!(round, Round::Failed);
        if failed {
            self.deaf.store(true, Ordering::Relaxed);
            self.blocked.store(true, Ordering::Relaxed);
        }
        if matches!(round, Round::Enough) {
            self.gather();
            self.be_watched(); // Whoever wrote may have other things to do; the rest is not forgotten.
        }
        let now = clock();
        self.last_write.store(now, Ordering::Relaxed);
        self.hub.leaves(now);
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.room_made(wanted);
        !failed
    }

    /// There is something that is not written.
    pub(super) fn gather(&self) {
        self.gathering.store(true, Ordering::Relaxed);
        self.hub.gathers();
    }

    /// Writes what has gathered, if it has and the kernel takes it.
    pub(crate) fn flush_gathered(&self) {
        if self.gathering.load(Ordering::Relaxed) && !self.is_blocked() {
            self.flush();
        }
    }

    /// Whether our side was shut: all is written.
    pub(crate) fn is_shut(&self) -> bool {
        self.tx.lock().shut
    }

    /// Writes what a sender left behind and has not written since the last call, or in any case at the
    /// `last`. True: senders leave things behind. Where each message is written at once there is nothing to look after.
    pub(crate) fn flush_left(&self, last: bool) -> bool {
        let writes = self.writes.load(Ordering::Relaxed);
        let idle = self.writes_seen.swap(writes, Ordering::Relaxed) == writes;
        let in_use = self.left_behind.swap(false, Ordering::Relaxed);
        if !idle && in_use && !last {
            return true;
        }
        let left = match self.tx.try_lock() {
            Some(mut tx) => tx.has_work(),
            // Somebody writes. To wait would be to meet a sender at each link that it comes to.
            None if !last => return true,
            None => self.has_unwritten(),
        };
        if !left && idle {
            self.gathering.store(false, Ordering::Relaxed); // Another thread wrote what a sender was about to leave.
        }
        // While it is blocked there is nothing to look for: the poll set tells, and then it is watched again.
        if !left || self.is_blocked() {
            return in_use && !idle;
        }
        self.flush();
        self.writes_seen.store(self.writes.load(Ordering::Relaxed), Ordering::Relaxed);
        true
    }

    fn round(&self, tx: &mut Tx, done: &mut Vec<Body>) -> Round {
        let round = self.write_round(tx, done);
        tx.stream.iter().for_each(|stream| stream.wake());
        round
    }

    fn write_round(&self, tx: &mut Tx, done: &mut Vec<Body>) -> Round {
        let mut left = ROUND_BYTES;
        loop {
            if let Some(stopped) = self.write_control(tx) {
                return stopped;
            }
            let written = if tx.anew.is_needed() {
                self.write_anew(tx, done)
            } else if tx.packets.is_some() {
                self.write_packet(tx, done)
            } else {
                self.write_queue(tx, done)
            };
            match written {
                None if tx.refill() => {}
                None => return self.push(tx),
                Some(Ok((taken, whole))) => {
                    self.pacing_fails.store(false, Ordering::Relaxed);
                    self.moved(taken);
                    if !whole {
                        return Round::Blocked;
                    }
                    left = left.saturating_sub(taken);
                    if left == 0 {
                        return Round::Enough;
                    }
                }
                Some(Err(error)) => return self.stopped_by(error),
            }
        }
    }

    /// The queue is empty; what TLS has of it may not be with the kernel yet.
    fn push(&self, tx: &Tx) -> Round {
        match tx.stream.as_ref().map_or(Ok(()), |stream| stream.push()) {
            Ok(()) => Round::Empty,
            Err(Errno::AGAIN) => Round::Blocked,
            Err(_) => Round::Failed,
        }
    }

    /// Writes the commands that wait, where no frame is cut open. Some: the round is over.
    fn write_control(&self, tx: &mut Tx) -> Option<Round> {
        if tx.control.is_empty() && tx.step.is_none() || !tx.anew.is_done() {
            return None;
        }
        if !tx.outgoing.as_ref()?.is_at_frame() {
            return None;
        }
        if tx.control.is_empty() || tx.step.as_ref().is_some_and(|step| step.is_begun()) {
            return self.write_after_control(tx);
        }
        match tx.stream.as_ref()?.write(&[IoSlice::new(&tx.control)]) {
            Ok(taken) if taken == tx.control.len() => {
                tx.control.clear();
                self.write_after_control(tx)
            }
            Ok(taken) => {
                tx.control.drain(..taken);
                Some(Round::Blocked)
            }
            Err(error) => Some(self.stopped_by(error)),
        }
    }

    fn write_after_control(&self, tx: &mut Tx) -> Option<Round> {
        self.write_step(tx).map(|error| self.stopped_by(error))
    }

    fn stopped_by(&self, error: Errno) -> Round {
        match error {
            Errno::AGAIN => return Round::Blocked,
            Errno::PROTO => self.fail(), // The peer lies about what it has taken: nothing of it is of use.
            _ => {}
        }
        Round::Failed
    }

    /// Writes a run of the queue as it lies there: what was taken, and whether that was all of the run.
    fn write_queue(&self, tx: &mut Tx, done: &mut Vec<Body>) -> Option<Result<(usize, bool), Errno>> {
        let (stream, queue) = (tx.stream.as_ref()?, tx.outgoing.as_mut()?);
        let before = queue.consumed().1;
        let whole = queue.write_with(done, |slices, bytes| match stream.write(slices) {
            Ok(taken) => (taken, Ok(taken == bytes)),
            Err(error) => (0, Err(error)),
        })?;
        // Of a loan that was written the body counts, wherever it lies.
        Some(whole.map(|whole| ((queue.consumed().1 - before) as usize, whole)))
    }

    /// Sends a packet, or takes in what the next begins with.
    fn write_packet(&self, tx: &mut Tx, done: &mut Vec<Body>) -> Option<Result<(usize, bool), Errno>> {
        let (stream, queue) = (tx.stream.as_ref()?, tx.outgoing.as_mut()?);
        let (before, mut refused) = (queue.consumed(), 0);
        let lost = |reason| {
            self.hub.lost.add(reason, 1);
            refused += 1;
        };
        let sent = tx.packets.as_mut()?.send(stream, queue, done, lost)?;
        let after = queue.consumed();
        tx.begun += after.1 - before.1;
        if refused > 0 {
            queue.gave_up(Amount { messages: refused, bytes: tx.begun });
        }
        if after.0 > before.0 {
            tx.begun = 0;
        }
        Some(sent.map(|cost| (cost, true)))
    }

    fn write_anew(&self, tx: &mut Tx, done: &mut Vec<Body>) -> Option<Result<(usize, bool), Errno>> {
        let (stream, queue) = (tx.stream.as_ref()?, tx.outgoing.as_mut()?);
        tx.anew.next(queue)?;
        if let Some(error) = tx.anew.failed() {
            self.fail();
            return Some(Err(error));
        }
        let bytes = tx.anew.next(queue)?;
        let result = stream.write(&[IoSlice::new(bytes)]);
        Some(result.map(|taken| {
            tx.anew.wrote(taken, queue, done);
            (taken, tx.anew.is_done())
        }))
    }

    /// Puts a command of the link's own (a whole frame) before everything else, and writes.
    pub(crate) fn send_control(&self, frame: &[u8]) {
        self.answer(frame, &mut Vec::new());
    }

    /// The same, for who reads; bodies that are written with it go to `done`.
    pub(super) fn answer(&self, frame: &[u8], done: &mut Vec<Body>) {
        self.send_first(frame.len(), done, |tx| tx.anew.encode_control(frame, &mut tx.control));
    }

    /// The same for what the wire itself answers, as it is.
    pub(super) fn send_reply(&self, bytes: &[u8], done: &mut Vec<Body>) {
        self.send_first(bytes.len(), done, |tx| tx.control.extend_from_slice(bytes));
    }

    fn send_first(&self, bytes: usize, done: &mut Vec<Body>, put: impl FnOnce(&mut Tx)) {
        let mut tx = self.tx.lock();
        if tx.control.len() + bytes > tx.control_max {
            drop(tx);
            // The kernel may have room again: the thread that would be told of it may be this one.
            self.write_out(done);
            tx = self.tx.lock();
        }
        if tx.control.len() + bytes > tx.control_max {
            drop(tx);
            self.cut();
            return;
        }
        put(&mut tx);
        drop(tx);
        if !self.is_blocked() {
            self.write_out(done); // Mostly it is a reader that answers here, and has the lock that `read` wants.
        }
    }

    /// Whether senders have left something behind.
    fn has_unwritten(&self) -> bool {
        self.tx.lock().has_work()
    }

    /// Whether it can send no more, and had not sent all before.
    pub(crate) fn is_lost(&self) -> bool {
        (self.is_broken() || self.deaf.load(Ordering::Relaxed)) && !self.is_shut()
    }

    /// Goes on with an orderly close: all is written, our end is shut, the peer's is read to its end. `at_once`: what
    /// is not done by then is not waited for.
    pub(crate) fn close(&self, at_once: bool) -> Progress {
        // Before anything else: what changes from here on is told of.
        let is_watched = at_once || self.watch_changes();
        match self.close_further() {
            Progress::Waits if !is_watched => Progress::Unwatched,
            progress => progress,
        }
    }

    fn close_further(&self) -> Progress {
        if self.is_broken() || self.deaf.load(Ordering::Relaxed) {
            return Progress::Done;
        }
        if !self.is_blocked() {
            self.flush();
        }
        let mut tx = self.tx.lock();
        if tx.has_work() {
            return match () {
                () if self.is_broken() => Progress::Done,
                () if self.is_blocked() => Progress::Waits,
                () => Progress::GoesOn,
            };
        }
        let Some(stream) = tx.stream.clone() else { return Progress::Done };
        if !std::mem::replace(&mut tx.said_farewell, true) {
            let Tx { anew, control, .. } = &mut *tx;
            stream.local().into_iter().for_each(|local| local.never_offer());
            anew.encode_farewell(control);
            if !control.is_empty() {
                drop(tx);
                return self.close_further();
            }
        }
        if !std::mem::replace(&mut tx.shut, true) {
            stream.end_writing();
        }
        drop(tx);
        self.stop_reading();
        match self.discard_input() {
            Discarded::End => Progress::Done,
            // What is in shared memory the peer has.
            _ if self.is_shared() || net::unsent(&stream) == 0 => Progress::Done,
            Discarded::All => Progress::Waits,
            Discarded::Some => Progress::GoesOn,
        }
    }
}
