//! DEALER: messages go to the peers in turn, and come from them in turn (RFC 28).
//!
//! Each message goes whole to one peer; sending waits while no peer takes more. With ZMQ_PROBE_ROUTER each
//! peer gets an empty message when its connection is there, so that a ROUTER learns of us before we have
//! anything to say.

use pinnace_ring::Frame;

use super::Pattern;
use super::balance::Balance;
use super::fair::Fair;
use super::single::Source;
use crate::error::Error;
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};

#[derive(Default)]
pub(super) struct Dealer {
    balance: Balance,
    fair: Fair,
    probe: bool,
}

impl Source for Dealer {
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

/// Sends an empty message. A pipe that a message is just being put into is left alone: that message says as
/// much.
pub(super) fn probe(pipes: &mut Pipes, id: PipeId) {
    let inside = pipes.get(id).is_none_or(|pipe| pipe.tx.is_inside_message());
    if !inside && pipes.push(id, &Outgoing::Bytes(b""), false).is_ok() {
        pipes.commit(id);
    }
}
