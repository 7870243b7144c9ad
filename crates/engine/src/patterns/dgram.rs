//! DGRAM: datagrams, each with its peer's address in front.
//!
//! A message is two frames: the address, as "192.0.2.1:5555" or "[2001:db8::1]:5555", and the body. The socket has
//! one udp:// endpoint, like a PAIR. Delivery is not guaranteed.

use std::net::SocketAddr;

use pinnace_ring::Frame;

use super::Pattern;
use super::pair::Pair;
use crate::error::{Error, Invalid};
use crate::pipe::{Outgoing, PipeId, Pipes};

#[derive(Default)]
pub(super) struct Dgram {
    pair: Pair,
    /// The address was sent; the body is next.
    inside: bool,
}

impl Pattern for Dgram {
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.pair.attached(pipes, id);
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.pair.ended(pipes, id);
    }

    fn removed(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.pair.removed(pipes, id);
    }

    fn readable(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.pair.readable(pipes, id);
    }

    fn writable(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.pair.writable(pipes, id);
    }

    /// Errors: Invalid for a message that is not an address and a body.
    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        if more == self.inside || (more && !is_address(frame)) {
            return Err(Error::Invalid(Invalid::DatagramMessage));
        }
        self.pair.send(pipes, frame, more)?;
        self.inside = more;
        Ok(())
    }

    fn abort(&mut self, pipes: &mut Pipes) {
        self.inside = false;
        self.pair.abort(pipes);
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        self.pair.recv(pipes, sink)
    }

    fn can_send(&mut self, pipes: &mut Pipes) -> bool {
        self.pair.can_send(pipes)
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        self.pair.can_recv(pipes)
    }
}

fn is_address(frame: &Outgoing<'_>) -> bool {
    let bytes: &[u8] = match frame {
        Outgoing::Bytes(bytes) => bytes,
        Outgoing::Body(body) => body,
    };
    std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<SocketAddr>().is_ok())
}
