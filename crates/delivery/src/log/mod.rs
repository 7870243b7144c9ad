//! A write-ahead log on the disk: records are appended, survive a crash, and their space is reused when no longer
//! needed.
//!
//! Structure: segments of batches of records (`format`), written by one thread at a time (`committer`) into
//! preallocated files (`spares`); the threads are those of all logs (`duties`). The [`Checkpointer`] knows what the
//! records mean; the log replays them when it is opened ([`Replay`]).
//!
//! Guarantees:
//! - Once [`Log::wait`] has returned Ok for a batch, its records are found when the log is opened again, in the order
//!   of appending, after any failure of the process, the machine or its power.
//! - Every record found is as it was written (CRC32C). Anything that was on the disk and is missing is reported
//!   ([`Damage`]). A record not yet reported as being on the disk may be missing silently.
//! - A write or sync that fails ends the log, and all waiting callers get the error.

mod committer;
mod duties;
mod error;
mod format;
mod guard;
mod queue;
mod reading;
mod recent;
mod recovery;
mod scan;
mod segment;
mod spares;
mod storage;
#[cfg(test)]
pub mod tests;
mod usage;
mod viewing;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use committer::Committer;
use duties::Attendants;
pub use error::{Damage, Failure, LogError};
pub use format::{MAX_PAYLOAD, record_bytes};
use guard::Guard;
use queue::Queue;
use reading::Window;
use segment::MIN_BYTES;
pub use storage::{Directory, File, Storage};
pub use viewing::View;

use crate::signal::{Patience, Signal};
use crate::workers::Workers;

/// The position of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub segment: u64,
    /// Offset in the segment's file, in bytes.
    pub at: u32,
}

/// The result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    pub position: Position,
    /// The batch to wait for.
    pub batch: u64,
}

/// When a record must be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// As soon as possible: a caller waits.
    Sync,
    /// Within `Settings::interval`.
    Interval,
    /// Like `Interval`, but may use the reserved spare when space is short, because it frees space or unblocks others.
    Control,
    /// Like `Sync`, but may use the reserved spare when space is short.
    Note,
}

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long records that no caller waits for may stay unsynced.
    pub interval: Duration,
    /// The most bytes of all files.
    pub most: u64,
    /// Opens a damaged log without its damaged parts.
    pub skip_damage: bool,
}

/// Knows what the records mean.
pub trait Checkpointer {
    /// Adds the records that replace all older segments.
    fn checkpoint(&self, add: &mut dyn FnMut(u8, &[&[u8]]));
    /// A summary of a full segment's records, which spares reading them; may be empty.
    fn summary(&self, segment: u64) -> Vec<u8>;
}

/// Receives a log's content when it is opened, older segments first.
pub trait Replay {
    /// The summary of a segment. Returns false if the segment's records must be read instead.
    fn summary(&mut self, segment: u64, summary: &[u8]) -> bool;
    fn record(&mut self, position: Position, kind: u8, payload: &[u8]);
}

/// Called after progress of writing or syncing; the argument is true if the log has failed.
pub type SyncCallback = Box<dyn Fn(bool) + Send + Sync>;

/// An open log. Calls may come from any thread.
pub struct Log {
    shared: Arc<Shared>,
}

/// The result of a worker's step.
enum Step<'a> {
    Worked,
    /// There is nothing to do before this time; None: until the state changes.
    Wait(MutexGuard<'a, Queue>, Option<Instant>),
    Stop,
}

struct Shared {
    storage: Arc<dyn Storage>,
    settings: Settings,
    queue: Mutex<Queue>,
    committer: Mutex<Committer>,
    /// None: the simulator calls `Log::step`, and a call that waits does the work itself.
    workers: Option<Arc<Workers>>,
    /// Wakes the thread that writes.
    work: Signal,
    /// Wakes callers that wait for the disk or for room.
    progressed: Signal,
    wants_spare: Signal,
    attendants: Arc<Attendants>,
    /// There is damage in `Queue::rot` that was not reported.
    is_rotten: AtomicBool,
    /// The backlog of unwritten bytes is over its limit.
    is_crowded: AtomicBool,
    guard: Guard,
    tell: SyncCallback,
}

