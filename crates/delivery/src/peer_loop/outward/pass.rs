//! One read of a part of the log, which serves the lanes that stand there.

use pinnace_engine::{Body, Outgoing};

use super::{At, Expired, Lane, Outward};
use crate::log::Position;
use crate::peer_loop::peer::Peer;
use crate::store::Store;
use crate::store::records::MessageRecord;
use crate::wire::{COST, Data, FRAME_BYTES, FrameEntry, make_room};

/// Frames at least this large are passed by reference, not copied.
const HAND_OVER_BYTES: usize = 16 << 10;

/// The lanes that a read of the log serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    Current,
    Behind,
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
        }
    }

    fn offer(&mut self, stream: u32, seq: u64, position: Position, message: &MessageRecord<'_>) {
        let Some(lane) = self.outward.lanes.get_mut(&stream) else { return };
        let is_its_turn = match lane.at {
            At::Current => self.serves == Served::Current,
            At::Behind(from) => self.serves == Served::Behind && from <= position,
            At::Stalled(_) => false,
        };
        if !is_its_turn || !lane.ready || seq <= lane.sent || lane.done.contains(seq) {
            return;
        }
        let ttl_ms = (message.ttl_ms > 0).then_some(u64::from(message.ttl_ms));
        // Gaps in the numbers may be filled by volatile messages.
        let has_all = seq == lane.sent + 1
            || self.outward.send_held_below(self.store, stream, seq, self.now_ms, &mut self.expired);
        let Some(lane) = self.outward.lanes.get_mut(&stream) else { return };
        if ttl_ms.is_some_and(|ttl_ms| message.accepted_ms.saturating_add(ttl_ms) <= self.now_ms) {
            // If nothing before it is left to send, the numbers before it expire with it.
            self.expired.push((stream, if has_all { lane.sent + 1 } else { seq }, seq));
            return;
        }
        let Some(peer) = self.outward.peers[lane.peer].as_mut() else { return };
        if !has_all || peer.sent >= peer.credit {
            lane.at = At::Stalled(position);
            peer.stalled.push(stream);
            return;
        }
        peer.sent += COST + message.body.len() as u64;
        let (accepted_ms, flags, body) = (message.accepted_ms, message.flags, message.body);
        let entry = FrameEntry { seq, accepted_ms, ttl_ms, flags, body };
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

/// Sends the frame gathered for a lane.
pub(super) fn flush_lane(lane: &mut Lane, peer: &mut Peer) {
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
