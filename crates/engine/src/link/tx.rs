//! The way out of a link: from the outgoing queue to the kernel.

use pinnace_ring::{Body, Consumer, Heads};
use pinnace_sys::{Errno, OwnedFd, net};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::anew::Anew;
use super::{Config, Link, clock};
use crate::pipe::Pipe;

/// Bytes that one call writes at most, so that nobody is held up for long.
const ROUND_BYTES: usize = 1 << 20;
/// Bytes of answers to PING that may wait; a peer that sends more without reading is cut off.
const CONTROL_MAX: usize = 16 * 1024;

pub(super) struct Tx {
    fd: Option<Arc<OwnedFd>>,
    outgoing: Option<Consumer>,
    /// Commands of the link's own; they go before anything in the queue.
    control: Vec<u8>,
    /// For what does not go out as it lies in the queue.
    anew: Anew,
    heads: Heads,
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
    pub(super) fn new(fd: Arc<OwnedFd>, outgoing: Consumer, config: &Config) -> Tx {
        Tx {
            fd: Some(fd),
            outgoing: Some(outgoing),
            control: Vec::new(),
            anew: Anew::new(config.version, config.connection),
            heads: [[0; 9]; pinnace_ring::SLICES],
            shut: false,
        }
    }

    /// Nothing more is written. The queue, at the beginning of a message, and how many messages were given up for
    /// that; their bodies go to `done`.
    pub(super) fn end(&mut self, done: &mut Vec<Body>) -> Option<(Consumer, u64)> {
        self.fd = None;
        let mut outgoing = self.outgoing.take()?;
        let given_up = outgoing.rewind(done);
        Some((outgoing, given_up))
    }

    /// Makes the outgoing queue small, where it is idle.
    pub(super) fn shrink(&mut self, pipe: &mut Pipe) -> bool {
        self.anew.shrink();
        self.outgoing.as_mut().is_none_or(|outgoing| pipe.tx.shrink(outgoing))
    }

    fn has_work(&mut self) -> bool {
        !self.control.is_empty() || self.outgoing.as_mut().is_some_and(|queue| queue.has_frame())
    }
}

