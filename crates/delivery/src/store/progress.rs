//! Marks messages of an outgoing stream as done, and records that in the log.

use pinnace_stream::RangeSet;

use super::records::{DONE, STREAM, StreamRecord, write_done};
use super::{Cause, State, Store};
use crate::log::{LogError, Urgency};
use crate::wire::split;

impl Store {
    /// Marks messages of an outgoing stream as done, of which the receiver is told once this is on the disk
    /// ([`Stream::done_in`]). False: `done` is invalid, or not new.
    pub fn mark_done(
        &self,
        state: &mut State,
        stream: u32,
        done: &RangeSet,
        cause: Cause,
    ) -> Result<bool, LogError> {
        let batch = self.finish(state, stream, done, cause)?;
        if let Some(batch) = batch.filter(|batch| *batch > 0) {
            state.outbox.set_done_in(stream, batch);
        }
        Ok(batch.is_some())
    }

    /// Marks messages as done that the receiver has reported as done. False: `done` is invalid, or not new.
    pub fn mark_reported(&self, state: &mut State, stream: u32, done: &RangeSet) -> Result<bool, LogError> {
        Ok(self.finish(state, stream, done, Cause::Acknowledged)?.is_some())
    }

    /// Returns the batch that records it; 0: it concerns no message of the log. None: `done` is invalid, or not new.
    fn finish(
        &self,
        state: &mut State,
        stream: u32,
        done: &RangeSet,
        cause: Cause,
    ) -> Result<Option<u64>, LogError> {
        let Some(of) = state.outbox.get(stream) else { return Ok(None) };
        let epoch = state.clients[of.record.client as usize].opening().epoch;
        let is_logged = of.is_logged_upto(done.last());
        if !state.outbox.mark_done(stream, epoch, done, cause) {
            return Ok(None);
        }
        self.progressed.tell();
        if !is_logged {
            return Ok(Some(0));
        }
        let (done, mut batch) = (state.outbox.unrecorded(stream), 0);
        for part in split(&done) {
            batch = self.append(state, Urgency::Control, DONE, &[&write_done(stream, &part)])?;
        }
        state.outbox.set_recorded_in(stream, batch, &done);
        Ok(Some(batch))
    }

    /// Appends a stream's record, and DONE records if it needs some. Returns the batch of the last one.
    pub(super) fn append_stream(
        &self,
        state: &mut State,
        urgency: Urgency,
        record: &StreamRecord,
    ) -> Result<u64, LogError> {
        let (record, further) = record.write_all();
        let mut batch = self.append(state, urgency, STREAM, &[&record])?;
        for done in further {
            batch = self.append(state, urgency, DONE, &[&done])?;
        }
        Ok(batch)
    }
}
