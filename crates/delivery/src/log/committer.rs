//! The thread that writes: the next batch gathers while the one before is on its way to the disk, so that everybody
//! who waits shares one fdatasync(2), and nobody waits for a timer.
//!
//! A write or a sync that fails ends the log: what the kernel says of the same pages later is worth nothing. All who
//! wait hear of it, and the log has to be opened anew.

use std::io;
use std::sync::Arc;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use super::queue::{Gathered, Queue, ToSeal};
use super::segment::Segment;
use super::{Failure, Shared, locked};

/// Vectors of batches that are kept for others.
const EMPTIED_MAX: usize = 8;
/// How long what nobody waits for may gather.
const GATHER_FOR: Duration = Duration::from_millis(1);

/// The committer's own account of what it has written.
#[derive(Default)]
struct Unsynced {
    segments: Vec<Arc<Segment>>,
    seals: Vec<ToSeal>,
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
    let (mut written, mut durable, mut end) = {
        let queue = locked(&shared.queue);
        (queue.written, queue.durable, queue.end)
    };
    loop {
        let outcome = match next(shared, &unsynced) {
            Work::Stop => return close(shared),
            Work::Sync => unsynced.sync().map(|()| durable = written),
            Work::Write { mut batches, sync } => {
                let outcome = batches.iter_mut().try_for_each(|batch| unsynced.write(batch, durable));
                if let Some(last) = batches.last() {
                    written = last.number;
                    end = (last.segment.header.number, last.at + last.bytes.len() as u64);
                }
                let outcome = match sync {
                    true => outcome.and_then(|()| unsynced.sync()).map(|()| durable = written),
                    false => outcome,
                };
                give_back(&mut locked(&shared.queue), batches);
                outcome
            }
        };
        settle(shared, outcome, written, durable, end);
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
        let wanted = queue.open.sync || queue.closed.iter().any(|batch| batch.sync);
        let some = queue.open.records > 0 || !queue.closed.is_empty();
        let since = *gathers_since.get_or_insert(now);
        let enough = queue.stir() > 1 || since + GATHER_FOR <= now;
        if some && (enough || overdue || queue.stop) {
            if queue.open.records > 0 {
                queue.close();
            }
            let batches = queue.closed.drain(..).collect();
            return Work::Write { batches, sync: wanted || overdue || queue.stop };
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
        queue = wait(shared, queue, until.map(|until| until.saturating_duration_since(now)));
    }
}

fn wait<'a>(
    shared: &'a Shared,
    queue: MutexGuard<'a, Queue>,
    time: Option<Duration>,
) -> MutexGuard<'a, Queue> {
    match time {
        None => shared.work.wait(queue).unwrap_or_else(|poisoned| poisoned.into_inner()),
        Some(time) => {
            shared.work.wait_timeout(queue, time).unwrap_or_else(|poisoned| poisoned.into_inner()).0
        }
    }
}

/// The vectors of batches that were written are used again.
fn give_back(queue: &mut Queue, batches: Vec<Gathered>) {
    for batch in batches {
        queue.gathered = queue.gathered.saturating_sub(batch.bytes.len() - super::format::BATCH_HEADER);
        if queue.emptied.len() < EMPTIED_MAX {
            queue.emptied.push(batch.bytes);
        }
    }
}

/// Tells everybody how far it is.
fn settle(shared: &Shared, outcome: io::Result<()>, written: u64, durable: u64, end: (u64, u64)) {
    let mut queue = locked(&shared.queue);
    match outcome {
        Ok(()) => {
            queue.written = written;
            queue.durable = durable;
            queue.end = end;
            queue.reclaim();
        }
        Err(error) => queue.failed = Some(Failure::of(&error)),
    }
    let failed = queue.failed.is_some();
    drop(queue);
    shared.settled.notify_all();
    (shared.tell)(failed);
}

impl Unsynced {
    fn write(&mut self, batch: &mut Gathered, durable: u64) -> io::Result<()> {
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

    /// Everything written is on the disk, in the order in which it has to be: seals come last.
    fn sync(&mut self) -> io::Result<()> {
        self.segments.drain(..).try_for_each(|segment| segment.sync())?;
        self.since = None;
        self.seals.drain(..).try_for_each(|seal| {
            seal.segment.seal(seal.next, seal.end, &seal.summary)?;
            seal.segment.sync()
        })
    }
}
