//! Ordering keys: messages with the same key go to the same receiver while it lives.
//!
//! Rendezvous hashing chooses the receiver of a key that is new: the one for which the hash of key and receiver is
//! highest. So the senders of a topic, and a sender that starts again, choose the same one. A receiver that was found a
//! moment ago, and is not connected yet, counts too. Once it has got a message, the choice is remembered: other
//! receivers that come do not change it.
//!
//! A message whose receiver cannot take it now is *deferred*: its number waits in a queue, and its sender goes on with
//! the next. While a receiver has a queue, further messages for it go to the end of the queue. If a receiver's state
//! changes otherwise than by asking for more, the queues are dropped, and all free numbers are offered again.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use foldhash::fast::FixedState;

use crate::RangeSet;

/// So many keys are remembered. If there are more, those of which no message is under way are forgotten.
const KEYS_MAX: usize = 65_536;
/// A key of which no message came for so long is forgotten.
const KEY_FOR: Duration = Duration::from_secs(600);
/// The most numbers that are deferred at a time.
const DEFERRED_MAX: usize = 65_536;

#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub member: usize,
    /// The last number of it that was assigned to this member; 0: none.
    pub last: u64,
    used: Instant,
}

/// The keys that a sender has seen, by their digest, and the numbers that wait for a receiver.
#[derive(Debug, Default)]
pub(super) struct Keys {
    known: HashMap<u64, Key, FixedState>,
    /// The deferred numbers of each member, and the keys of those that are first parts. None is empty.
    queues: HashMap<usize, VecDeque<(u64, Option<u64>)>, FixedState>,
    /// The keys of the queues: the member, and how many numbers wait.
    waiting: HashMap<u64, (usize, usize), FixedState>,
    /// How many numbers are deferred, in queues or until the keys are known.
    deferred: usize,
    /// The last of them, and its member.
    last: Option<(u64, Option<usize>)>,
    /// Receivers may have messages from an earlier opening of the store, with unknown keys.
    are_unknown: bool,
}

impl Key {
    /// Returns true if its last number is among those assigned to its member.
    pub fn is_assigned(&self, assigned: &RangeSet) -> bool {
        self.last > 0 && assigned.contains(self.last)
    }

    /// Returns true if one of its numbers may be among those assigned to its member. Its last one may have been
    /// returned, and an earlier one not.
    pub fn is_under_way(&self, assigned: &RangeSet) -> bool {
        assigned.first().is_some_and(|first| first <= self.last)
    }

    /// Returns true if it is too long since a message of it came.
    pub fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) >= KEY_FOR
    }
}

impl Keys {
    /// All free numbers are offered again.
    pub fn drop_queues(&mut self, are_unknown: bool) {
        self.queues.clear();
        self.waiting.clear();
        (self.deferred, self.last, self.are_unknown) = (0, None, are_unknown);
    }

    /// Returns true if a message of any key must wait until receivers have reported.
    pub fn are_unknown(&self) -> bool {
        self.are_unknown
    }

    pub fn get(&self, key: u64) -> Option<Key> {
        self.known.get(&key).copied()
    }

    /// A member gets a number with this key.
    pub fn bind(&mut self, key: u64, member: usize, number: u64, now: Instant) {
        let known = self.known.entry(key).or_insert(Key { member, last: 0, used: now });
        let before = if known.member == member { known.last } else { 0 };
        *known = Key { member, last: number.max(before), used: now };
    }

    /// Returns true if one more key can be remembered. Forgets all that `is_needed` is false for if there are too many.
    pub fn has_room(&mut self, is_needed: impl Fn(&Key) -> bool) -> bool {
        if self.known.len() >= KEYS_MAX {
            self.known.retain(|_, known| is_needed(known));
        }
        self.known.len() < KEYS_MAX
    }

    /// Defers a number, for this member if it is known. `key`: None for a further part. Returns false if too many are
    /// deferred.
    pub fn defer(&mut self, number: u64, key: Option<u64>, member: Option<usize>) -> bool {
        if self.deferred >= DEFERRED_MAX {
            return false;
        }
        self.deferred += 1;
        self.last = Some((number, member));
        if let Some(member) = member {
            self.queues.entry(member).or_default().push_back((number, key));
            if let Some(key) = key {
                self.waiting.entry(key).or_insert((member, 0)).1 += 1;
            }
        }
        true
    }

    /// If this number was deferred last: for which member.
    pub fn last_deferred(&self, number: u64) -> Option<Option<usize>> {
        self.last.filter(|(last, _)| *last == number).map(|(_, member)| member)
    }

    /// The member for which numbers with a key wait.
    pub fn waits_for(&self, key: u64) -> Option<usize> {
        self.waiting.get(&key).map(|(member, _)| *member)
    }

    /// Returns true if numbers wait for a member.
    pub fn has_queue(&self, member: usize) -> bool {
        self.queues.contains_key(&member)
    }

    /// The members that numbers wait for.
    pub fn awaited(&self) -> impl Iterator<Item = usize> {
        self.queues.keys().copied()
    }

    /// The numbers that wait for a member.
    pub fn queue(&self, member: usize) -> impl Iterator<Item = u64> {
        self.queues.get(&member).into_iter().flatten().map(|(number, _)| *number)
    }

    /// The first number that waits for a member no longer does. Returns it, and its key.
    pub fn pop(&mut self, member: usize) -> Option<(u64, Option<u64>)> {
        let queue = self.queues.get_mut(&member)?;
        let first = queue.pop_front();
        self.deferred -= usize::from(first.is_some());
        if let Some((_, Some(key))) = first
            && let Some((_, count)) = self.waiting.get_mut(&key)
        {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&key);
            }
        }
        if queue.is_empty() {
            self.queues.remove(&member);
        }
        first
    }
}

/// How well a receiver fits a key: the one with the highest value gets it. The same in all processes.
pub(super) fn fitness(key: u64, receiver: u64) -> u64 {
    // The finalizer of SplitMix64.
    let mixed = (key ^ receiver.rotate_left(32)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
