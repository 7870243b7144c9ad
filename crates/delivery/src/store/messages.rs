//! Reads a stream's messages back, from memory and from the log, and moves them to another stream.

use std::ops::RangeInclusive;

use pinnace_stream::RangeSet;

use super::records::{self, DONE, Destination, MESSAGE, MessageRecord, write_done};
use super::{Accepted, Cause, Logged, Sending, State, Store};
use crate::log::{Appended, LogError, Urgency};
use crate::wire::{ENDS, FrameEntry};

/// Bytes of the log read at once.
const READ_BYTES: usize = 256 << 10;

/// A message of a stream, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamMessage {
    pub seq: u64,
    pub flags: u8,
    pub accepted_ms: u64,
    /// 0: it does not expire.
    pub ttl_ms: u32,
    pub body: Vec<u8>,
}

impl StreamMessage {
    /// As on the wire.
    pub fn entry(&self) -> FrameEntry<'_> {
        let StreamMessage { seq, flags, accepted_ms, ttl_ms, ref body } = *self;
        FrameEntry { seq, accepted_ms, ttl_ms: (ttl_ms > 0).then_some(u64::from(ttl_ms)), flags, body }
    }

    /// Returns true if its time to live is over.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.ttl_ms > 0 && self.accepted_ms.saturating_add(u64::from(self.ttl_ms)) <= now_ms
    }
}

/// Messages of a stream, in order.
#[derive(Debug)]
pub struct Messages {
    pub list: Vec<StreamMessage>,
    /// They are held in memory, not logged.
    pub volatile: bool,
    /// Later messages of the range were not examined.
    pub upto: u64,
}

/// Which messages to read.
pub struct Wanted<'a> {
    pub range: RangeInclusive<u64>,
    /// Stops after a whole message once the bodies have this many bytes; 0: after the first.
    pub enough_bytes: usize,
    pub filter: &'a dyn Fn(&FrameEntry<'_>) -> bool,
}

/// The messages gathered so far.
struct Gathering<'a, 'b> {
    wanted: &'a Wanted<'b>,
    found: Messages,
    bytes: usize,
    is_done: bool,
}

impl<'a, 'b> Gathering<'a, 'b> {
    fn new(wanted: &'a Wanted<'b>, volatile: bool) -> Gathering<'a, 'b> {
        let found = Messages { list: Vec::new(), volatile, upto: *wanted.range.end() };
        Gathering { wanted, found, bytes: 0, is_done: false }
    }

    fn take(&mut self, entry: &FrameEntry<'_>) {
        let range = &self.wanted.range;
        if self.is_done || entry.seq < *range.start() {
            return;
        }
        if range.contains(&entry.seq) && (self.wanted.filter)(entry) {
            self.bytes += entry.body.len();
            self.found.list.push(StreamMessage {
                seq: entry.seq,
                flags: entry.flags,
                accepted_ms: entry.accepted_ms,
                ttl_ms: entry.ttl_ms.map_or(0, |ttl_ms| ttl_ms as u32),
                body: entry.body.to_vec(),
            });
        }
        let has_enough = !self.found.list.is_empty() && self.bytes >= self.wanted.enough_bytes;
        if entry.seq >= *range.end() || (has_enough && entry.flags & ENDS != 0) {
            self.is_done = true;
            self.found.upto = entry.seq;
        }
    }
}

impl State {
    /// How many messages of a client are not done.
    pub fn pending(&self, client: u32) -> u64 {
        let own = self.outbox.iter().filter(|stream| stream.record.client == client);
        own.map(|stream| stream.pending()).sum()
    }

    /// Writes the header of a message's record. `ahead`: how many messages are to be accepted before it in a stream.
    /// Returns its streams, and its numbers there.
    pub(super) fn write_header(
        &self,
        to: &mut Vec<u8>,
        sending: &Sending<'_>,
        ahead: impl Fn(u32) -> u64,
    ) -> Vec<Destination> {
        let epoch = self.clients[sending.client as usize].opening().epoch;
        let next = |stream: &u32| Some((*stream, self.outbox.next(*stream, epoch)? + ahead(*stream)));
        let destinations: Vec<Destination> = sending.streams.iter().filter_map(next).collect();
        records::write_message(to, sending.flags, sending.accepted_ms, sending.ttl_ms, &destinations);
        destinations
    }

    /// The record of a message was appended.
    pub(super) fn accepted(
        &mut self,
        sending: &Sending<'_>,
        destinations: &[Destination],
        appended: &Appended,
    ) {
        let epoch = self.clients[sending.client as usize].opening().epoch;
        let Sending { accepted_ms, flags, .. } = *sending;
        let (position, bytes) = (appended.position, sending.body.len() as u64);
        for (stream, _) in destinations {
            self.outbox.add(*stream, epoch, &Logged { position, bytes, accepted_ms, flags });
        }
        self.sent.accepted(sending, appended.batch);
    }
}

impl Store {
    /// Reads messages of an outgoing stream: those held in memory or, if none of them is wanted, those in the log.
    pub fn messages(&self, stream: u32, wanted: &Wanted<'_>) -> Result<Messages, LogError> {
        let held = self.held_messages(stream, wanted);
        if !held.list.is_empty() {
            return Ok(held);
        }
        self.logged_messages(stream, wanted)
    }

