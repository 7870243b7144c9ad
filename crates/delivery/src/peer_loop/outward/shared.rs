//! Streams whose messages several receivers share.
//!
//! Such a stream has one lane, whose peer is none of the receivers and has endless credit. A message that the lane
//! offers goes to the receiver that `Dispatch` chooses, and is charged to that receiver's credit; if there is none, the
//! lane stalls, until a receiver asks for more. Numbers that become free again lie behind the lane, which then resumes
//! at the first of them and skips those that are assigned or done.

mod held;
mod telling;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pinnace_engine::Outgoing;
use pinnace_stream::{Choice, Dispatch, Offer, RangeSet, Reported};

use super::Outward;
use super::ordering::{digest_of_key, keys_of};
use super::pass::LaneFrame;
use crate::environment::now;
use crate::peer_loop::peer::{Bound, Peer};
use crate::properties::ordering_key_in;
use crate::store::Store;
use crate::store::records::Receiver;
use crate::wire::{BEGINS, COST, Data, ENDS, Features, FrameEntry, FromSender, make_room, split};
use telling::{Telling, is_on_disk, recorded_done};
pub use waiting::HeldBack;

/// A shared stream.
pub(in crate::peer_loop) struct SharedStream {
    pub client: u32,
    topic: String,
    /// The index of the lane's peer.
    own_peer: usize,
    pub(super) dispatch: Dispatch,
    /// The frames gathered during a read, by member.
    frames: Vec<WorkFrame>,
    /// Connected receivers without the feature.
    older: BTreeSet<usize>,
    /// Connected receivers that first get what is bound to them, in order: the stream to each, and up to which number.
    bound: BTreeMap<usize, (u32, u64)>,
    /// Messages up to this number were recovered when the store was opened, and receivers that may have some of them:
    /// until these have reported, or were away for too long, no receiver gets such a message.
    recovered_upto: u64,
    unreported: Vec<String>,
    since: Instant,
    /// The client was told that these messages wait.
    is_told: bool,
    /// What is done, according to the disk.
    recorded: RangeSet,
    /// What each connected receiver knows as done, by peer.
    known: BTreeMap<usize, RangeSet>,
    /// The `Gone` frame that waits for its record to be on the disk.
    telling: Option<Telling>,
    /// The peers that get the `Gone` frame after that one.
    to_tell: BTreeSet<usize>,
}

/// A frame that is gathered for a receiver.
#[derive(Default)]
struct WorkFrame {
    bytes: Vec<u8>,
    prev: u64,
    time: u64,
}

/// What a receiver has of a shared stream.
pub struct Report {
    pub generation: u64,
    pub wanted: u64,
    pub held: RangeSet,
}

impl WorkFrame {
    fn flush(&mut self, peer: Option<&mut Peer>) {
        if let Some(peer) = peer.filter(|_| !self.bytes.is_empty()) {
            LaneFrame::send(&mut self.bytes, peer);
        }
        self.bytes.clear();
    }
}

impl Outward {
    /// Begins to share a stream. `known`: the receivers of its topic that may have messages from an earlier opening of
    /// the store.
    pub fn begin_sharing(&mut self, store: &Store, stream: u32, known: &[String]) {
        if !self.shared.contains_key(&stream) {
            return self.add_shared(store, stream, known);
        }
        let Some(shared) = self.shared.get_mut(&stream).filter(|shared| !shared.unreported.is_empty()) else {
            return;
        };
        shared.unreported.retain(|name| known.contains(name));
        self.resume_shared(store, stream);
    }

    /// Adds a receiver of a shared stream.
    pub fn share(&mut self, store: &Store, stream: u32, peer: usize) {
        let Some(shared) = self.shared.get_mut(&stream) else { return };
        let is_new = !shared.dispatch.has(peer);
        let name = self.peers[peer].as_ref().map_or(0, |peer| digest_of_key(&peer.name));
        shared.dispatch.join(peer, name, now());
        // It may have listened earlier, and be ready.
        self.lanes.grant(shared.own_peer, u64::MAX);
        self.to_serve.insert((stream, peer));
        let is_older = self.peer(peer).is_some_and(|peer| !peer.features.has(Features::SHARED));
        if (is_new || is_older) && self.lanes.is_connected(peer) {
            self.open_shared(store, stream, peer);
        }
    }

