//! What a caller sends, and when it is shared rather than copied.

use pinnace_ring::{Body, NoMemory};

/// One frame that a caller sends.
pub enum Outgoing<'a> {
    /// Copied where it is small; large ones are put into a body first.
    Bytes(&'a [u8]),
    Body(Body),
}

impl Outgoing<'_> {
    pub fn data(&self) -> &[u8] {
        match self {
            Outgoing::Bytes(data) => data,
            Outgoing::Body(body) => body,
        }
    }

    /// Makes it one that can be shared by several pipes without a copy each, where that pays.
    pub fn share(&mut self) -> Result<(), NoMemory> {
        if let Outgoing::Bytes(data) = self
            && data.len() >= SHARE_MIN
        {
            *self = Outgoing::Body(Body::copy_of(data)?);
        }
        Ok(())
    }
}

/// Bytes from which on sharing beats copying.
const SHARE_MIN: usize = 1024;

/// Small bodies are copied, but for those with an owner: who gave the memory takes its return for a sign that the
/// message has left.
pub(super) fn goes_by_reference(body: &Body) -> bool {
    body.len() >= SHARE_MIN || (body.has_owner() && !body.is_empty())
}
