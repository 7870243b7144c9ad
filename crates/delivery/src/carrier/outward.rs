//! The way out: from the log to those who are to have it.
//!
//! Each stream has a lane. A lane that has sent all that the log held up to the carrier's tail is current, and is
//! served as the log is read on; one that has not (its peer was away, or gave no more credit) is behind, and is served
//! from where it left off, together with all others that are in that part of the log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use foldhash::{HashMap, HashSet};
use pinnace_engine::{Body, Outgoing, Socket};

use super::peer::Peer;
use crate::log::{Log, LogError, Place};
use crate::ranges::Done;
use crate::store::Store;
use crate::store::records::{self, Message};
use crate::wire::{COST, Data, Entry, FRAME_BYTES, FromSender, WINDOW, make_room};

/// Bytes of a frame from which on it is handed over as it is, and not copied.
const HAND_OVER_BYTES: usize = 16 << 10;
/// How long to leave a peer alone that has refused us.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long to leave one alone to which we are somebody else.
const PART_FOR: Duration = Duration::from_millis(50);
/// Bytes of the log that are read at once.
const READ_BYTES: usize = 512 << 10;

/// How far a stream is.
pub struct Lane {
    pub peer: usize,
    topic: String,
    /// The peer has said from where to go on.
    ready: bool,
    /// What the peer said is done already.
    done: Done,
    /// The last number that was sent, and of what lies in the log nothing before it is to be.
    sent: u64,
    at: At,
    frame: Vec<u8>,
    time: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Everything behind the tail, and nothing before it.
    Current,
    /// Everything from here on.
    Behind(Place),
    /// The same, once the peer takes more.
    Stalled(Place),
}

/// All lanes of a store.
#[derive(Default)]
pub struct Outward {
    pub peers: Vec<Option<Peer>>,
    lanes: HashMap<u32, Lane>,
    /// Lanes that are behind and can be served, by where they are.
    behind: BTreeMap<Place, Vec<u32>>,
    /// Up to where the log was read for those that are current.
    tail: Option<Place>,
    /// Streams of which something may be held in memory that is not sent.
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
            done: Done::default(),
            sent: 0,
            at: At::Current,
            frame: Vec::new(),
            time: 0,
        }
    }
}

/// Messages of a stream whose time is over: the first and the last of some that follow each other.
pub type Expired = (u32, u64, u64);

/// One reading of a part of the log.
struct Pass<'a> {
    outward: &'a mut Outward,
    store: &'a Store,
    /// It is for those that are current, or for those that were behind and are at its beginning.
    tail: bool,
    now_ms: u64,
    expired: Vec<Expired>,
}

impl Outward {
    /// Begins behind everything that was in the log when it was opened.
    pub fn new(log: &Log) -> Outward {
        let tail = log.segments().last().map(|segment| Log::start_of(*segment));
        Outward { tail, ..Outward::default() }
    }

    /// Whether some peer takes our streams.
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

    /// A peer may be elsewhere than it was. Where the connection to it lives, what is said of it is old.
    pub fn move_peer(&mut self, index: usize, endpoint: &str) {
        let Some(peer) = self.peer(index) else { return };
        peer.elsewhere = (peer.endpoint != endpoint).then(|| endpoint.to_owned());
        if !peer.live {
            peer.move_on();
        }
    }

    /// Forgets whom a client sends to. Returns the sockets.
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

    /// The stream of which a peer speaks, where it is one that goes to it.
    pub fn stream_of(&self, index: usize, stream: u64) -> Option<u32> {
        let stream = u32::try_from(stream).ok()?;
        self.lanes.get(&stream).filter(|lane| lane.peer == index).map(|_| stream)
    }

    /// What a peer said is done of a stream.
    pub fn done_of(&self, stream: u32) -> Done {
        self.lanes.get(&stream).map(|lane| lane.done.clone()).unwrap_or_default()
    }

    /// A stream goes to a peer. It is opened at once where the peer is there.
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

    /// The peer takes our streams.
    pub fn welcome(&mut self, store: &Store, index: usize) {
        let Some(peer) = self.peer(index) else { return };
        (peer.live, peer.credit, peer.sent, peer.was_refused) = (true, 0, 0, false);
        peer.stalled.clear();
        for stream in peer.lanes.clone() {
            self.open(store, stream);
        }
    }

    /// What of a stream is put away here is so there.
    pub fn tell_gone(&mut self, store: &Store, stream: u32) {
        let Some(lane) = self.lanes.get(&stream).filter(|lane| lane.ready) else { return };
        let gone = store.lock().outbox.get(stream).map(|stream| stream.record.done.clone());
        if let (Some(peer), Some(gone)) = (self.peers[lane.peer].as_mut(), gone) {
            let gone = FromSender::Gone { stream: u64::from(stream), gone };
            peer.send(Outgoing::Bytes(&gone.write()));
        }
    }

