//! One file of a log: its header, batches and seal.

use std::io::{self, ErrorKind};

use super::format::{self, BATCH_HEADER, Batch, HEADER, Header, PAGE, SEAL, Seal};
use super::guard::is_guard;
use super::storage::{File, Storage};

/// The sizes of segment files, in bytes: powers of two within these limits.
pub const MIN_BYTES: u64 = 1 << 20;
pub const MAX_BYTES: u64 = 64 << 20;

/// The size of a file for a segment that begins with `bytes` bytes.
pub fn bytes_to_begin_with(bytes: u64) -> u64 {
    (bytes * 2 + 4 * PAGE).next_power_of_two().clamp(MIN_BYTES, MAX_BYTES)
}

/// Bytes rewritten at once.
const REWRITE_BYTES: usize = 256 << 10;

/// The number in the header of a retired segment; valid numbers begin at 1.
const RETIRED: u64 = 0;

/// A file that holds the segment `header.number`.
pub struct Segment {
    pub name: String,
    pub header: Header,
    file: Box<dyn File>,
    /// The file never had a header.
    is_fresh: bool,
}

/// A file available for a new segment.
pub struct Spare {
    pub name: String,
    pub bytes: u64,
    pub file: Box<dyn File>,
    /// It was never used.
    pub is_fresh: bool,
}

/// The state in which a file was found.
pub enum FoundFile {
    Segment(Segment),
    /// Never used, or retired.
    Spare(Spare),
    /// Creation did not finish: the file has not its full size.
    Unfinished,
    /// It keeps earlier builds from opening the log.
    Guard,
    /// It has content but no valid header.
    Damaged,
}

impl Spare {
    /// Creates a new file.
    pub fn create(storage: &dyn Storage, name: String, bytes: u64) -> io::Result<Spare> {
        let file = storage.create(&name, bytes)?;
        Ok(Spare { name, bytes, file, is_fresh: true })
    }

    /// Turns the file into a segment; its header is not written yet.
    pub fn into_segment(self, number: u64, generation: u32) -> Segment {
        let header = Header { number, bytes: self.bytes, generation };
        Segment { name: self.name, header, file: self.file, is_fresh: self.is_fresh }
    }
}

impl Segment {
    /// Opens a file and determines its state.
    pub fn find(storage: &dyn Storage, name: String) -> io::Result<FoundFile> {
        let file = storage.open(&name)?;
        let bytes = file.bytes()?;
        if bytes < MIN_BYTES || !bytes.is_power_of_two() {
            return Ok(FoundFile::Unfinished);
        }
        let mut start = [0; HEADER];
        file.read_at(&mut start, 0)?;
        if let Some(header) = Header::read(&start) {
            return match header.bytes == bytes {
                true if header.number == RETIRED => {
                    Ok(FoundFile::Spare(Spare { name, bytes, file, is_fresh: false }))
                }
                true => Ok(FoundFile::Segment(Segment { name, header, file, is_fresh: false })),
                false => Ok(FoundFile::Damaged),
            };
        }
        if is_guard(&start) {
            return Ok(FoundFile::Guard);
        }
        let mut first = [0; BATCH_HEADER];
        file.read_at(&mut first, PAGE)?;
        match start == [0; HEADER] && first == [0; BATCH_HEADER] {
            true => Ok(FoundFile::Spare(Spare { name, bytes, file, is_fresh: true })),
            false => Ok(FoundFile::Damaged),
        }
    }

    /// Writes the header, which invalidates the file's earlier content. In a fresh file the header is synced before any
    /// batch is written, so a file without a header never holds batches.
    pub fn begin(&self) -> io::Result<()> {
        self.file.write_at(&self.header.write(), 0)?;
        if self.is_fresh { self.file.sync() } else { Ok(()) }
    }

    /// Writes the header and the batches up to `end` again. After a sync that failed, what a file shows may be in
    /// memory only, and no later sync would bring it to the disk: the kernel takes it for written.
    pub fn rewrite(&self, end: u64) -> io::Result<()> {
        let mut buffer = vec![0; REWRITE_BYTES];
        let mut at = 0;
        while at < end {
            let bytes = &mut buffer[..(end - at).min(REWRITE_BYTES as u64) as usize];
            self.read(bytes, at)?;
            self.write(bytes, at)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Durably invalidates everything in the file.
    pub fn retire(&self) -> io::Result<()> {
        let header = Header { number: RETIRED, ..self.header };
        self.file.write_at(&header.write(), 0)?;
        self.file.sync()
    }

    /// The offset at which batches must end.
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

    /// Writes the seal, with the offset at which batches end. Omits a summary that does not fit. Does not sync.
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

    /// Whether the file still holds this segment, and is not used by another one.
    pub fn is_there(&self) -> io::Result<bool> {
        let mut start = [0; HEADER];
        self.file.read_at(&mut start, 0)?;
        Ok(Header::read(&start).is_some_and(|header| header == self.header))
    }

    /// The seal, if there is one, and its summary if that is valid.
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

    /// The batch header at an offset, if it is valid and its records fit into the segment.
    pub fn batch_at(&self, at: u64) -> io::Result<Option<Batch>> {
        if at + BATCH_HEADER as u64 > self.limit() {
            return Ok(None);
        }
        let mut bytes = [0; BATCH_HEADER];
        self.file.read_at(&mut bytes, at)?;
        let batch = Batch::read(&bytes, self.header.generation);
        Ok(batch.filter(|batch| at + BATCH_HEADER as u64 + u64::from(batch.bytes) <= self.limit()))
    }

    /// The file, for use by another segment.
    pub fn into_spare(self) -> Spare {
        Spare { name: self.name, bytes: self.header.bytes, file: self.file, is_fresh: false }
    }
}
