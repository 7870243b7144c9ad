//! Scans the batches of one segment, and looks for valid batches after invalid bytes.

use std::io;

use super::format::{BATCH_HEADER, Batch, PAGE, read_record};
use super::segment::Segment;

/// Called with each record's offset, kind and payload.
pub type Visit<'a> = &'a mut dyn FnMut(u32, u8, &[u8]);

/// The result of scanning one segment.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The first and last batch of the contiguous valid ones.
    pub first: Option<u64>,
    pub last: Option<u64>,
    /// The offset after them.
    pub end: u64,
    /// The highest `durable` of all batches found, including `later`.
    pub durable: u64,
    /// Valid batches after the invalid bytes at `end`.
    pub later: Vec<Batch>,
}

impl Scan {
    /// Returns true if a later batch says that a missing batch was on the disk.
    pub fn is_damaged(&self) -> bool {
        let Some(next) = self.later.first() else { return false };
        let missing = self.last.map_or(next.number.saturating_sub(1), |last| last + 1);
        self.later.iter().any(|batch| batch.durable >= missing)
    }
}

/// Visits the records of consecutive valid batches; with `salvage`, also those of batches after invalid bytes.
pub fn scan(segment: &Segment, until: u64, salvage: bool, visit: Visit<'_>) -> io::Result<Scan> {
    let mut scan = Scan { end: PAGE, ..Scan::default() };
    let mut bytes = Vec::new();
    let mut later = scan.go_on(segment, until, &mut bytes, visit)?;
    while later.is_some() {
        // A segment that another process writes to may have grown since.
        let end = scan.end;
        let again = scan.go_on(segment, until, &mut bytes, visit)?;
        if scan.end == end {
            break;
        }
        later = again;
    }
    while let Some((found, batch)) = later {
        if salvage {
            read(segment, found, &batch, &mut bytes)?;
            visit_records(&bytes, found, segment.header.generation, visit);
        }
        scan.durable = scan.durable.max(batch.durable);
        scan.later.push(batch);
        later = find_after(segment, found + BATCH_HEADER as u64, until, scan.last)?;
    }
    Ok(scan)
}

impl Scan {
    /// Continues with the valid batches from `end` on. Returns the next batch after the invalid bytes that follow.
    fn go_on(
        &mut self,
        segment: &Segment,
        until: u64,
        bytes: &mut Vec<u8>,
        visit: Visit<'_>,
    ) -> io::Result<Option<(u64, Batch)>> {
        while let Some(batch) = next_batch(segment, self.end, until, self.last)? {
            read(segment, self.end, &batch, bytes)?;
            if !is_good(bytes, &batch, segment.header.generation) {
                break;
            }
            visit_records(bytes, self.end, segment.header.generation, visit);
            self.first.get_or_insert(batch.number);
            self.last = Some(batch.number);
            self.durable = self.durable.max(batch.durable);
            self.end += (BATCH_HEADER + batch.bytes as usize) as u64;
        }
        find_after(segment, self.end, until, self.last)
    }
}

fn next_batch(segment: &Segment, at: u64, until: u64, last: Option<u64>) -> io::Result<Option<Batch>> {
    let batch = segment.batch_at(at)?;
    Ok(batch.filter(|batch| {
        let end = at + BATCH_HEADER as u64 + u64::from(batch.bytes);
        end <= until && last.is_none_or(|last| batch.number == last + 1)
    }))
}

/// The next valid batch header at or after `from`, with a number above `last`.
pub fn find_after(
    segment: &Segment,
    from: u64,
    until: u64,
    last: Option<u64>,
) -> io::Result<Option<(u64, Batch)>> {
    const WINDOW: u64 = 256 << 10;
    let mut bytes = Vec::new();
    let mut at = from;
    while at + BATCH_HEADER as u64 <= until {
        let end = (at + WINDOW).min(until);
        bytes.resize((end - at) as usize, 0);
        segment.read(&mut bytes, at)?;
        let places = (0..=bytes.len() - BATCH_HEADER).step_by(8);
        for position in places {
            let Ok(header) = bytes[position..position + BATCH_HEADER].try_into() else { continue };
            if let Some(batch) = Batch::read(header, segment.header.generation)
                && last.is_none_or(|last| batch.number > last)
            {
                return Ok(Some((at + position as u64, batch)));
            }
        }
        if end == until {
            break;
        }
        at = end - BATCH_HEADER as u64;
    }
    Ok(None)
}

/// Reads the records of a batch, or as many of them as the segment holds.
fn read(segment: &Segment, at: u64, batch: &Batch, into: &mut Vec<u8>) -> io::Result<()> {
    let start = at + BATCH_HEADER as u64;
    let len = u64::from(batch.bytes).min(segment.limit().saturating_sub(start));
    into.resize(len as usize, 0);
    segment.read(into, start)
}

fn is_good(bytes: &[u8], batch: &Batch, generation: u32) -> bool {
    let (mut at, mut records) = (0, 0);
    while let Some((_, _, len)) = read_record(&bytes[at..], generation) {
        at += len;
        records += 1;
    }
    at == bytes.len() && records == batch.records
}

fn visit_records(bytes: &[u8], batch_at: u64, generation: u32, visit: Visit<'_>) {
    let mut at = 0;
    while let Some((kind, payload, len)) = read_record(&bytes[at..], generation) {
        visit((batch_at as usize + BATCH_HEADER + at) as u32, kind, payload);
        at += len;
    }
}
