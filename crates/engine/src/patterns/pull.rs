//! PULL: receives fairly from the peers and sends nothing (RFC 30).

use pinnace_ring::Frame;

use super::Pattern;
use super::single::SingleSource;
use crate::error::Error;
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::routing::Fair;

#[derive(Default)]
pub(super) struct Pull {
    fair: Fair,
}

impl SingleSource for Pull {
    const SENDS: bool = false;

    #[inline(always)]
    fn source(&mut self, pipes: &mut Pipes) -> Option<PipeId> {
        self.fair.choose(pipes)
    }
}

impl Pattern for Pull {
    fn attached(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
    }

    fn ended(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    fn removed(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.remove(id);
    }

    fn readable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
    }

    fn writable(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    fn send(&mut self, _pipes: &mut Pipes, _frame: &mut Outgoing<'_>, _more: bool) -> Result<(), Error> {
        Err(Error::NotSupported)
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        self.fair.recv(pipes, sink).map(|(_, more)| more)
    }

    fn can_send(&mut self, _pipes: &mut Pipes) -> bool {
        false
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        self.source(pipes).is_some()
    }
}