    /// The connection to the peer is lost: what was sent may be, too.
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

    /// The peer does not take our streams now; it is asked again later, by a new connection. Returns whose peer it is
    /// and its name, where it did take them before, or was never asked.
    pub fn refused(&mut self, index: usize) -> Option<(u32, String)> {
        self.lost(index);
        let peer = self.peer(index)?;
        peer.again_at = Some(Instant::now() + ASK_AGAIN_AFTER);
        let is_news = !std::mem::replace(&mut peer.was_refused, true);
        is_news.then(|| (peer.client, peer.name.clone()))
    }

    /// To the peer we are somebody else. It is connected to anew, when it knows that the connection has ended.
    pub fn part(&mut self, index: usize) {
        self.lost(index);
        let Some(peer) = self.peer(index) else { return };
        (peer.is_parted, peer.again_at) = (true, Some(Instant::now() + PART_FOR));
        let _ = peer.socket.disconnect(&peer.endpoint);
    }

    /// Those that ask for more than they read.
    pub fn take_full(&mut self) -> Vec<usize> {
        let peers = self.peers.iter_mut().enumerate();
        let is_full =
            |peer: &mut Option<Peer>| peer.as_mut().is_some_and(|peer| std::mem::take(&mut peer.is_full));
        peers.filter_map(|(index, peer)| is_full(peer).then_some(index)).collect()
    }

