//! Frames that were spelt out by hand, for the independent peer in Python (`tests/filemq`).

use pinnace_files::wire::{DecodeError, Message};

/// The blocks of the file: kind, name, whether a line of fields follows, and the frame.
fn vectors() -> Vec<(String, String, Vec<u8>)> {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/filemq/vectors.txt"))
            .unwrap();
    let blocks = text.split("\n\n").map(|block| block.lines().filter(|line| !line.starts_with('#')));
    let vectors = blocks.filter_map(|mut lines| {
        let (kind, name) = lines.next()?.split_once(' ')?;
        let skipped = usize::from(matches!(kind, "exact" | "decode"));
        let digits: String = lines.skip(skipped).filter_map(|line| line.split(';').next()).collect();
        let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
        let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        Some((kind.to_owned(), name.to_owned(), digits.chunks(2).map(octet).collect()))
    });
    vectors.collect()
}

#[test]
fn frames_spelt_out_by_hand_are_read_and_written() {
    let vectors = vectors();
    assert!(vectors.len() > 30);
    for (kind, name, frame) in vectors {
        let message = Message::read(&frame);
        match kind.as_str() {
            "exact" => assert_eq!(message.unwrap().to_frame(), frame, "{name}"),
            "decode" => drop(message.unwrap()),
            "malformed" => assert!(matches!(message, Err(DecodeError::Malformed(_))), "{name}: {message:?}"),
            "foreign" => assert_eq!(message, Err(DecodeError::Foreign), "{name}"),
            _ => panic!("{name} is {kind}"),
        }
    }
}
