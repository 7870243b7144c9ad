//! The ids of messages that clients have sent, so that a sender's own retry is not stored again.
//!
//! An id counts from the moment in which its message is whole. It is in the message's own record, so a crash keeps
//! both or neither; the checkpoint at the beginning of a segment has those of the segments before, whose records may be
//! gone.

use std::collections::{HashMap, VecDeque};

use foldhash::HashSet;

use super::records::{MessageRecord, Receiver};
use super::{Sending, State};
use crate::environment::now_ms;
use crate::properties;
use crate::wire::{ANY, BEGINS, Bytes, DEAD, ENDS, PROPERTIES, VOLATILE, put_number};

/// The most ids of one client that are kept; in a store with a limit, one for each so many bytes of it.
const IDS_MAX: usize = 65_536;
const BYTES_FOR_ID: u64 = 1280;

/// A digest of a message's topic and id.
pub type IdDigest = [u8; pinnace_crypto::DIGEST_LEN];

/// A message that was sent with an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentId {
    pub at_ms: u64,
    /// The batch that holds it; 0: it is on the disk, or in memory alone.
    pub batch: u64,
    pub receivers: u32,
    /// It is in memory alone.
    pub is_volatile: bool,
}

/// What is known of an id.
pub enum IdState {
    New,
    /// Another thread is sending a message of several parts with it.
    Underway,
    Sent(SentId),
}

/// An id of a message to send.
#[derive(Debug, Clone, Copy)]
pub struct SendingId {
    pub digest: IdDigest,
    pub receivers: u32,
    /// How long the id counts.
    pub window_ms: u64,
}

#[derive(Default)]
pub struct SentIds {
    clients: HashMap<u32, ClientIds>,
    /// Messages that have begun, by their first stream: the client, and the id.
    begun: HashMap<u32, (u32, IdDigest, SentId)>,
    underway: HashSet<(u32, IdDigest)>,
    /// The most ids of a client; None: IDS_MAX.
    most: Option<usize>,
}

#[derive(Default)]
struct ClientIds {
    known: HashMap<IdDigest, SentId>,
    /// Oldest first. An id that was sent again has a newer entry too.
    order: VecDeque<(u64, IdDigest)>,
    window_ms: Option<u64>,
}

impl ClientIds {
    fn add(&mut self, digest: IdDigest, sent: SentId, most: usize) {
        if self.known.get(&digest).is_some_and(|known| known.at_ms >= sent.at_ms) {
            return;
        }
        self.known.insert(digest, sent);
        self.order.push_back((sent.at_ms, digest));
        while self.order.len() > most || self.is_first_over(sent.at_ms) {
            let Some((at_ms, digest)) = self.order.pop_front() else { return };
            if self.known.get(&digest).is_some_and(|known| known.at_ms == at_ms) {
                self.known.remove(&digest);
            }
        }
    }

    fn is_first_over(&self, now_ms: u64) -> bool {
        self.order.front().is_some_and(|(at_ms, _)| self.is_over(*at_ms, now_ms))
    }

    /// Returns true if an id of this time no longer counts.
    fn is_over(&self, at_ms: u64, now_ms: u64) -> bool {
        self.window_ms.is_some_and(|window_ms| now_ms.saturating_sub(at_ms) >= window_ms)
    }
}

impl SentIds {
    /// Bounds the ids to what fits into a store of this size.
    pub fn limit(&mut self, store_bytes: u64) {
        self.most = Some(usize::try_from(store_bytes / BYTES_FOR_ID).unwrap_or(IDS_MAX).min(IDS_MAX));
    }

    /// Looks up the id of a message to send.
    pub fn state_of(&self, client: u32, id: &SendingId) -> IdState {
        let known = self.clients.get(&client).and_then(|ids| ids.known.get(&id.digest));
        match known.filter(|sent| now_ms().saturating_sub(sent.at_ms) < id.window_ms) {
            Some(sent) => IdState::Sent(*sent),
            None if self.underway.contains(&(client, id.digest)) => IdState::Underway,
            None => IdState::New,
        }
    }

    /// A message of several parts is being sent, until `end`.
    pub fn begin(&mut self, client: u32, id: &SendingId) {
        self.underway.insert((client, id.digest));
    }

