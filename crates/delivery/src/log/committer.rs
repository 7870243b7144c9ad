//! The thread that writes the log (group commit). While one batch is on its way to the disk, the next one gathers, so
//! all waiting callers share one fdatasync(2), and no caller waits for a timer.
//!
//! A write or sync that fails ends the log, because the kernel's later reports on the same pages cannot be trusted. All
//! waiting callers get the error, and the log has to be reopened.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::queue::{PendingBatch, ToSeal};
use super::segment::Segment;
use super::{Failure, Shared, locked};

/// Bytes to write and sync before waiting callers are notified of the progress.
const ROUND_BYTES: usize = 1 << 20;
/// How long records that no caller waits for may gather.
const GATHER_FOR: Duration = Duration::from_millis(1);

/// What the committer has written and not synced.
#[derive(Default)]
struct Unsynced {
    segments: Vec<Arc<Segment>>,
    seals: Vec<ToSeal>,
    /// It includes a segment that is new since the last sync.
    has_begun: bool,
    since: Option<Instant>,
}

enum Work {
    Write { batches: Vec<PendingBatch>, sync: bool },
    Sync,
    Stop,
}

pub fn run(shared: &Shared) {
    let mut unsynced = Unsynced::default();
    // The last batch that is written, and the last that is on the disk.
    let (mut written, mut durable) = {
        let queue = locked(&shared.queue);
        (queue.written, queue.durable)
    };
    loop {
        let (outcome, batches) = match next(shared, &unsynced) {
            Work::Stop => return close(shared),
            Work::Sync => (unsynced.sync().map(|()| durable = written), Vec::new()),
            Work::Write { mut batches, sync } => {
                let outcome = batches.iter_mut().try_for_each(|batch| unsynced.write(batch, durable));
                written = batches.last().map_or(written, |last| last.number);
                let outcome = match sync {
                    true => outcome.and_then(|()| unsynced.sync()).map(|()| durable = written),
                    false => outcome,
                };
                (outcome, batches)
            }
        };
        record_outcome(shared, outcome.map(|()| (written, durable)), batches);
    }
}

/// Seals the last segment, to record where the log ends. Everything is on the disk already, so an error is ignored.
fn close(shared: &Shared) {
    let (segment, end) = {
        let queue = locked(&shared.queue);
        if queue.failed.is_some() {
            return;
        }
        (queue.open.segment.clone(), queue.open.at)
    };
    let _ = segment.seal(0, end, &[]).and_then(|()| segment.sync());
}

/// Waits for the next work.
fn next(shared: &Shared, unsynced: &Unsynced) -> Work {
    let mut queue = locked(&shared.queue);
    let mut gathers_since = None;
    loop {
        if queue.failed.is_some() {
            return Work::Stop;
        }
        let now = Instant::now();
        let sync_at = unsynced.since.map(|since| since + shared.settings.interval);
        let overdue = sync_at.is_some_and(|at| at <= now);
        let some = queue.open.records > 0 || !queue.closed.is_empty();
        let since = *gathers_since.get_or_insert(now);
        let enough = queue.urgency_level() > 1 || since + GATHER_FOR <= now;
        if some && (enough || overdue || queue.stop) {
            if queue.open.records > 0 {
                queue.close();
            }
            let batches = queue.take_closed(ROUND_BYTES);
            let sync = overdue || queue.stop || batches.iter().any(|batch| batch.sync);
            return Work::Write { batches, sync };
        }
        if overdue || (queue.stop && unsynced.since.is_some()) {
            return Work::Sync;
        }
        if queue.stop {
            return Work::Stop;
        }
        if !some {
            gathers_since = None;
        }
        let until = [some.then(|| since + GATHER_FOR), sync_at].into_iter().flatten().min();
        queue = shared.work.wait(queue, until).unwrap_or_else(|| locked(&shared.queue));
    }
}

/// Publishes the result: the last batch written and the last on the disk.
fn record_outcome(shared: &Shared, outcome: io::Result<(u64, u64)>, batches: Vec<PendingBatch>) {
    let mut queue = locked(&shared.queue);
    match outcome {
        Ok(progress) => {
            (queue.written, queue.durable) = progress;
            batches.into_iter().for_each(|batch| queue.wrote(batch));
            queue.reclaim();
        }
        Err(error) => queue.failed = Some(Failure::of(&error)),
    }
    let failed = queue.failed.is_some();
    shared.is_crowded.store(queue.is_crowded(), Ordering::Relaxed);
    drop(queue);
    shared.progressed.tell();
    (shared.tell)(failed);
}

impl Unsynced {
    fn write(&mut self, batch: &mut PendingBatch, durable: u64) -> io::Result<()> {
        if batch.first && self.has_begun {
            // Recovery takes an empty segment before a used one for damage, so sync the earlier segment first.
            self.sync()?;
        }
        self.has_begun |= batch.first;
        self.since.get_or_insert_with(Instant::now);
        batch.finish(durable);
        if batch.first {
            batch.segment.begin()?;
        }
        if !self.segments.iter().any(|segment| Arc::ptr_eq(segment, &batch.segment)) {
            self.segments.push(batch.segment.clone());
        }
        self.seals.extend(batch.seal.take());
        batch.segment.write(&batch.bytes, batch.at)
    }

    /// Syncs everything written, then writes the seals of full segments. A full segment is on the disk before its seal
    /// is written; the next sync covers the seal.
    fn sync(&mut self) -> io::Result<()> {
        self.segments.drain(..).try_for_each(|segment| segment.sync())?;
        self.has_begun = false;
        self.since = (!self.seals.is_empty()).then(Instant::now);
        for seal in self.seals.drain(..) {
            seal.segment.seal(seal.next, seal.end, &seal.summary)?;
            self.segments.push(seal.segment);
        }
        Ok(())
    }
}