    fn add_shared(&mut self, store: &Store, stream: u32, known: &[String]) {
        let state = store.lock();
        let Some(of) = state.outbox.get(stream) else { return };
        let (client, topic) = (of.record.client, of.record.topic.clone());
        let recovered_upto = of.recovered_upto();
        let recorded = of.record.done.clone();
        drop(state);
        let own_peer = self.lanes.add_peer(u64::MAX);
        self.peers.push(None);
        self.lanes.add_lane(stream, own_peer, LaneFrame::new(&topic));
        let unreported = if recovered_upto > recorded.all_upto() { known.to_vec() } else { Vec::new() };
        let (dispatch, frames, older, bound, known, telling, to_tell) = Default::default();
        self.shared.insert(
            stream,
            SharedStream {
                client,
                topic,
                own_peer,
                dispatch,
                frames,
                older,
                bound,
                recovered_upto,
                unreported,
                since: now(),
                is_told: false,
                recorded,
                known,
                telling,
                to_tell,
            },
        );
    }

    /// How many messages of a shared stream each of its receivers has, by peer.
    pub fn loads(&self, stream: u32) -> Vec<(usize, u64)> {
        self.shared.get(&stream).map(|shared| shared.dispatch.loads().collect()).unwrap_or_default()
    }

    /// A receiver of a shared stream no longer listens on its topic.
    pub fn stop_sharing(&mut self, stream: u32, peer: usize) {
        if let Some(shared) = self.shared.get_mut(&stream) {
            shared.dispatch.stop(peer);
            shared.older.remove(&peer);
            if shared.dispatch.waits_for(peer) {
                self.to_offer.insert(stream);
            }
            shared.bound.remove(&peer);
        }
    }

    pub(super) fn is_shared_with(&self, stream: u32, peer: usize) -> bool {
        self.shared.get(&stream).is_some_and(|shared| shared.dispatch.has(peer))
    }

    fn shared_with(&self, peer: usize) -> Vec<u32> {
        self.shared
            .iter()
            .filter(|(_, shared)| shared.dispatch.has(peer))
            .map(|(stream, _)| *stream)
            .collect()
    }

    /// The peer accepts our streams.
    pub(super) fn open_all_shared(&mut self, store: &Store, index: usize) {
        if let Some(Some(peer)) = self.peers.get_mut(index) {
            peer.bound = bound_to(store, peer.client, &peer.name);
        }
        self.shared_with(index).into_iter().for_each(|stream| self.open_shared(store, stream, index));
    }

    fn open_shared(&mut self, store: &Store, stream: u32, index: usize) {
        let (Some(shared), Some(Some(peer))) = (self.shared.get_mut(&stream), self.peers.get_mut(index))
        else {
            return;
        };
        if !peer.features.has(Features::SHARED) {
            // It never reports. What it had before it was replaced by an earlier build is free.
            let nothing = RangeSet::default();
            shared.unreported.retain(|name| *name != peer.name);
            shared.dispatch.report(index, 0, 0, &nothing, &nothing);
            shared.dispatch.disconnect(index, now());
            shared.older.insert(index);
            self.watched.insert(stream);
            return self.resume_shared(store, stream);
        }
        let is_bound = |of: &&Bound| of.topic == shared.topic && !is_gone(store, of.stream, of.upto);
        if let Some(bound) = peer.bound.iter().find(is_bound) {
            shared.bound.insert(index, (bound.stream, bound.upto));
            self.watched.insert(stream);
            return;
        }
        let (done, recorded_in) = recorded_done(store, stream);
        if is_on_disk(store, recorded_in) {
            shared.recorded = done;
        } else {
            shared.to_tell.insert(index);
            shared.tell_when_recorded(recorded_in, done);
            self.watched.insert(stream);
        }
        shared.known.insert(index, shared.recorded.clone());
        let (number, topic) = (u64::from(stream), &shared.topic);
        peer.send_gone(number, &shared.recorded, |gone| FromSender::Share { stream: number, topic, gone });
    }

