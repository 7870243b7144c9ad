//! The send direction of a link: from the outgoing queue to the kernel.

use pinnace_ring::{Amount, Arena, Body};
use pinnace_sys::{Errno, net};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::packets::{PacketWriter, Packets};
use super::reencode::Reencoder;
use super::rx::Discarded;
use super::shared::By;
use super::switch::StepFrame;
use super::{Link, Stream, clock};
use crate::pipe::Pipe;
use crate::queue::Sink;

/// The most bytes that one call writes, so that it does not hold up others for long.
const ROUND_BYTES: usize = 1 << 20;
/// The most bytes of answers to PING that may wait. A peer that causes more without reading is disconnected.
const CONTROL_MAX: usize = 16 * 1024;

pub(super) struct Tx {
    pub(super) stream: Option<Arc<Stream>>,
    outgoing: Option<Sink>,
    /// Commands of the link's own, which are sent before anything in the queue.
    control: Vec<u8>,
    /// The most bytes that `control` may hold.
    control_max: usize,
    /// A step towards shared memory, sent after `control`.
    pub(super) step: Option<StepFrame>,
    /// Converts frames, if the wire form differs from the queue's.
    reencoder: Reencoder,
    packets: Option<PacketWriter>,
    /// Bytes of the current message that packets have taken from the queue.
    begun: u64,
    /// The closing message is written, or is being written.
    said_farewell: bool,
    /// Nothing more will be written.
    shut: bool,
}

enum Round {
    /// The queue is empty.
    Empty,
    /// The kernel takes no more: EAGAIN.
    Blocked,
    /// The round's limit is reached; there may be more to write.
    Enough,
    Failed,
}

impl Tx {
    /// `hello` is the message sent before all others; empty: none.
    pub(super) fn new(
        stream: Arc<Stream>,
        outgoing: Sink,
        mut reencoder: Reencoder,
        packets: Option<Packets>,
        hello: &[u8],
    ) -> Tx {
        let mut control = Vec::new();
        if !hello.is_empty() && reencoder.encode_message(hello, &mut control).is_err() {
            control.clear(); // The same error then fails the first write.
        }
        let packets = packets.map(|packets| PacketWriter::new(packets, &stream));
        Tx {
            stream: Some(stream),
            outgoing: Some(outgoing),
            control_max: control.len() + CONTROL_MAX,
            control,
            step: None,
            reencoder,
            packets,
            begun: 0,
            said_farewell: false,
            shut: false,
        }
    }

    /// Ends writing. Returns the queue, positioned at the beginning of a message, and what was given up for that.
    /// Bodies go to `done`.
    pub(super) fn end(&mut self, done: &mut Vec<Body>) -> Option<(Sink, Amount)> {
        (self.stream, self.step) = (None, None);
        let mut outgoing = self.outgoing.take()?;
        let given_up = outgoing.rewind(done);
        Some((outgoing, given_up))
    }

    /// The arena for large bodies, if the link uses shared memory.
    pub(super) fn arena(&self) -> Option<Arc<Arena>> {
        Some(self.stream.as_ref()?.shared()?.arena())
    }

    /// Sends bodies that lie in the arena as loans from now on.
    pub(super) fn lend(&mut self) {
        if let (Some(arena), Some(outgoing)) = (self.arena(), &mut self.outgoing) {
            outgoing.queue.lend_from(arena);
        }
    }

    /// Whether large bodies find little room in the arena. If so, the peer wakes us when they find more.
    pub(super) fn lacks_room(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.lacks_room())
    }

    /// Whether the writer may have drained a wake-up that was for the reader; resets the flag.
    pub(super) fn take_drained_wakeup(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.take_drained_wakeup(By::Writer))
    }

    fn refill(&mut self) -> bool {
        self.outgoing.as_mut().is_some_and(|outgoing| outgoing.refill())
    }

    /// Shrinks the outgoing queue if it is idle.
    pub(super) fn shrink(&mut self, pipe: &mut Pipe) -> bool {
        self.reencoder.shrink();
        let is_empty = self.stream.as_ref().is_none_or(|stream| stream.shrink());
        self.outgoing.as_mut().is_none_or(|outgoing| pipe.tx.queue.shrink(&mut outgoing.queue)) & is_empty
    }

    fn has_work(&mut self) -> bool {
        !self.control.is_empty()
            || self.stream.as_ref().is_some_and(|stream| stream.wants_write())
            || self.outgoing.as_mut().is_some_and(|outgoing| outgoing.has_message())
    }
}

/// The progress of closing a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Done,
    /// More work can be done at once, after others had their turn.
    GoesOn,
    /// The descriptor reports when there is more to do.
    Waits,
    /// As `Waits`, but there was no memory to register the descriptor.
    Unwatched,
}

impl Link {
    /// Writes the unwritten data.
    pub(crate) fn flush(&self) {
        let mut done = Vec::new();
        let taken = self.write_out(&mut done);
        drop(done); // Their owners' code runs here, with no lock held.
        if !taken {
            self.read();
        }
    }

