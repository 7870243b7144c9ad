//! What is to be written: records gather into batches, and batches into segments.
//!
//! Everything here is behind the log's lock and does no I/O; the committer takes the batches and writes them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::format::{self, BATCH_HEADER, Batch, PAGE, record_bytes};
use super::recent::{Recent, Written};
use super::segment::{MAX_BYTES, MIN_BYTES, Segment, Spare};
use super::spares;
use super::{Appended, Damage, Failure, Keeper, LogError, Place, Urgency};

/// Kinds of records that the log writes itself: the segments in use before this one, each with where its batches end,
/// and those that are not any more.
pub const IN_USE: u8 = 0;
pub const FREED: u8 = 1;

/// Bytes that gather at most before `Log::wait_until_calm` has callers wait.
const GATHERED_MAX: usize = 8 << 20;

/// Bytes that are written without waiting for more.
pub const GATHER_BYTES: usize = 256 << 10;

/// Where a segment was full sooner, the next files are larger.
const SEGMENT_TIME: Duration = Duration::from_millis(100);
const PACE_MAX: u64 = 16 << 20;

/// Bytes in one batch at most, where one record is not more: what is lost in one piece.
const BATCH_MAX: usize = 1 << 20;

/// A batch, being gathered or to be written.
pub struct Gathered {
    pub number: u64,
    pub segment: Arc<Segment>,
    /// Where it goes.
    pub at: u64,
    /// Its records, behind room for its header.
    pub bytes: Vec<u8>,
    pub records: u32,
    /// Somebody waits for it to be on the disk.
    pub sync: bool,
    /// It is the first of its segment. Then this is to be sealed, once it is on the disk.
    pub first: bool,
    pub seal: Option<ToSeal>,
}

/// A segment that is full.
pub struct ToSeal {
    pub segment: Arc<Segment>,
    pub next: u64,
    pub end: u64,
    pub summary: Vec<u8>,
}

/// Behind the log's lock.
pub struct Queue {
    /// In use, by number.
    pub segments: BTreeMap<u64, Arc<Segment>>,
    /// Where the batches of those end that are full.
    pub ends: BTreeMap<u64, u64>,
    /// With which batch those began that have begun since the log was opened.
    first_batch: BTreeMap<u64, u64>,
    pub open: Gathered,
    pub closed: VecDeque<Gathered>,
    /// Bytes in `open` and `closed`.
    pub gathered: usize,
    /// What was written last.
    pub recent: Recent,
    /// The number of the last batch that is written, and of the last that is on the disk.
    pub written: u64,
    pub durable: u64,
    /// Behind the last batch that is written: the segment, and where in it.
    pub end: (u64, u64),
    pub failed: Option<Failure>,
    pub spares: Vec<Spare>,
    /// Segments that nobody needs, to be spares once the batch is on the disk that says so.
    pub freed: VecDeque<(u64, Arc<Segment>)>,
    /// Why there are not as many spares as there should be, where there was a reason.
    pub no_spare: Option<io::ErrorKind>,
    /// The segment that comes after the last.
    pub next_segment: u64,
    pub checkpoint_bytes: usize,
    /// When the last segment began, and how large files are to be so that not too many begin.
    began: Instant,
    pub pace_bytes: u64,
    /// The bytes of the largest record that a new segment was needed for.
    pub largest_record: u64,
    /// What was found to be damaged while it was read, and how much of that was told.
    pub rot: Vec<Damage>,
    pub rot_told: usize,
    pub stop: bool,
}

impl Gathered {
    pub fn new(number: u64, segment: Arc<Segment>, at: u64, mut bytes: Vec<u8>) -> Gathered {
        bytes.clear();
        bytes.resize(BATCH_HEADER, 0);
        Gathered { number, segment, at, bytes, records: 0, sync: false, first: false, seal: None }
    }

    /// Where the next record goes.
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Writes its header; `durable`: the last batch that is on the disk.
    pub fn finish(&mut self, durable: u64) {
        let bytes = (self.bytes.len() - BATCH_HEADER) as u32;
        let header = Batch { number: self.number, durable, records: self.records, bytes };
        self.bytes[..BATCH_HEADER].copy_from_slice(&header.write(self.segment.header.generation));
    }
}

impl Queue {
    /// Goes on behind the segments that were found, with batch `number` and those after it.
    pub fn new(
        mut segments: BTreeMap<u64, Arc<Segment>>,
        spares: Vec<Spare>,
        mut first: Gathered,
        number: u64,
    ) -> Queue {
        first.number = number;
        segments.insert(first.segment.header.number, first.segment.clone());
        let mut queue = Queue {
            next_segment: first.segment.header.number + 1,
            end: (first.segment.header.number, PAGE),
            ends: BTreeMap::new(),
            first_batch: BTreeMap::from([(first.segment.header.number, number)]),
            checkpoint_bytes: first.bytes.len(),
            began: Instant::now(),
            pace_bytes: MIN_BYTES,
            largest_record: 0,
            gathered: first.bytes.len() - BATCH_HEADER,
            segments,
            open: first,
            closed: VecDeque::new(),
            recent: Recent::default(),
            written: number - 1,
            durable: number - 1,
            failed: None,
            spares,
            freed: VecDeque::new(),
            no_spare: None,
            rot: Vec::new(),
            rot_told: 0,
            stop: false,
        };
        queue.close();
        queue
    }

