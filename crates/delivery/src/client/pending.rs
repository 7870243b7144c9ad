//! Messages that a client has sent and that are not acknowledged yet.

use std::time::Instant;

use pinnace_stream::RangeSet;

use super::Client;
use crate::Error;
use crate::peer_loop::Command;
use crate::store::Stream;
use crate::store::records::{Receiver, StreamRecord};

/// Pending messages for one receiver and topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// None: for the first client that listens on the topic, or for each that will listen on it.
    pub receiver: Option<String>,
    pub topic: String,
    /// Messages, and parts of messages.
    pub messages: u64,
}

impl Pending {
    pub(crate) fn of(stream: &Stream) -> Pending {
        let receiver = match &stream.record.receiver {
            Receiver::Anyone | Receiver::Later => None,
            Receiver::Client(name) => Some(name.clone()),
        };
        Pending { receiver, topic: stream.record.topic.clone(), messages: stream.pending() }
    }
}

impl Client {
    /// How many messages and parts are not acknowledged yet.
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

    /// Drops the pending messages of a topic, for all receivers: they are not sent any more. Messages sent already may
    /// still be handled. Returns how many messages and parts were dropped.
    pub fn clear_pending(&self, topic: &str) -> Result<u64, Error> {
        self.check_open()?;
        let (store, mut cleared) = (&self.instance.store, Vec::new());
        let mut state = store.lock();
        let has_any = |record: &StreamRecord| record.last > record.done.all_upto();
        let own = state.outbox.iter().filter(|stream| has_any(&stream.record));
        let own = own.map(|stream| (&stream.record, stream.pending()));
        let own = own.filter(|(record, _)| record.client == self.record.number && record.topic == topic);
        let streams: Vec<(u32, u64, u64)> =
            own.map(|(record, pending)| (record.number, record.last, pending)).collect();
        for (stream, last, pending) in streams {
            let mut done = RangeSet::default();
            done.add_upto(last);
            store.mark_done(&mut state, stream, &done)?;
            cleared.push((stream, pending));
        }
        drop(state);
        for (stream, _) in &cleared {
            self.instance.peer_loop.tell(Command::Gone(*stream));
        }
        Ok(cleared.iter().map(|(_, pending)| pending).sum())
    }
}
