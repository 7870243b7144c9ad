//! Which segments of the log hold a stream's messages.

use std::collections::VecDeque;

use crate::log::Position;
use crate::wire::COST;

/// What a run needs to know of a logged message.
#[derive(Debug, Clone, Copy)]
pub struct Logged {
    pub position: Position,
    /// Bytes of its body.
    pub bytes: u64,
    /// When it was accepted.
    pub accepted_ms: u64,
    pub flags: u8,
}

/// The messages of a stream in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub segment: u64,
    /// Offset of the first.
    pub at: u32,
    pub first: u64,
    pub last: u64,
    /// The count of messages from the first to the last.
    pub count: u64,
    /// What they cost: the bytes of their bodies, and COST for each.
    pub cost: u64,
    /// The flags that at least one of them has.
    pub flags: u8,
    /// When the first and the last of them were accepted, by clocks that may have been set back between.
    pub oldest_ms: u64,
    pub newest_ms: u64,
}

impl Run {
    fn new(seq: u64, logged: &Logged) -> Run {
        let (Position { segment, at }, ms) = (logged.position, logged.accepted_ms);
        let (cost, flags) = (COST + logged.bytes, logged.flags);
        Run { segment, at, first: seq, last: seq, count: 1, cost, flags, oldest_ms: ms, newest_ms: ms }
    }

    /// The part of the run up to `upto`; its count and cost are estimates.
    pub fn clipped(self, upto: u64) -> Option<Run> {
        if self.first > upto {
            return None;
        }
        let last = self.last.min(upto);
        let numbers = last - self.first + 1;
        Some(Run { last, count: self.count.min(numbers), cost: self.cost_of(numbers), ..self })
    }

    /// The estimated cost of `count` of its messages: their share of the cost of all.
    pub fn cost_of(&self, count: u64) -> u64 {
        let share = u128::from(self.cost) * u128::from(count.min(self.count));
        (share / u128::from(self.count.max(1))) as u64
    }
}

/// Adds a message after the others. `joins`: it may be in one run with the message before it.
pub fn extend(runs: &mut VecDeque<Run>, seq: u64, logged: &Logged, joins: bool) {
    match runs.back_mut() {
        Some(run) if joins && run.segment == logged.position.segment => {
            (run.last, run.count, run.cost) = (seq, run.count + 1, run.cost + COST + logged.bytes);
            run.flags |= logged.flags;
            run.oldest_ms = run.oldest_ms.min(logged.accepted_ms);
            run.newest_ms = run.newest_ms.max(logged.accepted_ms);
        }
        _ => runs.push_back(Run::new(seq, logged)),
    }
}