    /// Adds a record; it is written, and synced where `urgency` says so, in its turn.
    pub fn append(
        &mut self,
        urgency: Urgency,
        kind: u8,
        parts: &[&[u8]],
        keeper: &dyn Keeper,
    ) -> Result<Appended, LogError> {
        if let Some(failure) = &self.failed {
            return Err(LogError::Failed(failure.clone()));
        }
        let len = parts.iter().map(|part| part.len()).sum();
        if len > format::MAX_PAYLOAD {
            return Err(LogError::TooLarge);
        }
        let need = record_bytes(len) as u64;
        if self.open.bytes.len() as u64 + need > BATCH_MAX as u64 && self.open.records > 0 {
            self.close();
        }
        if self.open.end() + need > self.open.segment.limit() {
            // Where space is short, what frees space comes first.
            let kept = usize::from(!matches!(urgency, Urgency::Control | Urgency::Note));
            self.largest_record = self.largest_record.max(need);
            if self.spares.len() <= kept || !self.has_spare_for(need) {
                return Err(LogError::NoRoom(self.no_spare));
            }
            self.rotate(keeper)?;
            if self.open.end() + need > self.open.segment.limit() {
                return Err(LogError::TooLarge);
            }
        }
        let place = Place { segment: self.open.segment.header.number, at: self.open.end() as u32 };
        self.add(kind, parts);
        self.open.sync |= matches!(urgency, Urgency::Sync | Urgency::Note);
        Ok(Appended { place, batch: self.open.number })
    }

    fn add(&mut self, kind: u8, parts: &[&[u8]]) {
        let open = &mut self.open;
        let before = open.bytes.len();
        format::add_record(&mut open.bytes, open.segment.header.generation, kind, parts);
        open.records += 1;
        self.gathered += open.bytes.len() - before;
    }

    /// The batch that is being gathered is whole; another begins.
    pub fn close(&mut self) {
        let (segment, end) = (self.open.segment.clone(), self.open.end());
        let next = Gathered::new(self.open.number + 1, segment, end, self.recent.vector());
        self.closed.push_back(std::mem::replace(&mut self.open, next));
    }

    /// Goes on in a new segment, which begins with what has to be known when all older ones are gone.
    fn rotate(&mut self, keeper: &dyn Keeper) -> Result<(), LogError> {
        let generation = generation()?;
        // The largest: what gathered in one of its size fills another.
        let Some(spare) = self.largest_spare() else { return Err(LogError::NoRoom(self.no_spare)) };
        let full = self.open.segment.clone();
        let end = if self.open.records > 0 { self.open.end() } else { self.open.at };
        self.ends.insert(full.header.number, end);
        let first = match first_batch(spare, generation, self.next_segment, &self.ends, keeper) {
            Ok(first) => first,
            Err((spare, _)) if spare.bytes >= MAX_BYTES => {
                self.ends.remove(&full.header.number);
                self.spares.push(spare);
                return Err(LogError::TooLarge);
            }
            Err((spare, bytes)) => {
                self.ends.remove(&full.header.number);
                self.checkpoint_bytes = bytes;
                self.spares.push(spare);
                return Err(LogError::NoRoom(self.no_spare));
            }
        };
        if self.open.records > 0 {
            self.close();
        }
        let summary = keeper.summary(full.header.number);
        let seal = ToSeal { segment: full, next: self.next_segment, end: self.open.at, summary };
        let number = self.open.number;
        self.begin(Gathered { number, seal: Some(seal), ..first });
        Ok(())
    }

    /// Goes on behind the first batch of a segment.
    fn begin(&mut self, first: Gathered) {
        self.next_segment = first.segment.header.number + 1;
        self.segments.insert(first.segment.header.number, first.segment.clone());
        self.first_batch.insert(first.segment.header.number, first.number);
        self.checkpoint_bytes = first.bytes.len();
        let before = std::mem::replace(&mut self.began, Instant::now()).elapsed();
        self.pace_bytes = match before {
            quick if quick < SEGMENT_TIME => (first.segment.header.bytes * 2).min(PACE_MAX),
            slow if slow > 20 * SEGMENT_TIME => (self.pace_bytes / 2).max(MIN_BYTES),
            _ => self.pace_bytes,
        };
        self.gathered += first.bytes.len() - BATCH_HEADER;
        self.open = first;
        self.close();
    }

    /// Whether a record fits into a segment that begins in one of the spare files.
    fn has_spare_for(&self, need: u64) -> bool {
        let bytes = spares::bytes_to_begin_with(self.checkpoint_bytes as u64 + need);
        self.spares.iter().any(|spare| spare.bytes >= bytes)
    }