    /// Ends what `begin` began. An id whose last part was not accepted is new again.
    pub fn end(&mut self, client: u32, id: &SendingId) {
        self.underway.remove(&(client, id.digest));
        self.begun.retain(|_, (other, digest, _)| (*other, *digest) != (client, id.digest));
    }

    fn add(&mut self, client: u32, digest: IdDigest, sent: SentId) {
        let most = self.most.unwrap_or(IDS_MAX);
        self.clients.entry(client).or_default().add(digest, sent, most);
    }

    /// A part was accepted.
    pub fn accepted(&mut self, sending: &Sending<'_>, batch: u64) {
        let Some(stream) = sending.streams.first() else { return };
        let id = sending.id.map(|id| {
            let is_volatile = sending.flags & VOLATILE != 0;
            let (at_ms, receivers) = (sending.accepted_ms, id.receivers);
            self.clients.entry(sending.client).or_default().window_ms = Some(id.window_ms);
            (sending.client, id.digest, SentId { at_ms, batch, receivers, is_volatile })
        });
        self.note_part(*stream, sending.flags, batch, id);
    }

    /// Notes a part of a message, which begins with its id.
    fn note_part(&mut self, stream: u32, flags: u8, batch: u64, id: Option<(u32, IdDigest, SentId)>) {
        let (begins, ends) = (flags & BEGINS != 0, flags & ENDS != 0);
        if begins && self.begun.is_empty() && id.is_none() {
            return;
        }
        let begun = self.begun.remove(&stream).filter(|_| !begins);
        let whose = if begins { id } else { begun };
        let Some((client, digest, sent)) = whose else { return };
        match ends {
            true => self.add(client, digest, SentId { batch, ..sent }),
            false => drop(self.begun.insert(stream, (client, digest, sent))),
        }
    }

    /// A client's messages in memory are gone, and with them their ids.
    pub fn forget_volatile(&mut self, client: u32) {
        if let Some(ids) = self.clients.get_mut(&client) {
            ids.known.retain(|_, sent| !sent.is_volatile);
        }
    }

    /// Completes recovery: a message without its end was never accepted.
    pub fn finish_recovery(&mut self) {
        self.begun.clear();
    }

    /// The records of a checkpoint: the ids of each client, and those of messages that have begun.
    pub fn write(&self) -> Vec<Vec<u8>> {
        let time_ms = now_ms();
        let mut records = Vec::new();
        for (client, ids) in &self.clients {
            let in_order = ids.order.iter().filter_map(|(at_ms, digest)| {
                let sent = ids.known.get(digest).filter(|sent| sent.at_ms == *at_ms && !sent.is_volatile)?;
                (!ids.is_over(*at_ms, time_ms)).then_some((digest, sent))
            });
            let in_order: Vec<(&IdDigest, &SentId)> = in_order.collect();
            if !in_order.is_empty() {
                records.push(write(*client, 0, &in_order));
            }
        }
        for (stream, (client, digest, sent)) in &self.begun {
            records.push(write(*client, *stream, &[(digest, sent)]));
        }
        records
    }

    /// Recovery found a record of a checkpoint.
    pub fn read(&mut self, payload: &[u8]) -> Option<()> {
        let mut from = Bytes::new(payload);
        let (client, stream) = (u32::try_from(from.number()?).ok()?, u32::try_from(from.number()?).ok()?);
        let (first_ms, count) = (from.number()?, from.number()?);
        for _ in 0..count {
            let digest = from.array()?;
            let at_ms = first_ms.checked_add(from.number()?)?;
            let receivers = u32::try_from(from.number()?).ok()?;
            let sent = SentId { at_ms, batch: 0, receivers, is_volatile: false };
            match stream {
                0 => self.add(client, digest, sent),
                stream => drop(self.begun.insert(stream, (client, digest, sent))),
            }
        }
        Some(())
    }
}

