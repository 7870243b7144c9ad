//! Peers that have received other messages under our numbers, from a copy of our store.
//!
//! Towards such a peer, our client takes a new id. Pending messages are sent under it, and none is taken for one that
//! the copy has sent.

use pinnace_engine::Outgoing;
use pinnace_stream::RangeSet;

use super::PeerLoop;
use crate::Error;
use crate::store::State;
use crate::wire::{FIRST_VERSION, Features, FromSender, Opening, Refusal, VERSION};

/// The frame by which a client introduces itself to a receiver, on each new connection.
pub fn hello(state: &State, client: u32, receiver: &str) -> Vec<u8> {
    hello_in(VERSION, state, client, receiver)
}

fn hello_in(version: u64, state: &State, client: u32, receiver: &str) -> Vec<u8> {
    let (own, id) = (&state.clients[client as usize], state.id_for(client, receiver));
    FromSender::Hello { version, name: &own.name, id, opening: own.opening(), receiver }.write()
}

impl PeerLoop {
    /// The peer does not speak our version: introduces the client again in the first one, at once and on the same
    /// connection. Returns false if that was done already.
    pub(super) fn says_hello_again(&mut self, index: usize) -> bool {
        let is_welcome = self.outward.lanes.is_connected(index);
        let Some(peer) = self.outward.peer(index).filter(|peer| !is_welcome && peer.again_at.is_none())
        else {
            return false;
        };
        if std::mem::replace(&mut peer.was_asked_again, true) {
            return false;
        }
        let hello = hello_in(FIRST_VERSION, &self.store.lock(), peer.client, &peer.name);
        peer.send(Outgoing::Bytes(&hello));
        true
    }

    /// Handles a Welcome: `known` is the last opening of our store that the peer has heard from.
    pub(super) fn was_welcomed(&mut self, index: usize, version: u64, known: Opening) {
        let Some(peer) = self.outward.peer(index) else { return };
        peer.features = Features::common_with(version);
        let was_there = self.store.lock().was_there(peer.client, &peer.name, known);
        match was_there {
            true => self.outward.welcome(&self.store, index),
            false => self.part(index),
        }
    }

    /// Handles a Cursor: the peer has a stream up to `received`, and `done` of it.
    pub(super) fn go_on(&mut self, index: usize, stream: u32, received: u64, done: RangeSet) {
        let may_have_given = self.store.lock().may_have_given(stream, received.max(done.last()));
        match may_have_given {
            true => {
                let handled = self.expiry.hold_back(stream, done.clone());
                // A failure of the log is reported elsewhere.
                let _ = self.store.mark_reported(&mut self.store.lock(), stream, &handled);
                self.outward.resume(&self.store, stream, received, done);
            }
            false => self.part(index),
        }
    }

    /// Takes a new id towards a peer. At most once per opening of the store, so that a lying peer cannot keep us busy.
    pub(super) fn part(&mut self, index: usize) {
        let Some(peer) = self.outward.peer(index) else { return };
        let (client, name) = (peer.client, peer.name.clone());
        if !peer.is_forked {
            let mut state = self.store.lock();
            let parted = self.store.part(&mut state, client, &name);
            let hello = hello(&state, client, &name);
            drop(state);
            let is_set = self.outward.peer(index).is_some_and(|peer| peer.link.set_hello(hello).is_ok());
            if parted.is_ok() && is_set {
                self.outward.part(index);
                return self.notify(client, &Error::Copied { peer: name });
            }
        }
        self.was_refused(index, &Refusal::OldEpoch.to_string());
    }
}
