//! SERVER and PEER: each single-frame message goes to the peer with the routing id that it carries, and received
//! messages carry the sender's (RFC 41, RFC 51).
//!
//! A routing id belongs to a pipe. A peer that connected to us has it for that connection. An endpoint that we
//! connect to has it from `connect` on and keeps it through reconnects. Sending blocks while the peer is at its
//! high-water mark, and is an error if the routing id is unknown. Multipart messages from peers are dropped and
//! counted.
//!
//! A SERVER talks to CLIENTs, a PEER to PEERs. A PEER learns the routing id of the peer that it connects to
//! (`Socket::connect_peer`).

use pinnace_ring::Frame;

use super::Pattern;
use crate::error::{Error, Invalid};
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::routing::{Fair, Numbers};

#[derive(Default)]
pub(super) struct Server {
    numbers: Numbers,
    fair: Fair,
}

impl Pattern for Server {
    fn attached(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.numbers.add(id);
        self.fair.add(id);
    }

    fn ended(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.numbers.release(id);
    }

    fn removed(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.numbers.remove(id);
        self.fair.remove(id);
    }

    fn readable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
    }

    fn writable(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        if more {
            return Err(Error::Invalid(Invalid::MultipartMessage));
        }
        let id = self.numbers.find(pipes.sending.routing_id).ok_or(Error::Unreachable)?;
        if !pipes.has_room(id) && !pipes.want_room(id) {
            return Err(Error::WouldBlock);
        }
        pipes.push(id, frame, false)?;
        pipes.commit(id);
        Ok(())
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        let id = self.fair.recv_single(pipes, sink)?;
        pipes.received.routing_id = self.numbers.number(id);
        self.numbers.recent = Some(id);
        Ok(false)
    }

    /// Always true, as in libzmq: whether there is room depends on the destination.
    fn can_send(&mut self, _pipes: &mut Pipes) -> bool {
        true
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        self.fair.choose_single(pipes).is_some()
    }

    fn routing_id(&self, id: PipeId) -> u32 {
        self.numbers.number(id)
    }

    fn find_peer(&self, routing_id: u32) -> Result<PipeId, Error> {
        self.numbers.find(routing_id).ok_or(Error::Unreachable)
    }
}
