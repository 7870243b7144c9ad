//! Writes the log (group commit). While one batch is on its way to the disk, the next one gathers, so
//! all waiting callers share one fdatasync(2), and no caller waits for a timer.
//!
//! A write or sync that fails ends the log, because the kernel's later reports on the same pages cannot be trusted. All
//! waiting callers get the error, and the log has to be reopened.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use super::duties::Duty;
use super::queue::{PendingBatch, Queue, ToSeal};
use super::segment::Segment;
use super::spares::is_superfluous;
use super::usage::SyncTimes;
use super::{Failure, Shared, Step, locked};
use crate::environment::now;

/// Bytes to write and sync before waiting callers are notified of the progress.
const ROUND_BYTES: usize = 2 << 20;
/// How long records that no caller waits for may gather.
const GATHER_FOR: Duration = Duration::from_millis(1);

/// Writes and syncs the batches of a log. A thread, or a simulation, calls `step`.
pub struct Committer {
    unsynced: Unsynced,
    /// The last batch that is written, and the last that is on the disk.
    written: u64,
    durable: u64,
    /// Since when records gather that no caller waits for.
    gathers_since: Option<Instant>,
}

/// What is written and not synced.
#[derive(Default)]
struct Unsynced {
    segments: Vec<Arc<Segment>>,
    seals: Vec<ToSeal>,
    /// It includes a segment that is new since the last sync.
    has_begun: bool,
    since: Option<Instant>,
    syncs: SyncTimes,
}

enum DueWork {
    Write {
        batches: Vec<PendingBatch>,
        sync: bool,
    },
    Sync,
    /// There is nothing to do before this time; None: until more is appended.
    Wait(Option<Instant>),
    Stop,
}

impl Committer {
    pub fn new(queue: &Queue) -> Committer {
        let (written, durable) = (queue.written, queue.durable);
        Committer { unsynced: Unsynced::default(), written, durable, gathers_since: None }
    }

    /// Writes or syncs what is due.
    pub fn step<'a>(&mut self, shared: &'a Arc<Shared>, mut queue: MutexGuard<'a, Queue>) -> Step<'a> {
        let next = self.next(&mut queue, shared.settings.interval);
        let (outcome, batches) = match next {
            DueWork::Wait(until) => return Step::Wait(queue, until),
            DueWork::Stop => return Step::Stop,
            DueWork::Sync => {
                drop(queue);
                (self.unsynced.sync().map(|()| self.durable = self.written), Vec::new())
            }
            DueWork::Write { mut batches, sync } => {
                drop(queue);
                let outcome = self.write(&mut batches, sync);
                (outcome, batches)
            }
        };
        record_outcome(shared, outcome.map(|()| (self.written, self.durable)), batches, self.unsynced.syncs);
        Step::Worked
    }

    fn write(&mut self, batches: &mut [PendingBatch], sync: bool) -> io::Result<()> {
        batches.iter_mut().try_for_each(|batch| self.unsynced.write(batch, self.durable))?;
        self.written = batches.last().map_or(self.written, |last| last.number);
        if sync {
            self.unsynced.sync()?;
            self.durable = self.written;
        }
        Ok(())
    }

    /// What is to be done now.
    fn next(&mut self, queue: &mut Queue, interval: Duration) -> DueWork {
        if queue.failed.is_some() {
            return DueWork::Stop;
        }
        let now = now();
        let sync_at = self.unsynced.since.map(|since| since + interval);
        let overdue = sync_at.is_some_and(|at| at <= now);
        let some = queue.open.records > 0 || !queue.closed.is_empty();
        let write_at = some.then(|| *self.gathers_since.get_or_insert(now) + GATHER_FOR);
        let enough = queue.urgency_level() > 1 || write_at.is_some_and(|at| at <= now);
        if some && (enough || overdue || queue.stop) {
            self.gathers_since = None;
            if queue.open.records > 0 {
                queue.close();
            }
            let batches = queue.take_closed(ROUND_BYTES);
            let sync = overdue || queue.stop || batches.iter().any(|batch| batch.sync);
            return DueWork::Write { batches, sync };
        }
        if overdue || (queue.stop && self.unsynced.since.is_some()) {
            return DueWork::Sync;
        }
        match queue.stop {
            true => DueWork::Stop,
            false => DueWork::Wait([write_at, sync_at].into_iter().flatten().min()),
        }
    }
}

/// Seals the last segment, to record where the log ends. Everything is on the disk already, so an error is ignored.
pub fn close(shared: &Shared) {
    let (segment, end) = {
        let queue = locked(&shared.queue);
        if queue.failed.is_some() {
            return;
        }
        (queue.open.segment.clone(), queue.open.at)
    };
    let _ = segment.seal(0, end, &[]).and_then(|()| segment.sync());
}

/// Publishes the result: the last batch written and the last on the disk.
fn record_outcome(
    shared: &Arc<Shared>,
    outcome: io::Result<(u64, u64)>,
    batches: Vec<PendingBatch>,
    syncs: SyncTimes,
) {
    let mut queue = locked(&shared.queue);
    let mut call = None;
    queue.syncs = syncs;
    match outcome {
        Ok(progress) => {
            (queue.written, queue.durable) = progress;
            batches.into_iter().for_each(|batch| queue.wrote(batch));
            queue.reclaim();
            call = is_superfluous(&queue).then(|| Duty::Spares.call(&mut queue));
        }
        Err(error) => queue.failed = Some(Failure::of(&error)),
    }
    let failed = queue.failed.is_some();
    shared.is_crowded.store(queue.is_crowded(), Ordering::Relaxed);
    drop(queue);
    call.into_iter().for_each(|call| call.deliver(shared));
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
        self.since.get_or_insert_with(now);
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
        let begin = now();
        self.segments.drain(..).try_for_each(|segment| segment.sync())?;
        self.syncs.count += 1;
        self.syncs.total += now().saturating_duration_since(begin);
        self.has_begun = false;
        self.since = (!self.seals.is_empty()).then(now);
        for seal in self.seals.drain(..) {
            seal.segment.seal(seal.next, seal.end, &seal.summary)?;
            self.segments.push(seal.segment);
        }
        Ok(())
    }
}