    /// Shares streams with receivers that have got what was bound to them.
    pub fn share_after_bound(&mut self, store: &Store) {
        for stream in std::mem::take(&mut self.watched) {
            let Some(shared) = self.shared.get_mut(&stream) else { continue };
            if shared.is_watched() {
                self.watched.insert(stream);
            }
            let gone = |_: &usize, (own, upto): &mut (u32, u64)| is_gone(store, *own, *upto);
            let ready: Vec<usize> = shared.bound.extract_if(.., gone).map(|(peer, _)| peer).collect();
            ready.into_iter().for_each(|peer| self.open_shared(store, stream, peer));
        }
    }

    /// The connection to a receiver is lost.
    pub(super) fn leave_shared(&mut self, peer: usize) {
        for stream in self.shared_with(peer) {
            let Some(shared) = self.shared.get_mut(&stream) else { continue };
            shared.dispatch.disconnect(peer, now());
            shared.older.remove(&peer);
            shared.bound.remove(&peer);
            shared.known.remove(&peer);
            shared.to_tell.remove(&peer);
            if let Some(telling) = &mut shared.telling {
                telling.peers.remove(&peer);
            }
            if !shared.has_receivers() {
                self.lanes.disconnect(shared.own_peer);
            }
            if shared.dispatch.waits_for(peer) {
                self.to_offer.insert(stream);
            }
            self.has_left = true;
        }
    }

    /// A receiver says what it has. The store has recorded what it says is done.
    pub fn reported(&mut self, store: &Store, stream: u32, index: usize, report: &Report) {
        let done = done_of(store, stream);
        let Some(shared) = self.shared.get_mut(&stream) else { return };
        shared.dispatch.finish(&done);
        let Report { generation, wanted, held } = report;
        let Reported { mut taken, regained } =
            shared.dispatch.report(index, *generation, *wanted, held, &done);
        for (key, number) in keys_of(store, stream, &regained) {
            if !shared.dispatch.regain(index, number, key, now()) {
                taken.add(number, number);
            }
        }
        let peer = self.peers.get_mut(index).and_then(Option::as_mut);
        if let Some(peer) = peer {
            shared.unreported.retain(|name| *name != peer.name);
            for taken in split(&taken).filter(|taken| taken.last() > 0) {
                let taken = FromSender::Taken { stream: u64::from(stream), taken };
                peer.send(Outgoing::Bytes(&taken.write()));
            }
        }
        self.resume_shared(store, stream);
    }

    /// A receiver asks for more.
    pub fn wanted(&mut self, stream: u32, peer: usize, generation: u64, wanted: u64) {
        let Some(shared) = self.shared.get_mut(&stream) else { return };
        shared.dispatch.want(peer, generation, wanted);
        self.lanes.grant(shared.own_peer, u64::MAX);
        self.to_serve.insert((stream, peer));
    }

    /// A receiver grants credit.
    pub fn grant(&mut self, peer: usize, bytes: u64) {
        let had_some = self.lanes.has_credit(peer);
        self.lanes.grant(peer, bytes);
        if had_some {
            return;
        }
        for stream in std::mem::take(&mut self.starved) {
            let Some(shared) = self.shared.get(&stream) else { continue };
            let is_receiver = shared.dispatch.has(peer);
            if is_receiver {
                self.lanes.grant(shared.own_peer, u64::MAX);
                self.to_serve.insert((stream, peer));
            }
            if !is_receiver || shared.dispatch.has_deferred() {
                self.starved.insert(stream);
            }
        }
    }

    /// Shared streams with a receiver of an earlier build.
    pub fn older(&self) -> Vec<(u32, usize)> {
        let watched = self.watched.iter().filter_map(|stream| Some((stream, self.shared.get(stream)?)));
        watched.flat_map(|(stream, shared)| shared.older.iter().map(|peer| (*stream, *peer))).collect()
    }

