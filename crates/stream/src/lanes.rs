//! Lanes: how far each stream of a sender has been sent, out of one log that all streams share.
//!
//! The log is read from its *tail* on, once for all streams. A lane that has sent everything up to the tail is
//! *current*, and is served by that read. Any other lane is *behind*: its peer was away, or gave no credit. It is
//! served from its own position, by a read that serves all lanes in that part of the log. So a slow peer costs reads of
//! the log, and no queue.
//!
//! A lane belongs to a peer. It is not ready until the peer has said what it has, and after the peer's connection is
//! lost. A lane whose message finds no credit is *stalled*, and is behind from that message on once there is more.
//!
//! Guarantees: numbers go out in ascending order, each at most once between two calls of `resume`, and none that the
//! peer reported as done; nothing is sent without credit. Each read makes progress, and the lanes furthest behind are
//! served first.
//!
//! In a loop, call [`furthest_behind`](Lanes::furthest_behind), read the log from there, [`offer`](Lanes::offer) each
//! message, and report how far the read came to [`served_behind`](Lanes::served_behind). Then do the same from the
//! [`tail`](Lanes::tail), with [`set_tail`](Lanes::set_tail). Events call the other methods in between.
//!
//! ```
//! use pinnace_stream::{Lanes, RangeSet, Served};
//!
//! let mut lanes: Lanes<u64, &str> = Lanes::new(Some(0));
//! let peer = lanes.add_peer(1000);
//! lanes.add_lane(1, peer, "orders");
//! lanes.connect(peer);
//! lanes.resume(1, 0, RangeSet::default(), None);
//!
//! // Message 1, at position 0 of the log: there is no credit yet.
//! let mut lane = lanes.offer(1, 1, 0, Served::Current).unwrap();
//! assert_eq!(lane.advance_to(1, 10), None);
//! lane.stall(0);
//! lanes.set_tail(1);
//!
//! lanes.grant(peer, 500);
//! assert_eq!(lanes.furthest_behind(), Some(0));
//! let mut lane = lanes.offer(1, 1, 0, Served::Behind).unwrap();
//! assert_eq!(lane.advance_to(1, 10), Some(0), "it follows number 0");
//! assert_eq!(lanes.served_behind(0, 1), [1]);
//! assert_eq!(lanes.furthest_behind(), None, "it is current again");
//! ```

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::FixedState;

use crate::{RangeSet, SenderCredit};

/// The lanes that a read of the log serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// The read continues at the tail.
    Current,
    /// The read begins at the position of the lanes that are furthest behind.
    Behind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State<P> {
    /// The peer has not said what it has of the stream.
    NotReady,
    /// Next are the messages after the tail.
    Current,
    /// Next are the messages from this position on.
    Behind(P),
    /// As `Behind`, once the peer grants more credit.
    Stalled(P),
}

/// The progress of one stream, and what its owner keeps with it.
#[derive(Debug)]
pub struct Lane<P, T> {
    peer: usize,
    state: State<P>,
    /// The last number sent. Messages up to it are skipped.
    sent: u64,
    /// What the peer reported as done when it resumed.
    done: RangeSet,
    data: T,
}

/// A peer's connection.
#[derive(Debug)]
struct LanePeer {
    is_connected: bool,
    window: u64,
    /// Of this connection.
    credit: SenderCredit,
    lanes: Vec<u32>,
    /// Exactly the lanes in state `Stalled`.
    stalled: Vec<u32>,
}

/// All lanes of a sender. `P`: a position in its log. `T`: what the owner keeps with each lane.
#[derive(Debug)]
pub struct Lanes<P, T> {
    /// By stream number.
    lanes: HashMap<u32, Lane<P, T>, FixedState>,
    peers: Vec<LanePeer>,
    /// Exactly the lanes in state `Behind`, by position.
    behind: BTreeSet<(P, u32)>,
    tail: Option<P>,
}

/// A lane with its peer's credit: what can be sent on it now.
#[derive(Debug)]
pub struct LaneMut<'a, P, T> {
    stream: u32,
    lane: &'a mut Lane<P, T>,
    peer: &'a mut LanePeer,
    behind: &'a mut BTreeSet<(P, u32)>,
}

impl<P: Copy + Ord, T> Lane<P, T> {
    /// The index of its peer.
    pub fn peer(&self) -> usize {
        self.peer
    }

    /// Returns true if the peer has said what it has of the stream, on this connection.
    pub fn is_ready(&self) -> bool {
        self.state != State::NotReady
    }

    /// Returns true if everything up to the tail has been sent.
    pub fn is_current(&self) -> bool {
        self.state == State::Current
    }