    fn largest_spare(&mut self) -> Option<Spare> {
        let (at, _) = self.spares.iter().enumerate().max_by_key(|(_, spare)| spare.bytes)?;
        Some(self.spares.swap_remove(at))
    }

    /// Nothing in the segment is needed any more.
    pub fn free(&mut self, number: u64, keeper: &dyn Keeper) -> Result<(), LogError> {
        if number == self.open.segment.header.number || !self.segments.contains_key(&number) {
            return Ok(());
        }
        let freed = self.append(Urgency::Control, FREED, &[&number.to_le_bytes()], keeper)?;
        if let Some(segment) = self.segments.remove(&number) {
            self.first_batch.remove(&number);
            self.ends.remove(&number);
            self.freed.push_back((freed.batch, segment));
        }
        Ok(())
    }

    /// The batches that are to be written next, of about so many bytes.
    pub fn take_closed(&mut self, bytes: usize) -> Vec<Gathered> {
        let mut left = bytes;
        let fits = self.closed.iter().take_while(|batch| {
            let fits = left > 0;
            left = left.saturating_sub(batch.bytes.len());
            fits
        });
        let count = fits.count();
        self.closed.drain(..count).collect()
    }

    /// A batch is written.
    pub fn wrote(&mut self, batch: Gathered) {
        self.gathered = self.gathered.saturating_sub(batch.bytes.len() - BATCH_HEADER);
        let batch = Written { segment: batch.segment.header.number, at: batch.at, bytes: batch.bytes };
        self.end = (batch.segment, batch.end());
        self.recent.add(batch);
    }

    /// Takes those of the freed segments whose files can be used again.
    pub fn reclaim(&mut self) {
        while self.freed.front().is_some_and(|(batch, _)| *batch <= self.durable) {
            let Some((batch, segment)) = self.freed.pop_front() else { return };
            match Arc::try_unwrap(segment) {
                Ok(segment) => self.spares.push(segment.into_spare()),
                Err(segment) => {
                    // Somebody still reads there.
                    self.freed.push_front((batch, segment));
                    return;
                }
            }
        }
    }

    /// The segment in use behind another of which nothing is still to be written.
    pub fn next_segment_of(&self, segment: u64) -> Option<u64> {
        let (next, _) = self.segments.range(segment + 1..).next()?;
        // What is still to be written is in the order of the segments.
        let pending = self.written + 1 < self.first_batch.get(next).copied().unwrap_or(0);
        (!pending).then_some(*next)
    }

    /// Where what is written of a segment ends; None: that is not known.
    pub fn end_of(&self, segment: u64) -> Option<u64> {
        match segment.cmp(&self.end.0) {
            Ordering::Less => self.ends.get(&segment).copied(),
            Ordering::Equal => Some(self.end.1),
            Ordering::Greater => Some(0),
        }
    }

    /// How much there is for the committer: nothing, something, or something that is not to wait.
    pub fn stir(&self) -> u8 {
        let some = self.open.records > 0 || !self.closed.is_empty();
        let now =
            self.open.sync || self.gathered >= GATHER_BYTES || self.closed.iter().any(|batch| batch.sync);
        u8::from(some) + u8::from(some && now)
    }

    /// Whether too much is on its way to the disk.
    pub fn is_crowded(&self) -> bool {
        self.gathered > GATHERED_MAX && self.failed.is_none()
    }

    /// Bytes of files in use.
    pub fn bytes_in_use(&self) -> u64 {
        self.segments.values().map(|segment| segment.header.bytes).sum()
    }
}

/// The first batch of a segment in a spare file: which others are in use and where they end, and what the keeper has to
/// say. Err: there is no room for so many bytes in this file.
pub fn first_batch(
    spare: Spare,
    generation: u32,
    number: u64,
    in_use: &BTreeMap<u64, u64>,
    keeper: &dyn Keeper,
) -> Result<Gathered, (Spare, usize)> {
    let segment = spare.into_segment(number, generation);
    let (mut bytes, mut records) = (vec![0; BATCH_HEADER], 0);
    let mut add = |kind: u8, parts: &[&[u8]]| {
        format::add_record(&mut bytes, generation, kind, parts);
        records += 1;
    };
    let in_use = in_use.iter().flat_map(|(number, end)| [*number, *end]);
    add(IN_USE, &[&in_use.flat_map(u64::to_le_bytes).collect::<Vec<u8>>()]);
    keeper.checkpoint(&mut add);
    if PAGE + bytes.len() as u64 > segment.limit() / 2 {
        return Err((segment.into_spare(), bytes.len()));
    }
    // All that comes behind it would be lost with it.
    let segment = Arc::new(segment);
    Ok(Gathered { number: 0, segment, at: PAGE, bytes, records, sync: true, first: true, seal: None })
}

/// A number that no earlier use of a file is likely to have had.
pub fn generation() -> Result<u32, LogError> {
    let bytes = pinnace_sys::random::bytes::<4>().map_err(|error| LogError::Io(error.kind()))?;
    Ok(u32::from_le_bytes(bytes) | 1)
}
