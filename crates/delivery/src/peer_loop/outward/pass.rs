//! One read of a part of the log, which serves the lanes that stand there.

use pinnace_engine::{Body, Outgoing};
use pinnace_stream::Served;

use super::{Expired, Outward};
use crate::log::Position;
use crate::peer_loop::peer::Peer;
use crate::store::Store;
use crate::store::records::MessageRecord;
use crate::wire::{BEGINS, COST, Data, ENDS, FrameEntry, make_room};

/// Frames at least this large are passed by reference, not copied.
const HAND_OVER_BYTES: usize = 16 << 10;

/// The topic of a lane's stream, and the frame that is gathered for it during a read.
pub struct LaneFrame {
    pub(super) topic: String,
    bytes: Vec<u8>,
    /// The times in the frame count from it.
    time: u64,
    pub(super) sent: SentCounts,
}

/// Messages of a lane that were sent, since the client was started.
#[derive(Debug, Clone, Copy, Default)]
pub struct SentCounts {
    /// For the first time, and again on a later connection.
    pub first: u64,
    pub again: u64,
    /// The highest number sent.
    highest: u64,
}

impl SentCounts {
    /// Messages were sent after later ones.
    pub(super) fn add_deferred(&mut self, messages: u64) {
        self.first += messages;
    }

    /// Numbers up to `seq` were sent, and with them `messages` ended.
    pub(super) fn add(&mut self, seq: u64, messages: u64) {
        *(if seq > self.highest { &mut self.first } else { &mut self.again }) += messages;
        self.highest = self.highest.max(seq);
    }
}

/// One read of a part of the log.
pub(super) struct Pass<'a> {
    pub(super) outward: &'a mut Outward,
    pub(super) store: &'a Store,
    pub(super) serves: Served,
    pub(super) now_ms: u64,
    pub(super) expired: Vec<Expired>,
}

impl Pass<'_> {
    pub(super) fn offer_all(&mut self, position: Position, message: &MessageRecord<'_>) {
        for (stream, seq) in message.destinations() {
            self.offer(stream, seq, position, message);
            for at in 0..self.outward.heirs.get(&stream).map_or(0, Vec::len) {
                let (heir, upto) = self.outward.heirs[&stream][at];
                if seq <= upto {
                    self.offer(heir, seq, position, message);
                }
            }
        }
    }

    fn offer(&mut self, stream: u32, seq: u64, position: Position, message: &MessageRecord<'_>) {
        let Some(mut lane) = self.outward.lanes.offer(stream, seq, position, self.serves) else { return };
        if self.outward.shared.contains_key(&stream) {
            return self.offer_shared(stream, seq, position, message);
        }
        let ttl_ms = (message.ttl_ms > 0).then_some(u64::from(message.ttl_ms));
        let mut has_all = seq == lane.lane().sent() + 1;
        if !has_all {
            // Gaps in the numbers may be filled by volatile messages.
            has_all = self.outward.send_held_below(self.store, stream, seq, self.now_ms, &mut self.expired);
            let Some(again) = self.outward.lanes.lane_mut(stream) else { return };
            lane = again;
        }
        // What has begun is sent as a whole: then it expires at its receiver.
        let has_begun = message.flags & BEGINS == 0 && seq == lane.lane().sent() + 1;
        if message.is_expired(self.now_ms) && !has_begun {
            // If nothing before it is left to send, the numbers before it expire with it.
            self.expired.push((stream, if has_all { lane.lane().sent() + 1 } else { seq }, seq));
            return;
        }
        let index = lane.lane().peer();
        let (flags, body) = match self.outward.peers[index].as_mut() {
            Some(peer) => peer.fit(message.flags, message.body),
            None => (message.flags, message.body.into()),
        };
        let prev = if has_all { lane.advance_to(seq, COST + body.len() as u64) } else { None };
        let Some(prev) = prev else { return lane.stall(position) };
        let entry = FrameEntry { seq, accepted_ms: message.accepted_ms, ttl_ms, flags, body: &body };
        let frame = lane.data_mut();
        frame.sent.add(seq, u64::from(flags & ENDS != 0));
        if !entry.fits(frame.bytes.len(), frame.time)
            && let Some(peer) = self.outward.peers[index].as_mut()
        {
            frame.flush(peer);
        }
        make_room(&mut frame.bytes, &entry);
        if frame.bytes.is_empty() {
            frame.time = message.accepted_ms;
            Data::begin(&mut frame.bytes, u64::from(stream), prev, frame.time);
            self.outward.touched.push(stream);
        }
        entry.put(&mut frame.bytes, prev, frame.time);
    }

    fn offer_shared(&mut self, stream: u32, seq: u64, position: Position, message: &MessageRecord<'_>) {
        let is_next = self.outward.lanes.lane(stream).is_some_and(|lane| seq == lane.sent() + 1);
        // Gaps in the numbers may be filled by volatile messages.
        let mut all =
            is_next || self.outward.hand_out_held(self.store, stream, seq, self.now_ms, &mut self.expired);
        let begins = message.flags & BEGINS != 0;
        if all && message.is_expired(self.now_ms) && !self.outward.has_begun(stream, seq, begins) {
            return self.expired.push((stream, seq, seq));
        }
        all = all && self.outward.hand_out(stream, &message.entry(seq));
        if !all && let Some(lane) = self.outward.lanes.lane_mut(stream) {
            lane.stall(position);
        }
    }
}

impl LaneFrame {
    pub(super) fn new(topic: &str) -> LaneFrame {
        LaneFrame { topic: topic.to_owned(), bytes: Vec::new(), time: 0, sent: SentCounts::default() }
    }

    /// Sends what is gathered.
    pub(super) fn flush(&mut self, peer: &mut Peer) {
        if !self.bytes.is_empty() {
            LaneFrame::send(&mut self.bytes, peer);
        }
    }

    /// Sends a frame, and empties it.
    pub(super) fn send(bytes: &mut Vec<u8>, peer: &mut Peer) {
        let frame = match bytes.len() < HAND_OVER_BYTES {
            true => Outgoing::Bytes(bytes),
            false => Outgoing::Body(std::mem::take(bytes).into()),
        };
        peer.send(frame);
        if bytes.capacity() > HAND_OVER_BYTES {
            drop(Body::from(std::mem::take(bytes)));
        }
        bytes.clear();
    }
}
