//! What has to be remembered: who the clients are, what they have sent, and how far they are with what others sent.
//!
//! All of it is behind one lock and in one log. Every change is made in both under the
//! lock, so that the log's order is the order of events.

mod held;
mod identity;
mod outbox;
pub mod records;
mod viewing;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foldhash::HashSet;
use records::{CLIENT, CURSOR, DONE, Destination, KNOWN, MESSAGE, Message, Receiver, STREAM};

use crate::clock::now_ms;
use crate::log::{self, Damage, Keeper, Log, LogError, Place, Replay, Settings, Storage, Urgency};
use crate::ranges::Done;
use crate::signal::{Patience, Signal};
use crate::wire::{BEGINS, ENDS, Entry, Id, Opening, VOLATILE};
pub use outbox::{EPOCH_SHIFT, Outbox, Stream};
pub use viewing::view;

/// Who has sent a stream to one of the clients, and its number there.
pub type Incoming = (u32, Id, u64);

#[derive(Default)]
pub struct State {
    pub clients: Vec<records::Client>,
    pub outbox: Outbox,
    pub cursors: HashMap<Incoming, records::Cursor>,
    /// In which opening each of those senders was last heard of.
    senders: HashMap<(u32, Id), Opening>,
    /// As whom receivers know the clients.
    known: HashMap<(u32, String), records::Known>,
    /// Streams in which a message in parts has begun and has not ended: nothing else goes between.
    in_parts: HashSet<u32>,
    /// Streams whose last message was found without its end: its first part and its last, as far as they were found.
    unfinished: HashMap<u32, (u64, u64)>,
    /// Streams in which something is held that the carrier has not heard of.
    held: HashSet<u32>,
    /// The segment that was written to last.
    tail: u64,
    scratch: Vec<u8>,
}

pub struct Store {
    state: Mutex<State>,
    /// More of a stream to others is done.
    settled: Signal,
    log: Log,
    /// Damage that was left out when it was opened.
    pub damage: Vec<Damage>,
}

/// A message that is to be accepted.
pub struct Sending<'a> {
    pub client: u32,
    pub streams: &'a [u32],
    pub flags: u8,
    pub accepted_ms: u64,
    pub ttl_ms: u32,
    pub body: &'a [u8],
    /// Of a message that goes into the log.
    pub urgency: Urgency,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The batch of the log that holds it; 0: none does.
    pub batch: u64,
}

impl Store {
    /// A store in a log. `tell` is called when more of it is on the disk, and when it has failed.
    pub fn open(storage: Arc<dyn Storage>, settings: Settings, tell: log::Tell) -> Result<Store, LogError> {
        let mut state = State::default();
        let opened = log::open(storage, settings, &mut state)?;
        state.found_all();
        let damage = opened.damage().to_vec();
        let log = opened.start(&state, tell)?;
        for segment in log.segments() {
            if !state.outbox.is_used(segment) {
                log.free(segment, &state)?;
            }
        }
        Ok(Store { state: Mutex::new(state), settled: Signal::default(), log, damage })
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The stream to a receiver.
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
        match self.append(state, Urgency::Interval, STREAM, &[&record.write()]) {
            Ok(_) => Ok(record.number),
            Err(error) => {
                state.outbox.remove(record.number);
                Err(error)
            }
        }
    }

    /// Somebody else receives a stream from here on.
    pub fn hand_over(&self, state: &mut State, stream: u32, receiver: Receiver) -> Result<(), LogError> {
        let Some(record) = state.outbox.hand_over(stream, receiver).map(|stream| stream.record.write())
        else {
            return Ok(());
        };
        self.append(state, Urgency::Sync, STREAM, &[&record]).map(drop)
    }

