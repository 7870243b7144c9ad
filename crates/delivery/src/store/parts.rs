//! Messages of several parts: while one is being sent, no other message may be appended to its streams.

use std::sync::MutexGuard;

use pinnace_stream::RangeSet;

use super::{Cause, State, Store};
use crate::log::LogError;
use crate::signal::Patience;

impl Store {
    /// Waits until none of these streams is in the middle of a message. None: the time is over.
    pub fn wait_for_end<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        streams: &[u32],
        patience: Patience<'_>,
    ) -> Option<MutexGuard<'a, State>> {
        while state.is_in_parts(streams) {
            state = self.progressed.wait(state, patience)?;
        }
        Some(state)
    }

    /// Begins a multi-part message in these streams.
    pub fn begin_parts(&self, state: &mut State, streams: &[u32]) {
        state.in_parts.extend(streams);
    }

    /// Ends a multi-part message. `left`: how many accepted parts to discard, because the remaining ones will never
    /// follow.
    pub fn end_parts(&self, state: &mut State, streams: &[u32], left: u64) -> Result<(), LogError> {
        state.in_parts.retain(|stream| !streams.contains(stream));
        self.progressed.tell();
        for stream in streams.iter().filter(|_| left > 0) {
            let last = state.outbox.get(*stream).map_or(0, |stream| stream.record.last);
            let mut done = RangeSet::default();
            done.add((last + 1).saturating_sub(left), last);
            self.mark_done(state, *stream, &done, Cause::Cleared)?;
        }
        Ok(())
    }

    /// Waits until something that a caller may wait for has changed. None: the time is over.
    pub fn wait_for_progress<'a>(
        &self,
        state: MutexGuard<'a, State>,
        patience: Patience<'_>,
    ) -> Option<MutexGuard<'a, State>> {
        self.progressed.wait(state, patience)
    }
}
