//! CLIENT, CHANNEL, SCATTER and GATHER: DEALER, PAIR, PUSH and PULL whose messages have no parts (RFC 41, 52, 49).
//!
//! A message of several frames is refused when it is sent; what a peer sends in several frames is dropped and
//! counted.

use pinnace_ring::Frame;

use super::Pattern;
use super::fair::is_single;
use crate::error::Error;
use crate::pipe::{Outgoing, PipeId, Pipes};

/// A pattern that tells beforehand where its next frame comes from.
pub(super) trait Source: Pattern {
    /// Whether it sends at all.
    const SENDS: bool = true;

    /// The pipe that the next frame comes from.
    fn source(&mut self, pipes: &mut Pipes) -> Option<PipeId>;
}

#[derive(Default)]
pub(super) struct Single<P>(P);

impl<P: Source> Single<P> {
    /// The pipe that the next message of one frame comes from.
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

impl<P: Source> Pattern for Single<P> {
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

    /// Errors: Invalid, for a message of several frames; and those of the pattern within.
    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        if more && P::SENDS {
            return Err(Error::Invalid);
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
