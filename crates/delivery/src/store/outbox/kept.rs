//! Messages to all that were sent while no receiver was known.
//!
//! They are in a stream of their own ([`Receiver::Later`]). A client that begins to listen inherits what is kept there:
//! its own stream begins with the same numbers and the same runs of the log, and no message is copied.
//!
//! The numbers of other streams begin above those of all earlier epochs. So a stream whose record was lost, by a power
//! cut or because an old copy replaced the store, does no harm if its number is used again: the receiver has no number
//! of the new one. An heir's message numbers are old, so its stream number must be new: it is chosen at random.

use super::{Cause, Outbox, Stream};
use crate::environment::random;
use crate::store::records::{Inherited, Receiver, StreamRecord};
use crate::wire::PROPERTIES;

/// The first stream number of an heir, and how many such numbers there are. Other streams have lower numbers.
pub const HEIRS_FROM: u32 = 1 << 31;
const HEIRS: u32 = 1 << 30;

/// A stream that was opened for kept messages.
pub struct Inheritance {
    pub heir: u32,
    /// The changed records, the heir's last, in the order in which they are logged: after a crash between two of them
    /// the receiver has no stream for later messages, and gets an heir later.
    pub records: Vec<StreamRecord>,
    /// The changed record of the kept stream. If a crash loses it, the messages count as pending for one more time.
    pub kept_record: StreamRecord,
    /// The receiver's former stream.
    former: Option<u32>,
    taken_before: u64,
}

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

    /// Returns true if its last message is done. Earlier ones that are not done were put off; others may go first.
    fn is_last_done(&self) -> bool {
        let (last, missing) = (self.record.last, &self.missing);
        let last = match missing.later().back() {
            Some((first, end)) if *end >= last => first - 1,
            _ if missing.all_upto() >= last => 0,
            _ => last,
        };
        last == 0 || self.record.done.contains(last)
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

    /// Returns true if an earlier stream to the receiver of an heir has messages that come first.
    pub fn is_behind_former(&self, heir: u32) -> bool {
        let Some(heir) = self.get(heir).filter(|heir| heir.inherited_upto() > 0) else { return false };
        let of = &heir.record;
        self.streams.values().any(|other| {
            let record = &other.record;
            (record.client, &record.receiver, &record.topic) == (of.client, &of.receiver, &of.topic)
                && record.second
                && other.inherited_upto() < heir.inherited_upto()
                && !other.is_last_done()
        })
    }

    /// Counts dropped messages. Returns the stream's record, if there are any.
    pub fn count_dropped(&mut self, stream: u32, count: u64) -> Option<StreamRecord> {
        let record = &mut self.streams.get_mut(&stream).filter(|_| count > 0)?.record;
        record.dropped += count;
        Some(record.clone())
    }

    /// Returns true if an earlier build would lose, damage or repeat messages of the store, also after the log was
    /// closed in order. Such a build takes what is kept for receivers to come for messages to the first of them, also
    /// what others have had already; it finds no messages in an heir; and it takes properties for a part of the body.
    pub fn needs_guard(&self) -> bool {
        self.streams.values().any(|stream| {
            let is_kept = stream.record.receiver == Receiver::Later && !stream.runs.is_empty();
            let is_heir = stream.runs.front().is_some_and(|run| run.first <= stream.inherited_upto());
            is_kept || is_heir || stream.runs.iter().any(|run| run.flags & PROPERTIES != 0)
        })
    }

    /// Returns true if messages of several parts are pending. After a crash of this build, an earlier one reads the
    /// records of all segments but the last, of which it knows a summary from its second opening on. A message that
    /// ends there has no end for it, and it drops what it has found of that message.
    pub fn has_parts(&self) -> bool {
        self.streams.values().any(|stream| stream.unended.count_without(&stream.gone) > 0)
    }

    /// The topics of a client on which messages are kept for clients that will listen.
    pub fn kept_topics(&self, client: u32) -> Vec<String> {
        let kept = self.streams.values().filter(|stream| !stream.runs.is_empty()).map(|of| &of.record);
        let kept = kept.filter(|record| record.client == client && record.receiver == Receiver::Later);
        kept.map(|record| record.topic.clone()).collect()
    }

    /// Opens a stream that inherits the kept messages, and marks these as taken. The receiver's former stream takes no
    /// further messages. None: the receiver has all of them already.
    pub fn inherit(&mut self, receiver: &Receiver, kept: u32) -> Option<Inheritance> {
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
        let (unended, ages, kept_before) = (from.unended.clone(), from.ages.clone(), from.pending());
        done.add_upto(has);
        let runs = from.runs.iter().copied().filter(|run| run.last > done.all_upto()).collect();
        let random = || random::<4>().map(|bytes| HEIRS_FROM + u32::from_le_bytes(bytes) % HEIRS).ok();
        let number = std::iter::from_fn(random).find(|number| !self.streams.contains_key(number))?;
        let inherited = Some(Inherited { from: kept, upto });
        let new = StreamRecord::new(number, client, receiver.clone(), &topic);
        let new = StreamRecord { last: upto, done, inherited, ..new };
        self.insert(new.clone());
        let stream = self.streams.get_mut(&new.number)?;
        (stream.runs, stream.missing, stream.unended, stream.ages) = (runs, missing, unended, ages);
        stream.find_gone();
        stream.counts.accepted = stream.pending();
        for run in &stream.runs {
            *self.segments.entry(run.segment).or_default() += 1;
        }
        let heir = new.number;
        let mut records = Vec::new();
        let former = before.map(|before| before.number);
        if let Some(former) = former.and_then(|former| self.streams.get_mut(&former)) {
            former.record.second = true;
            records.push(former.record.clone());
        }
        records.push(new);
        let from = self.streams.get_mut(&kept)?;
        let taken_before = std::mem::replace(&mut from.record.taken, upto);
        from.gone.add_upto(upto);
        from.counts.count(Cause::Reassigned, kept_before - from.pending());
        let kept_record = from.record.clone();
        Some(Inheritance { heir, records, kept_record, former, taken_before })
    }

    /// Undoes `inherit`: the records could not be logged.
    pub fn disinherit(&mut self, undone: &Inheritance) {
        self.remove(undone.heir);
        if let Some(kept) = self.streams.get_mut(&undone.kept_record.number) {
            let before = kept.pending();
            kept.record.taken = undone.taken_before;
            kept.find_gone();
            kept.counts.reassigned -= kept.pending() - before;
        }
        if let Some(former) = undone.former.and_then(|former| self.streams.get_mut(&former)) {
            former.record.second = false;
            let StreamRecord { number, client, receiver, topic, .. } = former.record.clone();
            self.by_receiver.insert((client, receiver, topic), number);
        }
    }
}
