//! The log's format on the disk. Integers are little-endian. CRCs are CRC32C, seeded with the segment's generation, so
//! that bytes of a file's earlier use never pass for those of a later use.
//!
//! ```text
//! segment   header (4096)  batch  batch  ...  (old bytes)  ...  seal (4096)
//!
//! header    magic "PINLOG01"  number u64  bytes u64  generation u32  crc u32
//! batch     magic "BTCH"  bytes u32  number u64  durable u64  records u32  crc u32  record record ...
//! record    crc u32  length u24  kind u8  payload  zeros up to a multiple of 8
//! seal      magic "PINSEAL1"  number u64  next u64  end u64  summary u64  length u32  crc u32 of the summary
//!           generation u32  crc u32
//! ```
//!
//! Segment numbers increase by one and are never reused. A batch's `number` increases by one, over all segments;
//! `durable` is a batch that was on the disk, with all before it, when this one was written. The seal is written once
//! the segment `next` is on the disk, or when the log is reopened (`next` is 0): `end` is where batches end, and
//! `summary` is the offset of the keeper's summary.

use pinnace_engine::prefetch_room;

/// The size of a segment's header and of its seal: one page each.
pub const PAGE: u64 = 4096;
pub const HEADER: usize = 32;
pub const SEAL: usize = 56;
pub const BATCH_HEADER: usize = 32;
pub const RECORD_HEADER: usize = 8;
/// The longest payload of one record, in bytes.
pub const MAX_PAYLOAD: usize = (1 << 24) - 1;

const SEGMENT_MAGIC: [u8; 8] = *b"PINLOG01";
const SEAL_MAGIC: [u8; 8] = *b"PINSEAL1";
const BATCH_MAGIC: [u8; 4] = *b"BTCH";

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub number: u64,
    pub bytes: u64,
    pub generation: u32,
}

/// The seal of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    pub number: u64,
    /// The following segment, which was on the disk before the seal was written; 0 if none had begun.
    pub next: u64,
    pub end: u64,
    pub summary: u64,
    pub length: u32,
    pub summary_crc: u32,
}

/// The header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    pub number: u64,
    pub durable: u64,
    pub records: u32,
    /// Bytes of its records, without the header.
    pub bytes: u32,
}

/// The CRC of `bytes` in a segment of this generation.
pub fn crc(generation: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(generation, bytes)
}

/// Bytes of a record with a payload of `len` bytes.
pub fn record_bytes(len: usize) -> usize {
    (RECORD_HEADER + len).next_multiple_of(8)
}

impl Header {
    pub fn write(&self) -> [u8; HEADER] {
        let mut to = [0; HEADER];
        to[..8].copy_from_slice(&SEGMENT_MAGIC);
        to[8..16].copy_from_slice(&self.number.to_le_bytes());
        to[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        to[24..28].copy_from_slice(&self.generation.to_le_bytes());
        finish(to, self.generation)
    }

    pub fn read(from: &[u8; HEADER]) -> Option<Header> {
        let header =
            Header { number: u64_at(from, 8), bytes: u64_at(from, 16), generation: u32_at(from, 24) };
        (from[..8] == SEGMENT_MAGIC && is_finished(from, header.generation)).then_some(header)
    }
}

impl Seal {
    pub fn write(&self, generation: u32) -> [u8; SEAL] {
        let mut to = [0; SEAL];
        to[..8].copy_from_slice(&SEAL_MAGIC);
        to[8..16].copy_from_slice(&self.number.to_le_bytes());
        to[16..24].copy_from_slice(&self.next.to_le_bytes());
        to[24..32].copy_from_slice(&self.end.to_le_bytes());
        to[32..40].copy_from_slice(&self.summary.to_le_bytes());
        to[40..44].copy_from_slice(&self.length.to_le_bytes());
        to[44..48].copy_from_slice(&self.summary_crc.to_le_bytes());
        to[48..52].copy_from_slice(&generation.to_le_bytes());
        finish(to, generation)
    }

    /// The seal, if it belongs to this segment.
    pub fn read(from: &[u8; SEAL], header: &Header) -> Option<Seal> {
        let seal = Seal {
            number: u64_at(from, 8),
            next: u64_at(from, 16),
            end: u64_at(from, 24),
            summary: u64_at(from, 32),
            length: u32_at(from, 40),
            summary_crc: u32_at(from, 44),
        };
        let fits = seal.end <= seal.summary && seal.summary + u64::from(seal.length) + PAGE <= header.bytes;
        let is_ours = seal.number == header.number && u32_at(from, 48) == header.generation;
        (from[..8] == SEAL_MAGIC && is_ours && is_finished(from, header.generation) && fits).then_some(seal)
    }
}

impl Batch {
    pub fn write(&self, generation: u32) -> [u8; BATCH_HEADER] {
        let mut to = [0; BATCH_HEADER];
        to[..4].copy_from_slice(&BATCH_MAGIC);
        to[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        to[8..16].copy_from_slice(&self.number.to_le_bytes());
        to[16..24].copy_from_slice(&self.durable.to_le_bytes());
        to[24..28].copy_from_slice(&self.records.to_le_bytes());
        finish(to, generation)
    }

    pub fn read(from: &[u8; BATCH_HEADER], generation: u32) -> Option<Batch> {
        let batch = Batch {
            bytes: u32_at(from, 4),
            number: u64_at(from, 8),
            durable: u64_at(from, 16),
            records: u32_at(from, 24),
        };
        (from[..4] == BATCH_MAGIC && is_finished(from, generation)).then_some(batch)
    }
}

/// Appends a record to `to`. Its payload is the concatenation of `parts`, at most MAX_PAYLOAD bytes.
pub fn add_record(to: &mut Vec<u8>, generation: u32, kind: u8, parts: &[&[u8]]) {
    let start = to.len();
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let word = (len as u32) | u32::from(kind) << 24;
    to.extend_from_slice(&[0; 4]);
    to.extend_from_slice(&word.to_le_bytes());
    for part in parts {
        to.extend_from_slice(part);
    }
    let crc = crc(generation, &to[start + 4..]);
    to[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    to.resize(start + record_bytes(len), 0);
    // The next record is often as large. It is written under the log's lock.
    prefetch_room(to, record_bytes(len));
}

/// The record at the start of `from`: its kind, payload and total size in bytes.
pub fn read_record(from: &[u8], generation: u32) -> Option<(u8, &[u8], usize)> {
    let (kind, payload, bytes) = record_at(from)?;
    let checked = &from[4..RECORD_HEADER + payload.len()];
    (u32_at(from, 0) == crc(generation, checked)).then_some((kind, payload, bytes))
}

/// Like `read_record`, without the CRC check: for bytes that were never on a disk.
pub fn record_at(from: &[u8]) -> Option<(u8, &[u8], usize)> {
    let word = u32::from_le_bytes(from.get(4..8)?.try_into().ok()?);
    let len = (word & MAX_PAYLOAD as u32) as usize;
    let bytes = record_bytes(len);
    if bytes > from.len() {
        return None;
    }
    Some(((word >> 24) as u8, &from[RECORD_HEADER..RECORD_HEADER + len], bytes))
}

fn finish<const N: usize>(mut to: [u8; N], generation: u32) -> [u8; N] {
    let crc = crc(generation, &to[..N - 4]);
    to[N - 4..].copy_from_slice(&crc.to_le_bytes());
    to
}

fn is_finished<const N: usize>(from: &[u8; N], generation: u32) -> bool {
    u32_at(from, N - 4) == crc(generation, &from[..N - 4])
}

fn u32_at(from: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| from[at + i]))
}

fn u64_at(from: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| from[at + i]))
}
