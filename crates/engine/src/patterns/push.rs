//! PUSH: messages go to the peers in turn (RFC 30). It receives nothing, and waits while no peer takes more.

use pinnace_ring::{Frame, MORE};

use super::Pattern;
use super::balance::Balance;
use super::single::Source;
use crate::drops::Reason;
use crate::error::Error;
use crate::pipe::{Outgoing, PipeId, Pipes};

#[derive(Default)]
pub(super) struct Push {
    balance: Balance,
}

impl Source for Push {
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

/// Drops what a peer sends to a socket that does not want it.
pub(super) fn discard(pipes: &mut Pipes, id: PipeId, reason: Reason) {
    let mut messages = 0;
    while !pipes.park(id) {
        messages += u64::from(pipes.pop(id, |frame| frame.flags() & MORE == 0) == Some(true));
    }
    pipes.count_drop(Some(id), reason, messages);
}
