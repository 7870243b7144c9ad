//! Acknowledgements: alone, and together with something else that may fail.

use std::sync::MutexGuard;

use pinnace_stream::RangeSet;

use super::flow::TimeLimit;
use super::{Inbox, Message, Waiting};
use crate::environment::now;

impl Message {
    /// The numbers of its stream that are done with it.
    pub fn numbers(&self) -> RangeSet {
        let mut numbers = RangeSet::default();
        self.parts.as_slice().iter().for_each(|part| numbers.add(part.first, part.seq));
        numbers
    }
}

impl Waiting {
    /// Returns true if an acknowledgement of a message that was handed out counts: its time limit is not over, and it
    /// is not done.
    fn counts_still(&self, message: &Message) -> bool {
        let is_in_time = |limit: &TimeLimit| self.out.get(&limit.key).is_some_and(|out| out.until > now());
        let done = self.flows[message.parts.first().frame.origin.flow].acceptance.done();
        !self.is_void
            && message.limit.as_ref().is_none_or(is_in_time)
            && !done.contains(message.parts.last_seq())
    }
}

impl Inbox {
    /// Marks a message as handled.
    pub fn ack(&self, message: &Message) {
        self.ack_in(&mut self.lock(), message);
    }

    /// Marks a message as handled once `record` has recorded that, and more, in the store. `record` is called under the
    /// inbox's lock, and must not wait. None: the message is no longer this delivery's, and `record` was not called.
    pub fn ack_recorded<R, E>(
        &self,
        message: &Message,
        record: impl FnOnce() -> Result<R, E>,
    ) -> Option<Result<R, E>> {
        let mut state = self.lock();
        if !state.counts_still(message) {
            return None;
        }
        let recorded = record();
        if recorded.is_ok() {
            // The peer loop acknowledges it once the record is on the disk, also one that its sender has in memory.
            state.flows[message.parts.first().frame.origin.flow].to_note = true;
            self.ack_in(&mut state, message);
        }
        Some(recorded)
    }

    /// The client has ended, and settling has no effect from now on.
    pub fn make_void(&self) {
        self.lock().is_void = true;
    }

    fn ack_in(&self, state: &mut MutexGuard<'_, Waiting>, message: &Message) {
        let index = message.parts.first().frame.origin.flow;
        self.note_settled(state, message);
        state.take_back(message);
        state.counts.settle(message);
        state.credit(message);
        let flow = &mut state.flows[index];
        // If it is done already, the sender has dropped it, or another handler has finished it.
        if !flow.acceptance.done().contains(message.parts.last_seq()) {
            flow.counts.acknowledged += 1;
            message.parts.as_slice().iter().for_each(|part| flow.finish(part));
            state.note_progress(index);
        }
        self.tell_once(state);
    }
}
