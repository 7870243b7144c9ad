//! What a client has sent and nobody has yet said to have.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Client;
use crate::Error;
use crate::carrier::Command;
use crate::ranges::Done;
use crate::store::Stream;
use crate::store::records::Receiver;

/// What waits for one receiver on one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// None: for whoever comes first.
    pub receiver: Option<String>,
    pub topic: String,
    /// Messages, and parts of such.
    pub messages: u64,
}

impl Pending {
    pub(crate) fn of(stream: &Stream) -> Pending {
        let receiver = match &stream.record.receiver {
            Receiver::Anyone => None,
            Receiver::Client(name) => Some(name.clone()),
        };
        Pending { receiver, topic: stream.record.topic.clone(), messages: stream.pending() }
    }
}

impl Client {
    /// How many messages, and parts of such, nobody has yet said to have.
    pub fn pending(&self) -> u64 {
        self.depot.store.lock().pending(self.record.number)
    }

    /// The same by receiver and topic, those with none among them.
    pub fn pending_by_peer(&self) -> Vec<Pending> {
        let state = self.depot.store.lock();
        let own = state.outbox.iter().filter(|stream| stream.record.client == self.record.number);
        own.map(Pending::of).collect()
    }

    /// Waits until [`pending`](Self::pending) says `most` or less. Errors: TimedOut, Closed.
    pub fn wait_pending(&self, most: u64, deadline: Option<Instant>) -> Result<(), Error> {
        match self.depot.store.wait_settled(self.record.number, most, self.patience(deadline)) {
            true => Ok(()),
            false if self.closed.load(Ordering::Relaxed) => Err(Error::Closed),
            false => Err(Error::TimedOut),
        }
    }

    /// Forgets what waits on a topic, for all its receivers: it is not sent any more. What was sent already may still
    /// be handled. Returns how many messages, and parts of such, that were.
    pub fn clear_pending(&self, topic: &str) -> Result<u64, Error> {
        let (store, mut cleared) = (&self.depot.store, Vec::new());
        let mut state = store.lock();
        let own = state.outbox.iter().map(|stream| (&stream.record, stream.pending()));
        let own = own.filter(|(record, _)| record.client == self.record.number && record.topic == topic);
        let streams: Vec<(u32, u64, u64)> =
            own.map(|(record, pending)| (record.number, record.last, pending)).collect();
        for (stream, last, pending) in streams.into_iter().filter(|(_, _, pending)| *pending > 0) {
            let mut done = Done::default();
            done.add_upto(last);
            store.settle(&mut state, stream, &done)?;
            cleared.push((stream, pending));
        }
        drop(state);
        for (stream, _) in &cleared {
            self.depot.carrier.tell(Command::Gone(*stream));
        }
        Ok(cleared.iter().map(|(_, pending)| pending).sum())
    }
}