    /// Waits until none of these streams is in the middle of a message. None: the time is over.
    pub fn wait_for_end<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        streams: &[u32],
        patience: Patience<'_>,
    ) -> Option<MutexGuard<'a, State>> {
        while state.is_in_parts(streams) {
            state = self.settled.wait(state, patience)?;
        }
        Some(state)
    }

    /// A message in parts begins in these streams.
    pub fn begin_parts(&self, state: &mut State, streams: &[u32]) {
        state.in_parts.extend(streams);
    }

    /// It has ended; `left`: so many of its parts were accepted, and the others never will be.
    pub fn end_parts(&self, state: &mut State, streams: &[u32], left: u64) -> Result<(), LogError> {
        state.in_parts.retain(|stream| !streams.contains(stream));
        self.settled.tell();
        for stream in streams.iter().filter(|_| left > 0) {
            let last = state.outbox.get(*stream).map_or(0, |stream| stream.record.last);
            let mut done = Done::default();
            done.add((last + 1).saturating_sub(left), last);
            self.settle(state, *stream, &done)?;
        }
        Ok(())
    }

    /// Accepts a message: it has a number in each of its streams, and lies in the log.
    pub fn accept(&self, state: &mut State, sending: &Sending<'_>) -> Result<Accepted, LogError> {
        let epoch = state.clients[sending.client as usize].opening().epoch;
        let mut header = std::mem::take(&mut state.scratch);
        let next = |stream: &u32| state.outbox.next(*stream, epoch).map(|seq| (*stream, seq));
        let destinations: Vec<Destination> = sending.streams.iter().filter_map(next).collect();
        records::write_message(
            &mut header,
            sending.flags,
            sending.accepted_ms,
            sending.ttl_ms,
            &destinations,
        );
        let appended = self.log.append(sending.urgency, MESSAGE, &[&header, sending.body], state);
        state.scratch = header;
        let appended = appended?;
        for (stream, _) in &destinations {
            state.outbox.add(*stream, epoch, appended.place);
        }
        state.follow(appended.place);
        self.free(state);
        Ok(Accepted { batch: appended.batch })
    }

    /// Accepts a message that is held in memory alone. True: the carrier is to be told.
    pub fn hold(&self, state: &mut State, sending: &Sending<'_>) -> bool {
        let epoch = state.clients[sending.client as usize].opening().epoch;
        let entry = Entry {
            seq: 0,
            accepted_ms: sending.accepted_ms,
            ttl_ms: (sending.ttl_ms > 0).then_some(u64::from(sending.ttl_ms)),
            flags: sending.flags | VOLATILE,
            body: sending.body,
        };
        let was_empty = state.held.is_empty();
        for stream in sending.streams {
            state.outbox.hold(*stream, epoch, &entry);
            state.held.insert(*stream);
        }
        was_empty
    }

    /// Waits until no more than `most` is held. None: the time is over.
    pub fn wait_for_memory<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        most: u64,
        patience: Patience<'_>,
    ) -> Option<MutexGuard<'a, State>> {
        while state.outbox.held_cost() > most {
            let now = now_ms();
            let (expired, next_ms) = state.outbox.held_expired(now);
            if expired.is_empty() {
                if patience.is_over() {
                    return None;
                }
                let next = next_ms.map(|at| Instant::now() + Duration::from_millis(at.saturating_sub(now)));
                match self.settled.wait(state, patience.until(next)) {
                    Some(again) => state = again,
                    None => state = self.lock(),
                }
            }
            for (stream, first, last) in expired {
                let mut done = Done::default();
                done.add(first, last);
                // A log that has failed is noticed elsewhere.
                let _ = self.settle(&mut state, stream, &done);
            }
        }
        Some(state)
    }

    /// Somebody's patience was called off: who waits looks again.
    pub fn look_again(&self) {
        drop(self.lock());
        self.settled.tell();
        self.log.look_again();
    }

    /// Waits until nothing of a client's is held in memory, and forgets what still is at the deadline.
    pub fn wait_for_held(&self, client: u32, deadline: Instant) {
        let mut state = self.lock();
        while state.outbox.is_held(client) {
            match self.settled.wait(state, Some(deadline)) {
                Some(again) => state = again,
                None => {
                    self.lock().outbox.forget_held(client);
                    return self.settled.tell();
                }
            }
        }
    }

    /// More of a stream to others is done. False: it makes no sense, or is not new.
    pub fn settle(&self, state: &mut State, stream: u32, done: &Done) -> Result<bool, LogError> {
        let Some(of) = state.outbox.get(stream) else { return Ok(false) };
        let epoch = state.clients[of.record.client as usize].opening().epoch;
        let is_logged = of.is_logged_upto(done.last());
        if !state.outbox.settle(stream, epoch, done) {
            return Ok(false);
        }
        if !is_logged {
            self.settled.tell();
            return Ok(true);
        }
        let settled = state.outbox.get(stream).map(|stream| stream.record.done.clone()).unwrap_or_default();
        self.settled.tell();
        self.append(state, Urgency::Control, DONE, &[&records::write_done(stream, &settled)])?;
        Ok(true)
    }

    /// Waits until no more than `most` of what a client has sent is not done. False: the time is over.
    pub fn wait_settled(&self, client: u32, most: u64, patience: Patience<'_>) -> bool {
        let mut state = self.lock();
        while state.pending(client) > most {
            match self.settled.wait(state, patience) {
                Some(again) => state = again,
                None => return false,
            }
        }
        true
    }

    /// Frees the segments in which nobody has anything; those for which there is no room to say so, the next time.
    fn free(&self, state: &mut State) {
        for segment in state.outbox.take_free() {
            if self.log.free(segment, state).is_err() {
                state.outbox.free_if_unused(segment);
            }
        }
    }

    /// How far a client is with a stream from another, in the log. Returns the batch.
    pub fn note(&self, state: &mut State, of: &Incoming) -> Result<u64, LogError> {
        match state.cursors.get(of).map(records::Cursor::write) {
            Some(cursor) => self.append(state, Urgency::Note, CURSOR, &[&cursor]),
            None => Ok(0),
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
        state.follow(appended.place);
        self.free(state);
        Ok(appended.batch)
    }
}

