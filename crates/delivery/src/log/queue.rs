//! The write queue: records gather into batches, and batches into segments.
//!
//! Everything here is behind the log's lock and does no I/O. The committer takes the batches and writes them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::format::{self, BATCH_HEADER, Batch, PAGE, record_bytes};
use super::recent::{Recent, Written};
use super::segment::{self, MAX_BYTES, MIN_BYTES, Segment, Spare};
use super::usage::SyncTimes;
use super::{Appended, Checkpointer, Damage, Failure, LogError, Position, Urgency};
use crate::environment::{now, random};

/// Kinds of records that the log writes itself: the list of segments in use before this one, each with the end of its
/// batches; and a segment freed since.
pub const IN_USE: u8 = 0;
pub const FREED: u8 = 1;

/// The most gathered bytes before `Log::wait_until_calm` blocks callers.
const GATHERED_MAX: usize = 8 << 20;

/// Gathered bytes that the committer writes without waiting for more.
pub const GATHER_BYTES: usize = 256 << 10;

/// If a segment fills up in less time, the next files are larger, up to PACE_MAX bytes.
const SEGMENT_TIME: Duration = Duration::from_millis(100);
const PACE_MAX: u64 = 16 << 20;

/// The most bytes of one batch, unless its first record, or records that are appended together, are larger. A batch is
/// the unit of loss.
const BATCH_MAX: usize = 1 << 20;

/// A batch that is gathering records or waits to be written.
pub struct PendingBatch {
    pub number: u64,
    pub segment: Arc<Segment>,
    /// Its offset in the segment.
    pub at: u64,
    /// Room for its header, then its records.
    pub bytes: Vec<u8>,
    pub records: u32,
    /// A caller waits until it is on the disk.
    pub sync: bool,
    /// It is the first batch of its segment. `seal` is the previous segment, to be sealed once this batch is on the
    /// disk.
    pub first: bool,
    pub seal: Option<ToSeal>,
}

/// A full segment.
pub struct ToSeal {
    pub segment: Arc<Segment>,
    pub next: u64,
    pub end: u64,
    pub summary: Vec<u8>,
}

/// The state behind the log's lock.
pub struct Queue {
    /// Segments in use, by number.
    pub segments: BTreeMap<u64, Arc<Segment>>,
    /// Where the batches of full segments end.
    pub ends: BTreeMap<u64, u64>,
    /// The first batch of each segment begun since the log was opened.
    first_batch: BTreeMap<u64, u64>,
    pub open: PendingBatch,
    pub closed: VecDeque<PendingBatch>,
    /// Bytes in `open` and `closed`.
    pub gathered: usize,
    /// The batches written last.
    pub recent: Recent,
    /// The last batch that is written, and the last that is on the disk.
    pub written: u64,
    pub durable: u64,
    /// The end of the last written batch: its segment and the offset in it.
    pub end: (u64, u64),
    pub failed: Option<Failure>,
    pub spares: Vec<Spare>,
    /// Segments no longer needed, each with the batch that records this. They become spares once the batch is on the
    /// disk.
    pub freed: VecDeque<(u64, Arc<Segment>)>,
    /// Why a spare could not be made, if the last attempt failed.
    pub no_spare: Option<io::ErrorKind>,
    /// The number of the next new segment.
    pub next_segment: u64,
    pub checkpoint_bytes: usize,
    /// When the current segment began, and the file size that keeps the rate of new segments low.
    began: Instant,
    pub pace_bytes: u64,
    /// Bytes of the largest record that needed a new segment.
    pub largest_record: u64,
    /// Damage found while reading, and how many entries of it were reported.
    pub rot: Vec<Damage>,
    pub rot_told: usize,
    pub syncs: SyncTimes,
    /// Of the guard file.
    pub guard_bytes: u64,
    /// A job writes, or makes spares, or will.
    pub is_writing: bool,
    pub is_making_spares: bool,
    pub stop: bool,
}

impl PendingBatch {
    pub fn new(number: u64, segment: Arc<Segment>, at: u64, mut bytes: Vec<u8>) -> PendingBatch {
        bytes.clear();
        bytes.resize(BATCH_HEADER, 0);
        PendingBatch { number, segment, at, bytes, records: 0, sync: false, first: false, seal: None }
    }

