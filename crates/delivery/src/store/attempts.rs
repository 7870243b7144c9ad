//! How often messages were handed out, over the processes of a client, and whether the last of them ended in order.
//!
//! ```text
//! attempts = client clean count *(sender stream number deliveries) ; kind 11
//! ```
//!
//! Each record changes the counts that it names. A count goes when the cursor of its stream says that the message is
//! done. A CLIENT record, which is the start of a process, makes `clean` 0.

use std::collections::VecDeque;

use super::records::ATTEMPTS;
use super::{Incoming, State, Store};
use crate::log::{LogError, Urgency};
use crate::wire::{Bytes, put_number};

/// The most counts of a client; the oldest are dropped.
const MOST_COUNTS: usize = 1024;

/// How often a message was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub of: Incoming,
    /// The number of its last part.
    pub last: u64,
    pub deliveries: u32,
}

/// What is known of a client's earlier processes.
#[derive(Debug, Default)]
pub struct DeliveryCounts {
    /// The last process ended in order; false while one runs.
    is_clean: bool,
    /// The process before the present one ended in order.
    was_clean: bool,
    /// The present process receives messages; the end of another one says nothing of handlers.
    receives: bool,
    counts: VecDeque<Attempt>,
}

impl DeliveryCounts {
    fn put(&mut self, attempt: Attempt) {
        self.counts.retain(|other| (other.of, other.last) != (attempt.of, attempt.last));
        self.counts.push_back(attempt);
        let old = self.counts.len().saturating_sub(MOST_COUNTS);
        self.counts.drain(..old);
    }
}

fn write<'a>(client: u32, is_clean: bool, counts: impl ExactSizeIterator<Item = &'a Attempt>) -> Vec<u8> {
    let mut to = Vec::new();
    put_number(&mut to, u64::from(client));
    to.push(u8::from(is_clean));
    put_number(&mut to, counts.len() as u64);
    for Attempt { of: (_, sender, stream), last, deliveries } in counts {
        to.extend_from_slice(sender);
        for value in [*stream, *last, u64::from(*deliveries)] {
            put_number(&mut to, value);
        }
    }
    to
}

fn read(payload: &[u8]) -> Option<(u32, bool, Vec<Attempt>)> {
    let mut from = Bytes::new(payload);
    let (client, is_clean) = (u32::try_from(from.number()?).ok()?, from.byte()? != 0);
    let count = from.number()?;
    let mut attempt = || {
        let of = (client, from.array()?, from.number()?);
        Some(Attempt { of, last: from.number()?, deliveries: u32::try_from(from.number()?).ok()? })
    };
    let counts = (0..count).map(|_| attempt()).collect::<Option<_>>()?;
    Some((client, is_clean, counts))
}

impl Store {
    /// Records how often a message was handed out. Returns the batch. Also if this fails, the count is in later
    /// checkpoints.
    pub fn count_attempt(
        &self,
        state: &mut State,
        urgency: Urgency,
        attempt: Attempt,
    ) -> Result<u64, LogError> {
        let client = attempt.of.0;
        state.attempts.entry(client).or_default().put(attempt);
        self.append(state, urgency, ATTEMPTS, &[&write(client, false, [attempt].iter())])
    }

    /// The client ends in order.
    pub fn record_end(&self, client: u32) -> Result<(), LogError> {
        let mut state = self.lock();
        let of = state.attempts.entry(client).or_default();
        of.is_clean = of.receives || of.was_clean;
        let record = write(client, of.is_clean, of.counts.iter());
        self.append(&mut state, Urgency::Control, ATTEMPTS, &[&record]).map(drop)
    }

    /// This process of a client receives messages. Returns whether the one before ended in order, and the counts.
    pub fn begin_receiving(&self, client: u32) -> (bool, Vec<Attempt>) {
        let mut state = self.lock();
        let of = state.attempts.entry(client).or_default();
        of.receives = true;
        (of.was_clean, of.counts.iter().copied().collect())
    }
}

impl State {
    /// A process begins. `is_new`: the client had none before.
    pub(super) fn begin_attempts(&mut self, client: u32, is_new: bool) {
        let of = self.attempts.entry(client).or_default();
        (of.was_clean, of.is_clean, of.receives) = (of.is_clean || is_new, false, false);
    }

    /// A record of a start was found.
    pub(super) fn find_start(&mut self, client: u32) {
        self.attempts.entry(client).or_default().is_clean = false;
    }

    pub(super) fn find_attempts(&mut self, payload: &[u8]) -> Option<()> {
        let (client, is_clean, counts) = read(payload)?;
        let is_done =
            |of: &Attempt| self.cursors.get(&of.of).is_some_and(|cursor| cursor.done.contains(of.last));
        let counts: Vec<Attempt> = counts.into_iter().filter(|of| !is_done(of)).collect();
        let of = self.attempts.entry(client).or_default();
        of.is_clean = is_clean;
        counts.into_iter().for_each(|count| of.put(count));
        Some(())
    }

    /// Drops the counts of messages that are done according to the cursor of their stream.
    pub(super) fn forget_attempts(&mut self, stream: &Incoming) {
        let of = self.attempts.get_mut(&stream.0).filter(|of| !of.counts.is_empty());
        if let Some((of, cursor)) = of.zip(self.cursors.get(stream)) {
            of.counts.retain(|count| count.of != *stream || !cursor.done.contains(count.last));
        }
    }

    pub(super) fn write_attempts(&self) -> impl Iterator<Item = Vec<u8>> {
        let known = self.attempts.iter().filter(|(_, of)| of.is_clean || !of.counts.is_empty());
        known.map(|(client, of)| write(*client, of.is_clean, of.counts.iter()))
    }
}

#[cfg(test)]
mod tests {
    use pinnace_stream::RangeSet;

    use super::*;
    use crate::store::records::CursorRecord;
    use crate::wire::Opening;

    fn attempt(last: u64, deliveries: u32) -> Attempt {
        Attempt { of: (300, [7; 16], 5), last, deliveries }
    }

    #[test]
    fn counts_are_read_as_they_were_written() {
        let mut state = State::default();
        let record = write(300, true, [attempt(1, 2), attempt(1 << 40, 3)].iter());
        for end in 0..record.len() {
            assert_eq!(state.find_attempts(&record[..end]), None);
        }
        state.find_attempts(&record).unwrap();
        state.find_attempts(&write(300, true, [attempt(1, 4)].iter())).unwrap();
        let counts: Vec<Attempt> = state.attempts[&300].counts.iter().copied().collect();
        assert_eq!(counts, [attempt(1 << 40, 3), attempt(1, 4)]);
        state.put_cursor(CursorRecord {
            client: 300,
            sender: [7; 16],
            stream: 5,
            opening: Opening::default(),
            name: "two".to_owned(),
            topic: "news".to_owned(),
            done: RangeSet::new(1, Vec::new()).unwrap(),
        });
        state.forget_attempts(&(300, [7; 16], 5));
        assert_eq!(state.attempts[&300].counts, [attempt(1 << 40, 3)]);
        state.begin_attempts(300, false);
        assert!(state.attempts[&300].was_clean && !state.attempts[&300].is_clean);
        for last in 0..2000 {
            state.attempts.get_mut(&300).unwrap().put(attempt(last, 1));
        }
        let counts = &state.attempts[&300].counts;
        assert_eq!((counts.len(), counts[0]), (MOST_COUNTS, attempt(2000 - MOST_COUNTS as u64, 1)));
    }
}
