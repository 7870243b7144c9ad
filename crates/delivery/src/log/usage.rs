//! What a log takes of the disk, and how long the disk takes.

use std::time::Duration;

use super::spares::bytes_of_files;
use super::{Log, locked};

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
