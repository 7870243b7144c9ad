//! Messages whose time to live is over: by this client's clock when they are to be sent, or by the clock of their
//! receiver, which tells so. They are counted, and with `Builder::dead_letter_expired` each becomes a dead letter.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use pinnace_stream::RangeSet;

use super::PeerLoop;
use super::dead::GivenUpMessage;
use crate::environment::now;
use crate::log::LogError;
use crate::store::records::Receiver;
use crate::store::{Cause, Wanted};
use crate::wire::{ENDS, Verdict};

/// The pause after there was no room for a dead letter.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Expired messages that are still pending.
#[derive(Default)]
pub(super) struct Expiry {
    found: Vec<Late>,
    /// There was no room for a dead letter.
    again_at: Option<Instant>,
}

/// Consecutive numbers of a stream.
struct Late {
    stream: u32,
    first: u64,
    last: u64,
    cause: Cause,
    /// By whose clock; None: by this client's.
    receiver: Option<String>,
    /// Those that a receiver has reported as done meanwhile.
    reported: RangeSet,
}

impl Expiry {
    /// The next message of a stream that has expired by this client's clock.
    pub fn add(&mut self, stream: u32, first: u64, last: u64) {
        self.put(Late {
            stream,
            first,
            last,
            cause: Cause::Expired,
            receiver: None,
            reported: RangeSet::default(),
        });
    }

    /// A receiver has found a message expired.
    pub fn add_at(&mut self, receiver: String, stream: u32, first: u64, last: u64) {
        let (first, receiver, reported) = (first.max(1), Some(receiver), RangeSet::default());
        self.put(Late { stream, first, last, cause: Cause::ExpiredAtReceiver, receiver, reported });
    }

    fn put(&mut self, late: Late) {
        match self.found.last_mut() {
            Some(before)
                if before.stream == late.stream
                    && before.receiver == late.receiver
                    && before.last.checked_add(1) == Some(late.first) =>
            {
                before.last = late.last;
            }
            _ => self.found.push(late),
        }
    }

    /// The numbers that a receiver reports as done, without those that have expired and are not recorded yet: these are
    /// marked as done once they are recorded. A receiver also reports the numbers that the sender left out before a
    /// message.
    pub fn hold_back(&mut self, stream: u32, mut done: RangeSet) -> RangeSet {
        for late in self.found.iter_mut().filter(|late| late.stream == stream) {
            let mut found = RangeSet::default();
            found.add(late.first, late.last);
            let others = done.without(&found);
            late.reported.add_all(&done.without(&others), u64::MAX);
            done = others;
        }
        done
    }

    /// When to try again, after there was no room.
    pub fn again_at(&self) -> Option<Instant> {
        self.again_at
    }
}

impl PeerLoop {
    /// Records what has expired as done, and makes dead letters of it where the client wants that.
    pub(super) fn end_expired(&mut self) {
        if self.expiry.again_at.is_some_and(|at| at > now()) {
            return;
        }
        self.expiry.again_at = None;
        for late in std::mem::take(&mut self.expiry.found) {
            match self.end_late(&late) {
                Ok(()) | Err(LogError::Failed(_)) => self.end_held_back(&late),
                Err(_) => {
                    self.expiry.again_at = Some(now() + AGAIN_AFTER);
                    self.expiry.found.push(late);
                }
            }
        }
    }

    fn end_held_back(&mut self, late: &Late) {
        // Nothing of this is new if it was recorded as expired. A failure of the log is reported elsewhere.
        let _ = self.store.mark_reported(&mut self.store.lock(), late.stream, &late.reported);
        if late.receiver.is_some() {
            // The receiver keeps it until then. What was not sent is a gap to it.
            self.outward.tell_gone(&self.store, late.stream);
        }
    }

    fn end_late(&mut self, late: &Late) -> Result<(), LogError> {
        let (client, receiver, last) = {
            let state = self.store.lock();
            let Some(stream) = state.outbox.get(late.stream) else { return Ok(()) };
            let to = match &stream.record.receiver {
                Receiver::Client(name) => name.clone(),
                Receiver::Anyone | Receiver::Later => String::new(),
            };
            let receiver = late.receiver.clone().unwrap_or(to);
            (stream.record.client, receiver, late.last.min(stream.record.last))
        };
        let late = Late { last, receiver: Some(receiver), reported: RangeSet::default(), ..*late };
        let keeps = self.inward.iter().any(|of| of.client.number == client && of.keeps_expired);
        if late.first > late.last || (keeps && !self.bury(&late)?) {
            return Ok(());
        }
        let mut done = RangeSet::default();
        done.add(late.first, late.last);
        self.store.mark_done(&mut self.store.lock(), late.stream, &done, late.cause).map(drop)
    }

    /// Makes dead letters of the logged messages that end in these numbers. Returns false if the last number is not the
    /// end of its message, whose other parts expire later: then the message goes as a whole.
    fn bury(&mut self, late: &Late) -> Result<bool, LogError> {
        let (ends, is_whole) = (RefCell::new(Vec::new()), RefCell::new(true));
        let note = |entry: &crate::wire::FrameEntry<'_>| {
            let ends_here = entry.flags & ENDS != 0;
            *is_whole.borrow_mut() = ends_here;
            ends.borrow_mut().extend(ends_here.then_some(entry.seq));
            false
        };
        let wanted = Wanted { range: late.first..=late.last, enough_bytes: usize::MAX, filter: &note };
        self.store.logged_messages(late.stream, &wanted)?;
        for last in ends.into_inner() {
            let (stream, first, verdict, deliveries) = (late.stream, late.first, Verdict::Expired, 0);
            let letter = GivenUpMessage { stream, first, last, verdict, deliveries };
            let receiver = late.receiver.as_deref().unwrap_or_default();
            if let Some(to) = letter.put_away(&self.store, receiver, late.cause)? {
                self.find(to);
            }
        }
        Ok(is_whole.into_inner())
    }
}
