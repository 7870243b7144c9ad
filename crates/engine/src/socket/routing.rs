//! Single peers, by the numbers that SERVER and PEER give them.

use std::sync::Arc;
use std::time::Duration;

use super::{Core, Socket};
use crate::error::Error;
use crate::pipe::{Far, PipeId};
use crate::reactor::Command;

impl Socket {
    /// Joins a group (`on`), or leaves it. Errors: NotSupported (not a DISH), Invalid (longer than 255 bytes,
    /// joined already, or not joined).
    pub fn join(self, group: &[u8], on: bool) -> Result<(), Error> {
        self.call(false, |core| core.pattern.join(&mut core.pipes, group, on))
    }

    /// Connects a PEER, and returns the number of the peer at the other end, which it keeps through reconnects;
    /// messages can be sent to it at once. Errors: NotSupported (not a PEER), Fault (with ZMQ_IMMEDIATE, which
    /// knows no peer before its connection), and those of `connect`.
    pub fn connect_peer(self, endpoint: &str) -> Result<u32, Error> {
        self.call(false, |core| {
            if core.kind.socket_type != pinnace_zmtp::SocketType::Peer {
                return Err(Error::NotSupported);
            }
            if core.options.immediate {
                return Err(Error::Fault);
            }
            let id = core.connect(endpoint)?.ok_or(Error::Fault)?;
            Ok(core.pattern.routing_id(id))
        })
    }

    /// Ends the connection to the peer with this number, from now on: what the kernel does not take of what was
    /// accepted for it is not sent, what came from it can still be received. Where we connected to it, its endpoint
    /// is disconnected; a peer that connected to us may come again, under another number. Errors: NotSupported
    /// (neither SERVER nor PEER), Unreachable.
    pub fn disconnect_peer(self, routing_id: u32) -> Result<(), Error> {
        self.call(false, |core| {
            let id = core.pattern.find_peer(routing_id)?;
            core.part_from(id);
            Ok(())
        })
    }
}

impl Core {
    /// Ends a pipe and what keeps it up.
    fn part_from(&mut self, id: PipeId) {
        let link = match self.pipes.get(id).map(|pipe| &pipe.far) {
            Some(Far::Link(link)) => link.clone(),
            Some(Far::Socket { .. }) => None,
            None => return,
        };
        let origin = link.as_ref().map(|link| link.config.origin);
        if let Some(attached) = self.take_connected(id, origin) {
            return self.detach(attached, Some(Duration::ZERO));
        }
        match link {
            Some(link) => {
                self.end_pipe(id);
                self.io.send(Command::EndLink(Arc::clone(&link)));
            }
            None => self.leave(id),
        }
    }
}
