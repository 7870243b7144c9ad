//! Dispatch: the sender's end of a stream whose messages several receivers share.
//!
//! Each message goes to one receiver, which asks for a count of messages (`pull`). A message that no receiver has asked
//! for is assigned to none. The least loaded receiver gets the next one. In a burst, a receiver gets several in a row,
//! so that few ranges describe what it has.
//!
//! Numbers are assigned until they are done, until their receiver reports that it does not have them, or until it was
//! away for too long. Then they are free, and are offered to all receivers again.
//!
//! Messages with the same ordering key go to the same receiver while it lives (`keys`).
//!
//! Each report of a receiver begins a new generation. The receiver ignores messages that were sent to it in an earlier
//! one, so a receiver can return messages while others are under way to it.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use pinnace_stream::{Choice, Dispatch, Offer, RangeSet};
//!
//! let (now, nothing) = (Instant::now(), RangeSet::default());
//! let mut dispatch = Dispatch::default();
//! for peer in [7, 8] {
//!     dispatch.join(peer, peer as u64, now);
//!     dispatch.report(peer, 1, 1, &nothing, &nothing);
//! }
//! let mut give = |number| {
//!     let offer = Offer { number, is_first: true, key: None };
//!     let Choice::Member(to) = dispatch.choose(&offer, |_| true) else { return None };
//!     dispatch.assign(to, number, true);
//!     Some(dispatch.peer(to))
//! };
//! assert_eq!((give(1), give(2), give(3)), (Some(7), Some(8), None), "each has asked for one");
//!
//! dispatch.disconnect(8, now);
//! let (free, _) = dispatch.free_after(now + Duration::from_secs(30), Duration::from_secs(30));
//! assert_eq!(free.first(), Some(2));
//! ```

mod keys;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::RangeSet;
use keys::{Key, Keys, fitness};

/// The most messages that a receiver gets in a row.
const MOST_IN_ROW: u64 = 256;

/// A receiver that is new has so long to connect before the keys that fit it best go to others.
const EXPECTED_FOR: Duration = Duration::from_secs(2);

/// A receiver of a shared stream.
#[derive(Debug)]
struct Member {
    peer: usize,
    /// The digest of its name.
    name: u64,
    /// Since when it is not connected; None: it is, and has reported.
    away_since: Option<Instant>,
    has_reported: bool,
    /// It listens on the topic.
    listens: bool,
    /// Of its last report.
    generation: u64,
    /// The messages that it has asked for, and those sent, since then.
    wanted: u64,
    sent: u64,
    /// Frames sent since then.
    frames: u64,
    assigned: RangeSet,
    /// Of `assigned`, counted as messages.
    load: u64,
    /// When it was last chosen.
    turn: u64,
}

/// The receivers of a shared stream, and the numbers that each of them has.
#[derive(Debug, Default)]
pub struct Dispatch {
    members: Vec<Member>,
    turn: u64,
    /// The member chosen last in this burst, and how many messages more it gets in a row.
    row: Option<(usize, u64)>,
    keys: Keys,
}

/// A message that is offered to receivers, or a part of one.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// Its number.
    pub number: u64,
    /// It is the first part of a message. A further part follows the one before it.
    pub is_first: bool,
    /// The digest of its ordering key, and the time.
    pub key: Option<(u64, Instant)>,
}

/// What becomes of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// This member gets it.
    Member(usize),
    /// Its receiver cannot take it now. It waits for that receiver (`deferred_for`), and others may go first.
    Deferred,
    /// None of the receivers can take it now. Later messages must wait too.
    Nobody,
}

/// What a receiver's report changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reported {
    /// Numbers that it holds and that are assigned to other receivers.
    pub taken: RangeSet,
    /// Numbers that it holds and that were free: the caller calls `regain` for those with an ordering key.
    pub regained: RangeSet,
}

impl Member {
    fn is_ready(&self) -> bool {
        self.away_since.is_none() && self.listens
    }

    /// Until when it is expected to connect for the first time.
    fn expected_until(&self) -> Option<Instant> {
        self.away_since.filter(|_| self.listens && !self.has_reported).map(|since| since + EXPECTED_FOR)
    }

