//! Compresses large bodies (Zstandard, RFC 8878) if they shrink enough.

use std::borrow::Cow;
use std::io::Read;

use crate::wire::Verdict;

const LEVEL: i32 = 1;
/// Bytes from the middle of the body, compressed first as a sample.
const SAMPLE: usize = 64 << 10;

/// Returns true if the size has shrunk by at least an eighth.
fn pays(from: usize, to: usize) -> bool {
    to <= from - from / 8
}

/// The body, compressed if that pays. True: it is compressed.
pub fn pack(body: &[u8]) -> (Cow<'_, [u8]>, bool) {
    let start = (body.len() / 2).saturating_sub(SAMPLE / 2);
    let sample = &body[start..body.len().min(start + SAMPLE)];
    let shrinks = |bytes: &[u8]| {
        zstd::bulk::compress(bytes, LEVEL).ok().filter(|packed| pays(bytes.len(), packed.len()))
    };
    match shrinks(sample).and_then(|_| shrinks(body)) {
        Some(packed) => (packed.into(), true),
        None => (body.into(), false),
    }
}

/// Decompresses. Err: the data is invalid, or expands to more than `most` bytes.
pub fn unpack(packed: &[u8], most: usize) -> Result<Vec<u8>, Verdict> {
    match zstd::bulk::Decompressor::upper_bound(packed) {
        Some(bytes) if bytes > most => Err(Verdict::TooLarge),
        _ => zstd::bulk::decompress(packed, most).map_err(|_| Verdict::Unreadable),
    }
}

/// The first bytes of the decompressed data, at most `most`, and its total size, or 0 if the data does not state it. A
/// prefix of the compressed data is enough.
pub fn begin(packed: &[u8], most: usize) -> (Vec<u8>, u64) {
    let bytes = zstd::zstd_safe::get_frame_content_size(packed).ok().flatten().unwrap_or(0);
    let mut begin = Vec::new();
    if let Ok(reader) = zstd::Decoder::new(packed) {
        // Keep what could be decompressed.
        let _ = reader.take(most as u64).read_to_end(&mut begin);
    }
    (begin, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shrinks_is_packed_and_comes_back() {
        let body: Vec<u8> = (0..300_000_u32).flat_map(|number| (number / 9).to_le_bytes()).collect();
        let (packed, is_packed) = pack(&body);
        assert!(is_packed && packed.len() < body.len() / 2);
        assert_eq!(unpack(&packed, body.len()).as_ref(), Ok(&body));
        assert_eq!(begin(&packed[..packed.len() / 2], 9), (body[..9].to_vec(), body.len() as u64));
        assert_eq!(unpack(&packed, body.len() - 1), Err(Verdict::TooLarge));
        assert_eq!(unpack(&packed[..packed.len() - 1], body.len()), Err(Verdict::Unreadable));
        assert_eq!(unpack(&body, body.len()), Err(Verdict::Unreadable), "never packed");
    }

    #[test]
    fn what_does_not_shrink_stays_as_it_is() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let body: Vec<u8> = (0..1 << 20).map(|_| random()).collect();
        assert!(!pack(&body).1);
        assert!(!pack(&[]).1 && !pack(&[1]).1);
    }

    #[test]
    fn a_bomb_is_refused() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap();
        assert!(bomb.len() < 10_000);
        assert_eq!(unpack(&bomb, 1 << 20), Err(Verdict::TooLarge));
    }
}
