//! Telling the receivers of a shared stream which numbers are done.

use pinnace_engine::Outgoing;
use pinnace_stream::RangeSet;

use super::Outward;
use crate::environment::now;
use crate::store::Store;
use crate::wire::FromSender;

/// The sender tells a receiver which numbers are done if the receiver's set has more ranges than this, and more than
/// twice those of the sender's set; or if the receiver lacks at least `MANY_NUMBERS`.
const MANY_RANGES: usize = 8;
const MANY_NUMBERS: u64 = 64;

impl Outward {
    /// Numbers of a stream are done. `by`: the receiver that has reported them, and the numbers that it knows.
    pub fn finished(&mut self, store: &Store, stream: u32, by: Option<(usize, &RangeSet)>) {
        let Some(shared) = self.shared.get_mut(&stream) else { return };
        let (done, recorded_in) = recorded_done(store, stream);
        shared.dispatch.finish(&done);
        if shared.dispatch.waits_in_vain(now()) {
            self.to_offer.insert(stream);
        }
        match by {
            None => shared.to_tell.extend(shared.dispatch.connected()),
            Some((peer, known)) => {
                let (ranges, needed) = (known.later().len(), done.later().len());
                let lacks = done.all_upto().saturating_sub(known.all_upto());
                if (ranges > MANY_RANGES && ranges > 2 * needed) || lacks >= MANY_NUMBERS {
                    shared.to_tell.insert(peer);
                }
            }
        }
        if !shared.to_tell.is_empty() && shared.to_record.is_none() {
            shared.to_record = Some((recorded_in, done));
        }
    }

    /// Tells receivers what is done once the disk has the record of it.
    pub(in crate::peer_loop::outward) fn tell_shared(&mut self, store: &Store) {
        for (stream, shared) in &mut self.shared {
            let Some((batch, _)) = &shared.to_record else { continue };
            if !is_on_disk(store, *batch) {
                continue;
            }
            let Some((_, done)) = shared.to_record.take() else { continue };
            let gone = FromSender::Gone { stream: u64::from(*stream), gone: done.clone() }.write();
            shared.recorded = done;
            for peer in std::mem::take(&mut shared.to_tell) {
                if let Some(Some(peer)) = self.peers.get_mut(peer) {
                    peer.send(Outgoing::Bytes(&gone));
                }
            }
        }
    }
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
