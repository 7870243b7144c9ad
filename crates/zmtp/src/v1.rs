//! Frame headers of ZMTP 1.0 (RFC 13, "The Framing Layer").
//!
//! A header is a length and a flags byte. The length counts the flags byte and the body, so it is never 0: one byte
//! up to 254, else 255 and eight bytes, big-endian. Only the flag MORE has a meaning; the others are ignored. As in
//! [`frame`](crate::frame), lengths are reported unchecked and the caller applies limits.
//!
//! ```
//! use pinnace_zmtp::v1;
//!
//! let header = v1::parse(b"\x06\x01hello")?.unwrap();
//! assert_eq!((header.has_more(), header.header_len, header.body_len), (true, 2, 5));
//! assert!(v1::parse(b"\0\0").is_err()); // not even room for the flags
//! # Ok::<(), pinnace_zmtp::Error>(())
//! ```

use crate::error::{Error, Misbehaviour};
use crate::frame::{Header, MORE};

/// The longest header, in bytes.
pub const MAX_HEADER: usize = 10;

const SHORT_HEADER: usize = 2;
const LONG_FOLLOWS: u8 = 255;

/// Parses the header at the front of `bytes`; `Ok(None)` if it is incomplete.
///
/// # Errors
/// The peer sent a length of 0. RFC 13 discards such a frame; libzmq closes the connection, and so should the
/// caller, because the framing is lost.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<Option<Header>, Error> {
    let (len, flags, header_len) = match *bytes {
        [] => return Ok(None),
        [LONG_FOLLOWS, a, b, c, d, e, f, g, h, flags, ..] => {
            (u64::from_be_bytes([a, b, c, d, e, f, g, h]), flags, MAX_HEADER)
        }
        [LONG_FOLLOWS, ..] => return Ok(None),
        [0, ..] => return Err(Misbehaviour::ZeroLengthFrame.into()),
        [_] => return Ok(None),
        [len, flags, ..] => (u64::from(len), flags, SHORT_HEADER),
    };
    let Some(body_len) = len.checked_sub(1) else { return Err(Misbehaviour::ZeroLengthFrame.into()) };
    Ok(Some(Header { flags: flags & MORE, header_len, body_len }))
}

/// Writes the header of a frame to the front of `out` and returns its length, 2 or 10.
///
/// Only MORE in `flags` counts. `body_len` is at most 2^64 - 2, which no body exceeds.
#[inline]
pub fn encode(flags: u8, body_len: u64, out: &mut [u8; MAX_HEADER]) -> usize {
    let len = body_len.saturating_add(1);
    if len < u64::from(LONG_FOLLOWS) {
        out[0] = len as u8;
        out[1] = flags & MORE;
        return SHORT_HEADER;
    }
    out[0] = LONG_FOLLOWS;
    out[1..9].copy_from_slice(&len.to_be_bytes());
    out[9] = flags & MORE;
    MAX_HEADER
}

/// Appends a whole frame; its body is the concatenation of `parts`.
pub(crate) fn append(flags: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let body_len: usize = parts.iter().map(|part| part.len()).sum();
    let mut header = [0; MAX_HEADER];
    let header_len = encode(flags, body_len as u64, &mut header);
    out.extend_from_slice(&header[..header_len]);
    for part in parts {
        out.extend_from_slice(part);
    }
}
