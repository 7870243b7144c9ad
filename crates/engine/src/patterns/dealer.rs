//! DEALER: sends round robin to the peers and receives fairly from them (RFC 28).
//!
//! Each message goes whole to one peer; sending blocks while all peers are at the high-water mark. With
//! ZMQ_PROBE_ROUTER each new peer is sent an empty message, so that a ROUTER learns our routing id before the
//! application sends.

use pinnace_ring::Frame;

use super::Pattern;
use super::single::SingleSource;
use crate::error::Error;
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::routing::{Balance, Fair};

#[derive(Default)]
pub(super) struct Dealer {
    balance: Balance,
    fair: Fair,
    probe: bool,
}

impl SingleSource for Dealer {
    #[inline(always)]
    fn source(&mut self, pipes: &mut Pipes) -> Option<PipeId> {
        self.fair.choose(pipes)
    }
}

impl Pattern for Dealer {
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.balance.add(id);
        self.fair.add(id);
        if self.probe {
            probe(pipes, id);
        }
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.balance.remove(pipes, id);
    }

    fn removed(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.balance.remove(pipes, id);
        self.fair.remove(id);
    }

    fn readable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
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

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        self.fair.recv(pipes, sink).map(|(_, more)| more)
    }

    fn can_send(&mut self, pipes: &mut Pipes) -> bool {
        self.balance.can_send(pipes)
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        self.source(pipes).is_some()
    }

    fn configure(&mut self, options: &Options) {
        self.probe = options.probe_router;
    }
}

/// Sends an empty message, unless the pipe is in the middle of a message: that message serves as the probe.
pub(super) fn probe(pipes: &mut Pipes, id: PipeId) {
    let inside = pipes.get(id).is_none_or(|pipe| pipe.tx.queue.is_inside_message());
    if !inside && pipes.push(id, &Outgoing::Bytes(b""), false).is_ok() {
        pipes.commit(id);
    }
}
