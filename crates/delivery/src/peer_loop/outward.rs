//! Outgoing messages: from the log to the peers.
//!
//! Each stream has a lane. A lane that has sent everything in the log up to the tail is current, and is served as the
//! peer loop reads on from the tail. Other lanes (the peer was away, or gave no credit) are behind. They are served
//! from their own position, together with all other lanes in that part of the log.

mod pass;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use foldhash::{HashMap, HashSet};
use pinnace_engine::{Outgoing, Socket};
use pinnace_stream::RangeSet;

use super::peer::Peer;
use crate::log::{Log, LogError, Position};
use crate::store::Store;
use crate::store::records::{self, MessageRecord};
use crate::wire::{FromSender, WINDOW};
use pass::{Pass, Served, flush_lane};

/// The pause before a peer that refused us is connected to again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// The pause before reconnecting to a peer under a new id.
const FORK_RECONNECT_AFTER: Duration = Duration::from_millis(50);
/// Bytes of the log read at once.
const READ_BYTES: usize = 512 << 10;

/// The progress of a stream.
pub struct Lane {
    pub peer: usize,
    topic: String,
    /// The peer has sent its cursor for the stream.
    ready: bool,
    /// What the peer reported as done in its cursor.
    done: RangeSet,
    /// The last number sent. Logged messages up to it are skipped.
    sent: u64,
    at: At,
    frame: Vec<u8>,
    time: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Next are the messages after the tail.
    Current,
    /// Next are the messages from this position on.
    Behind(Position),
    /// As `Behind`, once the peer grants more credit.
    Stalled(Position),
}

/// All lanes of a store.
#[derive(Default)]
pub struct Outward {
    pub peers: Vec<Option<Peer>>,
    lanes: HashMap<u32, Lane>,
    /// Lanes that are behind and not stalled, by position.
    behind: BTreeMap<Position, Vec<u32>>,
    /// The position up to which the log was read for current lanes.
    tail: Option<Position>,
    /// Streams that may have unsent volatile messages.
    held: HashSet<u32>,
    buffer: Vec<u8>,
    touched: Vec<u32>,
}

impl Lane {
    fn new(peer: usize, topic: &str) -> Lane {
        Lane {
            peer,
            topic: topic.to_owned(),
            ready: false,
            done: RangeSet::default(),
            sent: 0,
            at: At::Current,
            frame: Vec::new(),
            time: 0,
        }
    }
}

/// Expired messages: the stream, and the first and last number of a range.
pub type Expired = (u32, u64, u64);

impl Outward {
    /// Starts at the last segment of the log, after everything found when it was opened.
    pub fn new(log: &Log) -> Outward {
        let tail = log.segments().last().map(|segment| Log::start_of(*segment));
        Outward { tail, ..Outward::default() }
    }

    /// Returns true if at least one peer accepts our streams.
    pub fn is_live(&self) -> bool {
        self.peers.iter().flatten().any(|peer| peer.live)
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
        let peer = Peer::new(client, name, endpoint, socket);
        self.peers.push(Some(peer));
        self.peers.len() - 1
    }

