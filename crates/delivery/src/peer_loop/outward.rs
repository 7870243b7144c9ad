//! Outgoing messages: from the log to the peers.
//!
//! Each stream has a lane, which says from where on the log is to be read for it (`pinnace_stream::Lanes`). This module
//! reads the log, packs the messages into frames, and adds the volatile messages that are not in the log.

mod ordering;
mod pass;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use pinnace_engine::Outgoing;
use pinnace_stream::{Lanes, RangeSet, Served};

use super::network::PeerLink;
use super::peer::{AnswerState, Left, Peer};
use crate::environment::{credit_limits, now};
use crate::log::{Log, LogError, Position};
use crate::store::Store;
use crate::store::records::{self, Inherited, MessageRecord};
use crate::wire::{FromSender, WINDOW};
pub use pass::SentCounts;
use pass::{LaneFrame, Pass};
pub(in crate::peer_loop) use shared::SharedStream;
pub use shared::{HeldBack, Report};

/// The pause before a peer that refused us is connected to again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// The pause before reconnecting to a peer under a new id.
const FORK_RECONNECT_AFTER: Duration = Duration::from_millis(50);
/// Bytes of the log read at once.
const READ_BYTES: usize = 512 << 10;

/// All lanes of a store.
pub struct Outward {
    /// A peer has the same index here and in `lanes`.
    pub peers: Vec<Option<Peer>>,
    pub lanes: Lanes<Position, LaneFrame>,
    /// Streams that may have unsent volatile messages. `pump` adds a stream again when its lane becomes current.
    held: BTreeSet<u32>,
    /// Frames that report messages as done, and wait until the log's record of that is on the disk. If a power cut took
    /// the record, the restarted sender would send the messages again, and the peer would drop them as done.
    untold: BTreeMap<u32, Untold>,
    /// Streams that have inherited the messages of a stream up to a number: those messages are theirs too.
    heirs: HashMap<u32, Vec<(u32, u64)>>,
    /// Streams that several receivers share.
    pub shared: BTreeMap<u32, SharedStream>,
    /// Shared streams that the loop looks at in each turn. Each has a `Gone` frame that waits for the disk, a receiver
    /// that gets bound messages first, or a receiver of an earlier build.
    watched: BTreeSet<u32>,
    /// Shared streams with a message that no receiver could take. `grant` resumes them.
    starved: BTreeSet<u32>,
    /// Shared streams whose free numbers are to be offered again.
    to_offer: BTreeSet<u32>,
    /// Shared streams and receivers that may be able to take what waits for them.
    to_serve: BTreeSet<(u32, usize)>,
    /// A receiver of a shared stream is away since the last look.
    pub has_left: bool,
    /// Messages became free that are to be sent now.
    pub has_freed: bool,
    buffer: Vec<u8>,
    touched: Vec<u32>,
}

/// What waits to be told of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Untold {
    Open,
    Gone,
}

/// Expired messages: the stream, and the first and last number of a range.
pub type Expired = (u32, u64, u64);

impl Outward {
    /// Starts at the last segment of the log, after everything found when it was opened.
    pub fn new(log: &Log) -> Outward {
        let tail = log.segments().last().map(|segment| Log::start_of(*segment));
        let lanes = Lanes::new(tail);
        let (peers, held, untold, heirs, shared) = Default::default();
        let (watched, starved, to_offer, to_serve, has_left, has_freed, buffer, touched) = Default::default();
        Outward {
            peers,
            lanes,
            held,
            untold,
            heirs,
            shared,
            watched,
            starved,
            to_offer,
            to_serve,
            has_left,
            has_freed,
            buffer,
            touched,
        }
    }

    pub fn peer(&mut self, index: usize) -> Option<&mut Peer> {
        self.peers.get_mut(index)?.as_mut()
    }

    pub fn find(&self, client: u32, name: &str) -> Option<usize> {
        self.peers
            .iter()
            .position(|peer| peer.as_ref().is_some_and(|peer| peer.client == client && peer.name == name))
    }

    pub fn add_peer(&mut self, client: u32, name: &str, endpoint: &str, link: Box<dyn PeerLink>) -> usize {
        let index = self.lanes.add_peer(credit_limits(WINDOW, 0).0);
        debug_assert_eq!(index, self.peers.len());
        self.peers.push(Some(Peer::new(client, name, endpoint, link)));
        index
    }

