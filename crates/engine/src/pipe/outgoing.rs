//! A frame that a caller sends, and whether it is shared or copied.

use pinnace_ring::{Body, NoMemory};

/// One frame that a caller sends.
pub enum Outgoing<'a> {
    /// Copied if small; large ones are put into a body first.
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

    /// Makes the frame a body that several pipes can share without copies, if its size makes that worthwhile.
    pub fn share(&mut self) -> Result<(), NoMemory> {
        if let Outgoing::Bytes(data) = self
            && data.len() >= SHARE_MIN
        {
            *self = Outgoing::Body(Body::copy_of(data)?);
        }
        Ok(())
    }
}

/// Frames of at least this many bytes are shared, not copied.
const SHARE_MIN: usize = 1024;

/// Small bodies are copied, except those with an owner: to the application, the call of its free function means that
/// the message has left.
pub(super) fn goes_by_reference(body: &Body) -> bool {
    body.len() >= SHARE_MIN || (body.has_owner() && !body.is_empty())
}
