//! Who the store's clients are to those that they send to.
//!
//! A store may be copied, or an old copy put in its place: what follows is another store's, and has the same numbers.
//! Each opening has a mark, and a receiver tells in which it last heard of a client. A client that does not know that
//! as its own is somebody else to this receiver from there on, and what waits for it is sent as such.

use super::records::{self, CLIENT, KNOWN};
use super::{State, Store};
use crate::log::{LogError, Urgency};
use crate::ranges::Done;
use crate::wire::{Id, Opening};

/// How many openings a client remembers, beside those in which a receiver was certainly heard. As many times in a row
/// it may be killed before it has put that down.
const OPENINGS: usize = 64;

impl Store {
    /// Makes the client of this name one of the store's, or finds it there, in a new epoch.
    pub fn claim(&self, name: &str, id: Id) -> Result<records::Client, LogError> {
        let mark = pinnace_sys::random::bytes().map_err(|error| LogError::Io(error.kind()))?;
        let mut state = self.lock();
        let found = state.clients.iter().position(|client| client.name == name);
        let number = found.unwrap_or(state.clients.len());
        if found.is_none() {
            let (number, name) = (number as u32, name.to_owned());
            state.clients.push(records::Client { number, name, id, openings: Vec::new() });
        }
        let client = &mut state.clients[number];
        let epoch = client.opening().epoch + 1;
        client.openings.push(Opening { epoch, mark: u64::from_le_bytes(mark) });
        let old = client.openings.len().saturating_sub(OPENINGS);
        client.openings.drain(..old);
        let client = client.clone();
        // Whoever starts may wait for a file as little as who receives.
        let batch = self.append(&mut state, Urgency::Note, CLIENT, &[&client.write()])?;
        drop(state);
        self.log.wait(batch, None)?;
        Ok(client)
    }

    /// The receiver of a stream says what it has handled for good.
    pub fn acknowledge(&self, state: &mut State, stream: u32, done: &Done) -> Result<(), LogError> {
        let is_logged = state.outbox.get(stream).is_some_and(|of| of.is_logged_upto(done.last()));
        // How far it is with what is in memory alone it does not put down.
        if self.settle(state, stream, done)? && is_logged {
            self.is_heard(state, stream)?;
        }
        Ok(())
    }

    /// The receiver of a stream has put down how far it is, in this opening.
    fn is_heard(&self, state: &mut State, stream: u32) -> Result<(), LogError> {
        let Some(record) = state.outbox.get(stream).map(|of| &of.record) else { return Ok(()) };
        let records::Receiver::Client(receiver) = &record.receiver else { return Ok(()) };
        let of = (record.client, receiver.clone());
        let (id, opening) = (state.id_for(of.0, &of.1), state.clients[of.0 as usize].opening());
        self.put_known(state, records::Known { client: of.0, receiver: of.1, id, opening })
    }

    /// A client is somebody else to a receiver from here on.
    pub fn part(&self, state: &mut State, client: u32, receiver: &str) -> Result<(), LogError> {
        let id = pinnace_sys::random::bytes().map_err(|error| LogError::Io(error.kind()))?;
        let receiver = receiver.to_owned();
        self.put_known(state, records::Known { client, receiver, id, opening: Opening::default() })
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
    /// As whom a receiver knows a client of this store.
    pub fn id_for(&self, client: u32, receiver: &str) -> Id {
        let known = self.known.get(&(client, receiver.to_owned()));
        known.map_or(self.clients[client as usize].id, |known| known.id)
    }

    /// Whether a client was there itself in an opening, of which a receiver tells, and not a copy of it.
    pub fn was_there(&self, client: u32, receiver: &str, opening: Opening) -> bool {
        let known = self.known.get(&(client, receiver.to_owned()));
        opening == Opening::default()
            || self.clients[client as usize].openings.contains(&opening)
            || known.is_some_and(|known| known.opening == opening)
    }

    /// Whether all numbers of a stream up to one may have been given.
    pub fn may_have_given(&self, stream: u32, seq: u64) -> bool {
        self.outbox
            .get(stream)
            .is_none_or(|of| seq < of.next(self.clients[of.record.client as usize].opening().epoch))
    }

    /// In which opening another client was last heard of by one of ours.
    pub fn last_of(&self, client: u32, sender: Id) -> Opening {
        self.senders.get(&(client, sender)).copied().unwrap_or_default()
    }

    /// One of ours is so far with a stream from another.
    pub fn put_cursor(&mut self, cursor: records::Cursor) -> &mut records::Cursor {
        let last = self.senders.entry((cursor.client, cursor.sender)).or_default();
        if last.epoch <= cursor.opening.epoch {
            *last = cursor.opening;
        }
        self.cursors.entry((cursor.client, cursor.sender, cursor.stream)).insert_entry(cursor).into_mut()
    }
}
