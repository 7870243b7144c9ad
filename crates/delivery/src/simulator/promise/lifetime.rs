//! The rules on time to live, and on the dead letters that expired messages become.

use std::time::Duration;

use super::super::node::{node_of, topic_of};
use super::{Node, Oracle, Sent, body_of};
use crate::environment::simulated::elapsed;
use crate::{Dead, Verdict};

/// How long letters may take that have waited for room.
const LETTERS_AFTER: Duration = Duration::from_secs(1);

/// The clocks of all hosts.
#[derive(Default)]
pub struct Clocks {
    /// How far a host's clock is ahead, and since when.
    steps: Vec<Vec<(Duration, i64)>>,
}

impl Clocks {
    pub fn new(hosts: usize) -> Clocks {
        Clocks { steps: vec![vec![(Duration::ZERO, 0)]; hosts] }
    }

    pub fn record_step(&mut self, node: Node, skew_ms: i64) {
        self.steps[node].push((elapsed(), skew_ms));
    }

    /// Whether a host's clock has shown this time, or a later one, between two points in time.
    fn has_shown(&self, node: Node, ms: i64, (from, to): (Duration, Duration)) -> bool {
        let ends = self.steps[node].iter().skip(1).map(|(end, _)| *end).chain([Duration::MAX]);
        let spans =
            self.steps[node].iter().zip(ends).filter(|((begin, _), end)| *begin <= to && *end >= from);
        spans.map(|((_, skew_ms), end)| end.min(to).as_millis() as i64 + skew_ms).any(|latest| latest >= ms)
    }

    /// Whether a clock of any host has shown this time, or a later one, since then.
    pub(super) fn have_shown(&self, ms: i64, since: Duration) -> bool {
        (0..self.steps.len()).any(|node| self.has_shown(node, ms, (since, elapsed())))
    }

    fn now_ms(&self, node: Node) -> i64 {
        elapsed().as_millis() as i64 + self.steps[node].last().map_or(0, |(_, skew_ms)| *skew_ms)
    }
}

impl Oracle {
    /// A message has a time to live, which begins now by its sender's clock.
    pub fn record_ttl(&mut self, number: u32, ttl: Duration) {
        let of = &mut self.sent[number as usize];
        of.ends_ms = Some(self.clocks.now_ms(of.sender) + ttl.as_millis() as i64);
    }

    /// A host's disk is full from now on, or is not any more.
    pub fn record_full_disk(&mut self, node: Node, is_full: bool) {
        let until = if is_full { Duration::MAX } else { elapsed() + LETTERS_AFTER };
        if is_full || self.full_until.contains_key(&node) {
            self.full_until.insert(node, until);
        }
    }

    /// A process ends, and what it has written last may not be on its disk.
    pub fn record_data_lost(&mut self, node: Node) {
        self.lost_letters.push((node, elapsed()));
    }

    /// Checks that a message that a client gets for the first time has not expired.
    pub(super) fn check_lifetime(&mut self, node: Node, number: u32) {
        if self.sent[number as usize].ends_ms.is_some_and(|ends_ms| ends_ms <= self.clocks.now_ms(node)) {
            self.report(format!("client {node} got message {number} after its time to live"));
        }
    }

    /// Whether a message that has not expired by a client's clock had before the client ended. If the sender did not
    /// learn of it, the message comes again.
    pub(super) fn may_have_expired_before(&self, number: u32, node: Node) -> bool {
        self.last_death.get(&node).is_some_and(|at| self.is_over(&self.sent[number as usize], node, *at))
    }

    /// A dead letter was handled. Returns its number.
    pub fn record_dead_letter(&mut self, sender: Node, dead: &Dead, body: &[u8]) -> Option<u32> {
        let (topic, receiver) = (topic_of(&dead.topic), Some(node_of(&dead.receiver)));
        let receiver = receiver.filter(|_| !dead.receiver.is_empty());
        let number = body.first_chunk().map(|number| u32::from_le_bytes(*number))?;
        let of = self.sent.get_mut(number as usize)?;
        of.letters.insert(receiver);
        let of = &self.sent[number as usize];
        let is_as_sent = of.sender == sender && of.topic == topic && body_of(number, of.len) == body;
        let is_wanted = dead.reason != Verdict::Expired
            || (self.keeps_expired.contains(&sender) && self.has_expired(of, receiver));
        let handled = receiver.and_then(|receiver| of.handled.get(&receiver));
        let is_recorded = |process| {
            !self.ended_processes.contains(&process) || (!of.is_memory && self.closed.contains(&process))
        };
        let was_handled = dead.reason == Verdict::Expired
            && handled.and_then(|handled| handled.acked_in).is_some_and(is_recorded);
        if !is_as_sent {
            self.report(format!("the letter of message {number} is changed"));
        }
        if !is_wanted {
            self.report(format!("message {number} is an expired letter and should be none"));
        }
        if was_handled && !self.has_copies {
            self.report(format!(
                "client {receiver:?} has acknowledged message {number}, which is an expired letter"
            ));
        }
        Some(number)
    }

    fn is_over(&self, of: &Sent, node: Node, at: Duration) -> bool {
        of.ends_ms.is_some_and(|ends_ms| self.clocks.has_shown(node, ends_ms, (of.at, at)))
    }

    /// Whether the time to live of a message was over by the clock of its sender, or of its receiver; None: any client.
    fn has_expired(&self, of: &Sent, receiver: Option<Node>) -> bool {
        match receiver {
            Some(receiver) => [of.sender, receiver].iter().any(|node| self.is_over(of, *node, elapsed())),
            None => of.ends_ms.is_some_and(|ends_ms| self.clocks.have_shown(ends_ms, of.at)),
        }
    }

    /// Whether a message may have ended without being handled by a receiver (None: by any) and without a letter.
    pub(super) fn may_be_gone(&self, number: usize, receiver: Option<Node>) -> bool {
        let of = &self.sent[number];
        self.has_expired(of, receiver)
            && (!self.keeps_expired.contains(&of.sender) || self.may_lack_letter(number))
    }

    /// Whether the sender ended before the letter was certainly on its disk, after the message had expired by its
    /// clock, and after it had sent a later one to all of the topic: then the receiver counts it as left out.
    fn may_lack_letter(&self, number: usize) -> bool {
        let of = &self.sent[number];
        let is_later = |other: &Sent, at: Duration| {
            (other.sender, other.topic, other.all) == (of.sender, of.topic, true) && other.at <= at
        };
        let mut ends =
            self.lost_letters.iter().filter(|(node, at)| *node == of.sender && self.is_over(of, *node, *at));
        of.all && ends.any(|(_, at)| self.sent[number + 1..].iter().any(|other| is_later(other, *at)))
    }
}