    fn is_expected(&self, now: Instant) -> bool {
        self.expected_until().is_some_and(|until| until > now)
    }

    fn room(&self) -> u64 {
        self.wanted.saturating_sub(self.sent)
    }
}

impl Dispatch {
    /// Adds a receiver that has not reported yet, unless it is there already. `name`: the digest of its name, by which
    /// all senders know it.
    pub fn join(&mut self, peer: usize, name: u64, now: Instant) {
        match self.find(peer) {
            Some(at) => self.members[at].listens = true,
            None => self.members.push(Member {
                peer,
                name,
                away_since: Some(now),
                has_reported: false,
                listens: true,
                generation: 0,
                wanted: 0,
                sent: 0,
                frames: 0,
                assigned: RangeSet::default(),
                load: 0,
                turn: 0,
            }),
        }
    }

    /// The receiver no longer listens: it gets no further messages, and keeps those that it has.
    pub fn stop(&mut self, peer: usize) {
        if let Some(at) = self.find(peer) {
            self.members[at].listens = false;
            self.end_burst();
        }
    }

    fn find(&self, peer: usize) -> Option<usize> {
        self.members.iter().position(|member| member.peer == peer)
    }

    /// Returns true if this peer is a receiver.
    pub fn has(&self, peer: usize) -> bool {
        self.find(peer).is_some()
    }

    /// The peer of a member.
    pub fn peer(&self, member: usize) -> usize {
        self.members[member].peer
    }

    /// The peers that are connected and have reported.
    pub fn connected(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.iter().filter(|member| member.away_since.is_none()).map(|member| member.peer)
    }

    /// How many messages each peer has.
    pub fn loads(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.members.iter().map(|member| (member.peer, member.load))
    }

    /// A receiver reports what it `held`s and has `done`, and asks for `wanted` messages beyond that. `done` includes
    /// all that the sender knows to be done. What was assigned to this one, and is neither `held` nor `done`, is free.
    pub fn report(
        &mut self,
        peer: usize,
        generation: u64,
        wanted: u64,
        held: &RangeSet,
        done: &RangeSet,
    ) -> Reported {
        let held = held.without(done);
        let mut others = RangeSet::default();
        for member in self.members.iter().filter(|member| member.peer != peer) {
            others.add_all(&member.assigned, u64::MAX);
        }
        self.end_burst();
        let Some(at) = self.find(peer) else { return Reported::default() };
        let own = held.without(&others);
        let member = &mut self.members[at];
        (member.away_since, member.has_reported) = (None, true);
        (member.generation, member.wanted) = (generation, wanted);
        (member.sent, member.frames, member.load) = (0, 0, own.count());
        let (taken, regained) = (held.without(&own), own.without(&member.assigned));
        member.assigned = own;
        Reported { taken, regained }
    }

    /// A receiver asks for messages: `wanted` in all since it reported with this generation.
    pub fn want(&mut self, peer: usize, generation: u64, wanted: u64) {
        if let Some(at) = self.find(peer).filter(|at| self.members[*at].generation == generation) {
            self.members[at].wanted = self.members[at].wanted.max(wanted);
        }
    }

    /// The connection to a receiver is lost. It keeps what it has until it reports, or until `free_after` frees it.
    pub fn disconnect(&mut self, peer: usize, now: Instant) {
        if let Some(at) = self.find(peer) {
            self.members[at].away_since.get_or_insert(now);
            self.end_burst();
        }
    }

    /// Frees the numbers of receivers that were away for `patience`. Returns them, and when more become free.
    pub fn free_after(&mut self, now: Instant, patience: Duration) -> (RangeSet, Option<Instant>) {
        let (mut free, mut next) = (RangeSet::default(), None);
        for member in &mut self.members {
            let Some(since) = member.away_since.filter(|_| member.assigned.last() > 0) else { continue };
            let due = since + patience;
            if due <= now {
                free.add_all(&std::mem::take(&mut member.assigned), u64::MAX);
                member.load = 0;
            } else {
                next = Some(next.map_or(due, |next: Instant| next.min(due)));
            }
        }
        (free, next)
    }

    /// Numbers are done.
    pub fn finish(&mut self, done: &RangeSet) {
        for member in self.members.iter_mut().filter(|member| member.assigned.last() > 0) {
            member.assigned.remove_all(done);
            member.load = member.load.min(member.assigned.count());
        }
    }