    /// Sets a peer's new endpoint. A live connection keeps its old endpoint until it is lost.
    pub fn move_peer(&mut self, index: usize, endpoint: &str) {
        let Some(peer) = self.peer(index) else { return };
        peer.elsewhere = (peer.endpoint != endpoint).then(|| endpoint.to_owned());
        if !peer.live {
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
                peer.lanes.iter().for_each(|stream| drop(self.lanes.remove(stream)));
                sockets.push(peer.socket);
            }
        }
        sockets
    }

    /// The stream of this number, if it goes to this peer.
    pub fn stream_of(&self, index: usize, stream: u64) -> Option<u32> {
        let stream = u32::try_from(stream).ok()?;
        self.lanes.get(&stream).filter(|lane| lane.peer == index).map(|_| stream)
    }

    /// What the peer reported as done of a stream.
    pub fn done_of(&self, stream: u32) -> RangeSet {
        self.lanes.get(&stream).map(|lane| lane.done.clone()).unwrap_or_default()
    }

    /// Adds a stream to a peer, and opens it at once if the peer is connected.
    pub fn add_lane(&mut self, store: &Store, stream: u32, peer: usize, topic: &str) {
        if self.lanes.contains_key(&stream) {
            return;
        }
        self.lanes.insert(stream, Lane::new(peer, topic));
        let Some(of) = self.peers[peer].as_mut() else { return };
        of.lanes.push(stream);
        if of.live {
            self.open(store, stream);
        }
    }

    fn open(&mut self, store: &Store, stream: u32) {
        let Some(lane) = self.lanes.get_mut(&stream) else { return };
        let gone =
            store.lock().outbox.get(stream).map(|stream| stream.record.done.clone()).unwrap_or_default();
        let open = FromSender::Open { stream: u64::from(stream), topic: &lane.topic, gone };
        if let Some(peer) = self.peers[lane.peer].as_mut() {
            peer.send(Outgoing::Bytes(&open.write()));
        }
    }

    /// The peer accepts our streams: open them.
    pub fn welcome(&mut self, store: &Store, index: usize) {
        let Some(peer) = self.peer(index) else { return };
        (peer.live, peer.credit, peer.sent, peer.was_refused) = (true, 0, 0, false);
        peer.stalled.clear();
        for stream in peer.lanes.clone() {
            self.open(store, stream);
        }
    }

    /// Tells the peer which messages of a stream are no longer here.
    pub fn tell_gone(&mut self, store: &Store, stream: u32) {
        let Some(lane) = self.lanes.get(&stream).filter(|lane| lane.ready) else { return };
        let gone = store.lock().outbox.get(stream).map(|stream| stream.record.done.clone());
        if let (Some(peer), Some(gone)) = (self.peers[lane.peer].as_mut(), gone) {
            let gone = FromSender::Gone { stream: u64::from(stream), gone };
            peer.send(Outgoing::Bytes(&gone.write()));
        }
    }

    /// The connection to the peer is lost, and perhaps sent frames with it.
    pub fn lost(&mut self, index: usize) {
        let Some(peer) = self.peer(index) else { return };
        peer.live = false;
        peer.stalled.clear();
        for stream in peer.lanes.clone() {
            self.stop(stream);
        }
        if let Some(peer) = self.peer(index) {
            peer.move_on();
        }
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

    fn stop(&mut self, stream: u32) {
        let Some(lane) = self.lanes.get_mut(&stream) else { return };
        lane.ready = false;
        lane.frame.clear();
        if let At::Behind(position) = lane.at
            && let Some(group) = self.behind.get_mut(&position)
        {
            group.retain(|other| *other != stream);
            if group.is_empty() {
                self.behind.remove(&position);
            }
        }
    }

    /// Resumes a stream after `received`, without what is done.
    pub fn resume(&mut self, store: &Store, stream: u32, received: u64, done: RangeSet) {
        self.stop(stream);
        let Some(lane) = self.lanes.get_mut(&stream) else { return };
        let position = store.lock().outbox.get(stream).and_then(|stream| stream.position_after(received));
        (lane.ready, lane.sent, lane.done) = (true, received, done);
        self.held.insert(stream);
        match position.filter(|position| Some(*position) < self.tail) {
            Some(position) => self.fall_behind(stream, position),
            None => lane.at = At::Current,
        }
    }

    fn fall_behind(&mut self, stream: u32, position: Position) {
        if let Some(lane) = self.lanes.get_mut(&stream) {
            lane.at = At::Behind(position);
            self.behind.entry(position).or_default().push(stream);
        }
    }

    /// The peer grants credit up to `bytes` in total.
    pub fn credit(&mut self, index: usize, bytes: u64) {
        let Some(peer) = self.peer(index) else { return };
        // No receiver grants more than that.
        peer.credit = peer.credit.max(bytes.min(peer.sent.saturating_add(WINDOW)));
        for stream in std::mem::take(&mut peer.stalled) {
            if let Some(Lane { at: At::Stalled(position), ready: true, .. }) = self.lanes.get(&stream) {
                let position = *position;
                self.fall_behind(stream, position);
            }
        }
    }

    /// Sends for a while. Returns false if there is nothing more to send now, and the messages found expired.
    pub fn pump(&mut self, store: &Store, now_ms: u64) -> Result<(bool, Vec<Expired>), LogError> {
        let mut expired = Vec::new();
        let mut moved = false;
        if let Some((position, group)) = self.behind.pop_first() {
            let next = match self.pass(store, position, Served::Behind, now_ms, &mut expired) {
                Ok(next) => next,
                Err(error) => {
                    self.behind.entry(position).or_default().extend(group);
                    return Err(error);
                }
            };
            for stream in group {
                self.move_on(stream, position, next);
            }
            // This read has also served the lanes that were less far behind.
            while let Some(entry) = self.behind.first_entry().filter(|entry| *entry.key() < next) {
                let (from, group) = entry.remove_entry();
                group.into_iter().for_each(|stream| self.move_on(stream, from, next));
            }
            moved = true;
        }
        if !self.is_live() {
            // No lane is current. A lane that becomes current starts at its own position.
            self.tail = Some(store.log().end());
        } else if let Some(tail) = self.tail {
            let next = self.pass(store, tail, Served::Current, now_ms, &mut expired)?;
            moved |= next != tail;
            self.tail = Some(next);
        }
        moved |= self.send_held(store, now_ms, &mut expired);
        Ok((moved, expired))
    }

    /// Sends volatile messages of streams that have sent all logged messages before them.
    fn send_held(&mut self, store: &Store, now_ms: u64, expired: &mut Vec<Expired>) -> bool {
        self.held.extend(store.lock().take_held());
        let (mut moved, held) = (false, std::mem::take(&mut self.held));
        for stream in held {
            let Some(lane) = self.lanes.get(&stream).filter(|lane| lane.ready) else { continue };
            let before = lane.sent;
            let all =
                lane.at == At::Current && self.send_held_below(store, stream, u64::MAX, now_ms, expired);
            moved |= self.lanes.get(&stream).is_some_and(|lane| lane.sent != before);
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
        let Some(lane) = self.lanes.get_mut(&stream) else { return true };
        let Some(peer) = self.peers[lane.peer].as_mut() else { return true };
        let mut at = lane.sent;
        loop {
            let run = store.lock().outbox.held_after(stream, at);
            let Some(run) = run.filter(|run| run.of.first < below) else { return true };
            let of = run.of;
            if of.is_expired(now_ms) {
                expired.push((stream, of.first, of.last));
            } else if !lane.done.contains_all(of.first, of.last) {
                // The logged messages before them must be sent first.
                let is_read = below < u64::MAX || of.after.is_none_or(|after| Some(after) < self.tail);
                if !is_read || peer.sent >= peer.credit {
                    return false;
                }
                peer.sent += of.cost;
                flush_lane(lane, peer);
                peer.send(Outgoing::Body(run.frame_after(stream, lane.sent)));
                lane.sent = of.last;
            }
            at = of.last;
        }
    }

    /// A lane that was behind has been served up to `next`, unless it has stalled on the way.
    fn move_on(&mut self, stream: u32, from: Position, next: Position) {
        let Some(lane) = self.lanes.get_mut(&stream) else { return };
        if lane.at != At::Behind(from) || !lane.ready {
            return;
        }
        match Some(next) < self.tail {
            true => self.fall_behind(stream, next),
            false => lane.at = At::Current,
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
        let Some(lane) = self.lanes.get_mut(&stream) else { return };
        if let Some(peer) = self.peers[lane.peer].as_mut() {
            flush_lane(lane, peer);
        }
    }
}
