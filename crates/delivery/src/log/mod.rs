//! A log on the disk: records go in, and are there after a crash; what nobody needs any more makes room.
//!
//! What it is: segments of batches of records (`format`), written by one thread (`committer`) into files that were made
//! whole before (`spares`). What the records mean is their [`Keeper`]'s business; the log hands them back when it is
//! opened ([`Replay`]).
//!
//! What it guarantees:
//! - a record whose batch is [`Log::wait`]ed for successfully is found when the log is opened, whatever happened since
//!   to the process, the machine or its power, in the order of appending;
//! - what is found is what was written (CRC32C), and anything that was on the disk and is not found is said
//!   ([`Damage`]); what was never said to be on the disk may be missing without a word;
//! - a write or a sync that fails is the end of the log, and all who wait hear of it.

mod committer;
mod format;
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
mod viewing;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use format::MAX_PAYLOAD;
use queue::Queue;
use reading::Window;
use segment::MIN_BYTES;
pub use storage::{Directory, File, Storage};
pub use viewing::View;

use crate::signal::{Patience, Signal};

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub segment: u64,
    /// From the segment's beginning, in bytes.
    pub at: u32,
}

/// What became of a record that was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    pub place: Place,
    /// The batch to wait for.
    pub batch: u64,
}

/// When a record is to be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// As soon as may be: somebody waits.
    Sync,
    /// Within `Settings::interval`.
    Interval,
    /// The same, and it goes where there is room for nothing else: it makes room, or keeps others from waiting.
    Control,
    /// As soon as may be, and where there is room for nothing else.
    Note,
}

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long what nobody waits for may be away from the disk.
    pub interval: Duration,
    /// Bytes of files that there may be.
    pub most: u64,
    /// Opens a damaged log, without what is damaged.
    pub skip_damage: bool,
}

/// Knows what the records mean.
pub trait Keeper {
    /// Adds what has to be known when all older segments are gone.
    fn checkpoint(&self, add: &mut dyn FnMut(u8, &[&[u8]]));
    /// What has to be known of the records in a segment that is full, so that nobody needs to read it; may be nothing.
    fn summary(&self, segment: u64) -> Vec<u8>;
}

/// Is told what a log holds, older segments first.
pub trait Replay {
    /// A segment whose records are not read. False: read them, then.
    fn summary(&mut self, segment: u64, summary: &[u8]) -> bool;
    fn record(&mut self, place: Place, kind: u8, payload: &[u8]);
}

/// Something was on the disk, and is not there any more or not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// A file with something in it, but not as a segment begins.
    Header { file: String },
    /// A second file that says it is this segment.
    Twice { segment: u64, file: String },
    /// A segment that should be there.
    Missing { segment: u64 },
    /// From this offset of a segment's file on.
    Batches { segment: u64, file: String, at: u64 },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Header { file } => write!(f, "{file} does not begin as a file of the log"),
            Damage::Twice { segment, file } => {
                write!(f, "{file} says to be segment {segment}, which another is")
            }
            Damage::Missing { segment } => write!(f, "segment {segment} is missing"),
            Damage::Batches { file, at, .. } => write!(f, "{file} cannot be read from byte {at} on"),
        }
    }
}

/// How a log came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: io::ErrorKind,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogError {
    Io(io::ErrorKind),
    /// A write failed earlier; the log takes nothing more until it is opened anew.
    Failed(Failure),
    Damaged(Vec<Damage>),
    /// There is no file to go on in: one is being made, or cannot be made for the reason that is given.
    NoRoom(Option<io::ErrorKind>),
    /// More than MAX_PAYLOAD, or than any segment holds.
    TooLarge,
    TimedOut,
}

/// Is called when more is written or on the disk, and with true when the log has failed.
pub type Tell = Box<dyn Fn(bool) + Send + Sync>;

/// A log that takes records. Calls may come from any thread.
pub struct Log {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    storage: Arc<dyn Storage>,
    settings: Settings,
    queue: Mutex<Queue>,
    /// For the committer.
    work: Signal,
    /// For those who wait for the disk, or for room.
    settled: Signal,
    wants_spare: Signal,
    /// There is rot that was not told.
    is_rotten: AtomicBool,
    /// Too much is on its way to the disk.
    is_crowded: AtomicBool,
    tell: Tell,
}