    /// Sets a peer's new endpoint. A live connection keeps its old endpoint until it is lost.
    pub fn move_peer(&mut self, index: usize, endpoint: &str) {
        let Some(Some(peer)) = self.peers.get_mut(index) else { return };
        peer.elsewhere = (peer.endpoint != endpoint).then(|| endpoint.to_owned());
        if peer.answer == AnswerState::NotExpected {
            peer.await_answer();
        }
        if !self.lanes.is_connected(index) {
            peer.move_on();
        }
    }

    /// Removes a client's peers.
    pub fn remove_client(&mut self, client: u32) {
        for index in 0..self.peers.len() {
            if self.peers[index].as_ref().is_some_and(|peer| peer.client == client) {
                self.lost(index);
                self.peers[index] = None;
                self.lanes.remove_peer(index);
            }
        }
        self.remove_shared(client);
    }

    /// The stream of this number, if it goes to this peer.
    pub fn stream_of(&self, index: usize, stream: u64) -> Option<u32> {
        let stream = u32::try_from(stream).ok()?;
        let is_own = self.lanes.lane(stream).is_some_and(|lane| lane.peer() == index);
        (is_own || self.is_shared_with(stream, index)).then_some(stream)
    }

    /// What was sent of a stream.
    pub fn sent_of(&self, stream: u32) -> SentCounts {
        self.lanes.lane(stream).map(|lane| lane.data().sent).unwrap_or_default()
    }

    /// Adds a stream to a peer, and opens it at once if the peer is connected.
    pub fn add_lane(&mut self, store: &Store, stream: u32, peer: usize, topic: &str) {
        if !self.lanes.add_lane(stream, peer, LaneFrame::new(topic)) {
            return;
        }
        let inherited = store.lock().outbox.get(stream).and_then(|of| of.record.inherited);
        if let Some(Inherited { from, upto }) = inherited {
            let heirs = self.heirs.entry(from).or_default();
            heirs.retain(|(heir, _)| *heir != stream);
            heirs.push((stream, upto));
        }
        if self.lanes.is_connected(peer) {
            self.open(store, stream);
        }
    }

    /// What is done of a stream. None: the record of it is not on the disk yet, and `what` is told later.
    fn recorded_done(&mut self, store: &Store, stream: u32, what: Untold) -> Option<RangeSet> {
        let (done, recorded_in) = {
            let state = store.lock();
            let of = state.outbox.get(stream);
            (of.map(|of| of.record.done.clone()).unwrap_or_default(), of.map_or(0, |of| of.done_in))
        };
        let is_recorded =
            recorded_in == 0 || store.log().progress().is_ok_and(|(_, durable)| recorded_in <= durable);
        match (is_recorded, self.untold.get(&stream)) {
            (true, _) => drop(self.untold.remove(&stream)),
            (false, Some(Untold::Open)) => {}
            (false, _) => drop(self.untold.insert(stream, what)),
        }
        is_recorded.then_some(done)
    }

    /// Tells the peers what had to wait for the disk.
    pub fn tell_recorded(&mut self, store: &Store) {
        self.tell_shared(store);
        for (stream, what) in std::mem::take(&mut self.untold) {
            let is_connected = |peer: usize| self.lanes.is_connected(peer);
            match (self.lanes.lane(stream).is_some_and(|lane| is_connected(lane.peer())), what) {
                (true, Untold::Open) => self.open(store, stream),
                (true, Untold::Gone) => self.tell_gone(store, stream),
                (false, _) => {}
            }
        }
    }

    fn open(&mut self, store: &Store, stream: u32) {
        if store.lock().outbox.is_behind_former(stream) {
            self.untold.insert(stream, Untold::Open);
            return;
        }
        let Some(gone) = self.recorded_done(store, stream, Untold::Open) else { return };
        let Some(lane) = self.lanes.lane(stream) else { return };
        if let Some(peer) = self.peers[lane.peer()].as_mut() {
            let (stream, topic) = (u64::from(stream), &lane.data().topic);
            peer.send_gone(stream, &gone, |gone| FromSender::Open { stream, topic, gone });
        }
    }

    /// The peer accepts our streams: open them.
    pub fn welcome(&mut self, store: &Store, index: usize) {
        let Some(peer) = self.peer(index) else { return };
        (peer.was_refused, peer.problem) = (false, None);
        peer.set_answer(AnswerState::Answered);
        self.lanes.connect(index);
        for stream in self.lanes.streams_of(index).to_vec() {
            self.open(store, stream);
        }
        self.open_all_shared(store, index);
    }

