//! Binding and connecting over udp: there is no connection to wait for, so that the link is there at once.

use std::sync::Arc;

use pinnace_ring::Limits;
use pinnace_zmtp::SocketType;

use super::endpoints::What;
use super::{Core, Socket};
use crate::endpoint::{Role, UdpEndpoint};
use crate::ends::{FarEnds, way};
use crate::error::Error;
use crate::link::{self, Codec, First, Link, Stream};
use crate::monitor::{self, At, Ends, Event};
use crate::peer::Peer;
use crate::pipe::{Far, Pipe};
use crate::reactor::Side;
use crate::transports::Udp;

impl Socket {
    /// With the lock open while a host name is looked up.
    pub(super) fn bind_datagrams(self, text: &str, endpoint: &UdpEndpoint) -> Result<(), Error> {
        let (first, options) = self.call(false, |core| {
            let first = match core.kind.socket_type {
                SocketType::Dgram => First::Address,
                SocketType::Dish => First::Group(None),
                _ => return Err(Error::TransportForType),
            };
            Ok((first, core.options.clone()))
        })?;
        let udp = Udp::bind(endpoint, &options)?;
        self.call(false, |core| core.join_datagrams(text, Role::Bind, udp, first))
    }

    /// The same for a sender.
    pub(super) fn connect_datagrams(self, text: &str, endpoint: &UdpEndpoint) -> Result<(), Error> {
        let options = self.call(false, |core| match core.kind.socket_type {
            SocketType::Radio => Ok(core.options.clone()),
            _ => Err(Error::TransportForType),
        })?;
        let udp = Udp::connect(endpoint, &options)?;
        let first = First::Group(Some(udp.at));
        self.call(false, |core| core.join_datagrams(text, Role::Connect, udp, first))
    }
}

impl Core {
    fn join_datagrams(&mut self, text: &str, role: Role, udp: Udp, first: First) -> Result<(), Error> {
        self.enter_reactor()?;
        let (id, token) = (self.hub.new_pipe(), self.io.token());
        let out = Limits { messages: self.options.sndhwm.into(), ahead_bytes: link::AHEAD_BYTES };
        let (tx, outgoing) = way(&self.context, out, false);
        let into = Limits { messages: self.options.rcvhwm.into(), ahead_bytes: 0 };
        let (incoming, rx) = way(&self.context, into, false);
        let peer = Peer::default();
        let at = format!("udp://{}", udp.at);
        let ends = match role {
            Role::Bind => Ends { local: at.clone(), remote: String::new(), accepted: true },
            Role::Connect => Ends { local: String::new(), remote: at.clone(), accepted: false },
        };
        let event = if role == Role::Bind { Event::Listening } else { Event::Connected };
        monitor::emit_fd(&self.hub, event, &udp.fd, At::Between(&ends));
        let config = self.owner().link_config(peer.version, &ends, token, 0, Side::Connected);
        let (stream, codec) = (Stream::plain(udp.fd), Codec::datagrams(first));
        let queues = FarEnds { outgoing, incoming };
        let link = Link::new(stream, self.hub.clone(), self.io.clone(), id, config, codec, queues);
        let link = Arc::new(link);
        let mut pipe = Pipe::new(tx, rx, Far::Link(Some(link.clone())), peer, true);
        // Nobody joins a group by a datagram: who listens takes what it wants.
        pipe.takes_all = true;
        self.pipes.insert(id, pipe);
        self.follow_marks(id);
        self.pattern.attached(&mut self.pipes, id);
        self.pattern.up(&mut self.pipes, id);
        if let Err(error) = self.hub.add_link(&link) {
            link.cut();
            return Err(error.into());
        }
        let what = What::Remote { token, bound: None, pipe: None }; // The link says whose it is.
        self.remember(text, if role == Role::Bind { at } else { text.to_owned() }, role, what);
        Ok(())
    }
}
