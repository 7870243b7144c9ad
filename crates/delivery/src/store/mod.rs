//! The durable state: the clients, the messages they have sent, and their progress on the streams that they receive.
//!
//! The state is behind one lock and in one log. Every change is made to both under the lock, so the log has the order
//! of events.

mod attempts;
mod identity;
mod messages;
mod outbox;
mod parts;
mod progress;
pub mod records;
mod retention;
mod sent;
mod settings;
mod subscriptions;
mod together;
mod viewing;
mod volatile;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::HashSet;
use pinnace_stream::RangeSet;
use records::{
    ATTEMPTS, CLIENT, CURSOR, DONE, KNOWN, MESSAGE, MessageRecord, Receiver, SENT, SETTINGS, STREAM, TOPICS,
};

use crate::environment::{now, now_ms};
use crate::log::{self, Checkpointer, Damage, Log, LogError, Position, Replay, Settings, Storage, Urgency};
use crate::signal::{Patience, Signal};
use crate::wire::{FrameEntry, Id, Opening, VOLATILE};
pub use attempts::Attempt;
pub use messages::{Messages, StreamMessage, Wanted};
pub use outbox::{Cause, EPOCH_SHIFT, Logged, Outbox, Stream};
pub use retention::RetainLimits;
pub use sent::{IdState, SendingId, SentId, digest_of};
pub use settings::SenderSettings;
pub use viewing::view;
pub use volatile::VolatileRun;

/// An incoming stream: the number of our client, the sender's id, and the sender's number of the stream.
pub type Incoming = (u32, Id, u64);

#[derive(Default)]
pub struct State {
    pub clients: Vec<records::ClientRecord>,
    pub outbox: Outbox,
    pub cursors: HashMap<Incoming, records::CursorRecord>,
    /// The batches with the last records of cursors that have not changed since.
    noted: HashMap<Incoming, u64>,
    /// The last opening heard from each sender.
    senders: HashMap<(u32, Id), Opening>,
    /// The ids under which receivers know the clients.
    known: HashMap<(u32, String), records::Known>,
    /// The topics that each durable client listens on.
    subscriptions: HashMap<u32, records::Subscriptions>,
    /// The ids of messages that the clients have sent.
    pub sent: sent::SentIds,
    /// What each client was started with, as recorded.
    settings: HashMap<u32, Vec<u8>>,
    /// How often each client was handed messages that are not done, over its processes.
    attempts: HashMap<u32, attempts::DeliveryCounts>,
    /// Streams in the middle of a multi-part message: no other message may be appended to them.
    in_parts: HashSet<u32>,
    /// Streams with new volatile messages that the peer loop was not told of.
    volatile: HashSet<u32>,
    /// The segment of the last write.
    tail: u64,
    scratch: Vec<u8>,
}

pub struct Store {
    state: Mutex<State>,
    /// Signalled when more of an outgoing stream is done.
    progressed: Signal,
    log: Log,
    /// Damage that was left out when the log was opened.
    pub damage: Vec<Damage>,
}

/// A message, or a part of one, to accept.
#[derive(Clone, Copy)]
pub struct Sending<'a> {
    pub client: u32,
    pub streams: &'a [u32],
    pub flags: u8,
    pub accepted_ms: u64,
    pub ttl_ms: u32,
    pub body: &'a [u8],
    /// Unused for volatile messages.
    pub urgency: Urgency,
    /// The message's id, if retries are recognized by it.
    pub id: Option<SendingId>,
}

/// The result of `Store::accept`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The batch of the log that holds it; 0: none.
    pub batch: u64,
}

impl Store {
    /// Opens a store. `tell` is called when more of the log is on the disk, and when the log has failed.
    pub fn open(
        storage: Arc<dyn Storage>,
        settings: Settings,
        tell: log::SyncCallback,
    ) -> Result<Store, LogError> {
        Store::open_by(storage, settings, |opened, state| opened.start(state, tell))
    }

