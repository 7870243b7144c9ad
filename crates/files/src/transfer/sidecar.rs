//! The sidecar of a part: which blocks of a file have arrived, and their values.
//!
//! ```text
//! head    = "PNCEPART" version:2 size:8 mtime:8 mode:4 tag-len:1 tag check:8
//! record  = block:8 value:32 check:8
//! check   = the first 8 octets of BLAKE3 over the preceding fields of the head or record
//! ```
//!
//! A record is appended when a block is written. It is not synced: after a power cut the part may lack octets whose
//! record is there, so a transfer that goes on reads the part again and believes only blocks that have the recorded
//! value. What follows a torn record is ignored.

use super::digest::Value;
use super::incoming::Announced;

const MAGIC: &[u8; 8] = b"PNCEPART";
const VERSION: u16 = 1;
const CHECK: usize = 8;

/// The octets of a record.
const RECORD: usize = 8 + size_of::<Value>() + CHECK;

/// The most octets of a head.
const HEAD_MAX: usize = 8 + 2 + 8 + 8 + 4 + 1 + 255 + CHECK;

fn check_of(octets: &[u8]) -> [u8; CHECK] {
    let mut check = [0; CHECK];
    check.copy_from_slice(&blake3::hash(octets).as_bytes()[..CHECK]);
    check
}

/// The head of a file's sidecar. Of a longer tag, the first 255 octets are kept.
pub fn head(announced: &Announced) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&VERSION.to_be_bytes());
    head.extend_from_slice(&announced.size.to_be_bytes());
    head.extend_from_slice(&announced.mtime_ns.to_be_bytes());
    head.extend_from_slice(&announced.mode.to_be_bytes());
    let tag = &announced.tag[..announced.tag.len().min(255)];
    head.push(tag.len() as u8);
    head.extend_from_slice(tag);
    head.extend_from_slice(&check_of(&head));
    head
}

/// The record of a block.
pub fn record(block: u64, value: &Value) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&block.to_be_bytes());
    record[8..RECORD - CHECK].copy_from_slice(value);
    let check = check_of(&record[..RECORD - CHECK]);
    record[RECORD - CHECK..].copy_from_slice(&check);
    record
}

/// What a sidecar tells.
#[derive(Debug, PartialEq, Eq)]
pub struct Sidecar {
    pub announced: Announced,
    pub blocks: Vec<(u64, Value)>,
    /// The octets of head and records that are whole.
    pub len: u64,
}

/// Reads a sidecar. None: it is damaged, or of another version.
pub fn read(octets: &[u8]) -> Option<Sidecar> {
    let fixed = octets.get(..HEAD_MAX.min(octets.len()))?;
    let rest = fixed.strip_prefix(MAGIC)?;
    let (version, rest) = rest.split_first_chunk::<2>()?;
    let (size, rest) = rest.split_first_chunk::<8>()?;
    let (mtime, rest) = rest.split_first_chunk::<8>()?;
    let (mode, rest) = rest.split_first_chunk::<4>()?;
    let (tag_len, rest) = rest.split_first()?;
    let (tag, rest) = rest.split_at_checked(usize::from(*tag_len))?;
    let (check, rest) = rest.split_first_chunk::<CHECK>()?;
    let len = fixed.len() - rest.len();
    if u16::from_be_bytes(*version) != VERSION || *check != check_of(&octets[..len - CHECK]) {
        return None;
    }
    let announced = Announced {
        size: u64::from_be_bytes(*size),
        mtime_ns: i64::from_be_bytes(*mtime),
        mode: u32::from_be_bytes(*mode),
        tag: tag.to_vec(),
    };
    let records = octets[len..].chunks_exact(RECORD).map_while(|record| {
        let (content, check) = record.split_at(RECORD - CHECK);
        let (block, value) = content.split_first_chunk::<8>()?;
        (check == check_of(content)).then(|| Some((u64::from_be_bytes(*block), value.try_into().ok()?)))?
    });
    let blocks: Vec<(u64, Value)> = records.collect();
    let len = (len + blocks.len() * RECORD) as u64;
    Some(Sidecar { announced, blocks, len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_torn_or_altered_is_not_believed() {
        let announced = Announced { size: 1 << 40, mtime_ns: -7, mode: 0o640, tag: b"tag".to_vec() };
        let mut octets = head(&announced);
        let head_len = octets.len();
        octets.extend_from_slice(&record(0, &[1; 32]));
        octets.extend_from_slice(&record(9, &[2; 32]));
        let blocks = vec![(0, [1; 32]), (9, [2; 32])];
        assert_eq!(read(&octets), Some(Sidecar { announced, blocks, len: octets.len() as u64 }));
        for len in 0..octets.len() {
            let found = read(&octets[..len]);
            assert_eq!(found.is_some(), len >= head_len);
            assert_eq!(found.map_or(0, |found| found.blocks.len()), len.saturating_sub(head_len) / RECORD);
        }
        for at in 0..octets.len() {
            let mut altered = octets.clone();
            altered[at] ^= 1;
            let expected = (at >= head_len).then(|| (at - head_len) / RECORD);
            assert_eq!(read(&altered).map(|found| found.blocks.len()), expected, "octet {at}");
        }
    }
}
