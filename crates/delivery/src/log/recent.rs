//! The batches written last, still in memory: a reader close to the end of the log need not read the disk.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Position;
use super::format::{BATCH_HEADER, record_at};

/// The most bytes kept.
const MOST: usize = 8 << 20;
/// The most empty vectors kept for reuse.
const EMPTIED_MAX: usize = 8;

/// A batch as it was written.
pub struct Written {
    pub segment: u64,
    /// The offset of its header.
    pub at: u64,
    /// Its header and its records.
    pub bytes: Vec<u8>,
}

/// The last batches, in log order.
#[derive(Default)]
pub struct Recent {
    batches: VecDeque<Arc<Written>>,
    bytes: usize,
    /// Vectors of dropped batches, for reuse.
    emptied: Vec<Vec<u8>>,
}

impl Recent {
    /// A vector for a new batch.
    pub fn vector(&mut self) -> Vec<u8> {
        self.emptied.pop().unwrap_or_default()
    }

    pub fn add(&mut self, batch: Written) {
        self.bytes += batch.bytes.capacity();
        self.batches.push_back(Arc::new(batch));
        while self.bytes > MOST
            && let Some(first) = self.batches.pop_front()
        {
            self.bytes -= first.bytes.capacity();
            if self.emptied.len() < EMPTIED_MAX {
                // If a reader still holds the batch, its vector is not reused.
                self.emptied.extend(Arc::into_inner(first).map(|batch| batch.bytes));
            }
        }
    }

    /// The batches of one segment from the one that contains `place` on, about `most` bytes. Empty: that one is not
    /// kept.
    pub fn from(&self, position: Position, most: usize) -> Vec<Arc<Written>> {
        let at = (position.segment, u64::from(position.at));
        let first = self.batches.partition_point(|batch| (batch.segment, batch.end()) <= at);
        let mut left = most;
        let batches = self.batches.iter().skip(first).take_while(|batch| {
            let is_wanted = left > 0 && batch.segment == position.segment;
            left = left.saturating_sub(batch.bytes.len());
            is_wanted
        });
        match self.batches.get(first) {
            Some(batch) if (batch.segment, batch.at) <= at => batches.cloned().collect(),
            _ => Vec::new(),
        }
    }
}

impl Written {
    /// The offset after it.
    pub fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Visits its records from the segment offset `from` (the start of the batch or of a record), until the visitor
    /// returns false. Returns the offset after the last record visited, and the visitor's last result.
    fn visit(&self, from: u32, visit: &mut dyn FnMut(Position, u8, &[u8]) -> bool) -> (u32, bool) {
        let mut at = (u64::from(from).saturating_sub(self.at) as usize).max(BATCH_HEADER);
        let mut wanted = true;
        while wanted && let Some((kind, payload, len)) = self.bytes.get(at..).and_then(record_at) {
            let position = Position { segment: self.segment, at: (self.at + at as u64) as u32 };
            at += len;
            wanted = visit(position, kind, payload);
        }
        ((self.at + at as u64) as u32, wanted)
    }
}

/// Visits the records of consecutive batches as if they were one.
pub fn visit(batches: &[Arc<Written>], from: u32, visit: &mut dyn FnMut(Position, u8, &[u8]) -> bool) -> u32 {
    let (mut at, mut wanted) = (from, true);
    for batch in batches {
        if wanted {
            (at, wanted) = batch.visit(at, visit);
        }
    }
    at
}