/// Stream 0: the messages are whole.
fn write(client: u32, stream: u32, ids: &[(&IdDigest, &SentId)]) -> Vec<u8> {
    let mut to = Vec::new();
    let first_ms = ids.iter().map(|(_, sent)| sent.at_ms).min().unwrap_or(0);
    for number in [client.into(), stream.into(), first_ms, ids.len() as u64] {
        put_number(&mut to, number);
    }
    for (digest, sent) in ids {
        to.extend_from_slice(*digest);
        put_number(&mut to, sent.at_ms - first_ms);
        put_number(&mut to, sent.receivers.into());
    }
    to
}

/// The digest of an id on a topic.
pub fn digest_of(topic: &str, id: &str) -> IdDigest {
    let mut bytes = (topic.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(topic.as_bytes());
    bytes.extend_from_slice(id.as_bytes());
    pinnace_crypto::digest(&bytes)
}

impl State {
    /// Recovery found a message, perhaps with an id. A dead letter has the id of its original, and is not sent by the
    /// application.
    pub(super) fn find_id(&mut self, message: &MessageRecord<'_>) {
        if message.flags & DEAD != 0 {
            return;
        }
        let Some((stream, _)) = message.destinations().next() else { return };
        let id = match message.flags & (BEGINS | PROPERTIES) == BEGINS | PROPERTIES {
            true => self.id_of(stream, message),
            false => None,
        };
        self.sent.note_part(stream, message.flags, 0, id);
    }

    fn id_of(&self, stream: u32, message: &MessageRecord<'_>) -> Option<(u32, IdDigest, SentId)> {
        let record = &self.outbox.get(stream)?.record;
        let digest = digest_of(&record.topic, &properties::id_in(message.body)?);
        let has_receiver = |stream: u32| {
            let of = self.outbox.get(stream).map(|stream| &stream.record.receiver);
            matches!(of, Some(Receiver::Client(_)))
        };
        let receivers = match message.flags & ANY {
            0 => message.destinations().filter(|(stream, _)| has_receiver(*stream)).count() as u32,
            _ => 1,
        };
        let sent = SentId { at_ms: message.accepted_ms, batch: 0, receivers, is_volatile: false };
        Some((record.client, digest, sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(at_ms: u64) -> SentId {
        SentId { at_ms, batch: 0, receivers: 3, is_volatile: false }
    }

    #[test]
    fn the_newest_ids_are_kept_and_come_back() {
        let mut ids = SentIds::default();
        ids.limit(3 * BYTES_FOR_ID);
        for at in 1..=5 {
            ids.add(7, [at; 16], sent(u64::from(at) * 1000));
        }
        ids.add(7, [4; 16], sent(6000));
        ids.add(7, [9; 16], SentId { is_volatile: true, ..sent(6000) });
        let mut known: Vec<u8> = ids.clients[&7].known.keys().map(|digest| digest[0]).collect();
        known.sort_unstable();
        assert_eq!(known, [4, 5, 9]);
        assert!(ids.clients[&7].order.len() <= 3);
        ids.begun.insert(2, (7, [8; 16], sent(1)));
        let mut again = SentIds::default();
        for record in ids.write() {
            again.read(&record).unwrap();
            for len in 0..record.len() {
                assert_eq!(SentIds::default().read(&record[..len]), None);
            }
        }
        assert_eq!(again.clients[&7].known, [([5; 16], sent(5000)), ([4; 16], sent(6000))].into());
        assert_eq!(again.begun, [(2, (7, [8; 16], sent(1)))].into());
    }

    #[test]
    fn what_ends_without_its_beginning_has_no_id() {
        let mut ids = SentIds::default();
        let id = || Some((1, [1; 16], sent(1)));
        ids.note_part(1, BEGINS, 0, id());
        ids.note_part(1, 0, 0, None);
        ids.note_part(2, ENDS, 0, None);
        assert!(ids.clients.is_empty());
        // Another message begins: the rest of the first never came.
        ids.note_part(1, BEGINS | ENDS, 0, None);
        ids.note_part(1, ENDS, 0, None);
        assert!(ids.clients.is_empty() && ids.begun.is_empty());
        ids.note_part(1, BEGINS, 0, id());
        ids.note_part(1, ENDS, 5, None);
        assert_eq!(ids.clients[&1].known[&[1; 16]], SentId { batch: 5, ..sent(1) });
    }
}
