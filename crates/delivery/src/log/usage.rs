//! What a log takes of the disk, and how long the disk takes.

use std::time::Duration;

use super::spares::bytes_of_files;
use super::{Log, locked};

/// The most bytes of records that are appended together.
const TOGETHER_BYTES: u64 = 8 << 20;

/// How often the log was synced since it was opened, and the time that took in all.
#[derive(Debug, Clone, Copy, Default)]
pub struct SyncTimes {
    pub count: u64,
    pub total: Duration,
}

/// The log's files.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Bytes of all files.
    pub disk_bytes: u64,
    /// The most that they may have; u64::MAX: without limit.
    pub disk_limit: u64,
    /// Files in use, without those that wait to be used again.
    pub segments: u64,
    pub syncs: SyncTimes,
}

impl Log {
    /// The most bytes of one message, over all its parts. A message of this size fits into an otherwise empty log,
    /// beside the current segment and two spares.
    pub fn largest(&self) -> u64 {
        let most = self.shared.settings.most;
        (most / 16).max(most.saturating_sub(16 << 20) / 2)
    }

    /// The most bytes of records that are appended together. They fit into one segment, beside the current one and a
    /// second spare.
    pub fn largest_together(&self) -> u64 {
        (self.shared.settings.most / 16).min(TOGETHER_BYTES)
    }

    pub fn usage(&self) -> Usage {
        let queue = locked(&self.shared.queue);
        Usage {
            disk_bytes: bytes_of_files(&queue),
            disk_limit: self.shared.settings.most,
            segments: queue.segments.len() as u64,
            syncs: queue.syncs,
        }
    }
}
