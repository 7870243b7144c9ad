//! CLIENT, CHANNEL, SCATTER and GATHER: DEALER, PAIR, PUSH and PULL without multipart messages (RFC 41, 52, 49).
//!
//! Sending a multipart message is an error. Multipart messages from peers are dropped and counted.

use pinnace_ring::Frame;

use super::Pattern;
use crate::error::{Error, Invalid};
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::routing::is_single;

/// A pattern that can tell which pipe its next frame will come from.
pub(super) trait SingleSource: Pattern {
    /// False for a pattern that only receives.
    const SENDS: bool = true;

    /// The pipe of the next frame.
    fn source(&mut self, pipes: &mut Pipes) -> Option<PipeId>;
}

#[derive(Default)]
pub(super) struct Single<P>(P);

impl<P: SingleSource> Single<P> {
    /// The pipe of the next single-frame message.
    #[inline(always)]
    fn source(&mut self, pipes: &mut Pipes) -> Option<PipeId> {
        loop {
            let id = self.0.source(pipes)?;
            if is_single(pipes, id) {
                return Some(id);
            }
        }
    }
}

impl<P: SingleSource> Pattern for Single<P> {
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.0.attached(pipes, id);
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.0.ended(pipes, id);
    }

    fn removed(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.0.removed(pipes, id);
    }

    fn readable(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.0.readable(pipes, id);
    }

    fn writable(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.0.writable(pipes, id);
    }

    /// Errors: Invalid for a multipart message; those of the inner pattern.
    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        if more && P::SENDS {
            return Err(Error::Invalid(Invalid::MultipartMessage));
        }
        self.0.send(pipes, frame, more)
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        self.source(pipes);
        self.0.recv(pipes, sink)
    }

    fn can_send(&mut self, pipes: &mut Pipes) -> bool {
        self.0.can_send(pipes)
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        self.source(pipes).is_some()
    }
}
