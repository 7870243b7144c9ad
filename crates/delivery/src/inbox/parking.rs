//! A topic that is not handled does not starve the others of its sender.
//!
//! The streams of a sender share the credit of its connection. If waiting messages use all of it, and the inbox gives
//! none back for a while, the inbox parks the stream with the most waiting bytes: it drops these messages except the
//! first `KEEP` bytes, and gives their credit back. Their sender still has them. When the kept ones are handled, the
//! inbox requests the others again.

use super::Inbox;
use super::flow::Flow;
use crate::store::Incoming;
use crate::wire::{BEGINS, ENDS, Id};

/// The least waiting bytes of a stream that is parked, and the bytes of it that are kept, both as credit.
const PARK_FROM: u64 = 1 << 20;
const KEEP: u64 = 64 << 10;

impl Flow {
    /// The credit that waiting messages cost.
    pub(super) fn waiting_cost(&self) -> u64 {
        // The credit of parts was returned on arrival.
        self.queue.iter().filter(|part| part.has(BEGINS | ENDS)).map(super::Arrived::cost).sum()
    }

    /// The credit that is to be returned for waiting messages, and to which sender.
    #[cfg(test)]
    pub fn owed_credit(&self) -> impl Iterator<Item = (Id, u64)> {
        let queued = self.queue.iter().filter(|part| part.has(BEGINS | ENDS));
        let queued = queued.map(|part| (part.frame.origin.of.1, part.cost()));
        queued.chain(self.again.iter().filter_map(super::Message::owed_credit))
    }

    /// Drops what waits beyond `KEEP`. Returns the credit that this frees.
    fn park(&mut self) -> u64 {
        let (mut kept, mut cut) = (0, self.queue.len());
        for (at, part) in self.queue.iter().enumerate() {
            if kept > KEEP && part.has(BEGINS) {
                cut = at;
                break;
            }
            kept += part.cost();
        }
        let Some(last) = cut.checked_sub(1).filter(|_| cut < self.queue.len()).map(|at| self.queue[at].seq)
        else {
            return 0;
        };
        let before = self.waiting_cost();
        let counts = &mut self.counts;
        self.queue.drain(cut..).for_each(|part| counts.dequeue(&part));
        self.acceptance.rewind(last);
        self.is_parked = true;
        before - self.waiting_cost()
    }

    /// Where the sender is to go on with a parked stream. None: it is not parked, or some of it waits still.
    pub(super) fn unpark(&mut self) -> Option<(Incoming, u64)> {
        let is_due = self.is_parked && self.queue.is_empty();
        self.is_parked &= !is_due;
        is_due.then(|| (self.origin.of, self.acceptance.received()))
    }
}

impl Inbox {
    /// Parks the stream of a sender of which most waits.
    pub fn park(&self, sender: Id) {
        let mut state = self.lock();
        let may_park = |flow: &&mut Flow| {
            flow.origin.of.1 == sender && flow.shared.is_none() && flow.skipping.is_none() && !flow.is_parked
        };
        let flows = state.flows.iter_mut().filter(may_park).map(|flow| (flow.waiting_cost(), flow));
        let largest = flows.max_by_key(|(cost, _)| *cost).filter(|(cost, _)| *cost >= PARK_FROM);
        let Some(freed) = largest.map(|(_, flow)| flow.park()) else { return };
        state.news.pay_back(sender, freed);
        self.tell_once(&mut state);
    }
}