    /// As `flush`, for a caller that holds the `rx` lock. Written bodies go to `done`, to be dropped with no lock
    /// held. False: the peer takes nothing more. What it sent before can still be read, and the end of its stream
    /// ends the link.
    pub(crate) fn write_out(&self, done: &mut Vec<Body>) -> bool {
        let mut tx = self.tx.lock();
        if self.is_broken() || tx.outgoing.is_none() || self.write_failed.load(Ordering::Relaxed) {
            return true;
        }
        self.has_unwritten.store(false, Ordering::Relaxed);
        if tx.stream.as_ref().is_some_and(|stream| stream.is_due()) {
            self.offer(&mut tx);
        }
        let mut round = self.round(&mut tx, done);
        if matches!(round, Round::Blocked) && self.is_half_switched() {
            self.retry_later(); // The peer cannot report room yet.
        }
        // The peer may have made room before it could see that we wait. `blocked`, then the check for room: pairs
        // with `serve`.
        while matches!(round, Round::Blocked) && self.is_shared() {
            self.blocked.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if !tx.stream.as_ref().is_some_and(|stream| stream.has_room()) {
                break;
            }
            round = self.round(&mut tx, done);
        }
        let wanted = tx.outgoing.as_mut().is_some_and(|outgoing| outgoing.queue.take_room_wanted());
        if tx.take_drained_wakeup() {
            self.mailbox.read_again(self);
        }
        let blocked = matches!(round, Round::Blocked);
        if blocked != self.blocked.load(Ordering::Relaxed) {
            self.blocked.store(blocked, Ordering::Relaxed);
            if !self.reports_room_as_input() {
                self.set_interest(|registration| registration.write = blocked);
            }
            if !blocked {
                self.request_flush_checks(); // A sender may have seen `blocked` a moment ago, and left its message.
            }
        }
        drop(tx);
        let failed = matches!(round, Round::Failed);
        if failed {
            self.write_failed.store(true, Ordering::Relaxed);
            self.blocked.store(true, Ordering::Relaxed);
        }
        if matches!(round, Round::Enough) {
            self.mark_unwritten();
            self.request_flush_checks(); // The caller may have other work: the I/O thread writes the rest.
        }
        let now = clock();
        self.last_write.store(now, Ordering::Relaxed);
        self.mailbox.sends.note_write(now);
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.room_made(wanted);
        !failed
    }

    /// Records that the link has unwritten data.
    pub(super) fn mark_unwritten(&self) {
        self.has_unwritten.store(true, Ordering::Relaxed);
        self.mailbox.note_unwritten();
    }

    /// Writes the unwritten data, if there is any and the kernel is not full.
    pub(crate) fn flush_unwritten(&self) {
        if self.has_unwritten.load(Ordering::Relaxed) && !self.is_blocked() {
            self.flush();
        }
    }

    /// Whether our side was shut after everything was written.
    pub(crate) fn is_shut(&self) -> bool {
        self.tx.lock().shut
    }

