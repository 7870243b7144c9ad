//! A frame popped from its queue before the application receives it.

use std::sync::Arc;

use pinnace_ring::{Body, Frame, NoMemory};

use crate::peer::About;
use crate::pipe::Pipes;

/// The frame, in a buffer that is reused.
#[derive(Default)]
pub(crate) struct Kept {
    flags: u8,
    data: Vec<u8>,
    body: Option<Body>,
    about: Option<Arc<About>>,
}

impl Kept {
    pub(crate) fn flags(&self) -> u8 {
        self.flags
    }

    /// Length of the frame in bytes, owned or by reference.
    pub(crate) fn len(&self) -> usize {
        self.body.as_ref().map_or(self.data.len(), |body| body.len())
    }

    /// Stores `frame` with the given flags in place of the previous one.
    pub(crate) fn keep(&mut self, flags: u8, frame: Frame<'_>) -> Result<(), NoMemory> {
        match frame {
            Frame::Bytes { data, .. } => self.keep_bytes(flags, &[data]),
            Frame::Body { body, .. } => {
                self.flags = flags;
                self.body = body.take();
                Ok(())
            }
        }
    }

    /// Stores the concatenation of `parts`.
    pub(crate) fn keep_bytes(&mut self, flags: u8, parts: &[&[u8]]) -> Result<(), NoMemory> {
        self.flags = flags;
        self.body = None;
        self.data.clear();
        self.data.try_reserve(parts.iter().map(|part| part.len()).sum()).map_err(|_| NoMemory)?;
        parts.iter().for_each(|part| self.data.extend_from_slice(part));
        Ok(())
    }

    /// Records what is known of the peer that sent the frame.
    pub(crate) fn set_about(&mut self, about: Option<Arc<About>>) {
        self.about = about;
    }

    /// Passes the frame to `sink`. A body that `sink` does not take is dropped after the lock is released.
    pub(crate) fn hand(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) {
        let flags = self.flags;
        pipes.came_from_peer(self.about.take());
        if self.body.is_none() {
            return sink(Frame::Bytes { flags, data: &self.data });
        }
        sink(Frame::Body { flags, body: &mut self.body });
        if let Some(left) = self.body.take() {
            pipes.discard(left);
        }
    }
}
