//! What an inbox counts for the statistics of its client.

use super::flow::Message;
use super::{Arrived, Inbox};
use crate::wire::ENDS;

/// Whole messages of an incoming stream, since the client was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCounts {
    pub received: u64,
    /// Deliveries: the first of each message, and further ones.
    pub delivered: u64,
    pub redelivered: u64,
    pub acknowledged: u64,
    /// Deliveries that failed or took too long, and those that were put off.
    pub failed: u64,
    pub put_off: u64,
    pub given_up: u64,
    pub expired: u64,
    /// Messages that had arrived before, and were dropped.
    pub duplicates: u64,
    /// Messages that were handed out and are not settled.
    pub in_hand: u64,
    /// What waits in the queue: whole messages, and the bytes of bodies, also of a message that is arriving.
    pub queued: u64,
    pub queued_bytes: u64,
}

impl FlowCounts {
    pub fn enqueue(&mut self, part: &Arrived) {
        self.queued += u64::from(part.has(ENDS));
        self.queued_bytes += part.len as u64;
    }

    pub fn dequeue(&mut self, part: &Arrived) {
        self.queued -= u64::from(part.has(ENDS));
        self.queued_bytes -= part.len as u64;
    }

    /// A message comes back that no handler has seen.
    pub fn give_back(&mut self, message: &Message) {
        match message.deliveries {
            1 => self.delivered -= 1,
            _ => self.redelivered -= 1,
        }
    }

    /// A message is handed out.
    pub fn hand_out(&mut self, message: &Message) {
        self.in_hand += 1;
        match message.deliveries {
            1 => self.delivered += 1,
            _ => self.redelivered += 1,
        }
    }
}

/// The counts of one incoming stream.
pub struct FlowStatistics {
    pub from: String,
    pub topic: String,
    /// `queued` includes messages that wait to be delivered again.
    pub counts: FlowCounts,
}

impl Inbox {
    /// The counts of all streams.
    pub fn statistics(&self) -> Vec<FlowStatistics> {
        let state = self.lock();
        let mut all: Vec<FlowStatistics> = Vec::with_capacity(state.flows.len());
        for flow in &state.flows {
            let (from, topic) = (flow.origin.from.clone(), flow.origin.topic.clone());
            all.push(FlowStatistics { from, topic, counts: flow.counts_with_waiting() });
        }
        for message in state.later.values() {
            let of = &mut all[message.parts.first().frame.origin.flow].counts;
            of.queued += 1;
            of.queued_bytes += message.bytes();
        }
        all
    }
}