    /// Resumes the lane of a shared stream at the first number that is neither assigned nor done.
    pub fn resume_shared(&mut self, store: &Store, stream: u32) {
        let Some(shared) = self.shared.get_mut(&stream) else { return };
        if !shared.has_receivers() {
            return;
        }
        if !self.lanes.is_connected(shared.own_peer) {
            self.lanes.connect(shared.own_peer);
            self.lanes.grant(shared.own_peer, u64::MAX);
        }
        shared.dispatch.offer_again(!shared.unreported.is_empty());
        let skipped = shared.skipped(store, stream);
        let sent = skipped.next_missing(0) - 1;
        let position = store.lock().outbox.get(stream).and_then(|of| of.position_after(sent));
        if self.lanes.resume(stream, sent, skipped, position) {
            self.held.insert(stream);
        }
    }

    /// What no further receiver may get now: what is done, is assigned, or may be in a receiver that has not reported.
    pub fn skipped_of(&self, store: &Store, stream: u32) -> RangeSet {
        self.shared.get(&stream).map(|shared| shared.skipped(store, stream)).unwrap_or_default()
    }

    /// Frees the messages of receivers of a client's streams that were away for `patience`, and offers those again that
    /// wait for a receiver in vain. Returns when to call it again.
    pub fn free_shared(&mut self, store: &Store, client: u32, patience: Option<Duration>) -> Option<Instant> {
        let (time, mut next) = (now(), None);
        let own = self.shared.iter_mut().filter(|(_, shared)| shared.client == client);
        let mut freed = Vec::new();
        for (stream, shared) in own {
            let mut is_freed = shared.dispatch.waits_in_vain(time);
            let expected = shared.dispatch.next_expected(time);
            let (mut due, mut known_at) = (None, None);
            if let Some(patience) = patience {
                let (free, next) = shared.dispatch.free_after(time, patience);
                (is_freed, due) = (is_freed || free.last() > 0, next);
            }
            if let Some(patience) = patience.filter(|_| !shared.unreported.is_empty()) {
                known_at = Some(shared.since + patience).filter(|at| *at > time);
                if known_at.is_none() {
                    shared.unreported.clear();
                    is_freed = true;
                }
            }
            if is_freed {
                freed.push(*stream);
            }
            next = [next, due, known_at, expected].into_iter().flatten().min();
        }
        self.has_freed |= !freed.is_empty();
        freed.into_iter().for_each(|stream| self.resume_shared(store, stream));
        next
    }

    /// Removes the shared streams of a client.
    pub(super) fn remove_shared(&mut self, client: u32) {
        for (_, shared) in self.shared.extract_if(.., |_, shared| shared.client == client) {
            self.lanes.remove_peer(shared.own_peer);
        }
    }

    /// Sends the frames gathered for a shared stream.
    pub(super) fn flush_shared(&mut self, stream: u32) {
        let Some(shared) = self.shared.get_mut(&stream) else { return };
        for (member, frame) in shared.frames.iter_mut().enumerate() {
            frame.flush(self.peers[shared.dispatch.peer(member)].as_mut());
        }
        shared.dispatch.end_burst();
    }

    /// Returns true if a receiver has got the part before this one: it gets the whole message. `begins`: this is the
    /// first part of a message.
    pub(super) fn has_begun(&self, stream: u32, seq: u64, begins: bool) -> bool {
        let shared = self.shared.get(&stream).filter(|_| !begins);
        shared.is_some_and(|shared| shared.dispatch.is_assigned(seq - 1))
    }