    /// Asks those again whose time has come. Returns the time until the next, where there is one.
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
        if let At::Behind(place) = lane.at
            && let Some(group) = self.behind.get_mut(&place)
        {
            group.retain(|other| *other != stream);
            if group.is_empty() {
                self.behind.remove(&place);
            }
        }
    }

    /// The peer has a stream up to a number, and what is done of it.
    pub fn resume(&mut self, store: &Store, stream: u32, received: u64, done: Done) {
        self.stop(stream);
        let Some(lane) = self.lanes.get_mut(&stream) else { return };
        let place = store.lock().outbox.get(stream).and_then(|stream| stream.place_behind(received));
        (lane.ready, lane.sent, lane.done) = (true, received, done);
        self.held.insert(stream);
        match place.filter(|place| Some(*place) < self.tail) {
            Some(place) => self.fall_behind(stream, place),
            None => lane.at = At::Current,
        }
    }

    fn fall_behind(&mut self, stream: u32, place: Place) {
        if let Some(lane) = self.lanes.get_mut(&stream) {
            lane.at = At::Behind(place);
            self.behind.entry(place).or_default().push(stream);
        }
    }

    /// The peer takes so many bytes in all.
    pub fn credit(&mut self, index: usize, bytes: u64) {
        let Some(peer) = self.peer(index) else { return };
        // More than that no receiver has a use for.
        peer.credit = peer.credit.max(bytes.min(peer.sent.saturating_add(WINDOW)));
        for stream in std::mem::take(&mut peer.stalled) {
            if let Some(Lane { at: At::Stalled(place), ready: true, .. }) = self.lanes.get(&stream) {
                let place = *place;
                self.fall_behind(stream, place);
            }
        }
    }

    /// Sends what there is to send, for a while. False: there is nothing more now.
    pub fn pump(&mut self, store: &Store, now_ms: u64) -> Result<(bool, Vec<Expired>), LogError> {
        let mut expired = Vec::new();
        let mut moved = false;
        if let Some((place, group)) = self.behind.pop_first() {
            let next = match self.pass(store, place, false, now_ms, &mut expired) {
                Ok(next) => next,
                Err(error) => {
                    self.behind.entry(place).or_default().extend(group);
                    return Err(error);
                }
            };
            for stream in group {
                self.move_on(stream, place, next);
            }
            // Those that were behind by less were served on the way.
            while let Some(entry) = self.behind.first_entry().filter(|entry| *entry.key() < next) {
                let (from, group) = entry.remove_entry();
                group.into_iter().for_each(|stream| self.move_on(stream, from, next));
            }
            moved = true;
        }
        if !self.is_live() {
            // Nobody is current; who becomes so begins where its stream lies.
            self.tail = Some(store.log().end());
        } else if let Some(tail) = self.tail {
            let next = self.pass(store, tail, true, now_ms, &mut expired)?;
            moved |= next != tail;
            self.tail = Some(next);
        }
        moved |= self.send_held(store, now_ms, &mut expired);
        Ok((moved, expired))
    }

    /// Sends what is held in memory, of streams that have sent all that lies in the log before it.
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

    /// Sends what is held of a stream with numbers below one. False: there is more, for which it is not time.
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
            let run = store.lock().outbox.held_behind(stream, at);
            let Some(run) = run.filter(|run| run.of.first < below) else { return true };
            let of = run.of;
            if of.is_expired(now_ms) {
                expired.push((stream, of.first, of.last));
            } else if !lane.done.contains_all(of.first, of.last) {
                // What lies before it in the log comes first.
                let is_read = below < u64::MAX || of.behind.is_none_or(|behind| Some(behind) < self.tail);
                if !is_read || peer.sent >= peer.credit {
                    return false;
                }
                peer.sent += of.cost;
                flush_lane(lane, peer);
                peer.send(Outgoing::Body(run.frame_behind(stream, lane.sent)));
                lane.sent = of.last;
            }
            at = of.last;
        }
    }

    /// A lane that was behind has been served up to `next`, where it has not stalled on the way.
    fn move_on(&mut self, stream: u32, from: Place, next: Place) {
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
        from: Place,
        tail: bool,
        now_ms: u64,
        expired: &mut Vec<Expired>,
    ) -> Result<Place, LogError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut pass = Pass { outward: self, store, tail, now_ms, expired: Vec::new() };
        let next = store.log().read(from, READ_BYTES, &mut buffer, &mut |place, kind, payload| {
            if kind == records::MESSAGE
                && let Some(message) = Message::read(payload)
            {
                pass.offer_all(place, &message);
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

    /// Sends what has gathered for a lane.
    fn flush(&mut self, stream: u32) {
        let Some(lane) = self.lanes.get_mut(&stream) else { return };
        if let Some(peer) = self.peers[lane.peer].as_mut() {
            flush_lane(lane, peer);
        }
    }
}

fn flush_lane(lane: &mut Lane, peer: &mut Peer) {
    if !lane.frame.is_empty() {
        let frame = match lane.frame.len() < HAND_OVER_BYTES {
            true => Outgoing::Bytes(&lane.frame),
            false => Outgoing::Body(std::mem::take(&mut lane.frame).into()),
        };
        peer.send(frame);
        if lane.frame.capacity() > HAND_OVER_BYTES {
            drop(Body::from(std::mem::take(&mut lane.frame)));
        }
        lane.frame.clear();
    }
}

impl Pass<'_> {
    fn offer_all(&mut self, place: Place, message: &Message<'_>) {
        for (stream, seq) in message.destinations() {
            self.offer(stream, seq, place, message);
        }
    }

    fn offer(&mut self, stream: u32, seq: u64, place: Place, message: &Message<'_>) {
        let Some(lane) = self.outward.lanes.get_mut(&stream) else { return };
        let is_its_turn = match lane.at {
            At::Current => self.tail,
            At::Behind(from) => !self.tail && from <= place,
            At::Stalled(_) => false,
        };
        if !is_its_turn || !lane.ready || seq <= lane.sent || lane.done.contains(seq) {
            return;
        }
        let ttl_ms = (message.ttl_ms > 0).then_some(u64::from(message.ttl_ms));
        // Where numbers are missing, messages from memory may come between.
        let has_all = seq == lane.sent + 1
            || self.outward.send_held_below(self.store, stream, seq, self.now_ms, &mut self.expired);
        let Some(lane) = self.outward.lanes.get_mut(&stream) else { return };
        if ttl_ms.is_some_and(|ttl_ms| message.accepted_ms.saturating_add(ttl_ms) <= self.now_ms) {
            // With the numbers before it of which there is nothing any more, where that is so.
            self.expired.push((stream, if has_all { lane.sent + 1 } else { seq }, seq));
            return;
        }
        let Some(peer) = self.outward.peers[lane.peer].as_mut() else { return };
        if !has_all || peer.sent >= peer.credit {
            lane.at = At::Stalled(place);
            peer.stalled.push(stream);
            return;
        }
        peer.sent += COST + message.body.len() as u64;
        let entry =
            Entry { seq, accepted_ms: message.accepted_ms, ttl_ms, flags: message.flags, body: message.body };
        if lane.frame.len() + entry.bytes_at_most() > FRAME_BYTES {
            flush_lane(lane, peer);
        }
        make_room(&mut lane.frame, &entry);
        if lane.frame.is_empty() {
            lane.time = message.accepted_ms;
            Data::begin(&mut lane.frame, u64::from(stream), lane.sent, lane.time);
            self.outward.touched.push(stream);
        }
        entry.put(&mut lane.frame, lane.sent, lane.time);
        lane.sent = seq;
    }
}
