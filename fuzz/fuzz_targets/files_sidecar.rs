//! The sidecar of a part: arbitrary octets, and a sidecar of arbitrary content that is cut and altered. What is read is
//! what was written, up to the first record that is not whole.

use pinnace_files::transfer::incoming::Announced;
use pinnace_files::transfer::sidecar::{head, read, record};

/// Where the head has the length of the tag.
const TAG_LEN: usize = 8 + 2 + 8 + 8 + 4;

pub fn run(data: &[u8]) {
    if let Some(sidecar) = read(data) {
        let mut again = head(&sidecar.announced);
        sidecar.blocks.iter().for_each(|(block, value)| again.extend_from_slice(&record(*block, value)));
        assert_eq!((again.len() as u64, &data[..again.len()]), (sidecar.len, &again[..]));
    }
    let Some((numbers, rest)) = data.split_first_chunk::<8>() else { return };
    let number = u64::from_be_bytes(*numbers);
    let (tag, rest) = rest.split_at(rest.len().min(usize::from(numbers[0])));
    let announced =
        Announced { size: number, mtime_ns: number as i64, mode: u32::from(numbers[1]), tag: tag.to_vec() };
    let mut octets = head(&announced);
    let blocks = rest.chunks_exact(32).map(|value| (number, value.try_into().unwrap_or_default()));
    let blocks: Vec<(u64, [u8; 32])> = blocks.collect();
    let head_len = octets.len();
    blocks.iter().for_each(|(block, value)| octets.extend_from_slice(&record(*block, value)));
    let at = number as usize % octets.len();
    if numbers[2] > 0 && at == TAG_LEN {
        // With another length, octets of a record may be the head's check.
        return;
    }
    if numbers[2] > 0 {
        octets[at] ^= numbers[2];
    } else {
        octets.truncate(at);
    }
    let record_len = record(0, &[0; 32]).len();
    match read(&octets) {
        Some(sidecar) => {
            assert!(at >= head_len && sidecar.announced == announced);
            assert_eq!(sidecar.blocks, blocks[..(at - head_len) / record_len]);
        }
        None => assert!(at < head_len),
    }
}
