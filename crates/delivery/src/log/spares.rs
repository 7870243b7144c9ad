//! Preallocated files for new segments.
//!
//! One spare is kept for the next segment, and one for records that free space when the disk is full. A file is a spare
//! only once its zeros are on the disk: writing to it then needs no new space and changes no file system metadata.
//! Files of freed segments are reused.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::sync::MutexGuard;
use std::time::Duration;

use super::queue::Queue;
use super::segment::{MAX_BYTES, MIN_BYTES, Spare, bytes_to_begin_with};
use super::storage::Storage;
use super::{Log, LogError, Shared, Step, locked};
use crate::environment::now;
use crate::signal::Patience;

/// The number of spares to keep: one for the next segment, one for records that free space.
pub const WANTED: usize = 2;
/// The most spares; more are removed.
const MOST: usize = 4;
/// The pause before another attempt to create a file.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Makes or removes one file, if that is needed.
pub fn step<'a>(shared: &'a Shared, mut queue: MutexGuard<'a, Queue>) -> Step<'a> {
    if queue.stop || queue.failed.is_some() {
        return Step::Stop;
    }
    queue.reclaim();
    shared.progressed.tell();
    if let Some(spare) = superfluous(&mut queue).or_else(|| excess(&mut queue, shared.settings.most)) {
        return remove(shared, queue, &spare);
    }
    let bytes = wanted_bytes(&queue);
    if is_wanted(&queue) {
        return make(shared, queue, bytes);
    }
    let Some(bytes) = larger_bytes(&queue, shared.settings.most) else { return Step::Wait(queue, None) };
    drop(queue);
    // Optional: the log works without it.
    let made = create(&*shared.storage, bytes);
    let mut queue = locked(&shared.queue);
    match made {
        Ok(spare) => queue.spares.push(spare),
        Err(_) => queue.pace_bytes = bytes / 2,
    }
    Step::Worked
}

/// Makes a spare of `bytes` bytes, or of the smallest usable size if there is not enough room.
fn make<'a>(shared: &'a Shared, queue: MutexGuard<'a, Queue>, bytes: u64) -> Step<'a> {
    let (used, least) = (bytes_of_files(&queue), least_bytes(&queue));
    let room = match shared.settings.most {
        // Opened with a lower limit than it had. Records that free space need one spare, or it stays above the limit.
        most if used > most && queue.spares.is_empty() => least,
        most => most.saturating_sub(used),
    };
    let bytes = if bytes <= room { bytes } else { least };
    drop(queue);
    let made = match bytes <= room {
        true => create(&*shared.storage, bytes).or_else(|error| match error.kind() {
            ErrorKind::StorageFull if least < bytes => create(&*shared.storage, least),
            _ => Err(error),
        }),
        false => Err(ErrorKind::QuotaExceeded.into()),
    };
    let mut queue = locked(&shared.queue);
    let step = match made {
        Ok(spare) => {
            queue.no_spare = None;
            queue.spares.push(spare);
            Step::Worked
        }
        Err(error) => {
            if let Some(spare) = too_small(&mut queue, room) {
                return remove(shared, queue, &spare);
            }
            queue.no_spare = Some(error.kind());
            Step::Wait(queue, Some(now() + AGAIN_AFTER))
        }
    };
    shared.progressed.tell();
    step
}

fn remove<'a>(shared: &Shared, queue: MutexGuard<'a, Queue>, spare: &Spare) -> Step<'a> {
    drop(queue);
    // If removal fails, the next opening of the log finds and uses the file.
    let _ = shared.storage.remove(&spare.name);
    // Under the lock: a thread that waits for this checks the number of spares under it.
    drop(locked(&shared.queue));
    shared.progressed.tell();
    Step::Worked
}

/// Returns true if another spare is needed: there are too few, or none is large enough for the start of a segment.
pub fn is_wanted(queue: &Queue) -> bool {
    let least = least_bytes(queue);
    queue.spares.len() < WANTED || !queue.spares.iter().any(|spare| spare.bytes >= least)
}

/// The size of the next file: small while little is stored, and large enough that the number of files stays low.
pub fn wanted_bytes(queue: &Queue) -> u64 {
    let by_use = (queue.bytes_written() / 2).next_power_of_two();
    by_use.max(queue.pace_bytes).max(least_bytes(queue)).clamp(MIN_BYTES, MAX_BYTES)
}

/// The size of an extra, larger file, wanted because segments fill up too quickly.
fn larger_bytes(queue: &Queue, most: u64) -> Option<u64> {
    let bytes = queue.pace_bytes;
    let is_there = queue.spares.iter().any(|spare| spare.bytes >= bytes);
    (!is_there && bytes_of_files(queue) + bytes <= most / 2).then_some(bytes)
}

/// Bytes of all files.
pub fn bytes_of_files(queue: &Queue) -> u64 {
    let spare: u64 = queue.spares.iter().map(|spare| spare.bytes).sum();
    let freed: u64 = queue.freed.iter().map(|(_, segment)| segment.header.bytes).sum();
    queue.bytes_in_use() + spare + freed + queue.guard_bytes
}

fn least_bytes(queue: &Queue) -> u64 {
    bytes_to_begin_with(queue.checkpoint_bytes as u64 + queue.largest_record)
}

/// Takes out a spare that is too small, if removing it makes room for one that is large enough.
fn too_small(queue: &mut Queue, room: u64) -> Option<Spare> {
    let least = least_bytes(queue);
    if queue.spares.len() < WANTED || queue.spares.iter().any(|spare| spare.bytes >= least) {
        return None;
    }
    let at =
        queue.spares.iter().position(|spare| (least - room.min(least)..=least).contains(&spare.bytes))?;
    (room < least).then(|| queue.spares.swap_remove(at))
}

/// Returns true if there are more spares than are kept.
pub fn is_superfluous(queue: &Queue) -> bool {
    queue.spares.len() > MOST
}

fn superfluous(queue: &mut Queue) -> Option<Spare> {
    if !is_superfluous(queue) {
        return None;
    }
    let (at, _) = queue.spares.iter().enumerate().min_by_key(|(_, spare)| spare.bytes)?;
    Some(queue.spares.swap_remove(at))
}

/// The largest spare of a log that was opened with a lower limit than it had. A small one stays, for records that free
/// space.
fn excess(queue: &mut Queue, most: u64) -> Option<Spare> {
    if bytes_of_files(queue) <= most {
        return None;
    }
    let least = least_bytes(queue);
    let (at, largest) = queue.spares.iter().enumerate().max_by_key(|(_, spare)| spare.bytes)?;
    (queue.spares.len() > 1 || largest.bytes > least).then(|| queue.spares.swap_remove(at))
}

/// Creates a file with an unused name.
pub fn create(storage: &dyn Storage, bytes: u64) -> io::Result<Spare> {
    let taken: HashSet<String> = storage.list()?.into_iter().collect();
    let name = (0..u32::MAX).map(|n| format!("{n:08x}.log")).find(|name| !taken.contains(name));
    Spare::create(storage, name.unwrap_or_default(), bytes)
}

impl Log {
    /// Waits until the files of freed segments are reused or removed, and at most a few spares are left.
    pub fn wait_until_trimmed(&self, patience: Patience<'_>) -> Result<(), LogError> {
        self.wait_until(patience, |queue| match &queue.failed {
            Some(failure) => Some(Err(LogError::Failed(failure.clone()))),
            None => (queue.freed.is_empty() && !is_superfluous(queue)).then_some(Ok(())),
        })
    }
}