    /// As `open`; `start` starts the log.
    pub fn open_by(
        storage: Arc<dyn Storage>,
        settings: Settings,
        start: impl FnOnce(log::Opened, &State) -> Result<Log, LogError>,
    ) -> Result<Store, LogError> {
        let mut state = State::default();
        state.sent.limit(settings.most);
        let opened = log::open(storage, settings, &mut state)?;
        state.finish_recovery();
        let damage = opened.damage().to_vec();
        let log = start(opened, &state)?;
        for segment in log.segments() {
            if !state.outbox.is_used(segment) {
                log.free(segment, &state)?;
            }
        }
        match state.outbox.needs_guard() || state.outbox.has_parts() {
            // A full disk must not keep a store from being drained.
            true => drop(log.guard()),
            false => log.remove_guard(),
        }
        Ok(Store { state: Mutex::new(state), progressed: Signal::default(), log, damage })
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The stream to a receiver, opened if there is none.
    pub fn stream(
        &self,
        state: &mut State,
        client: u32,
        receiver: &Receiver,
        topic: &str,
    ) -> Result<u32, LogError> {
        if let Some(stream) = state.outbox.find(client, receiver, topic) {
            return Ok(stream);
        }
        let record = state.outbox.open(client, receiver.clone(), topic).record.clone();
        match self.append_stream(state, Urgency::Interval, &record) {
            Ok(_) => Ok(record.number),
            Err(error) => {
                state.outbox.remove(record.number);
                Err(error)
            }
        }
    }

    /// Records what the latest entry of a stream's receiver says: whether it has ended its subscription.
    pub fn set_left(
        &self,
        state: &mut State,
        stream: u32,
        left: bool,
        seen: records::SeenEntry,
    ) -> Result<(), LogError> {
        let is_new = |of: &&Stream| (of.record.left, of.record.seen) != (left, seen);
        let Some(of) = state.outbox.get(stream).filter(is_new) else { return Ok(()) };
        let record = records::StreamRecord { left, seen, ..of.record.clone() };
        state.outbox.set_left(stream, left, seen);
        self.append_stream(state, Urgency::Interval, &record).map(drop)
    }

    /// Appends a message to the log, under a number in each of its streams.
    pub fn accept(&self, state: &mut State, sending: &Sending<'_>) -> Result<Accepted, LogError> {
        self.accept_with(state, sending, None)
    }

    /// Accepts a volatile message. Returns true if the peer loop must be woken.
    pub fn hold(&self, state: &mut State, sending: &Sending<'_>) -> bool {
        let epoch = state.clients[sending.client as usize].opening().epoch;
        let entry = FrameEntry {
            seq: 0,
            accepted_ms: sending.accepted_ms,
            ttl_ms: (sending.ttl_ms > 0).then_some(u64::from(sending.ttl_ms)),
            flags: sending.flags | VOLATILE,
            body: sending.body,
        };
        let was_empty = state.volatile.is_empty();
        for stream in sending.streams {
            state.outbox.hold(*stream, epoch, &entry);
            state.volatile.insert(*stream);
        }
        state.sent.accepted(&Sending { flags: entry.flags, ..*sending }, 0);
        was_empty
    }

    /// Waits until volatile messages cost no more than `most`. None: the time is over.
    pub fn wait_for_memory<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        most: u64,
        patience: Patience<'_>,
    ) -> Option<MutexGuard<'a, State>> {
        while state.outbox.held_cost() > most {
            let time_ms = now_ms();
            let (expired, next_ms) = state.outbox.held_expired(time_ms);
            if expired.is_empty() {
                if patience.is_over() {
                    return None;
                }
                let next = next_ms.map(|at| now() + Duration::from_millis(at.saturating_sub(time_ms)));
                match self.progressed.wait(state, patience.until(next)) {
                    Some(again) => state = again,
                    None => state = self.lock(),
                }
            }
            for (stream, first, last) in expired {
                let mut done = RangeSet::default();
                done.add(first, last);
                // A failure of the log is reported elsewhere.
                let _ = self.mark_done(&mut state, stream, &done, Cause::Expired);
            }
        }
        Some(state)
    }

    /// Makes waiting callers check again, after a `Patience::called_off` flag was set.
    pub fn wake_waiters(&self) {
        drop(self.lock());
        self.progressed.tell();
        self.log.wake_waiters();
    }

    /// Waits until a client has no volatile messages. Returns false if the patience has ended first.
    pub fn wait_for_held<'a>(&self, client: u32, patience: impl Into<Patience<'a>>) -> bool {
        let (mut state, patience) = (self.lock(), patience.into());
        while state.outbox.is_held(client) {
            match self.progressed.wait(state, patience) {
                Some(again) => state = again,
                None => return false,
            }
        }
        true
    }

    /// Drops a client's volatile messages.
    pub fn forget_held(&self, client: u32) {
        let mut state = self.lock();
        state.outbox.forget_held(client);
        state.sent.forget_volatile(client);
        drop(state);
        self.progressed.tell();
    }

    /// Waits until at most `most` of a client's messages are not done. False: the time is over.
    pub fn wait_done(&self, client: u32, most: u64, patience: Patience<'_>) -> bool {
        let mut state = self.lock();
        while state.pending(client) > most {
            match self.progressed.wait(state, patience) {
                Some(again) => state = again,
                None => return false,
            }
        }
        true
    }

    /// Frees the segments that no stream needs. Those that fail for lack of room are freed by a later call.
    fn free(&self, state: &mut State) {
        for segment in state.outbox.take_free() {
            if self.log.free(segment, state).is_err() {
                state.outbox.free_if_unused(segment);
            }
        }
    }

    fn append(
        &self,
        state: &mut State,
        urgency: Urgency,
        kind: u8,
        parts: &[&[u8]],
    ) -> Result<u64, LogError> {
        let appended = self.log.append(urgency, kind, parts, state)?;
        state.follow(appended.position);
        self.free(state);
        Ok(appended.batch)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.lock().outbox.needs_guard() {
            self.log.remove_guard_at_end();
        }
    }
}

