//! Peers that have had other messages under our numbers, from a copy of our store.
//!
//! To such a peer, a client of ours is somebody else from there on: what waits is sent to it as somebody else's, and
//! nothing is taken for what the copy has sent.

use super::{Carrier, HELLO_MSG};
use crate::Error;
use crate::ranges::Done;
use crate::store::State;
use crate::wire::{FromSender, Opening, Refusal, VERSION};

/// How a client introduces itself to a receiver.
pub fn hello(state: &State, client: u32, receiver: &str) -> Vec<u8> {
    let (own, id) = (&state.clients[client as usize], state.id_for(client, receiver));
    FromSender::Hello { version: VERSION, name: &own.name, id, opening: own.opening(), receiver }.write()
}

impl Carrier {
    /// A peer takes our streams, and has heard of this client in an opening of its store.
    pub(super) fn was_welcomed(&mut self, index: usize, known: Opening) {
        let Some(peer) = self.outward.peer(index) else { return };
        let was_there = self.store.lock().was_there(peer.client, &peer.name, known);
        match was_there {
            true => self.outward.welcome(&self.store, index),
            false => self.part(index),
        }
    }

    /// A peer has a stream up to a number, and says what is done of it.
    pub(super) fn go_on(&mut self, index: usize, stream: u32, received: u64, done: Done) {
        let may_have_given = self.store.lock().may_have_given(stream, received.max(done.last()));
        match may_have_given {
            true => {
                self.settled(stream, &done);
                self.outward.resume(&self.store, stream, received, done);
            }
            false => self.part(index),
        }
    }

    /// To a peer, this client is somebody else from here on; once in an opening of the store, so that one that lies
    /// does not keep us busy.
    pub(super) fn part(&mut self, index: usize) {
        let Some(peer) = self.outward.peer(index) else { return };
        let (client, name, socket) = (peer.client, peer.name.clone(), peer.socket);
        if !peer.is_parted {
            let mut state = self.store.lock();
            let parted = self.store.part(&mut state, client, &name);
            let hello = hello(&state, client, &name);
            drop(state);
            if parted.is_ok() && socket.set_option(HELLO_MSG, &hello).is_ok() {
                self.outward.part(index);
                return self.notify(client, &Error::Copied { peer: name });
            }
        }
        self.was_refused(index, &Refusal::OldEpoch.to_string());
    }
}
