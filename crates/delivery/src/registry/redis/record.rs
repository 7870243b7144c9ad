//! The format of a client on the server.
//!
//! In the hash of clients: its id in hexadecimal, its lease in milliseconds and its endpoint, separated by blanks. In
//! the hash of topics: a NUL, then each topic followed by a NUL, so that a topic can be found with its delimiters.

use crate::registry::{Id, Lasting, Member};

pub fn write_id(id: &Id) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn write_topics(member: &Member) -> String {
    let mut text = "\0".to_owned();
    for topic in member.stored_topics() {
        text.push_str(&topic);
        text.push('\0');
    }
    text
}

/// None: the values do not have the format above.
pub fn read(name: &[u8], client: &[u8], topics: &[u8]) -> Option<Member> {
    let mut parts = std::str::from_utf8(client).ok()?.splitn(3, ' ');
    let id = read_id(parts.next()?)?;
    let _lease_ms: u64 = parts.next()?.parse().ok()?;
    let endpoint = parts.next()?.to_owned();
    let topics = std::str::from_utf8(topics).ok()?.strip_prefix('\0')?;
    let mut topics: Vec<String> = topics.split_terminator('\0').map(str::to_owned).collect();
    topics.sort_unstable();
    topics.dedup();
    let name = std::str::from_utf8(name).ok()?.to_owned();
    let member =
        Member { name, id: Some(id), endpoint, topics: Vec::new(), version: 0, lasting: Lasting::Durable };
    Some(member.with_stored_topics(topics)).filter(Member::is_valid)
}

fn read_id(text: &str) -> Option<Id> {
    let mut id = Id::default();
    if text.len() != 2 * id.len() || !text.is_ascii() {
        return None;
    }
    for (byte, at) in id.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(id)
}
