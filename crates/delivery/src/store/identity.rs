//! The identity of this store's clients towards their receivers.
//!
//! A store may be copied, or an old copy may replace it. The two then use the same numbers for different messages. Each
//! opening has a random mark, and a receiver reports the last opening in which it heard from a client. If the client
//! does not know that opening as its own, it takes a new id towards this receiver, and sends its pending messages under
//! that id.

use std::collections::HashSet;

use pinnace_stream::RangeSet;

use super::records::{self, CLIENT, KNOWN};
use super::{State, Store};
use crate::environment::random;
use crate::log::{LogError, Urgency};
use crate::wire::{Id, Opening};

/// How many recent openings a client remembers, in addition to the last one that a receiver is known to have heard
/// from. The client may be killed this many times in a row before it records that.
const OPENINGS: usize = 64;

impl Store {
    /// Opens a new epoch of the client of this name, which is added to the store if it is missing.
    pub fn claim(&self, name: &str, id: Id) -> Result<records::ClientRecord, LogError> {
        let mark = random()?;
        let mut state = self.lock();
        let found = state.clients.iter().position(|client| client.name == name);
        let number = found.unwrap_or(state.clients.len());
        if found.is_none() {
            let (number, name) = (number as u32, name.to_owned());
            state.clients.push(records::ClientRecord { number, name, id, openings: Vec::new() });
        }
        let client = &mut state.clients[number];
        let epoch = client.opening().epoch + 1;
        client.openings.push(Opening { epoch, mark: u64::from_le_bytes(mark) });
        let old = client.openings.len().saturating_sub(OPENINGS);
        client.openings.drain(..old);
        let client = client.clone();
        state.begin_attempts(client.number, found.is_none());
        // `Note`: neither starting nor receiving may wait for a file.
        let batch = self.append(&mut state, Urgency::Note, CLIENT, &[&client.write()])?;
        drop(state);
        self.log.wait(batch, None)?;
        Ok(client)
    }

    /// Handles an Ack: a receiver of a stream has recorded its progress.
    pub fn acknowledge(
        &self,
        state: &mut State,
        stream: u32,
        receiver: &str,
        done: &RangeSet,
    ) -> Result<(), LogError> {
        let is_logged = state.outbox.get(stream).is_some_and(|of| of.is_logged_upto(done.last()));
        // The receiver does not record its progress on volatile messages.
        if self.mark_reported(state, stream, done)? && is_logged {
            self.is_heard(state, stream, receiver)?;
        }
        Ok(())
    }

    /// Records that a receiver of a stream has heard from the present opening.
    fn is_heard(&self, state: &mut State, stream: u32, receiver: &str) -> Result<(), LogError> {
        let Some(client) = state.outbox.get(stream).map(|of| of.record.client) else { return Ok(()) };
        let of = (client, receiver.to_owned());
        let (id, opening) = (state.id_for(of.0, &of.1), state.clients[of.0 as usize].opening());
        self.put_known(state, records::Known { client: of.0, receiver: of.1, id, opening, idle_at: 0 })
    }

    /// Records that a receiver may have messages that a client has sent.
    pub fn may_have_some(&self, state: &mut State, client: u32, receiver: &str) -> Result<(), LogError> {
        if state.known.contains_key(&(client, receiver.to_owned())) {
            return Ok(());
        }
        let (id, opening) = (state.id_for(client, receiver), Opening::default());
        let receiver = receiver.to_owned();
        self.put_known(state, records::Known { client, receiver, id, opening, idle_at: 0 })
    }

    /// Gives a client a new id towards one receiver.
    pub fn part(&self, state: &mut State, client: u32, receiver: &str) -> Result<(), LogError> {
        let id = random()?;
        let receiver = receiver.to_owned();
        let opening = Opening::default();
        self.put_known(state, records::Known { client, receiver, id, opening, idle_at: 0 })
    }

    /// Records that a client ends in order while all receivers but these have no message of it. Its next opening does
    /// not wait for them.
    pub fn end_with(&self, client: u32, busy: &HashSet<String>) -> Result<(), LogError> {
        let mut state = self.lock();
        let epoch = state.clients[client as usize].opening().epoch;
        let own = state.known.values().filter(|known| known.client == client);
        let idle: Vec<records::Known> =
            own.filter(|known| !busy.contains(&known.receiver)).cloned().collect();
        idle.into_iter()
            .try_for_each(|known| self.put_known(&mut state, records::Known { idle_at: epoch, ..known }))
    }

    fn put_known(&self, state: &mut State, known: records::Known) -> Result<(), LogError> {
        let of = (known.client, known.receiver.clone());
        if state.known.get(&of) != Some(&known) {
            self.append(state, Urgency::Control, KNOWN, &[&known.write()])?;
            state.known.insert(of, known);
        }
        Ok(())
    }
}

impl State {
    /// The receivers that may have messages that a client of this store has sent before its present opening.
    pub fn known_receivers(&self, client: u32) -> Vec<String> {
        let epoch = self.clients[client as usize].opening().epoch;
        let was_idle = |known: &records::Known| known.idle_at > 0 && known.idle_at + 1 == epoch;
        let own = self.known.values().filter(|known| known.client == client && !was_idle(known));
        own.map(|known| known.receiver.clone()).collect()
    }

    /// The id under which a receiver knows a client of this store.
    pub fn id_for(&self, client: u32, receiver: &str) -> Id {
        let known = self.known.get(&(client, receiver.to_owned()));
        known.map_or(self.clients[client as usize].id, |known| known.id)
    }

    /// Returns true if `opening`, as reported by a receiver, is the client's own and not one of a copy.
    pub fn was_there(&self, client: u32, receiver: &str, opening: Opening) -> bool {
        let known = self.known.get(&(client, receiver.to_owned()));
        opening == Opening::default()
            || self.clients[client as usize].openings.contains(&opening)
            || known.is_some_and(|known| known.opening == opening)
    }

    /// Returns true if this store may have assigned all numbers of a stream up to `seq`.
    pub fn may_have_given(&self, stream: u32, seq: u64) -> bool {
        self.outbox
            .get(stream)
            .is_none_or(|of| seq < of.next(self.clients[of.record.client as usize].opening().epoch))
    }

    /// The last opening of another client's store that one of ours has heard from.
    pub fn last_of(&self, client: u32, sender: Id) -> Opening {
        self.senders.get(&(client, sender)).copied().unwrap_or_default()
    }

    /// Records the progress of one of our clients on a stream from another.
    pub fn put_cursor(&mut self, cursor: records::CursorRecord) -> &mut records::CursorRecord {
        self.noted.remove(&(cursor.client, cursor.sender, cursor.stream));
        let last = self.senders.entry((cursor.client, cursor.sender)).or_default();
        if last.epoch <= cursor.opening.epoch {
            *last = cursor.opening;
        }
        self.cursors.entry((cursor.client, cursor.sender, cursor.stream)).insert_entry(cursor).into_mut()
    }
}