/// A log that was read and accepts no records yet.
pub struct Opened {
    storage: Arc<dyn Storage>,
    settings: Settings,
    found: recovery::Recovered,
}

impl Shared {
    fn note_rot(&self, damage: Damage) {
        let mut queue = locked(&self.queue);
        if !queue.rot.contains(&damage) {
            queue.rot.push(damage);
            self.is_rotten.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns true if no file can be made until the directory itself is fixed.
fn is_final(reason: io::ErrorKind) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(reason, NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem)
}

fn locked(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the log in a storage.
pub fn open(
    storage: Arc<dyn Storage>,
    settings: Settings,
    replay: &mut dyn Replay,
) -> Result<Opened, LogError> {
    let found = recovery::recover(&*storage, settings.skip_damage, replay)?;
    Ok(Opened { storage, settings, found })
}

impl Opened {
    /// The damaged parts that were left out.
    pub fn damage(&self) -> &[Damage] {
        &self.found.damage
    }

    /// Continues the log in a new segment.
    pub fn start(self, keeper: &dyn Checkpointer, tell: SyncCallback) -> Result<Log, LogError> {
        let workers = Workers::of_process().map_err(|error| LogError::Io(error.kind()))?;
        let log = Log { shared: self.begin(keeper, tell, Some(workers))? };
        log.begin_duties();
        Ok(log)
    }

    /// As `start`, without threads: the caller calls `Log::step`.
    #[cfg(test)]
    pub fn start_stepped(self, keeper: &dyn Checkpointer, tell: SyncCallback) -> Result<Log, LogError> {
        let log = Log { shared: self.begin(keeper, tell, None)? };
        log.step();
        Ok(log)
    }

    fn begin(
        self,
        keeper: &dyn Checkpointer,
        tell: SyncCallback,
        workers: Option<Arc<Workers>>,
    ) -> Result<Arc<Shared>, LogError> {
        let Opened { storage, settings, mut found } = self;
        // Retire torn segments before a seal declares an end of the log that precedes them.
        for segment in found.torn.drain(..) {
            segment.retire()?;
            found.spares.push(segment.into_spare());
        }
        for (segment, end) in &found.unsealed {
            segment.rewrite(*end)?;
            segment.seal(0, *end, &keeper.summary(segment.header.number))?;
            segment.sync()?;
        }
        let (mut spares, mut least) = (found.spares, MIN_BYTES);
        let first = loop {
            // The smallest: a process that is open for a moment leaves a segment with few records behind.
            let fitting = spares.iter().enumerate().filter(|(_, spare)| spare.bytes >= least);
            let room = match fitting.min_by_key(|(_, spare)| spare.bytes).map(|(at, _)| at) {
                Some(at) => spares.swap_remove(at),
                None => spares::create(&*storage, least)?,
            };
            let number = found.last_segment + 1;
            match queue::first_batch(room, queue::generation()?, number, &found.ends, keeper) {
                Ok(first) => break first,
                Err((small, bytes)) => {
                    let bytes = segment::bytes_to_begin_with(bytes as u64);
                    if small.bytes >= bytes {
                        return Err(LogError::TooLarge);
                    }
                    spares.push(small);
                    least = bytes;
                }
            }
        };
        let mut queue = Queue::new(found.segments, spares, first, found.last_batch + 1);
        queue.ends.extend(found.ends);
        let guard = Guard::found(found.guards, &mut queue);
        let (work, progressed, wants_spare, attendants, is_rotten, is_crowded) = Default::default();
        let committer = Mutex::new(Committer::new(&queue));
        let queue = Mutex::new(queue);
        Ok(Arc::new(Shared {
            storage,
            settings,
            queue,
            committer,
            workers,
            work,
            progressed,
            wants_spare,
            attendants,
            is_rotten,
            is_crowded,
            guard,
            tell,
        }))
    }
}

impl Log {
    /// Appends a record of one of the keeper's kinds (2 and above). Its payload is the concatenation of `parts`.
    pub fn append(
        &self,
        urgency: Urgency,
        kind: u8,
        parts: &[&[u8]],
        keeper: &dyn Checkpointer,
    ) -> Result<Appended, LogError> {
        self.append_together(urgency, &[(kind, parts)], keeper)
    }

    /// As `append`, for several records: a crash leaves all of them or none. Returns the position of the first; the
    /// others follow, each behind the bytes of the record before it ([`record_bytes`]).
    pub fn append_together(
        &self,
        urgency: Urgency,
        records: &[(u8, &[&[u8]])],
        keeper: &dyn Checkpointer,
    ) -> Result<Appended, LogError> {
        let mut queue = locked(&self.shared.queue);
        let before = (queue.urgency_level(), queue.next_segment);
        let appended = queue.append_together(urgency, records, keeper);
        if queue.is_crowded() {
            self.shared.is_crowded.store(true, Ordering::Relaxed);
        }
        self.follow(queue, before, matches!(appended, Err(LogError::NoRoom(_))));
        appended
    }

    /// Frees a segment with no needed records: its file is used again.
    pub fn free(&self, segment: u64, keeper: &dyn Checkpointer) -> Result<(), LogError> {
        let mut queue = locked(&self.shared.queue);
        let before = (queue.urgency_level(), queue.next_segment);
        let freed = queue.free(segment, keeper);
        self.follow(queue, before, freed.is_err());
        freed
    }

    /// The last batch that is written, and the last that is on the disk, each with all before it.
    pub fn progress(&self) -> Result<(u64, u64), LogError> {
        let queue = locked(&self.shared.queue);
        match &queue.failed {
            None => Ok((queue.written, queue.durable)),
            Some(failure) => Err(LogError::Failed(failure.clone())),
        }
    }

    /// Waits until a batch is on the disk.
    pub fn wait(&self, batch: u64, deadline: Option<Instant>) -> Result<(), LogError> {
        self.wait_until(deadline.into(), |queue| match &queue.failed {
            _ if queue.durable >= batch => Some(Ok(())),
            None => None,
            Some(failure) => Some(Err(LogError::Failed(failure.clone()))),
        })
    }

    /// Returns true if `wait_until_calm` would not block. Takes no lock.
    pub fn is_calm(&self) -> bool {
        !self.shared.is_crowded.load(Ordering::Relaxed)
    }

    /// Waits until the backlog of unwritten bytes is within its limit.
    pub fn wait_until_calm<'a>(&self, patience: impl Into<Patience<'a>>) -> Result<(), LogError> {
        self.wait_until(patience.into(), |queue| match &queue.failed {
            Some(failure) => Some(Err(LogError::Failed(failure.clone()))),
            None => (!queue.is_crowded()).then_some(Ok(())),
        })
    }

    /// Waits until a file for a new segment is ready, after `append` returned NoRoom. Errors: NoRoom, the time is over
    /// and the last attempt to make a file failed for this reason; TimedOut; Io, none can be made however long one
    /// waits; Failed.
    pub fn wait_for_room<'a>(&self, patience: impl Into<Patience<'a>>) -> Result<(), LogError> {
        let waited = self.wait_until(patience.into(), |queue| match &queue.failed {
            Some(failure) => Some(Err(LogError::Failed(failure.clone()))),
            None if !spares::is_wanted(queue) => Some(Ok(())),
            None => queue.no_spare.filter(|reason| is_final(*reason)).map(|reason| Err(LogError::Io(reason))),
        });
        match (waited, locked(&self.shared.queue).no_spare) {
            (Err(LogError::TimedOut), Some(reason)) => Err(LogError::NoRoom(Some(reason))),
            (waited, _) => waited,
        }
    }

    fn wait_until<R>(
        &self,
        patience: Patience<'_>,
        mut outcome: impl FnMut(&Queue) -> Option<Result<R, LogError>>,
    ) -> Result<R, LogError> {
        #[cfg(test)]
        if self.shared.workers.is_none() {
            self.step();
            return outcome(&locked(&self.shared.queue)).unwrap_or(Err(LogError::TimedOut));
        }
        let mut queue = locked(&self.shared.queue);
        loop {
            if let Some(outcome) = outcome(&queue) {
                return outcome;
            }
            queue = self.shared.progressed.wait(queue, patience).ok_or(LogError::TimedOut)?;
        }
    }

    /// Makes waiting callers check again, after a `Patience::called_off` flag was set.
    pub fn wake_waiters(&self) {
        drop(locked(&self.shared.queue));
        self.shared.progressed.tell();
    }

    /// Reads written records of one segment from `from` on, about `most` bytes, until the visitor returns false.
    /// Returns where to continue, which is in the next segment once this one is read to its end; `from` itself: no more
    /// is written.
    pub fn read(
        &self,
        from: Position,
        most: usize,
        buffer: &mut Vec<u8>,
        visit: &mut dyn FnMut(Position, u8, &[u8]) -> bool,
    ) -> Result<Position, LogError> {
        let (segment, next, end, written, recent) = {
            let queue = locked(&self.shared.queue);
            let segment = queue.segments.get(&from.segment).cloned();
            let recent = queue.recent.from(from, most);
            (segment, queue.next_segment_of(from.segment), queue.end_of(from.segment), queue.written, recent)
        };
        if !recent.is_empty() {
            return Ok(Position { at: recent::visit(&recent, from.at, visit), ..from });
        }
        let left = end.map_or(most as u64, |end| end.saturating_sub(u64::from(from.at)));
        let (mut at, most) = (from.at, most.min(left as usize));
        if let Some(segment) = segment.as_ref().filter(|_| most > 0) {
            at = Window::read(segment, from.at, most, written, buffer)?.visit(visit)?;
            if let (true, Some(_), Some(end)) = (at == from.at, next, end)
                && u64::from(at) < end
            {
                let file = segment.name.clone();
                self.shared.note_rot(Damage::Batches { segment: from.segment, file, at: u64::from(at) });
                // Skip the unreadable bytes: continue at the next valid batch, or at the segment's end.
                let batch = scan::find_after(segment, u64::from(at) + 8, end, None)?;
                at = batch.map_or(end, |(at, _)| at) as u32;
            }
        }
        Ok(match next {
            Some(next) if at == from.at => Log::start_of(next),
            _ => Position { at, ..from },
        })
    }

    /// The position after all written records.
    pub fn end(&self) -> Position {
        let (segment, at) = locked(&self.shared.queue).end;
        Position { segment, at: at as u32 }
    }

    /// Damage found while reading, since the last call.
    pub fn take_rot(&self) -> Vec<Damage> {
        if !self.shared.is_rotten.swap(false, Ordering::Relaxed) {
            return Vec::new();
        }
        let mut queue = locked(&self.shared.queue);
        let news = queue.rot[queue.rot_told..].to_vec();
        queue.rot_told = queue.rot.len();
        news
    }

    /// The threads that work for it; None: it has none.
    pub fn workers(&self) -> Option<Arc<Workers>> {
        self.shared.workers.clone()
    }

    /// The segments in use, oldest first.
    pub fn segments(&self) -> Vec<u64> {
        locked(&self.shared.queue).segments.keys().copied().collect()
    }

    /// Where the records of a segment begin.
    pub fn start_of(segment: u64) -> Position {
        Position { segment, at: format::PAGE as u32 }
    }
}

impl Drop for Log {
    /// Writes and syncs everything gathered, then seals the last segment.
    fn drop(&mut self) {
        self.end_duties();
        committer::close(&self.shared);
        self.end_guard();
    }
}
