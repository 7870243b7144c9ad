//! Single peers of a SERVER or PEER, by routing id.

use std::sync::Arc;
use std::time::Duration;

use super::{Core, Socket};
use crate::error::Error;
use crate::io::Command;
use crate::pipe::{Far, PipeId};

impl Socket {
    /// Joins (`on`) or leaves a group. Errors: NotSupported (not a DISH), Invalid (longer than 255 bytes, joined
    /// already, or not joined).
    pub fn join(self, group: &[u8], on: bool) -> Result<(), Error> {
        self.call(false, |core| core.pattern.join(&mut core.pipes, group, on))
    }

    /// Connects a PEER. Returns the routing id of the peer, which stays the same through reconnects; messages can be
    /// sent to it at once. Errors: NotSupported (not a PEER), Fault (with ZMQ_IMMEDIATE there is no peer before its
    /// connection), and those of `connect`.
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

    /// Ends the connection to the peer with this routing id at once. Accepted messages that the kernel does not take
    /// now are not sent; messages that have arrived can still be received. If we connected to the peer, its endpoint
    /// is disconnected. If the peer connected to us, it may come back under another id. Errors: NotSupported (neither
    /// SERVER nor PEER), Unreachable.
    pub fn disconnect_peer(self, routing_id: u32) -> Result<(), Error> {
        self.call(false, |core| {
            let id = core.pattern.find_peer(routing_id)?;
            core.part_from(id);
            Ok(())
        })
    }
}

impl Core {
    /// Ends a pipe, and the endpoint or connection behind it.
    fn part_from(&mut self, id: PipeId) {
        let link = match self.pipes.get(id).map(|pipe| &pipe.far) {
            Some(Far::Link(link)) => link.clone(),
            Some(Far::Socket { .. }) => None,
            None => return,
        };
        let origin = link.as_ref().map(|link| link.config.origin);
        if let Some(attached) = self.endpoints.take_connected(id, origin) {
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