/// A log that was read and does not take anything yet.
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

/// Whether files cannot be made until somebody changes the directory.
fn is_final(reason: io::ErrorKind) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(reason, NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem)
}

fn locked(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads what a storage holds.
pub fn open(
    storage: Arc<dyn Storage>,
    settings: Settings,
    replay: &mut dyn Replay,
) -> Result<Opened, LogError> {
    let found = recovery::recover(&*storage, settings.skip_damage, replay)?;
    Ok(Opened { storage, settings, found })
}

impl Opened {
    /// What was damaged and left out.
    pub fn damage(&self) -> &[Damage] {
        &self.found.damage
    }

    /// Goes on in a new segment.
    pub fn start(self, keeper: &dyn Keeper, tell: Tell) -> Result<Log, LogError> {
        let Opened { storage, settings, mut found } = self;
        // Before anything says that the log ends ahead of them.
        for segment in found.torn.drain(..) {
            segment.retire()?;
            found.spares.push(segment.into_spare());
        }
        for (segment, end) in &found.unsealed {
            segment.seal(0, *end, &keeper.summary(segment.header.number))?;
            segment.sync()?;
        }
        let (mut spares, mut spare) = (found.spares, None);
        let first = loop {
            spares.sort_by_key(|spare| spare.bytes);
            let room = match spare.take().or_else(|| spares.pop()) {
                Some(spare) => spare,
                None => spares::create(&*storage, MIN_BYTES)?,
            };
            let number = found.last_segment + 1;
            match queue::first_batch(room, queue::generation()?, number, &found.ends, keeper) {
                Ok(first) => break first,
                Err((small, bytes)) => {
                    let bytes = spares::bytes_to_begin_with(bytes as u64);
                    if small.bytes >= bytes {
                        return Err(LogError::TooLarge);
                    }
                    spares.push(small);
                    spare = Some(spares::create(&*storage, bytes)?);
                }
            }
        };
        let mut queue = Queue::new(found.segments, spares, first, found.last_batch + 1);
        queue.ends.extend(found.ends);
        let (work, settled, wants_spare, is_rotten, is_crowded) = Default::default();
        let queue = Mutex::new(queue);
        let shared =
            Shared { storage, settings, queue, work, settled, wants_spare, is_rotten, is_crowded, tell };
        let shared = Arc::new(shared);
        let mut log = Log { shared, threads: Vec::new() };
        log.spawn("pinnace-log", committer::run)?;
        log.spawn("pinnace-spares", spares::run)?;
        Ok(log)
    }
}

impl Log {
    fn spawn(&mut self, name: &str, work: fn(&Shared)) -> Result<(), LogError> {
        let shared = self.shared.clone();
        self.threads.push(pinnace_sys::thread::start(name, move || work(&shared))?);
        Ok(())
    }

    /// Adds a record of one of the keeper's kinds (from 2 on); `parts`, one behind the other, are its payload.
    pub fn append(
        &self,
        urgency: Urgency,
        kind: u8,
        parts: &[&[u8]],
        keeper: &dyn Keeper,
    ) -> Result<Appended, LogError> {
        let mut queue = locked(&self.shared.queue);
        let before = (queue.stir(), queue.next_segment);
        let appended = queue.append(urgency, kind, parts, keeper);
        if queue.is_crowded() {
            self.shared.is_crowded.store(true, Ordering::Relaxed);
        }
        self.follow(queue, before, matches!(appended, Err(LogError::NoRoom(_))));
        appended
    }

    /// Wakes whom a change concerns. `before`: the stir and the next segment, as they were.
    fn follow(&self, queue: MutexGuard<'_, Queue>, before: (u8, u64), wants_room: bool) {
        let is_news = queue.stir() > before.0;
        if queue.next_segment != before.1 || wants_room {
            self.shared.wants_spare.tell();
        }
        drop(queue);
        if is_news {
            self.shared.work.tell();
        }
    }

    /// Nothing in the segment is needed any more: its file is used again.
    pub fn free(&self, segment: u64, keeper: &dyn Keeper) -> Result<(), LogError> {
        let mut queue = locked(&self.shared.queue);
        let before = (queue.stir(), queue.next_segment);
        let freed = queue.free(segment, keeper);
        self.follow(queue, before, freed.is_err());
        freed
    }

    /// The last batch that is written, and the last that is on the disk, with all before them.
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

    /// Whether there is no need to wait until not too much is on its way to the disk. Takes no lock.
    pub fn is_calm(&self) -> bool {
        !self.shared.is_crowded.load(Ordering::Relaxed)
    }

    /// Waits until not too much is on its way to the disk.
    pub fn wait_until_calm<'a>(&self, patience: impl Into<Patience<'a>>) -> Result<(), LogError> {
        self.wait_until(patience.into(), |queue| match &queue.failed {
            Some(failure) => Some(Err(LogError::Failed(failure.clone()))),
            None => (!queue.is_crowded()).then_some(Ok(())),
        })
    }

    /// Waits until there is a file to go on in, where `append` said that there is none. NoRoom: there was none until
    /// patience was at its end, for the reason that is given. Io: none can be made, however long one waits.
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
        let mut queue = locked(&self.shared.queue);
        loop {
            if let Some(outcome) = outcome(&queue) {
                return outcome;
            }
            queue = self.shared.settled.wait(queue, patience).ok_or(LogError::TimedOut)?;
        }
    }

    /// Somebody's patience was called off: who waits looks again.
    pub fn look_again(&self) {
        drop(locked(&self.shared.queue));
        self.shared.settled.tell();
    }

    /// Reads what is written from a place on, about `most` bytes, within one segment: visits each whole record, until
    /// the visitor returns false. Returns where to go on, which is in the next segment where all of this one was read;
    /// the same place: nothing more is written.
    pub fn read(
        &self,
        from: Place,
        most: usize,
        buffer: &mut Vec<u8>,
        visit: &mut dyn FnMut(Place, u8, &[u8]) -> bool,
    ) -> Result<Place, LogError> {
        let (segment, next, end, written, recent) = {
            let queue = locked(&self.shared.queue);
            let segment = queue.segments.get(&from.segment).cloned();
            let recent = queue.recent.from(from, most);
            (segment, queue.next_segment_of(from.segment), queue.end_of(from.segment), queue.written, recent)
        };
        if !recent.is_empty() {
            return Ok(Place { at: recent::visit(&recent, from.at, visit), ..from });
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
                // Behind what makes no sense, the next batch, or the end.
                let batch = scan::look_behind(segment, u64::from(at) + 8, end, None)?;
                at = batch.map_or(end, |(at, _)| at) as u32;
            }
        }
        Ok(match next {
            Some(next) if at == from.at => Log::start_of(next),
            _ => Place { at, ..from },
        })
    }

    /// Behind all that is written.
    pub fn end(&self) -> Place {
        let (segment, at) = locked(&self.shared.queue).end;
        Place { segment, at: at as u32 }
    }

    /// What was found to be damaged while it was read, since this was last asked.
    pub fn take_rot(&self) -> Vec<Damage> {
        if !self.shared.is_rotten.swap(false, Ordering::Relaxed) {
            return Vec::new();
        }
        let mut queue = locked(&self.shared.queue);
        let news = queue.rot[queue.rot_told..].to_vec();
        queue.rot_told = queue.rot.len();
        news
    }

    /// The most bytes of one message, in all its parts: as many find room once there is nothing else, beside the
    /// segment that is written to and two spares.
    pub fn largest(&self) -> u64 {
        let most = self.shared.settings.most;
        (most / 16).max(most.saturating_sub(16 << 20) / 2)
    }

    /// The segments in use, oldest first.
    pub fn segments(&self) -> Vec<u64> {
        locked(&self.shared.queue).segments.keys().copied().collect()
    }

    /// Where the records of a segment begin.
    pub fn start_of(segment: u64) -> Place {
        Place { segment, at: format::PAGE as u32 }
    }
}

impl Drop for Log {
    /// Writes what has gathered; with everything on the disk, says where the log ends.
    fn drop(&mut self) {
        locked(&self.shared.queue).stop = true;
        self.shared.work.tell();
        self.shared.wants_spare.tell();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> LogError {
        LogError::Io(error.kind())
    }
}

impl Failure {
    fn of(error: &io::Error) -> Failure {
        Failure { kind: error.kind(), text: error.to_string() }
    }
}