    /// Tells the peer which messages of a stream are no longer here.
    pub fn tell_gone(&mut self, store: &Store, stream: u32) {
        if self.shared.contains_key(&stream) {
            return self.finished(store, stream, None);
        }
        let Some(peer) = self.lanes.lane(stream).filter(|lane| lane.is_ready()).map(|lane| lane.peer())
        else {
            return;
        };
        let Some(gone) = self.recorded_done(store, stream, Untold::Gone) else { return };
        if let Some(peer) = self.peers[peer].as_mut() {
            let stream = u64::from(stream);
            peer.send_gone(stream, &gone, |gone| FromSender::Gone { stream, gone });
        }
    }

    /// The connection to the peer is lost, and perhaps sent frames with it.
    pub fn lost(&mut self, index: usize) {
        let Some(Some(peer)) = self.peers.get_mut(index) else { return };
        if self.lanes.is_connected(index) {
            peer.await_answer();
        }
        peer.end_connection();
        self.lanes.disconnect(index);
        peer.move_on();
        self.leave_shared(index);
    }

    /// The peer refuses our streams; a new connection asks it again later. Returns the client and the peer's name if
    /// the peer had accepted them before, or was never asked.
    pub fn refused(&mut self, index: usize) -> Option<(u32, String)> {
        self.lost(index);
        let peer = self.peer(index)?;
        peer.again_at = Some(now() + ASK_AGAIN_AFTER);
        peer.set_answer(AnswerState::Answered);
        let is_news = !std::mem::replace(&mut peer.was_refused, true);
        is_news.then(|| (peer.client, peer.name.clone()))
    }

    /// Disconnects from the peer, and schedules a reconnect under the new id, after the peer has noticed the
    /// disconnect.
    pub fn part(&mut self, index: usize) {
        self.lost(index);
        let Some(peer) = self.peer(index) else { return };
        (peer.is_forked, peer.again_at) = (true, Some(now() + FORK_RECONNECT_AFTER));
        peer.link.disconnect(&peer.endpoint);
    }

    /// Peers with a frame that could not be sent, since the last call.
    pub fn take_full(&mut self) -> Vec<usize> {
        let peers = self.peers.iter_mut().enumerate();
        let is_full =
            |peer: &mut Option<Peer>| peer.as_mut().is_some_and(|peer| std::mem::take(&mut peer.is_full));
        peers.filter_map(|(index, peer)| is_full(peer).then_some(index)).collect()
    }

    /// Peers for which properties were left out, each once: the client, and the peer's name.
    pub fn take_left_out(&mut self) -> Vec<(u32, String)> {
        let left_out = self.peers.iter_mut().flatten().filter(|peer| peer.properties == Left::Out);
        left_out
            .map(|peer| {
                peer.properties = Left::OutAndReported;
                (peer.client, peer.name.clone())
            })
            .collect()
    }

    /// Reconnects to peers that are due. Returns when the next is due, if there is one.
    pub fn ask_again(&mut self) -> Option<Instant> {
        let now = now();
        let mut next: Option<Instant> = None;
        for peer in self.peers.iter_mut().flatten() {
            match peer.again_at {
                Some(at) if at <= now => {
                    peer.again_at = None;
                    peer.link.disconnect(&peer.endpoint);
                    // A failure was reported when the link was made.
                    let _ = peer.link.connect(&peer.endpoint);
                }
                Some(at) => next = next.into_iter().chain([at]).min(),
                None => {}
            }
        }
        next
    }

    /// A peer whose missing answer is to be looked at now.
    pub fn next_silent(&mut self) -> Option<&mut Peer> {
        let time = now();
        self.peers.iter_mut().flatten().find(|peer| peer.check_at().is_some_and(|at| at <= time))
    }

    /// When the next missing answer is to be looked at.
    pub fn answer_deadline(&self) -> Option<Instant> {
        self.peers.iter().flatten().filter_map(Peer::check_at).min()
    }

    /// Resumes a stream after `received`, without what is done.
    pub fn resume(&mut self, store: &Store, stream: u32, received: u64, done: RangeSet) {
        let position = store.lock().outbox.get(stream).and_then(|stream| stream.position_after(received));
        if self.lanes.resume(stream, received, done, position) {
            self.held.insert(stream);
        }
    }

    /// Resumes a stream after `received`, on the same connection.
    pub fn resend(&mut self, store: &Store, stream: u32, received: u64) {
        let Some(lane) = self.lanes.lane(stream) else { return };
        let done = lane.done().clone();
        self.resume(store, stream, received, done);
    }