    /// Where the next record goes.
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Writes its header. `durable` is the last batch that is on the disk.
    pub fn finish(&mut self, durable: u64) {
        let bytes = (self.bytes.len() - BATCH_HEADER) as u32;
        let header = Batch { number: self.number, durable, records: self.records, bytes };
        self.bytes[..BATCH_HEADER].copy_from_slice(&header.write(self.segment.header.generation));
    }
}

impl Queue {
    /// Continues after the recovered segments. `first` gets the batch number `number`.
    pub fn new(
        mut segments: BTreeMap<u64, Arc<Segment>>,
        spares: Vec<Spare>,
        mut first: PendingBatch,
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
            began: now(),
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
            syncs: SyncTimes::default(),
            guard_bytes: 0,
            is_writing: false,
            is_making_spares: false,
            stop: false,
        };
        queue.close();
        queue
    }

    /// Appends a record to the open batch. The committer writes it in order, and syncs it if `urgency` requires that.
    pub fn append(
        &mut self,
        urgency: Urgency,
        kind: u8,
        parts: &[&[u8]],
        keeper: &dyn Checkpointer,
    ) -> Result<Appended, LogError> {
        self.append_together(urgency, &[(kind, parts)], keeper)
    }

    /// Appends records to one batch: a crash leaves all of them or none. Returns the position of the first.
    pub fn append_together(
        &mut self,
        urgency: Urgency,
        records: &[(u8, &[&[u8]])],
        keeper: &dyn Checkpointer,
    ) -> Result<Appended, LogError> {
        if let Some(failure) = &self.failed {
            return Err(LogError::Failed(failure.clone()));
        }
        let len = |(_, parts): &(u8, &[&[u8]])| parts.iter().map(|part| part.len()).sum::<usize>();
        if records.iter().any(|record| len(record) > format::MAX_PAYLOAD) {
            return Err(LogError::TooLarge);
        }
        let need = records.iter().map(|record| record_bytes(len(record)) as u64).sum();
        if self.open.bytes.len() as u64 + need > BATCH_MAX as u64 && self.open.records > 0 {
            self.close();
        }
        if self.open.end() + need > self.open.segment.limit() {
            // When space is short, the last spare is reserved for records that free space.
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
        let position = Position { segment: self.open.segment.header.number, at: self.open.end() as u32 };
        records.iter().for_each(|(kind, parts)| self.add(*kind, parts));
        self.open.sync |= matches!(urgency, Urgency::Sync | Urgency::Note);
        Ok(Appended { position, batch: self.open.number })
    }

    fn add(&mut self, kind: u8, parts: &[&[u8]]) {
        let open = &mut self.open;
        let before = open.bytes.len();
        format::add_record(&mut open.bytes, open.segment.header.generation, kind, parts);
        open.records += 1;
        self.gathered += open.bytes.len() - before;
    }

    /// Closes the open batch and begins another.
    pub fn close(&mut self) {
        let (segment, end) = (self.open.segment.clone(), self.open.end());
        let next = PendingBatch::new(self.open.number + 1, segment, end, self.recent.vector());
        self.closed.push_back(std::mem::replace(&mut self.open, next));
    }

    /// Begins a new segment, with a checkpoint that replaces all older ones.
    fn rotate(&mut self, keeper: &dyn Checkpointer) -> Result<(), LogError> {
        let generation = generation()?;
        // Take the largest: the bytes gathered at one size fill the next segment as well.
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
        self.begin(PendingBatch { number, seal: Some(seal), ..first });
        Ok(())
    }

    /// Makes `first` the first batch of the current segment, and continues after it.
    fn begin(&mut self, first: PendingBatch) {
        self.next_segment = first.segment.header.number + 1;
        self.segments.insert(first.segment.header.number, first.segment.clone());
        self.first_batch.insert(first.segment.header.number, first.number);
        self.checkpoint_bytes = first.bytes.len();
        let began = now();
        let before = began - std::mem::replace(&mut self.began, began);
        self.pace_bytes = match before {
            quick if quick < SEGMENT_TIME => (first.segment.header.bytes * 2).min(PACE_MAX),
            slow if slow > 20 * SEGMENT_TIME => (self.pace_bytes / 2).max(MIN_BYTES),
            _ => self.pace_bytes,
        };
        self.gathered += first.bytes.len() - BATCH_HEADER;
        self.open = first;
        self.close();
    }

    /// Returns true if a new segment in one of the spare files has room for the record.
    fn has_spare_for(&self, need: u64) -> bool {
        let bytes = segment::bytes_to_begin_with(self.checkpoint_bytes as u64 + need);
        self.spares.iter().any(|spare| spare.bytes >= bytes)
    }

    fn largest_spare(&mut self) -> Option<Spare> {
        let (at, _) = self.spares.iter().enumerate().max_by_key(|(_, spare)| spare.bytes)?;
        Some(self.spares.swap_remove(at))
    }

    /// Frees a segment with no needed records.
    pub fn free(&mut self, number: u64, keeper: &dyn Checkpointer) -> Result<(), LogError> {
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

    /// The next batches to write, of about `bytes` bytes in total.
    pub fn take_closed(&mut self, bytes: usize) -> Vec<PendingBatch> {
        let mut left = bytes;
        let fits = self.closed.iter().take_while(|batch| {
            let fits = left > 0;
            left = left.saturating_sub(batch.bytes.len());
            fits
        });
        let count = fits.count();
        self.closed.drain(..count).collect()
    }

    /// Records that a batch is written.
    pub fn wrote(&mut self, batch: PendingBatch) {
        self.gathered = self.gathered.saturating_sub(batch.bytes.len() - BATCH_HEADER);
        let batch = Written { segment: batch.segment.header.number, at: batch.at, bytes: batch.bytes };
        self.end = (batch.segment, batch.end());
        self.recent.add(batch);
    }

    /// Turns freed segments into spares, once the record that frees them is on the disk.
    pub fn reclaim(&mut self) {
        while self.freed.front().is_some_and(|(batch, _)| *batch <= self.durable) {
            let Some((batch, segment)) = self.freed.pop_front() else { return };
            match Arc::try_unwrap(segment) {
                Ok(segment) => self.spares.push(segment.into_spare()),
                Err(segment) => {
                    // A reader still holds the segment.
                    self.freed.push_front((batch, segment));
                    return;
                }
            }
        }
    }

    /// The next segment in use after `segment`. None while batches of `segment` are still unwritten.
    pub fn next_segment_of(&self, segment: u64) -> Option<u64> {
        let (next, _) = self.segments.range(segment + 1..).next()?;
        // Batches are written in the order of their segments.
        let pending = self.written + 1 < self.first_batch.get(next).copied().unwrap_or(0);
        (!pending).then_some(*next)
    }

    /// Where the written part of a segment ends; None: unknown.
    pub fn end_of(&self, segment: u64) -> Option<u64> {
        match segment.cmp(&self.end.0) {
            Ordering::Less => self.ends.get(&segment).copied(),
            Ordering::Equal => Some(self.end.1),
            Ordering::Greater => Some(0),
        }
    }

    /// How urgent the committer's work is: 0 none, 1 may wait for more, 2 write now.
    pub fn urgency_level(&self) -> u8 {
        let some = self.open.records > 0 || !self.closed.is_empty();
        let now =
            self.open.sync || self.gathered >= GATHER_BYTES || self.closed.iter().any(|batch| batch.sync);
        u8::from(some) + u8::from(some && now)
    }

    /// Returns true if the backlog of unwritten bytes is over its limit.
    pub fn is_crowded(&self) -> bool {
        self.gathered > GATHERED_MAX && self.failed.is_none()
    }

    /// Bytes of all files in use.
    pub fn bytes_in_use(&self) -> u64 {
        self.segments.values().map(|segment| segment.header.bytes).sum()
    }

    /// Bytes of all segments up to the ends of their records; the current segment counts whole. A segment that its
    /// process ended early counts for less than its file.
    pub fn bytes_written(&self) -> u64 {
        let written = |segment: &Arc<Segment>| self.ends.get(&segment.header.number).copied();
        self.segments.values().map(|segment| written(segment).unwrap_or(segment.header.bytes)).sum()
    }
}

/// The first batch of a segment in a spare file: the list of the other segments in use, and the keeper's checkpoint.
/// Err: the batch takes too much of this file; the spare is returned with the bytes needed.
pub fn first_batch(
    spare: Spare,
    generation: u32,
    number: u64,
    in_use: &BTreeMap<u64, u64>,
    keeper: &dyn Checkpointer,
) -> Result<PendingBatch, (Spare, usize)> {
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
    // `sync`: losing this batch would lose every later batch of the segment.
    let segment = Arc::new(segment);
    Ok(PendingBatch { number: 0, segment, at: PAGE, bytes, records, sync: true, first: true, seal: None })
}

/// A random generation, unlikely to be one of the file's earlier ones.
pub fn generation() -> Result<u32, LogError> {
    Ok(u32::from_le_bytes(random()?) | 1)
}