    /// All numbers that receivers have.
    pub fn assigned(&self) -> RangeSet {
        let mut all = RangeSet::default();
        self.members.iter().for_each(|member| all.add_all(&member.assigned, u64::MAX));
        all
    }

    /// All numbers that are neither assigned nor done are offered again, from the first on. `keys_are_unknown`: a
    /// receiver that has not reported may have messages of any key.
    pub fn offer_again(&mut self, keys_are_unknown: bool) {
        self.keys.drop_queues(keys_are_unknown);
    }

    /// Returns true if numbers wait for receivers.
    pub fn has_deferred(&self) -> bool {
        self.keys.awaited().next().is_some()
    }

    /// Returns true if numbers wait for this receiver. If it is lost or stops, the caller offers them again.
    pub fn waits_for(&self, peer: usize) -> bool {
        self.find(peer).is_some_and(|at| self.keys.has_queue(at))
    }

    /// Returns true if numbers wait for a receiver in vain: it is away or does not listen, and has no others. Then the
    /// caller offers them again.
    pub fn waits_in_vain(&self, now: Instant) -> bool {
        self.keys.awaited().any(|at| {
            let member = &self.members[at];
            !member.is_ready() && member.assigned.last() == 0 && !member.is_expected(now)
        })
    }

    /// When a receiver is no longer expected to connect: `waits_in_vain` may be true then.
    pub fn next_expected(&self, now: Instant) -> Option<Instant> {
        let expected = self.members.iter().filter(|member| member.is_expected(now));
        expected.filter_map(Member::expected_until).min()
    }

    /// The member of a receiver that can take numbers that wait for it, and the first `count` of these.
    pub fn deferred_for(&self, peer: usize, count: usize) -> Option<(usize, Vec<u64>)> {
        let at = self.find(peer).filter(|at| self.members[*at].is_ready() && self.members[*at].room() > 0)?;
        self.keys.has_queue(at).then(|| (at, self.keys.queue(at).take(count).collect()))
    }

    /// Returns true if a member can take the next number that waits for it.
    pub fn can_take(&self, member: usize, is_first: bool, has_credit: impl Fn(usize) -> bool) -> bool {
        let member = &self.members[member];
        member.is_ready() && (member.room() > 0 || !is_first) && has_credit(member.peer)
    }

    /// The first number that waits for a member no longer does: the member gets it, or it is not pending any more.
    pub fn pop_deferred(&mut self, member: usize, gets_it: bool, now: Instant) {
        if let Some((number, Some(key))) = self.keys.pop(member).filter(|_| gets_it) {
            self.keys.bind(key, member, number, now);
        }
    }

    /// A receiver has regained a number with this key. Returns false if another receiver has earlier messages of the
    /// key: then the number is free.
    pub fn regain(&mut self, peer: usize, number: u64, key: u64, now: Instant) -> bool {
        let Some(at) = self.find(peer) else { return false };
        let is_under_way = |known: &Key| known.is_under_way(&self.members[known.member].assigned);
        if self.keys.get(key).is_some_and(|known| known.member != at && is_under_way(&known)) {
            let (member, mut lost) = (&mut self.members[at], RangeSet::default());
            lost.add(number, number);
            member.assigned.remove_all(&lost);
            member.load = member.load.min(member.assigned.count());
            return false;
        }
        self.keys.bind(key, at, number, now);
        true
    }