    /// Sends for a while. Returns false if there is nothing more to send now, and the messages found expired.
    pub fn pump(&mut self, store: &Store, now_ms: u64) -> Result<(bool, Vec<Expired>), LogError> {
        let mut expired = Vec::new();
        for stream in std::mem::take(&mut self.to_offer) {
            self.resume_shared(store, stream);
        }
        let mut moved = self.serve_deferred(store, now_ms, &mut expired)?;
        let behind = self.lanes.furthest_behind();
        if let Some(from) = behind {
            let next = self.pass(store, from, Served::Behind, now_ms, &mut expired)?;
            self.held.extend(self.lanes.served_behind(from, next));
        }
        moved |= behind.is_some();
        if !self.lanes.is_any_connected() {
            // No lane is current. A lane that becomes current starts at its own position.
            self.lanes.set_tail(store.log().end());
        } else if let Some(tail) = self.lanes.tail() {
            let next = self.pass(store, tail, Served::Current, now_ms, &mut expired)?;
            moved |= next != tail;
            self.lanes.set_tail(next);
        }
        moved |= self.send_held(store, now_ms, &mut expired);
        self.flush_all();
        Ok((moved, expired))
    }

    /// Sends volatile messages of streams that have sent all logged messages before them.
    fn send_held(&mut self, store: &Store, now_ms: u64, expired: &mut Vec<Expired>) -> bool {
        self.held.extend(store.lock().take_held());
        let (mut moved, held) = (false, std::mem::take(&mut self.held));
        for stream in held {
            let Some(lane) = self.lanes.lane(stream).filter(|lane| lane.is_current()) else { continue };
            let before = lane.sent();
            let all = match self.shared.contains_key(&stream) {
                true => self.hand_out_held(store, stream, u64::MAX, now_ms, expired),
                false => self.send_held_below(store, stream, u64::MAX, now_ms, expired),
            };
            moved |= self.lanes.lane(stream).is_some_and(|lane| lane.sent() != before);
            if !all {
                self.held.insert(stream);
            }
        }
        moved
    }

    /// Sends a stream's volatile messages with numbers below `below`. Returns false if some must wait.
    fn send_held_below(
        &mut self,
        store: &Store,
        stream: u32,
        below: u64,
        now_ms: u64,
        expired: &mut Vec<Expired>,
    ) -> bool {
        let tail = self.lanes.tail();
        let Some(mut lane) = self.lanes.lane_mut(stream) else { return true };
        let Some(peer) = self.peers[lane.lane().peer()].as_mut() else { return true };
        let mut at = lane.lane().sent();
        loop {
            let run = store.lock().outbox.held_after(stream, at);
            let Some(run) = run.filter(|run| run.of.first < below) else { return true };
            let run = peer.fit_run(stream, run);
            let of = run.of;
            // What has begun is sent as a whole: then it expires at its receiver.
            let has_begun = !of.begins && of.first == lane.lane().sent() + 1;
            if of.is_expired(now_ms) && !has_begun {
                expired.push((stream, of.first, of.last));
            } else if !lane.lane().done().contains_all(of.first, of.last) {
                // The logged messages before them must be sent first.
                let is_read = below < u64::MAX || of.after.is_none_or(|after| Some(after) < tail);
                let prev = if is_read { lane.advance_to(of.last, of.cost) } else { None };
                let Some(prev) = prev else { return false };
                lane.data_mut().flush(peer);
                lane.data_mut().sent.add(of.last, of.messages);
                peer.send(Outgoing::Body(run.frame_after(stream, prev)));
            }
            at = of.last;
        }
    }

    fn pass(
        &mut self,
        store: &Store,
        from: Position,
        serves: Served,
        now_ms: u64,
        expired: &mut Vec<Expired>,
    ) -> Result<Position, LogError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut pass = Pass { outward: self, store, serves, now_ms, expired: Vec::new() };
        let next = store.log().read(from, READ_BYTES, &mut buffer, &mut |position, kind, payload| {
            if kind == records::MESSAGE
                && let Some(message) = MessageRecord::read(payload)
            {
                pass.offer_all(position, &message);
            }
            true
        });
        expired.append(&mut pass.expired);
        self.buffer = buffer;
        self.flush_all();
        next
    }

    /// Sends what is gathered.
    fn flush_all(&mut self) {
        for stream in std::mem::take(&mut self.touched) {
            self.flush(stream);
        }
    }

    /// Sends the frames gathered for a lane.
    fn flush(&mut self, stream: u32) {
        if self.shared.contains_key(&stream) {
            return self.flush_shared(stream);
        }
        let Some(mut lane) = self.lanes.lane_mut(stream) else { return };
        if let Some(peer) = self.peers[lane.lane().peer()].as_mut() {
            lane.data_mut().flush(peer);
        }
    }
}