    /// The last number sent.
    #[inline]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// What the peer reported as done when it resumed.
    pub fn done(&self) -> &RangeSet {
        &self.done
    }

    /// What the owner keeps with it.
    pub fn data(&self) -> &T {
        &self.data
    }
}

impl<P: Copy + Ord, T> LaneMut<'_, P, T> {
    /// The lane.
    #[inline]
    pub fn lane(&self) -> &Lane<P, T> {
        self.lane
    }

    /// What the owner keeps with it.
    #[inline]
    pub fn data_mut(&mut self) -> &mut T {
        &mut self.lane.data
    }

    /// Spends `cost` of the peer's credit and marks `number` as sent. Returns the number sent before it, or None
    /// without effect if the credit is exhausted.
    #[inline]
    #[must_use]
    pub fn advance_to(&mut self, number: u64, cost: u64) -> Option<u64> {
        if self.peer.credit.is_exhausted() {
            return None;
        }
        self.peer.credit.spend(cost);
        Some(std::mem::replace(&mut self.lane.sent, number))
    }

    /// Stops at `position`, until the peer grants credit.
    pub fn stall(self, position: P) {
        match self.lane.state {
            State::NotReady | State::Stalled(_) => return,
            State::Current => {}
            State::Behind(from) => drop(self.behind.remove(&(from, self.stream))),
        }
        self.lane.state = State::Stalled(position);
        self.peer.stalled.push(self.stream);
    }
}

impl<P: Copy + Ord, T> Lanes<P, T> {
    /// No lanes yet. `tail`: where the log is to be read on for current lanes, if that is known.
    pub fn new(tail: Option<P>) -> Lanes<P, T> {
        Lanes { lanes: HashMap::default(), peers: Vec::new(), behind: BTreeSet::new(), tail }
    }

    /// Adds a peer that is not connected. `window`: the most credit that it may grant, in bytes. Returns its index,
    /// which is one more than the last peer's.
    pub fn add_peer(&mut self, window: u64) -> usize {
        let (credit, lanes, stalled) = (SenderCredit::new(window), Vec::new(), Vec::new());
        self.peers.push(LanePeer { is_connected: false, window, credit, lanes, stalled });
        self.peers.len() - 1
    }

    /// Removes a peer's lanes. Its index is not used again.
    pub fn remove_peer(&mut self, peer: usize) {
        self.disconnect(peer);
        for stream in std::mem::take(&mut self.peers[peer].lanes) {
            self.lanes.remove(&stream);
        }
    }

    /// Adds a lane that is not ready. Returns false if there is one for this stream.
    pub fn add_lane(&mut self, stream: u32, peer: usize, data: T) -> bool {
        if self.lanes.contains_key(&stream) {
            return false;
        }
        let lane = Lane { peer, state: State::NotReady, sent: 0, done: RangeSet::default(), data };
        self.lanes.insert(stream, lane);
        self.peers[peer].lanes.push(stream);
        true
    }

    /// The lane of a stream.
    #[inline]
    pub fn lane(&self, stream: u32) -> Option<&Lane<P, T>> {
        self.lanes.get(&stream)
    }