    /// Writes what a sender left behind if nothing was written since the last call, and in any case if this is the
    /// `last` check. True: senders do leave data behind. False: they write each message at once, and no check is
    /// needed.
    pub(crate) fn flush_left_behind(&self, last: bool) -> bool {
        let writes = self.writes.load(Ordering::Relaxed);
        let idle = self.writes_seen.swap(writes, Ordering::Relaxed) == writes;
        let in_use = self.left_behind.swap(false, Ordering::Relaxed);
        if !idle && in_use && !last {
            return true;
        }
        let left = match self.tx.try_lock() {
            Some(mut tx) => tx.has_work(),
            // Another thread writes. If we waited for it, we would contend with the sender at each of its links.
            None if !last => return true,
            None => self.has_unwritten(),
        };
        if !left && idle {
            self.has_unwritten.store(false, Ordering::Relaxed); // Another thread wrote what a sender had marked.
        }
        // A blocked link needs no check: the poll set reports room, and then the checks begin again.
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
            let written = if tx.reencoder.is_needed() {
                self.write_reencoded(tx, done)
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

    /// The queue is empty, but TLS may hold unwritten records.
    fn push(&self, tx: &Tx) -> Round {
        match tx.stream.as_ref().map_or(Ok(()), |stream| stream.push()) {
            Ok(()) => Round::Empty,
            Err(Errno::AGAIN) => Round::Blocked,
            Err(_) => Round::Failed,
        }
    }

    /// Writes waiting commands, unless a frame is partly written. Some: the round is over.
    fn write_control(&self, tx: &mut Tx) -> Option<Round> {
        if tx.control.is_empty() && tx.step.is_none() || !tx.reencoder.is_done() {
            return None;
        }
        if !tx.outgoing.as_ref()?.queue.is_at_frame() {
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
            Errno::PROTO => self.fail(), // The peer's counters are false, so nothing from it can be used.
            _ => {}
        }
        Round::Failed
    }

    /// Writes a run of the queue unconverted. Returns the bytes taken, and whether that was the whole run.
    fn write_queue(&self, tx: &mut Tx, done: &mut Vec<Body>) -> Option<Result<(usize, bool), Errno>> {
        let (stream, queue) = (tx.stream.as_ref()?, &mut tx.outgoing.as_mut()?.queue);
        let before = queue.consumed().1;
        let whole = queue.write_with(done, |slices, bytes| match stream.write(slices) {
            Ok(taken) => (taken, Ok(taken == bytes)),
            Err(error) => (0, Err(error)),
        })?;
        // A loan counts with the size of its body, wherever the body lies.
        Some(whole.map(|whole| ((queue.consumed().1 - before) as usize, whole)))
    }

    /// Sends a packet, or consumes a frame that the next packet begins with.
    fn write_packet(&self, tx: &mut Tx, done: &mut Vec<Body>) -> Option<Result<(usize, bool), Errno>> {
        let (stream, queue) = (tx.stream.as_ref()?, &mut tx.outgoing.as_mut()?.queue);
        let (before, mut refused) = (queue.consumed(), 0);
        let lost = |reason| {
            self.mailbox.lost.add(reason, 1);
            refused += 1;
        };
        let sent = tx.packets.as_mut()?.send(stream, queue, done, lost)?;
        let after = queue.consumed();
        tx.begun += after.1 - before.1;
        if refused > 0 {
            queue.count_given_up(Amount { messages: refused, bytes: tx.begun });
        }
        if after.0 > before.0 {
            tx.begun = 0;
        }
        Some(sent.map(|cost| (cost, true)))
    }

    fn write_reencoded(&self, tx: &mut Tx, done: &mut Vec<Body>) -> Option<Result<(usize, bool), Errno>> {
        let (stream, queue) = (tx.stream.as_ref()?, &mut tx.outgoing.as_mut()?.queue);
        tx.reencoder.next(queue)?;
        if let Some(error) = tx.reencoder.failed() {
            self.fail();
            return Some(Err(error));
        }
        let bytes = tx.reencoder.next(queue)?;
        let result = stream.write(&[IoSlice::new(bytes)]);
        Some(result.map(|taken| {
            tx.reencoder.wrote(taken, queue, done);
            (taken, tx.reencoder.is_done())
        }))
    }

    /// Queues a command of the link's own (a whole frame) before everything else, and writes.
    pub(crate) fn send_control(&self, frame: &[u8]) {
        self.answer(frame, &mut Vec::new());
    }

    /// As `send_control`, for a reader. Bodies written along with it go to `done`.
    pub(super) fn answer(&self, frame: &[u8], done: &mut Vec<Body>) {
        self.send_first(frame.len(), done, |tx| tx.reencoder.encode_control(frame, &mut tx.control));
    }

    /// As `answer`, for a reply of the wire protocol itself, which is not encoded.
    pub(super) fn send_reply(&self, bytes: &[u8], done: &mut Vec<Body>) {
        self.send_first(bytes.len(), done, |tx| tx.control.extend_from_slice(bytes));
    }

    fn send_first(&self, bytes: usize, done: &mut Vec<Body>, put: impl FnOnce(&mut Tx)) {
        let mut tx = self.tx.lock();
        if tx.control.len() + bytes > tx.control_max {
            drop(tx);
            // The kernel may have room again, and this may be the thread that handles that event.
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
            self.write_out(done); // Not `flush`: the caller is mostly a reader, and holds the lock that `read` takes.
        }
    }

    /// Whether there is unwritten data.
    fn has_unwritten(&self) -> bool {
        self.tx.lock().has_work()
    }

    /// Whether the link can send nothing more, and its side was not shut before.
    pub(crate) fn is_lost(&self) -> bool {
        (self.is_broken() || self.write_failed.load(Ordering::Relaxed)) && !self.is_shut()
    }

    /// Continues an orderly close: write everything, shut our end, read the peer's stream to its end. `at_once`: do
    /// not wait for what remains.
    pub(crate) fn close(&self, at_once: bool) -> Progress {
        // First of all, so that no later change of the descriptor is missed.
        let is_watched = at_once || self.watch_closing();
        match self.close_further() {
            Progress::Waits if !is_watched => Progress::Unwatched,
            progress => progress,
        }
    }

    fn close_further(&self) -> Progress {
        if self.is_broken() || self.write_failed.load(Ordering::Relaxed) {
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
            let Tx { reencoder, control, .. } = &mut *tx;
            stream.local().into_iter().for_each(|local| local.never_offer());
            reencoder.encode_farewell(control);
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
            // The peer already has what is in shared memory.
            _ if self.is_shared() || net::unsent(&stream) == 0 => Progress::Done,
            Discarded::All => Progress::Waits,
            Discarded::More => Progress::GoesOn,
        }
    }
}
