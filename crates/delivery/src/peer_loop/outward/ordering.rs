//! Ordering keys of messages to one: a message whose receiver cannot take it waits for that receiver.

use std::cell::RefCell;

use pinnace_stream::RangeSet;

use super::shared::done_of;
use super::{Expired, Outward};
use crate::environment::now;
use crate::log::LogError;
use crate::properties::ordering_key_in;
use crate::store::{Store, StreamMessage, Wanted};
use crate::wire::{BEGINS, ENDS, FrameEntry};

/// The most parts of messages that are read at once for a receiver, and the bytes after which no more are read.
const SERVED_AT_ONCE: usize = 64;
const SERVED_BYTES: usize = 512 << 10;

impl Outward {
    /// Sends what waits for receivers that can take more now. Returns true if there was something.
    pub(super) fn serve_deferred(
        &mut self,
        store: &Store,
        now_ms: u64,
        expired: &mut Vec<Expired>,
    ) -> Result<bool, LogError> {
        let mut moved = false;
        for (stream, peer) in std::mem::take(&mut self.to_serve) {
            let dispatch = self.shared.get(&stream).map(|shared| &shared.dispatch);
            let deferred = dispatch.and_then(|dispatch| dispatch.deferred_for(peer, SERVED_AT_ONCE));
            if let Some((member, numbers)) = deferred
                && self.serve(store, stream, member, &numbers, now_ms, expired)?
            {
                self.to_serve.insert((stream, peer));
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Sends the first of these numbers, which wait for a member, as far as it can take them. Returns false if it can
    /// take none.
    fn serve(
        &mut self,
        store: &Store,
        stream: u32,
        member: usize,
        numbers: &[u64],
        now_ms: u64,
        expired: &mut Vec<Expired>,
    ) -> Result<bool, LogError> {
        let (parts, upto) = read_parts(store, stream, numbers)?;
        let (done, mut parts) = (done_of(store, stream), parts.iter().peekable());
        let (time, mut moved) = (now(), false);
        for number in numbers.iter().copied().take_while(|number| *number <= upto) {
            let part = parts.next_if(|part| part.seq == number).filter(|_| !done.contains(number));
            let is_first = part.is_none_or(|part| part.flags & BEGINS != 0);
            let (Some(shared), lanes) = (self.shared.get_mut(&stream), &self.lanes) else { break };
            if !shared.dispatch.can_take(member, is_first, |peer| lanes.has_credit(peer)) {
                self.starved.insert(stream);
                break;
            }
            let part = part.filter(|part| {
                let has_begun = !is_first && shared.dispatch.is_assigned(number - 1);
                let is_expired = part.is_expired(now_ms) && !has_begun;
                expired.extend(is_expired.then_some((stream, number, number)));
                !is_expired
            });
            shared.dispatch.pop_deferred(member, part.is_some(), time);
            if let Some(part) = part {
                self.give(stream, member, &part.entry());
                if let Some(mut lane) = self.lanes.lane_mut(stream) {
                    lane.data_mut().sent.add_deferred(u64::from(part.flags & ENDS != 0));
                }
            }
            moved = true;
        }
        self.flush_shared(stream);
        Ok(moved)
    }
}

/// The parts with these numbers that are there, in order, up to the second value: later ones were not read.
fn read_parts(store: &Store, stream: u32, numbers: &[u64]) -> Result<(Vec<StreamMessage>, u64), LogError> {
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Ok((Vec::new(), 0)) };
    let filter = |entry: &FrameEntry<'_>| numbers.binary_search(&entry.seq).is_ok();
    let wanted = Wanted { range: *first..=*last, enough_bytes: SERVED_BYTES, filter: &filter };
    let (held, logged) = (store.held_messages(stream, &wanted), store.logged_messages(stream, &wanted)?);
    let upto = held.upto.min(logged.upto);
    let mut parts = held.list;
    parts.extend(logged.list);
    parts.retain(|part| part.seq <= upto);
    parts.sort_by_key(|part| part.seq);
    Ok((parts, upto))
}

/// Those of these logged numbers that have an ordering key: the digest of the key, and the number. Each part of a
/// message has its key.
pub(super) fn keys_of(store: &Store, stream: u32, numbers: &RangeSet) -> Vec<(u64, u64)> {
    let Some(first) = numbers.first() else { return Vec::new() };
    let found = RefCell::new((Vec::new(), None));
    let filter = |entry: &FrameEntry<'_>| {
        let (list, key) = &mut *found.borrow_mut();
        if entry.flags & BEGINS != 0 {
            *key = ordering_key_in(entry.flags, entry.body).map(digest_of_key);
        }
        list.extend(key.filter(|_| numbers.contains(entry.seq)).map(|key| (key, entry.seq)));
        false
    };
    // A log that cannot be read is reported by the next pass.
    let _ =
        store.messages(stream, &Wanted { range: first..=numbers.last(), enough_bytes: 0, filter: &filter });
    found.into_inner().0
}

/// The digest of an ordering key, or of a receiver's name. The senders of a topic choose a key's receiver by them, so
/// they are the same in all versions.
pub(super) fn digest_of_key(text: &str) -> u64 {
    let digest = pinnace_crypto::digest(text.as_bytes());
    digest.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}
