//! Messages that a client has sent and that are not acknowledged yet.

use std::time::Instant;

use pinnace_stream::RangeSet;

use super::Client;
use crate::Error;
use crate::peer_loop::Command;
use crate::store::records::{Receiver, StreamRecord};
use crate::store::{Cause, Stream};

/// Pending messages for one receiver and topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// None: for the first client that listens on the topic, or for each that will listen on it.
    pub receiver: Option<String>,
    pub topic: String,
    /// Whole messages.
    pub messages: u64,
    /// What they cost: the bytes of their bodies as stored, and 64 for each MiB that was begun. An estimate if a part
    /// of a file's messages is acknowledged and they differ in size.
    pub bytes: u64,
    /// When the oldest was accepted, in milliseconds since 1970; None: there is none. Too early by up to 0.1 s or a few
    /// thousandths of its age; after a restart, by the time in which a file of the store was filled.
    pub oldest_ms: Option<u64>,
}

impl Pending {
    pub(crate) fn of(stream: &Stream) -> Pending {
        let receiver = match &stream.record.receiver {
            Receiver::Anyone | Receiver::Later => None,
            Receiver::Client(name) => Some(name.clone()),
        };
        Pending {
            receiver,
            topic: stream.record.topic.clone(),
            messages: stream.pending(),
            bytes: stream.pending_cost(),
            oldest_ms: stream.oldest_pending_ms(),
        }
    }

    /// Adds another stream to the same receiver and topic.
    pub(super) fn add(&mut self, other: &Pending) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.oldest_ms = self.oldest_ms.into_iter().chain(other.oldest_ms).min();
    }
}

impl Client {
    /// How many messages are not acknowledged yet.
    pub fn pending(&self) -> u64 {
        self.instance.store.lock().pending(self.record.number)
    }

    /// The same by receiver and topic, including those with no pending messages.
    pub fn pending_by_peer(&self) -> Vec<Pending> {
        let state = self.instance.store.lock();
        let own = state.outbox.iter().filter(|stream| stream.record.client == self.record.number);
        own.map(Pending::of).collect()
    }

    /// Waits until [`pending`](Self::pending) is at most `most`. Errors: TimedOut, Closed.
    pub fn wait_pending(&self, most: u64, deadline: Option<Instant>) -> Result<(), Error> {
        self.check_open()?;
        self.wait_result(self.instance.store.wait_done(self.record.number, most, self.patience(deadline)))
    }

    /// For an agent: waits until the files that messages have needed are removed. A client that is started for a moment
    /// leaves no time for that.
    pub(crate) fn wait_until_trimmed(&self, deadline: Option<Instant>) -> Result<(), Error> {
        Ok(self.instance.store.log().wait_until_trimmed(self.patience(deadline))?)
    }

    /// Drops the pending messages of a topic, for all receivers: they are not sent any more. Messages sent already may
    /// still be handled. Returns how many messages were dropped.
    pub fn clear_pending(&self, topic: &str) -> Result<u64, Error> {
        Ok(self.clear(topic, |_| true)?.0)
    }

    /// As [`clear_pending`](Self::clear_pending), for one receiver alone if one is given, and waits until this is on
    /// the disk: after a crash the messages do not come back. Errors: TimedOut, Failed, Closed.
    pub fn clear_pending_for(
        &self,
        topic: &str,
        receiver: Option<&str>,
        deadline: Option<Instant>,
    ) -> Result<u64, Error> {
        let is_wanted = |of: &Receiver| match (receiver, of) {
            (None, _) => true,
            (Some(wanted), Receiver::Client(name)) => wanted == name,
            (Some(_), Receiver::Anyone | Receiver::Later) => false,
        };
        let (cleared, batch) = self.clear(topic, is_wanted)?;
        self.instance.store.log().wait(batch, deadline)?;
        Ok(cleared)
    }

    /// Returns also the batch of the log that records it.
    fn clear(&self, topic: &str, is_wanted: impl Fn(&Receiver) -> bool) -> Result<(u64, u64), Error> {
        self.check_open()?;
        let (store, mut cleared) = (&self.instance.store, Vec::new());
        let mut state = store.lock();
        let is_wanted = |record: &StreamRecord| {
            record.client == self.record.number
                && record.topic == topic
                && is_wanted(&record.receiver)
                && record.last > record.done.all_upto()
        };
        let own = state.outbox.iter().filter(|stream| is_wanted(&stream.record));
        let own = own.map(|stream| (&stream.record, stream.pending()));
        let streams: Vec<(u32, u64, u64)> =
            own.map(|(record, pending)| (record.number, record.last, pending)).collect();
        let mut batch = 0;
        for (stream, last, pending) in streams {
            let mut done = RangeSet::default();
            done.add_upto(last);
            store.mark_done(&mut state, stream, &done, Cause::Cleared)?;
            batch = state.outbox.get(stream).map_or(batch, |stream| stream.done_in.max(batch));
            cleared.push((stream, pending));
        }
        drop(state);
        for (stream, _) in &cleared {
            self.instance.peer_loop.tell(Command::Gone(*stream));
        }
        Ok((cleared.iter().map(|(_, pending)| pending).sum(), batch))
    }
}
