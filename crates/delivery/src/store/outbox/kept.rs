//! Messages to all that were sent while no receiver was known.
//!
//! They are in a stream of their own ([`Receiver::Later`]). A client that begins to listen inherits what is kept there:
//! its own stream begins with the same numbers and the same runs of the log, and no message is copied.
//!
//! The numbers of other streams begin above those of all earlier epochs. So a stream whose record was lost, by a power
//! cut or because an old copy replaced the store, does no harm if its number is used again: the receiver has no number
//! of the new one. An heir's message numbers are old, so its stream number must be new: it is chosen at random.

use super::{Outbox, Stream};
use crate::environment::random;
use crate::store::records::{Inherited, Receiver, StreamRecord};

/// The stream numbers of heirs: from the first on, so many. Others are below.
pub const HEIRS_FROM: u32 = 1 << 31;
const HEIRS: u32 = 1 << 30;

impl Stream {
    /// Its messages up to this number were logged for the stream that it inherited them from.
    pub fn inherited_upto(&self) -> u64 {
        self.record.inherited.map_or(0, |inherited| inherited.upto)
    }

    /// What it holds in the log, in bytes: an estimate if a part of a segment's messages is done.
    pub fn cost(&self) -> u64 {
        let upto = self.record.done.all_upto();
        let cost = |run: &super::Run| match run.first > upto {
            true => run.cost,
            false => run.cost_of(run.last.saturating_sub(upto)),
        };
        self.runs.iter().map(cost).sum()
    }

    /// When the oldest message that it may hold was accepted.
    pub fn oldest_ms(&self) -> Option<u64> {
        self.runs.front().map(|run| run.oldest_ms)
    }

    /// The number up to which whole segments can be dropped: they are older than `oldest_ms`, or among the first
    /// `excess` bytes. Also what remains of `excess`. None: no whole segment can.
    pub fn droppable_upto(&self, oldest_ms: u64, mut excess: u64) -> (Option<u64>, u64) {
        let (upto, mut found) = (self.record.done.all_upto(), None);
        for run in &self.runs {
            let cost = if run.first > upto { run.cost } else { run.cost_of(run.last.saturating_sub(upto)) };
            if run.newest_ms >= oldest_ms && cost > excess {
                break;
            }
            excess = excess.saturating_sub(cost);
            found = Some(run.last);
        }
        (found, excess)
    }
}

impl Outbox {
    /// The stream of messages kept for the clients that will listen on a topic.
    pub fn kept_on(&self, client: u32, topic: &str) -> Option<&Stream> {
        self.get(self.find(client, &Receiver::Later, topic)?)
    }

    /// Counts dropped messages. Returns the stream's record, if there are any.
    pub fn count_dropped(&mut self, stream: u32, count: u64) -> Option<StreamRecord> {
        let record = &mut self.streams.get_mut(&stream).filter(|_| count > 0)?.record;
        record.dropped += count;
        Some(record.clone())
    }

    /// The topics of a client on which messages are kept for clients that will listen.
    pub fn kept_topics(&self, client: u32) -> Vec<String> {
        let kept = self.streams.values().filter(|stream| !stream.runs.is_empty()).map(|of| &of.record);
        let kept = kept.filter(|record| record.client == client && record.receiver == Receiver::Later);
        kept.map(|record| record.topic.clone()).collect()
    }

    /// Opens a stream that inherits what is kept, and marks that as taken. Returns the records that have changed: of
    /// the stream, of the kept stream, and of the receiver's stream before, which takes no further messages. None: the
    /// receiver has all of it already.
    pub fn inherit(&mut self, receiver: &Receiver, kept: u32) -> Option<Vec<StreamRecord>> {
        let from = self.streams.get(&kept).filter(|kept| !kept.runs.is_empty())?;
        let (client, topic) = (from.record.client, from.record.topic.clone());
        let before = self.find(client, receiver, &topic).and_then(|before| self.get(before));
        let has =
            before.and_then(|before| before.record.inherited).filter(|inherited| inherited.from == kept);
        let (has, upto) = (has.map_or(0, |inherited| inherited.upto), from.record.last);
        let before = before.map(|before| before.record.clone());
        if has >= upto || from.runs.back().is_none_or(|run| run.last <= has) {
            return None;
        }
        let (mut done, missing) = (from.record.done.clone(), from.missing.clone());
        done.add_upto(has);
        let runs = from.runs.iter().copied().filter(|run| run.last > done.all_upto()).collect();
        let random = || random::<4>().map(|bytes| HEIRS_FROM + u32::from_le_bytes(bytes) % HEIRS).ok();
        let number = std::iter::from_fn(random).find(|number| !self.streams.contains_key(number))?;
        let inherited = Some(Inherited { from: kept, upto });
        let new = StreamRecord::new(number, client, receiver.clone(), &topic);
        let new = StreamRecord { last: upto, done, inherited, ..new };
        self.insert(new.clone());
        let stream = self.streams.get_mut(&new.number)?;
        (stream.runs, stream.missing) = (runs, missing);
        for run in &stream.runs {
            *self.segments.entry(run.segment).or_default() += 1;
        }
        let mut changed = vec![new];
        let kept = &mut self.streams.get_mut(&kept)?.record;
        kept.taken = upto;
        changed.push(kept.clone());
        if let Some(before) = before {
            let before = &mut self.streams.get_mut(&before.number)?.record;
            before.second = true;
            changed.push(before.clone());
        }
        Some(changed)
    }
}