    /// Which member gets an offer. `has_credit`: a peer has credit left.
    pub fn choose(&mut self, offer: &Offer, has_credit: impl Fn(usize) -> bool) -> Choice {
        if !offer.is_first {
            if let Some(at) = self.owner(offer.number - 1) {
                let member = &self.members[at];
                return match member.away_since.is_none() && has_credit(member.peer) {
                    true => Choice::Member(at),
                    false => Choice::Nobody,
                };
            }
            if let Some(member) = self.keys.last_deferred(offer.number - 1) {
                return self.defer(offer.number, None, member);
            }
        }
        let can_take = |member: &Member| member.is_ready() && member.room() > 0 && has_credit(member.peer);
        if let Some((key, now)) = offer.key {
            return self.choose_for_key(offer.number, key, now, can_take);
        }
        if let Some((at, left)) = self.row.filter(|(at, _)| can_take(&self.members[*at])) {
            self.row = (left > 1).then_some((at, left - 1));
            return Choice::Member(at);
        }
        let ready = self.members.iter().enumerate().filter(|(_, member)| can_take(member));
        let least = ready.min_by(|(_, one), (_, other)| {
            // Compares the load of two members relative to their capacity: load / (load + room).
            let share = |one: &Member, other: &Member| u128::from(one.load) * u128::from(other.room());
            share(one, other).cmp(&share(other, one)).then(one.turn.cmp(&other.turn))
        });
        let Some((at, member)) = least else { return Choice::Nobody };
        self.turn += 1;
        self.row = Some((at, (member.room() / 4).min(MOST_IN_ROW))).filter(|(_, left)| *left > 0);
        self.members[at].turn = self.turn;
        Choice::Member(at)
    }

    fn choose_for_key(
        &mut self,
        number: u64,
        key: u64,
        now: Instant,
        can_take: impl Fn(&Member) -> bool,
    ) -> Choice {
        if self.keys.are_unknown() {
            return self.defer(number, Some(key), None);
        }
        let is_under_way = |known: &Key| known.is_under_way(&self.members[known.member].assigned);
        let known = self.keys.get(key);
        let at = match (self.keys.waits_for(key), known) {
            (Some(at), _) => at,
            (None, Some(known)) if is_under_way(&known) => known.member,
            (None, Some(known)) if self.members[known.member].is_ready() && !known.is_old(now) => {
                known.member
            }
            _ => {
                let members = self.members.iter().enumerate();
                let candidates = members.filter(|(_, member)| member.is_ready() || member.is_expected(now));
                let best = candidates.max_by_key(|(_, member)| fitness(key, member.name));
                let Some((at, _)) = best else { return Choice::Nobody };
                at
            }
        };
        if self.keys.has_queue(at) || !can_take(&self.members[at]) {
            return self.defer(number, Some(key), Some(at));
        }
        let is_needed = |known: &Key| known.is_assigned(&self.members[known.member].assigned);
        if known.is_none() && !self.keys.has_room(is_needed) {
            return Choice::Nobody;
        }
        self.keys.bind(key, at, number, now);
        Choice::Member(at)
    }

    fn defer(&mut self, number: u64, key: Option<u64>, member: Option<usize>) -> Choice {
        if self.keys.defer(number, key, member) { Choice::Deferred } else { Choice::Nobody }
    }

    /// Returns true if a receiver has this number.
    pub fn is_assigned(&self, number: u64) -> bool {
        self.owner(number).is_some()
    }

    fn owner(&self, number: u64) -> Option<usize> {
        self.members.iter().position(|member| member.assigned.contains(number))
    }

    /// A chosen member gets a number. `ends`: the message is complete with it.
    pub fn assign(&mut self, member: usize, number: u64, ends: bool) {
        self.assign_all(member, number, number, u64::from(ends));
    }

    /// The only receiver there is, if it can take this many messages without an ordering key. `has_credit`: a peer has
    /// credit left.
    pub fn only_member(&self, messages: u64, has_credit: impl Fn(usize) -> bool) -> Option<usize> {
        let [member] = self.members.as_slice() else { return None };
        let can_take = member.is_ready() && member.room() >= messages && has_credit(member.peer);
        (can_take && !self.keys.has_queue(0)).then_some(0)
    }

    /// A member gets consecutive numbers, with which this many messages are complete.
    pub fn assign_all(&mut self, member: usize, first: u64, last: u64, messages: u64) {
        let member = &mut self.members[member];
        member.assigned.add(first, last);
        member.sent += messages;
        member.load += messages;
    }

    /// A frame is sent to a member. Returns the generation, and the index of the frame in it.
    pub fn send_frame(&mut self, member: usize) -> (u64, u64) {
        let member = &mut self.members[member];
        member.frames += 1;
        (member.generation, member.frames - 1)
    }

    /// No more messages follow now: the next one goes to the least loaded member.
    pub fn end_burst(&mut self) {
        self.row = None;
    }
}
