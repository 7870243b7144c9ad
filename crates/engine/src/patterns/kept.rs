//! A frame that was taken out of its queue before anybody asked for it.

use std::sync::Arc;

use pinnace_ring::{Body, Frame, NoMemory};

use crate::peer::About;
use crate::pipe::Pipes;

/// The frame. Its memory is used again for the next one.
#[derive(Default)]
pub(super) struct Kept {
    flags: u8,
    data: Vec<u8>,
    body: Option<Body>,
    about: Option<Arc<About>>,
}

impl Kept {
    pub(super) fn flags(&self) -> u8 {
        self.flags
    }

    /// Bytes that it holds in its own memory or by reference.
    pub(super) fn len(&self) -> usize {
        self.body.as_ref().map_or(self.data.len(), |body| body.len())
    }

    /// Keeps `frame`, with other flags, in place of what was kept before.
    pub(super) fn keep(&mut self, flags: u8, frame: Frame<'_>) -> Result<(), NoMemory> {
        match frame {
            Frame::Bytes { data, .. } => self.keep_bytes(flags, &[data]),
            Frame::Body { body, .. } => {
                self.flags = flags;
                self.body = body.take();
                Ok(())
            }
        }
    }

    /// Keeps a frame of these bytes, one part behind the other.
    pub(super) fn keep_bytes(&mut self, flags: u8, parts: &[&[u8]]) -> Result<(), NoMemory> {
        self.flags = flags;
        self.body = None;
        self.data.clear();
        self.data.try_reserve(parts.iter().map(|part| part.len()).sum()).map_err(|_| NoMemory)?;
        parts.iter().for_each(|part| self.data.extend_from_slice(part));
        Ok(())
    }

    /// Whose frame it is.
    pub(super) fn set_about(&mut self, about: Option<Arc<About>>) {
        self.about = about;
    }

    /// Hands it out; a body that `sink` leaves is let go by `pipes`.
    pub(super) fn hand(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) {
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
