//! The thread that writes: the next batch gathers while the one before is on its way to the disk, so that everybody
//! who waits shares one fdatasync(2), and nobody waits for a timer.
//!
//! A write or a sync that fails ends the log: what the kernel says of the same pages later is worth nothing. All who
//! wait hear of it, and the log has to be opened anew.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::queue::{Gathered, ToSeal};
use super::segment::Segment;
use super::{Failure, Shared, locked};

/// Bytes that are written, and synced, before others have to hear of it: receivers are served meanwhile.
const ROUND_BYTES: usize = 1 << 20;
/// How long what nobody waits for may gather.
const GATHER_FOR: Duration = Duration::from_millis(1);

/// The committer's own account of what it has written.
#[derive(Default)]
struct Unsynced {
    segments: Vec<Arc<Segment>>,
    seals: Vec<ToSeal>,
    /// A segment has begun.
    has_begun: bool,
    since: Option<Instant>,
}

/// What there is to do.
enum Work {
    Write { batches: Vec<Gathered>, sync: bool },
    Sync,
    Stop,
}

pub fn run(shared: &Shared) {
    let mut unsynced = Unsynced::default();
    // The last batch that was written, and the last that is on the disk.
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
        settle(shared, outcome.map(|()| (written, durable)), batches);
    }
}

/// Everything is on the disk: the last segment says where the log ends. What becomes of that is no matter.
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

/// Waits until there is something to do.
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
        let enough = queue.stir() > 1 || since + GATHER_FOR <= now;
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

/// Tells everybody how far it is, which are the last batches that are written and on the disk.
fn settle(shared: &Shared, outcome: io::Result<(u64, u64)>, batches: Vec<Gathered>) {
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
    shared.settled.tell();
    (shared.tell)(failed);
}

impl Unsynced {
    fn write(&mut self, batch: &mut Gathered, durable: u64) -> io::Result<()> {
        if batch.first && self.has_begun {
            // A segment of which nothing is there before one of which something is can only be damage.
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

    /// Everything written is on the disk. Of a segment that is full it is so before its seal is written, which is on
    /// the disk with what is written next.
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