    /// As `messages`, from memory alone.
    pub fn held_messages(&self, stream: u32, wanted: &Wanted<'_>) -> Messages {
        let mut held = Gathering::new(wanted, true);
        self.read_held(stream, &mut held);
        held.found
    }

    /// As `messages`, from the log alone.
    pub fn logged_messages(&self, stream: u32, wanted: &Wanted<'_>) -> Result<Messages, LogError> {
        let mut logged = Gathering::new(wanted, false);
        self.scan_logged(stream, wanted.range.start().saturating_sub(1), &mut |entry| {
            logged.take(entry);
            !logged.is_done
        })?;
        Ok(logged.found)
    }

    /// As `accept`. `note`: a record of this kind that a crash keeps or loses together with the message.
    pub(super) fn accept_with(
        &self,
        state: &mut State,
        sending: &Sending<'_>,
        note: Option<(u8, &[u8])>,
    ) -> Result<Accepted, LogError> {
        let mut header = std::mem::take(&mut state.scratch);
        let destinations = state.write_header(&mut header, sending, |_| 0);
        let message: &[&[u8]] = &[&header, sending.body];
        let appended = match note {
            None => self.log.append(sending.urgency, MESSAGE, message, state),
            Some((kind, note)) => {
                self.log.append_together(sending.urgency, &[(MESSAGE, message), (kind, &[note])], state)
            }
        };
        state.scratch = header;
        let appended = appended?;
        state.accepted(sending, &destinations, &appended);
        state.follow(appended.position);
        self.free(state);
        Ok(Accepted { batch: appended.batch })
    }

    fn read_held(&self, stream: u32, into: &mut Gathering<'_, '_>) {
        let (mut state, mut at) = (self.lock(), into.wanted.range.start().saturating_sub(1));
        while !into.is_done
            && let Some(run) = state.outbox.held_after(stream, at)
        {
            run.visit(|entry| into.take(entry));
            at = run.of.last;
        }
    }

    /// Passes the stream's messages in the log to `visit`, from somewhere up to the first after `after` on, until it
    /// returns false. The numbers ascend.
    pub fn scan_logged(
        &self,
        stream: u32,
        after: u64,
        visit: &mut dyn FnMut(&FrameEntry<'_>) -> bool,
    ) -> Result<(), LogError> {
        let (mut position, record) = {
            let state = self.lock();
            let Some(of) = state.outbox.get(stream) else { return Ok(()) };
            (of.position_after(after.max(of.record.done.all_upto())), of.record.clone())
        };
        let (mut buffer, mut goes_on) = (Vec::new(), true);
        while let Some(at) = position.filter(|_| goes_on) {
            let next = self.log().read(at, READ_BYTES, &mut buffer, &mut |_, kind, payload| {
                if kind == MESSAGE
                    && let Some(message) = MessageRecord::read(payload)
                    && let Some((_, seq)) =
                        message.destinations().find(|(other, seq)| record.has(*other, *seq))
                {
                    goes_on = visit(&message.entry(seq));
                }
                goes_on
            })?;
            position = (next != at).then_some(next);
        }
        Ok(())
    }

    /// Moves whole messages of a stream to another stream of the same client. A crash leaves each of them in one of the
    /// two, and in one only, unless they are volatile. Errors: NoRoom, also while `to` is in the middle of a message.
    pub fn transfer(
        &self,
        state: &mut State,
        from: u32,
        messages: &Messages,
        to: u32,
        cause: Cause,
    ) -> Result<(), LogError> {
        let Some(client) = state.outbox.get(from).map(|stream| stream.record.client) else { return Ok(()) };
        if state.is_in_parts(&[to]) {
            return Err(LogError::NoRoom(None));
        }
        let (mut done, mut parts) = (RangeSet::default(), 0);
        for message in &messages.list {
            let sending = Sending {
                client,
                streams: &[to],
                flags: message.flags,
                accepted_ms: message.accepted_ms,
                ttl_ms: message.ttl_ms,
                body: &message.body,
                urgency: Urgency::Sync,
                id: None,
            };
            done.add(message.seq, message.seq);
            let is_last = message.flags & ENDS != 0;
            let moved = match messages.volatile {
                true => {
                    self.hold(state, &sending);
                    Ok(())
                }
                false if is_last => self.accept_instead(state, &sending, from, &done, cause),
                false => self.accept(state, &sending).map(drop),
            };
            if moved.is_err() {
                // The remaining parts never follow these.
                self.end_parts(state, &[to], parts)?;
                return moved;
            }
            parts = if is_last { 0 } else { parts + 1 };
            if is_last && !messages.volatile {
                done = RangeSet::default();
            }
        }
        self.mark_done(state, from, &done, cause).map(drop)
    }

    /// Accepts a message, or its last part, in the place of numbers of another stream, which are done with it.
    fn accept_instead(
        &self,
        state: &mut State,
        sending: &Sending<'_>,
        from: u32,
        done: &RangeSet,
        cause: Cause,
    ) -> Result<(), LogError> {
        if state.outbox.get(from).is_none() {
            return Ok(());
        }
        let note = write_done(from, done);
        let Accepted { batch } = self.accept_with(state, sending, Some((DONE, &note)))?;
        let epoch = state.clients[sending.client as usize].opening().epoch;
        if state.outbox.mark_done(from, epoch, done, cause) {
            state.outbox.set_done_in(from, batch);
            state.outbox.set_recorded_in(from, batch, done);
            self.progressed.tell();
            self.free(state);
        }
        Ok(())
    }
}
