//! Volatile messages of shared streams.

use pinnace_engine::Outgoing;

use super::super::{Expired, Outward};
use crate::store::{Store, VolatileRun};
use crate::wire::FromSender;

impl Outward {
    /// Sends a whole run of volatile messages to the only receiver, without copying it. Returns false if that is not
    /// possible.
    fn give_run(&mut self, stream: u32, run: &VolatileRun) -> bool {
        let (of, lanes) = (run.of, &self.lanes);
        let (Some(shared), Some(lane)) = (self.shared.get_mut(&stream), lanes.lane(stream)) else {
            return false;
        };
        // Messages with properties may have ordering keys.
        if of.has_properties || lane.sent() >= of.first || lane.done().last() >= of.first {
            return false;
        }
        let member = shared.dispatch.only_member(of.messages, |peer| lanes.has_credit(peer));
        let Some((member, to)) = member.map(|member| (member, shared.dispatch.peer(member))) else {
            return false;
        };
        let Some(peer) = self.peers[to].as_mut() else { return false };
        if let Some(frame) = shared.frames.get_mut(member) {
            frame.flush(Some(peer));
        }
        let (generation, index) = shared.dispatch.send_frame(member);
        let next = FromSender::Next { stream: u64::from(stream), generation, index };
        peer.send(Outgoing::Bytes(&next.write()));
        peer.send(Outgoing::Body(run.frame_after(stream, of.first - 1)));
        shared.dispatch.assign_all(member, of.first, of.last, of.messages);
        self.lanes.spend(to, of.cost);
        if let Some(mut lane) = self.lanes.lane_mut(stream) {
            // The lane's own credit has no end.
            let _ = lane.advance_to(of.last, 0);
            lane.data_mut().sent.add(of.last, of.messages);
        }
        true
    }

    /// Sends a shared stream's volatile messages with numbers below `below`. Returns false if some must wait.
    pub(in crate::peer_loop::outward) fn hand_out_held(
        &mut self,
        store: &Store,
        stream: u32,
        below: u64,
        now_ms: u64,
        expired: &mut Vec<Expired>,
    ) -> bool {
        let tail = self.lanes.tail();
        let Some(mut at) = self.lanes.lane(stream).map(|lane| lane.sent()) else { return true };
        loop {
            let run = store.lock().outbox.held_after(stream, at);
            let Some(run) = run.filter(|run| run.of.first < below) else { return true };
            let of = run.of;
            at = of.last;
            if of.is_expired(now_ms) && !self.has_begun(stream, of.first, of.begins) {
                expired.push((stream, of.first, of.last));
                continue;
            }
            // The logged messages before them must be sent first.
            let mut all = below < u64::MAX || of.after.is_none_or(|after| Some(after) < tail);
            if all && !self.give_run(stream, &run) {
                run.visit(|entry| {
                    let is_due = self
                        .lanes
                        .lane(stream)
                        .is_some_and(|lane| entry.seq > lane.sent() && !lane.done().contains(entry.seq));
                    all = all && (!is_due || self.hand_out(stream, entry));
                });
            }
            if !all {
                return false;
            }
        }
    }
}
