//! Outgoing messages: from the log to the peers.
//!
//! Each stream has a lane, which says from where on the log is to be read for it (`pinnace_stream::Lanes`). This module
//! reads the log, packs the messages into frames, and adds the volatile messages that are not in the log.

mod pass;

use std::time::{Duration, Instant};

use foldhash::HashSet;
use pinnace_engine::{Outgoing, Socket};
use pinnace_stream::{Lanes, RangeSet, Served};

use super::peer::Peer;
use crate::log::{Log, LogError, Position};
use crate::store::Store;
use crate::store::records::{self, MessageRecord};
use crate::wire::{FromSender, WINDOW};
use pass::{LaneFrame, Pass};

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
    /// Streams that may have unsent volatile messages.
    held: HashSet<u32>,
    buffer: Vec<u8>,
    touched: Vec<u32>,
}

/// Expired messages: the stream, and the first and last number of a range.
pub type Expired = (u32, u64, u64);

impl Outward {
    /// Starts at the last segment of the log, after everything found when it was opened.
    pub fn new(log: &Log) -> Outward {
        let tail = log.segments().last().map(|segment| Log::start_of(*segment));
        let (peers, held, buffer, touched) = Default::default();
        Outward { peers, lanes: Lanes::new(tail), held, buffer, touched }
    }

    pub fn peer(&mut self, index: usize) -> Option<&mut Peer> {
        self.peers.get_mut(index)?.as_mut()
    }

    pub fn find(&self, client: u32, name: &str) -> Option<usize> {
        self.peers
            .iter()
            .position(|peer| peer.as_ref().is_some_and(|peer| peer.client == client && peer.name == name))
    }

    pub fn add_peer(&mut self, client: u32, name: &str, endpoint: &str, socket: Socket) -> usize {
        let index = self.lanes.add_peer(WINDOW);
        debug_assert_eq!(index, self.peers.len());
        self.peers.push(Some(Peer::new(client, name, endpoint, socket)));
        index
    }

    /// Sets a peer's new endpoint. A live connection keeps its old endpoint until it is lost.
    pub fn move_peer(&mut self, index: usize, endpoint: &str) {
        let Some(Some(peer)) = self.peers.get_mut(index) else { return };
        peer.elsewhere = (peer.endpoint != endpoint).then(|| endpoint.to_owned());
        if !self.lanes.is_connected(index) {
            peer.move_on();
        }
    }

    /// Removes a client's peers. Returns their sockets.
    pub fn remove_client(&mut self, client: u32) -> Vec<Socket> {
        let mut sockets = Vec::new();
        for index in 0..self.peers.len() {
            if self.peers[index].as_ref().is_some_and(|peer| peer.client == client) {
                self.lost(index);
                let Some(peer) = self.peers[index].take() else { continue };
                self.lanes.remove_peer(index);
                sockets.push(peer.socket);
            }
        }
        sockets
    }

    /// The stream of this number, if it goes to this peer.
    pub fn stream_of(&self, index: usize, stream: u64) -> Option<u32> {
        let stream = u32::try_from(stream).ok()?;
        self.lanes.lane(stream).filter(|lane| lane.peer() == index).map(|_| stream)
    }

    /// Adds a stream to a peer, and opens it at once if the peer is connected.
    pub fn add_lane(&mut self, store: &Store, stream: u32, peer: usize, topic: &str) {
        if self.lanes.add_lane(stream, peer, LaneFrame::new(topic)) && self.lanes.is_connected(peer) {
            self.open(store, stream);
        }
    }

    fn open(&mut self, store: &Store, stream: u32) {
        let Some(lane) = self.lanes.lane(stream) else { return };
        let gone =
            store.lock().outbox.get(stream).map(|stream| stream.record.done.clone()).unwrap_or_default();
        let open = FromSender::Open { stream: u64::from(stream), topic: &lane.data().topic, gone };
        if let Some(peer) = self.peers[lane.peer()].as_mut() {
            peer.send(Outgoing::Bytes(&open.write()));
        }
    }

    /// The peer accepts our streams: open them.
    pub fn welcome(&mut self, store: &Store, index: usize) {
        let Some(peer) = self.peer(index) else { return };
        peer.was_refused = false;
        self.lanes.connect(index);
        for stream in self.lanes.streams_of(index).to_vec() {
            self.open(store, stream);
        }
    }

    /// Tells the peer which messages of a stream are no longer here.
    pub fn tell_gone(&mut self, store: &Store, stream: u32) {
        let Some(lane) = self.lanes.lane(stream).filter(|lane| lane.is_ready()) else { return };
        let gone = store.lock().outbox.get(stream).map(|stream| stream.record.done.clone());
        if let (Some(peer), Some(gone)) = (self.peers[lane.peer()].as_mut(), gone) {
            let gone = FromSender::Gone { stream: u64::from(stream), gone };
            peer.send(Outgoing::Bytes(&gone.write()));
        }
    }