    /// Sends a message that the lane of a shared stream offers, or defers it. Returns false if no receiver can take it
    /// now, and later ones must wait too.
    pub(super) fn hand_out(&mut self, stream: u32, entry: &FrameEntry<'_>) -> bool {
        let (Some(shared), lanes) = (self.shared.get_mut(&stream), &self.lanes) else { return false };
        let (is_first, ends) = (entry.flags & BEGINS != 0, entry.flags & ENDS != 0);
        let key = ordering_key_in(entry.flags, entry.body).map(|key| (digest_of_key(key), now()));
        let offer = Offer { number: entry.seq, is_first, key };
        let member = match shared.dispatch.choose(&offer, |peer| lanes.has_credit(peer)) {
            Choice::Member(member) => member,
            Choice::Deferred => {
                if let Some(mut lane) = self.lanes.lane_mut(stream) {
                    let _ = lane.advance_to(entry.seq, 0);
                }
                self.starved.insert(stream);
                return true;
            }
            Choice::Nobody => {
                self.starved.insert(stream);
                return false;
            }
        };
        self.give(stream, member, entry);
        if let Some(mut lane) = self.lanes.lane_mut(stream) {
            // The lane's own credit has no end.
            let _ = lane.advance_to(entry.seq, 0);
            lane.data_mut().sent.add(entry.seq, u64::from(ends));
        }
        true
    }

    /// Sends a message to a member that can take it.
    pub(super) fn give(&mut self, stream: u32, member: usize, entry: &FrameEntry<'_>) {
        let Some(shared) = self.shared.get_mut(&stream) else { return };
        let index = shared.dispatch.peer(member);
        let Some(peer) = self.peers[index].as_mut() else { return };
        let (flags, body) = peer.fit(entry.flags, entry.body);
        let entry = FrameEntry { flags, body: &body, ..*entry };
        if shared.frames.len() <= member {
            shared.frames.resize_with(member + 1, WorkFrame::default);
        }
        let frame = &mut shared.frames[member];
        if !entry.fits(frame.bytes.len(), frame.time) {
            frame.flush(Some(peer));
        }
        make_room(&mut frame.bytes, &entry);
        if frame.bytes.is_empty() {
            let (generation, at) = shared.dispatch.send_frame(member);
            (frame.prev, frame.time) = (entry.seq - 1, entry.accepted_ms);
            let data = (u64::from(stream), frame.prev, frame.time);
            Data::begin_work(&mut frame.bytes, generation, at, data);
            if self.touched.last() != Some(&stream) {
                self.touched.push(stream);
            }
        }
        entry.put(&mut frame.bytes, frame.prev, frame.time);
        frame.prev = entry.seq;
        shared.dispatch.assign(member, entry.seq, entry.flags & ENDS != 0);
        self.lanes.spend(index, COST + entry.body.len() as u64);
    }
}

impl SharedStream {
    /// Receivers that may have messages of the sender's earlier process, and have not reported.
    pub fn unreported(&self) -> &[String] {
        &self.unreported
    }

    fn is_watched(&self) -> bool {
        !(self.older.is_empty() && self.bound.is_empty() && self.telling.is_none())
    }

    /// Returns true if a receiver with the feature is connected.
    pub fn has_receivers(&self) -> bool {
        self.dispatch.connected().next().is_some()
    }

    fn skipped(&self, store: &Store, stream: u32) -> RangeSet {
        let mut skipped = done_of(store, stream);
        skipped.add_all(&self.dispatch.assigned(), u64::MAX);
        if !self.unreported.is_empty() {
            skipped.add_upto(self.recovered_upto);
        }
        skipped
    }
}

/// The streams with messages to one that are bound to a receiver. None is added while the receiver is connected.
fn bound_to(store: &Store, client: u32, receiver: &str) -> Vec<Bound> {
    let (state, receiver) = (store.lock(), Receiver::Client(receiver.to_owned()));
    let own = state.outbox.iter().filter(|of| of.record.client == client && of.record.receiver == receiver);
    let bound = own.map(|of| {
        let topic = of.record.topic.clone();
        Bound { topic, stream: of.record.number, upto: of.bound_upto() }
    });
    bound.filter(|bound| bound.upto > 0).collect()
}

/// Returns true if a stream has no message up to a number.
fn is_gone(store: &Store, stream: u32, upto: u64) -> bool {
    store.lock().outbox.get(stream).is_none_or(|of| of.is_gone_upto(upto))
}

/// What is done of a stream, and the numbers that no message has.
pub(super) fn done_of(store: &Store, stream: u32) -> RangeSet {
    let state = store.lock();
    let Some(of) = state.outbox.get(stream) else { return RangeSet::default() };
    of.gone().clone()
}
