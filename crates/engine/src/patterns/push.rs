//! PUSH: sends round robin to the peers and receives nothing (RFC 30). Blocks while all peers are at the high-water
//! mark.

use pinnace_ring::{Frame, MORE};

use super::Pattern;
use super::single::SingleSource;
use crate::drops::Reason;
use crate::error::Error;
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::routing::Balance;

#[derive(Default)]
pub(super) struct Push {
    balance: Balance,
}

impl SingleSource for Push {
    fn source(&mut self, _pipes: &mut Pipes) -> Option<PipeId> {
        None
    }
}

impl Pattern for Push {
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.balance.add(id);
        discard(pipes, id, Reason::Unwanted);
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.balance.remove(pipes, id);
    }

    fn removed(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.balance.remove(pipes, id);
    }

    fn readable(&mut self, pipes: &mut Pipes, id: PipeId) {
        discard(pipes, id, Reason::Unwanted);
    }

    fn writable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.balance.add(id);
    }

    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        self.balance.send(pipes, frame, more).map(|_| ())
    }

    fn abort(&mut self, pipes: &mut Pipes) {
        self.balance.rollback(pipes);
    }

    fn recv(&mut self, _pipes: &mut Pipes, _sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        Err(Error::NotSupported)
    }

    fn can_send(&mut self, pipes: &mut Pipes) -> bool {
        self.balance.can_send(pipes)
    }

    fn can_recv(&mut self, _pipes: &mut Pipes) -> bool {
        false
    }
}

/// Drops and counts all input of a pipe.
pub(super) fn discard(pipes: &mut Pipes, id: PipeId, reason: Reason) {
    let mut messages = 0;
    while !pipes.park(id) {
        messages += u64::from(pipes.pop(id, |frame| frame.flags() & MORE == 0) == Some(true));
    }
    pipes.count_drop(Some(id), reason, messages);
}
