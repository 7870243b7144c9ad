//! The head of an HTTP/1.1 request or response, collected within limits, and header look-ups for both sides.
//!
//! `httparse` parses the complete head; it rejects folded headers and invalid bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use httparse::Header;
use sha1::{Digest, Sha1};

/// The longest request line or status line, in bytes.
pub const MAX_LINE: usize = 8 * 1024;
/// The longest head, first line and all headers, in bytes.
pub const MAX_HEAD: usize = 32 * 1024;
/// The maximum number of headers.
pub const MAX_HEADERS: usize = 100;

/// The GUID that a server appends to the client's key (RFC 6455, section 1.3).
const ACCEPT_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The received bytes of a head.
#[derive(Debug, Default)]
pub(super) struct Head {
    bytes: Vec<u8>,
    /// Where the current incomplete line begins.
    line: usize,
}

/// The state of a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gathered {
    Part,
    Whole,
    /// The first line is too long.
    LongLine,
    /// The head is too long.
    LongHead,
    /// A byte that is invalid in a head, or a head that begins with an empty line.
    Malformed,
}

impl Head {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes bytes up to the empty line that ends the head, and returns how many were used.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, Gathered) {
        let mut used = 0;
        while used < bytes.len() {
            let end = bytes[used..].iter().position(|&byte| byte == b'\n').map(|at| used + at + 1);
            let piece = &bytes[used..end.unwrap_or(bytes.len())];
            used += piece.len();
            let first = self.line == 0;
            let limit = if first { MAX_LINE + b"\r\n".len() } else { MAX_HEAD };
            let within = &piece[..piece.len().min(limit - self.bytes.len())];
            self.bytes.extend_from_slice(within);
            if !within.iter().copied().all(may_stand_in_head) {
                return (used, Gathered::Malformed);
            }
            if within.len() < piece.len() {
                return (used, if first { Gathered::LongLine } else { Gathered::LongHead });
            }
            if end.is_none() {
                break;
            }
            let line = &self.bytes[std::mem::replace(&mut self.line, self.bytes.len())..];
            match (line, first) {
                (b"\n" | b"\r\n", true) => return (used, Gathered::Malformed),
                (b"\n" | b"\r\n", false) => return (used, Gathered::Whole),
                _ => {}
            }
        }
        (used, Gathered::Part)
    }
}

/// Visible characters, spaces and tabs, line ends, and bytes above ASCII, which old clients send.
fn may_stand_in_head(byte: u8) -> bool {
    !byte.is_ascii_control() || matches!(byte, b'\r' | b'\n' | b'\t')
}

/// The values of all headers of this name, ignoring case.
pub(super) fn values<'h>(headers: &'h [Header<'h>], name: &'h str) -> impl Iterator<Item = &'h [u8]> {
    headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

/// The value of the header of this name, if there is exactly one.
pub(super) fn single<'h>(headers: &'h [Header<'h>], name: &'h str) -> Option<&'h [u8]> {
    let mut values = values(headers, name);
    values.next().filter(|_| values.next().is_none())
}

/// The elements of all headers of this name, parsed as comma-separated lists (RFC 9110, section 5.6.1).
pub(super) fn tokens<'h>(headers: &'h [Header<'h>], name: &'h str) -> impl Iterator<Item = &'h [u8]> {
    values(headers, name)
        .flat_map(|value| value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|token| !token.is_empty())
}

/// Whether a list contains this token, ignoring case.
pub(super) fn has_token(headers: &[Header<'_>], name: &str, token: &str) -> bool {
    tokens(headers, name).any(|other| other.eq_ignore_ascii_case(token.as_bytes()))
}

/// The `Sec-WebSocket-Key` for these random bytes.
pub(super) fn key(random: &[u8; 16]) -> String {
    STANDARD.encode(random)
}

/// Whether this is a `Sec-WebSocket-Key`: 16 bytes in Base64.
pub(super) fn is_key(key: &[u8]) -> bool {
    STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16)
}

/// The `Sec-WebSocket-Accept` for a key.
pub(super) fn accept(key: &[u8]) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(ACCEPT_GUID).finalize())
}
