//! Frame headers of ZMTP 2.0 and later (RFC 15, 23 and 37, "Framing").
//!
//! A header is a flags byte and a length: one byte for lengths up to 255, else [`LONG`] and eight bytes,
//! big-endian. The length counts only the body.
//!
//! This is the hot path: no state, no allocation, no loop. Reserved flag bits are ignored, as in libzmq. Lengths
//! are reported unchecked, even above 2^63 - 1, although no frame can be that long: the caller has to apply its own
//! limit anyway.
//!
//! ```
//! use pinnace_zmtp::frame::{self, MORE};
//!
//! let header = frame::parse(b"\x01\x05hello").unwrap();
//! assert_eq!((header.flags, header.header_len, header.body_len), (MORE, 2, 5));
//! assert!(frame::parse(b"\x02\0\0\0\0\0\0\x01").is_none()); // a long header has nine bytes
//!
//! let mut out = [0; frame::MAX_HEADER];
//! assert_eq!(frame::encode(MORE, 5, &mut out), 2);
//! assert_eq!(out[..2], *b"\x01\x05");
//! ```

/// More frames of this message follow.
pub const MORE: u8 = 1;
/// The length has eight bytes.
pub const LONG: u8 = 2;
/// The frame is a command, not part of a message.
pub const COMMAND: u8 = 4;
/// The longest header, in bytes.
pub const MAX_HEADER: usize = 9;

const KNOWN: u8 = MORE | LONG | COMMAND;
const SHORT_HEADER: usize = 2;

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// [`MORE`], [`LONG`] and [`COMMAND`] as received; reserved bits are cleared.
    pub flags: u8,
    /// Length of the header itself in bytes: 2 or 9 (2 or 10 in ZMTP 1.0).
    pub header_len: usize,
    /// Length of the body in bytes, unchecked.
    pub body_len: u64,
}

impl Header {
    /// Whether more frames of this message follow.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.flags & MORE != 0
    }

    /// Whether the frame is a command.
    #[inline]
    pub fn is_command(&self) -> bool {
        self.flags & COMMAND != 0
    }
}

/// Parses the header at the front of `bytes`; `None` if it is incomplete.
#[inline]
pub fn parse(bytes: &[u8]) -> Option<Header> {
    let &[flags, len, ..] = bytes else { return None };
    if flags & LONG == 0 {
        return Some(Header { flags: flags & KNOWN, header_len: SHORT_HEADER, body_len: u64::from(len) });
    }
    let body_len = u64::from_be_bytes(*bytes.get(1..)?.first_chunk()?);
    Some(Header { flags: flags & KNOWN, header_len: MAX_HEADER, body_len })
}

/// Writes the header of a frame to the front of `out` and returns its length, 2 or 9.
///
/// Only [`MORE`] and [`COMMAND`] in `flags` count; [`LONG`] follows from `body_len`.
#[inline]
pub fn encode(flags: u8, body_len: u64, out: &mut [u8; MAX_HEADER]) -> usize {
    let flags = flags & (MORE | COMMAND);
    if let Ok(len) = u8::try_from(body_len) {
        out[0] = flags;
        out[1] = len;
        return SHORT_HEADER;
    }
    out[0] = flags | LONG;
    out[1..].copy_from_slice(&body_len.to_be_bytes());
    MAX_HEADER
}

/// Appends a whole frame; its body is the concatenation of `parts`.
pub fn append(flags: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let body_len: usize = parts.iter().map(|part| part.len()).sum();
    let mut header = [0; MAX_HEADER];
    let header_len = encode(flags, body_len as u64, &mut header);
    out.reserve(header_len + body_len);
    out.extend_from_slice(&header[..header_len]);
    for part in parts {
        out.extend_from_slice(part);
    }
}
