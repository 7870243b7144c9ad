//! The body of a close frame (RFC 6455, sections 5.5.1 and 7.4).

use super::Violation;
use super::frame::MAX_CONTROL;

/// The reason that a side states for closing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Close {
    /// The status code; `None` if the frame's body is empty.
    pub code: Option<u16>,
    /// Text for people, at most 123 bytes.
    pub reason: String,
}

const CODE_LEN: usize = 2;

impl Close {
    pub(super) fn parse(body: &[u8]) -> Result<Close, Violation> {
        let Some((code, reason)) = body.split_first_chunk::<CODE_LEN>() else {
            return if body.is_empty() { Ok(Close::default()) } else { Err(Violation::CloseCode) };
        };
        let code = u16::from_be_bytes(*code);
        if !is_valid(code) {
            return Err(Violation::CloseCode);
        }
        let reason = std::str::from_utf8(reason).map_err(|_| Violation::CloseReason)?.to_owned();
        Ok(Close { code: Some(code), reason })
    }
}

/// The body for a code and a reason; the reason is truncated if it is too long.
pub(super) fn body(code: u16, reason: &str) -> Vec<u8> {
    let mut end = reason.len().min(MAX_CONTROL - CODE_LEN);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    [&code.to_be_bytes(), &reason.as_bytes()[..end]].concat()
}

/// Codes that may be sent: those assigned by RFC 6455 and the registry, and those for libraries and applications.
/// 1005, 1006 and 1015 are reserved and never sent.
fn is_valid(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