impl Checkpointer for State {
    fn checkpoint(&self, add: &mut dyn FnMut(u8, &[&[u8]])) {
        for client in &self.clients {
            add(CLIENT, &[&client.write()]);
        }
        for stream in self.outbox.iter() {
            let (record, further) = stream.record.write_all();
            add(STREAM, &[&record]);
            further.iter().for_each(|done| add(DONE, &[done]));
        }
        for record in self.cursors.values().flat_map(records::CursorRecord::write_all) {
            add(CURSOR, &[&record]);
        }
        for known in self.known.values() {
            add(KNOWN, &[&known.write()]);
        }
        for (client, subscriptions) in &self.subscriptions {
            add(TOPICS, &[&subscriptions.write(*client)]);
        }
        self.write_attempts().for_each(|counts| add(ATTEMPTS, &[&counts]));
        self.sent.write().iter().for_each(|ids| add(SENT, &[ids]));
        self.settings.values().for_each(|record| add(SETTINGS, &[record]));
    }

    fn summary(&self, segment: u64) -> Vec<u8> {
        self.outbox.summary(segment)
    }
}

impl Replay for State {
    fn summary(&mut self, segment: u64, summary: &[u8]) -> bool {
        self.outbox.find_summary(segment, summary)
    }

    fn record(&mut self, position: Position, kind: u8, payload: &[u8]) {
        // A record that cannot be read was written by a later version: skip it.
        let _ = self.find(position, kind, payload);
    }
}

impl State {
    /// Returns true if one of these streams is in the middle of a message.
    pub fn is_in_parts(&self, streams: &[u32]) -> bool {
        !self.in_parts.is_empty() && streams.iter().any(|stream| self.in_parts.contains(stream))
    }

    /// Streams with new volatile messages, since the last call.
    pub fn take_held(&mut self) -> HashSet<u32> {
        std::mem::take(&mut self.volatile)
    }

    /// Called after each write: a segment that is now full is free if no stream needs it.
    fn follow(&mut self, position: Position) {
        let full = std::mem::replace(&mut self.tail, position.segment);
        if full != position.segment {
            self.outbox.free_if_unused(full);
        }
    }

    fn find(&mut self, position: Position, kind: u8, payload: &[u8]) -> Option<()> {
        match kind {
            CLIENT => self.find_client(records::ClientRecord::read(payload)?),
            STREAM => self.outbox.find_stream(records::StreamRecord::read(payload)?),
            MESSAGE => {
                let message = MessageRecord::read(payload)?;
                let (bytes, accepted_ms) = (message.body.len() as u64, message.accepted_ms);
                let logged = Logged { position, bytes, accepted_ms, flags: message.flags };
                self.find_id(&message);
                for (stream, seq) in message.destinations() {
                    self.outbox.find_message(stream, seq, &logged);
                }
            }
            SENT => self.sent.read(payload)?,
            DONE => {
                let (stream, done) = records::read_done(payload)?;
                self.outbox.find_done(stream, &done);
            }
            CURSOR => {
                let mut cursor = records::CursorRecord::read(payload)?;
                let of = (cursor.client, cursor.sender, cursor.stream);
                if let Some(before) = self.cursors.get(&of) {
                    cursor.done.add_all(&before.done, u64::MAX);
                }
                self.put_cursor(cursor);
                self.forget_attempts(&of);
            }
            KNOWN => {
                let known = records::Known::read(payload)?;
                self.known.insert((known.client, known.receiver.clone()), known);
            }
            TOPICS => {
                let (client, subscriptions) = records::Subscriptions::read(payload)?;
                self.subscriptions.insert(client, subscriptions);
            }
            ATTEMPTS => self.find_attempts(payload)?,
            SETTINGS => return self.find_sender_settings(payload),
            _ => {}
        }
        Some(())
    }

    /// Completes recovery.
    fn finish_recovery(&mut self) {
        self.outbox.finish_recovery();
        self.sent.finish_recovery();
    }

    fn find_client(&mut self, client: records::ClientRecord) {
        let at = client.number as usize;
        self.find_start(client.number);
        if at == self.clients.len() {
            self.clients.push(client);
        } else if let Some(known) = self.clients.get_mut(at) {
            *known = client;
        }
    }
}

#[cfg(test)]
mod tests;
