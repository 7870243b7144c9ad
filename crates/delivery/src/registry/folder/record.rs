//! The content of a client's file.
//!
//! ```text
//! file     = "PNREG" %x01 name id endpoint count *topic check
//! name, endpoint, topic = length UTF-8                 ; lengths and count: LEB128, the shortest form
//! id       = 16OCTET
//! check    = 4OCTET                                    ; CRC32C of all before it, the low byte first
//! ```
//!
//! A file that does not parse to its last byte, or has a value out of range, is invalid as a whole.

use super::names::file_name;
use crate::registry::members::{ENDPOINT_MAX, Lasting, Member, STORED_TOPICS_MAX};
use crate::wire::{Bytes, NAME_MAX, put_counted, put_number};

const MAGIC: &[u8] = b"PNREG\x01";
const CHECK_BYTES: usize = 4;

/// The longest file: each text has a prefix of at most two bytes; the constant covers the rest.
pub const BYTES_MAX: usize = 64 + NAME_MAX + ENDPOINT_MAX + STORED_TOPICS_MAX * (NAME_MAX + 2);

pub fn write(member: &Member, id: &[u8; 16]) -> Vec<u8> {
    let mut to = MAGIC.to_vec();
    put_counted(&mut to, member.name.as_bytes());
    to.extend_from_slice(id);
    put_counted(&mut to, member.endpoint.as_bytes());
    let topics = member.stored_topics();
    put_number(&mut to, topics.len() as u64);
    for topic in &topics {
        put_counted(&mut to, topic.as_bytes());
    }
    let check = crc32c::crc32c(&to);
    to.extend_from_slice(&check.to_le_bytes());
    to
}

/// None: it is invalid, or its name does not belong to this file.
pub fn read(file: &str, bytes: &[u8]) -> Option<Member> {
    let (said, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK_BYTES)?)?;
    if crc32c::crc32c(said).to_le_bytes() != check {
        return None;
    }
    let mut from = Bytes::new(said.strip_prefix(MAGIC)?);
    let name = from.text(NAME_MAX)?.to_owned();
    let id = from.array()?;
    let endpoint = from.text(ENDPOINT_MAX)?.to_owned();
    let count = from.number().filter(|count| *count <= STORED_TOPICS_MAX as u64)?;
    let mut topics = Vec::new();
    for _ in 0..count {
        topics.push(from.text(NAME_MAX)?.to_owned());
    }
    topics.sort_unstable();
    topics.dedup();
    let member =
        Member { name, id: Some(id), endpoint, topics: Vec::new(), version: 0, lasting: Lasting::Durable };
    let member = member.with_stored_topics(topics);
    (from.is_empty() && member.is_valid() && file_name(&member.name) == file).then_some(member)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(topics: &[&str], version: u64) -> Member {
        let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
        let (id, endpoint) = (Some([9; 16]), "tcp://[::1]:7".into());
        Member { name: "on/e".into(), id, endpoint, topics, version, lasting: Lasting::Durable }
    }

    #[test]
    fn what_is_written_comes_back() {
        let lasting = [Lasting::Durable, Lasting::Transient, Lasting::Forgotten];
        for (lasting, topics) in lasting.into_iter().zip([&[][..], &["", "news", "ü"], &[]]) {
            let member = Member { lasting, ..member(topics, 1 << 40) };
            let bytes = write(&member, &[9; 16]);
            assert_eq!(read("on%2fe", &bytes), Some(member));
            assert_eq!(read("on", &bytes), None);
            for len in 0..bytes.len() {
                assert_eq!(read("on%2fe", &bytes[..len]), None);
            }
        }
    }

    #[test]
    fn the_longest_fits() {
        let topics = (0..crate::registry::TOPICS_MAX).map(|number| format!("{number:0255}")).collect();
        let member = Member { topics, endpoint: "e".repeat(ENDPOINT_MAX), ..member(&[], 7) };
        let bytes = write(&member, &[9; 16]);
        assert!(bytes.len() <= BYTES_MAX);
        assert_eq!(read("on%2fe", &bytes), Some(member));
    }

    proptest! {
        /// With a correct checksum, so that the code behind the check is tested.
        #[test]
        fn no_bytes_are_too_much(
            rest in prop::collection::vec(any::<u8>(), 0..60),
            at in 0..60_usize,
            by in 1..=255_u8,
        ) {
            let sealed = |mut bytes: Vec<u8>| {
                let check = crc32c::crc32c(&bytes);
                bytes.extend_from_slice(&check.to_le_bytes());
                bytes
            };
            read("on%2fe", &sealed([MAGIC, &rest].concat()));
            let mut bytes = write(&member(&["news"], 7), &[9; 16]);
            bytes.truncate(bytes.len() - CHECK_BYTES);
            let at = at % bytes.len();
            bytes[at] ^= by;
            if let Some(member) = read("on%2fe", &sealed(bytes)) {
                prop_assert_eq!(&member.name, "on/e");
            }
        }
    }
}
