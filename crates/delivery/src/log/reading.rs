//! Reads records back while the log is being written.

use super::format::{BATCH_HEADER, Batch, RECORD_HEADER, read_record, record_bytes};
use super::segment::Segment;
use super::{LogError, MAX_PAYLOAD, Position};

/// A part of a segment, read with one read.
pub struct Window<'a> {
    segment: &'a Segment,
    /// The last batch that is written.
    written: u64,
    from: u32,
    bytes: &'a mut Vec<u8>,
    /// Offset in `bytes` after the last record visited.
    at: usize,
}

enum Next<'a> {
    Record(u32, u8, &'a [u8]),
    /// The next batch is not written yet, or the record is not whole in the window.
    Nothing,
}

impl<'a> Window<'a> {
    /// Reads up to `most` bytes from the offset `from`, which must be the start of a record or of a batch.
    pub fn read(
        segment: &'a Segment,
        from: u32,
        most: usize,
        written: u64,
        bytes: &'a mut Vec<u8>,
    ) -> Result<Window<'a>, LogError> {
        let len = (most as u64).min(segment.limit().saturating_sub(u64::from(from)));
        bytes.resize(len as usize, 0);
        segment.read(bytes, u64::from(from))?;
        Ok(Window { segment, written, from, bytes, at: 0 })
    }

    /// Visits the whole records of the window, and returns the offset after the last one visited. The visitor returns
    /// false to stop.
    pub fn visit(mut self, visit: &mut dyn FnMut(Position, u8, &[u8]) -> bool) -> Result<u32, LogError> {
        self.fit_first()?;
        let number = self.segment.header.number;
        let mut wanted = true;
        while wanted && let Next::Record(at, kind, payload) = self.next() {
            wanted = visit(Position { segment: number, at }, kind, payload);
        }
        Ok(self.from + self.at as u32)
    }

    /// Grows the window to hold its first record. Beyond the last record the bytes are arbitrary.
    fn fit_first(&mut self) -> Result<(), LogError> {
        self.step_over_header();
        let Some(head) = self.bytes.get(self.at..self.at + RECORD_HEADER) else { return Ok(()) };
        let word = u32::from_le_bytes(std::array::from_fn(|i| head[4 + i]));
        let need = self.at + record_bytes(word as usize & MAX_PAYLOAD);
        if need > self.bytes.len() && u64::from(self.from) + need as u64 <= self.segment.limit() {
            self.bytes.resize(need, 0);
            self.segment.read(self.bytes, u64::from(self.from))?;
        }
        Ok(())
    }

    /// Steps over a batch header, if there is one at the current offset. Returns false if it belongs to a batch that is
    /// not written yet.
    fn step_over_header(&mut self) -> bool {
        let Some(Ok(header)) = self.bytes.get(self.at..self.at + BATCH_HEADER).map(TryInto::try_into) else {
            return true;
        };
        match Batch::read(header, self.segment.header.generation) {
            Some(batch) if batch.number > self.written => false,
            Some(_) => {
                self.at += BATCH_HEADER;
                true
            }
            None => true,
        }
    }

    fn next(&mut self) -> Next<'_> {
        if !self.step_over_header() {
            return Next::Nothing;
        }
        let generation = self.segment.header.generation;
        match self.bytes.get(self.at..).and_then(|bytes| read_record(bytes, generation)) {
            Some((kind, payload, len)) => {
                let at = self.at;
                self.at += len;
                Next::Record(self.from + at as u32, kind, payload)
            }
            None => Next::Nothing,
        }
    }
}
