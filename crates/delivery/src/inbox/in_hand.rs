//! The messages that were handed out and are not settled yet; waits for them, for handlers, and for the disk.

use std::sync::MutexGuard;
use std::thread::{self, ThreadId};

use super::waiting::Recording;
use super::{Inbox, Message, Patience, Waiting};

/// Messages in hand.
#[derive(Default)]
pub struct InHand {
    count: usize,
    /// Those that handlers have, by thread.
    handled: Vec<(ThreadId, usize)>,
    /// Messages of handlers that are blocked in `wait_settled` themselves.
    waiting: usize,
}

impl InHand {
    pub fn add(&mut self, handler: Option<ThreadId>) {
        self.count += 1;
        handler.into_iter().for_each(|thread| self.begin(thread));
    }

    fn begin(&mut self, thread: ThreadId) {
        match self.handled.iter_mut().find(|(other, _)| *other == thread) {
            Some((_, count)) => *count += 1,
            None => self.handled.push((thread, 1)),
        }
    }

    fn end(&mut self, thread: ThreadId) {
        self.handled.iter_mut().filter(|(other, _)| *other == thread).for_each(|(_, count)| *count -= 1);
        self.handled.retain(|(_, count)| *count > 0);
    }

    fn handled_by(&self, thread: ThreadId) -> usize {
        self.handled.iter().find(|(other, _)| *other == thread).map_or(0, |(_, count)| *count)
    }
}

impl Inbox {
    /// How many messages were handed out and are not settled.
    pub fn in_hand(&self) -> usize {
        self.lock().in_hand.count
    }

    /// Returns true if the handler that runs on `thread` has an unsettled message.
    pub fn is_thread_handling(&self, thread: ThreadId) -> bool {
        self.lock().in_hand.handled_by(thread) > 0
    }

    /// A message is settled.
    pub(super) fn note_settled(&self, state: &mut MutexGuard<'_, Waiting>, message: &Message) {
        state.in_hand.count -= 1;
        state.counts_of(message).in_hand -= 1;
        message.handler.into_iter().for_each(|thread| state.in_hand.end(thread));
        self.settled.tell();
    }

    /// Takes a message back that no handler has seen: this delivery does not count, and the message keeps its place.
    pub fn give_back(&self, message: Message) {
        let mut state = self.lock();
        self.note_settled(&mut state, &message);
        // Its time limit may have ended: then it has failed already.
        if state.take_back(&message) {
            let index = message.parts.first().frame.origin.flow;
            state.flows[index].counts.give_back(&message);
            let before = super::Message { deliveries: message.deliveries - 1, ..message.clone() };
            state.flows[index].give_back(message);
            self.take_back_count(&mut state, &before);
            state.list(index);
            self.tell_arrived(state);
        }
    }

    /// Changes the thread whose handler has a message; None: no handler has it.
    pub fn set_handler(&self, message: &mut Message, handler: Option<ThreadId>) {
        let mut state = self.lock();
        handler.into_iter().for_each(|thread| state.in_hand.begin(thread));
        let before = std::mem::replace(&mut message.handler, handler);
        before.into_iter().for_each(|thread| state.in_hand.end(thread));
        self.settled.tell();
    }

    /// Waits until all messages in hand are settled, except those of a handler that calls this, and of other handlers
    /// that wait here: they would wait for each other. Returns false if the patience has ended first.
    pub fn wait_settled(&self, patience: Patience<'_>) -> bool {
        let (mut state, thread) = (self.lock(), thread::current().id());
        let own = state.in_hand.handled_by(thread);
        state.in_hand.waiting += own;
        self.settled.tell();
        let settled = loop {
            if state.in_hand.count <= state.in_hand.waiting {
                break true;
            }
            match self.settled.wait(state, patience) {
                Some(again) => state = again,
                None => {
                    state = self.lock();
                    break state.in_hand.count <= state.in_hand.waiting;
                }
            }
        };
        state.in_hand.waiting -= own;
        settled
    }

    /// Called by the peer loop when everything that it took with `take_news` is on the disk.
    pub fn progress_recorded(&self) {
        let mut state = self.lock();
        if state.news.is_done_empty() && state.recording == Recording::UnderWay {
            state.recording = Recording::Complete;
            self.settled.tell();
        }
    }

    /// The store has failed: no more progress reaches the disk.
    pub fn recording_failed(&self) {
        self.lock().recording = Recording::Failed;
        self.attempt_recorded();
        self.settled.tell();
    }

    /// Waits until all that the application has settled is on the disk. Returns false if the patience has ended first,
    /// or the store has failed.
    pub fn wait_recorded(&self, patience: Patience<'_>) -> bool {
        let mut state = self.lock();
        while state.recording == Recording::UnderWay {
            match self.settled.wait(state, patience) {
                Some(again) => state = again,
                None => return false,
            }
        }
        state.recording == Recording::Complete
    }

    /// Waits until no handler has a message, except one that calls this. Returns false if the patience has ended first.
    pub fn wait_handlers(&self, patience: Patience<'_>) -> bool {
        let (mut state, thread) = (self.lock(), thread::current().id());
        while state.in_hand.handled.iter().any(|(other, _)| *other != thread) {
            match self.settled.wait(state, patience) {
                Some(again) => state = again,
                None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use pinnace_stream::RangeSet;

    use super::*;
    use crate::inbox::StreamStart;
    use crate::inbox::retry::Retry;

    #[test]
    fn the_streams_of_senders_are_no_progress_of_the_application() {
        let (first, most) = (Duration::from_secs(1), Duration::from_secs(60));
        let retry = Retry { first, most, deliveries: None, within: None, skips: false };
        let inbox = Inbox::new(retry, 1000, Box::new(|| {}));
        let (of, from, topic) = ((0, [1; 16], 1), "sender".to_owned(), "topic".to_owned());
        let start = StreamStart { of, from, topic, noted: RangeSet::default(), is_restarted: false };
        let mut gone = RangeSet::default();
        let (origin, ..) = inbox.open(&start, &gone);
        assert!(inbox.wait_recorded(Some(Instant::now()).into()), "a stream was opened");
        gone.add(1, 3);
        inbox.mark_gone(&origin, &gone);
        assert!(inbox.wait_recorded(Some(Instant::now()).into()), "the sender has dropped messages");
    }
}