impl Keeper for State {
    fn checkpoint(&self, add: &mut dyn FnMut(u8, &[&[u8]])) {
        for client in &self.clients {
            add(CLIENT, &[&client.write()]);
        }
        for stream in self.outbox.iter() {
            add(STREAM, &[&stream.record.write()]);
        }
        for cursor in self.cursors.values() {
            add(CURSOR, &[&cursor.write()]);
        }
        for known in self.known.values() {
            add(KNOWN, &[&known.write()]);
        }
    }

    fn summary(&self, segment: u64) -> Vec<u8> {
        self.outbox.summary(segment)
    }
}

impl Replay for State {
    fn summary(&mut self, segment: u64, summary: &[u8]) -> bool {
        self.outbox.find_summary(segment, summary)
    }

    fn record(&mut self, place: Place, kind: u8, payload: &[u8]) {
        // What cannot be read was written by a later version: it is not for this one.
        let _ = self.find(place, kind, payload);
    }
}

impl State {
    /// Whether one of these streams is in the middle of a message.
    pub fn is_in_parts(&self, streams: &[u32]) -> bool {
        !self.in_parts.is_empty() && streams.iter().any(|stream| self.in_parts.contains(stream))
    }

    /// How many messages of a client, and parts of such, are not done.
    pub fn pending(&self, client: u32) -> u64 {
        let own = self.outbox.iter().filter(|stream| stream.record.client == client);
        own.map(|stream| stream.pending()).sum()
    }

    /// Streams in which something is held, since this was last asked.
    pub fn take_held(&mut self) -> HashSet<u32> {
        std::mem::take(&mut self.held)
    }

    /// Something was written there. A segment that is full and in which nobody has anything is free.
    fn follow(&mut self, place: Place) {
        let full = std::mem::replace(&mut self.tail, place.segment);
        if full != place.segment {
            self.outbox.free_if_unused(full);
        }
    }

    fn find(&mut self, place: Place, kind: u8, payload: &[u8]) -> Option<()> {
        match kind {
            CLIENT => self.find_client(records::Client::read(payload)?),
            STREAM => self.outbox.find_stream(records::Stream::read(payload)?),
            MESSAGE => {
                let message = Message::read(payload)?;
                for (stream, seq) in message.destinations() {
                    self.outbox.find_message(stream, seq, place);
                    self.find_end(stream, seq, message.flags);
                }
            }
            DONE => {
                let (stream, done) = records::read_done(payload)?;
                self.outbox.find_done(stream, &done);
            }
            CURSOR => {
                self.put_cursor(records::Cursor::read(payload)?);
            }
            KNOWN => {
                let known = records::Known::read(payload)?;
                self.known.insert((known.client, known.receiver.clone()), known);
            }
            _ => {}
        }
        Some(())
    }

    /// Puts together what was found.
    fn found_all(&mut self) {
        // Nobody was told that they are safe, and their end never comes.
        for (stream, (first, last)) in std::mem::take(&mut self.unfinished) {
            let mut done = Done::default();
            done.add(first, last);
            self.outbox.find_done(stream, &done);
        }
        self.outbox.found_all();
    }

    fn find_end(&mut self, stream: u32, seq: u64, flags: u8) {
        match (flags & BEGINS != 0, flags & ENDS != 0) {
            (_, true) => drop(self.unfinished.remove(&stream)),
            (true, false) => drop(self.unfinished.insert(stream, (seq, seq))),
            (false, false) => self.unfinished.entry(stream).or_insert((seq, seq)).1 = seq,
        }
    }

    fn find_client(&mut self, client: records::Client) {
        let at = client.number as usize;
        if at == self.clients.len() {
            self.clients.push(client);
        } else if let Some(known) = self.clients.get_mut(at) {
            *known = client;
        }
    }
}

#[cfg(test)]
mod tests;