    /// The connection to the peer is lost, and perhaps sent frames with it.
    pub fn lost(&mut self, index: usize) {
        let Some(Some(peer)) = self.peers.get_mut(index) else { return };
        self.lanes.disconnect(index);
        peer.move_on();
    }

    /// The peer refuses our streams; a new connection asks it again later. Returns the client and the peer's name if
    /// the peer had accepted them before, or was never asked.
    pub fn refused(&mut self, index: usize) -> Option<(u32, String)> {
        self.lost(index);
        let peer = self.peer(index)?;
        peer.again_at = Some(Instant::now() + ASK_AGAIN_AFTER);
        let is_news = !std::mem::replace(&mut peer.was_refused, true);
        is_news.then(|| (peer.client, peer.name.clone()))
    }

    /// Disconnects from the peer, and schedules a reconnect under the new id, after the peer has noticed the
    /// disconnect.
    pub fn part(&mut self, index: usize) {
        self.lost(index);
        let Some(peer) = self.peer(index) else { return };
        (peer.is_forked, peer.again_at) = (true, Some(Instant::now() + FORK_RECONNECT_AFTER));
        let _ = peer.socket.disconnect(&peer.endpoint);
    }

    /// Peers with a frame that could not be sent, since the last call.
    pub fn take_full(&mut self) -> Vec<usize> {
        let peers = self.peers.iter_mut().enumerate();
        let is_full =
            |peer: &mut Option<Peer>| peer.as_mut().is_some_and(|peer| std::mem::take(&mut peer.is_full));
        peers.filter_map(|(index, peer)| is_full(peer).then_some(index)).collect()
    }

    /// Reconnects to peers that are due. Returns the time until the next, if there is one.
    pub fn ask_again(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let mut next = None;
        for peer in self.peers.iter_mut().flatten() {
            match peer.again_at {
                Some(at) if at <= now => {
                    peer.again_at = None;
                    let _ = peer.socket.disconnect(&peer.endpoint);
                    let _ = peer.socket.connect(&peer.endpoint);
                }
                Some(at) => next = Some(next.map_or(at - now, |next: Duration| next.min(at - now))),
                None => {}
            }
        }
        next
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
        let behind = self.lanes.furthest_behind();
        if let Some(from) = behind {
            let next = self.pass(store, from, Served::Behind, now_ms, &mut expired)?;
            self.lanes.served_behind(from, next);
        }
        let mut moved = behind.is_some();
        if !self.lanes.is_any_connected() {
            // No lane is current. A lane that becomes current starts at its own position.
            self.lanes.set_tail(store.log().end());
        } else if let Some(tail) = self.lanes.tail() {
            let next = self.pass(store, tail, Served::Current, now_ms, &mut expired)?;
            moved |= next != tail;
            self.lanes.set_tail(next);
        }
        moved |= self.send_held(store, now_ms, &mut expired);
        Ok((moved, expired))
    }

    /// Sends volatile messages of streams that have sent all logged messages before them.
    fn send_held(&mut self, store: &Store, now_ms: u64, expired: &mut Vec<Expired>) -> bool {
        self.held.extend(store.lock().take_held());
        let (mut moved, held) = (false, std::mem::take(&mut self.held));
        for stream in held {
            let Some(lane) = self.lanes.lane(stream).filter(|lane| lane.is_ready()) else { continue };
            let (before, is_current) = (lane.sent(), lane.is_current());
            let all = is_current && self.send_held_below(store, stream, u64::MAX, now_ms, expired);
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
            let of = run.of;
            if of.is_expired(now_ms) {
                expired.push((stream, of.first, of.last));
            } else if !lane.lane().done().contains_all(of.first, of.last) {
                // The logged messages before them must be sent first.
                let is_read = below < u64::MAX || of.after.is_none_or(|after| Some(after) < tail);
                let prev = if is_read { lane.send(of.last, of.cost) } else { None };
                let Some(prev) = prev else { return false };
                lane.data_mut().flush(peer);
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
        for stream in std::mem::take(&mut self.touched) {
            self.flush(stream);
        }
        next
    }

    /// Sends the frame gathered for a lane.
    fn flush(&mut self, stream: u32) {
        let Some(mut lane) = self.lanes.lane_mut(stream) else { return };
        if let Some(peer) = self.peers[lane.lane().peer()].as_mut() {
            lane.data_mut().flush(peer);
        }
    }
}