    /// The lane of a stream with its peer's credit, to send on it outside of its turn.
    #[inline]
    pub fn lane_mut(&mut self, stream: u32) -> Option<LaneMut<'_, P, T>> {
        let lane = self.lanes.get_mut(&stream)?;
        let peer = &mut self.peers[lane.peer];
        Some(LaneMut { stream, lane, peer, behind: &mut self.behind })
    }

    /// A peer's streams, in the order in which they were added.
    pub fn streams_of(&self, peer: usize) -> &[u32] {
        &self.peers[peer].lanes
    }

    /// Returns true if the peer is connected.
    pub fn is_connected(&self, peer: usize) -> bool {
        self.peers[peer].is_connected
    }

    /// The credit that a peer has granted and that is not spent, in bytes. None: it is not connected.
    pub fn credit_left(&self, peer: usize) -> Option<u64> {
        let peer = &self.peers[peer];
        peer.is_connected.then(|| peer.credit.left())
    }

    /// Returns true if at least one peer is connected.
    pub fn is_any_connected(&self) -> bool {
        self.peers.iter().any(|peer| peer.is_connected)
    }

    /// A connection to the peer begins, without credit. Its lanes become ready one by one, by `resume`.
    pub fn connect(&mut self, peer: usize) {
        self.disconnect(peer);
        let peer = &mut self.peers[peer];
        (peer.is_connected, peer.credit) = (true, SenderCredit::new(peer.window));
    }

    /// The connection to the peer is lost, perhaps with sent messages: none of its lanes is ready.
    pub fn disconnect(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        peer.is_connected = false;
        peer.stalled.clear();
        for stream in &peer.lanes {
            let Some(lane) = self.lanes.get_mut(stream) else { continue };
            if let State::Behind(from) = std::mem::replace(&mut lane.state, State::NotReady) {
                self.behind.remove(&(from, *stream));
            }
        }
    }

    /// The peer reports that it received the stream up to `received`, and `done` beyond it. `position`: the log
    /// position of the first message after `received`; None: the log has none. Returns false, without effect, if there
    /// is no such lane or its peer is not connected.
    pub fn resume(&mut self, stream: u32, received: u64, done: RangeSet, position: Option<P>) -> bool {
        let Some(lane) = self.lanes.get_mut(&stream) else { return false };
        let peer = &mut self.peers[lane.peer];
        if !peer.is_connected {
            return false;
        }
        match lane.state {
            State::Behind(from) => drop(self.behind.remove(&(from, stream))),
            State::Stalled(_) => peer.stalled.retain(|other| *other != stream),
            State::NotReady | State::Current => {}
        }
        (lane.sent, lane.done) = (received, done);
        lane.state = State::Current;
        if let Some(position) = position.filter(|position| Some(*position) < self.tail) {
            lane.state = State::Behind(position);
            self.behind.insert((position, stream));
        }
        true
    }

    /// The peer grants credit up to `total` of this connection. Its stalled lanes are behind again.
    pub fn grant(&mut self, peer: usize, total: u64) {
        let peer = &mut self.peers[peer];
        peer.credit.grant(total);
        for stream in peer.stalled.drain(..) {
            let Some(lane) = self.lanes.get_mut(&stream) else { continue };
            if let State::Stalled(position) = lane.state {
                lane.state = State::Behind(position);
                self.behind.insert((position, stream));
            }
        }
    }

    /// Returns true if something may be sent to the peer now.
    #[inline]
    pub fn has_credit(&self, peer: usize) -> bool {
        self.peers[peer].is_connected && !self.peers[peer].credit.is_exhausted()
    }

    /// Spends credit of a peer for what is sent to it beside its lanes.
    #[inline]
    pub fn spend(&mut self, peer: usize, cost: u64) {
        self.peers[peer].credit.spend(cost);
    }

    /// The lane of a stream if this number may be sent on it now, as far as there is credit: it is served by this read,
    /// and has neither sent the number nor has its peer reported it as done. The caller then calls `advance_to`, or
    /// `stall`. `position`: that of the message in the log.
    #[inline]
    pub fn offer(
        &mut self,
        stream: u32,
        number: u64,
        position: P,
        serves: Served,
    ) -> Option<LaneMut<'_, P, T>> {
        let lane = self.lanes.get_mut(&stream)?;
        let is_its_turn = match lane.state {
            State::Current => serves == Served::Current,
            State::Behind(from) => serves == Served::Behind && from <= position,
            State::NotReady | State::Stalled(_) => false,
        };
        if !is_its_turn || number <= lane.sent || lane.done.contains(number) {
            return None;
        }
        let peer = &mut self.peers[lane.peer];
        Some(LaneMut { stream, lane, peer, behind: &mut self.behind })
    }

    /// The position of the lanes that are furthest behind.
    pub fn furthest_behind(&self) -> Option<P> {
        self.behind.first().map(|(position, _)| *position)
    }

    /// Called after the log was read from `from` up to `next` for lanes that are behind. All lanes in that range move
    /// to `next`, or become current if that is the tail. Returns those that have become current.
    pub fn served_behind(&mut self, from: P, next: P) -> Vec<u32> {
        let is_current = Some(next) >= self.tail;
        let mut moved = Vec::new();
        while let Some((position, stream)) = self.behind.first().copied()
            && (position <= from || position < next)
        {
            self.behind.pop_first();
            let Some(lane) = self.lanes.get_mut(&stream) else { continue };
            lane.state = if is_current { State::Current } else { State::Behind(next) };
            moved.push(stream);
        }
        if is_current {
            return moved;
        }
        self.behind.extend(moved.into_iter().map(|stream| (next, stream)));
        Vec::new()
    }

    /// The position up to which the log was read for current lanes.
    pub fn tail(&self) -> Option<P> {
        self.tail
    }

    /// The log was read up to `next` for current lanes; or it may be skipped up to there, as no peer is connected.
    pub fn set_tail(&mut self, next: P) {
        self.tail = Some(next);
    }
}
