//! One file of a log: its header, its batches, its seal.

use std::io::{self, ErrorKind};

use super::format::{self, BATCH_HEADER, Batch, HEADER, Header, PAGE, SEAL, Seal};
use super::storage::{File, Storage};

/// The sizes of a segment's file, in bytes: powers of two.
pub const MIN_BYTES: u64 = 1 << 20;
pub const MAX_BYTES: u64 = 64 << 20;

/// The number in the header of a file whose segment does not count; others begin at 1.
const RETIRED: u64 = 0;

/// A file in use as the segment `header.number`.
pub struct Segment {
    pub name: String,
    pub header: Header,
    file: Box<dyn File>,
    /// There is no header in the file yet, nor ever was.
    is_fresh: bool,
}

/// A file with room for a segment.
pub struct Spare {
    pub name: String,
    pub bytes: u64,
    pub file: Box<dyn File>,
    /// It was never used.
    pub is_fresh: bool,
}

/// What a file was found to be.
pub enum Found {
    Segment(Segment),
    /// Never used.
    Spare(Spare),
    /// Less than a file that was made whole.
    Unfinished,
    /// Something is there, but no header.
    Damaged,
}

impl Spare {
    /// A new file.
    pub fn create(storage: &dyn Storage, name: String, bytes: u64) -> io::Result<Spare> {
        let file = storage.create(&name, bytes)?;
        Ok(Spare { name, bytes, file, is_fresh: true })
    }

    /// The file as a segment; its header is still to be written.
    pub fn into_segment(self, number: u64, generation: u32) -> Segment {
        let header = Header { number, bytes: self.bytes, generation };
        Segment { name: self.name, header, file: self.file, is_fresh: self.is_fresh }
    }
}

impl Segment {
    /// Looks at a file.
    pub fn find(storage: &dyn Storage, name: String) -> io::Result<Found> {
        let file = storage.open(&name)?;
        let bytes = file.bytes()?;
        if bytes < MIN_BYTES || !bytes.is_power_of_two() {
            return Ok(Found::Unfinished);
        }
        let mut start = [0; HEADER];
        file.read_at(&mut start, 0)?;
        if let Some(header) = Header::read(&start) {
            return match header.bytes == bytes {
                true if header.number == RETIRED => {
                    Ok(Found::Spare(Spare { name, bytes, file, is_fresh: false }))
                }
                true => Ok(Found::Segment(Segment { name, header, file, is_fresh: false })),
                false => Ok(Found::Damaged),
            };
        }
        let mut first = [0; BATCH_HEADER];
        file.read_at(&mut first, PAGE)?;
        match start == [0; HEADER] && first == [0; BATCH_HEADER] {
            true => Ok(Found::Spare(Spare { name, bytes, file, is_fresh: true })),
            false => Ok(Found::Damaged),
        }
    }

    /// It begins: what lay in the file before is nothing from here on. A header is on the disk before all else, so that
    /// a file without one is never more than that.
    pub fn begin(&self) -> io::Result<()> {
        self.file.write_at(&self.header.write(), 0)?;
        if self.is_fresh { self.file.sync() } else { Ok(()) }
    }

    /// Nothing that is in it ever counts again.
    pub fn retire(&self) -> io::Result<()> {
        let header = Header { number: RETIRED, ..self.header };
        self.file.write_at(&header.write(), 0)?;
        self.file.sync()
    }

    /// Where batches may go up to.
    pub fn limit(&self) -> u64 {
        self.header.bytes - PAGE
    }

    pub fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_at(bytes, at)
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    pub fn read(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        if at + into.len() as u64 > self.header.bytes {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.file.read_at(into, at)
    }

    /// Says where batches end. A summary for which there is no room is left out. Not synced.
    pub fn seal(&self, next: u64, end: u64, summary: &[u8]) -> io::Result<()> {
        let fits = end + summary.len() as u64 <= self.limit();
        let summary = if fits { summary } else { &[] };
        self.file.write_at(summary, end)?;
        let seal = Seal {
            number: self.header.number,
            next,
            end,
            summary: end,
            length: summary.len() as u32,
            summary_crc: format::crc(self.header.generation, summary),
        };
        self.file.write_at(&seal.write(self.header.generation), self.limit())
    }

    /// The seal, and the summary where there is a good one.
    pub fn sealed(&self) -> io::Result<Option<(Seal, Option<Vec<u8>>)>> {
        let mut bytes = [0; SEAL];
        self.file.read_at(&mut bytes, self.limit())?;
        let Some(seal) = Seal::read(&bytes, &self.header) else { return Ok(None) };
        let mut summary = vec![0; seal.length as usize];
        self.file.read_at(&mut summary, seal.summary)?;
        let is_good =
            !summary.is_empty() && format::crc(self.header.generation, &summary) == seal.summary_crc;
        Ok(Some((seal, is_good.then_some(summary))))
    }

    /// The batch header at an offset, where there is one whose records fit.
    pub fn batch_at(&self, at: u64) -> io::Result<Option<Batch>> {
        if at + BATCH_HEADER as u64 > self.limit() {
            return Ok(None);
        }
        let mut bytes = [0; BATCH_HEADER];
        self.file.read_at(&mut bytes, at)?;
        let batch = Batch::read(&bytes, self.header.generation);
        Ok(batch.filter(|batch| at + BATCH_HEADER as u64 + u64::from(batch.bytes) <= self.limit()))
    }

    /// The file, to be used for another segment.
    pub fn into_spare(self) -> Spare {
        Spare { name: self.name, bytes: self.header.bytes, file: self.file, is_fresh: false }
    }
}
