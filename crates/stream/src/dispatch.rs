//! Dispatch: the sender's end of a stream whose messages several receivers share.
//!
//! Each message goes to one receiver, which asks for a count of messages (`pull`). A message that no receiver has asked
//! for is assigned to none. The least loaded receiver gets the next one. In a burst, a receiver gets several in a row,
//! so that few ranges describe what it has.
//!
//! Numbers are assigned until they are done, until their receiver reports that it does not have them, or until it was
//! away for too long. Then they are free, and are offered to all receivers again.
//!
//! Each report of a receiver begins a new generation. The receiver ignores messages that were sent to it in an earlier
//! one, so a receiver can return messages while others are under way to it.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use pinnace_stream::{Dispatch, RangeSet};
//!
//! let (now, nothing) = (Instant::now(), RangeSet::default());
//! let mut dispatch = Dispatch::default();
//! for peer in [7, 8] {
//!     dispatch.join(peer, now);
//!     dispatch.report(peer, 1, 1, &nothing, &nothing);
//! }
//! let mut give = |number| {
//!     let to = dispatch.choose(number, true, |_| true)?;
//!     dispatch.assign(to, number, true);
//!     Some(dispatch.peer(to))
//! };
//! assert_eq!((give(1), give(2), give(3)), (Some(7), Some(8), None), "each has asked for one");
//!
//! dispatch.disconnect(8, now);
//! let (free, _) = dispatch.free_after(now + Duration::from_secs(30), Duration::from_secs(30));
//! assert_eq!(free.first(), Some(2));
//! ```

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::RangeSet;

/// The most messages that a receiver gets in a row.
const MOST_IN_ROW: u64 = 256;

/// A receiver of a shared stream.
#[derive(Debug)]
struct Member {
    peer: usize,
    /// Since when it is not connected; None: it is, and has reported.
    away_since: Option<Instant>,
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
}

impl Member {
    fn is_ready(&self) -> bool {
        self.away_since.is_none() && self.listens
    }

    fn room(&self) -> u64 {
        self.wanted.saturating_sub(self.sent)
    }
}

impl Dispatch {
    /// Adds a receiver that has not reported yet, unless it is there already.
    pub fn join(&mut self, peer: usize, now: Instant) {
        match self.find(peer) {
            Some(at) => self.members[at].listens = true,
            None => self.members.push(Member {
                peer,
                away_since: Some(now),
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
    /// all that the sender knows to be done. Returns the numbers of `held` that are assigned to other receivers. What
    /// was assigned to this one, and is neither `held` nor `done`, is free.
    pub fn report(
        &mut self,
        peer: usize,
        generation: u64,
        wanted: u64,
        held: &RangeSet,
        done: &RangeSet,
    ) -> RangeSet {
        let held = held.without(done);
        let mut others = RangeSet::default();
        for member in self.members.iter().filter(|member| member.peer != peer) {
            others.add_all(&member.assigned, u64::MAX);
        }
        self.end_burst();
        let Some(at) = self.find(peer) else { return RangeSet::default() };
        let own = held.without(&others);
        let member = &mut self.members[at];
        (member.away_since, member.generation, member.wanted) = (None, generation, wanted);
        (member.sent, member.frames, member.load) = (0, 0, own.count());
        let taken = held.without(&own);
        member.assigned = own;
        taken
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
            member.assigned = member.assigned.without(done);
            member.load = member.load.min(member.assigned.count());
        }
    }

    /// All numbers that receivers have.
    pub fn assigned(&self) -> RangeSet {
        let mut all = RangeSet::default();
        self.members.iter().for_each(|member| all.add_all(&member.assigned, u64::MAX));
        all
    }

    /// The member that gets a message, or the first part of one, or a further part, which follows the one before it.
    /// `has_credit`: a peer has credit left. None: none of them can take it now.
    pub fn choose(
        &mut self,
        number: u64,
        is_first: bool,
        has_credit: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if !is_first && let Some(at) = self.owner(number - 1) {
            let member = &self.members[at];
            return (member.away_since.is_none() && has_credit(member.peer)).then_some(at);
        }
        let can_take = |member: &Member| member.is_ready() && member.room() > 0 && has_credit(member.peer);
        if let Some((at, left)) = self.row.filter(|(at, _)| can_take(&self.members[*at])) {
            self.row = (left > 1).then_some((at, left - 1));
            return Some(at);
        }
        let ready = self.members.iter().enumerate().filter(|(_, member)| can_take(member));
        let (at, member) = ready.min_by(|(_, one), (_, other)| {
            // Compares the load of two members relative to their capacity: load / (load + room).
            let share = |one: &Member, other: &Member| u128::from(one.load) * u128::from(other.room());
            share(one, other).cmp(&share(other, one)).then(one.turn.cmp(&other.turn))
        })?;
        self.turn += 1;
        self.row = Some((at, (member.room() / 4).min(MOST_IN_ROW))).filter(|(_, left)| *left > 0);
        self.members[at].turn = self.turn;
        Some(at)
    }

    fn owner(&self, number: u64) -> Option<usize> {
        self.members.iter().position(|member| member.assigned.contains(number))
    }

    /// A chosen member gets a number. `ends`: the message is complete with it.
    pub fn assign(&mut self, member: usize, number: u64, ends: bool) {
        let member = &mut self.members[member];
        member.assigned.add(number, number);
        if ends {
            member.sent += 1;
            member.load += 1;
        }
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