impl Link {
    /// Writes what has gathered.
    pub(crate) fn flush(&self) {
        let mut done = Vec::new();
        let mut tx = self.tx.lock();
        if self.is_broken() || tx.outgoing.is_none() || self.deaf.load(Ordering::Relaxed) {
            return;
        }
        self.gathering.store(false, Ordering::Relaxed);
        let round = self.round(&mut tx, &mut done);
        let wanted = tx.outgoing.as_mut().is_some_and(|queue| queue.take_room_wanted());
        let blocked = matches!(round, Round::Blocked);
        if blocked != self.blocked.load(Ordering::Relaxed) {
            self.blocked.store(blocked, Ordering::Relaxed);
            self.watch_for(|watching| watching.write = blocked);
            if !blocked {
                self.be_watched(); // A sender may have seen it blocked just now, and left its message.
            }
        }
        drop(tx);
        drop(done); // Their owners' code runs here, with no lock held.
        if matches!(round, Round::Failed) {
            // What the peer sent before it went can still be read; the end of that is the end of the link.
            self.deaf.store(true, Ordering::Relaxed);
            self.blocked.store(true, Ordering::Relaxed);
            self.read();
        }
        if matches!(round, Round::Enough) {
            self.gathering.store(true, Ordering::Relaxed);
            self.be_watched(); // Whoever wrote may have other things to do; the rest is not forgotten.
        }
        let now = clock();
        self.last_write.store(now, Ordering::Relaxed);
        self.hub.last_write.store(now, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.room_made(wanted);
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
    /// `last`. True: the link is in use.
    pub(crate) fn flush_left(&self, last: bool) -> bool {
        let writes = self.writes.load(Ordering::Relaxed);
        let idle = self.writes_seen.swap(writes, Ordering::Relaxed) == writes;
        if !idle && !last {
            return true;
        }
        let left = self.has_unwritten();
        if !left {
            self.gathering.store(false, Ordering::Relaxed); // Another thread wrote what a sender was about to leave.
        }
        if left && !self.is_blocked() {
            self.flush();
            self.writes_seen.store(self.writes.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        left
    }

    fn round(&self, tx: &mut Tx, done: &mut Vec<Body>) -> Round {
        let mut left = ROUND_BYTES;
        loop {
            if let Some(stopped) = self.write_control(tx) {
                return stopped;
            }
            let written =
                if self.reencodes() { self.write_anew(tx, done) } else { self.write_queue(tx, done) };
            match written {
                None => return Round::Empty,
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
                Some(Err(Errno::AGAIN)) => return Round::Blocked,
                Some(Err(_)) => return Round::Failed,
            }
        }
    }

    /// Writes the commands that wait, where no frame is cut open. Some: the round is over.
    fn write_control(&self, tx: &mut Tx) -> Option<Round> {
        if tx.control.is_empty() || !tx.anew.is_done() {
            return None;
        }
        if !tx.outgoing.as_ref()?.is_at_frame() {
            return None;
        }
        match net::write(tx.fd.as_ref()?, &[IoSlice::new(&tx.control)]) {
            Ok(taken) if taken == tx.control.len() => {
                tx.control.clear();
                None
            }
            Ok(taken) => {
                tx.control.drain(..taken);
                Some(Round::Blocked)
            }
            Err(Errno::AGAIN) => Some(Round::Blocked),
            Err(_) => Some(Round::Failed),
        }
    }

    /// Writes a run of the queue as it lies there: what was taken, and whether that was all of the run.
    fn write_queue(&self, tx: &mut Tx, done: &mut Vec<Body>) -> Option<Result<(usize, bool), Errno>> {
        let (fd, queue) = (tx.fd.as_ref()?, tx.outgoing.as_mut()?);
        queue.write_with(&mut tx.heads, done, |slices, bytes| match net::write(fd, slices) {
            Ok(taken) => (taken, Ok((taken, taken == bytes))),
            Err(error) => (0, Err(error)),
        })
    }

    /// Whether frames do not go out as they lie in the queue.
    fn reencodes(&self) -> bool {
        self.config.version.uses_v1_framing() || self.config.sends_subscriptions
    }

    fn write_anew(&self, tx: &mut Tx, done: &mut Vec<Body>) -> Option<Result<(usize, bool), Errno>> {
        let (fd, queue) = (tx.fd.as_ref()?, tx.outgoing.as_mut()?);
        let bytes = tx.anew.next(queue)?;
        let result = net::write(fd, &[IoSlice::new(bytes)]);
        Some(result.map(|taken| {
            tx.anew.wrote(taken, queue, done);
            (taken, tx.anew.is_done())
        }))
    }

    /// Puts a command of the link's own (a whole frame) before everything else, and writes.
    pub(crate) fn send_control(&self, frame: &[u8]) {
        let mut tx = self.tx.lock();
        if tx.control.len() + frame.len() > CONTROL_MAX {
            drop(tx);
            self.cut();
            return;
        }
        tx.control.extend_from_slice(frame);
        drop(tx);
        if !self.is_blocked() {
            self.flush();
        }
    }

    /// Whether senders have left something behind.
    fn has_unwritten(&self) -> bool {
        self.tx.lock().has_work()
    }

    /// Goes on with an orderly close: all is written, our end is shut, the peer's is read to its end. True:
    /// it is done.
    pub(crate) fn closes(&self) -> bool {
        if self.is_broken() || self.deaf.load(Ordering::Relaxed) {
            return true;
        }
        if !self.is_blocked() {
            self.flush();
        }
        let mut tx = self.tx.lock();
        if tx.has_work() {
            return self.is_broken();
        }
        let Some(fd) = tx.fd.clone() else { return true };
        if !std::mem::replace(&mut tx.shut, true) {
            net::shut_down_writing(&fd);
        }
        drop(tx);
        self.stop_reading();
        self.discard_input() || net::unsent(&fd) == 0
    }
}
