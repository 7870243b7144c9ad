//! Telling the receivers of a shared stream which numbers are done.

use std::collections::BTreeSet;

use pinnace_stream::RangeSet;

use super::{Outward, SharedStream};
use crate::environment::now;
use crate::store::Store;
use crate::wire::FromSender;

/// The sender tells a receiver which numbers are done if the receiver's set has more ranges than this, and more than
/// twice those of the sender's set; or if the receiver lacks at least `MANY_NUMBERS`.
const MANY_RANGES: usize = 8;
const MANY_NUMBERS: u64 = 64;

/// A `Gone` frame that waits: the batch that records its numbers, the numbers, and the peers that get it.
pub struct Telling {
    batch: u64,
    done: RangeSet,
    pub(super) peers: BTreeSet<usize>,
}

impl Outward {
    /// Numbers of a stream are done. `by`: the receiver that has reported them, and these numbers.
    pub fn finished(&mut self, store: &Store, stream: u32, by: Option<(usize, &RangeSet)>) {
        let Some(shared) = self.shared.get_mut(&stream) else { return };
        match by {
            None => {
                shared.dispatch.finish(&recorded_done(store, stream).0);
                shared.to_tell.extend(shared.dispatch.connected());
            }
            Some((peer, reported)) => {
                shared.dispatch.finish(reported);
                if let Some(known) = shared.known.get_mut(&peer) {
                    known.add_all(reported, u64::MAX);
                    if lacks_much(store, stream, known) {
                        shared.to_tell.insert(peer);
                    }
                }
            }
        }
        if shared.dispatch.waits_in_vain(now()) {
            self.to_offer.insert(stream);
        }
        if shared.telling.is_none() && !shared.to_tell.is_empty() {
            let (done, recorded_in) = recorded_done(store, stream);
            shared.tell_when_recorded(recorded_in, done);
        }
        if shared.telling.is_some() {
            self.watched.insert(stream);
        }
    }

    /// Tells receivers what is done once the disk has the record of it.
    pub(in crate::peer_loop::outward) fn tell_shared(&mut self, store: &Store) {
        for stream in &self.watched {
            let Some(shared) = self.shared.get_mut(stream) else { continue };
            let number = u64::from(*stream);
            while let Some(Telling { done, peers, .. }) =
                shared.telling.take_if(|telling| is_on_disk(store, telling.batch))
            {
                for peer in peers {
                    if let Some(Some(peer)) = self.peers.get_mut(peer) {
                        peer.send_gone(number, &done, |gone| FromSender::Gone { stream: number, gone });
                    }
                    if let Some(known) = shared.known.get_mut(&peer) {
                        known.add_all(&done, u64::MAX);
                    }
                }
                shared.dispatch.finish(&done);
                shared.recorded = done;
                if !shared.to_tell.is_empty() {
                    let (done, batch) = recorded_done(store, *stream);
                    shared.tell_when_recorded(batch, done);
                }
            }
        }
    }
}

impl SharedStream {
    /// Prepares a `Gone` frame for the peers of `to_tell`, unless one waits already. It is sent once `batch`, which
    /// records `done`, is on the disk.
    pub(super) fn tell_when_recorded(&mut self, batch: u64, done: RangeSet) {
        if self.telling.is_none() && !self.to_tell.is_empty() {
            let peers = std::mem::take(&mut self.to_tell);
            self.telling = Some(Telling { batch, done, peers });
        }
    }
}

/// Returns true if a receiver that knows these numbers as done is to be told of others.
fn lacks_much(store: &Store, stream: u32, known: &RangeSet) -> bool {
    let state = store.lock();
    let Some(done) = state.outbox.get(stream).map(|of| &of.record.done) else { return false };
    let (ranges, needed) = (known.later().len(), done.later().len());
    let lacks = done.all_upto().saturating_sub(known.all_upto());
    (ranges > MANY_RANGES && ranges > 2 * needed) || lacks >= MANY_NUMBERS
}

/// What is done of a stream, and the batch that records it.
pub(super) fn recorded_done(store: &Store, stream: u32) -> (RangeSet, u64) {
    let state = store.lock();
    state.outbox.get(stream).map(|of| (of.record.done.clone(), of.recorded_in)).unwrap_or_default()
}

/// Returns true if a batch of the log is on the disk; 0: there is none.
pub(super) fn is_on_disk(store: &Store, batch: u64) -> bool {
    batch == 0 || store.log().progress().is_ok_and(|(_, durable)| batch <= durable)
}
