//! What the inbox tells the peer loop.

use pinnace_stream::RangeSet;

use super::{GivenUp, Want};
use crate::store::{Attempt, Incoming};
use crate::wire::Id;

/// Work for the peer loop.
#[derive(Default)]
pub struct InboxNews {
    /// Streams with more done: what is new, with all up to the first number that is not done; and whether it must be
    /// logged.
    pub done: Vec<(Incoming, RangeSet, bool)>,
    /// Flows to add to `done`.
    pub(super) dirty: Vec<usize>,
    /// Credit to return, by sender.
    pub taken: Vec<(Id, u64)>,
    /// Given-up messages, by stream and the number of their last part.
    pub given_up: Vec<(Incoming, u64, GivenUp)>,
    /// How many messages are asked for, by shared stream.
    pub wants: Vec<Want>,
    /// Streams that were parked, and the number after which the sender is to go on.
    pub resumed: Vec<(Incoming, u64)>,
    /// The message that was set aside until this count is on the disk.
    pub attempt: Option<Attempt>,
    /// Counts to be recorded, of messages that no handler has any more.
    pub counted: Vec<Attempt>,
    /// Flows to add to `wants`.
    pub(super) asking: Vec<usize>,
}

impl InboxNews {
    pub(super) fn is_done_empty(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Returns credit to a sender.
    pub fn pay_back(&mut self, sender: Id, cost: u64) {
        match self.taken.iter_mut().rev().find(|(other, _)| *other == sender) {
            Some((_, taken)) => *taken += cost,
            None => self.taken.push((sender, cost)),
        }
    }
}
